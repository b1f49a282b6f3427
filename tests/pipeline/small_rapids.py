"""A stand-in for the tier `rapids` that runs out of memory, without a GPU."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from mbe_stage.bicliques.enumerate import Progress
from mbe_stage.pipeline.backends.arrow.backend import ARROW
from mbe_stage.pipeline.errors import DeviceMemoryExhausted
from mbe_stage.pipeline.execution import tiers
from mbe_stage.pipeline.execution.steps import Steps
from mbe_stage.pipeline.execution.tiers import Tier

__all__ = ["STEPS", "SmallRapids", "install"]

STEPS = ("open", "ingest", "enumerate", "blocks")
"""Where it may refuse: the last one is after some bicliques have been handed out."""


@dataclass
class SmallRapids:
    """Stand-in for the tier's steps: those of the host, until it runs out of memory at `refuses_at`."""

    refuses_at: str
    n_refused: int = 0

    def ingest(self, config: Any, source: object | None = None) -> Any:
        self.refuse_at("ingest")
        return self.host.ingest(config, source)

    def enumerate_to(
        self, edges: Any, config: Any, run_path: Path, on_progress: Any = None, journal: Any = None
    ) -> Any:
        (run_path / "left-behind").write_text("of the attempt that failed")
        self._enumerate(on_progress)
        return self.host.enumerate_to(edges, config, run_path, on_progress, journal)

    def count(self, edges: Any, config: Any, on_progress: Any = None) -> Any:
        self._enumerate(on_progress)
        return self.host.count(edges, config, on_progress)

    def save_edges(self, edges: Any, directory: Path) -> None:
        self.host.save_edges(edges, directory)
        (directory / "of-the-device").write_text("of the attempt that failed")

    def load_edges(self, directory: Path) -> Any:
        return self.host.load_edges(directory)

    def _enumerate(self, on_progress: Any) -> None:
        # A block without bicliques does not count as a start.
        on_progress(Progress(0, 0.0, 0.0))
        self.refuse_at("enumerate")
        on_progress(Progress(5, 0.5, 0.1))
        self.refuse_at("blocks")

    def refuse_at(self, step: str) -> None:
        if step == self.refuses_at:
            self.n_refused += 1
            raise DeviceMemoryExhausted(f"the limit of 1 MiB is reached in {step}", may_pass=False)

    @property
    def host(self) -> Any:
        return Steps(ARROW, "reference")


def install(monkeypatch: pytest.MonkeyPatch, refuses_at: str) -> SmallRapids:
    """Let `auto` choose it as `rapids`."""
    steps, opened = SmallRapids(refuses_at), Tier.open

    @contextmanager
    def open_(tier: Tier, execution: Any) -> Iterator[Any]:
        if tier.name != tiers.RAPIDS:
            with opened(tier, execution) as others:
                yield others
            return
        steps.refuse_at("open")
        yield steps

    monkeypatch.setattr(tiers, "rapids_unavailable_reason", lambda *_: None)
    monkeypatch.setattr(Tier, "open", open_)
    monkeypatch.setattr(Tier, "compile_steps", lambda *_asked, **_wanted: ())
    monkeypatch.setattr(Tier, "_import_libraries", lambda _tier: None)
    return steps

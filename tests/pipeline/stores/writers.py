"""Writers of runs to any place: one, two at once, one that loses to another, one that is interrupted."""

from __future__ import annotations

import _thread
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

import pytest

from mbe_stage import pipeline
from mbe_stage.pipeline import Config, PublishError, RunResult
from mbe_stage.pipeline.stores.remote_staging import RemoteStaging

__all__ = ["FEWER", "PAIRS", "at_once", "come_before", "config", "interrupt_an_upload", "publish", "published"]

PAIRS = (
    ["ann", "ann", "bob", "bob", "bob", "cid", "cid"],
    ["bakery", "kiosk", "bakery", "kiosk", "zoo", "zoo", "kiosk"],
)
FEWER = (PAIRS[0][:5], PAIRS[1][:5])


class Listed(Protocol):
    """A place that lists its own content."""

    def listed(self) -> list[str]:
        """The names of all files or objects."""


def config(place: object, **output: object) -> Config:
    return Config.from_mapping(
        {"execution": {"engine": "reference"}, "output": {"directory": str(place), "report": False, **output}}
    )


def publish(place: object, edges: object = PAIRS, **output: object) -> RunResult:
    return pipeline.run(config(place, **output), edges)


def published(place: Listed) -> list[str]:
    """Return the ids of runs with a manifest, as listed by the place itself."""
    return [name.split("/")[-2] for name in place.listed() if name.endswith("/manifest.json")]


def at_once(out: str, rounds: int, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Run two writers that both check before either uploads; yield each round's winning run."""
    both_have_looked, outcomes = threading.Barrier(2), list[Any]()
    send = RemoteStaging._send

    def send_together(self: RemoteStaging, before: object) -> None:
        both_have_looked.wait(60)
        send(self, before)

    monkeypatch.setattr(RemoteStaging, "_send", send_together)

    def write(edges: object) -> None:
        try:
            outcomes.append(publish(out, edges).manifest.run_id)
        except PublishError as error:
            outcomes.append(error)

    for _ in range(rounds):
        outcomes.clear()
        writers = [threading.Thread(target=write, args=(edges,)) for edges in (PAIRS, FEWER)]
        for writer in writers:
            writer.start()
        for writer in writers:
            writer.join()
        assert sorted(isinstance(each, str) for each in outcomes) == [False, True], outcomes
        lost, won = sorted(outcomes, key=lambda each: isinstance(each, str))
        assert "another run was published while this one was uploaded; nothing was published" in str(lost)
        yield won


def come_before(out: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Publish another run when the next writer is about to upload its own."""
    send = RemoteStaging._send

    def after_another(self: RemoteStaging, before: object) -> None:
        monkeypatch.setattr(RemoteStaging, "_send", send)
        publish(out, FEWER)
        send(self, before)

    monkeypatch.setattr(RemoteStaging, "_send", after_another)


def interrupt_an_upload(objects: type, monkeypatch: pytest.MonkeyPatch) -> None:
    """Send Ctrl-C while a table is uploaded by this class of objects."""
    upload = objects._upload  # type: ignore[attr-defined]

    def interrupted(self: Any, path: Path, name: str, stop: threading.Event, *rest: object) -> None:
        if name.endswith("size_histogram.parquet"):
            _thread.interrupt_main()
            stop.wait(60)
        upload(self, path, name, stop, *rest)

    monkeypatch.setattr(objects, "_upload", interrupted)

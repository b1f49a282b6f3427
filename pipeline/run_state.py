"""The run of this process as log lines and metrics report it. A process does one command or flow run at a time."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any


@dataclass(slots=True)
class RunState:
    """The state of the current run."""

    step: str = ""  # after an error, where it happened
    problem: str = ""
    run: str | None = None  # provisional until it is published
    progress: Any = None  # the latest, as `mbe_stage.stream.Progress`
    result: Any = None  # Manifest or CountResult, once complete; None if there was nothing to do
    start: float = field(default_factory=time.time)


state = RunState()


def begin(step: str) -> None:
    """Forget the run before."""
    global state
    state = RunState(step)


@contextmanager
def at_step(step: str) -> Iterator[None]:
    """Name the step within the context, or of the decorated function. After an error the step stays."""
    before, state.step = state.step, step
    yield
    state.step = before


def counts() -> dict[str, float | None]:
    """Return the progress of the search for a log line; empty before it."""
    now = state.progress
    return {} if now is None else {"found": now.n_found, "share": now.share, "seconds_left": now.seconds_left}

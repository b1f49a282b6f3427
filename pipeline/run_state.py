"""The run of this process as log lines and metrics report it: its step, id, progress and result.

A process does one command or flow run at a time. Nothing but reports depends on this.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any


@dataclass(slots=True)
class RunState:
    """The state of the current run.

    Attributes
    ----------
    step : str
        What is being done; after an error, where it happened.
    problem : str
        Empty until the configuration is read.
    run : str or None
        Id of the run; provisional until it is published.
    progress : mbe_stage.stream.Progress or None
        The latest.
    result : Manifest, CountResult or None
        None until the results are complete, and if nothing was done.
    start : float
        In seconds since 1970.
    """

    step: str = ""
    problem: str = ""
    run: str | None = None
    progress: Any = None
    result: Any = None
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


def fields_of(progress: Any) -> dict[str, float | int | None]:
    """Return the values of a search's progress for a log line."""
    share = progress.work_done if progress.expected is None else progress.share
    left = progress.seconds_left
    return {
        "found": progress.n_found,
        "share": None if share is None else round(share, 6),
        "seconds": round(progress.seconds, 3),
        "seconds_left": None if left is None else round(left, 3),
    }

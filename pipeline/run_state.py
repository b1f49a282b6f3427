"""The current run of this process, for log lines and metrics. A process does one command or flow run at a time."""

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
    part: str = ""  # of the step, such as "ordering 2,000,000 edges"
    n_edges_read: int = 0
    reading_since: float = 0.0


state = RunState()


def begin(step: str) -> None:
    """Forget the previous run, and begin at a step."""
    global state
    state = RunState(step)


@contextmanager
def at_step(step: str) -> Iterator[None]:
    """Name the step within the context or the decorated function. After an error the step stays."""
    before, state.step = state.step, step
    yield
    state.step = before


@contextmanager
def at_part(part: str = "") -> Iterator[None]:
    """Name the part of the step within the context; without a name, the number of edges read is shown instead."""
    now, before = state, state.part
    now.part = part
    try:
        yield
    finally:
        now.part, now.n_edges_read = before, now.n_edges_read if part else 0


def count_edges_read(n: int) -> None:
    """Count edges while a reader reads them."""
    if not state.n_edges_read:
        state.reading_since = time.perf_counter()
    state.n_edges_read += n


def part_text() -> str:
    """Return the part of the step; empty while edges are read."""
    return "" if state.n_edges_read else state.part


def reading_text() -> str:
    """Return the number of edges read or the part of the step, and the edges per second so far; empty without edges."""
    if not state.n_edges_read:
        return ""
    seconds = time.perf_counter() - state.reading_since
    rate = f", {state.n_edges_read / seconds:,.0f}/s" if seconds > 0 else ""
    return f"{state.part or f'{state.n_edges_read:,} edges'}{rate}"


def counts() -> dict[str, float | None]:
    """Return the progress of the search for a log line; empty before it."""
    now = state.progress
    return {} if now is None else {"found": now.n_found, "share": now.share, "seconds_left": now.seconds_left}

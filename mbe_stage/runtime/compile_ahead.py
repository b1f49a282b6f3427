"""Compile the code of a run before it begins: with progress reports, and several functions in parallel.

Numba holds a lock while it compiles, so threads gain nothing. Other processes compile and save the machine code in the
cache (`code_cache`), and this process loads it. It compiles what they could not.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from mbe_stage.options import Execution
from mbe_stage.repeating import repeated
from mbe_stage.runtime.code_cache import can_keep

log = logging.getLogger(__name__)

# For less compiling than this, starting processes costs more than it saves.
_WORTH_PROCESSES = 4.0
# More processes hardly help: the largest functions take as long as many small ones.
_MOST_PROCESSES = 6
_NOTE_SECONDS = 1.0
_LINE_SECONDS = 1.5
# Compiling that takes longer is logged as a warning.
_SILENT_SECONDS = 3.0


@dataclass(frozen=True, slots=True)
class CompileStep:
    """One piece of code to compile.

    Attributes
    ----------
    what : str
        Its name; steps with the same name are the same step.
    is_loaded : callable
        True if this process has loaded the machine code.
    is_kept : callable
        True if the cache has the code for this machine, so that `compile` only loads it.
    compile : callable
        Loads the machine code, or compiles and caches it. It is pickled, and may be called in another process with the
        same environment: a function of a module, or a `functools.partial` of one.
    seconds : float
        Approximate time to compile; long steps begin first.
    """

    what: str
    is_loaded: Callable[[], bool]
    is_kept: Callable[[], bool]
    compile: Callable[[], object]
    seconds: float = 0.5


@dataclass(frozen=True, slots=True)
class CompileProgress:
    """Progress of compiling: steps done, all steps, and the seconds since it began."""

    done: int
    total: int
    seconds: float

    @property
    def is_over(self) -> bool:
        """True if this is the last report."""
        return self.done == self.total

    def __str__(self) -> str:
        return f"compiling the engine for this processor, once: {min(self.done + 1, self.total)} of {self.total}"


def compile_ahead(
    steps: Sequence[CompileStep],
    on_progress: Callable[[CompileProgress], None] | None = None,
    *,
    processes: int | None = None,
    beside: Callable[[], object] | None = None,
) -> dict[str, float]:
    """Compile the steps that are not cached, and load all of them.

    Parameters
    ----------
    on_progress : callable, optional
        Called once a second during compiling, from a separate thread; by default log lines are written.
    processes : int, optional
        Number of other processes that compile; 0 for none. By default one per core, at most six.
    beside : callable, optional
        Work that this process does while others compile; not called if no other process compiles.

    Returns
    -------
    dict
        Seconds of the step ``load``, and of the step ``compile`` if something was compiled.
    """
    start = loading = time.perf_counter()
    waiting = [step for step in steps if not step.is_loaded()]
    missing = sorted((step for step in waiting if not step.is_kept()), key=lambda step: -step.seconds)
    if missing:
        count = _Count(len(missing))
        with _reported(count, on_progress or log_lines(), start):
            _compile(missing, _process_count(missing) if processes is None else processes, count, beside)
        loading = time.perf_counter()
    for step in waiting:
        if not step.is_loaded():
            step.compile()
    seconds = {"load": time.perf_counter() - loading}
    return seconds | {"compile": loading - start} if missing else seconds


def summed(*parts: Mapping[str, float]) -> dict[str, float]:
    """Add up seconds by step, in order of first occurrence."""
    steps: dict[str, float] = {}
    for part in parts:
        for step, seconds in part.items():
            steps[step] = steps.get(step, 0.0) + seconds
    return steps


def load_kept(steps: Sequence[CompileStep]) -> None:
    """Load the code that is cached but not loaded yet; leave the rest."""
    for step in steps:
        if not step.is_loaded() and step.is_kept():
            step.compile()


def _process_count(missing: Sequence[CompileStep]) -> int:
    n = min(Execution().worker_count, _MOST_PROCESSES, len(missing))
    return n if n > 1 and sum(step.seconds for step in missing) >= _WORTH_PROCESSES else 0


def _compile(
    missing: Sequence[CompileStep], processes: int, count: _Count, beside: Callable[[], object] | None
) -> None:
    left = [step.compile for step in missing]
    if processes and can_keep():
        from mbe_stage.runtime.compile_processes import compile_in_processes

        left = compile_in_processes(left, processes, count.up, beside)
    for compile_ in left:
        compile_()
        count.up()


class _Count:
    """Thread-safe count of the steps done."""

    def __init__(self, total: int) -> None:
        self.total = total
        self.done = 0
        self._lock = threading.Lock()

    def up(self) -> None:
        with self._lock:
            self.done += 1


@contextmanager
def _reported(count: _Count, on_progress: Callable[[CompileProgress], None], start: float) -> Iterator[None]:
    """Report now and every second until the context ends."""
    with repeated(
        lambda: on_progress(CompileProgress(count.done, count.total, time.perf_counter() - start)), _NOTE_SECONDS
    ):
        yield
    on_progress(CompileProgress(count.total, count.total, time.perf_counter() - start))


def log_lines() -> Callable[[CompileProgress], None]:
    """Report in log lines: at once, then every 1.5 seconds; the first one after three seconds is a warning."""
    last, level = float("-inf"), logging.WARNING

    def report(progress: CompileProgress) -> None:
        nonlocal last, level
        if progress.is_over:
            # The next series of reports begins at 0 seconds.
            last = float("-inf")
            # If the code could not be saved, a warning has been logged.
            log.info("compiled in %.1f s%s", progress.seconds, ": kept for later runs" if can_keep() else "")
        elif progress.seconds - last >= _LINE_SECONDS:
            last = progress.seconds
            is_long = progress.seconds >= _SILENT_SECONDS
            log.log(level if is_long else logging.INFO, "%s, %.0f s", progress, progress.seconds)
            level = logging.INFO if is_long else level

    return report

"""Samples taken beside a search, in one thread: how many results there will be, for a small part of the cores' time."""

from __future__ import annotations

import importlib
import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol, cast

from mbe_stage.forecast import Outlook
from mbe_stage.options import Execution
from mbe_stage.problem import Problem
from mbe_stage.runtime.compile_ahead import CompileStep

__all__ = ["CORES_SHARE", "SAMPLED_ENGINE", "SPENT", "Sampler", "outlook_beside", "paced", "sampler_of"]

log = logging.getLogger(__name__)

CORES_SHARE = 0.02
"""Part of the time of all cores that sampling may take."""

SAMPLED_ENGINE = "cpu"
"""Beside this one; preparing the graph for the CPU takes much longer than a GPU takes to search most graphs."""

SPENT = "sampling took %.3f s of a core"
"""What the log says, for those who debug, when a sampler has ended."""

# Most searches are over before.
_FIRST_SECONDS = 3.0
# Beside many cores: at most so much of one.
_MOST_OF_ONE = 0.5
# So long it works before it rests: long enough for what a rest costs, short enough to be asked to end.
_STINT_SECONDS = 0.02
# How long the end of a search waits for a sampler that is in the middle of a step.
_PATIENCE = 1.0


class Sampler(Protocol):
    """A module that knows how many results a problem will have, better and better."""

    def compile_steps(self) -> Sequence[CompileStep]:
        """Compile what sampling needs beside the engine ``cpu``."""

    def memory_bytes(self, graph: Any, execution: Execution) -> int:
        """Bytes that `outlooks` takes beside the engine's memory budget; 0 if it does not sample."""

    def outlooks(self, graph: Any, query: Any, execution: Execution, goes_on: Callable[[], bool]) -> Iterator[Outlook]:
        """Each from more samples than the one before, on a graph in host memory.

        It calls `goes_on` between any two short steps, which lets it wait where it has worked enough for now, and ends
        where the answer is False.
        """


def sampler_of(problem: Problem) -> Sampler | None:
    """The sampler of a problem, imported now; None where it has none."""
    return None if problem.sampler is None else cast(Sampler, importlib.import_module(problem.sampler))


@contextmanager
def outlook_beside(
    sampled: Callable[[Callable[[], bool]], Iterator[Outlook]],
    n_cores: int,
    seconds_before: float = 0.0,
    is_over: threading.Event | None = None,
) -> Iterator[Callable[[], Outlook | None]]:
    """Sample in a thread of its own until the context ends; what the context gives tells the newest outlook.

    At first nothing is known. Where the sampler ends without a word, or no thread can be had for it, it is None from
    then on. One that fails ends, with a line in the log that says why; whatever was told stays.

    Parameters
    ----------
    sampled : callable
        Takes `goes_on` and gives outlooks, as `Sampler.outlooks` does.
    seconds_before : float
        What preparing the search took, and may cost here once more: it begins when that much is within its share.
    is_over : Event, optional
        Set by whoever wants the sampler to end before the context does, which then only waits for it.
    """
    is_over = is_over or threading.Event()
    nothing_known = Outlook.unknown()
    newest: Outlook | None = nothing_known

    def sample() -> None:
        nonlocal newest
        try:
            if is_over.wait(max(_FIRST_SECONDS, seconds_before / (CORES_SHARE * n_cores))):
                return
            for outlook in sampled(paced(n_cores, is_over)):
                newest = outlook
        except Exception as error:  # noqa: BLE001 - the search goes on; nobody knows how much of it is left
            log.info("no more samples of how many results there will be: %s: %s", type(error).__name__, error)
        finally:
            log.debug(SPENT, time.thread_time())
        if newest is nothing_known:
            newest = None

    thread = threading.Thread(target=sample, name="outlook", daemon=True)
    try:
        try:
            thread.start()
        except RuntimeError as error:
            # A machine that is short of threads can go on searching.
            log.info("no samples of how many results there will be: %s", error)
            newest = None
        yield lambda: newest
    finally:
        is_over.set()
        # One that was not started cannot be waited for.
        if thread.is_alive():
            thread.join(_PATIENCE)


def paced(n_cores: int, is_over: threading.Event, spent: Callable[[], float] = time.thread_time) -> Callable[[], bool]:
    """A function for a sampler to call between its steps: waits for its share of the cores' time, tells if to go on.

    Parameters
    ----------
    is_over : Event
        Ends any waiting.
    spent : callable
        Seconds of a processor that this thread has had.
    """
    rest = 1.0 / min(_MOST_OF_ONE, CORES_SHARE * n_cores) - 1.0
    last = spent()

    def goes_on() -> bool:
        nonlocal last
        worked = spent() - last
        if worked >= _STINT_SECONDS:
            is_over.wait(worked * rest)
            last = spent()
        return not is_over.is_set()

    return goes_on

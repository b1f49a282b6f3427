"""Sample the number of results beside a search, in one thread, for a small part of the cores' time."""

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

log = logging.getLogger(__name__)

CORES_SHARE = 0.02
"""Share of the time of all cores that sampling may take."""

SAMPLED_ENGINE = "cpu"
"""The engine that is sampled. A GPU searches most graphs faster than a CPU prepares the samples."""

SPENT = "sampling took %.3f s of a core"
"""Debug log line at the end of a sampler."""

# Most searches end before.
_FIRST_SECONDS = 3.0
# With many cores: at most this share of one.
_MOST_OF_ONE = 0.5
# Work before a rest: long compared with the cost of a rest, short enough to end soon on request.
_STINT_SECONDS = 0.02
# Longest wait at the end of a search for a sampler in the middle of a step.
_PATIENCE = 1.0
# Peak of the arrays of a sampler, measured on real graphs, in multiples of the graph's bytes; and its largest share of
# the engine's memory budget.
_TIMES_THE_GRAPH, _PART_OF_THE_BUDGET = 6, 1 / 4


class Sampler(Protocol):
    """A module that estimates the number of results of a problem, better and better."""

    def compile_steps(self) -> Sequence[CompileStep]:
        """Compile what sampling needs beside the engine ``cpu``."""

    def outlooks(self, graph: Any, query: Any, execution: Execution, goes_on: Callable[[], bool]) -> Iterator[Outlook]:
        """Yield outlooks, each from more samples than the last, for a graph in host memory.

        It calls `goes_on` between short steps. The call waits if it has worked enough for now; False means to end. It
        takes `memory_bytes` beside the engine's memory budget, and does not sample if that is 0.
        """


def memory_bytes(graph: Any, execution: Execution) -> int:
    """Bytes of sampling beside the engine's budget, at most a quarter of it; 0 if that is too little."""
    needed = _TIMES_THE_GRAPH * int(graph.nbytes)
    return needed if needed <= _PART_OF_THE_BUDGET * execution.memory_budget_bytes else 0


def sampler_of(problem: Problem) -> Sampler | None:
    """Import the sampler of a problem; None if it has none."""
    return None if problem.sampler is None else cast(Sampler, importlib.import_module(problem.sampler))


@contextmanager
def outlook_beside(
    sampled: Callable[[Callable[[], bool]], Iterator[Outlook]],
    n_cores: int,
    seconds_before: float = 0.0,
    is_over: threading.Event | None = None,
) -> Iterator[Callable[[], Outlook | None]]:
    """Sample in a separate thread until the context ends. The context gives a function for the newest outlook.

    At first nothing is known. The outlook is None if the sampler ends without one, or gets no thread. If a sampler
    fails, a log line says why, and the last outlook stays.

    Parameters
    ----------
    sampled : callable
        Takes `goes_on` and yields outlooks, as `Sampler.outlooks` does.
    seconds_before : float
        Time taken to prepare the search, which sampling repeats: it begins when that is within its share.
    is_over : Event, optional
        Ends the sampler before the context ends, which then only waits for it.
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
        except Exception as error:  # noqa: BLE001 - the search continues without a forecast
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
            # Without a thread the search continues.
            log.info("no samples of how many results there will be: %s", error)
            newest = None
        yield lambda: newest
    finally:
        is_over.set()
        # A thread that was not started cannot be joined.
        if thread.is_alive():
            thread.join(_PATIENCE)


def paced(n_cores: int, is_over: threading.Event, spent: Callable[[], float] = time.thread_time) -> Callable[[], bool]:
    """Return a function for a sampler to call between its steps: it waits, and returns True to continue.

    Parameters
    ----------
    is_over : Event
        Ends any waiting.
    spent : callable
        Processor seconds used by this thread.
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

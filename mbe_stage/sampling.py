"""Estimate the number of results by sampling beside a search, in one thread, with a small part of the cores' time."""

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
"""The engine with sampling. A GPU searches most graphs faster than a CPU prepares the samples."""

SPENT = "sampling took %.3f s of a core"
"""Debug log line at the end of a sampler."""

# Sampling begins after this time; most searches end before.
_FIRST_SECONDS = 3.0
# Largest share of one core, for machines with many cores.
_MOST_OF_ONE = 0.5
# Working time before a rest: long compared with the cost of a rest, short enough to end soon on request.
_STINT_SECONDS = 0.02
# Longest wait for a sampler at the end of a search.
_PATIENCE = 1.0
# Measured peak of a sampler's arrays, in multiples of the graph's bytes; and its largest share of the engine's budget.
_TIMES_THE_GRAPH, _PART_OF_THE_BUDGET = 6, 1 / 4


class Sampler(Protocol):
    """A module that estimates the number of results of a problem, with growing precision."""

    def compile_steps(self) -> Sequence[CompileStep]:
        """Return the steps to compile for sampling beside those of the engine ``cpu``."""

    def outlooks(self, graph: Any, query: Any, execution: Execution, goes_on: Callable[[], bool]) -> Iterator[Outlook]:
        """Yield outlooks, each from more samples than the last, for a graph in host memory.

        It calls `goes_on` between short steps. The call waits if sampling has had its share of time; False means to
        end. Sampling may use `memory_bytes` beside the engine's memory budget; if that is 0, it does not sample.
        """


def memory_bytes(graph: Any, execution: Execution) -> int:
    """Return the bytes that sampling may use beside the engine's budget, at most a quarter of it; 0 if too few."""
    needed = _TIMES_THE_GRAPH * int(graph.nbytes)
    return needed if needed <= _PART_OF_THE_BUDGET * execution.memory_budget_bytes else 0


def sampler_of(problem: Problem) -> Sampler | None:
    """Import a problem's sampler; None if it has none."""
    return None if problem.sampler is None else cast(Sampler, importlib.import_module(problem.sampler))


@contextmanager
def outlook_beside(
    sampled: Callable[[Callable[[], bool]], Iterator[Outlook]],
    n_cores: int,
    seconds_before: float = 0.0,
    is_over: threading.Event | None = None,
) -> Iterator[Callable[[], Outlook | None]]:
    """Sample in a separate thread until the context ends; yield a function that returns the newest outlook.

    At first the outlook is unknown. It is None if the sampler ends without one, or no thread could be started. If a
    sampler fails, the reason is logged, and the last outlook stays.

    Parameters
    ----------
    sampled : callable
        Takes `goes_on` and yields outlooks, as `Sampler.outlooks` does.
    seconds_before : float
        Time taken to prepare the search. Sampling repeats this preparation, so it waits until that is within its share.
    is_over : Event, optional
        Ends the sampler before the context ends; leaving the context then only waits for it.
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
    """Return a function for a sampler to call between steps: it waits as needed, and returns True to continue.

    Parameters
    ----------
    is_over : Event
        Ends any wait.
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

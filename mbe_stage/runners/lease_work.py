"""What a worker of a cluster does: the roots that it was lent, for a while, and then brings back what it found.

Everything here runs in a worker's process, and is called by its name from another.
"""

from __future__ import annotations

import pickle
import platform
import signal
import threading
import time
from collections import deque
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from mbe_stage.compile_ahead import compile_ahead
from mbe_stage.engines import get_engine
from mbe_stage.errors import MemoryBudgetExceeded
from mbe_stage.options import Execution
from mbe_stage.tasks import Task
from mbe_stage.worker_pool import Barrier

__all__ = [
    "Finished",
    "Terms",
    "do_lease",
    "end_job",
    "hand_over",
    "ignore_interrupts",
    "keep_graph",
    "software",
    "stop_job",
]

_PACKAGES = ("mbe-stage", "numba", "numpy")


@dataclass(frozen=True, slots=True)
class Terms:
    """On what terms roots are lent.

    Attributes
    ----------
    seconds : float
        For so long; then the roots that were begun are finished, and the rest is brought back. Engines that know no
        barrier finish all of them.
    most_bytes : int
        Likewise when so much was found.
    """

    seconds: float
    most_bytes: int


@dataclass(frozen=True, slots=True)
class Finished:
    """What a worker brings back.

    Attributes
    ----------
    blocks : list of bytes
        Pickled, all that was found below the roots that were finished.
    n_found : int
        Results in them.
    remaining : tuple of Task
        The roots that were not.
    seconds : float
        How long it was at it, compiling left out.
    device : str
        What the engine ran on.
    """

    blocks: list[bytes]
    n_found: int
    remaining: tuple[Task, ...]
    seconds: float
    device: str


@dataclass(slots=True)
class _Job:
    """What a worker keeps of a job between leases, and what it was told meanwhile."""

    graph: Any
    is_stopped: threading.Event = field(default_factory=threading.Event)
    hands_over: threading.Event = field(default_factory=threading.Event)


_JOBS: dict[str, _Job] = {}
# A lease of one of these came late. No more than those of the last searches can.
_ENDED: deque[str] = deque(maxlen=1000)


def do_lease(
    job: str,
    problem: str,
    engine: str,
    query: Any,
    execution: Execution,
    detail: Any,
    tasks: Sequence[Task],
    terms: Terms,
) -> Finished | None:
    """The work below some roots; None where the job was stopped meanwhile, or this worker does not have its graph.

    Parameters
    ----------
    job : str
        By which leases of the same graph and query know each other.
    problem, engine : str
        Their names.
    query, detail
        As the problem has them.
    execution : Execution
        Budgets are the worker's.
    tasks : sequence of Task
    terms : Terms

    Raises
    ------
    EngineUnavailable
        The engine cannot run on this worker.
    MemoryBudgetExceeded
        It needs more memory than its budget, or what was found below roots that have to be finished together does.
    """
    known = _JOBS.get(job)
    if known is None:
        return None
    known.hands_over.clear()
    worker = get_engine(problem, engine)
    compile_ahead(worker.compile_steps(query, detail))
    barrier = Barrier() if getattr(worker, "TAKES_BARRIER", False) else None
    asked = {} if barrier is None else {"barrier": barrier}
    begun, n_bytes, n_found = time.perf_counter(), 0, 0
    found: list[bytes] = []
    remaining: tuple[Task, ...] = ()
    with closing(worker.run(known.graph, query, execution, detail, tasks, **asked)) as blocks:  # type: ignore[type-var]
        for block in blocks:
            if known.is_stopped.is_set():
                return None
            left = getattr(block, "remaining", None)
            if left is not None:
                remaining = left
                break
            # One without results may hold sums.
            found.append(pickle.dumps(block, protocol=5))
            n_found += len(block)
            n_bytes += len(found[-1])
            _check_bytes(n_bytes, execution)
            is_over = time.perf_counter() - begun > terms.seconds or n_bytes > terms.most_bytes
            if barrier is not None and (is_over or known.hands_over.is_set()):
                barrier.ask()
    return Finished(found, n_found, remaining, time.perf_counter() - begun, worker.device(execution))


def _check_bytes(n_bytes: int, execution: Execution) -> None:
    if n_bytes > execution.memory_budget_bytes:
        raise MemoryBudgetExceeded(
            f"what a worker found below roots that have to be finished together takes {n_bytes:,} bytes and more: "
            f"expected at most its budget of {execution.memory_budget_bytes:,}; give it more memory, or have one "
            "machine do the work (runner local), which hands results on as they are found",
            needed_bytes=2 * n_bytes,
        )


def keep_graph(job: str, graph: bytes) -> bool:
    """Have a worker keep the graph of a job, until it ends or the next one begins; True is its answer.

    Parameters
    ----------
    job : str
    graph : bytes
        Pickled. What Dask unpickles itself may share read-only memory with a message.
    """
    if job not in _ENDED:
        # Of others nobody may be left to say the end. One that goes on gets its graph again.
        _JOBS.clear()
        _JOBS[job] = _Job(pickle.loads(graph))
    return True


def hand_over(job: str) -> None:
    """Have a worker bring back what it has not begun, for somebody who has nothing to do."""
    if job in _JOBS:
        _JOBS[job].hands_over.set()


def stop_job(job: str) -> None:
    """Have a worker give up what it is at."""
    if job in _JOBS:
        _JOBS[job].is_stopped.set()


def end_job(job: str) -> None:
    """Have a worker give up what it is at, and let go of what it keeps of the job."""
    _ENDED.append(job)
    stop_job(job)
    _JOBS.pop(job, None)


def software() -> dict[str, str]:
    """The versions that have to be the same wherever results are put together."""
    found = {"python": ".".join(platform.python_version_tuple()[:2])}
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "not installed"
    return found


def ignore_interrupts() -> None:
    """Leave Ctrl-C to whoever started this process: it ends the workers in order."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.SIG_IGN)

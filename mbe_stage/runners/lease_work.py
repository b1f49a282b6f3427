"""Work of a cluster's worker: search the roots it was lent for a while, then return the results.

All functions here run in a worker's process, and are called by name from another.
"""

from __future__ import annotations

import asyncio
import pickle
import platform
import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import CancelledError, Future
from contextlib import closing
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import Any, ClassVar

from mbe_stage.engines import get_engine
from mbe_stage.errors import MemoryBudgetExceeded
from mbe_stage.graphs.bipartite import BipartiteCSR
from mbe_stage.options import Execution
from mbe_stage.runners.parts import PartFailed, PartMaker
from mbe_stage.runtime.compile_ahead import compile_ahead, load_kept
from mbe_stage.search.cpu.pool import Barrier
from mbe_stage.tasks import Task

# The last writes the parts.
_PACKAGES = ("mbe-stage", "numba", "numpy", "pyarrow")


@dataclass(frozen=True, slots=True)
class JobFacts:
    """Facts shared by all leases of a job; `parts` makes parts of blocks in the worker, None if blocks are returned."""

    problem: str
    engine: str
    query: Any
    detail: Any
    parts: PartMaker | None = None


@dataclass(frozen=True, slots=True)
class Terms:
    """Terms of a lease.

    Attributes
    ----------
    seconds : float
        Length. Then the begun roots are finished, and the rest is returned. Engines without barriers finish all roots.
    most_bytes : int
        Bytes to send after which it ends likewise; makers of parts have their own bound (`PartSink.is_full`).
    """

    seconds: float
    most_bytes: int


@dataclass(frozen=True, slots=True)
class Finished:
    """Results that a worker returns.

    Attributes
    ----------
    blocks : list of bytes
        Pickled results below the finished roots, summed if possible; empty if they were made into a part.
    part : optional
        Result of `PartSink.part`.
    n_found : int
        Results in them.
    n_bytes : int
        Bytes of the pickled blocks, or of the data that the part keeps elsewhere.
    remaining : tuple of Task
        The unfinished roots.
    seconds : float
        Working time, without compiling and preparing.
    device : str
        Name of the device that the engine ran on.
    """

    blocks: list[bytes]
    part: Any
    n_found: int
    n_bytes: int
    remaining: tuple[Task, ...]
    seconds: float
    device: str


@dataclass(frozen=True, slots=True)
class NotKept:
    """Answer of a worker that could not keep a part, with the reason for people: nothing of its lease is done."""

    reason: str


@dataclass(frozen=True, slots=True, eq=False)
class HeldGraph:
    """A bipartite graph whose edges only workers have: no engine can search it here.

    Attributes
    ----------
    left_degrees, right_degrees : (n,) int64
    holder, key : str
        The worker that has the graph, and its key in `HELD` there.
    read_here : callable
        Takes the reason, for the log, and reads the graph in this process: if workers have lost it.
    """

    n_left: int
    n_right: int
    left_degrees: Any
    right_degrees: Any
    holder: str
    key: str
    read_here: Callable[[str], BipartiteCSR]

    is_on_host: ClassVar[bool] = True
    check_containing = BipartiteCSR.check_containing


class _Job:
    """State of a job that a worker keeps between leases, and messages received meanwhile.

    A thread loads the machine code while the graph is sent, and prepares the search once it is there.
    """

    def __init__(self, search: JobFacts) -> None:
        self.search = search
        self.is_stopped, self.hands_over = threading.Event(), threading.Event()
        self._graph: Future[bytes] = Future()
        self._ready: Future[tuple[Any, Any, dict[str, Any]]] = Future()
        threading.Thread(target=self._prepare, name="prepare-job", daemon=True).start()

    def keep(self, graph: bytes) -> None:
        """Take the graph, pickled."""
        if not (self._graph.done() or self._ready.done()):
            self._graph.set_result(graph)

    def pickled(self) -> bytes | None:
        """Return the graph; None until it is there."""
        if self._ready.done():
            return pickle.dumps(self.ready()[1], protocol=5)
        return self._graph.result() if self._graph.done() and not self._graph.cancelled() else None

    def let_go(self) -> None:
        """Stop waiting for a graph; a lease at work continues to its end."""
        self._graph.cancel()

    def end(self) -> None:
        """Drop the lease at work, and stop waiting for a graph."""
        self.is_stopped.set()
        self.let_go()

    def ready(self) -> tuple[Any, Any, dict[str, Any]]:
        """Wait for the engine, the graph and the further arguments of `run`."""
        return self._ready.result()

    def _prepare(self) -> None:
        search = self.search
        try:
            engine = get_engine(search.problem, search.engine)
            compile_ahead(engine.compile_steps(search.query, search.detail))
            # Arrays that Dask unpickles itself may share read-only memory with a message.
            graph = pickle.loads(self._graph.result())
            prepare = getattr(engine, "prepare", None)
            beside = {} if prepare is None else {"prepared": prepare(graph, search.query)}
            self._ready.set_result((engine, graph, beside))
            self._graph = Future()  # The bytes take as much memory as the graph.
        except BaseException as error:  # noqa: BLE001 - raised where the result is asked for
            self._ready.set_exception(error)


class _Pickled:
    """Collects pickled blocks until they are sent. Blocks that can be summed are sent as sums."""

    def __init__(self, execution: Execution) -> None:
        self.blocks: list[bytes] = []
        self.n_found, self.n_held = 0, 0
        self._execution = execution
        self._totals: Any = None

    def accept(self, block: Any) -> None:
        if not hasattr(block, "totals"):
            self._send(block)
            return
        if self._totals is None:
            self._totals = block.totals()
        self._totals.accept(block)

    def end(self) -> None:
        """Add the sums, once all blocks have come."""
        for block in () if self._totals is None else self._totals.blocks():
            self._send(block)

    def _send(self, block: Any) -> None:
        # A block without results may hold sums.
        self.blocks.append(pickle.dumps(block, protocol=5))
        self.n_found += len(block)
        self.n_held += len(self.blocks[-1])
        if self.n_held > self._execution.memory_budget_bytes:
            raise MemoryBudgetExceeded(
                f"what a worker found below roots that have to be finished together takes {self.n_held:,} bytes and "
                f"more: expected at most its budget of {self._execution.memory_budget_bytes:,}; give it more memory, "
                "or have one machine do the work (runner local), which hands results on as they are found",
                needed_bytes=2 * self.n_held,
            )


class _Stopped(Exception):
    """The lease was given up."""


# In order of last use.
_JOBS: dict[str, _Job] = {}
_ORDERING = threading.Lock()
# Pickled graphs that this worker has read.
HELD: dict[str, bytes] = {}
_MOST_JOBS = 2
"""Jobs whose graph a worker keeps, so that two runs on one cluster do not prepare theirs again and again."""
# Jobs and readings that have ended: messages of them come late. Only those of the last can.
ENDED: deque[str] = deque(maxlen=1000)


def do_lease(
    job: str,
    number: int,
    tasks: Sequence[Task],
    execution: Execution,
    terms: Terms,
    *,
    proof: Any,
) -> Finished | NotKept | None:
    """Search below some roots; None if the job was stopped meanwhile, or this worker does not have its graph.

    Parameters
    ----------
    job : str
        Shared by all leases of one graph and query.
    execution : Execution
        Budgets apply to the worker.
    proof
        The answer of `begin_job` if `JobFacts.parts` is to make a part of the results; else None.

    Raises
    ------
    EngineUnavailable
        The engine cannot run on this worker.
    MemoryBudgetExceeded
        The engine needs more memory than its budget, or the results below one lease do.
    """
    known = _known(job)
    if known is None:
        return None
    known.hands_over.clear()
    try:
        engine, graph, beside = known.ready()
    except CancelledError:
        return None
    search, begun = known.search, time.perf_counter()
    barrier = Barrier() if getattr(engine, "TAKES_BARRIER", False) else None
    if barrier is not None:
        beside = beside | {"barrier": barrier}

    def taken(take: Callable[[Any], None], is_full: Callable[[], bool]) -> tuple[int, tuple[Task, ...]]:
        """Number of results delivered, and the remaining tasks."""
        n_found = 0
        with closing(engine.run(graph, search.query, execution, search.detail, tasks, **beside)) as blocks:
            for block in blocks:
                if known.is_stopped.is_set():
                    raise _Stopped
                if (left := getattr(block, "remaining", None)) is not None:
                    return n_found, left
                take(block)
                n_found += len(block)
                is_over = time.perf_counter() - begun > terms.seconds or is_full()
                if barrier is not None and (is_over or known.hands_over.is_set()):
                    barrier.ask()
        return n_found, ()

    try:
        if proof is not None and search.parts is not None:
            with search.parts.open(f"{job}-{number}", execution, proof) as sink:
                n_found, remaining = taken(sink.accept, lambda: sink.is_full)
            blocks, (part, n_bytes) = [], sink.part()
        else:
            pickled = _Pickled(execution)
            _, remaining = taken(pickled.accept, lambda: pickled.n_held > terms.most_bytes)
            pickled.end()
            n_found, blocks, part, n_bytes = pickled.n_found, pickled.blocks, None, pickled.n_held
    except _Stopped:
        return None
    except PartFailed as failure:
        return NotKept(str(failure))
    seconds = time.perf_counter() - begun
    return Finished(blocks, part, n_found, n_bytes, remaining, seconds, engine.device(execution))


def _known(job: str) -> _Job | None:
    """The state kept of a job; moves it to the end of the queue for removal."""
    with _ORDERING:
        known = _JOBS.pop(job, None)
        if known is not None:
            _JOBS[job] = known
        return known


async def begin_job(job: str, search: JobFacts) -> Any:
    """Make a worker load what a job needs, and wait for its graph; returns the proof for its parts.

    A disk or a store may be slow, so this runs in a thread: the worker's loop answers others meanwhile.
    """
    if job in ENDED:
        return None
    known = _known(job)
    if known is None or known.is_stopped.is_set():
        with _ORDERING:
            _JOBS.pop(job, None)
            # The processes behind other jobs may be gone. A job that is still alive begins again, and its lease at work
            # ends whole: if it were dropped, runs on one cluster would stop each other forever.
            while len(_JOBS) >= _MOST_JOBS:
                _JOBS.pop(next(iter(_JOBS))).let_go()
            _JOBS[job] = _Job(search)
    return None if search.parts is None else await asyncio.to_thread(search.parts.prove)


def keep_graph(job: str, graph: bytes | str) -> bool:
    """Make a worker keep the pickled graph of a job, until the job ends or others replace it.

    Return False if it is given as a key of `HELD`, and is not there; it does not stay there.
    """
    pickled = HELD.pop(graph, b"") if isinstance(graph, str) else graph
    if pickled and (known := _JOBS.get(job)) is not None:
        known.keep(pickled)
    return bool(pickled)


async def tasks_of(job: str, n: int) -> list[Task]:
    """Cut the work of a job, once the worker has prepared its graph."""
    known = _JOBS[job]
    engine, graph, _ = await asyncio.to_thread(known.ready)
    return list(await asyncio.to_thread(engine.tasks_of, graph, known.search.query, n))


async def take_graph(job: str, giver_of: Mapping[str, str], dask_worker: Any) -> bool:
    """Make a worker keep the graph of the worker at an address, by its own; return False if that one has none."""
    giver = dask_worker.rpc(giver_of[dask_worker.contact_address])
    answer = await giver.run(function=pickle.dumps(pickled_graph), args=pickle.dumps((job,)))
    return answer["result"] is not None and keep_graph(job, answer["result"])


async def pickled_graph(job: str) -> bytes | None:
    """Return the graph of a job, for another worker; None if this one has none."""
    known = _JOBS.get(job)
    return None if known is None else await asyncio.to_thread(known.pickled)


def hand_over(job: str) -> None:
    """Make a worker return roots that it has not begun, for an idle worker."""
    if (known := _JOBS.get(job)) is not None:
        known.hands_over.set()


def stop_job(job: str) -> None:
    """Make a worker drop its lease."""
    if (known := _JOBS.get(job)) is not None:
        known.is_stopped.set()


def end_job(job: str) -> None:
    """Make a worker drop its lease, and the state of the job."""
    ENDED.append(job)
    with _ORDERING:
        known = _JOBS.pop(job, None)
    if known is not None:
        known.end()


def load(problem: str) -> None:
    """Load from the code cache what the engine `cpu` needs for any query."""
    load_kept(get_engine(problem, "cpu").compile_steps())


async def load_beside(problem: str) -> None:
    """The same in a worker: in a thread, since its loop answers others meanwhile."""
    await asyncio.to_thread(load, problem)


def software() -> dict[str, str]:
    """Versions that have to be equal on all participants of a search."""
    found = {"python": ".".join(platform.python_version_tuple()[:2])}
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "not installed"
    return found


def ignore_interrupts() -> None:
    """Ignore Ctrl-C: the process that started this one ends the workers in order."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.SIG_IGN)

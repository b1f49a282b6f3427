"""Stream result blocks of any problem from an engine into a sink, with progress reports and engine fallback."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Protocol

from mbe_stage.engines import AUTO, Engine, choose_engine, choose_next_engine
from mbe_stage.errors import InvalidArgument, MemoryBudgetExceeded
from mbe_stage.forecast import Forecast, Outlook, seconds_left
from mbe_stage.options import Execution
from mbe_stage.problem import Problem
from mbe_stage.run_limits import Checkpoints, EmptyBlock, LimitWatch, RunLimits, ending
from mbe_stage.runners import devices, local
from mbe_stage.runners.parts import Part
from mbe_stage.runtime.compile_ahead import compile_ahead, summed
from mbe_stage.sampling import SAMPLED_ENGINE, outlook_beside, sampler_of
from mbe_stage.tasks import OpenWork, Task

log = logging.getLogger(__name__)

INCOMPLETE = "%s: the result is incomplete (%s: %d)"
"""Log line for a search that a limit stopped."""
NOTHING_KEPT = "no checkpoint was written before the limit: the run cannot be resumed"
"""Log line if no checkpoint was written before the limit."""

_WHOLE = RunLimits()
# Highest share reported before the end: more blocks may follow one that reports all work as done.
_MOST_DONE = 0.999


class Block(Protocol):
    """Some results.

    A block with a method `totals` can be summed with others of its kind. `totals` gives an object that takes in blocks
    by `accept`, and whose `blocks` are a few with the same sum, at least one. Workers of a cluster send these. The text
    `status` of a block, if it has one, goes to progress reports.
    """

    @property
    def work_done(self) -> float:
        """Share of the whole work that is finished with this block, 0 to 1 (an estimate)."""

    def __len__(self) -> int:
        """Number of results. Zero is allowed: such a block only reports progress."""

    def first(self, n: int) -> Block:
        """The first `n` of them."""


class Sink(Protocol):
    """Takes in blocks, one at a time, in the order they are found, from one thread.

    Optional attributes:

    - `on_device`: if true, the sink takes blocks in device memory.
    - `checkpoint`: a method, or None. It is called now and then with the remaining tasks or saved work, and the share
      of work done; the sink has taken in every result but those of these.
    - `parts`: a `mbe_stage.runners.parts.PartMaker`. If the number of results is not limited, workers elsewhere make
      parts, and the sink takes each `Part` by its method `take_part`.
    """

    @property
    def detail(self) -> Any:
        """Detail that the sink needs of each result."""

    def accept(self, block: Any) -> int | None:
        """Take one block in; its arrays may be kept. Return the number of results that count, None if all do."""


@dataclass(frozen=True, slots=True)
class Progress:
    """Progress of a running search.

    Attributes
    ----------
    n_found : int
        Results so far.
    work_done : float
        Share of the work as the engine estimates it. It reaches 1 only when the search is complete.
    seconds : float
        Since the search began.
    engine : str
        The engine at work; empty if not known.
    expected : Outlook or None
        Total number of results, `low` to `high` in 95 cases of 100; `high` is None if there is no upper bound. None
        without samples.
    share : float or None
        Share of the expected results found so far, below 1 before the end. None if `expected` is open or wide.
    seconds_left : float or None
        Estimated from that share and the time so far, at most the time limit. None if `share` is None.
    has_stopped : bool
        A limit has ended the search. This is the last report, with the last share and no time left.
    search : str
        Name of the search in a run of several; empty for the first or only one.
    status : str
        The text of the newest block (`Block`), shown in place of the rate.
    """

    n_found: int
    work_done: float
    seconds: float
    engine: str = ""
    expected: Outlook | None = None
    share: float | None = None
    seconds_left: float | None = None
    has_stopped: bool = False
    search: str = ""
    status: str = ""


@dataclass(frozen=True, slots=True)
class Listener:
    """A listener for progress, and whether it wants an outlook.

    Attributes
    ----------
    wants_outlook : bool
        True if a forecast is worth sampling (about 2 % of the cores' time).
    """

    report: Callable[[Any], object]
    wants_outlook: bool = True

    def __call__(self, progress: Any) -> None:
        """Report progress."""
        self.report(progress)


def wants_outlook(listener: Callable[[Any], object] | None) -> bool:
    """True if there is a listener whose attribute `wants_outlook` is true."""
    return getattr(listener, "wants_outlook", False)


@dataclass(frozen=True, slots=True)
class StreamFacts:
    """Facts of a search.

    Attributes
    ----------
    n_found : int
        Results handed to the sink.
    truncated : str or None
        Reason why the search stopped early; None if the result is complete.
    engine, device : str
        Names of the engine and device used.
    seconds : float
        Wall time, the sink's share included.
    sink_seconds : float
        Wall time the sink took of it.
    prepared : mapping of str to float
        Seconds before that, of the steps ``load`` and ``compile``, as `compile_ahead` returns them.
    warnings : tuple of str
        Deviations from the request, such as another engine than the one ``auto`` chose; logged as well.
    ranks : tuple of RankFacts
        Facts of each participant that shared the work (`mbe_stage.runners`); empty if this process did it.
    rank_seconds : float
        Seconds during which they shared it.
    """

    n_found: int
    truncated: str | None
    engine: str
    device: str
    seconds: float
    sink_seconds: float
    prepared: Mapping[str, float]
    warnings: tuple[str, ...]
    ranks: tuple[Any, ...] = ()
    rank_seconds: float = 0.0

    @property
    def compile_seconds(self) -> float:
        """Seconds that loading and compiling took."""
        return sum(self.prepared.values())


def stream(
    problem: Problem,
    sink: Sink,
    graph: Any,
    query: Any,
    execution: Execution,
    engine: str = AUTO,
    on_progress: Callable[[Progress], None] | None = None,
    *,
    chosen_by_auto: bool = False,
    tasks: Iterable[Task | OpenWork] | None = None,
    run_limits: RunLimits = _WHOLE,
) -> StreamFacts:
    """Search `graph` for the results of `query`, and stream them into `sink`, block by block.

    Parameters
    ----------
    graph, query
        As the problem has them; the graph has the attribute `is_on_host`.
    engine : str
        If the engine that ``auto`` chose refuses for lack of memory before its first block, the next one takes over,
        with a warning. Not for a sink or a graph on the device.
    on_progress : callable, optional
        Called from the calling thread: after every block, while a runner waits for one, when another engine takes
        over, and at the end. If its attribute `wants_outlook` is true (`Listener`), the problem's sampler runs beside
        the engine ``cpu``. There is no sampling for other engines, graphs on the device, or some tasks only.
    chosen_by_auto : bool
        `engine` was chosen by ``auto`` earlier: another may take over, as for ``auto`` itself.
    tasks : iterable of Task or OpenWork, optional
        The part of the work to do; all by default.
    run_limits : RunLimits
        Limits and checkpoints; by default none.

    Raises
    ------
    InvalidArgument
        An unknown engine, one that cannot feed the sink, a query that does not fit the graph, or tasks of other work.
    EngineUnavailable
        The engine cannot run here.
    MemoryBudgetExceeded
        The graph cannot be searched within the budget, and no other engine may take over.
    """
    problem.check(graph, query)
    execution, engine = _with_runner(execution, engine)
    is_on_device, runner = getattr(sink, "on_device", False), execution.runner
    name, chosen = _engine_for(problem, engine, is_on_device=is_on_device)
    _check_runner(execution, is_on_host=graph.is_on_host and not is_on_device)
    n_found, sink_seconds, prepared = 0, 0.0, summed()
    truncated: str | None = None
    limit, time_limit = _limits(problem, execution)
    limits = LimitWatch(problem, run_limits, limit, time_limit, execution.stated_seconds)
    reporter = ProgressReporter(on_progress, Forecast(limit), time_limit)
    checkpoints, wanted = Checkpoints(sink, run_limits.checkpoint_seconds), None if tasks is None else tuple(tasks)
    may_take_over = not is_on_device and graph.is_on_host and (chosen_by_auto or engine == AUTO) and _is_new(wanted)

    def blocks_of(name: str, worker: Engine) -> Iterator[Any]:
        nonlocal prepared
        if runner is None or runner.shares_machine:
            prepared = summed(prepared, compile_ahead(worker.compile_steps(query, sink.detail)))
        barrier = checkpoints.barrier_for(runner or worker)
        if runner is not None:
            asked = (problem.name, name, graph, query, execution, sink.detail, wanted, barrier)
            return runner.run(*asked, **_further_for(runner, sink, limit))
        return local.run(worker, graph, query, execution, sink.detail, wanted, on_device=is_on_device, barrier=barrier)

    def goes_on(name: str, work_done: float = 0.0) -> bool:
        seconds = time.perf_counter() - start - sum(prepared.values())
        reporter.report(Progress(0, min(_MOST_DONE, work_done), seconds, name), None)
        return limits.reached(seconds) is None

    start = time.perf_counter()
    name, chosen, blocks, warnings = _begun(problem, name, chosen, blocks_of, execution, goes_on, may_take_over)
    start += sum(prepared.values())  # It is no part of the search.
    sampling = _sampling(problem, name, graph, query, execution, wanted, on_progress, time.perf_counter() - start)
    with closing(blocks) if sampling is None else _ended_in_order(blocks, *sampling) as beside:
        for block in limits.until_memory_ends(blocks):
            block, truncated = limits.within(block, n_found)
            before = time.perf_counter()
            n_found += _take(sink, block)
            checkpoints.note(block, before - start, partial(limits.n_shares, n_found, before - start))
            sink_seconds += (now := time.perf_counter()) - before
            if on_progress is not None:
                reporter.report(_progress(block, n_found, now - start, name), beside() if sampling else None)
            if truncated is None and not _is_last(block):
                truncated = ending(limits, checkpoints, now - start)
            if truncated is not None:
                break
            del block  # It may be memory of a device, which the next one needs.
    truncated = truncated or limits.of_memory
    reporter.report_end(n_found, time.perf_counter() - start, name, truncated is not None)
    _log_truncation(problem, truncated, run_limits.n_before, n_found, checkpoints)
    return StreamFacts(
        n_found=n_found,
        truncated=truncated,
        engine=name,
        **_done_by(runner, chosen, execution),
        seconds=time.perf_counter() - start,
        sink_seconds=sink_seconds,
        prepared=prepared,
        warnings=(*warnings, *getattr(runner, "warnings", ())),
    )


def pulled(
    problem: Problem, graph: Any, query: Any, execution: Execution, detail: Any, engine: str = AUTO
) -> Generator[Any]:
    """Yield the blocks of a search one by one; closing the generator ends the search.

    The limits of `execution` do not apply: the caller stops when it has enough.

    Parameters
    ----------
    execution : Execution
        Threads, budgets and the size of blocks.
    detail : optional
        Detail of each result in the blocks.
    engine : str
        As `stream` takes it.

    Raises
    ------
    InvalidArgument
        At once: an unknown engine, or a query that does not fit the graph.
    EngineUnavailable
        At once: the engine cannot run here.
    MemoryBudgetExceeded
        With the first block: the graph cannot be searched within the budget, and no other engine may take over.
    """
    problem.check(graph, query)
    execution, engine = _with_runner(execution, engine)
    name, chosen = choose_engine(problem, engine)
    may_take_over = engine == AUTO and graph.is_on_host

    def goes_on(_name: str, _work_done: float = 0.0) -> bool:
        return True

    def blocks_of(name: str, worker: Engine) -> Iterator[Any]:
        if execution.runner is not None:
            return execution.runner.run(problem.name, name, graph, query, execution, detail)
        compile_ahead(worker.compile_steps(query, detail))
        return local.run(worker, graph, query, execution, detail)

    def blocks() -> Generator[Any]:
        *_, found, _warnings = _begun(problem, name, chosen, blocks_of, execution, goes_on, may_take_over)
        with closing(found):
            yield from (block for block in found if not isinstance(block, EmptyBlock))

    return blocks()


def _engine_for(problem: Problem, engine: str, *, is_on_device: bool) -> tuple[str, Engine]:
    """Name and module of the requested engine, checked to deliver where the sink takes blocks."""
    name, chosen = choose_engine(problem, "cuda" if is_on_device and engine == AUTO else engine)
    if is_on_device and not hasattr(chosen, "device_blocks"):
        raise InvalidArgument(
            f"engine is {name!r}, which finds {problem.name} in host memory, and the sink takes them on the device: "
            "expected 'cuda' or 'auto'"
        )
    return name, chosen


def _is_new(tasks: tuple[Task | OpenWork, ...] | None) -> bool:
    """True if there is no saved work, which no other engine can continue."""
    return not any(isinstance(each, OpenWork) for each in tasks or ())


def _done_by(runner: Any, engine: Engine, execution: Execution) -> dict[str, Any]:
    """The devices of the search, and the facts of each participant."""
    if runner is None:
        return {"device": engine.device(execution)}
    facts = {"ranks": tuple(getattr(runner, "ranks", ())), "rank_seconds": getattr(runner, "seconds", 0.0)}
    return {"device": runner.device(), **facts}


def _take(sink: Any, block: Any) -> int:
    """Hand over a block, or a part to a sink that has said how to make it; return the number of results that count."""
    if isinstance(block, EmptyBlock):
        return 0
    n_kept = (sink.take_part if isinstance(block, Part) else sink.accept)(block)
    return len(block) if n_kept is None else n_kept


def _parts_for(runner: Any, sink: Sink, limit: int | None) -> dict[str, Any]:
    """The maker of parts; None if results are counted as they come."""
    parts = getattr(sink, "parts", None)
    if parts is None or not getattr(runner, "MAKES_PARTS", False):
        return {}
    if limit is not None:
        log.info("the number of results is limited: those of workers come here, and are written here")
        return {}
    return {"parts": parts}


def _further_for(runner: Any, sink: Sink, limit: int | None) -> dict[str, Any]:
    """Further arguments of a runner from the sink: the place of its blocks, and the maker of parts."""
    where = {"on_device": True} if getattr(sink, "on_device", False) else {}
    return where | _parts_for(runner, sink, limit)


def _log_truncation(
    problem: Problem, truncated: str | None, n_before: int, n_found: int, checkpoints: Checkpoints
) -> None:
    if truncated is None:
        return
    log.warning(INCOMPLETE, truncated, problem.passing or problem.name, n_before + n_found)
    if checkpoints.none_has_come and n_before == 0:
        log.info(NOTHING_KEPT)


def _with_runner(execution: Execution, engine: str) -> tuple[Execution, str]:
    """Execution with the runner that shares the work among devices, and an engine that can, if devices are to share."""
    if execution.devices is None:
        return execution, engine
    if engine not in (AUTO, devices.ENGINE):
        raise InvalidArgument(
            f"devices is {execution.devices!r}, and engine is {engine!r}: expected {devices.ENGINE!r}, or no devices"
        )
    runner = devices.DeviceRunner(execution.devices)
    return replace(execution, devices=None, runner=runner), devices.ENGINE


def _check_runner(execution: Execution, *, is_on_host: bool) -> None:
    runner = execution.runner
    if runner is not None and not is_on_host and not getattr(runner, "FEEDS_DEVICES", False):
        raise InvalidArgument(
            "the graph or the results are in the memory of a device, and this runner brings them to workers and back "
            "through that of the host: expected devices, no runner, or a graph and a sink of the host"
        )


def _limits(problem: Problem, execution: Execution) -> tuple[int | None, float | None]:
    """Limits of results and of seconds."""
    return None if problem.limit is None else getattr(execution, problem.limit), execution.time_limit_seconds


def _progress(block: Block, n_found: int, seconds: float, name: str) -> Progress:
    work_done = min(_MOST_DONE, block.work_done)
    return Progress(n_found, work_done, seconds, name, status=getattr(block, "status", ""))


def _is_last(block: Block) -> bool:
    """True for the empty block at the very end. More blocks may follow one that reports all work as done."""
    return len(block) == 0 and block.work_done >= 1.0


@contextmanager
def _ended_in_order(
    blocks: Any, sampling: AbstractContextManager[Callable[[], Outlook | None]], is_over: threading.Event
) -> Iterator[Callable[[], Outlook | None]]:
    """At the end, tell the sampler, stop the engine, and only then wait for the sampler."""
    # The engine also stops if the sampling does not begin.
    with closing(blocks), sampling as newest_outlook, closing(blocks):
        try:
            yield newest_outlook
        finally:
            is_over.set()


def _sampling(
    problem: Problem,
    engine: str,
    graph: Any,
    query: Any,
    execution: Execution,
    tasks: tuple[Task | OpenWork, ...] | None,
    on_progress: Callable[[Progress], None] | None,
    seconds_before: float,
) -> tuple[AbstractContextManager[Callable[[], Outlook | None]], threading.Event] | None:
    """Sample beside the search if there is a listener for it; yields a function for the newest outlook.

    Parameters
    ----------
    engine : str
        Name of the engine that searches.
    tasks : tuple of Task or None
        The tasks to do; there is no sampling unless it is all of them.
    on_progress : callable or None
        The listener for progress.
    seconds_before : float
        Time taken to prepare the search.

    Returns
    -------
    sampling, is_over : context manager, Event
        The event is to be set when the search has ended. None without sampling.
    """
    can_be_sampled = problem.sampler is not None and engine == SAMPLED_ENGINE and tasks is None and graph.is_on_host
    if not wants_outlook(on_progress) or not can_be_sampled or execution.runner is not None:
        return None

    def sampled(goes_on: Callable[[], bool]) -> Iterator[Outlook]:
        sampler = sampler_of(problem)
        assert sampler is not None
        return sampler.outlooks(graph, query, execution, goes_on)

    is_over, n_cores = threading.Event(), min(execution.worker_count, Execution().worker_count)
    return outlook_beside(sampled, n_cores, seconds_before, is_over), is_over


@dataclass(slots=True)
class ProgressReporter:
    """Reports progress to the listener, with the forecast."""

    on_progress: Callable[[Progress], None] | None
    forecast: Forecast
    time_limit: float | None
    work_done: float = 0.0

    def report(self, progress: Progress, outlook: Outlook | None) -> None:
        """Report while the search runs."""
        if self.on_progress is None:
            return
        self.work_done = progress.work_done
        self.forecast.hear(outlook)
        share = self.forecast.share(progress.n_found)
        left = seconds_left(share, progress.seconds)
        if left is not None and self.time_limit is not None:
            left = max(0.0, min(left, self.time_limit - progress.seconds))
        expected = self.forecast.expected(progress.n_found)
        self.on_progress(replace(progress, expected=expected, share=share, seconds_left=left))

    def report_end(self, n_found: int, seconds: float, engine: str, has_stopped: bool) -> None:
        """Report the end, complete or stopped at a limit."""
        if self.on_progress is None:
            return
        if has_stopped:
            expected, share = self.forecast.expected(n_found), self.forecast.share(n_found)
            self.on_progress(Progress(n_found, self.work_done, seconds, engine, expected, share, 0.0, True))
        else:
            self.on_progress(Progress(n_found, 1.0, seconds, engine, Outlook.exactly(n_found), 1.0, 0.0))


def _begun(
    problem: Problem,
    name: str,
    engine: Engine,
    blocks_of: Callable[[str, Engine], Iterator[Any]],
    execution: Execution,
    goes_on: Callable[..., bool],
    may_take_over: bool,
) -> tuple[str, Engine, Any, tuple[str, ...]]:
    """Name and module of the engine that does the work, its blocks, and a warning if it took over.

    An engine has planned its memory by its first block. If it refuses before, the next engine of `auto` takes over, if
    allowed, and the first one's device is free. After the first block there is no way back. A runner's `EmptyBlock`
    does not count as a block, unless the search is to end before there is one.

    Parameters
    ----------
    blocks_of : callable
        Begins a run of an engine.
    goes_on : callable
        Takes the name of the running engine, and the share of the work that is done; returns True to continue.
    may_take_over : bool
        True if another engine may take over: not if this one was requested.
    """
    blocks = blocks_of(name, engine)
    try:
        return name, engine, _from_first(_first_of(blocks, lambda share: goes_on(name, share)), blocks), ()
    except MemoryBudgetExceeded as refusal:
        other = choose_next_engine(problem, name) if may_take_over else None
        if other is None:
            raise
        # Not the error itself: with it a handler that keeps records would keep what the engine had allocated.
        warning = _taking_over(other[0], name, str(refusal), execution)
    log.warning("%s", warning)
    goes_on(other[0])
    return (*other, blocks_of(*other), (warning,))


def _first_of(blocks: Iterator[Any], goes_on: Callable[[float], bool]) -> list[Any]:
    """The first block, if there is one. While a runner waits for it, check if the search should continue."""
    for block in blocks:
        if not (isinstance(block, EmptyBlock) and goes_on(block.work_done)):
            return [block]
    return []


def _from_first(first: list[Any], others: Any) -> Iterator[Any]:
    """The first block, if there is one, and the others. No reference is kept to a block after it is yielded."""
    with closing(others):
        while first:
            yield first.pop()
        yield from others


def _taking_over(other: str, name: str, refusal: str, execution: Execution) -> str:
    return (
        f"engine auto: {name} refused the graph before its first block, and {other} takes over, within its own "
        f"memory budget of {execution.memory_budget_bytes:,} bytes. What {name} said, of its budget of device memory: "
        f"{refusal}"
    )

"""Blocks of any problem, from who finds them into a sink: limits, progress, and another engine where one refuses."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from itertools import islice
from typing import Any, Protocol

from mbe_stage.compile_ahead import compile_ahead
from mbe_stage.engines import AUTO, Engine, choose_engine, choose_next_engine
from mbe_stage.errors import InvalidArgument, MemoryBudgetExceeded
from mbe_stage.options import Execution
from mbe_stage.problem import Problem
from mbe_stage.runners import local
from mbe_stage.tasks import Task

__all__ = ["Block", "Progress", "Sink", "StreamFacts", "stream"]

log = logging.getLogger(__name__)


class Block(Protocol):
    """Some results."""

    @property
    def work_done(self) -> float:
        """Share of the whole work that is finished with this block, 0 to 1 (an estimate)."""

    def __len__(self) -> int:
        """How many; zero is allowed: such a block only reports progress."""

    def first(self, n: int) -> Block:
        """The first `n` of them."""


class Sink(Protocol):
    """Takes in blocks, one at a time, in the order they are found, from one thread.

    One whose attribute `on_device` is true takes blocks in device memory.
    """

    @property
    def detail(self) -> Any:
        """How much the sink needs to know of each result."""

    def accept(self, block: Any) -> None:
        """Take one block in; its arrays may be kept."""


@dataclass(frozen=True, slots=True)
class Progress:
    """Where a running search stands.

    Attributes
    ----------
    n_found : int
        Results so far.
    work_done : float
        Share of the work, 0 to 1 (an estimate).
    seconds : float
        Since the search began.
    engine : str
        Which one is at work.
    """

    n_found: int
    work_done: float
    seconds: float
    engine: str


@dataclass(frozen=True, slots=True)
class StreamFacts:
    """What a search did.

    Attributes
    ----------
    n_found : int
        Results handed to the sink.
    truncated : str or None
        Why the search stopped early; None when the result is complete.
    engine, device : str
        What ran.
    seconds : float
        Wall time, the sink's share included.
    sink_seconds : float
        Wall time the sink took of it.
    compile_seconds : float
        Before that: compiling the engine, or loading what an earlier process compiled.
    warnings : tuple of str
        What was done otherwise than asked, such as another engine than the one that ``auto`` chose; logged as well.
    """

    n_found: int
    truncated: str | None
    engine: str
    device: str
    seconds: float
    sink_seconds: float
    compile_seconds: float
    warnings: tuple[str, ...]


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
    tasks: Iterable[Task] | None = None,
) -> StreamFacts:
    """Search `graph` for what `query` asks for, into `sink`, block by block.

    Parameters
    ----------
    problem : Problem
    sink : Sink
    graph, query
        As the problem has them; the graph has the attribute `is_on_host`.
    execution : Execution
    engine : str
        Where the engine that ``auto`` chose has too little memory for the graph, and says so before its first block,
        the next one does the work, and a warning says why; not for a sink or a graph on the device.
    on_progress : callable, optional
        Called after every block, and when another engine takes over, from the calling thread.
    chosen_by_auto : bool
        `engine` is what ``auto`` chose earlier: another may take its place as for ``auto`` itself.
    tasks : iterable of Task, optional
        Which part of the work; by default all.

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
    is_on_device = getattr(sink, "on_device", False)
    name, chosen = choose_engine(problem, "cuda" if is_on_device and engine == AUTO else engine)
    if is_on_device and not hasattr(chosen, "device_blocks"):
        raise InvalidArgument(
            f"engine is {name!r}, which finds {problem.name} in host memory, and the sink takes them on the device: "
            "expected 'cuda' or 'auto'"
        )
    n_found, sink_seconds, compile_seconds = 0, 0.0, 0.0
    truncated: str | None = None
    wanted = None if tasks is None else tuple(tasks)
    may_take_over = not is_on_device and graph.is_on_host and (chosen_by_auto or engine == AUTO)

    def blocks_of(worker: Engine) -> Iterator[Any]:
        nonlocal compile_seconds
        compile_seconds += compile_ahead(worker.compile_steps(query, sink.detail))
        return local.run(worker, graph, query, execution, sink.detail, wanted, on_device=is_on_device)

    def tell_of_taking_over(other: str) -> None:
        if on_progress is not None:
            on_progress(Progress(0, 0.0, time.perf_counter() - start, other))

    start = time.perf_counter()
    name, chosen, blocks, warnings = _begun(
        problem, name, chosen, blocks_of, execution, tell_of_taking_over if may_take_over else None
    )
    # Compiling is no part of it.
    start += compile_seconds
    limit = None if problem.limit is None else getattr(execution, problem.limit)
    time_limit = execution.time_limit_seconds
    with closing(blocks):
        for block in blocks:
            if limit is not None and n_found + len(block) > limit:
                block = block.first(limit - n_found)
                truncated = f"stopped at {problem.limit} = {limit}"
            before = time.perf_counter()
            sink.accept(block)
            now = time.perf_counter()
            sink_seconds += now - before
            n_found += len(block)
            if on_progress is not None:
                on_progress(Progress(n_found, block.work_done, now - start, name))
            if truncated is None and time_limit is not None and now - start > time_limit and block.work_done < 1.0:
                truncated = f"stopped at time_limit_seconds = {time_limit:g}"
            if truncated is not None:
                break
    if truncated is not None:
        log.warning("%s: the result is incomplete (%s: %d)", truncated, problem.name, n_found)
    return StreamFacts(
        n_found=n_found,
        truncated=truncated,
        engine=name,
        device=chosen.device(execution),
        seconds=time.perf_counter() - start,
        sink_seconds=sink_seconds,
        compile_seconds=compile_seconds,
        warnings=warnings,
    )


def _begun(
    problem: Problem,
    name: str,
    engine: Engine,
    blocks_of: Callable[[Engine], Iterator[Any]],
    execution: Execution,
    tell_of_taking_over: Callable[[str], None] | None,
) -> tuple[str, Engine, Any, tuple[str, ...]]:
    """The engine that does the work, its name first, its blocks, and a warning where it took another's place.

    An engine has planned its memory when it hands out the first block. One that refuses before gives way to the next
    one that `auto` would take, where `tell_of_taking_over` may be told its name: the device of the first is free from
    then on. From the first block on there is no way back.
    """
    blocks = blocks_of(engine)
    try:
        return name, engine, _from_first(list(islice(blocks, 1)), blocks), ()
    except MemoryBudgetExceeded as refusal:
        other = None if tell_of_taking_over is None else choose_next_engine(problem, name)
        if tell_of_taking_over is None or other is None:
            raise
        # Not the error itself: with it a handler that keeps records would keep what the engine had allocated.
        warning = _taking_over(other[0], name, str(refusal), execution)
    log.warning("%s", warning)
    tell_of_taking_over(other[0])
    return (*other, blocks_of(other[1]), (warning,))


def _from_first(first: list[Any], others: Any) -> Iterator[Any]:
    """The first block, if there is one, and the others. None is held on to once it has been handed out."""
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

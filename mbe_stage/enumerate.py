"""`enumerate_bicliques`: arrays in, every maximal biclique into a sink."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np

from mbe_stage.compile_ahead import compile_ahead
from mbe_stage.engines import AUTO, choose_engine, choose_next_engine
from mbe_stage.errors import InvalidArgument, MemoryBudgetExceeded
from mbe_stage.graph import BipartiteCSR
from mbe_stage.options import BicliqueQuery, Execution
from mbe_stage.results import BicliqueTable, Detail, DeviceSink, Sink, TableSink

__all__ = ["Progress", "RunFacts", "enumerate_bicliques", "enumerate_into"]

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Progress:
    """Where a running enumeration stands.

    Attributes
    ----------
    n_bicliques : int
        Found so far.
    work_done : float
        Share of the work, 0 to 1 (an estimate).
    seconds : float
        Since the enumeration began.
    engine : str
        Which one is at work; empty where whoever reports does not say.
    """

    n_bicliques: int
    work_done: float
    seconds: float
    engine: str = ""


@dataclass(frozen=True, slots=True)
class RunFacts:
    """What an enumeration did.

    Attributes
    ----------
    n_bicliques : int
        Handed to the sink.
    truncated : str or None
        Why the enumeration stopped early; None when the result is complete.
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

    n_bicliques: int
    truncated: str | None
    engine: str
    device: str
    seconds: float
    sink_seconds: float
    warnings: tuple[str, ...] = ()
    compile_seconds: float = 0.0


def enumerate_into(
    sink: Sink | DeviceSink,
    graph: BipartiteCSR,
    query: BicliqueQuery | None = None,
    execution: Execution | None = None,
    engine: str = AUTO,
    on_progress: Callable[[Progress], None] | None = None,
    *,
    chosen_by_auto: bool = False,
) -> RunFacts:
    """Enumerate the maximal bicliques of `graph` that satisfy `query` into `sink`, block by block.

    Parameters
    ----------
    sink : Sink or DeviceSink
        Takes the blocks; its `detail` decides how much the engine has to produce, and ``on_device`` whether they stay
        in device memory.
    graph : BipartiteCSR
        Its arrays may be CuPy's for the CUDA engine.
    query : BicliqueQuery, optional
        Every maximal biclique by default.
    execution : Execution, optional
        Threads, budgets, limits.
    engine : str
        ``auto``, ``cpu``, ``cuda`` or ``reference``; ``auto`` is ``cuda`` for a sink on the device. Where the engine
        that ``auto`` chose has too little memory for the graph, and says so before its first block, the next one does
        the work, and a warning says why; not for a sink or a graph on the device.
    on_progress : callable, optional
        Called after every block, and when another engine takes over, from the calling thread.
    chosen_by_auto : bool
        `engine` is what ``auto`` chose earlier: another may take its place as for ``auto`` itself.

    Returns
    -------
    RunFacts

    Raises
    ------
    InvalidArgument
        An unknown engine, one that cannot feed the sink, or a `containing` id outside the graph.
    EngineUnavailable
        The engine cannot run here.
    MemoryBudgetExceeded
        The graph cannot be enumerated within the budget, and no other engine may take over.
    """
    query = query or BicliqueQuery()
    execution = execution or Execution()
    _check_containing(graph, query)
    is_on_device = getattr(sink, "on_device", False)
    name, chosen = choose_engine("bicliques", "cuda" if is_on_device and engine == AUTO else engine)
    if is_on_device and not hasattr(chosen, "device_blocks"):
        raise InvalidArgument(
            f"engine is {name!r}, which finds bicliques in host memory, and the sink takes them on the device: "
            "expected 'cuda' or 'auto'"
        )
    n_bicliques, sink_seconds, truncated = 0, 0.0, None
    is_on_host = not is_on_device and isinstance(graph.left_offsets, np.ndarray)
    may_take_over = is_on_host and (chosen_by_auto or engine == AUTO)

    compile_seconds = 0.0

    def blocks_of(worker: Any) -> Any:
        nonlocal compile_seconds
        compile_seconds += compile_ahead(worker.compile_steps(query, sink.detail))
        return _blocks(worker, graph, query, execution, sink.detail, is_on_device)

    def tell_of_taking_over(other: str) -> None:
        if on_progress is not None:
            on_progress(Progress(0, 0.0, time.perf_counter() - start, other))

    start = time.perf_counter()
    name, chosen, blocks, warnings = _begun(
        name, chosen, blocks_of, execution, tell_of_taking_over if may_take_over else None
    )
    # Compiling is no part of it.
    start += compile_seconds
    with closing(blocks):
        for block in blocks:
            limit = execution.max_bicliques
            if limit is not None and n_bicliques + block.n_bicliques > limit:
                block = block.first(limit - n_bicliques)
                truncated = f"stopped at max_bicliques = {limit}"
            before = time.perf_counter()
            sink.accept(block)
            now = time.perf_counter()
            sink_seconds += now - before
            n_bicliques += block.n_bicliques
            if on_progress is not None:
                on_progress(Progress(n_bicliques, block.work_done, now - start, name))
            time_limit = execution.time_limit_seconds
            if truncated is None and time_limit is not None and now - start > time_limit and block.work_done < 1.0:
                truncated = f"stopped at time_limit_seconds = {time_limit:g}"
            if truncated is not None:
                break
    if truncated is not None:
        log.warning("%s: the result is incomplete (bicliques: %d)", truncated, n_bicliques)
    return RunFacts(
        n_bicliques=n_bicliques,
        truncated=truncated,
        engine=name,
        device=chosen.device(execution),
        seconds=time.perf_counter() - start,
        sink_seconds=sink_seconds,
        compile_seconds=compile_seconds,
        warnings=warnings,
    )


def enumerate_bicliques(
    graph: BipartiteCSR | tuple[np.ndarray, np.ndarray],
    *,
    min_left: int = 1,
    min_right: int = 1,
    max_left: int | None = None,
    max_right: int | None = None,
    min_edges: int = 1,
    containing_left: tuple[int, ...] = (),
    containing_right: tuple[int, ...] = (),
    engine: str = AUTO,
    threads: int = 0,
) -> BicliqueTable:
    """Every maximal biclique of a bipartite graph, in memory.

    Parameters
    ----------
    graph : BipartiteCSR, or a pair of integer arrays
        Dense ids; a pair is ``(left_ids, right_ids)``, one edge a position.
    min_left, min_right, max_left, max_right, min_edges, containing_left, containing_right
        As in `BicliqueQuery`.
    engine : str
        ``auto``, ``cpu``, ``cuda`` or ``reference``.
    threads : int
        0 is every core.

    Returns
    -------
    BicliqueTable
        For results larger than memory use `enumerate_into` with a sink of your own.

    Examples
    --------
    >>> table = enumerate_bicliques(([0, 0, 1], [0, 1, 1]))
    >>> sorted(table.as_set())
    [((0,), (0, 1)), ((0, 1), (1,))]
    """
    if not isinstance(graph, BipartiteCSR):
        graph = BipartiteCSR.from_edges(*graph)
    sink = TableSink()
    query = BicliqueQuery(
        min_left, min_right, max_left, max_right, min_edges, tuple(containing_left), tuple(containing_right)
    )
    enumerate_into(sink, graph, query, Execution(threads=threads), engine)
    return sink.table()


def _begun(
    name: str,
    engine: Any,
    blocks_of: Callable[[Any], Any],
    execution: Execution,
    tell_of_taking_over: Callable[[str], None] | None,
) -> tuple[str, Any, Any, tuple[str, ...]]:
    """The engine that does the work, its name first, its blocks, and a warning where it took another's place.

    An engine has planned its memory when it hands out the first block. One that refuses before gives way to the next
    one that `auto` would take, where `tell_of_taking_over` may be told its name: the device of the first is free from
    then on. From the first block on there is no way back.
    """
    blocks = blocks_of(engine)
    try:
        return name, engine, _from_first(list(islice(blocks, 1)), blocks), ()
    except MemoryBudgetExceeded as refusal:
        other = None if tell_of_taking_over is None else choose_next_engine("bicliques", name)
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


def _blocks(
    engine: Any, graph: BipartiteCSR, query: BicliqueQuery, execution: Execution, detail: Detail, is_on_device: bool
) -> Any:
    if is_on_device:
        return engine.device_blocks(graph, query, execution)
    return engine.run(graph, query, execution, detail)


def _check_containing(graph: BipartiteCSR, query: BicliqueQuery) -> None:
    for side, wanted, n in (
        ("left", query.containing_left, graph.n_left),
        ("right", query.containing_right, graph.n_right),
    ):
        for vertex in wanted:
            if not 0 <= vertex < n:
                raise InvalidArgument(f"containing_{side} holds {vertex}: the {side} ids run from 0 to {n - 1}")

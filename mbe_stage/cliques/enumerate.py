"""`enumerate_maximal_cliques`: all maximal cliques in a table, one by one, or into a sink."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from contextlib import closing

import numpy as np

from mbe_stage import stream
from mbe_stage.cliques.problem import PROBLEM
from mbe_stage.cliques.query import CliqueQuery
from mbe_stage.cliques.results import CliqueBlock, CliqueCountSink, CliqueSink, CliqueTable, CliqueTableSink, Detail
from mbe_stage.engines import AUTO
from mbe_stage.graphs.given import as_undirected
from mbe_stage.graphs.undirected import UndirectedCSR
from mbe_stage.options import Execution
from mbe_stage.stream import Progress, StreamFacts
from mbe_stage.tasks import Task

_STREAMED_BLOCK_BYTES = 1 << 18


def enumerate_maximal_cliques(
    graph: UndirectedCSR | tuple[np.ndarray, np.ndarray],
    *,
    min_size: int = 1,
    max_size: int | None = None,
    containing: tuple[int, ...] = (),
    engine: str = AUTO,
    threads: int = 0,
) -> CliqueTable:
    """Return every maximal clique of an undirected graph, in memory.

    Parameters
    ----------
    graph : UndirectedCSR, or a pair of integer arrays
        Dense ids. A pair is ``(src, dst)``, the ends of each edge. Each id up to the largest is a vertex; a vertex
        without edges is a clique of size 1.
    min_size, max_size, containing
        As in `CliqueQuery`.
    engine : str
        ``auto``, ``cpu``, ``cuda`` or ``reference``.
    threads : int
        0 means every core.

    Returns
    -------
    CliqueTable
        For results larger than memory, use `enumerate_cliques_into` with a sink of your own, or `find_cliques`.

    Raises
    ------
    InvalidArgument
        No clique can match the query, a vertex is outside the graph, or the engine is unknown.
    EngineUnavailable
        The engine cannot run here.
    MemoryBudgetExceeded
        The graph cannot be searched within the budget.

    Examples
    --------
    >>> table = enumerate_maximal_cliques(([0, 0, 1, 2], [1, 2, 2, 3]), engine="reference")
    >>> sorted(table.as_set())
    [(0, 1, 2), (2, 3)]

    References
    ----------
    Bron and Kerbosch, "Algorithm 457: finding all cliques of an undirected graph", CACM 16(9), 1973; Eppstein, Löffler
    and Strash, "Listing all maximal cliques in large sparse real-world graphs", JEA 18, 2013.
    """
    sink = CliqueTableSink()
    query = CliqueQuery(min_size, max_size, containing)
    enumerate_cliques_into(sink, as_undirected(graph), query, Execution(threads=threads), engine)
    return sink.table()


def count_maximal_cliques(
    graph: UndirectedCSR | tuple[np.ndarray, np.ndarray],
    *,
    min_size: int = 1,
    max_size: int | None = None,
    containing: tuple[int, ...] = (),
    engine: str = AUTO,
    threads: int = 0,
) -> int:
    """Count the maximal cliques of an undirected graph without listing them.

    Parameters
    ----------
    graph, min_size, max_size, containing, engine, threads
        As in `enumerate_maximal_cliques`.

    Raises
    ------
    InvalidArgument, EngineUnavailable, MemoryBudgetExceeded
        As in `enumerate_maximal_cliques`.

    Examples
    --------
    >>> count_maximal_cliques(([0, 0, 1, 2], [1, 2, 2, 3]), min_size=3, engine="reference")
    1
    """
    sink = CliqueCountSink()
    query = CliqueQuery(min_size, max_size, containing)
    enumerate_cliques_into(sink, as_undirected(graph), query, Execution(threads=threads), engine)
    return sink.n_cliques


def find_cliques(
    graph: UndirectedCSR | tuple[np.ndarray, np.ndarray],
    *,
    min_size: int = 1,
    max_size: int | None = None,
    containing: tuple[int, ...] = (),
    engine: str = AUTO,
    threads: int = 0,
) -> Generator[list[int]]:
    """Yield the maximal cliques of an undirected graph one by one; closing the generator ends the search.

    Parameters
    ----------
    graph, min_size, max_size, containing, engine, threads
        As in `enumerate_maximal_cliques`.

    Yields
    ------
    list of int
        The members of a clique, ascending.

    Raises
    ------
    InvalidArgument, EngineUnavailable
        As in `enumerate_maximal_cliques`, at once.
    MemoryBudgetExceeded
        As there, with the first clique.

    Examples
    --------
    >>> cliques = find_cliques(([0, 0, 1, 2], [1, 2, 2, 3]), engine="reference")
    >>> next(cliques)
    [0, 1, 2]
    >>> cliques.close()
    """
    query = CliqueQuery(min_size, max_size, containing)
    # Smaller blocks bring the first clique sooner.
    execution = Execution(threads=threads, block_bytes=_STREAMED_BLOCK_BYTES)
    return _lists(stream.pulled(PROBLEM, as_undirected(graph), query, execution, Detail.MEMBERS, engine))


def enumerate_cliques_into(
    sink: CliqueSink,
    graph: UndirectedCSR,
    query: CliqueQuery | None = None,
    execution: Execution | None = None,
    engine: str = AUTO,
    on_progress: Callable[[Progress], None] | None = None,
    *,
    chosen_by_auto: bool = False,
    tasks: Iterable[Task] | None = None,
) -> StreamFacts:
    """Enumerate the maximal cliques of `graph` that satisfy `query` into `sink`, block by block.

    Parameters
    ----------
    sink : CliqueSink
        Takes the blocks. Its `detail` sets the amount of detail per clique; if its attribute `on_device` is true,
        blocks stay in device memory.
    graph : UndirectedCSR
        The arrays may be CuPy's for the CUDA engine.
    query : CliqueQuery, optional
        By default every maximal clique.
    execution : Execution, optional
        Threads, budgets, limits.
    engine, on_progress, chosen_by_auto, tasks
        As in `mbe_stage.stream.stream`.

    Returns
    -------
    StreamFacts

    Raises
    ------
    InvalidArgument
        The engine is unknown or cannot feed the sink, a `containing` id is outside the graph, or tasks are of other
        work.
    EngineUnavailable
        The engine cannot run here.
    MemoryBudgetExceeded
        The graph cannot be searched within the budget, and no other engine may take over.
    """
    return stream.stream(
        PROBLEM,
        sink,
        graph,
        query or CliqueQuery(),
        execution or Execution(),
        engine,
        on_progress,
        chosen_by_auto=chosen_by_auto,
        tasks=tasks,
    )


def _lists(blocks: Generator[CliqueBlock]) -> Generator[list[int]]:
    """Yield the cliques of the blocks as lists; closing ends the search."""
    with closing(blocks):
        for block in blocks:
            assert block.members is not None
            members, offsets = block.members.tolist(), block.offsets.tolist()
            for k in range(len(block)):
                yield members[offsets[k] : offsets[k + 1]]

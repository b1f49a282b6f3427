"""`count_pq_bicliques`: arrays in, exact counts out."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np

from mbe_stage import stream
from mbe_stage.engines import AUTO
from mbe_stage.graphs.bipartite import BipartiteCSR
from mbe_stage.options import Execution
from mbe_stage.pq_counts.problem import PROBLEM
from mbe_stage.pq_counts.query import PqQuery
from mbe_stage.pq_counts.results import PqSink
from mbe_stage.tasks import Task

__all__ = ["count_pq_bicliques", "count_pq_into", "pq_table"]


def count_pq_bicliques(
    graph: BipartiteCSR | tuple[np.ndarray, np.ndarray],
    p: int,
    q: int,
    *,
    containing_left: tuple[int, ...] = (),
    containing_right: tuple[int, ...] = (),
    engine: str = AUTO,
    threads: int = 0,
) -> int:
    """How many bicliques a bipartite graph has with p left and q right vertices, maximal or not.

    Parameters
    ----------
    graph : BipartiteCSR, or a pair of integer arrays
        Dense ids; a pair is ``(left_ids, right_ids)``, one edge a position.
    p, q : int
        At least 1.
    containing_left, containing_right : tuple of int
        Only those that hold all of these vertices.
    engine : str
        ``auto``, ``cpu``, ``cuda`` or ``reference``.
    threads : int
        0 is every core.

    Returns
    -------
    int
        Exact, of any size.

    Raises
    ------
    InvalidArgument
        A size below 1, a vertex outside the graph, or an unknown engine.
    EngineUnavailable
        The engine cannot run here.
    MemoryBudgetExceeded
        The graph cannot be searched within the budget.

    Examples
    --------
    >>> count_pq_bicliques(([0, 0, 1, 1], [0, 1, 0, 1]), 1, 2)
    2

    References
    ----------
    Yang, Peng and Zhang, "(p,q)-biclique counting and enumeration for large sparse bipartite graphs", PVLDB
    15(2), 2021.
    """
    query = PqQuery(p, p, q, q, tuple(containing_left), tuple(containing_right))
    return _counts(graph, query, engine, threads)[p, q]


def pq_table(
    graph: BipartiteCSR | tuple[np.ndarray, np.ndarray],
    max_p: int,
    max_q: int,
    *,
    containing_left: tuple[int, ...] = (),
    containing_right: tuple[int, ...] = (),
    engine: str = AUTO,
    threads: int = 0,
) -> dict[tuple[int, int], int]:
    """The number of (p, q)-bicliques for each p up to `max_p` and each q up to `max_q`, in one search.

    Parameters
    ----------
    graph, containing_left, containing_right, engine, threads
        As `count_pq_bicliques` takes them.
    max_p, max_q : int

    Returns
    -------
    dict
        ``(p, q) -> count``, each exact.

    Examples
    --------
    >>> pq_table(([0, 0, 1, 1], [0, 1, 0, 1]), 2, 2)
    {(1, 1): 4, (1, 2): 2, (2, 1): 2, (2, 2): 1}
    """
    query = PqQuery(1, max_p, 1, max_q, tuple(containing_left), tuple(containing_right))
    return _counts(graph, query, engine, threads)


def count_pq_into(
    sink: PqSink,
    graph: BipartiteCSR,
    execution: Execution | None = None,
    engine: str = AUTO,
    on_progress: Callable[[stream.Progress], None] | None = None,
    *,
    chosen_by_auto: bool = False,
    tasks: Iterable[Task] | None = None,
) -> stream.StreamFacts:
    """Count what `sink.query` asks for, and what `sink.detail` adds to it.

    Parameters
    ----------
    sink : PqSink
    graph : BipartiteCSR
        Its arrays may be CuPy's for the CUDA engine.
    execution : Execution, optional
        Threads, budgets, time limit; where that ends the search, the counts are lower bounds, and the facts say so.
    engine, on_progress, chosen_by_auto, tasks
        As `mbe_stage.stream.stream` takes them.

    Returns
    -------
    StreamFacts

    Raises
    ------
    InvalidArgument, EngineUnavailable, MemoryBudgetExceeded
        As `count_pq_bicliques`.
    """
    return stream.stream(
        PROBLEM,
        sink,
        graph,
        sink.query,
        execution or Execution(),
        engine,
        on_progress,
        chosen_by_auto=chosen_by_auto,
        tasks=tasks,
    )


def _counts(
    graph: BipartiteCSR | tuple[np.ndarray, np.ndarray], query: PqQuery, engine: str, threads: int
) -> dict[tuple[int, int], int]:
    if not isinstance(graph, BipartiteCSR):
        graph = BipartiteCSR.from_edges(*graph)
    sink = PqSink(query)
    count_pq_into(sink, graph, Execution(threads=threads), engine)
    return sink.counts()

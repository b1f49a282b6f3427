"""`count_pq_bicliques`: exact counts of (p, q)-bicliques."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from mbe_stage import stream
from mbe_stage.engines import AUTO
from mbe_stage.errors import InvalidArgument
from mbe_stage.graphs.bipartite import BipartiteCSR
from mbe_stage.graphs.given import as_bipartite
from mbe_stage.options import Execution
from mbe_stage.pq_counts.digits import integers
from mbe_stage.pq_counts.problem import PROBLEM
from mbe_stage.pq_counts.query import PqQuery
from mbe_stage.pq_counts.results import Detail, PqSink
from mbe_stage.tasks import Task


@dataclass(frozen=True, slots=True, eq=False)
class PqLocalCounts:
    """Numbers of (p, q)-bicliques that contain each vertex, and that contain each edge.

    Attributes
    ----------
    total : int
        Number of all (p, q)-bicliques.
    left, right : (n_left,) and (n_right,) int64, or objects
        Number for each vertex; Python integers if a number of the side exceeds 64 bits.
    edges : (n_edges,) int64, or objects, or None
        Number for each edge, in the order of `BipartiteCSR.edges`; None if not requested.
    """

    total: int
    left: np.ndarray
    right: np.ndarray
    edges: np.ndarray | None


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
    """Count the bicliques of a bipartite graph with p left and q right vertices, maximal or not.

    Parameters
    ----------
    graph : BipartiteCSR, or a pair of integer arrays
        Dense ids. A pair is ``(left_ids, right_ids)``, the ends of each edge.
    p, q : int
        Numbers of left and right vertices, at least 1.
    containing_left, containing_right : tuple of int
        Count only bicliques that contain all of these vertices.
    engine : str
        ``auto``, ``cpu``, ``cuda`` or ``reference``.
    threads : int
        0 means every core.

    Returns
    -------
    int
        The exact count, of any size.

    Raises
    ------
    InvalidArgument
        A size is below 1, a vertex is outside the graph, or the engine is unknown.
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
    query = PqQuery(p, p, q, q, containing_left, containing_right)
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
    """Count the (p, q)-bicliques for each p up to `max_p` and each q up to `max_q`, in one search.

    Parameters
    ----------
    graph, containing_left, containing_right, engine, threads
        As in `count_pq_bicliques`.
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
    query = PqQuery(1, max_p, 1, max_q, containing_left, containing_right)
    return _counts(graph, query, engine, threads)


def pq_local_counts(
    graph: BipartiteCSR | tuple[np.ndarray, np.ndarray],
    p: int,
    q: int,
    *,
    edges: bool = False,
    containing_left: tuple[int, ...] = (),
    containing_right: tuple[int, ...] = (),
    engine: str = AUTO,
    execution: Execution | None = None,
) -> PqLocalCounts:
    """Count, for each vertex and optionally for each edge, the (p, q)-bicliques that contain it.

    Parameters
    ----------
    graph, p, q, containing_left, containing_right, engine
        As in `count_pq_bicliques`.
    edges : bool
        True to count for each edge too. This takes at least 8 bytes per edge and thread.
    execution : Execution, optional
        Threads and the memory budget. A time limit is refused, because partial numbers would be meaningless.

    Returns
    -------
    PqLocalCounts
        Exact counts: the sum of `left` is p times the total, of `right` q times, and of `edges` p q times.

    Raises
    ------
    InvalidArgument, EngineUnavailable
        As in `count_pq_bicliques`; also if there is a time limit.
    MemoryBudgetExceeded
        The tables exceed the budget; the message names their size.

    Examples
    --------
    >>> found = pq_local_counts(([0, 0, 1, 1, 2], [0, 1, 0, 1, 1]), 2, 1, edges=True)
    >>> found.left.tolist(), found.right.tolist(), found.edges.tolist()
    ([3, 3, 2], [1, 3], [1, 2, 1, 2, 2])
    """
    execution = execution or Execution()
    if execution.time_limit_seconds is not None:
        raise InvalidArgument(
            f"time_limit_seconds is {execution.time_limit_seconds:g}: local counts come whole; expected None, or "
            "count_pq_into, whose facts say what a limit left out"
        )
    graph = as_bipartite(graph)
    query = PqQuery(p, p, q, q, containing_left, containing_right)
    sink = PqSink(query, Detail.EDGES if edges else Detail.VERTICES)
    count_pq_into(sink, graph, execution, engine)
    local = sink.local_counts()[p, q]
    of_edges = None if local.edges is None else _numbers(local.edges)
    return PqLocalCounts(sink.counts()[p, q], _numbers(local.left), _numbers(local.right), of_edges)


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
    """Count the bicliques of `sink.query`, with the detail `sink.detail`.

    Parameters
    ----------
    sink : PqSink
    graph : BipartiteCSR
        The arrays may be CuPy's for the CUDA engine.
    execution : Execution, optional
        Threads, budgets, time limit. If the time limit ends the search, the counts are lower bounds, and the facts say
        so.
    engine, on_progress, chosen_by_auto, tasks
        As in `mbe_stage.stream.stream`.

    Returns
    -------
    StreamFacts

    Raises
    ------
    InvalidArgument, EngineUnavailable, MemoryBudgetExceeded
        As in `count_pq_bicliques`.
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
    graph = as_bipartite(graph)
    sink = PqSink(query)
    count_pq_into(sink, graph, Execution(threads=threads), engine)
    return sink.counts()


def _numbers(digits: np.ndarray) -> np.ndarray:
    """Return an int64 array if all numbers fit, otherwise Python integers."""
    numbers = integers(digits)
    fits = max(numbers, default=0) < 1 << 63
    return np.array(numbers, np.int64 if fits else object)

"""`best_bicliques`: the best maximal bicliques of a graph in memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from mbe_stage import stream
from mbe_stage.bicliques.best.problem import PROBLEM, BestQuery
from mbe_stage.bicliques.best.results import BestSink, Standing
from mbe_stage.bicliques.results import BicliqueTable
from mbe_stage.engines import AUTO
from mbe_stage.errors import InvalidArgument
from mbe_stage.graphs.bipartite import BipartiteCSR
from mbe_stage.graphs.given import as_bipartite
from mbe_stage.options import Execution


@dataclass(frozen=True, slots=True, eq=False)
class BestBicliques:
    """The best maximal bicliques, in rank order.

    Attributes
    ----------
    scores : (n,) int64, or float64 for weights and surprise
    n_edges, keys : (n,) int64
    table : BicliqueTable
    bound : float
        No unranked biclique has a higher score. Infinite if unknown; at least the best score until the search is
        complete.
    is_complete : bool
        False if the time limit ended the search. Then better bicliques may exist, with scores up to `bound`.
    """

    scores: np.ndarray
    n_edges: np.ndarray
    keys: np.ndarray
    table: BicliqueTable
    bound: float
    is_complete: bool


def best_bicliques(
    graph: BipartiteCSR | tuple[np.ndarray, np.ndarray],
    by: str = "edges",
    k: int = 10,
    *,
    min_left: int = 2,
    min_right: int = 2,
    overlap: float = 1.0,
    missing: int = 0,
    weights: np.ndarray | None = None,
    time_limit: float | None = None,
    on_progress: Callable[[BestBicliques], object] | None = None,
    engine: str = AUTO,
    threads: int = 0,
) -> BestBicliques:
    """Return the `k` best maximal bicliques of a graph.

    They are ordered by score, then by more edges, then by the smaller key. A key identifies the members by id
    (`mbe_stage.bicliques.keys`). The search is exact and lists few bicliques, because the best ones so far bound the
    sizes of better ones. By surprise, all bicliques are listed.

    Parameters
    ----------
    graph : BipartiteCSR, or a pair of integer arrays
        Dense ids. A pair is ``(left_ids, right_ids)``, the ends of each edge.
    by : str
        ``edges``, ``vertices``, ``balance`` (size of the smaller side), ``weight`` (sum of the edges' weights), or
        ``surprise`` in nats (`mbe_stage.groups.NullModel`).
    min_left, min_right : int
        Fewest vertices on each side. With 1, the best by edges is usually one vertex with all its neighbours.
    overlap : float
        Largest share of a biclique's edges that it may have in common with a better one in the result; otherwise it is
        left out. With 1, all are kept.
    missing : int
        Most missing edges, at most 5, and below `min_left` and `min_right`. Each maximal biclique is then replaced by
        its best completion with right vertices that lack some edges. The first result is the best of all such sets.
    weights : (n_edges,) array, optional
        For ``weight``: a finite number of at least 0 for each edge of `graph.edges()`. `graph` must be a BipartiteCSR.
    time_limit : float, optional
        Limit in seconds; then the best so far are returned.
    on_progress : callable, optional
        Called from time to time with the best so far and the bound. An exception that it raises ends the search.
    engine : str
        ``auto``, ``cuda``, ``cpu`` or ``reference``.
    threads : int
        0 means every core.

    Returns
    -------
    BestBicliques

    Raises
    ------
    InvalidArgument
        An unknown score, a number out of range, or weights that do not fit the graph.
    MemoryBudgetExceeded
        A part of the graph is too large to search within 1 GiB.

    Examples
    --------
    >>> best = best_bicliques(([0, 0, 1, 1, 1, 2, 2], [0, 1, 0, 1, 2, 1, 2]), k=2, engine="reference")
    >>> best.scores.tolist(), best.bound
    ([4, 4], 4.0)
    >>> sorted(best.table.as_set())
    [((0, 1), (0, 1)), ((1, 2), (1, 2))]
    """
    if weights is not None:
        weights = np.ascontiguousarray(weights, np.float64)
        if not isinstance(graph, BipartiteCSR):
            raise InvalidArgument(
                "graph is a pair of arrays: expected a BipartiteCSR by weight: its edges have an order"
            )
    query = BestQuery(by, k, min_left, min_right, overlap, missing, weights)
    execution = Execution(threads=threads, time_limit_seconds=time_limit)
    sink = BestSink(None if on_progress is None else lambda standing: on_progress(_told(standing, seconds=0.05)))
    stream.stream(PROBLEM, sink, as_bipartite(graph), query, execution, engine)
    return _told(sink.standing)


def _told(standing: Standing | None, seconds: float = 1.0) -> BestBicliques:
    assert standing is not None
    ranked = standing.best(seconds)
    bound, is_complete = float(standing.bound), standing.is_complete
    return BestBicliques(ranked.scores, ranked.n_edges, ranked.keys, ranked.members, bound, is_complete)

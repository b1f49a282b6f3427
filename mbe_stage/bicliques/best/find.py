"""`best_bicliques`: the best maximal bicliques of a graph in memory."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from mbe_stage.bicliques.best import branch_and_bound, surprising
from mbe_stage.bicliques.best.branch_and_bound import BestSearch, Standing
from mbe_stage.bicliques.best.query import BestQuery
from mbe_stage.bicliques.best.ranking import Ranked
from mbe_stage.bicliques.keys import hash_integers, vertex_hashes
from mbe_stage.bicliques.results import BicliqueTable
from mbe_stage.errors import InvalidArgument
from mbe_stage.graphs.bipartite import BipartiteCSR
from mbe_stage.graphs.given import as_bipartite
from mbe_stage.options import Execution
from mbe_stage.ragged import long_offsets
from mbe_stage.runtime.compile_ahead import CompileStep, compile_ahead

# If overlaps are limited, so many times as many are ranked when those so far are not enough.
_MORE = 4


@dataclass(frozen=True, slots=True, eq=False)
class BestBicliques:
    """The best maximal bicliques, in rank order.

    Attributes
    ----------
    scores : (n,) int64, or float64 for weights and surprise
    keys : (n,) int64
    table : BicliqueTable
    bound : float
        No biclique that was not ranked has a higher score; infinite if nothing is known.
    is_complete : bool
        False if the time limit ended the search. Then better ones may exist, up to `bound`.
    """

    scores: np.ndarray
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
    weights: np.ndarray | None = None,
    time_limit: float | None = None,
    on_progress: Callable[[BestBicliques], object] | None = None,
) -> BestBicliques:
    """Return the `k` best maximal bicliques of a graph, by branch and bound on one thread.

    The order is by score, then by more edges, then by key, the smaller first. A key names the members' ids
    (`mbe_stage.bicliques.keys`). Branch and bound is exact and lists few bicliques. By surprise all are listed.

    Parameters
    ----------
    graph : BipartiteCSR, or a pair of integer arrays
        Dense ids; a pair is ``(left_ids, right_ids)``, one edge a position.
    by : str
        ``edges``, ``vertices``, ``balance`` (size of the smaller side), ``weight`` (sum of the edges' weights), or
        ``surprise`` in nats (`mbe_stage.groups.NullModel`).
    min_left, min_right : int
        Fewest vertices on a side. With 1, the best by edges is usually one vertex with all its neighbours.
    overlap : float
        Go through the bicliques by rank, and leave one out if an earlier one that was taken has more than this share of
        its edges. With 1, all are taken.
    weights : (n_edges,) array, optional
        For ``weight``: a finite number of at least 0 for each edge of `graph.edges()`. The graph has to be a
        BipartiteCSR.
    time_limit : float, optional
        Seconds. Afterwards the best so far are returned.
    on_progress : callable, optional
        Receives the best so far and the bound, now and then; an exception that it raises ends the search.

    Returns
    -------
    BestBicliques

    Raises
    ------
    InvalidArgument
        An unknown score, a number out of its range, or weights that do not fit.
    MemoryBudgetExceeded
        A part of the graph is too large to be searched.

    Examples
    --------
    >>> best = best_bicliques(([0, 0, 1, 1, 1, 2, 2], [0, 1, 0, 1, 2, 1, 2]), k=2)
    >>> best.scores.tolist(), best.bound
    ([4, 4], 4.0)
    >>> sorted(best.table.as_set())
    [((0, 1), (0, 1)), ((1, 2), (1, 2))]
    """
    query = BestQuery(by, k, min_left, min_right, overlap)
    if by == "weight" and not isinstance(graph, BipartiteCSR):
        raise InvalidArgument("graph is a pair of arrays: expected a BipartiteCSR by weight, whose edges have an order")
    if time_limit is not None and not time_limit > 0:
        raise InvalidArgument(f"time_limit is {time_limit}: expected seconds, more than 0, or None")
    graph = as_bipartite(graph)
    weights = checked_weights(graph, query, weights)
    hashes = (
        vertex_hashes(hash_integers(np.arange(graph.n_left)), "left"),
        vertex_hashes(hash_integers(np.arange(graph.n_right)), "right"),
    )
    compile_ahead(compile_steps(query))
    deadline = math.inf if time_limit is None else time.perf_counter() + time_limit
    best = None
    for standing in standings(graph, query, hashes, weights, Execution(), deadline):
        best = _told(standing)
        if on_progress is not None:
            on_progress(best)
    assert best is not None
    return best


def compile_steps(query: BestQuery) -> tuple[CompileStep, ...]:
    """Compile what a query needs, but for the engine that lists all bicliques by surprise."""
    if query.by == "surprise":
        return surprising.compile_steps()
    return branch_and_bound.compile_steps(query.by == "weight")


def standings(
    graph: BipartiteCSR,
    query: BestQuery,
    hashes: tuple[np.ndarray, np.ndarray],
    weights: np.ndarray | None,
    execution: Execution,
    deadline: float,
) -> Iterator[Standing]:
    """Yield the best so far now and then; the last one is complete unless the deadline ended the search.

    Parameters
    ----------
    hashes : pair of uint64 arrays
        Salted hashes of the left and right vertices.
    weights : (n_edges,) float64 or None
        Checked by `checked_weights`.
    deadline : float
        By `time.perf_counter`.
    """
    n_ranked = query.k
    while True:
        wanted, standing = replace(query, k=n_ranked), None
        if query.by == "surprise":
            searched = surprising.most_surprising(graph, wanted, hashes, execution, deadline)
        else:
            searched = BestSearch(graph, wanted, hashes, weights, execution.memory_budget_bytes).run()
        for standing in searched:
            if standing.is_complete:
                break
            yield _apart(standing, query)
            if time.perf_counter() > deadline:
                return
        assert standing is not None
        chosen = _apart(standing, query)
        if len(chosen.ranked) == query.k or len(standing.ranked) < n_ranked or not standing.is_complete:
            yield chosen
            return
        yield replace(chosen, is_complete=False)
        n_ranked *= _MORE


def checked_weights(graph: BipartiteCSR, query: BestQuery, weights: np.ndarray | None) -> np.ndarray | None:
    """Return the weights as float64, one for each edge; None unless the query is by weight.

    Raises
    ------
    InvalidArgument
        There are none, or they do not fit.
    """
    if (weights is None) != (query.by != "weight"):
        raise InvalidArgument(
            f"by is {query.by!r} and weights are {'missing' if weights is None else 'given'}: expected weights by "
            "'weight', and only then"
        )
    if weights is None:
        return None
    weights = np.ascontiguousarray(weights, np.float64)
    if weights.shape != (graph.n_edges,):
        raise InvalidArgument(f"weights have the shape {weights.shape}: expected ({graph.n_edges},), one for each edge")
    if not (np.isfinite(weights) & (weights >= 0)).all():
        raise InvalidArgument("weights hold a negative number, NaN or infinity: expected finite numbers of at least 0")
    return weights


def _apart(standing: Standing, query: BestQuery) -> Standing:
    ranked: Ranked = standing.ranked
    return replace(standing, ranked=ranked.taken(ranked.apart(query.overlap, query.k)))


def _told(standing: Standing) -> BestBicliques:
    ranked, block = standing.ranked, standing.ranked.block
    left, right = long_offsets(block.left_sizes), long_offsets(block.right_sizes)
    table = BicliqueTable(left, block.left_members, right, block.right_members)
    return BestBicliques(ranked.scores, ranked.keys, table, standing.bound, standing.is_complete)

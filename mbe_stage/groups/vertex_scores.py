"""Scores of vertices: how much of a vertex belongs to groups, beside its degree."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import int64

from mbe_stage.compile_ahead import CompileStep
from mbe_stage.graphs.bipartite import BipartiteCSR
from mbe_stage.groups.candidates import Candidates
from mbe_stage.groups.null_model import UNIT, NullModel
from mbe_stage.jit import INTS, LONGS, compiled, steps_of

__all__ = ["MOST_STEPS", "EdgeScores", "compile_steps", "degree_percentiles", "edge_sqrt", "share_size"]

MOST_STEPS = 500_000_000
"""Of `edge_sqrt`, by default: a few seconds."""


class EdgeScores(NamedTuple):
    """What `edge_sqrt` found.

    Attributes
    ----------
    left : (n_left,) float64
    right : (n_right,) float64
    n_left_out : int
        Candidates of positive surprise that there were no steps left for; their edges count only where a better
        candidate covers them.
    """

    left: np.ndarray
    right: np.ndarray
    n_left_out: int


def share_size(best_numerators: np.ndarray, degrees: np.ndarray) -> np.ndarray:
    """The largest ``b sqrt(a) / sqrt(d)`` of each vertex, over the bicliques of `a` vertices of its side that hold it.

    Its square is the share of the vertex's own edges that the biclique has, times the biclique's edges.

    Parameters
    ----------
    best_numerators : (n,) int64
        The largest ``b b a``: `left_share` or `right_share` of `CandidateSink`.
    degrees : (n,) int64

    Returns
    -------
    (n,) float64
        0 for a vertex that no biclique holds.

    Examples
    --------
    >>> share_size(np.array([8, 0]), np.array([2, 3])).tolist()
    [2.0, 0.0]
    """
    return np.sqrt(best_numerators / np.maximum(degrees, 1))


def degree_percentiles(degrees: np.ndarray) -> np.ndarray:
    """The share of a side's vertices with a smaller degree, plus half of those with the same, itself among them.

    Parameters
    ----------
    degrees : (n,) integers

    Returns
    -------
    (n,) float64
        Above 0 and below 1; their mean is one half.

    Examples
    --------
    >>> degree_percentiles(np.array([5, 1, 1, 9])).tolist()
    [0.625, 0.25, 0.25, 0.875]
    """
    ascending = np.sort(degrees)
    below = np.searchsorted(ascending, degrees, side="left")
    return (below + np.searchsorted(ascending, degrees, side="right")) / (2 * max(1, degrees.size))


def edge_sqrt(
    graph: BipartiteCSR, candidates: Candidates, model: NullModel, *, most_steps: int = MOST_STEPS
) -> EdgeScores:
    """The evidence for each vertex, edge by edge: what the best group that covers an edge says for it.

    A candidate's log-likelihood ratio is its surprise without what naming it costs. Each edge takes the largest of the
    candidates of positive surprise that cover it, 0 where none does; a vertex has the sum over its edges, in nats,
    divided by the square root of its degree.

    Parameters
    ----------
    graph : BipartiteCSR
    candidates : Candidates
        Bicliques of the graph, best first.
    model : NullModel
        Of the graph.
    most_steps : int
        Candidates are taken best first. One of `b` right members counts as ``b (1 + bits of d // b)`` steps for each
        left member of degree `d`: so long is the search. The first that does not fit any more is left out, with all
        behind it, and they are counted. That depends on the graph and the candidates alone, not on the machine.

    Returns
    -------
    EdgeScores

    Examples
    --------
    >>> from mbe_stage.groups.members import GroupMembers
    >>> from mbe_stage.groups.null_model import surprise_of
    >>> block, single = np.indices((4, 4)).reshape(2, -1), np.arange(4, 204)
    >>> graph = BipartiteCSR.from_edges(*(np.concatenate([ids, single]) for ids in block))
    >>> model, members = NullModel.of(graph), GroupMembers.of([(range(4), range(4))])
    >>> scores = edge_sqrt(graph, Candidates(np.array([1]), surprise_of(members, model), members), model)
    >>> scores.left[3:5].round(2).tolist(), scores.n_left_out  # 4 edges of 16 ln 216 - 32 ln 4, over the root of 4
    ([83.29, 0.0], 0)
    """
    ranked = candidates.take(np.flatnonzero(candidates.surprise > 0))
    members = ranked.members
    ratios = ranked.surprise + model.left_costs[members.left_sizes] + model.right_costs[members.right_sizes]
    best = np.zeros(graph.n_edges, np.int64)
    n_done = _cover_edges(
        graph.left_offsets,
        graph.left_members,
        members.left_offsets,
        members.left_members,
        members.right_offsets,
        members.right_members,
        ratios,
        best,
        np.int64(most_steps),
    )
    # Whole numbers of units: their sums are exact up to 2^53, whatever the order of the edges.
    evidence = best.astype(np.float64)
    left_ids, right_ids = graph.edges()
    return EdgeScores(
        _per_root(np.bincount(left_ids, evidence, graph.n_left), graph.left_degrees),
        _per_root(np.bincount(right_ids, evidence, graph.n_right), graph.right_degrees),
        len(ranked) - int(n_done),
    )


def compile_steps() -> tuple[CompileStep, ...]:
    """What `edge_sqrt` needs."""
    return steps_of(_cover_edges)


def _per_root(sums: np.ndarray, degrees: np.ndarray) -> np.ndarray:
    return sums / (UNIT * np.sqrt(np.maximum(degrees, 1)))


@compiled(LONGS, INTS, LONGS, INTS, LONGS, INTS, LONGS, LONGS, int64, nrt=False, seconds=1.0)
def _cover_edges(
    offsets, neighbours, left_offsets, left_members, right_offsets, right_members, ratios, best, most_steps
):
    """Take candidates into what is the best of each edge, until the steps are spent; how many were taken.

    Parameters
    ----------
    offsets, neighbours : (n_left + 1,) int64 and (n_edges,) int32
        Of the graph's left vertices.
    left_offsets, left_members, right_offsets, right_members
        Of the candidates.
    ratios : (n_candidates,) int64
    best : (n_edges,) int64
        Changed in place.
    most_steps : int64
    """
    n_steps = np.int64(0)
    for i in range(ratios.size):
        right_start, right_end = right_offsets[i], right_offsets[i + 1]
        n_right = right_end - right_start
        for k in range(left_offsets[i], left_offsets[i + 1]):
            vertex = left_members[k]
            n_steps += n_right * _steps_of_one(offsets[vertex + 1] - offsets[vertex], n_right)
        if n_steps > most_steps:
            return i
        for k in range(left_offsets[i], left_offsets[i + 1]):
            vertex = left_members[k]
            position, end = offsets[vertex], offsets[vertex + 1]
            for m in range(right_start, right_end):
                position = _first_not_below(neighbours, position, end, right_members[m])
                if position < end and neighbours[position] == right_members[m] and ratios[i] > best[position]:
                    best[position] = ratios[i]
    return ratios.size


@compiled(nrt=False)
def _steps_of_one(degree, n_right):
    """Steps to find one of `n_right` neighbours among `degree`, with all others in between evenly spread."""
    steps = np.int64(1)
    ratio = degree // n_right
    while ratio > 0:
        steps += 1
        ratio >>= 1
    return steps


@compiled(nrt=False)
def _first_not_below(ascending, start, end, value):
    """Where the first entry from `start` on stands that is not below `value`: in doubling strides, then by halves."""
    stride = np.int64(1)
    low = start
    high = start
    while high < end and ascending[high] < value:
        low = high + 1
        high += stride
        stride *= 2
    high = min(high, end)
    while low < high:
        middle = (low + high) // 2
        if ascending[middle] < value:
            low = middle + 1
        else:
            high = middle
    return low

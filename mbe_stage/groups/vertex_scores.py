"""Scores of vertices: how strongly a vertex belongs to groups, given its degree."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import float64, int64

from mbe_stage.graphs.bipartite import BipartiteCSR
from mbe_stage.groups.candidates import Candidates
from mbe_stage.groups.members import first_not_below
from mbe_stage.groups.null_model import UNIT, NullModel
from mbe_stage.runtime.compile_ahead import CompileStep
from mbe_stage.runtime.jit import INTS, LONGS, compiled, steps_of

MOST_STEPS = 500_000_000
"""Default limit on steps of `edge_sqrt`: a few seconds."""


class EdgeScores(NamedTuple):
    """Result of `edge_sqrt`.

    Attributes
    ----------
    left, right : (n_left,) and (n_right,) float64
        `edge_sqrt`: highest for vertices in strong groups, whatever else they do.
    left_share, right_share : (n_left,) and (n_right,) float64
        `edge_share`: highest for vertices that do little else.
    n_left_out : int
        Number of candidates with positive evidence beyond the limit on steps; their edges count only if a better
        candidate covers them.
    """

    left: np.ndarray
    right: np.ndarray
    left_share: np.ndarray
    right_share: np.ndarray
    n_left_out: int


def share_size(best_numerators: np.ndarray, degrees: np.ndarray) -> np.ndarray:
    """Return the largest ``b sqrt(a) / sqrt(d)`` of each vertex, over its bicliques with `a` vertices on its side.

    Its square is the share of the vertex's own edges in the biclique, times the biclique's number of edges.

    Parameters
    ----------
    best_numerators : (n,) int64
        Largest ``b b a``: `left_share` or `right_share` of `CandidateSink`.
    degrees : (n,) int64

    Returns
    -------
    (n,) float64
        0 for a vertex without bicliques.

    Examples
    --------
    >>> share_size(np.array([8, 0]), np.array([2, 3])).tolist()
    [2.0, 0.0]
    """
    return np.sqrt(best_numerators / np.maximum(degrees, 1))


def degree_percentiles(degrees: np.ndarray) -> np.ndarray:
    """Return the share of a side's vertices with a smaller degree, plus half of those with the same (including itself).

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
    return _doubled_ranks(degrees) / (2 * max(1, degrees.size))


def best_score(members: np.ndarray, owners: np.ndarray, scores: np.ndarray, n_vertices: int) -> np.ndarray:
    """Return the highest score of each vertex's groups; 0 without groups; ``(n_vertices,) int64``.

    Parameters
    ----------
    members, owners : integers
        Result of `GroupMembers.side`.
    scores : (n,) int64
        Positive score of each group.

    Examples
    --------
    >>> best_score(np.array([0, 2, 2]), np.array([0, 0, 1]), np.array([5, 7]), 4).tolist()
    [5, 0, 7, 0]
    """
    best = np.zeros(n_vertices, np.int64)
    np.maximum.at(best, members, scores[owners])
    return best


def rank_score(*parts: np.ndarray) -> np.ndarray:
    """Return the percentile of each vertex's mean rank by several scores, among the vertices of its side.

    Vertices with equal scores share their mean rank. So no score outweighs another by its unit or its tail.

    Parameters
    ----------
    parts : (n,) float64 each
        Scores, not negative.

    Returns
    -------
    (n,) float64
        Percentiles as in `degree_percentiles`; 0 for a vertex whose scores are all 0.

    Examples
    --------
    >>> rank_score(np.array([0.0, 3.0, 1.0, 0.0]), np.array([0.0, 2.0, 9.0, 0.5])).tolist()
    [0.0, 0.75, 0.75, 0.375]
    """
    ranks = np.sum([_doubled_ranks(part) for part in parts], axis=0)
    return np.where(np.any(parts, axis=0), degree_percentiles(ranks), 0.0)


def _doubled_ranks(values: np.ndarray) -> np.ndarray:
    """Return the number of smaller values plus the number of values not larger, for each value."""
    ascending = np.sort(values)
    return np.searchsorted(ascending, values, side="left") + np.searchsorted(ascending, values, side="right")


def edge_sqrt(
    graph: BipartiteCSR, candidates: Candidates, model: NullModel, *, most_steps: int = MOST_STEPS
) -> EdgeScores:
    """Return the evidence for each vertex, edge by edge, from the best group that covers each edge.

    The evidence of a candidate is its log-likelihood ratio in nats: its surprise without the cost of naming. Each edge
    gets the largest evidence of the candidates that cover it, or 0. A vertex of degree `d` has

    - ``edge_sqrt``: the sum over its edges of the square root of that, divided by ``d^(3/4)``;
    - ``edge_share``: the same, with a candidate's evidence multiplied by the share of the vertex's edges in it.

    The square root, because twice the evidence does not make a vertex twice as suspicious. The divisor ``d^(3/4)`` is a
    compromise: the mean over the edges favours vertices with one edge, and the sum over ``d^(1/2)`` favours those with
    many. Candidates that are not significant count too, with their evidence.

    Parameters
    ----------
    graph : BipartiteCSR
    candidates : Candidates
        Bicliques of the graph, best first.
    model : NullModel
        Model of the graph.
    most_steps : int
        Limit on steps; candidates are taken best first. A candidate with `b` right members takes ``b (1 + bits of d //
        b)`` steps for each left member of degree `d`, as its search does. The first one that exceeds the limit and all
        later ones are left out and counted. The result does not depend on the machine.

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
    >>> scores.left[3:5].round(2).tolist(), scores.n_left_out  # 4 roots of 16 ln 216 - 32 ln 4, over 4^(3/4)
    ([9.13, 0.0], 0)
    """
    members = candidates.members
    ratios = candidates.surprise + model.naming_costs(members.left_sizes, members.right_sizes)
    kept = np.flatnonzero(ratios > 0)
    members, ratios = members.take(kept), ratios[kept]
    best = np.zeros((3, graph.n_edges))
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
    # Edges that no candidate covers add nothing to any sum.
    covered = np.flatnonzero(best[0])
    best = best[:, covered]
    left_ids, right_ids = np.searchsorted(graph.left_offsets, covered, side="right") - 1, graph.left_members[covered]
    left_degrees, right_degrees = graph.left_degrees, graph.right_degrees
    by_left_share, by_right_share = best[1] / left_degrees[left_ids], best[2] / right_degrees[right_ids]
    return EdgeScores(
        left=_summed(best[0], left_ids, left_degrees),
        right=_summed(best[0], right_ids, right_degrees),
        left_share=_summed(by_left_share, left_ids, left_degrees),
        right_share=_summed(by_right_share, right_ids, right_degrees),
        n_left_out=ratios.size - int(n_done),
    )


def compile_steps() -> tuple[CompileStep, ...]:
    """Return the steps to compile for `edge_sqrt`."""
    return steps_of(_cover_edges)


def _summed(evidence: np.ndarray, ids: np.ndarray, degrees: np.ndarray) -> np.ndarray:
    """Sum the square roots of the edges' evidence by vertex, in units, and divide by ``d^(3/4)``."""
    # Sums of whole numbers are exact up to 2^53, in any order of the edges.
    roots = np.rint(np.sqrt(evidence / UNIT) * UNIT)
    some = np.maximum(degrees, 1)
    return np.bincount(ids, roots, degrees.size) / (UNIT * np.sqrt(some * np.sqrt(some)))


@compiled(LONGS, INTS, LONGS, INTS, LONGS, INTS, LONGS, float64[:, ::1], int64, nrt=False, seconds=1.0)
def _cover_edges(
    offsets, neighbours, left_offsets, left_members, right_offsets, right_members, ratios, best, most_steps
):
    """Update the best values of each edge with candidates until the steps are used up; return the number of candidates.

    Parameters
    ----------
    offsets, neighbours : (n_left + 1,) int64 and (n_edges,) int32
        Neighbours of the graph's left vertices.
    left_offsets, left_members, right_offsets, right_members
        Members of the candidates.
    ratios : (n_candidates,) int64
    best : (3, n_edges) float64
        Changed in place: largest ratio, largest ratio times right members, and largest ratio times left members.
    """
    n_steps = np.int64(0)
    for i in range(ratios.size):
        right_start, right_end = right_offsets[i], right_offsets[i + 1]
        n_right = right_end - right_start
        ratio = np.float64(ratios[i])
        by_right, by_left = ratio * n_right, ratio * (left_offsets[i + 1] - left_offsets[i])
        for k in range(left_offsets[i], left_offsets[i + 1]):
            vertex = left_members[k]
            n_steps += n_right * _steps_of_one(offsets[vertex + 1] - offsets[vertex], n_right)
        if n_steps > most_steps:
            return i
        for k in range(left_offsets[i], left_offsets[i + 1]):
            vertex = left_members[k]
            position, end = offsets[vertex], offsets[vertex + 1]
            for m in range(right_start, right_end):
                position = first_not_below(neighbours, position, end, right_members[m])
                if position < end and neighbours[position] == right_members[m]:
                    best[0, position] = max(best[0, position], ratio)
                    best[1, position] = max(best[1, position], by_right)
                    best[2, position] = max(best[2, position], by_left)
    return ratios.size


@compiled(nrt=False)
def _steps_of_one(degree, n_right):
    """Return the steps to find one of `n_right` neighbours among `degree`, if they are evenly spread."""
    steps = np.int64(1)
    ratio = degree // n_right
    while ratio > 0:
        steps += 1
        ratio >>= 1
    return steps

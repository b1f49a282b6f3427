"""Sums of edge weights: per biclique, and the part of a graph where bicliques may reach a threshold."""

from __future__ import annotations

import numpy as np
from numba import float64, int64

from mbe_stage.bicliques.query import BicliqueQuery
from mbe_stage.bicliques.reduction import Core
from mbe_stage.graphs.subgraphs import peel_to_core
from mbe_stage.runtime.compile_ahead import CompileStep
from mbe_stage.runtime.jit import FLAGS, INTS, LONGS, compiled, steps_of

_FLOATS = float64[::1]
# The reduction is repeated if it left a smaller share of the edges.
_WORTH_IT = 0.95


def heavy_part(
    core: Core, weights: np.ndarray, sizes: BicliqueQuery, threshold: float, is_over: np.ndarray
) -> tuple[Core, np.ndarray, float]:
    """Return the part of the graph that contains all bicliques of these sizes with at least this weight.

    A biclique of a vertex weighs at most the sum of all edges between its neighbours and the vertices that share enough
    of them. Another thread sets `is_over`, (1,) bool, to stop.

    Returns
    -------
    part : Core
    weights : float64
        Weights of its edges.
    bound : float
        Upper bound on the weight of a biclique of these sizes.
    """
    while core.graph.n_edges:
        graph = core.graph
        of_right = weights[np.argsort(graph.left_members, kind="stable")]
        left = graph.left_offsets, graph.left_members
        right = graph.right_offsets, graph.right_members
        most = (
            _heaviest(*left, *right, of_right, sizes.min_right, is_over),
            _heaviest(*right, *left, weights, sizes.min_left, is_over),
        )
        bound = float(min(each.max() for each in most))
        alive = most[0] >= threshold, most[1] >= threshold
        peel_to_core(graph, *alive, sizes.min_left, sizes.min_right)
        kept = np.repeat(alive[0], graph.left_degrees) & alive[1][graph.left_members]
        core, weights = core.only(*alive), weights[kept]
        if core.graph.n_edges > _WORTH_IT * graph.n_edges:
            return core, weights, bound
    return core, weights, 0.0


def compile_steps() -> tuple[CompileStep, ...]:
    """Return the steps to compile the functions of this module."""
    return steps_of(_heaviest, sums)


@compiled(LONGS, INTS, LONGS, INTS, _FLOATS, int64, FLAGS)
def _heaviest(offsets, members, other_offsets, other_members, weights, least, is_over):
    """Return, for each row, the sum of the weights between its members and the rows that share `least` of them.

    Parameters
    ----------
    weights : float64
        Weights of the entries of `other_members`.
    is_over : (1,) bool
        Set by another thread to stop.
    """
    n_rows = offsets.size - 1
    most, total, n_shared = np.zeros(n_rows), np.zeros(n_rows), np.zeros(n_rows, np.int32)
    for row in range(n_rows):
        if is_over[0]:
            break
        for is_end in range(2):
            for k in range(offsets[row], offsets[row + 1]):
                for j in range(other_offsets[members[k]], other_offsets[members[k] + 1]):
                    other = other_members[j]
                    if not is_end:
                        total[other] += weights[j]
                        n_shared[other] += 1
                    elif n_shared[other] > 0:
                        most[row] += total[other] if n_shared[other] >= least else 0.0
                        total[other], n_shared[other] = 0.0, 0
    return most


@compiled(LONGS, INTS, LONGS, INTS, LONGS, INTS, _FLOATS, int64)
def sums(left_offsets, left, right_offsets, right, offsets, members, weights, n_right):
    """Return the sum of the weights of each biclique's edges, (n,) float64.

    Parameters
    ----------
    left_offsets, left, right_offsets, right
        The members of each biclique.
    offsets, members, weights, n_right
        The neighbours of left vertices, the weights of these edges, and the number of right vertices.
    """
    found, owner = np.zeros(left_offsets.size - 1), np.full(n_right, -1)
    for i in range(found.size):
        owner[right[right_offsets[i] : right_offsets[i + 1]]] = i
        for k in range(left_offsets[i], left_offsets[i + 1]):
            for j in range(offsets[left[k]], offsets[left[k] + 1]):
                found[i] += weights[j] if owner[members[j]] == i else 0.0
    return found

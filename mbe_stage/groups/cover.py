"""The cover: choose groups one after another, each for the edges that no earlier one explains.

The edges of chosen groups are explained: in later groups they count neither for nor against. The gain of a group is the
sum of the worth of its other present edges, minus the cost of its missing edges and of its description
(`quasi_bicliques`). The group with the largest
gain is chosen, until none gains, as in KRIMP and in tiling (Geerts, Goethals and Mielikäinen, DS 2004).

The search is lazy (Minoux 1978): a heap holds a bound of each group's gain, which is recomputed only when it is the
largest. The gain of a complete group only falls, and is its own bound. In a group with missing edges, an edge between
hubs may count against it, and its gain rises when another group explains that edge. So its bound leaves such edges out.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass

import numpy as np
from numba import int64, types

from mbe_stage.errors import InvalidArgument
from mbe_stage.graphs.bipartite import BipartiteCSR
from mbe_stage.groups.members import GroupMembers
from mbe_stage.groups.null_model import PAIR_WEIGHTS, NullModel
from mbe_stage.groups.quasi_bicliques import density_term, log_units_of, pair_weight
from mbe_stage.runtime.compile_ahead import CompileStep
from mbe_stage.runtime.jit import FLAGS, INTS, LONGS, compiled, steps_of


@dataclass(frozen=True, slots=True, eq=False)
class Cover:
    """Groups in order of choice.

    Attributes
    ----------
    rows : (m,) int64
        Which groups.
    gains : (m,) int64
        Gain of each when it was chosen, in units of ``1 / UNIT`` nat; positive and, for complete groups, falling.
    n_new_edges : (m,) int64
        Its present edges that no earlier group has.
    """

    rows: np.ndarray
    gains: np.ndarray
    n_new_edges: np.ndarray


def cover(
    graph: BipartiteCSR, groups: GroupMembers, model: NullModel, costs: np.ndarray, *, limit: int | None = None
) -> Cover:
    """Choose groups greedily, by what they explain beyond the chosen ones, until none gains.

    Parameters
    ----------
    graph : BipartiteCSR
        On the host.
    groups : GroupMembers
        Bicliques or quasi-bicliques of the graph, in any order; each with at least one member a side.
    costs : (n,) int64
        Cost of naming each, in units.

    Returns
    -------
    Cover
        Of equal gains the lower row comes first.

    Raises
    ------
    InvalidArgument
        `limit` is negative, or a group has no member on a side.

    Examples
    --------
    >>> edges = [(u, v) for u in range(4) for v in range(4)] + [(u, u) for u in range(4, 1000)]
    >>> graph = BipartiteCSR.from_edges(*zip(*edges))
    >>> groups = GroupMembers.of([([0, 1, 2], [0, 1, 2, 3]), ([0, 1, 2, 3], [0, 1, 2, 3]), ([4], [4])])
    >>> model = NullModel.of(graph)
    >>> costs = model.costs_of_grown(groups.left_sizes, groups.right_sizes, groups.right_sizes, groups.left_sizes)
    >>> cover(graph, groups, model, costs).rows.tolist()
    [1]
    """
    if limit is not None and limit < 0:
        raise InvalidArgument(f"limit is {limit}: expected 0 or more, or None for no limit")
    for side, sizes in (("left", groups.left_sizes), ("right", groups.right_sizes)):
        if (sizes == 0).any():
            raise InvalidArgument(f"group {int(np.argmin(sizes))} has no {side} member: expected some on each side")
    graph_parts, group_parts, model_parts = _parts(graph, groups, model, costs)
    explained = np.zeros(graph.n_edges, np.bool_)

    chosen: list[tuple[int, int, int]] = []
    bounds = _all_bounds(graph_parts, group_parts, model_parts, explained)
    # What cannot gain now never will.
    heap = [(-bound, row) for row, bound in enumerate(bounds.tolist()) if bound > 0]
    heapq.heapify(heap)
    while heap and (limit is None or len(chosen) < limit):
        gain, row, aside = 0, -1, []
        # A larger bound may hide a larger gain; an equal one matters only for a lower row.
        while heap and (-heap[0][0] > gain or (-heap[0][0] == gain and heap[0][1] < row)):
            other = heapq.heappop(heap)[1]
            other_gain, bound = _figures(other, graph_parts, group_parts, model_parts, explained)
            if other_gain > gain or (other_gain == gain and other < row):
                gain, row = other_gain, other
            if bound > 0:
                aside.append((-bound, other))
        if row < 0:
            break
        chosen.append((row, gain, _explain(row, graph_parts, group_parts, explained)))
        for entry in aside:
            if entry[1] != row:
                heapq.heappush(heap, entry)
    columns = np.array(chosen, np.int64).reshape(-1, 3)
    return Cover(*(np.ascontiguousarray(columns[:, i]) for i in range(3)))


def compile_steps() -> tuple[CompileStep, ...]:
    """Everything here."""
    return steps_of(_all_bounds, _figures, _explain)


_Parts = tuple[np.ndarray, ...]


def _parts(
    graph: BipartiteCSR, groups: GroupMembers, model: NullModel, costs: np.ndarray
) -> tuple[_Parts, _Parts, _Parts]:
    """Arrays for the compiled functions: rows of the left side; members; logarithms, weights and costs."""
    return (
        (graph.left_offsets, graph.left_members),
        (groups.left_offsets, groups.left_members, groups.right_offsets, groups.right_members),
        (
            model.left_log_degrees - model.log_edges,
            model.right_log_degrees,
            PAIR_WEIGHTS,
            costs,
        ),
    )


_GRAPH = types.Tuple((LONGS, INTS))
_GROUPS = types.Tuple((LONGS, INTS, LONGS, INTS))
_MODEL = types.UniTuple(LONGS, 4)


@compiled()
def _positions(first, end, members, right, found):
    """Positions of the ascending ids `right` in the ascending ``members[first:end]``.

    Parameters
    ----------
    found : int64
        Receives the positions of those that are there.
    """
    n = 0
    for vertex in right:
        low, high = first, end
        while low < high:
            middle = (low + high) >> 1
            if members[middle] < vertex:
                low = middle + 1
            else:
                high = middle
        if low == end:
            break
        if members[low] == vertex:
            found[n] = low
            n += 1
        first = low
    return n


@compiled(int64, _GRAPH, _GROUPS, _MODEL, FLAGS, seconds=1.5)
def _figures(row, graph, groups, model, explained):
    """Gain of a group now, and its upper bound.

    Parameters
    ----------
    graph, groups, model
        See `_parts`.
    explained : (n_edges,) bool
        Edges of the left side's rows that a chosen group has.

    Returns
    -------
    gain, bound : int
        In units.
    """
    offsets, members = graph
    left_offsets, left_members, right_offsets, right_members = groups
    left_logs, right_logs, weights, costs = model
    left = left_members[left_offsets[row] : left_offsets[row + 1]]
    right = right_members[right_offsets[row] : right_offsets[row + 1]]
    found = np.empty(right.size, np.int64)
    n_cells, n_present = left.size * right.size, 0
    for u in left:
        n_present += _positions(offsets[u], offsets[u + 1], members, right, found)
    is_complete = n_present == n_cells
    log_share = np.int64(0) if is_complete or n_present == 0 else log_units_of(n_present, n_cells)
    # Of the present edges `log_share` each; the rest is of the missing ones, and stays.
    fixed = density_term(n_present, n_cells) - n_present * log_share - costs[row]
    gain, bound = fixed, fixed
    for u in left:
        for i in range(_positions(offsets[u], offsets[u + 1], members, right, found)):
            position = found[i]
            if not explained[position]:
                worth = pair_weight(left_logs[u] + right_logs[members[position]], weights) + log_share
                gain += worth
                bound += max(worth, 0)
    return gain, bound


@compiled(_GRAPH, _GROUPS, _MODEL, FLAGS, seconds=1.5)
def _all_bounds(graph, groups, model, explained):
    """The bound of every group; arguments as in `_figures`, result ``(n,) int64``."""
    bounds = np.empty(groups[0].size - 1, np.int64)
    for row in range(bounds.size):
        bounds[row] = _figures(row, graph, groups, model, explained)[1]
    return bounds


@compiled(int64, _GRAPH, _GROUPS, FLAGS, seconds=0.5)
def _explain(row, graph, groups, explained):
    """Mark a group's present edges as explained; how many were not before."""
    offsets, members = graph
    left_offsets, left_members, right_offsets, right_members = groups
    right = right_members[right_offsets[row] : right_offsets[row + 1]]
    found, n_new = np.empty(right.size, np.int64), 0
    for u in left_members[left_offsets[row] : left_offsets[row + 1]]:
        for i in range(_positions(offsets[u], offsets[u + 1], members, right, found)):
            if not explained[found[i]]:
                explained[found[i]] = True
                n_new += 1
    return n_new

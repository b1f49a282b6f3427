"""Pair seeds: each left vertex with its two best partners, and all that they share; no enumeration is needed.

A loose group holds no large biclique, but two of its members still share more than others do. The best partner of a
vertex is the left vertex with the largest ``shared / sqrt(degree)``, where `shared` counts common neighbours, at least
two, and `degree` is the partner's.

The walk from a vertex to its neighbours and on to theirs takes ``sum of d_v^2`` steps over the right vertices. Those
of huge degree make nearly all of them and say least. So the walk leaves out those of the highest degrees, until the
rest fits a limit that depends on degrees only.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numba import int64, types

from mbe_stage.graphs.bipartite import BipartiteCSR
from mbe_stage.groups.members import GroupMembers, offsets_of
from mbe_stage.groups.null_model import PAIR_WEIGHTS, NullModel
from mbe_stage.groups.quasi_bicliques import pair_weight
from mbe_stage.options import Execution
from mbe_stage.runtime.compile_ahead import CompileStep
from mbe_stage.runtime.jit import INTS, LONGS, compiled, steps_of

LEAST_STEPS, STEPS_PER_EDGE = 100_000_000, 20
"""The walk takes at most so many steps, or so many per edge if that is more: half a second of one core, or more."""


def pair_seeds(
    graph: BipartiteCSR, model: NullModel, *, threads: int = 1, most_steps: int | None = None
) -> GroupMembers:
    """Return each left vertex with its two best partners and all common neighbours, the most surprising pair first.

    Parameters
    ----------
    graph : BipartiteCSR
        On the host.
    model : NullModel
        Of the graph.
    threads : int
        0 is every core. Each takes eight bytes a left vertex.
    most_steps : int, optional
        Most steps of the walk.

    Returns
    -------
    GroupMembers
        Each pair once; ties of surprise are in the order of the left members.

    Examples
    --------
    >>> graph = BipartiteCSR.from_edges([0, 0, 0, 1, 1, 1, 2, 2, 3], [0, 1, 2, 0, 1, 2, 1, 2, 3])
    >>> [(left.tolist(), right.tolist()) for left, right in pair_seeds(graph, NullModel.of(graph))]
    [([0, 1], [0, 1, 2]), ([0, 2], [1, 2]), ([1, 2], [1, 2])]
    """
    most_steps = max(LEAST_STEPS, STEPS_PER_EDGE * graph.n_edges) if most_steps is None else most_steps
    degrees, counts = np.unique(graph.right_degrees, return_counts=True)
    # In floating point: squares may leave 64 bits, far above any limit.
    largest = degrees[np.cumsum(counts * degrees.astype(np.float64) ** 2) <= most_steps].max(initial=0)
    lists = graph.left_offsets, graph.left_members, graph.right_offsets, graph.right_members
    null = model.left_log_degrees - model.log_edges, model.right_log_degrees, PAIR_WEIGHTS
    # Two of each left vertex: its partner, the number of common neighbours, and the evidence.
    partners = np.full(2 * graph.n_left, -1, np.int32)
    sizes, evidence = (np.zeros(2 * graph.n_left, np.int64) for _ in range(2))
    common = np.full(2 * graph.n_edges, -1, np.int32)
    n_threads = Execution(threads=threads).worker_count
    # Parts with equal numbers of edges, so that hubs are spread.
    edges = np.linspace(0, graph.n_edges, 4 * n_threads + 1)[1:-1]
    bounds = [0, *np.searchsorted(graph.left_offsets[:-1], edges).tolist(), graph.n_left]
    with ThreadPoolExecutor(n_threads) as pool:
        found = partners, sizes, evidence, common
        list(pool.map(lambda *part: _pair_up(part, largest, lists, null, *found), bounds[:-1], bounds[1:]))
    left = np.sort(np.column_stack([np.repeat(np.arange(graph.n_left, dtype=np.int32), 2), partners]))
    _, rows = np.unique(left[:, 0].astype(np.int64) << 32 | left[:, 1], return_index=True)
    rows = rows[left[rows, 0] >= 0]
    surprise = evidence[rows] - model.naming_costs(np.full(rows.size, 2), sizes[rows])
    pairs = GroupMembers(np.arange(0, left.size + 1, 2), left.reshape(-1), offsets_of(sizes), common[common >= 0])
    return pairs.take(rows[np.argsort(-surprise, kind="stable")])


def compile_steps() -> tuple[CompileStep, ...]:
    """Compile the functions of this module."""
    return steps_of(_pair_up)


_PART, _LISTS, _NULL = types.UniTuple(int64, 2), types.Tuple((LONGS, INTS, LONGS, INTS)), types.UniTuple(LONGS, 3)


@compiled(_PART, int64, _LISTS, _NULL, INTS, LONGS, LONGS, INTS, seconds=2.0)
def _pair_up(part, largest, lists, null, partners, sizes, evidence, common):
    """Find the two best partners of some left vertices, and what they share.

    Parameters
    ----------
    part : (int, int)
        First and end of the vertices.
    largest : int
        Right vertices of higher degree are left out of the walk.
    lists : tuple
        Neighbours of the left and of the right vertices: offsets and members.
    null : tuple
        ``ln d - ln E`` of the left vertices, ``ln d`` of the right ones, and `PAIR_WEIGHTS`.
    partners, sizes, evidence : (2 * n_left,)
        Written where there are partners: two a vertex, the better first.
    common : (2 * n_edges,) int32
        Written likewise: common neighbours, twice the degree of a vertex at most.
    """
    offsets, members, other_offsets, other_members = lists
    left_logs, right_logs, weights = null
    shared, met = np.zeros(offsets.size - 1, np.int32), np.empty(offsets.size - 1, np.int32)
    for vertex in range(part[0], part[1]):
        n_met, place = 0, 2 * offsets[vertex]
        for v in members[offsets[vertex] : offsets[vertex + 1]]:
            if other_offsets[v + 1] - other_offsets[v] <= largest:
                for other in other_members[other_offsets[v] : other_offsets[v + 1]]:
                    if shared[other] == 0:
                        met[n_met] = other
                        n_met += 1
                    shared[other] += 1
        shared[vertex] = 0
        for row in range(2 * vertex, 2 * vertex + 2):
            best, most = -1, 0.0
            for other in met[:n_met]:
                # Squared: one division of exact numbers is rounded alike everywhere.
                value = np.float64(shared[other]) ** 2 / np.float64(offsets[other + 1] - offsets[other])
                if shared[other] > 1 and (value > most or (value == most and other < best)):
                    best, most = other, value
            if best < 0:
                break
            partners[row], shared[best] = best, 0
            start, end = offsets[best], offsets[best + 1]
            for v in members[offsets[vertex] : offsets[vertex + 1]]:
                start += np.searchsorted(members[start:end], v)
                if start < end and members[start] == v:
                    for u in (vertex, best):
                        evidence[row] += pair_weight(left_logs[u] + right_logs[v], weights)
                    common[place + sizes[row]] = v
                    sizes[row] += 1
            place += sizes[row]
        for other in met[:n_met]:
            shared[other] = 0

"""Parts of a bipartite graph: common neighbours, the (p, q)-core, induced subgraphs."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numba import int64
from numba.types import UniTuple

from mbe_stage.graphs import csr
from mbe_stage.graphs.bipartite import BipartiteCSR
from mbe_stage.graphs.csr import filtered
from mbe_stage.runtime.compile_ahead import CompileStep
from mbe_stage.runtime.jit import FLAGS, INTS, LONGS, compiled, steps_of

# Sweeps continue while each clears at least one vertex in `_FEWEST_PER_SWEEP`. Lists are copied if a sweep clears one
# in `_MANY`, and the other side's lists may have nearly `_LONG` entries: shorter ones are faster to read than to copy.
_FEWEST_PER_SWEEP, _MANY, _LONG = 64, 4, 8


def common_neighbours(graph: BipartiteCSR, left: Iterable[int], right: Iterable[int]) -> tuple[np.ndarray, np.ndarray]:
    """Mark the left vertices adjacent to all of `right`, and the right vertices adjacent to all of `left`.

    Returns
    -------
    left_common : (n_left,) bool
        All true if `right` is empty.
    right_common : (n_right,) bool
    """
    return _adjacent_to(graph.swapped(), right), _adjacent_to(graph, left)


def peel_to_core(
    graph: BipartiteCSR,
    left_alive: np.ndarray,
    right_alive: np.ndarray,
    min_left: int,
    min_right: int,
    degrees: tuple[np.ndarray, np.ndarray] | None = None,
) -> int:
    """Clear vertices until every left one has `min_right` live neighbours, and every right one has `min_left`.

    Return the number of edges between live vertices.

    Parameters
    ----------
    left_alive : (n_left,) bool
        Changed in place, like `right_alive`.
    right_alive : (n_right,) bool
    degrees : pair of int32 arrays, optional
        Result of `live_degrees`. They are changed in place, ready for the next core inside this one.
    """
    degrees = live_degrees(graph, left_alive, right_alive) if degrees is None else degrees
    offsets, members = (graph.left_offsets, graph.right_offsets), (graph.left_members, graph.right_members)
    return int(_peel_to_core(offsets, members, (left_alive, right_alive), degrees, (min_right, min_left)))


def live_degrees(graph: BipartiteCSR, left_alive: np.ndarray, right_alive: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the number of live neighbours of each live left and right vertex, int32."""
    return _live_degrees(graph.left_offsets, graph.left_members, graph.right_offsets, left_alive, right_alive)


def subgraph(
    graph: BipartiteCSR, left_kept: np.ndarray, right_kept: np.ndarray, new_left: np.ndarray, new_right: np.ndarray
) -> BipartiteCSR:
    """Return the graph on the kept vertices, with new ids in the same order.

    Parameters
    ----------
    left_kept, right_kept : (n_left,) and (n_right,) bool
    new_left, new_right : (n_left,) and (n_right,) int64
        New ids; entries of removed vertices are ignored.
    """
    if left_kept.all() and right_kept.all():
        return graph
    left = filtered(graph.left_offsets, graph.left_members, left_kept, right_kept, new_right)
    right = filtered(graph.right_offsets, graph.right_members, right_kept, left_kept, new_left)
    return BipartiteCSR(int(np.count_nonzero(left_kept)), int(np.count_nonzero(right_kept)), *left, *right)


def _adjacent_to(graph: BipartiteCSR, left: Iterable[int]) -> np.ndarray:
    """Mark the right vertices adjacent to all of some left ones."""
    common = np.ones(graph.n_right, dtype=np.bool_)
    for vertex in left:
        inside = np.zeros(graph.n_right, dtype=np.bool_)
        inside[graph.neighbours_of_left(vertex)] = True
        common &= inside
    return common


def ranks(alive: np.ndarray) -> np.ndarray:
    """Return new ids for the kept vertices, in the same order, ``(n,) int64``."""
    return np.cumsum(alive) - 1


def compile_steps() -> tuple[CompileStep, ...]:
    """Return the steps to compile the functions of this module and those that filter adjacency arrays."""
    return (*csr.compile_steps(), *steps_of(_live_degrees, _peel_to_core))


@compiled(LONGS, INTS, LONGS, FLAGS, FLAGS)
def _live_degrees(left_offsets, left_members, right_offsets, left_alive, right_alive):
    n_left, n_right = left_alive.size, right_alive.size
    left_degree, right_degree = np.empty(n_left, np.int32), np.empty(n_right, np.int32)
    is_whole = True
    # Loops, because NumPy's functions would load Numba's linear algebra and SciPy's with this module.
    for u in range(n_left):
        left_degree[u] = left_offsets[u + 1] - left_offsets[u]
        is_whole &= left_alive[u]
    for v in range(n_right):
        right_degree[v] = right_offsets[v + 1] - right_offsets[v]
        is_whole &= right_alive[v]
    # The degrees of a whole graph need no pass over its edges.
    if not is_whole:
        left_degree[:] = 0
        right_degree[:] = 0
        for u in range(n_left):
            if left_alive[u]:
                for k in range(left_offsets[u], left_offsets[u + 1]):
                    if right_alive[left_members[k]]:
                        left_degree[u] += 1
                        right_degree[left_members[k]] += 1
    return left_degree, right_degree


@compiled(*(UniTuple(kind, 2) for kind in (LONGS, INTS, FLAGS, INTS, int64)))
def _peel_to_core(offsets, members, alive, degree, least):
    """Clear vertices until each has `least` live neighbours; return the number of edges between live vertices.

    Parameters
    ----------
    offsets, members, alive, degree, least
        Pairs for the left and the right side; `degree` counts the live neighbours of each live vertex.
    """
    n_left, n = alive[0].size, alive[0].size + alive[1].size
    # While many vertices are cleared, sweeps read lists in order, without the cache misses of a queue.
    n_cleared = n
    while n_cleared * _FEWEST_PER_SWEEP > n:
        n_cleared = _sweep(offsets[0], members[0], alive[0], degree[0], degree[1], least[0])
        if n_cleared * _MANY > n_left and max(least) >= _LONG:
            _squeeze(offsets[0], members[0], alive, degree, least)
            break
        n_cleared += _sweep(offsets[1], members[1], alive[1], degree[1], degree[0], least[1])
    queue, n_queued, done = np.empty(n, np.int64), 0, 0
    for side in range(2):
        lives, n_live = alive[side], degree[side]
        for vertex in range(lives.size):
            if lives[vertex] & (n_live[vertex] < least[side]):
                lives[vertex] = False
                queue[n_queued] = vertex + side * n_left
                n_queued += 1
    # Only flags of cleared vertices are kept, not their degrees: flags need less cache.
    while done < n_queued:
        side = int64(queue[done] >= n_left)
        vertex, other = queue[done] - side * n_left, 1 - side
        starts, neighbours, lives, n_live = offsets[side], members[side], alive[other], degree[other]
        done += 1
        for k in range(starts[vertex], starts[vertex + 1]):
            if lives[neighbours[k]]:
                n_live[neighbours[k]] -= 1
                if n_live[neighbours[k]] < least[other]:
                    lives[neighbours[k]] = False
                    queue[n_queued] = neighbours[k] + other * n_left
                    n_queued += 1
    n_edges = 0
    for vertex in range(n_left):
        n_edges += alive[0][vertex] * degree[0][vertex]
    return n_edges


@compiled()
def _sweep(offsets, members, alive, degree, other_degree, least):
    """Clear the vertices of a side with fewer than `least` live neighbours; return their number."""
    cleared, n_cleared = np.empty(alive.size, np.int32), 0
    for vertex in range(alive.size):
        is_cleared = alive[vertex] & (degree[vertex] < least)
        # Many vertices may have a single neighbour: only of larger degrees, a branch is nearly always predicted.
        if least > 2 and not is_cleared:
            continue
        cleared[np.uint64(n_cleared)] = vertex
        n_cleared += is_cleared
        alive[vertex] &= not is_cleared
    for i in range(n_cleared):
        # Unsigned indices save the check for negative ones.
        own = np.uint64(cleared[i])
        for k in range(np.uint64(offsets[own]), np.uint64(offsets[own + np.uint64(1)])):
            other_degree[np.uint64(members[k])] -= 1
    return n_cleared


@compiled()
def _squeeze(offsets, members, both_alive, degrees, least):
    """Clear vertices of both sides while many are cleared, copying the first side's lists without cleared members.

    So lists stay compact in memory, and lists of the other side are not read. A vertex of the other side is cleared as
    soon as it has too few neighbours; later lists of the same sweep omit it.
    """
    (alive, other_alive), (degree, other_degree) = both_alive, degrees
    rows, n = np.empty(alive.size, np.int32), 0
    starts, ends = np.empty(alive.size, np.int64), np.empty(alive.size, np.int64)
    for vertex in range(alive.size):
        if alive[vertex]:
            rows[n], starts[n], ends[n] = vertex, offsets[vertex], offsets[vertex + 1]
            n += 1
    for other in range(other_alive.size):
        other_alive[other] &= other_degree[other] >= least[1]
    source, copied, n_before = members, np.empty(members.size, np.int32), 2 * n
    while (n_before - n) * _FEWEST_PER_SWEEP > n_before:
        n_before, n, end = n, 0, 0
        for i in range(n_before):
            start = end
            for k in range(np.uint64(starts[i]), np.uint64(ends[i])):
                member = source[k]
                copied[np.uint64(end)] = member
                end += other_alive[np.uint64(member)]
            if end - start >= least[0]:
                rows[n], starts[n], ends[n] = rows[i], start, end
                n += 1
                continue
            alive[rows[i]] = False
            for k in range(np.uint64(start), np.uint64(end)):
                member = np.uint64(copied[k])
                other_degree[member] -= 1
                other_alive[member] = other_degree[member] >= least[1]
            end = start
        source = copied
    # Earlier lists may contain vertices that were cleared later.
    for i in range(n):
        degree[rows[i]] = 0
        for k in range(np.uint64(starts[i]), np.uint64(ends[i])):
            degree[rows[i]] += other_alive[np.uint64(source[k])]

"""Two-hop degrees in device memory: the algorithm of `mbe_stage.two_hop`, group by group of a base.

Vertices that walk are taken in batches: each has a bitmap of the side, in which whom it meets is marked, and all that
share a base share the bitmap of whom that one reaches. A batch is as large as the memory allows. Where the others are
asked, each vertex has a bitmap of its neighbours instead.
"""

from __future__ import annotations

from dataclasses import dataclass

import cupy as cp
import numpy as np
from numba import cuda

from mbe_stage.bicliques.cuda.warp import ALL, sum_all
from mbe_stage.device.launch import WARPS_PER_BLOCK, launch_warps
from mbe_stage.graph import BipartiteCSR

__all__ = ["two_hop_degrees", "two_hop_steps"]

_WORD_BITS = 32
# Pairs that are asked at once; a grid has no more than 2**31 blocks.
_MOST_PAIRS = 1 << 31


@dataclass(frozen=True, slots=True, eq=False)
class _Plan:
    """How the left side is counted.

    Attributes
    ----------
    bases : (n_left,) int32
        The neighbour of each vertex with most neighbours, of several the smallest; -1 without any.
    walks : (n_left,) int64
        Neighbours of all its other neighbours.
    asks : (n_right,) bool
        Of each base, whether those that it does not reach are asked.
    n_steps : int
    """

    bases: cp.ndarray
    walks: cp.ndarray
    asks: cp.ndarray
    n_steps: int


def two_hop_steps(graph: BipartiteCSR) -> tuple[int, int]:
    """As `mbe_stage.two_hop.two_hop_steps`, for a graph of CuPy arrays."""
    return _plan(graph).n_steps, _plan(graph.swapped()).n_steps


def two_hop_degrees(graph: BipartiteCSR, memory_bytes: int = 1 << 30) -> cp.ndarray:
    """For each left vertex, the number of other left vertices that it shares a neighbour with.

    Parameters
    ----------
    graph : BipartiteCSR
        Of CuPy arrays; ``graph.swapped()`` for the right side.
    memory_bytes : int
        What the bitmaps may take, beside some arrays as long as the graph's own; those of two vertices are made in any
        case.

    Returns
    -------
    (n_left,) int64
    """
    plan = _plan(graph)
    result = cp.zeros(graph.n_left, cp.int64)
    counted = cp.flatnonzero(plan.bases >= 0)
    # The base reaches the vertex itself.
    result[counted] = cp.diff(graph.right_offsets)[plan.bases[counted]] - 1
    asks = plan.asks[plan.bases[counted]]
    walkers = counted[~asks & (plan.walks[counted] > 0)]
    if walkers.size:
        _walk(graph, walkers[cp.argsort(plan.bases[walkers])], plan.bases, memory_bytes, result)
    if walkers.size < counted.size:
        _ask(graph, counted[asks], plan.bases, memory_bytes, result)
    return result


def _plan(graph: BipartiteCSR) -> _Plan:
    degrees, other_degrees = cp.diff(graph.left_offsets), cp.diff(graph.right_offsets)
    bases, walks = cp.empty(graph.n_left, cp.int32), cp.empty(graph.n_left, cp.int64)
    launch_warps(
        base_warp_per_vertex, graph.n_left, graph.left_offsets, graph.left_members, other_degrees, bases, walks
    )
    if graph.n_edges == 0:
        return _Plan(bases, walks, cp.zeros(graph.n_right, cp.bool_), 0)
    counted = cp.flatnonzero(bases >= 0)
    of_base = bases[counted]
    sizes = cp.bincount(of_base, minlength=graph.n_right)
    walk, own = (_sums_by(of_base, values[counted], graph.n_right) for values in (walks, degrees))
    inside = cp.zeros(graph.n_edges + 1, cp.int64)
    cp.cumsum(degrees[graph.right_members], out=inside[1:])
    outside = graph.n_edges - (inside[graph.right_offsets[1:]] - inside[graph.right_offsets[:-1]])
    ask = graph.n_left + own + sizes * outside
    n_steps = int(cp.where(sizes > 0, cp.minimum(walk, ask), 0).sum())
    return _Plan(bases, walks, (sizes > 0) & (ask < walk), n_steps)


def _sums_by(groups: cp.ndarray, values: cp.ndarray, n: int) -> cp.ndarray:
    """Sums of integers by group, exact: below 2**53 doubles are."""
    return cp.bincount(groups, weights=values.astype(cp.float64), minlength=n).astype(cp.int64)


def _walk(graph: BipartiteCSR, vertices: cp.ndarray, bases: cp.ndarray, memory_bytes: int, result: cp.ndarray) -> None:
    """Add whom `vertices`, ordered by their bases, meet through their other neighbours."""
    n_words = _words(graph.n_left)
    batch = max(1, memory_bytes // (2 * 4 * n_words))
    for start in range(0, vertices.size, batch):
        mine = vertices[start : start + batch]
        my_bases, base_number = cp.unique(bases[mine], return_inverse=True)
        reached = cp.zeros(my_bases.size * n_words, cp.uint32)
        launch_warps(
            mark_warp_per_list, my_bases.size, my_bases, graph.right_offsets, graph.right_members, n_words, reached
        )
        ends = cp.cumsum(graph.left_offsets[mine + 1] - graph.left_offsets[mine])
        met, counts = cp.zeros(mine.size * n_words, cp.uint32), cp.zeros(mine.size, cp.int64)
        launch_warps(
            walk_warp_per_neighbour,
            int(ends[-1]),
            mine,
            cp.searchsorted(ends, cp.arange(int(ends[-1])), side="right"),
            ends,
            base_number,
            my_bases,
            graph.left_offsets,
            graph.left_members,
            graph.right_offsets,
            graph.right_members,
            n_words,
            reached,
            met,
            counts,
        )
        result[mine] += counts


def _ask(graph: BipartiteCSR, vertices: cp.ndarray, bases: cp.ndarray, memory_bytes: int, result: cp.ndarray) -> None:
    """Add who of those that its base does not reach shares a neighbour with each of `vertices`."""
    n_words = _words(graph.n_right)
    of_base = bases[vertices]
    for base in cp.asnumpy(cp.unique(of_base)).tolist():
        group = vertices[of_base == base]
        is_outside = graph.left_offsets[1:] > graph.left_offsets[:-1]
        is_outside[graph.right_members[int(graph.right_offsets[base]) : int(graph.right_offsets[base + 1])]] = False
        outside = cp.flatnonzero(is_outside)
        batch = max(1, min(memory_bytes // (4 * n_words), _MOST_PAIRS // max(1, outside.size)))
        for start in range(0, group.size if outside.size else 0, batch):
            mine = group[start : start + batch]
            wanted, counts = cp.zeros(mine.size * n_words, cp.uint32), cp.zeros(mine.size, cp.int64)
            launch_warps(mark_warp_per_list, mine.size, mine, graph.left_offsets, graph.left_members, n_words, wanted)
            launch_warps(
                ask_warp_per_pair,
                mine.size * outside.size,
                outside,
                graph.left_offsets,
                graph.left_members,
                n_words,
                wanted,
                counts,
            )
            result[mine] += counts


def _words(n_bits: int) -> int:
    return max(1, -(-n_bits // _WORD_BITS))


@cuda.jit(cache=True)
def base_warp_per_vertex(offsets, members, other_degrees, bases, walks):
    """The neighbour of most neighbours, the smallest of several, and how many the others have together."""
    vertex = cuda.blockIdx.x * WARPS_PER_BLOCK + cuda.threadIdx.x // 32
    if vertex >= bases.size:
        return
    # Degree above, and below it what grows as the id falls: the largest is the base.
    best, total = np.int64(-1), np.int64(0)
    for i in range(offsets[vertex] + cuda.laneid, offsets[vertex + 1], 32):
        degree = np.int64(other_degrees[members[i]])
        total += degree
        best = max(best, (degree << 32) | np.int64(0x7FFFFFFF - members[i]))
    total = sum_all(total)
    for bits in (16, 8, 4, 2, 1):
        best = max(best, cuda.shfl_xor_sync(ALL, best, bits))
    if cuda.laneid == 0:
        if best < 0:
            bases[vertex], walks[vertex] = -1, 0
        else:
            bases[vertex], walks[vertex] = 0x7FFFFFFF - (best & 0x7FFFFFFF), total - (best >> 32)


@cuda.jit(cache=True)
def mark_warp_per_list(lists, offsets, members, n_words, bits):
    """Set the bits of a list's members in its bitmap, which is as far into `bits` as the list into `lists`."""
    index = cuda.blockIdx.x * WARPS_PER_BLOCK + cuda.threadIdx.x // 32
    if index >= lists.size:
        return
    first_word = np.int64(index) * n_words
    for i in range(offsets[lists[index]] + cuda.laneid, offsets[lists[index] + 1], 32):
        cuda.atomic.or_(bits, first_word + members[i] // 32, np.uint32(1) << np.uint32(members[i] % 32))


@cuda.jit(cache=True)
def walk_warp_per_neighbour(
    vertices,
    owners,
    ends,
    base_number,
    bases,
    offsets,
    members,
    other_offsets,
    other_members,
    n_words,
    reached,
    met,
    counts,
):
    """Count whom a vertex meets for the first time through one neighbour that is not its base."""
    index = cuda.blockIdx.x * WARPS_PER_BLOCK + cuda.threadIdx.x // 32
    if index >= owners.size:
        return
    slot = owners[index]
    # From the end of a vertex's neighbours backwards.
    neighbour = members[offsets[vertices[slot] + 1] - (ends[slot] - index)]
    if neighbour == bases[base_number[slot]]:
        return
    reached_word, met_word = np.int64(base_number[slot]) * n_words, np.int64(slot) * n_words
    n_new = 0
    for i in range(other_offsets[neighbour] + cuda.laneid, other_offsets[neighbour + 1], 32):
        word, bit = other_members[i] // 32, np.uint32(1) << np.uint32(other_members[i] % 32)
        # Bits are only ever set: one read too early costs an atomic, no more.
        if (reached[reached_word + word] | met[met_word + word]) & bit:
            continue
        if not cuda.atomic.or_(met, met_word + word, bit) & bit:
            n_new += 1
    n_new = sum_all(n_new)
    if cuda.laneid == 0 and n_new > 0:
        cuda.atomic.add(counts, slot, n_new)


@cuda.jit(cache=True)
def ask_warp_per_pair(outside, offsets, members, n_words, wanted, counts):
    """One more where the vertex outside has one of the wanted neighbours."""
    index = np.int64(cuda.blockIdx.x) * WARPS_PER_BLOCK + cuda.threadIdx.x // 32
    slot = index // outside.size
    if slot >= counts.size:
        return
    vertex, first_word = outside[index % outside.size], slot * n_words
    for tile in range(offsets[vertex], offsets[vertex + 1], 32):
        i = tile + cuda.laneid
        found = False
        if i < offsets[vertex + 1]:
            found = (wanted[first_word + members[i] // 32] >> np.uint32(members[i] % 32)) & np.uint32(1) != 0
        if cuda.any_sync(ALL, found):
            if cuda.laneid == 0:
                cuda.atomic.add(counts, slot, 1)
            return

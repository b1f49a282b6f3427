"""The (p, q)-core of a bipartite graph on the device: peel vertices with too few neighbours.

Vertices keep their ids; peeled ones have empty lists.
"""

from __future__ import annotations

import cupy as cp
import numpy as np
from numba import cuda

from mbe_stage.device.arrays import kernel_bundles, kernel_views
from mbe_stage.device.grid import (
    BLOCKS_PER_MULTIPROCESSOR,
    THREADS,
    n_warps,
    on_grid,
    this_warp,
    tile_count,
    wait_for_all,
)
from mbe_stage.device.intrinsics import load_fresh
from mbe_stage.device.jit import CSR, I32, INT, Lists, kernel
from mbe_stage.device.warp import ALL, ballot, four_entries, rank, sum_all
from mbe_stage.graphs.bipartite import BipartiteCSR


def core_of(
    graph: BipartiteCSR, alive: cp.ndarray, fewest_of_left: int, fewest_of_right: int, n_blocks: int
) -> BipartiteCSR:
    """Return the largest subgraph in which every vertex has enough neighbours.

    Parameters
    ----------
    graph : BipartiteCSR
        Arrays are CuPy's.
    alive : (n_left + n_right,) int32
        1 for the vertices to start from, left ones first, 0 for others. Afterwards 1 for the core.
    fewest_of_left, fewest_of_right : int
        Fewest neighbours of a left and of a right vertex.
    n_blocks : int
        Number of resident blocks.

    Returns
    -------
    BipartiteCSR
        The core on the same vertices; new arrays.
    """
    degrees = live_degrees(graph, alive, fewest_of_left, fewest_of_right, n_blocks)
    left, right = Lists(graph.left_offsets, graph.left_members), Lists(graph.right_offsets, graph.right_members)
    left_alive, right_alive = alive[: graph.n_left], alive[graph.n_left :]
    kept_left = _kept(left, left_alive, right_alive, degrees[: graph.n_left], n_blocks)
    kept_right = _kept(right, right_alive, left_alive, degrees[graph.n_left :], n_blocks)
    return BipartiteCSR(graph.n_left, graph.n_right, *kept_left, *kept_right)


def live_degrees(
    graph: BipartiteCSR, alive: cp.ndarray, fewest_of_left: int, fewest_of_right: int, n_blocks: int
) -> cp.ndarray:
    """Count the neighbours of each vertex in the core, (n_left + n_right,) int32; 0 for vertices outside it.

    Parameters
    ----------
    graph, alive, fewest_of_left, fewest_of_right, n_blocks
        As in `core_of`.
    """
    degrees, queue, counters = cp.empty_like(alive), cp.empty_like(alive), cp.zeros(2, cp.int32)
    left, right = Lists(graph.left_offsets, graph.left_members), Lists(graph.right_offsets, graph.right_members)
    on_grid(peel_warp_per_vertex, n_blocks, THREADS)(
        *kernel_bundles(peel_warp_per_vertex, left, right),
        *kernel_views(alive, degrees, queue, counters[:1], counters[1:]),
        fewest_of_left,
        fewest_of_right,
    )
    degrees *= alive
    return degrees


def _kept(lists: Lists, alive: cp.ndarray, others: cp.ndarray, degrees: cp.ndarray, n_blocks: int) -> Lists:
    """Return the lists of one side, without peeled vertices of either side."""
    offsets = cp.zeros(lists.offsets.size, cp.int64)
    cp.cumsum(degrees, out=offsets[1:])
    kept = Lists(offsets, cp.empty(int(offsets[-1]), cp.int32))
    keep = keep_alive_warp_per_tile
    on_grid(keep, n_blocks, THREADS)(
        *kernel_bundles(keep, lists), *kernel_views(alive, others), *kernel_bundles(keep, kept)
    )
    return kept


@cuda.jit(device=True, forceinline=True)
def _is_alive(member, first_other, alive):
    """1 for a list's entry that is alive, 0 for others and for none."""
    return alive[first_other + max(member, 0)] if member >= 0 else 0


@cuda.jit(device=True, forceinline=True)
def _count_alive(lists, alive, first_vertex, first_other, degrees):
    """Count the live neighbours of each vertex."""
    offsets, members = lists.offsets, lists.members
    lane = cuda.laneid
    for vertex in range(this_warp(), offsets.size - 1, n_warps()):
        part = 0
        if alive[first_vertex + vertex] != 0:
            end = offsets[vertex + 1]
            for k in range(offsets[vertex] + lane, end, 128):
                one, two, three, four = four_entries(members, k, end)
                part += _is_alive(one, first_other, alive) + _is_alive(two, first_other, alive)
                part += _is_alive(three, first_other, alive) + _is_alive(four, first_other, alive)
        whole = sum_all(part)
        if lane == 0:
            degrees[first_vertex + vertex] = whole


@cuda.jit(device=True, forceinline=True)
def _report_dead(vertex, alive, queue, queued):
    alive[vertex] = 0
    queue[cuda.atomic.add(queued, 0, 1)] = vertex


@cuda.jit(device=True, forceinline=True)
def _tell_neighbours(vertex, lists, first_other, fewest, alive, degrees, queue, queued):
    """Take one from the degree of each neighbour. Exactly one caller sees a degree fall below the limit.

    Parameters
    ----------
    vertex : int
        Its number on its own side.
    lists : Lists
        Lists of that side.
    first_other : int
        First vertex of the other side in the common numbering.
    fewest : int
        Fewest neighbours of a vertex of the other side.
    alive : (n_vertices,) int32, global
    degrees : (n_vertices,) int32, global
    queue : (n_vertices,) int32, global
    queued : (1,) int32, global
    """
    for k in range(lists.offsets[vertex] + cuda.laneid, lists.offsets[vertex + 1], 32):
        other = first_other + lists.members[k]
        if cuda.atomic.add(degrees, other, -1) == fewest and alive[other] != 0:
            _report_dead(other, alive, queue, queued)


@kernel(CSR, CSR, I32, I32, I32, I32, I32, INT, INT, launch_bounds=(THREADS, BLOCKS_PER_MULTIPROCESSOR), seconds=1.5)
def peel_warp_per_vertex(left, right, alive, degrees, queue, queued, arrived, fewest_of_left, fewest_of_right):
    """Clear `alive` until every left vertex has `fewest_of_left` live neighbours and every right one `fewest_of_right`.

    A dying vertex enters `queue` once; each round updates the neighbours of those that died in the round before.

    Parameters
    ----------
    left, right : Lists
    alive : (n_vertices,) int32
        1 or 0, the left vertices first.
    degrees : (n_vertices,) int32
        Live neighbours, of the vertices that are alive in the end.
    queue : (n_vertices,) int32
    queued, arrived : (1,) int32
        Zeros before.
    fewest_of_left, fewest_of_right : int
    """
    lane = cuda.laneid
    n_left = left.offsets.size - 1
    _count_alive(left, alive, 0, n_left, degrees)
    _count_alive(right, alive, n_left, 0, degrees)
    wait_for_all(arrived, 1)
    for vertex in range(this_warp() * 32 + lane, alive.size, n_warps() * 32):
        fewest = fewest_of_left if vertex < n_left else fewest_of_right
        if alive[vertex] != 0 and degrees[vertex] < fewest:
            _report_dead(vertex, alive, queue, queued)
    turn = 2
    done = 0
    while True:
        wait_for_all(arrived, turn)
        n_queued = load_fresh(queued, 0)
        # No vertex may die before every thread has read the length of the queue.
        wait_for_all(arrived, turn + 1)
        turn += 2
        if n_queued == done:
            break
        for place in range(done + this_warp(), n_queued, n_warps()):
            vertex = queue[place]
            if vertex < n_left:
                _tell_neighbours(vertex, left, n_left, fewest_of_right, alive, degrees, queue, queued)
            else:
                _tell_neighbours(vertex - n_left, right, 0, fewest_of_left, alive, degrees, queue, queued)
        done = n_queued


@cuda.jit(device=True, forceinline=True)
def _keep(is_live, member, kept, to):
    """Write the live entries of the lanes from `to` on; return the next position."""
    mask = ballot(is_live != 0)
    if is_live != 0:
        kept[to + rank(mask)] = member
    return to + cuda.popc(mask)


@kernel(CSR, I32, I32, CSR)
def keep_alive_warp_per_tile(lists, alive, others, kept):
    """Copy the live entries of live vertices' lists, in order."""
    lane = cuda.laneid
    offsets, members = lists.offsets, lists.members
    n = offsets.size - 1
    n_tiles = tile_count(n)
    for tile in range(this_warp(), n_tiles, n_warps()):
        vertex = tile + lane * n_tiles
        lists = ballot(vertex < n and alive[min(vertex, n - 1)] != 0)
        while lists != 0:
            source = cuda.ffs(lists) - 1
            lists &= lists - np.uint32(1)
            owner = cuda.shfl_sync(ALL, vertex, source)
            to = kept.offsets[owner]
            end = offsets[owner + 1]
            for group in range(offsets[owner], end, 128):
                one, two, three, four = four_entries(members, group + lane, end)
                live_1, live_2 = _is_alive(one, 0, others), _is_alive(two, 0, others)
                live_3, live_4 = _is_alive(three, 0, others), _is_alive(four, 0, others)
                to = _keep(live_1, one, kept.members, to)
                to = _keep(live_2, two, kept.members, to)
                to = _keep(live_3, three, kept.members, to)
                to = _keep(live_4, four, kept.members, to)

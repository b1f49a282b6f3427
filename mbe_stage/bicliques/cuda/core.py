"""What a query leaves of the graph, on the device: common neighbours of `containing_*`, then the (p, q)-core.

As `mbe_stage.bicliques.reduction` says it for the host. Vertices keep their ids; those that are left out have empty
lists.
"""

from __future__ import annotations

from collections.abc import Sequence

import cupy as cp
import numpy as np
from numba import cuda

from mbe_stage.bicliques.cuda.device import kernel_views
from mbe_stage.bicliques.query import BicliqueQuery
from mbe_stage.device.grid import (
    BLOCKS_PER_MULTIPROCESSOR,
    THREADS,
    n_warps,
    this_warp,
    tile_count,
    wait_for_all,
)
from mbe_stage.device.jit import I32, I64, INT, kernel
from mbe_stage.device.on_grid import on_grid
from mbe_stage.device.warp import ALL, ballot, load_fresh, rank, sum_all
from mbe_stage.graphs.bipartite import BipartiteCSR

__all__ = ["keep_alive_warp_per_tile", "peel_warp_per_vertex", "shrinks", "shrunk"]


def shrinks(query: BicliqueQuery) -> bool:
    """Whether a query leaves out vertices before anything is enumerated."""
    return bool(query.containing_left or query.containing_right or query.min_left > 1 or query.min_right > 1)


def shrunk(graph: BipartiteCSR, query: BicliqueQuery, n_blocks: int) -> BipartiteCSR:
    """The graph without the vertices that can be in no wanted biclique.

    Parameters
    ----------
    graph : BipartiteCSR
        Arrays are CuPy's.
    query : BicliqueQuery
    n_blocks : int
        Blocks that are resident.

    Returns
    -------
    BipartiteCSR
        With the same vertices; new arrays.
    """
    alive = cp.concatenate(
        (
            _common_neighbours(graph.right_offsets, graph.right_members, query.containing_right, graph.n_left),
            _common_neighbours(graph.left_offsets, graph.left_members, query.containing_left, graph.n_right),
        )
    )
    members = [*query.containing_left, *(graph.n_left + vertex for vertex in query.containing_right)]
    if members and not bool(alive[np.array(members)].all()):
        alive[:] = 0
    degrees, queue, counters = cp.empty_like(alive), cp.empty_like(alive), cp.zeros(2, cp.int32)
    lists = (graph.left_offsets, graph.left_members, graph.right_offsets, graph.right_members)
    on_grid(peel_warp_per_vertex, n_blocks, THREADS)(
        *kernel_views(*lists, alive, degrees, queue, counters[:1], counters[1:]), query.min_right, query.min_left
    )
    left_alive, right_alive = alive[: graph.n_left], alive[graph.n_left :]
    degrees *= alive
    left = _kept(*lists[:2], left_alive, right_alive, degrees[: graph.n_left], n_blocks)
    right = _kept(*lists[2:], right_alive, left_alive, degrees[graph.n_left :], n_blocks)
    return BipartiteCSR(graph.n_left, graph.n_right, *left, *right)


def _common_neighbours(offsets: cp.ndarray, members: cp.ndarray, vertices: Sequence[int], n: int) -> cp.ndarray:
    """1 for each of the `n` vertices of the other side that is a neighbour of all `vertices`, int32."""
    found = cp.zeros(n, cp.int32)
    for vertex in vertices:
        start, end = (int(offset) for offset in offsets[vertex : vertex + 2])
        found[members[start:end]] += 1
    return (found == len(vertices)).astype(cp.int32)


def _kept(
    offsets: cp.ndarray, members: cp.ndarray, alive: cp.ndarray, others: cp.ndarray, degrees: cp.ndarray, n_blocks: int
) -> tuple[cp.ndarray, cp.ndarray]:
    """The lists of one side without what is left out of either."""
    kept_offsets = cp.zeros(offsets.size, cp.int64)
    cp.cumsum(degrees, out=kept_offsets[1:])
    kept = cp.empty(int(kept_offsets[-1]), cp.int32)
    on_grid(keep_alive_warp_per_tile, n_blocks, THREADS)(
        *kernel_views(offsets, members, alive, others, kept_offsets, kept)
    )
    return kept_offsets, kept


@cuda.jit(device=True, forceinline=True)
def _count_alive(offsets, members, alive, first_vertex, first_other, degrees):
    """How many neighbours of each vertex are alive."""
    lane = cuda.laneid
    for vertex in range(this_warp(), offsets.size - 1, n_warps()):
        part = 0
        if alive[first_vertex + vertex] != 0:
            for k in range(offsets[vertex] + lane, offsets[vertex + 1], 32):
                part += alive[first_other + members[k]]
        whole = sum_all(part)
        if lane == 0:
            degrees[first_vertex + vertex] = whole


@cuda.jit(device=True, forceinline=True)
def _report_dead(vertex, alive, queue, queued):
    alive[vertex] = 0
    queue[cuda.atomic.add(queued, 0, 1)] = vertex


@cuda.jit(device=True, forceinline=True)
def _tell_neighbours(vertex, offsets, members, first_other, fewest, alive, degrees, queue, queued):
    """One neighbour fewer for each; exactly one of those who take them away sees the last that was needed go."""
    for k in range(offsets[vertex] + cuda.laneid, offsets[vertex + 1], 32):
        other = first_other + members[k]
        if cuda.atomic.add(degrees, other, -1) == fewest and alive[other] != 0:
            _report_dead(other, alive, queue, queued)


_PEELING = (I64, I32, I64, I32, I32, I32, I32, I32, I32, INT, INT)


@kernel(*_PEELING, launch_bounds=(THREADS, BLOCKS_PER_MULTIPROCESSOR), seconds=1.5)
def peel_warp_per_vertex(
    left_offsets, left_members, right_offsets, right_members, alive, degrees, queue, queued, arrived, fewest_of_left,
    fewest_of_right
):  # fmt: skip
    """Clear `alive` until every left vertex has `fewest_of_left` live neighbours and every right one `fewest_of_right`.

    `degrees` then counts them for the vertices that are alive. A vertex that dies is put into `queue`, once; each round
    tells the neighbours of those that died in the one before.
    """
    lane = cuda.laneid
    n_left = left_offsets.size - 1
    _count_alive(left_offsets, left_members, alive, 0, n_left, degrees)
    _count_alive(right_offsets, right_members, alive, n_left, 0, degrees)
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
        # Nobody may die before everybody has read how many have.
        wait_for_all(arrived, turn + 1)
        turn += 2
        if n_queued == done:
            break
        for place in range(done + this_warp(), n_queued, n_warps()):
            vertex = queue[place]
            if vertex < n_left:
                _tell_neighbours(
                    vertex, left_offsets, left_members, n_left, fewest_of_right, alive, degrees, queue, queued
                )
            else:
                _tell_neighbours(
                    vertex - n_left, right_offsets, right_members, 0, fewest_of_left, alive, degrees, queue, queued
                )
        done = n_queued


@kernel(I64, I32, I32, I32, I64, I32)
def keep_alive_warp_per_tile(offsets, members, alive, others, kept_offsets, kept):
    """Copy what is alive of the lists of those that are alive, in its order."""
    lane = cuda.laneid
    n = offsets.size - 1
    n_tiles = tile_count(n)
    for tile in range(this_warp(), n_tiles, n_warps()):
        vertex = tile + lane * n_tiles
        lists = ballot(vertex < n and alive[min(vertex, n - 1)] != 0)
        while lists != 0:
            source = cuda.ffs(lists) - 1
            lists &= lists - np.uint32(1)
            owner = cuda.shfl_sync(ALL, vertex, source)
            to = kept_offsets[owner]
            for group in range(offsets[owner], offsets[owner + 1], 32):
                member = 0
                is_kept = False
                if group + lane < offsets[owner + 1]:
                    member = members[group + lane]
                    is_kept = others[member] != 0
                mask = ballot(is_kept)
                if is_kept:
                    kept[to + rank(mask)] = member
                to += cuda.popc(mask)

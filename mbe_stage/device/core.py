"""The (p, q)-core of a bipartite graph on the device: remove vertices with too few neighbours.

Vertices keep their ids; removed ones have empty lists. Long lists are copied in pieces. In a skewed graph, a single
warp would read the longest list for longer than all other warps need for the rest.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import cupy as cp
import numpy as np
from numba import cuda

from mbe_stage.device.grid import (
    BLOCKS_PER_MULTIPROCESSOR,
    SHORT,
    THREADS,
    n_warps,
    next_list,
    range_of_list,
    this_thread,
    this_warp,
    tile_count,
    wait_for_all,
)
from mbe_stage.device.intrinsics import load_fresh
from mbe_stage.device.jit import CSR, I32, I32_2D, INT, Lists, bundle, kernel
from mbe_stage.device.launch import launch_blocks
from mbe_stage.device.warp import ALL, ballot, four_entries, rank, sum_all
from mbe_stage.graphs.bipartite import BipartiteCSR

PIECE = 2048
"""Entries of a long list that a warp copies at a time."""
CROWD = 8
"""If more vertices per warp are removed in a round, lanes read short lists."""


def core_of(
    graph: BipartiteCSR, alive: cp.ndarray | None, fewest_of_left: int, fewest_of_right: int, n_blocks: int
) -> BipartiteCSR:
    """Return the largest subgraph in which every vertex has enough neighbours.

    Parameters
    ----------
    graph : BipartiteCSR
        Arrays are CuPy's.
    alive : (n_left + n_right,) int32, optional
        1 for the vertices to start from, left ones first, 0 for others; all by default. Receives 1 for the core.
    fewest_of_left, fewest_of_right : int
        Fewest neighbours of a left and of a right vertex.
    n_blocks : int
        Number of resident blocks.

    Returns
    -------
    BipartiteCSR
        The core with the same vertices, in new arrays.
    """
    are_all = alive is None
    alive = cp.ones(graph.n_left + graph.n_right, cp.int32) if alive is None else alive
    degrees = live_degrees(graph, alive, fewest_of_left, fewest_of_right, n_blocks, are_all=are_all)
    left, right = Lists(graph.left_offsets, graph.left_members), Lists(graph.right_offsets, graph.right_members)
    left_alive, right_alive = alive[: graph.n_left], alive[graph.n_left :]
    offsets, counters = cp.zeros(degrees.size + 2, cp.int64), cp.zeros(4, cp.int32)
    left_offsets, right_offsets = offsets[: graph.n_left + 1], offsets[graph.n_left + 1 :]
    cp.cumsum(degrees[: graph.n_left], out=left_offsets[1:])
    cp.cumsum(degrees[graph.n_left :], out=right_offsets[1:])
    n_edges = int(left_offsets[-1])
    kept_left = _kept(left, left_alive, right_alive, left_offsets, n_edges, counters[:2], n_blocks)
    kept_right = _kept(right, right_alive, left_alive, right_offsets, n_edges, counters[2:], n_blocks)
    return BipartiteCSR(graph.n_left, graph.n_right, *kept_left, *kept_right)


def live_degrees(
    graph: BipartiteCSR,
    alive: cp.ndarray,
    fewest_of_left: int,
    fewest_of_right: int,
    n_blocks: int,
    *,
    are_all: bool,
) -> cp.ndarray:
    """Count the neighbours of each vertex in the core, (n_left + n_right,) int32; 0 for vertices outside it.

    Parameters
    ----------
    graph, alive, fewest_of_left, fewest_of_right, n_blocks
        As in `core_of`.
    are_all : bool
        True if all vertices are alive, so that the lengths of their lists are their degrees.
    """
    degrees, queue, counters = cp.empty_like(alive), cp.empty_like(alive), cp.zeros(2, cp.int32)
    left, right = Lists(graph.left_offsets, graph.left_members), Lists(graph.right_offsets, graph.right_members)
    arrays = left, right, Peeling(alive, degrees, queue, counters[:1]), counters[1:]
    launch_blocks(peel_warp_per_vertex, n_blocks, THREADS, *arrays, fewest_of_left, fewest_of_right, int(are_all))
    return degrees


def _kept(
    lists: Lists,
    alive: cp.ndarray,
    others: cp.ndarray,
    offsets: cp.ndarray,
    n_edges: int,
    counters: cp.ndarray,
    n_blocks: int,
) -> Lists:
    """Return the lists of one side without removed vertices of either side; `counters` are two zeros."""
    kept = Lists(offsets, cp.empty(n_edges, cp.int32))
    # A list of more than two pieces takes at most half a piece more than its entries.
    pieces = cp.empty((3, 3 * lists.members.size // (2 * PIECE) + 1), cp.int32)
    arrays = lists, alive, others, kept, pieces, counters[:1], counters[1:]
    launch_blocks(keep_alive_warp_per_tile, n_blocks, THREADS, *arrays)
    return kept


@cuda.jit(device=True, forceinline=True)
def _is_alive(member, first_other, alive):
    """Return 1 for a live entry of a list, 0 for a dead one or none."""
    return alive[first_other + max(member, 0)] if member >= 0 else 0


@cuda.jit(device=True, forceinline=True)
def _live_entries(members, begin, end, first_other, alive):
    """Count the live entries of a range of a list, by all lanes."""
    part = 0
    for k in range(begin + cuda.laneid, end, 128):
        one, two, three, four = four_entries(members, k, end)
        part += _is_alive(one, first_other, alive) + _is_alive(two, first_other, alive)
        part += _is_alive(three, first_other, alive) + _is_alive(four, first_other, alive)
    return sum_all(part)


@cuda.jit(device=True, forceinline=True)
def _count_alive(lists, alive, first_vertex, first_other, degrees):
    """Count the live neighbours of each vertex."""
    offsets, members = lists.offsets, lists.members
    for vertex in range(this_warp(), offsets.size - 1, n_warps()):
        whole = 0
        if alive[first_vertex + vertex] != 0:
            whole = _live_entries(members, offsets[vertex], offsets[vertex + 1], first_other, alive)
        if cuda.laneid == 0:
            degrees[first_vertex + vertex] = whole


@cuda.jit(device=True, forceinline=True)
def _write_lengths(lists, first_vertex, degrees):
    """Write the length of each list."""
    for vertex in range(this_thread(), lists.offsets.size - 1, 32 * n_warps()):
        degrees[first_vertex + vertex] = lists.offsets[vertex + 1] - lists.offsets[vertex]


class Peeling(NamedTuple):
    """The vertices while they are peeled, those of the left side first.

    Attributes
    ----------
    alive : (n_vertices,) int32
        1 or 0.
    degrees : (n_vertices,) int32
        Live neighbours; in the end 0 for dead vertices.
    queue : (n_vertices,) int32
        Dead vertices, each once.
    queued : (1,) int32
        Their number; 0 before.
    """

    alive: Any
    degrees: Any
    queue: Any
    queued: Any


class Side(NamedTuple):
    """The lists of one side, and the first vertex and the fewest neighbours of the other."""

    lists: Any
    first_other: Any
    fewest: Any


_PEELING = bundle(Peeling, I32, I32, I32, I32)


@cuda.jit(device=True, forceinline=True)
def _tell_range(begin, end, step, side, peeling):
    """Take one from the degree of every `step`-th neighbour. Exactly one caller sees a degree fall below the limit."""
    for k in range(begin, end, step):
        other = side.first_other + side.lists.members[k]
        if cuda.atomic.add(peeling.degrees, other, -1) == side.fewest and peeling.alive[other] != 0:
            peeling.alive[other] = 0
            peeling.queue[cuda.atomic.add(peeling.queued, 0, 1)] = other


@cuda.jit(device=True, forceinline=True)
def _tell_neighbours(vertex, is_dead, short, side, peeling):
    """Take one from the degree of each neighbour of the lanes' vertices: lanes read short lists, the warp longer ones.

    This lane's vertex, by its number on its own side, counts if it `is_dead`.
    """
    begin, end = range_of_list(vertex, is_dead, side.lists)
    if end - begin <= short:
        _tell_range(begin, end, 1, side, peeling)
    long = ballot(end - begin > short)
    while long != 0:
        _, long, first, last = next_list(long, begin, end)
        _tell_range(first + cuda.laneid, last, 32, side, peeling)
    cuda.syncwarp()


@kernel(CSR, CSR, _PEELING, I32, INT, INT, INT, launch_bounds=(THREADS, BLOCKS_PER_MULTIPROCESSOR), seconds=1.5)
def peel_warp_per_vertex(left, right, peeling, arrived, fewest_of_left, fewest_of_right, are_all):
    """Clear `alive` until every left vertex has `fewest_of_left` live neighbours and every right one `fewest_of_right`.

    Each round updates the neighbours of those that died in the round before. `are_all` is 1 if all vertices are alive
    before; `arrived` is 0.
    """
    alive, degrees, queue, queued = peeling
    lane = cuda.laneid
    n_left = left.offsets.size - 1
    if are_all != 0:
        _write_lengths(left, 0, degrees)
        _write_lengths(right, n_left, degrees)
    else:
        _count_alive(left, alive, 0, n_left, degrees)
        _count_alive(right, alive, n_left, 0, degrees)
    wait_for_all(arrived, 1)
    for tile in range(this_warp() * 32, alive.size, n_warps() * 32):
        vertex = tile + lane
        fewest = fewest_of_left if vertex < n_left else fewest_of_right
        dead = ballot(vertex < alive.size and alive[min(vertex, alive.size - 1)] != 0 and degrees[vertex] < fewest)
        # One addition per warp: thousands of single ones to the same word would wait for each other.
        first = 0
        if lane == 0 and dead != 0:
            first = cuda.atomic.add(queued, 0, cuda.popc(dead))
        first = cuda.shfl_sync(ALL, first, 0)
        if dead >> np.uint32(lane) & np.uint32(1) != 0:
            alive[vertex] = 0
            queue[first + rank(dead)] = vertex
    turn = 2
    done = 0
    while True:
        wait_for_all(arrived, turn)
        n_queued = load_fresh(queued, 0)
        # Every thread must read the length of the queue before another vertex is removed.
        wait_for_all(arrived, turn + 1)
        turn += 2
        if n_queued == done:
            break
        # With a lane per list, the longest list sets the number of steps.
        n_each, short = 1, 0
        if n_queued - done > CROWD * n_warps():
            n_each, short = 32, SHORT
        for tile in range(done + this_warp() * n_each, n_queued, n_warps() * n_each):
            is_dead = lane < n_each and tile + lane < n_queued
            vertex = queue[tile + lane] if is_dead else 0
            is_left = vertex < n_left
            _tell_neighbours(vertex, is_dead and is_left, short, Side(left, n_left, fewest_of_right), peeling)
            right_side = Side(right, 0, fewest_of_left)
            _tell_neighbours(vertex - n_left, is_dead and not is_left, short, right_side, peeling)
        done = n_queued
    for vertex in range(this_thread(), alive.size, 32 * n_warps()):
        if alive[vertex] == 0:
            degrees[vertex] = 0


@cuda.jit(device=True, forceinline=True)
def _keep(is_live, member, kept, to):
    """Write the live entries of the lanes from `to` on; return the next position."""
    mask = ballot(is_live != 0)
    if is_live != 0:
        kept[to + rank(mask)] = member
    return to + cuda.popc(mask)


@cuda.jit(device=True, forceinline=True)
def _keep_range(members, begin, end, others, kept, to):
    """Write the live entries of a range of a list from `to` on; by all lanes."""
    lane = cuda.laneid
    for group in range(begin, end, 128):
        one, two, three, four = four_entries(members, group + lane, end)
        live_1, live_2 = _is_alive(one, 0, others), _is_alive(two, 0, others)
        live_3, live_4 = _is_alive(three, 0, others), _is_alive(four, 0, others)
        to = _keep(live_1, one, kept, to)
        to = _keep(live_2, two, kept, to)
        to = _keep(live_3, three, kept, to)
        to = _keep(live_4, four, kept, to)


@cuda.jit(device=True, forceinline=True)
def _cut(vertex, n, pieces, n_pieces):
    """Record `n` pieces of a vertex's list, by all lanes."""
    first = 0
    if cuda.laneid == 0:
        first = cuda.atomic.add(n_pieces, 0, n)
    first = cuda.shfl_sync(ALL, first, 0)
    for k in range(cuda.laneid, n, 32):
        pieces[0, first + k] = vertex
        pieces[1, first + k] = first


@kernel(CSR, I32, I32, CSR, I32_2D, I32, I32, launch_bounds=(THREADS, BLOCKS_PER_MULTIPROCESSOR))
def keep_alive_warp_per_tile(lists, alive, others, kept, pieces, n_pieces, arrived):
    """Copy the live entries of live vertices' lists, in order.

    Parameters
    ----------
    pieces : (3, n) int32
        Scratch space for pieces of long lists: vertex, first piece of its list, live entries.
    n_pieces, arrived : (1,) int32
        Initially zero.
    """
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
            begin, end = offsets[owner], offsets[owner + 1]
            if end - begin > 2 * PIECE:
                _cut(owner, (end - begin + PIECE - 1) // PIECE, pieces, n_pieces)
            else:
                _keep_range(members, begin, end, others, kept.members, kept.offsets[owner])
    wait_for_all(arrived, 1)
    n = load_fresh(n_pieces, 0)
    if n == 0:
        return
    for piece in range(this_warp(), n, n_warps()):
        begin = offsets[pieces[0, piece]] + PIECE * (piece - pieces[1, piece])
        n_live = _live_entries(members, begin, min(begin + PIECE, offsets[pieces[0, piece] + 1]), 0, others)
        if lane == 0:
            pieces[2, piece] = n_live
    wait_for_all(arrived, 2)
    for piece in range(this_warp(), n, n_warps()):
        before = 0
        for k in range(pieces[1, piece] + lane, piece, 32):
            before += pieces[2, k]
        begin = offsets[pieces[0, piece]] + PIECE * (piece - pieces[1, piece])
        end = min(begin + PIECE, offsets[pieces[0, piece] + 1])
        _keep_range(members, begin, end, others, kept.members, kept.offsets[pieces[0, piece]] + sum_all(before))

"""Two-hop degrees in device memory: the algorithm of `mbe_stage.graphs.two_hop`, for a batch of vertices at once.

Each walking vertex has a hash table of the vertices it meets, with twice as many places as it can meet. A batch has as
many tables as fit into memory. The sorted lists of the graph show whether the hub reaches a vertex, and whether a
vertex is a neighbour. So time and memory grow with the steps only.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import cupy as cp
import numpy as np
from numba import cuda

from mbe_stage.device import WARPS_PER_BLOCK
from mbe_stage.device.grid import this_warp
from mbe_stage.device.jit import CSR, I32, I64, Lists, kernel
from mbe_stage.device.launch import launch_warps
from mbe_stage.device.warp import ALL, sum_all
from mbe_stage.graphs.bipartite import BipartiteCSR

# Pairs checked at once; a grid has no more than 2**31 blocks.
_MOST_PAIRS = 1 << 31
# Bytes per place in a table, and per neighbour in the lists of a batch.
_PLACE_BYTES, _NEIGHBOUR_BYTES = 4, 16
_FREE = np.int32(-1)
_SPREAD = np.uint32(0x9E3779B1)


@dataclass(frozen=True, slots=True, eq=False)
class _Plan:
    """Plan for counting the left side.

    Attributes
    ----------
    hubs : (n_left,) int32
        The neighbour of each vertex with the highest degree, the smallest in a tie; -1 without neighbours.
    walks : (n_left,) int64
        Sum of the degrees of the other neighbours.
    asks : (n_right,) bool
        For each hub, True if its group does not walk. Each vertex outside the hub's reach is checked for a shared
        neighbour instead (`_ask`).
    n_steps : int
    """

    hubs: cp.ndarray
    walks: cp.ndarray
    asks: cp.ndarray
    n_steps: int


def two_hop_steps(graph: BipartiteCSR) -> tuple[int, int]:
    """Bound the steps like `mbe_stage.graphs.two_hop.two_hop_steps`, for a graph with CuPy arrays."""
    return _plan(graph).n_steps, _plan(graph.swapped()).n_steps


def two_hop_degrees(graph: BipartiteCSR, memory_bytes: int = 1 << 30) -> cp.ndarray:
    """Count, for each left vertex, the other left vertices with which it shares a neighbour.

    Parameters
    ----------
    graph : BipartiteCSR
        With CuPy arrays; ``graph.swapped()`` for the right side.
    memory_bytes : int
        Limit for a batch, besides a few arrays as long as the graph's. A batch has at least one vertex.

    Returns
    -------
    (n_left,) int64
    """
    plan = _plan(graph)
    result = cp.zeros(graph.n_left, cp.int64)
    counted = cp.flatnonzero(plan.hubs >= 0)
    # Subtract the vertex itself, which the hub reaches too.
    result[counted] = cp.diff(graph.right_offsets)[plan.hubs[counted]] - 1
    asks = plan.asks[plan.hubs[counted]]
    for batch in _batches(graph, counted[~asks & (plan.walks[counted] > 0)], plan.walks, memory_bytes):
        result[batch.vertices] += _met(graph, batch, plan.hubs)
    _ask(graph, counted[asks], plan.hubs, result)
    return result


def _plan(graph: BipartiteCSR) -> _Plan:
    degrees, other_degrees = cp.diff(graph.left_offsets), cp.diff(graph.right_offsets)
    hubs, walks = cp.empty(graph.n_left, cp.int32), cp.empty(graph.n_left, cp.int64)
    launch_warps(hub_warp_per_vertex, graph.n_left, graph.left_offsets, graph.left_members, other_degrees, hubs, walks)
    if graph.n_edges == 0:
        return _Plan(hubs, walks, cp.zeros(graph.n_right, cp.bool_), 0)
    by_hub = cp.argsort(hubs)
    # Start of each hub's group; vertices without a hub come before the first group.
    starts = cp.searchsorted(hubs[by_hub], cp.arange(graph.n_right + 1, dtype=cp.int32))
    walk, own = (_sums(values[by_hub], starts) for values in (walks, degrees))
    sizes = cp.diff(starts)
    outside = graph.n_edges - _sums(degrees[graph.right_members], graph.right_offsets)
    ask = graph.n_left + own + sizes * outside
    n_steps = int(cp.where(sizes > 0, cp.minimum(walk, ask), 0).sum())
    return _Plan(hubs, walks, (sizes > 0) & (ask < walk), n_steps)


def _sums(values: cp.ndarray, starts: cp.ndarray) -> cp.ndarray:
    """Sum segments of `values`, from each of `starts` to the next."""
    running = cp.zeros(values.size + 1, cp.int64)
    cp.cumsum(values, out=running[1:])
    return cp.diff(running[starts])


@dataclass(frozen=True, slots=True, eq=False)
class _Batch:
    """Vertices that are walked at the same time.

    Attributes
    ----------
    vertices : (n,) int64
    table_ends, neighbour_ends : (n,) int64
        Ends of each vertex's table and neighbours, counted over the batch.
    """

    vertices: cp.ndarray
    table_ends: cp.ndarray
    neighbour_ends: cp.ndarray


def _batches(graph: BipartiteCSR, vertices: cp.ndarray, walks: cp.ndarray, memory_bytes: int) -> Iterator[_Batch]:
    if vertices.size == 0:
        return
    # A vertex meets at most as many others as it walks to, and as exist. Half of the places stay free.
    places = 2 * cp.minimum(walks[vertices], graph.n_left)
    degrees = graph.left_offsets[vertices + 1] - graph.left_offsets[vertices]
    ends = cp.cumsum(_PLACE_BYTES * places + _NEIGHBOUR_BYTES * degrees)
    start, taken = 0, 0
    while start < vertices.size:
        stop = max(start + 1, int(cp.searchsorted(ends, cp.asarray(taken + memory_bytes), side="right")))
        part = slice(start, stop)
        yield _Batch(vertices[part], cp.cumsum(places[part]), cp.cumsum(degrees[part]))
        start, taken = stop, int(ends[stop - 1])


def _met(graph: BipartiteCSR, batch: _Batch, hubs: cp.ndarray) -> cp.ndarray:
    """Count the vertices that each vertex of a batch meets through its other neighbours, ``(n,) int64``."""
    n_neighbours = int(batch.neighbour_ends[-1])
    owners = cp.searchsorted(batch.neighbour_ends, cp.arange(n_neighbours), side="right")
    tables = cp.full(int(batch.table_ends[-1]), _FREE, cp.int32)
    counts = cp.zeros(batch.vertices.size, cp.int64)
    launch_warps(
        walk_warp_per_neighbour,
        n_neighbours,
        batch.vertices,
        owners,
        batch.neighbour_ends,
        batch.table_ends,
        hubs,
        Lists(graph.left_offsets, graph.left_members),
        Lists(graph.right_offsets, graph.right_members),
        tables,
        counts,
    )
    return counts


def _ask(graph: BipartiteCSR, vertices: cp.ndarray, hubs: cp.ndarray, result: cp.ndarray) -> None:
    """Add, for each vertex, the number of vertices outside its hub's reach that share a neighbour with it."""
    if vertices.size == 0:
        return
    of_hub = hubs[vertices]
    for hub in cp.asnumpy(cp.unique(of_hub)).tolist():
        group = vertices[of_hub == hub]
        is_outside = graph.left_offsets[1:] > graph.left_offsets[:-1]
        is_outside[graph.right_members[int(graph.right_offsets[hub]) : int(graph.right_offsets[hub + 1])]] = False
        outside = cp.flatnonzero(is_outside)
        at_once = max(1, _MOST_PAIRS // max(1, outside.size))
        for start in range(0, group.size if outside.size else 0, at_once):
            mine = group[start : start + at_once]
            counts = cp.zeros(mine.size, cp.int64)
            n_pairs = mine.size * outside.size
            launch_warps(ask_warp_per_pair, n_pairs, mine, outside, graph.left_offsets, graph.left_members, counts)
            result[mine] += counts


@kernel(I64, I32, I64, I32, I64)
def hub_warp_per_vertex(offsets, members, other_degrees, hubs, walks):
    """Find the neighbour with the highest degree, the smallest in a tie, and sum the degrees of all others."""
    vertex = this_warp()
    if vertex >= hubs.size:
        return
    # The degree in the high bits, and below it a number that falls with the id: the maximum is the hub.
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
            hubs[vertex], walks[vertex] = -1, 0
        else:
            hubs[vertex], walks[vertex] = 0x7FFFFFFF - (best & 0x7FFFFFFF), total - (best >> 32)


@cuda.jit(device=True)
def is_in(wanted, members, start, stop):
    """Return True if `wanted` is in an ascending list."""
    while start < stop:
        middle = (start + stop) >> 1
        if members[middle] == wanted:
            return True
        if members[middle] < wanted:
            start = middle + 1
        else:
            stop = middle
    return False


@cuda.jit(device=True)
def is_first_meeting(other, tables, start, size):
    """Enter `other` into a table; return False if it is there already."""
    # Multiplication spreads the ids over 32 bits; multiplication by the size then maps them into the table.
    spread = np.uint64(np.uint32(np.uint32(other) * _SPREAD))
    place = np.int64((spread * np.uint64(size)) >> np.uint64(32))
    while True:
        # Places are never freed; the exchange detects that another thread has filled a place meanwhile.
        there = tables[start + place]
        if there == _FREE:
            there = cuda.atomic.cas(tables, start + place, _FREE, other)
            if there == _FREE:
                return True
        if there == other:
            return False
        place += 1
        if place == size:
            place = np.int64(0)


@kernel(I64, I64, I64, I64, I32, CSR, CSR, I32, I64, seconds=1.5)
def walk_warp_per_neighbour(vertices, owners, neighbour_ends, table_ends, hubs, lists, other_lists, tables, counts):
    """Count the vertices that a vertex first meets through one neighbour that is not its hub.

    Parameters
    ----------
    vertices, neighbour_ends, table_ends
        As in `_Batch`.
    owners : (n_neighbours,) int64, global
        The vertex that each neighbour belongs to, by its place in `vertices`.
    hubs : (n_left,) int32, global
    lists, other_lists : Lists
        Those of the left side and of the right one.
    tables : int32, global
    counts : (n,) int64, global
    """
    index = this_warp()
    if index >= owners.size:
        return
    slot = owners[index]
    vertex = vertices[slot]
    # Backwards from the end of a vertex's neighbours.
    neighbour, hub = lists.members[lists.offsets[vertex + 1] - (neighbour_ends[slot] - index)], hubs[vertex]
    if neighbour == hub:
        return
    table = np.int64(0)
    if slot > 0:
        table = table_ends[slot - 1]
    size = table_ends[slot] - table
    other_offsets, other_members = other_lists
    hub_start, hub_stop = other_offsets[hub], other_offsets[hub + 1]
    n_new = 0
    for i in range(other_offsets[neighbour] + cuda.laneid, other_offsets[neighbour + 1], 32):
        other = other_members[i]
        if not is_in(other, other_members, hub_start, hub_stop) and is_first_meeting(other, tables, table, size):
            n_new += 1
    n_new = sum_all(n_new)
    if cuda.laneid == 0 and n_new > 0:
        cuda.atomic.add(counts, slot, n_new)


@kernel(I64, I64, I64, I32, I64)
def ask_warp_per_pair(vertices, outside, offsets, members, counts):
    """Add one if a vertex outside the hub's reach shares a neighbour with the vertex."""
    index = np.int64(cuda.blockIdx.x) * WARPS_PER_BLOCK + cuda.threadIdx.x // 32
    slot = index // outside.size
    if slot >= vertices.size:
        return
    own_start, own_stop = offsets[vertices[slot]], offsets[vertices[slot] + 1]
    other = outside[index % outside.size]
    for tile in range(offsets[other], offsets[other + 1], 32):
        i = tile + cuda.laneid
        found = False
        if i < offsets[other + 1]:
            found = is_in(members[i], members, own_start, own_stop)
        if cuda.any_sync(ALL, found):
            if cuda.laneid == 0:
                cuda.atomic.add(counts, slot, 1)
            return

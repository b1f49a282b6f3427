"""Find twins and count neighbours, in one launch over both sides of the graph; list the vertices of each group.

Vertices with the same neighbours meet in a hash table, and the first of them represents all. Vertices of both sides
share one numbering, the left ones first; later the rows come first, then the columns. So one launch and one scan
suffice for both sides.
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
    this_warp,
    tile_count,
    wait_for_all,
)
from mbe_stage.device.jit import CSR, I32, I64, INT, U32, U64, bundle, kernel
from mbe_stage.device.warp import ALL, ballot, max_all, sum_all
from mbe_stage.splitmix import INCREMENT, finalised

_U = np.uint64
# Facts of each side, after the other's twins are left out.
SQUARES, ALIVE, EDGES, LARGEST_DEGREE = range(4)
FACTS_PER_SIDE = 4
DEGREE_MASK = np.uint32(0x7FFFFFFF)
_RIGHT_BIT = np.uint32(0x80000000)
_LEFT_SEED = _U(0x2545F4914F6CDD1D)
_RIGHT_SEED = _U(0x6A09E667F3BCC909)


_mix = cuda.jit(device=True, forceinline=True)(finalised)


@cuda.jit(device=True, forceinline=True)
def _slot_of(value, hashes):
    """Put `value` into the hash table (a power of two of slots, 0 is free) and return its slot."""
    last = _U(hashes.size - 1)
    if value == _U(0):
        value = _U(1)
    slot = value & last
    while True:
        found = cuda.atomic.cas(hashes, np.int64(slot), _U(0), value)
        if found == _U(0) or found == value:
            return np.int64(slot)
        slot = (slot + _U(1)) & last


class Twins(NamedTuple):
    """Results of the kernel: numbers of the vertices of both sides, the left ones first, and facts.

    Attributes
    ----------
    hashes : (n_slots,) uint64
        The hash table; zeros before.
    firsts : (n_slots,) int32
        First vertex with each hash, as its distance from the end; zeros before.
    slots : (n_vertices,) int32
        Slot of each vertex's hash.
    twins : (n_vertices,) int32
        First vertex of each vertex's group.
    multiplicities : (n_vertices,) int32
        Sizes of the groups; zeros before.
    keys : (n_vertices,) uint32
        Side and degree.
    facts : (2 * FACTS_PER_SIDE,) int64
        Zeros before.
    """

    hashes: Any
    firsts: Any
    slots: Any
    twins: Any
    multiplicities: Any
    keys: Any
    facts: Any


@cuda.jit(device=True, forceinline=True)
def _enter_lists(lists, first_vertex, seed, table):
    """Put the hash of every nonempty list into the table, with its smallest vertex.

    Hashes begin with the side's `seed`, its vertices with `first_vertex`.
    """
    members, slots = lists.members, table.slots
    lane = cuda.laneid
    n = lists.offsets.size - 1
    n_tiles = tile_count(n)
    for tile in range(this_warp(), n_tiles, n_warps()):
        vertex = tile + lane * n_tiles
        start, end = range_of_list(vertex, vertex < n, lists)
        total = seed
        if end - start <= SHORT:
            for k in range(start, end):
                total += _mix(_U(members[k]) + INCREMENT)
        long = ballot(end - start > SHORT)
        while long != 0:
            source, long, first, last = next_list(long, start, end)
            part = _U(0)
            for k in range(first + lane, last, 32):
                part += _mix(_U(members[k]) + INCREMENT)
            whole = sum_all(np.int64(part))
            if lane == source:
                total += _U(whole)
        if end > start:
            slot = _slot_of(total, table.hashes)
            slots[first_vertex + vertex] = slot
            # The table begins as zeros, so the smallest is kept as the largest distance from the end.
            cuda.atomic.max(table.firsts, slot, slots.size - (first_vertex + vertex))
        cuda.syncwarp()


@cuda.jit(device=True, forceinline=True)
def _find_twins(lists, first_vertex, table):
    """Find the first vertex with the same neighbours for each vertex.

    Equal hashes are no proof, so lists are compared. A collision only leaves twins separate, which costs time.
    """
    offsets, members, slots = lists.offsets, lists.members, table.slots
    lane = cuda.laneid
    n = offsets.size - 1
    n_tiles = tile_count(n)
    for tile in range(this_warp(), n_tiles, n_warps()):
        vertex = tile + lane * n_tiles
        start, end = range_of_list(vertex, vertex < n, lists)
        before = np.int64(0)
        first = vertex
        if end > start:
            first = slots.size - table.firsts[slots[first_vertex + vertex]] - first_vertex
        differs = True
        # A first vertex of the other side is a collision, too.
        if first != vertex and 0 <= first < n:
            before = offsets[first]
            differs = offsets[first + 1] - before != end - start
        if not differs and end - start <= SHORT:
            for k in range(end - start):
                if members[start + k] != members[before + k]:
                    differs = True
        long = ballot(not differs and end - start > SHORT)
        while long != 0:
            source, long, one, other = next_list(long, start, before)
            length = cuda.shfl_sync(ALL, end, source) - one
            found = False
            for place in range(0, length, 32):
                k = place + lane
                if cuda.any_sync(ALL, k < length and members[one + k] != members[other + k]):
                    found = True
                    break
            if lane == source:
                differs = found
        if vertex < n:
            twin = first_vertex + (vertex if differs else first)
            table.twins[first_vertex + vertex] = twin
            if end > start:
                cuda.atomic.add(table.multiplicities, twin, 1)
        cuda.syncwarp()


@cuda.jit(device=True, forceinline=True)
def _count_neighbours(lists, first_vertex, first_other, side_bit, table, facts_at):
    """Count degrees among representatives; 0 for other vertices and those without neighbours.

    Parameters
    ----------
    first_vertex, first_other : int
        First vertices of this side and of the other one.
    side_bit : uint32
        Bit in the keys of this side.
    facts_at : int
        First of this side's facts.
    """
    members, twins, facts = lists.members, table.twins, table.facts
    lane = cuda.laneid
    n = lists.offsets.size - 1
    n_tiles = tile_count(n)
    squares = np.int64(0)
    n_edges = np.int64(0)
    n_alive = 0
    widest = 0
    for tile in range(this_warp(), n_tiles, n_warps()):
        vertex = tile + lane * n_tiles
        is_first = vertex < n and twins[first_vertex + vertex] == first_vertex + vertex
        start, end = range_of_list(vertex, is_first, lists)
        degree = 0
        if end - start <= SHORT:
            for k in range(start, end):
                other = first_other + members[k]
                if twins[other] == other:
                    degree += 1
        long = ballot(end - start > SHORT)
        while long != 0:
            source, long, first, last = next_list(long, start, end)
            part = 0
            for k in range(first + lane, last, 32):
                other = first_other + members[k]
                if twins[other] == other:
                    part += 1
            whole = sum_all(part)
            if lane == source:
                degree = whole
        if vertex < n:
            table.keys[first_vertex + vertex] = np.uint32(degree) | side_bit
        if degree > 0:
            squares += np.int64(degree) * degree
            n_edges += degree
            n_alive += 1
            widest = max(widest, degree)
    squares, n_edges, n_alive, widest = sum_all(squares), sum_all(n_edges), sum_all(n_alive), max_all(widest)
    if lane == 0 and n_alive > 0:
        cuda.atomic.add(facts, facts_at + SQUARES, squares)
        cuda.atomic.add(facts, facts_at + EDGES, n_edges)
        cuda.atomic.add(facts, facts_at + ALIVE, n_alive)
        cuda.atomic.max(facts, facts_at + LARGEST_DEGREE, np.int64(widest))


_TWINS = bundle(Twins, U64, I32, I32, I32, I32, U32, I64)


@kernel(CSR, CSR, _TWINS, I32, launch_bounds=(THREADS, BLOCKS_PER_MULTIPROCESSOR), seconds=6.0)
def collapse_twins_warp_per_tile(left, right, table, arrived):
    """Write for each vertex its twin, its multiplicity, and a key that sorts by side and degree; `arrived` is 0."""
    n_left = left.offsets.size - 1
    _enter_lists(left, 0, _LEFT_SEED, table)
    _enter_lists(right, n_left, _RIGHT_SEED, table)
    wait_for_all(arrived, 1)
    _find_twins(left, 0, table)
    _find_twins(right, n_left, table)
    wait_for_all(arrived, 2)
    _count_neighbours(left, 0, n_left, np.uint32(0), table, 0)
    _count_neighbours(right, n_left, 0, _RIGHT_BIT, table, FACTS_PER_SIDE)


class DeviceGroups(NamedTuple):
    """The vertices of each row, or of each column.

    Attributes
    ----------
    offsets : (n + 1,) int64
        First member of each group. Groups are not empty.
    members : int32
        Members of both sides' groups, in any order within a group.
    alone : (n,) int32
        The only vertex of a group, -1 for a group of several: most groups need no offsets.
    """

    offsets: cp.ndarray
    members: cp.ndarray
    alone: cp.ndarray


GROUPS = bundle(DeviceGroups, I64, I32, I32)
"""Type of `DeviceGroups` in kernels."""


@kernel(I32, I32, INT, INT, INT, I32)
def multiplicities_thread_per_vertex(numbers, multiplicities, rows_at, n_row_vertices, n_rows, result):
    """Turn weights of vertices into those of rows and columns; `numbers` are -1 for vertices that are neither.

    Parameters
    ----------
    numbers, multiplicities : (n_vertices,) int32, global
    rows_at, n_row_vertices : int
        First vertex of the rows' side in the common numbering, and vertices of that side.
    result : (n_rows + n_columns,) int32, global
    """
    vertex = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    if vertex >= numbers.size:
        return
    number = numbers[vertex]
    if number >= 0:
        is_row = rows_at <= vertex < rows_at + n_row_vertices
        result[number if is_row else n_rows + number] = multiplicities[vertex]


@kernel(I32, I32, INT, INT, INT, INT, I64, I32, I32, I32)
def groups_thread_per_vertex(
    numbers, twins, rows_at, n_row_vertices, columns_at, n_rows, offsets, n_others, members, alone
):
    """Put each vertex into the group of its twin. `n_others` begins as zeros.

    The twin is the first of its group; the others come in any order.

    Parameters
    ----------
    numbers, twins : (n_vertices,) int32, global
    rows_at, n_row_vertices, columns_at : int
        First vertex of the rows' side in the common numbering, vertices of that side, and first of the other side.
    offsets, members, alone
        As in `DeviceGroups`, those of the rows first.
    n_others : (n_groups,) int32, global
    """
    vertex = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    if vertex >= numbers.size:
        return
    twin = twins[vertex]
    group = numbers[twin]
    if group < 0:
        return
    first_vertex = rows_at
    if not rows_at <= vertex < rows_at + n_row_vertices:
        first_vertex = columns_at
        group += n_rows
    begin = offsets[group]
    if twin == vertex:
        members[begin] = vertex - first_vertex
        alone[group] = vertex - first_vertex if offsets[group + 1] - begin == 1 else -1
    else:
        members[begin + 1 + cuda.atomic.add(n_others, group, 1)] = vertex - first_vertex

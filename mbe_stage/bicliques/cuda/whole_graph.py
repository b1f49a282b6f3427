"""The whole graph written as node 0 of the pool, in one launch: rows by degree, both directions, roots in order.

Lists of the user's graph are in order of its ids. Columns keep that order, so a row's list only loses what is left out.
Rows are numbered anew, so a column's list has to be sorted (`column_lists`).
"""

from __future__ import annotations

import numpy as np
from numba import cuda, types

from mbe_stage.bicliques.cuda import layout as at
from mbe_stage.bicliques.cuda.collapse import DEGREE_MASK
from mbe_stage.bicliques.cuda.column_lists import BITMAPS_SHAPE, fill_columns
from mbe_stage.device.grid import (
    BLOCKS_PER_MULTIPROCESSOR,
    SHORT,
    THREADS,
    n_warps,
    piece_of,
    this_warp,
    tile_count,
    wait_for_all,
)
from mbe_stage.device.jit import I32, I64, I64_2D, INT, U32, kernel
from mbe_stage.device.warp import ALL, ballot, inclusive_sum, rank, sum_all

__all__ = ["N_BINS", "PARTS_PER_WARP", "write_whole_graph_warp_per_tile"]

PARTS_PER_WARP = 3
N_BINS = 512
"""RootOrder are started in order of their paths' number to within an eighth: eight bins for each power of two."""
_ONE = np.uint32(1)


@cuda.jit(device=True, forceinline=True)
def _degree(keys, vertex):
    return np.int32(keys[vertex] & DEGREE_MASK)


@cuda.jit(device=True, forceinline=True)
def _sum_pieces(order, keys, rows_from, columns_from, n_rows, n_column_vertices, parts):
    """What this warp's piece of the rows and of the columns adds up to, for the scan over all pieces."""
    lane = cuda.laneid
    warp = this_warp()
    in_rows = 0
    first, last = piece_of(n_rows)
    for i in range(first + lane, last, 32):
        in_rows += _degree(keys, order[rows_from + i])
    n_alive = 0
    in_columns = 0
    first, last = piece_of(n_column_vertices)
    for i in range(first + lane, last, 32):
        degree = _degree(keys, columns_from + i)
        in_columns += degree
        n_alive += degree > 0
    in_rows, n_alive, in_columns = sum_all(in_rows), sum_all(n_alive), sum_all(in_columns)
    if lane == 0:
        parts[warp] = in_rows
        parts[n_warps() + warp] = n_alive
        parts[2 * n_warps() + warp] = in_columns


@cuda.jit(device=True, forceinline=True)
def _sum_before(parts, which):
    """What the warps before this one summed up."""
    total = 0
    for k in range(cuda.laneid, this_warp(), 32):
        total += parts[which * n_warps() + k]
    return np.int32(sum_all(total))


@cuda.jit(device=True, forceinline=True)
def _number_rows(order, keys, rows_from, n_rows, parts, numbers, ints, offsets_at):
    """Rows in ascending degree, and where their lists begin."""
    lane = cuda.laneid
    first, last = piece_of(n_rows)
    before = _sum_before(parts, 0)
    for tile in range(first, last, 32):
        i = tile + lane
        degree = 0
        if i < last:
            vertex = order[rows_from + i]
            degree = _degree(keys, vertex)
            numbers[vertex] = i
        ends = inclusive_sum(degree)
        if i < last:
            ints[offsets_at + i] = before + ends - degree
        before += cuda.shfl_sync(ALL, ends, 31)


@cuda.jit(device=True, forceinline=True)
def _number_columns(keys, columns_from, n_column_vertices, parts, numbers, ints, offsets_at):
    """Columns in the order of their vertices, and where their lists begin; -1 for vertices that are left out."""
    lane = cuda.laneid
    first, last = piece_of(n_column_vertices)
    number = _sum_before(parts, 1)
    before = _sum_before(parts, 2)
    for tile in range(first, last, 32):
        i = tile + lane
        degree = 0
        if i < last:
            degree = _degree(keys, columns_from + i)
        ends = inclusive_sum(degree)
        alive = ballot(degree > 0)
        if i < last:
            column = -1
            if degree > 0:
                column = number + rank(alive)
                ints[offsets_at + column] = before + ends - degree
            numbers[columns_from + i] = column
        number += cuda.popc(alive)
        before += cuda.shfl_sync(ALL, ends, 31)


@cuda.jit(device=True, forceinline=True)
def _bin_of(cost):
    """Smaller for a larger cost, which is at least 1."""
    power = 63 - cuda.clz(np.int64(cost))
    eighth = (cost << 3 >> power) & 7
    return N_BINS - 1 - (8 * power + eighth)


@cuda.jit(device=True, forceinline=True)
def _add_to_bins(bins, which):
    """Add 1 to a bin for each lane (none where it is negative); what the bin held before this lane's 1.

    Lanes with the same bin add up first: most roots fall into a few bins.
    """
    same = np.uint32(cuda.match_any_sync(ALL, which))
    first_lane = cuda.ffs(same) - 1
    before = 0
    if which >= 0 and cuda.laneid == first_lane:
        before = cuda.atomic.add(bins, which, cuda.popc(same))
    return cuda.shfl_sync(ALL, before, first_lane) + rank(same)


@cuda.jit(device=True, forceinline=True)
def _fill_rows(
    offsets, members, order, keys, rows_from, rows_at, columns_from, n_rows, numbers, ints, offsets_at, members_at,
    costs, bins
):  # fmt: skip
    """Each row's columns, ascending, and how many two-step paths begin in it."""
    lane = cuda.laneid
    n_tiles = tile_count(n_rows)
    for tile in range(this_warp(), n_tiles, n_warps()):
        row = tile + lane * n_tiles
        start = np.int64(0)
        end = np.int64(0)
        place = np.int64(0)
        if row < n_rows:
            vertex = order[rows_from + row] - rows_at
            start, end = offsets[vertex], offsets[vertex + 1]
            place = members_at + ints[offsets_at + row]
        cost = np.int64(0)
        if end - start <= SHORT:
            for k in range(start, end):
                column = numbers[columns_from + members[k]]
                if column >= 0:
                    ints[place] = column
                    place += 1
                    cost += _degree(keys, columns_from + members[k])
        long_lists = ballot(end - start > SHORT)
        while long_lists != 0:
            source = cuda.ffs(long_lists) - 1
            long_lists &= long_lists - _ONE
            first, last = cuda.shfl_sync(ALL, start, source), cuda.shfl_sync(ALL, end, source)
            to = cuda.shfl_sync(ALL, place, source)
            part = np.int64(0)
            for group in range(first, last, 32):
                column = -1
                if group + lane < last:
                    other = columns_from + members[group + lane]
                    column = numbers[other]
                    if column >= 0:
                        part += _degree(keys, other)
                kept = ballot(column >= 0)
                if column >= 0:
                    ints[to + rank(kept)] = column
                to += cuda.popc(kept)
            whole = sum_all(part)
            if lane == source:
                cost = whole
        root_bin = -1
        if row < n_rows:
            costs[row] = cost
            root_bin = _bin_of(cost)
        _add_to_bins(bins, root_bin)


@cuda.jit(device=True, forceinline=True)
def _starts_of_bins(bins):
    """Counts into where each bin begins; by one warp."""
    before = 0
    for tile in range(0, N_BINS, 32):
        count = bins[tile + cuda.laneid]
        ends = inclusive_sum(count)
        bins[tile + cuda.laneid] = before + ends - count
        before += cuda.shfl_sync(ALL, ends, 31)


_WRITING = (I64, I32, I64, I32, I64, U32, I32, I32, I32, I32, I64_2D, I32, I64, I32, *(INT,) * 6)


@kernel(*_WRITING, launch_bounds=(THREADS, BLOCKS_PER_MULTIPROCESSOR), seconds=4.0)
def write_whole_graph_warp_per_tile(
    row_offsets, row_members, column_offsets, column_members, order, keys, numbers, parts, bins, ints, nodes, roots,
    costs, arrived, rows_at, rows_from, columns_from, n_rows, n_columns, n_edges
):  # fmt: skip
    """Node 0 (`layout.Pool`), the roots in the order they are to be started in, and their two-step paths.

    The lists are those of the user's graph, of the side that becomes the rows and of the other one, whose vertices
    begin at `rows_at` and `columns_from` in the common numbering. In `order` the rows begin at `rows_from`. `numbers`
    begins as -1, `bins` and `arrived` as zeros.
    """
    lane = cuda.laneid
    warp = this_warp()
    bitmap = cuda.shared.array(BITMAPS_SHAPE, types.uint32)[cuda.threadIdx.x // at.WARP_SIZE]
    n_column_vertices = column_offsets.size - 1
    ids_at = n_columns + 1
    row_ids_at = ids_at + n_columns
    row_offsets_at = row_ids_at + n_rows
    column_offsets_at = row_offsets_at + n_rows + 1
    row_members_at = column_offsets_at + n_columns + 1
    column_members_at = row_members_at + n_edges

    _sum_pieces(order, keys, rows_from, columns_from, n_rows, n_column_vertices, parts)
    for k in range(warp * 32 + lane, n_columns, n_warps() * 32):
        ints[k] = k
        ints[ids_at + k] = k
    for k in range(warp * 32 + lane, n_rows, n_warps() * 32):
        ints[row_ids_at + k] = k
    if warp == 0 and lane == 0:
        ints[n_columns] = n_columns
        ints[row_offsets_at + n_rows] = n_edges
        ints[column_offsets_at + n_columns] = n_edges
        nodes[0, at.NODE_COLUMNS] = n_columns
        nodes[0, at.NODE_IDS] = n_columns
        nodes[0, at.NODE_ROWS] = n_rows
        nodes[0, at.NODE_EDGES] = n_edges
        nodes[0, at.NODE_END] = n_rows
        nodes[0, at.NODE_SIZE] = column_members_at + n_edges
    wait_for_all(arrived, 1)
    _number_rows(order, keys, rows_from, n_rows, parts, numbers, ints, row_offsets_at)
    _number_columns(keys, columns_from, n_column_vertices, parts, numbers, ints, column_offsets_at)
    wait_for_all(arrived, 2)
    _fill_rows(
        row_offsets, row_members, order, keys, rows_from, rows_at, columns_from, n_rows, numbers, ints,
        row_offsets_at, row_members_at, costs, bins
    )  # fmt: skip
    fill_columns(
        column_offsets, column_members, rows_at, columns_from, n_rows, numbers, ints, column_offsets_at,
        column_members_at, bitmap
    )  # fmt: skip
    wait_for_all(arrived, 3)
    if warp == 0:
        _starts_of_bins(bins)
    wait_for_all(arrived, 4)
    for tile in range(warp * 32, n_rows, n_warps() * 32):
        root_bin = -1
        if tile + lane < n_rows:
            root_bin = _bin_of(costs[tile + lane])
        place = _add_to_bins(bins, root_bin)
        if tile + lane < n_rows:
            roots[place] = tile + lane

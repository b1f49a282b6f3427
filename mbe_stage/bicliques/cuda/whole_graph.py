"""Write the whole graph as node 0 of the pool, in one launch: rows by degree, both directions, ordered roots.

Lists of the user's graph are in the order of its ids. Columns keep that order, so a row's list only loses entries. Rows
get new numbers, so a column's list has to be sorted. Roots start in the order of their two-step paths,
to within an eighth: they are sorted by counting into bins.

The lists of the columns are sorted by the new numbers of rows, in one of three ways by length. One lane sorts a short
list. The lanes of a warp sort up to 32 entries: each counts the smaller ones. The rows of longer lists are marked in a
bitmap in shared memory, and read in order.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import cuda, types

from mbe_stage.bicliques.cuda import layout
from mbe_stage.bicliques.cuda.collapse_twins import DEGREE_MASK
from mbe_stage.device import WARP_SIZE, WARPS_PER_BLOCK
from mbe_stage.device.grid import (
    BLOCKS_PER_MULTIPROCESSOR,
    SHORT,
    THREADS,
    n_warps,
    next_list,
    range_of_list,
    range_of_warp,
    this_warp,
    tile_count,
    wait_for_all,
)
from mbe_stage.device.jit import CSR, I32, I64, I64_2D, INT, U32, bundle, kernel
from mbe_stage.device.warp import ALL, ballot, four, four_entries, inclusive_sum, rank, sum_all

_BITMAP_WORDS = 1024
_BITMAP_ROWS = 32 * _BITMAP_WORDS
_BITMAPS_SHAPE = (WARPS_PER_BLOCK, _BITMAP_WORDS)
N_BINS = 512
"""Bins for each power of two: roots are sorted by their number of paths to within an eighth."""
PARTS_PER_WARP = 3
_ONE = np.uint32(1)


class Numbering(NamedTuple):
    """Arrays that renumber vertices. Both sides share one numbering, the left ones first.

    Attributes
    ----------
    order : (n_vertices,) int64
        Vertices by side and degree.
    keys : (n_vertices,) uint32
        Side and degree of each vertex (`collapse_twins`).
    numbers : (n_vertices,) int32
        Row or column of each vertex, -1 before.
    parts : (PARTS_PER_WARP * n_warps,) int32
    bins : (N_BINS,) int32
        Zeros before.
    """

    order: Any
    keys: Any
    numbers: Any
    parts: Any
    bins: Any


class Target(NamedTuple):
    """Output arrays: node 0's segment of the pool and its fields, the ordered roots, and the paths from each row.

    Attributes
    ----------
    ints : int32
    nodes : (max_nodes, NODE_FIELDS) int64
    roots : (n_rows,) int32
    costs : (n_rows,) int64
    """

    ints: Any
    nodes: Any
    roots: Any
    costs: Any


_NUMBERING = bundle(Numbering, I64, U32, I32, I32, I32)
_TARGET = bundle(Target, I32, I64_2D, I32, I64)


class WholeGraph(NamedTuple):
    """Arrays that the phases of the kernel read and write.

    Attributes
    ----------
    rows, columns : Lists
        Lists of the user's graph: of the side that becomes the rows, and of the other one.
    numbering : Numbering
    target : Target
    rows_at, columns_at : int
        First vertices of the two sides in the common numbering.
    rows_from : int
        First of the rows in the order.
    n_column_vertices : int
        Vertices of the side of the columns.
    row_offsets, column_offsets, row_members, column_members : int
        Positions in `Target.ints`.
    """

    rows: Any
    columns: Any
    numbering: Any
    target: Any
    rows_at: Any
    columns_at: Any
    rows_from: Any
    n_column_vertices: Any
    row_offsets: Any
    column_offsets: Any
    row_members: Any
    column_members: Any


@cuda.jit(device=True, forceinline=True)
def _row_at(k, graph):
    """The row in an entry of the columns' lists, -1 if it is left out."""
    return graph.numbering.numbers[graph.rows_at + graph.columns.members[k]]


@cuda.jit(device=True, forceinline=True)
def _sort_by_inserting(start, end, to, graph):
    """Write the rows of a short list in ascending order; by one lane."""
    ints = graph.target.ints
    stop = to
    for k in range(start, end):
        row = _row_at(k, graph)
        if row >= 0:
            place = stop
            while place > to and ints[place - 1] > row:
                ints[place] = ints[place - 1]
                place -= 1
            ints[place] = row
            stop += 1


@cuda.jit(device=True, forceinline=True)
def _sort_by_counting(first, last, to, graph):
    """Write the rows of at most 32 list entries in ascending order: each lane counts the smaller ones."""
    row = -1
    if first + cuda.laneid < last:
        row = _row_at(first + cuda.laneid, graph)
    smaller = 0
    for k in range(last - first):
        other = cuda.shfl_sync(ALL, row, np.int32(k))
        smaller += 0 <= other < row
    if row >= 0:
        graph.target.ints[to + smaller] = row


@cuda.jit(device=True, forceinline=True)
def _sort_by_marking(first, last, to, bitmap, graph):
    """Write the rows of a long list in ascending order, by marking them in a bitmap, a part of all rows at a time."""
    lane, n_rows = cuda.laneid, graph.target.roots.size
    for lowest in range(0, n_rows, _BITMAP_ROWS):
        n_words = (min(_BITMAP_ROWS, n_rows - lowest) + 31) // 32
        for k in range(lane, n_words, 32):
            bitmap[k] = np.uint32(0)
        cuda.syncwarp()
        for k in range(first + lane, last, 32):
            row = _row_at(k, graph) - lowest
            if 0 <= row < _BITMAP_ROWS:
                cuda.atomic.or_(bitmap, row >> 5, _ONE << np.uint32(row & 31))
        cuda.syncwarp()
        for tile in range(0, n_words, 32):
            word = np.uint32(0)
            if tile + lane < n_words:
                word = bitmap[tile + lane]
            ends = inclusive_sum(cuda.popc(word))
            place = to + ends - cuda.popc(word)
            while word != 0:
                graph.target.ints[place] = lowest + 32 * (tile + lane) + cuda.ffs(word) - 1
                word &= word - _ONE
                place += 1
            to += cuda.shfl_sync(ALL, ends, 31)
        cuda.syncwarp()


@cuda.jit(device=True, forceinline=True)
def _fill_columns(bitmap, graph):
    """Write each column's rows, ascending; `bitmap` is the warp's shared memory."""
    n = graph.columns.offsets.size - 1
    n_tiles = tile_count(n)
    for tile in range(this_warp(), n_tiles, n_warps()):
        vertex = tile + cuda.laneid * n_tiles
        column = -1
        if vertex < n:
            column = graph.numbering.numbers[graph.columns_at + vertex]
        start, end = range_of_list(vertex, column >= 0, graph.columns)
        place = np.int64(0)
        if column >= 0:
            place = graph.column_members + graph.target.ints[graph.column_offsets + column]
        if end - start <= SHORT:
            _sort_by_inserting(start, end, place, graph)
        long = ballot(end - start > SHORT)
        while long != 0:
            source, long, first, last = next_list(long, start, end)
            to = cuda.shfl_sync(ALL, place, source)
            if last - first <= WARP_SIZE:
                _sort_by_counting(first, last, to, graph)
            else:
                _sort_by_marking(first, last, to, bitmap, graph)
        cuda.syncwarp()


@cuda.jit(device=True, forceinline=True)
def _bin_of(cost):
    """Bin of a cost, which is at least 1; smaller for a larger cost."""
    power = 63 - cuda.clz(np.int64(cost))
    eighth = (cost << 3 >> power) & 7
    return N_BINS - 1 - (8 * power + eighth)


@cuda.jit(device=True, forceinline=True)
def _add_to_bins(bins, which):
    """Add 1 to a bin for each lane (none if it is negative); return the bin's value before this lane's 1.

    Lanes with the same bin are added first: most roots fall into a few bins.
    """
    same = np.uint32(cuda.match_any_sync(ALL, which))
    first_lane = cuda.ffs(same) - 1
    before = 0
    if which >= 0 and cuda.laneid == first_lane:
        before = cuda.atomic.add(bins, which, cuda.popc(same))
    return cuda.shfl_sync(ALL, before, first_lane) + rank(same)


@cuda.jit(device=True, forceinline=True)
def _starts_of_bins(bins):
    """Replace counts by the begin of each bin; by one warp."""
    before = 0
    for tile in range(0, N_BINS, 32):
        count = bins[tile + cuda.laneid]
        ends = inclusive_sum(count)
        bins[tile + cuda.laneid] = before + ends - count
        before += cuda.shfl_sync(ALL, ends, 31)


@cuda.jit(device=True, forceinline=True)
def _degree(keys, vertex):
    return np.int32(keys[vertex] & DEGREE_MASK)


@cuda.jit(device=True, forceinline=True)
def _sum_ranges(graph):
    """Sum this warp's range of the rows and of the columns, for the scan over all ranges."""
    order, keys, _, parts, _ = graph.numbering
    lane = cuda.laneid
    warp = this_warp()
    in_rows = 0
    first, last = range_of_warp(graph.target.roots.size)
    for i in range(first + lane, last, 32):
        in_rows += _degree(keys, order[graph.rows_from + i])
    n_alive = 0
    in_columns = 0
    first, last = range_of_warp(graph.n_column_vertices)
    for i in range(first + lane, last, 32):
        degree = _degree(keys, graph.columns_at + i)
        in_columns += degree
        n_alive += degree > 0
    in_rows, n_alive, in_columns = sum_all(in_rows), sum_all(n_alive), sum_all(in_columns)
    if lane == 0:
        parts[warp] = in_rows
        parts[n_warps() + warp] = n_alive
        parts[2 * n_warps() + warp] = in_columns


@cuda.jit(device=True, forceinline=True)
def _sum_before(parts, which):
    """Return the sums of the warps before this one."""
    total = 0
    for k in range(cuda.laneid, this_warp(), 32):
        total += parts[which * n_warps() + k]
    return np.int32(sum_all(total))


@cuda.jit(device=True, forceinline=True)
def _number_rows(graph):
    """Number the rows in ascending degree, and write the offsets of their lists."""
    order, keys, numbers, parts, _ = graph.numbering
    lane = cuda.laneid
    first, last = range_of_warp(graph.target.roots.size)
    before = _sum_before(parts, 0)
    for tile in range(first, last, 32):
        i = tile + lane
        degree = 0
        if i < last:
            vertex = order[graph.rows_from + i]
            degree = _degree(keys, vertex)
            numbers[vertex] = i
        ends = inclusive_sum(degree)
        if i < last:
            graph.target.ints[graph.row_offsets + i] = before + ends - degree
        before += cuda.shfl_sync(ALL, ends, 31)


@cuda.jit(device=True, forceinline=True)
def _number_columns(graph):
    """Number the columns in the order of their vertices, and write their offsets; -1 for vertices left out."""
    _, keys, numbers, parts, _ = graph.numbering
    lane = cuda.laneid
    first, last = range_of_warp(graph.n_column_vertices)
    number = _sum_before(parts, 1)
    before = _sum_before(parts, 2)
    for tile in range(first, last, 32):
        i = tile + lane
        degree = 0
        if i < last:
            degree = _degree(keys, graph.columns_at + i)
        ends = inclusive_sum(degree)
        alive = ballot(degree > 0)
        if i < last:
            column = -1
            if degree > 0:
                column = number + rank(alive)
                graph.target.ints[graph.column_offsets + column] = before + ends - degree
            numbers[graph.columns_at + i] = column
        number += cuda.popc(alive)
        before += cuda.shfl_sync(ALL, ends, 31)


@cuda.jit(device=True, forceinline=True)
def _column_of(member, graph):
    """The column of a list's entry and its degree; -1 and 0 if it is left out, or if there is no entry."""
    other = graph.columns_at + max(member, 0)
    column = graph.numbering.numbers[other] if member >= 0 else -1
    return column, _degree(graph.numbering.keys, other) if column >= 0 else np.int32(0)


@cuda.jit(device=True, forceinline=True)
def _write_kept(column, ints, to):
    """Write the columns of the lanes that have one from `to` on; return the next position."""
    kept = ballot(column >= 0)
    if column >= 0:
        ints[to + rank(kept)] = column
    return to + cuda.popc(kept)


@cuda.jit(device=True, forceinline=True)
def _fill_rows(graph):
    """Write each row's columns, ascending, and the number of two-step paths from it."""
    members, ints, n_rows = graph.rows.members, graph.target.ints, graph.target.roots.size
    keys, numbers, columns_at = graph.numbering.keys, graph.numbering.numbers, graph.columns_at
    lane = cuda.laneid
    n_tiles = tile_count(n_rows)
    for tile in range(this_warp(), n_tiles, n_warps()):
        row = tile + lane * n_tiles
        vertex, place = np.int64(0), np.int64(0)
        if row < n_rows:
            vertex = graph.numbering.order[graph.rows_from + row] - graph.rows_at
            place = graph.row_members + ints[graph.row_offsets + row]
        start, end = range_of_list(vertex, row < n_rows, graph.rows)
        cost = np.int64(0)
        if end - start <= SHORT:
            for k in range(start, end):
                column = numbers[columns_at + members[k]]
                if column >= 0:
                    ints[place] = column
                    place += 1
                    cost += _degree(keys, columns_at + members[k])
        long = ballot(end - start > SHORT)
        while long != 0:
            source, long, first, last = next_list(long, start, end)
            to = cuda.shfl_sync(ALL, place, source)
            part = np.int64(0)
            for group in range(first, last, 128):
                found = four(_column_of, four_entries(members, group + lane, last), graph)
                part += found[0][1] + found[1][1] + found[2][1] + found[3][1]
                for column, _ in found:
                    to = _write_kept(column, ints, to)
            whole = sum_all(part)
            if lane == source:
                cost = whole
        root_bin = -1
        if row < n_rows:
            graph.target.costs[row] = cost
            root_bin = _bin_of(cost)
        _add_to_bins(graph.numbering.bins, root_bin)


@cuda.jit(device=True, forceinline=True)
def _write_constants(graph, n_columns, n_edges):
    """Write the data that depends on sizes alone: ids (the numbers), ends of offsets, and the fields of the node."""
    lane, warp = cuda.laneid, this_warp()
    ints, nodes, n_rows = graph.target.ints, graph.target.nodes, graph.target.roots.size
    ids_at = n_columns + 1
    for k in range(warp * 32 + lane, n_columns, n_warps() * 32):
        ints[k] = k
        ints[ids_at + k] = k
    for k in range(warp * 32 + lane, n_rows, n_warps() * 32):
        ints[ids_at + n_columns + k] = k
    if warp == 0 and lane == 0:
        ints[n_columns] = n_columns
        ints[graph.row_offsets + n_rows] = n_edges
        ints[graph.column_offsets + n_columns] = n_edges
        nodes[0, layout.NODE_COLUMNS] = n_columns
        nodes[0, layout.NODE_IDS] = n_columns
        nodes[0, layout.NODE_ROWS] = n_rows
        nodes[0, layout.NODE_EDGES] = n_edges
        nodes[0, layout.NODE_END] = n_rows
        nodes[0, layout.NODE_SIZE] = graph.column_members + n_edges


@kernel(
    CSR, CSR, _NUMBERING, _TARGET, I32, *(INT,) * 5, launch_bounds=(THREADS, BLOCKS_PER_MULTIPROCESSOR), seconds=4.0
)
def write_whole_graph_warp_per_tile(
    rows, columns, numbering, target, arrived, rows_at, rows_from, columns_at, n_columns, n_edges
):
    """Write node 0 (`layout.Pool`), the roots in their order, and their two-step paths.

    Parameters
    ----------
    rows, columns, numbering, target, rows_at, rows_from, columns_at
        As in `WholeGraph`.
    arrived : (1,) int32
        0 before.
    """
    lane = cuda.laneid
    warp = this_warp()
    bitmap = cuda.shared.array(_BITMAPS_SHAPE, types.uint32)[cuda.threadIdx.x // WARP_SIZE]
    bins, n_rows = numbering.bins, target.roots.size
    n_column_vertices = columns.offsets.size - 1
    row_offsets = n_columns + 1 + n_columns + n_rows
    column_offsets = row_offsets + n_rows + 1
    row_members = column_offsets + n_columns + 1
    lists = row_offsets, column_offsets, row_members, row_members + n_edges
    graph = WholeGraph(rows, columns, numbering, target, rows_at, columns_at, rows_from, n_column_vertices, *lists)
    _sum_ranges(graph)
    _write_constants(graph, n_columns, n_edges)
    wait_for_all(arrived, 1)
    _number_rows(graph)
    _number_columns(graph)
    wait_for_all(arrived, 2)
    _fill_rows(graph)
    _fill_columns(bitmap, graph)
    wait_for_all(arrived, 3)
    if warp == 0:
        _starts_of_bins(bins)
    wait_for_all(arrived, 4)
    for tile in range(warp * 32, n_rows, n_warps() * 32):
        root_bin = -1
        if tile + lane < n_rows:
            root_bin = _bin_of(target.costs[tile + lane])
        place = _add_to_bins(bins, root_bin)
        if tile + lane < n_rows:
            target.roots[place] = tile + lane

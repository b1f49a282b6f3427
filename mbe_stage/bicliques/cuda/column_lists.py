"""Sort the lists of the columns by the new numbers of rows, in one of three ways by length.

One lane sorts a short list. The lanes of a warp sort up to 32 entries: each counts the smaller ones. The rows of longer
lists are marked in a bitmap in shared memory, and read in order.
"""

from __future__ import annotations

import numpy as np
from numba import cuda

from mbe_stage.device import WARP_SIZE
from mbe_stage.device.grid import SHORT, WARPS_PER_BLOCK, n_warps, this_warp, tile_count
from mbe_stage.device.warp import ALL, ballot, inclusive_sum

_BITMAP_WORDS = 1024
_BITMAP_ROWS = 32 * _BITMAP_WORDS
BITMAPS_SHAPE = (WARPS_PER_BLOCK, _BITMAP_WORDS)
_ONE = np.uint32(1)


@cuda.jit(device=True, forceinline=True)
def _sort_by_inserting(start, end, members, rows_from, numbers, ints, to):
    """Write the rows of a short list in ascending order; by one lane.

    Parameters
    ----------
    members : int32, global
        Those of the column's side.
    rows_from : int
        First vertex of the rows' side in the common numbering.
    numbers : (n_vertices,) int32, global
        The row of each vertex, -1 for those left out.
    ints : int32, global
        Receives the rows.
    """
    stop = to
    for k in range(start, end):
        row = numbers[rows_from + members[k]]
        if row >= 0:
            place = stop
            while place > to and ints[place - 1] > row:
                ints[place] = ints[place - 1]
                place -= 1
            ints[place] = row
            stop += 1


@cuda.jit(device=True, forceinline=True)
def _sort_by_counting(first, last, members, rows_from, numbers, ints, to):
    """Write the rows of at most 32 list entries in ascending order: each lane counts the smaller ones.

    Parameters
    ----------
    members : int32, global
        Those of the column's side.
    rows_from : int
        First vertex of the rows' side in the common numbering.
    numbers : (n_vertices,) int32, global
        The row of each vertex, -1 for those left out.
    ints : int32, global
        Receives the rows.
    """
    lane = cuda.laneid
    row = -1
    if first + lane < last:
        row = numbers[rows_from + members[first + lane]]
    smaller = 0
    for k in range(last - first):
        other = cuda.shfl_sync(ALL, row, np.int32(k))
        smaller += 0 <= other < row
    if row >= 0:
        ints[to + smaller] = row


@cuda.jit(device=True, forceinline=True)
def _sort_by_marking(first, last, members, rows_from, n_rows, numbers, ints, to, bitmap):
    """Write the rows of a long list in ascending order, by marking them in a bitmap, a part of all rows at a time.

    Parameters
    ----------
    members : int32, global
        Those of the column's side.
    rows_from : int
        First vertex of the rows' side in the common numbering.
    numbers : (n_vertices,) int32, global
        The row of each vertex, -1 for those left out.
    ints : int32, global
        Receives the rows.
    bitmap : (words,) uint32, shared
        This warp's bitmap.
    """
    lane = cuda.laneid
    for lowest in range(0, n_rows, _BITMAP_ROWS):
        n_words = (min(_BITMAP_ROWS, n_rows - lowest) + 31) // 32
        for k in range(lane, n_words, 32):
            bitmap[k] = np.uint32(0)
        cuda.syncwarp()
        for k in range(first + lane, last, 32):
            row = numbers[rows_from + members[k]] - lowest
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
                ints[place] = lowest + 32 * (tile + lane) + cuda.ffs(word) - 1
                word &= word - _ONE
                place += 1
            to += cuda.shfl_sync(ALL, ends, 31)
        cuda.syncwarp()


@cuda.jit(device=True, forceinline=True)
def fill_columns(lists, rows_from, columns_from, n_rows, numbers, ints, offsets_at, members_at, bitmap):
    """Write each column's rows, ascending.

    Parameters
    ----------
    lists : Lists
        Lists of the side that becomes the columns.
    rows_from, columns_from : int
        First vertices of the two sides in the common numbering.
    numbers : (n_vertices,) int32, global
        The row or column of each vertex, -1 for those left out.
    ints : int32, global
    offsets_at, members_at : int
        Positions of the columns' offsets and members.
    bitmap : (words,) uint32, shared
        This warp's bitmap.
    """
    offsets, members = lists.offsets, lists.members
    lane = cuda.laneid
    n = offsets.size - 1
    n_tiles = tile_count(n)
    for tile in range(this_warp(), n_tiles, n_warps()):
        vertex = tile + lane * n_tiles
        start = np.int64(0)
        end = np.int64(0)
        place = np.int64(0)
        column = -1
        if vertex < n:
            column = numbers[columns_from + vertex]
        if column >= 0:
            start, end = offsets[vertex], offsets[vertex + 1]
            place = members_at + ints[offsets_at + column]
        if end - start <= SHORT:
            _sort_by_inserting(start, end, members, rows_from, numbers, ints, place)
        lists = ballot(end - start > SHORT)
        while lists != 0:
            source = cuda.ffs(lists) - 1
            lists &= lists - _ONE
            first, last = cuda.shfl_sync(ALL, start, source), cuda.shfl_sync(ALL, end, source)
            to = cuda.shfl_sync(ALL, place, source)
            if last - first <= WARP_SIZE:
                _sort_by_counting(first, last, members, rows_from, numbers, ints, to)
            else:
                _sort_by_marking(first, last, members, rows_from, n_rows, numbers, ints, to, bitmap)
        cuda.syncwarp()

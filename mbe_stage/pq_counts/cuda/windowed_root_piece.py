"""The matrix of a root in little memory: rows are counted a window at a time, in the frame's shared memory.

`root_submatrix` has an array of all rows for each warp, and the positions of a row in the lists of its columns. Here a
warp needs neither. It counts as many rows as a frame has half words (no frame is in use before there is a submatrix),
and looks for the beginning of a window in each list. Windows without a path are skipped, and those without a row of the
matrix are not walked again.
"""

from __future__ import annotations

import numpy as np
from numba import cuda

from mbe_stage.device.warp import ALL, ballot, count_bits, first_bit, min_all, next_tile, rank
from mbe_stage.pq_counts.cuda import layout
from mbe_stage.pq_counts.cuda.rank_windows import SHORT_LIST
from mbe_stage.pq_counts.cuda.root_piece import all_columns, clear_words
from mbe_stage.search.cuda.nodes import take_words

WINDOW = 2 * layout.FRAME_WORDS // 32 * 32
"""Rows counted at a time."""
_NEVER = 0x7FFFFFFF
_I = np.int32
_L = np.int64
_U = np.uint32


@cuda.jit(device=True, forceinline=True)
def _first_from(row, start, stop, members):
    """Position of the first entry not below `row` in an ascending list; `stop` if there is none.

    Positions are uint32, in half the registers. Entries are fewer than 2**31, so neither a sum of two positions
    overflows, nor a step beyond the end.
    """
    while start < stop:
        middle = _U(_U(start + stop) >> _U(1))
        if members[middle] < row:
            start = _U(middle + _U(1))
        else:
            stop = middle
    return start


@cuda.jit(device=True, forceinline=True)
def _meet(row, window, column, is_marking, place, n_words, counts, counts_at, words):
    """Follow a path to a row: count it, or set its bit if the row has a number, which is below 0.

    Parameters
    ----------
    row, window : int32
        `WINDOW` rows from the second one on are counted.
    column : int32
        The root's column on the path.
    is_marking : bool
    place : int64
        Position of the matrix.
    n_words : int32
        Words of its rows.
    counts : int32, shared
        This warp's counts begin at `counts_at`.
    counts_at : int32
    words : uint32, global

    Returns
    -------
    int32
        The row if it is behind the window, else `_NEVER`.
    """
    if row >= window + WINDOW:
        return _I(row)
    counter = _I(counts_at + row - window)
    if is_marking:
        number = counts[counter]
        if number < 0:
            at_word = _L(place + _L(-1 - number) * _L(n_words) + (column >> 5))
            cuda.atomic.or_(words, at_word, _U(_U(1) << _U(column & 31)))
    else:
        cuda.atomic.add(counts, counter, _I(1))
    return _I(_NEVER)


@cuda.jit(device=True, forceinline=True)
def _walk_window(root, window, is_marking, place, n_words, counts, counts_at, graph, words):
    """Walk the two-step paths to the rows of a window, counting or marking; return the first row behind it.

    Parameters
    ----------
    root : int32
    window, is_marking, place, n_words, counts, counts_at, words
        As in `_meet`.
    graph : Graph
        Its positions are not read.

    Returns
    -------
    int32
        `_NEVER` if no later row is met.
    """
    lane = _I(cuda.laneid)
    first = _U(graph.row_offsets[root])
    n_columns = _I(_U(graph.row_offsets[root + 1]) - first)
    members = graph.column_members
    beyond = _I(_NEVER)
    tile = _I(0)
    while tile < n_columns:
        column = _I(tile + lane)
        start, stop = _U(0), _U(0)
        if column < n_columns:
            member = graph.row_members[_U(first + _U(column))]
            stop = _U(graph.column_offsets[member + 1])
            start = _first_from(window, _U(graph.column_offsets[member]), stop, members)
        is_long = _U(stop - start) > SHORT_LIST
        if not is_long:
            row = members[start] if start < stop else _I(0)
            while start < stop:
                # The next entry is loaded while this one is counted.
                start = _U(start + _U(1))
                following = members[start] if start < stop else _I(0)
                met = _meet(row, window, column, is_marking, place, n_words, counts, counts_at, words)
                beyond = min(beyond, met)
                if met != _NEVER:
                    start = stop
                row = following
        long_lists = ballot(is_long)
        while long_lists != 0:
            source = first_bit(long_lists)
            long_lists = _U(long_lists & _U(long_lists - _U(1)))
            position = _U(_U(cuda.shfl_sync(ALL, _I(start), source)) + _U(lane))
            last = _U(cuda.shfl_sync(ALL, _I(stop), source))
            by = _I(tile + source)
            while position < last:
                met = _meet(members[position], window, by, is_marking, place, n_words, counts, counts_at, words)
                position = _U(position + _U(32)) if met == _NEVER else last
                beyond = min(beyond, met)
        tile = next_tile(tile)
    cuda.syncwarp()
    return min_all(beyond)


@cuda.jit(device=True, forceinline=True)
def _clear_counts(counts, counts_at):
    k = _I(cuda.laneid)
    while k < WINDOW:
        counts[counts_at + k] = _I(0)
        k = next_tile(k)
    cuda.syncwarp()


@cuda.jit(device=True, forceinline=True)
def _list_window(window, n_met, fewest, counts, counts_at, rows):
    """List the rows of a window with enough paths, behind the `n_met` earlier ones; return the new length, int32.

    Parameters
    ----------
    window, n_met, fewest : int32
    counts, counts_at
        As in `_meet`.
    rows : int32, global
        The warp's list.
    """
    k = _I(cuda.laneid)
    tile = _I(0)
    while tile < WINDOW:
        is_met = counts[counts_at + k] >= fewest
        met = ballot(is_met)
        if is_met:
            rows[n_met + rank(met)] = _I(window + k)
        n_met = _I(n_met + count_bits(met))
        k = next_tile(k)
        tile = next_tile(tile)
    cuda.syncwarp()
    return n_met


@cuda.jit(device=True, forceinline=True)
def _number_window(window, n_before, n_rows, counts, counts_at, rows):
    """Give numbers below 0 to listed rows in a window; return how many rows are done, int32.

    Parameters
    ----------
    window, n_before, n_rows : int32
        The list has `n_rows`, the first `n_before` of them done.
    counts, counts_at
        As in `_meet`.
    rows : int32, global
        The warp's list.
    """
    lane = _I(cuda.laneid)
    goes_on = True
    while goes_on:
        k = _I(n_before + lane)
        is_there = k < n_rows
        if is_there:
            row = rows[k]
            is_there = row < window + WINDOW
            if is_there:
                counts[counts_at + row - window] = _I(-1 - k)
        there = ballot(is_there)
        n_before = _I(n_before + count_bits(there))
        goes_on = there == _U(0xFFFFFFFF)
    cuda.syncwarp()
    return n_before


@cuda.jit(device=True, forceinline=True)
def _list_rows(root, fewest, counts, counts_at, own, graph, words):
    """List the later rows that share enough columns with a root, ascending; return their number, int32.

    Parameters
    ----------
    root, fewest : int32
    counts, counts_at, words
        As in `_meet`.
    """
    n_met = _I(0)
    window = _I(root + 1)
    if window >= _I(graph.row_offsets.size - 1):
        window = _I(_NEVER)
    while window != _NEVER:
        _clear_counts(counts, counts_at)
        following = _walk_window(root, window, False, _L(0), _I(0), counts, counts_at, graph, words)
        n_met = _list_window(window, n_met, fewest, counts, counts_at, own.rows)
        window = following
    return n_met


@cuda.jit(device=True, forceinline=True)
def _mark_rows(root, n_rows, n_words, place, counts, counts_at, own, graph, words):
    """Set the bits of the listed rows.

    Parameters
    ----------
    root, n_rows : int32
    n_words, place, counts, counts_at, words
        As in `_meet`.
    """
    n_done = _I(0)
    while n_done < n_rows:
        window = own.rows[n_done]
        _clear_counts(counts, counts_at)
        n_done = _number_window(window, n_done, n_rows, counts, counts_at, own.rows)
        _walk_window(root, window, True, place, n_words, counts, counts_at, graph, words)


@cuda.jit(device=True, forceinline=True)
def windowed_root_submatrix(root, fewest, own, graph, device):
    """Make the matrix of a root as `root_submatrix`."""
    n_columns = _I(graph.row_offsets[root + 1] - graph.row_offsets[root])
    n_words = _I((n_columns + 31) >> 5)
    counts, counts_at = own.frame.view(np.int32), _I(2 * own.frame_at)
    n_rows = _list_rows(root, fewest, counts, counts_at, own, graph, device.words)
    size = _L(_L(n_rows) * _L(n_words))
    place = take_words(size, True, device.control, device.settings)
    if place >= 0:
        clear_words(place, size, device.words)
        _mark_rows(root, n_rows, n_words, place, counts, counts_at, own, graph, device.words)
    # The bits were set in the second level of the cache; the first may still have the zeros.
    cuda.threadfence()
    cuda.syncwarp()
    k = _I(cuda.laneid)
    tile = _I(0)
    while tile < n_rows:
        if k < n_rows:
            own.rows[k] = k
        k = next_tile(k)
        tile = next_tile(tile)
    all_columns(n_columns, n_words, own)
    return place, n_rows, n_columns, n_words

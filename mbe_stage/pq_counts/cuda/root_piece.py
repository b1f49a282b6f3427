"""The matrix of a root: its columns, and the later rows that share enough of them.

The two-step paths from the root to later rows are walked twice. First each row's paths are counted, and a row with
enough of them gets a number. Then the bits of these rows are set. Lists of up to `SHORT` rows are walked by a lane
each, longer ones by the warp.

`root_submatrix` needs an array of all rows for each warp, and the positions of a row in the lists of its columns. With
little memory, `windowed_root_submatrix` needs neither. It counts rows a window at a time, in the shared memory of the
frame, which is free until there is a submatrix, with a counter in each half word. It searches for the beginning of a
window in each list. Windows without a path are skipped, and windows without a row of the matrix are not walked again.
"""

from __future__ import annotations

import numpy as np
from numba import cuda

from mbe_stage.device.grid import SHORT
from mbe_stage.device.intrinsics import load_fresh
from mbe_stage.device.warp import ALL, ballot, count_bits, first_bit, min_all, next_one, next_tile, rank
from mbe_stage.pq_counts.cuda import layout
from mbe_stage.pq_counts.cuda.rank_windows import SHORT_LIST
from mbe_stage.search.cuda.nodes import take_words

_I = np.int32
_L = np.int64
_U = np.uint32
WINDOW = 2 * layout.FRAME_WORDS // 32 * 32
"""Number of rows counted at a time."""
_NEVER = 0x7FFFFFFF


@cuda.jit(device=True, forceinline=True)
def _count_path(is_path, row, n_met, fewest, own):
    """Count a path to a row; append the row to the list of `n_met` rows once it has enough paths."""
    is_met = False
    if is_path:
        is_met = cuda.atomic.add(own.counts, row, _I(1)) == fewest - 1
    met = ballot(is_met)
    if is_met:
        own.rows[n_met + rank(met)] = row
    return _I(n_met + count_bits(met))


@cuda.jit(device=True, forceinline=True)
def _mark_path(is_path, row, column, place, n_words, own, words):
    """Set the bit of a column in a row with a number, which is below 0; clear the count of other rows.

    Parameters
    ----------
    is_path : bool
        True if this lane has a path.
    row, column : int32
        The row at the end of the path, and the position of its column in the root's list.
    place : int64
        Position of the matrix.
    n_words : int32
        Words per row of the matrix.
    words : uint32, global
    """
    if is_path:
        number = load_fresh(own.counts, row)
        if number < 0:
            at_word = _L(place + _L(-1 - number) * _L(n_words) + (column >> 5))
            cuda.atomic.or_(words, at_word, _U(_U(1) << _U(column & 31)))
        else:
            own.counts[row] = _I(0)


@cuda.jit(device=True, forceinline=True)
def _walk_paths(root, is_marking, place, n_words, fewest, own, graph, words):
    """Walk all two-step paths to later rows, and count or mark them.

    Parameters
    ----------
    root : int32
    is_marking : bool
    place : int64
        Position of the matrix.
    n_words : int32
        Words per row of the matrix.
    fewest : int32
        Fewest paths to a row of the matrix.
    words : uint32, global

    Returns
    -------
    int32
        Number of rows on the list, if paths are counted.
    """
    lane = _I(cuda.laneid)
    first, end = graph.row_offsets[root], graph.row_offsets[root + 1]
    n_columns = _I(end - first)
    n_met = _I(0)
    tile = _I(0)
    while tile < n_columns:
        column = _I(tile + lane)
        start, stop = _L(0), _L(0)
        if column < n_columns:
            # Rows of a list ascend, so later rows follow the root.
            start = _L(graph.positions[first + column] + 1)
            stop = graph.column_offsets[graph.row_members[first + column] + 1]
        is_long = stop - start > SHORT
        for k in range(SHORT):
            is_path = not is_long and start + k < stop
            row = _I(0)
            if is_path:
                row = graph.column_members[start + k]
            if is_marking:
                _mark_path(is_path, row, column, place, n_words, own, words)
            else:
                n_met = _count_path(is_path, row, n_met, fewest, own)
        long_lists = ballot(is_long)
        while long_lists != 0:
            source = first_bit(long_lists)
            long_lists = _U(long_lists & _U(long_lists - _U(1)))
            position = _L(cuda.shfl_sync(ALL, start, source) + lane)
            last = cuda.shfl_sync(ALL, stop, source)
            n_tiles = _I((last - position + lane + 31) >> 5)
            n_done = _I(0)
            while n_done < n_tiles:
                is_path = position < last
                row = _I(0)
                if is_path:
                    row = graph.column_members[position]
                if is_marking:
                    _mark_path(is_path, row, _I(tile + source), place, n_words, own, words)
                else:
                    n_met = _count_path(is_path, row, n_met, fewest, own)
                position = _L(position + 32)
                n_done = next_one(n_done)
        tile = next_tile(tile)
    return n_met


@cuda.jit(device=True, forceinline=True)
def _number_rows(n_rows, own):
    """Give each row of the list its number, below 0."""
    k = _I(cuda.laneid)
    tile = _I(0)
    while tile < n_rows:
        if k < n_rows:
            own.counts[own.rows[k]] = _I(-1 - k)
        k = next_tile(k)
        tile = next_tile(tile)
    cuda.syncwarp()


@cuda.jit(device=True, forceinline=True)
def _forget_rows(n_rows, keeps_rows, own):
    """Clear the counts of the listed rows. Unless `keeps_rows` is true, the list becomes the matrix's rows."""
    k = _I(cuda.laneid)
    tile = _I(0)
    while tile < n_rows:
        if k < n_rows:
            own.counts[own.rows[k]] = _I(0)
            if not keeps_rows:
                own.rows[k] = k
        k = next_tile(k)
        tile = next_tile(tile)
    cuda.syncwarp()


@cuda.jit(device=True, forceinline=True)
def all_columns(n_columns, n_words, own):
    """Set the bits of all columns in the mask."""
    tile = _I(0)
    while tile < n_words:
        word = _I(tile + _I(cuda.laneid))
        if word < n_words:
            n_left = _I(n_columns - 32 * word)
            own.mask[word] = _U(0xFFFFFFFF) if n_left >= 32 else _U(_U(_U(1) << _U(n_left)) - _U(1))
        tile = next_tile(tile)
    cuda.syncwarp()


@cuda.jit(device=True, forceinline=True)
def clear_words(place, size, words):
    """Clear the words of a matrix, in whole cache lines."""
    n_tiles = _I((size + 31) >> 5)
    position = _L(max(place, _L(0)) + _L(cuda.laneid))
    k = _I(0)
    while k < n_tiles:
        words[position] = _U(0)
        position = _L(position + 32)
        k = next_one(k)
    cuda.syncwarp()


@cuda.jit(device=True, forceinline=True)
def root_submatrix(root, fewest, keeps_rows, own, graph, device):
    """Write the matrix of a root into the pool, list its rows, and put all of its columns into the mask.

    Parameters
    ----------
    root : int32
    fewest : int32
        Fewest columns that a row of the matrix shares with the root.
    keeps_rows : bool
        True to list rows of the graph, instead of rows of the matrix.

    Returns
    -------
    place : int64
        Position of the matrix; -1 if the pool is too full: then nothing is done.
    n_rows, n_columns, n_words : int32
        Number of the matrix's rows and columns, and words per row; no matrix is written without rows.
    """
    n_columns = _I(graph.row_offsets[root + 1] - graph.row_offsets[root])
    n_words = _I((n_columns + 31) >> 5)
    n_rows = _walk_paths(root, False, _L(0), n_words, fewest, own, graph, device.words)
    cuda.syncwarp()
    _number_rows(n_rows, own)
    size = _L(_L(n_rows) * _L(n_words))
    place = take_words(size, True, device.control, device.settings)
    clear_words(place, size if place >= 0 else _L(0), device.words)
    if place < 0:
        # Without numbers, marking only clears the counts of all paths.
        _forget_rows(n_rows, keeps_rows, own)
    _walk_paths(root, True, place, n_words, fewest, own, graph, device.words)
    # The bits were set in the second level of the cache; the first may still have the zeros.
    cuda.threadfence()
    cuda.syncwarp()
    _forget_rows(n_rows, keeps_rows, own)
    all_columns(n_columns, n_words, own)
    return place, n_rows, n_columns, n_words


@cuda.jit(device=True, forceinline=True)
def _first_from(row, start, stop, members):
    """Return the position of the first entry not below `row` in an ascending list; `stop` if there is none.

    Positions are uint32 to save registers. There are fewer than 2**31 entries, so a sum of two positions does not
    overflow.
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
    """Count a path to a row, or set its bit if the row has a number, which is below 0.

    Parameters
    ----------
    row, window : int32
        The row, and the first of the `WINDOW` counted rows.
    column : int32
        Position of the path's column in the root's list.
    is_marking : bool
    place : int64
        Position of the matrix.
    n_words : int32
        Words per row of the matrix.
    counts : int32, shared
        This warp's counts begin at `counts_at`.
    counts_at : int32
    words : uint32, global

    Returns
    -------
    int32
        The row if it is after the window, otherwise `_NEVER`.
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
    """Walk the two-step paths to the rows of a window, to count or mark them; return the first met row after it.

    Parameters
    ----------
    root : int32
    window, is_marking, place, n_words, counts, counts_at, words
        As `_meet` has them.
    graph : Graph
        Its positions are not read.

    Returns
    -------
    int32
        The first met row after the window; `_NEVER` without one.
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
                # Load the next entry while this one is counted.
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
    """List the rows of a window with enough paths, after `n_met` earlier rows; return the new length, int32.

    Parameters
    ----------
    window, n_met, fewest : int32
    counts, counts_at
        As `_meet` has them.
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
    """Give numbers below 0 to listed rows in a window; return the number of rows done so far, int32.

    Parameters
    ----------
    window, n_before, n_rows : int32
        The window; the list has `n_rows` rows, and the first `n_before` are done.
    counts, counts_at
        As `_meet` has them.
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
        As `_meet` has them.
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
        As `_meet` has them.
    """
    n_done = _I(0)
    while n_done < n_rows:
        window = own.rows[n_done]
        _clear_counts(counts, counts_at)
        n_done = _number_window(window, n_done, n_rows, counts, counts_at, own.rows)
        _walk_window(root, window, True, place, n_words, counts, counts_at, graph, words)


@cuda.jit(device=True, forceinline=True)
def windowed_root_submatrix(root, fewest, own, graph, device):
    """Make the matrix of a root like `root_submatrix`, with less memory (see the module's text)."""
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

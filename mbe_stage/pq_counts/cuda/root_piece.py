"""The matrix of a root: its columns, and the later rows that share enough of them.

The two-step paths from the root to later rows are walked twice. First each row's paths are counted, and a row with
enough of them gets a number. Then the bits of these rows are set. Lists of up to `SHORT` rows are walked by a lane
each, longer ones by the warp.
"""

from __future__ import annotations

import numpy as np
from numba import cuda

from mbe_stage.device.grid import SHORT
from mbe_stage.device.warp import ALL, ballot, count_bits, first_bit, load_fresh, next_one, next_tile, rank
from mbe_stage.search.cuda.nodes import take_words

_I = np.int32
_L = np.int64
_U = np.uint32


@cuda.jit(device=True, forceinline=True)
def _count_path(is_path, row, n_met, fewest, own):
    """Count a path to a row; put the row on the list, which has `n_met`, once it has enough."""
    is_met = False
    if is_path:
        is_met = cuda.atomic.add(own.counts, row, _I(1)) == fewest - 1
    met = ballot(is_met)
    if is_met:
        own.rows[n_met + rank(met)] = row
    return _I(n_met + count_bits(met))


@cuda.jit(device=True, forceinline=True)
def _mark_path(is_path, row, column, place, n_words, own, words):
    """Set the bit of a column in a numbered row; clear the count of other rows. Numbers are below 0.

    Parameters
    ----------
    is_path : bool
        True if this lane has a path.
    row, column : int32
        Its end, and its column of the root.
    place : int64
        Position of the matrix.
    n_words : int32
        Words of its rows.
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
        Words of its rows.
    fewest : int32
        Fewest paths of a row.
    words : uint32, global

    Returns
    -------
    int32
        Rows on the list, if paths are counted.
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
            # Rows of a list ascend: the later ones follow the root.
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
    """Clear the counts of the listed rows. Unless the list is kept, it becomes one of the matrix's rows."""
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
    """Put all columns into the mask."""
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
    """Write the matrix of a root into the pool, its rows on the warp's list and all of its columns in the mask.

    Parameters
    ----------
    root : int32
    fewest : int32
        Columns that a row has to share with the root.
    keeps_rows : bool
        True if the list keeps rows of the graph, instead of those of the matrix.

    Returns
    -------
    place : int64
        Position of the matrix; -1 if the pool is short: then nothing is done.
    n_rows, n_columns, n_words : int32
        Those of the matrix, and words of a row; no matrix is written without rows.
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
        # No row has a number then, and all paths are cleared.
        _forget_rows(n_rows, keeps_rows, own)
    _walk_paths(root, True, place, n_words, fewest, own, graph, device.words)
    # The bits were set in the second level of the cache; the first may still have the zeros.
    cuda.threadfence()
    cuda.syncwarp()
    _forget_rows(n_rows, keeps_rows, own)
    all_columns(n_columns, n_words, own)
    return place, n_rows, n_columns, n_words

"""The submatrix of a child of a node that is wider than a frame.

A node's matrix is in the pool twice, by rows and by columns. With a row as pivot, child ``k`` holds the ``k``-th column
that the pivot misses, and has no earlier missed column. The last child has no missed column, and the pivot is optional.
The same holds with sides exchanged if a column is the pivot. A node without a pivot has a child for each of its columns
(or rows), which holds it, and a last child that holds none.
"""

from __future__ import annotations

import numpy as np
from numba import cuda

from mbe_stage.device.masks import bits_below
from mbe_stage.device.warp import ALL, ballot, count_bits, first_bit, inclusive_sum, next_one, next_tile, nth_bit
from mbe_stage.pq_counts.cuda import layout
from mbe_stage.pq_counts.cuda.layout import Chosen
from mbe_stage.pq_counts.cuda.leaves import chosen_of

_I = np.int32
_L = np.int64
_U = np.uint32


@cuda.jit(device=True, forceinline=True)
def n_missed(bits_at, n, words):
    """Count the zeros among the first `n` bits of a row, int32."""
    missed = _I(0)
    tile = _I(0)
    while _I(32 * tile) < n:
        word = _I(tile + _I(cuda.laneid))
        here = _I(0)
        if _I(32 * word) < n:
            here = count_bits(_U(bits_below(word, n) & ~_U(words[_L(bits_at + word)])))
        missed = _I(missed + cuda.shfl_sync(ALL, inclusive_sum(here), 31))
        tile = next_tile(tile)
    return missed


@cuda.jit(device=True, forceinline=True)
def nth_missed(bits_at, n, rank, words):
    """Find the zero with `rank` zeros before it among the first `n` bits of a row, int32; -1 if there are fewer."""
    tile = _I(0)
    while _I(32 * tile) < n:
        word = _I(tile + _I(cuda.laneid))
        missing = _U(0)
        if _I(32 * word) < n:
            missing = _U(bits_below(word, n) & ~_U(words[_L(bits_at + word)]))
        ends = inclusive_sum(count_bits(missing))
        behind = ballot(ends > rank)
        if behind != 0:
            source = first_bit(behind)
            member = _I(32 * word + nth_bit(missing, _I(rank - ends + count_bits(missing))))
            return cuda.shfl_sync(ALL, member, source)
        rank = _I(rank - cuda.shfl_sync(ALL, ends, 31))
        tile = next_tile(tile)
    return _I(-1)


@cuda.jit(device=True, forceinline=True)
def _pivots_side(word, bits_at, n, member, words):
    """Return a word of the kept vertices on the held vertex's side: all but the missed ones up to `member`.

    Without a pivot (`bits_at` below 0) all vertices are missed.
    """
    there = _U(words[_L(bits_at + word)]) if bits_at >= 0 else _U(0)
    if member < 0:
        return there
    return _U(bits_below(word, n) & _U(there | ~bits_below(word, _I(member + 1))))


@cuda.jit(device=True, forceinline=True)
def _other_side(word, bits_at, n, pivot, words):
    """Return a word of the kept vertices on the pivot's side: the held vertex's neighbours, or all but the pivot."""
    if bits_at >= 0:
        return _U(words[_L(bits_at + word)])
    valid = bits_below(word, n)
    if pivot >= 0 and word == pivot >> 5:
        valid = _U(valid & ~_U(_U(1) << _U(pivot & 31)))
    return valid


@cuda.jit(device=True, forceinline=True)
def child_submatrix(node, child, own, device, bounds):
    """List the rows of a child and write the mask of its columns.

    Parameters
    ----------
    node, child : int32

    Returns
    -------
    place : int64
        Position of the node's matrix.
    n_rows, n_columns, n_words : int32
        Number of the child's rows and columns; words per row of the node's matrix.
    chosen : Chosen
    """
    fields = device.nodes[node]
    words = device.words
    place = fields[layout.OFFSET]
    all_rows, all_columns = _I(fields[layout.N_ROWS]), _I(fields[layout.N_COLUMNS])
    pivot = _I(fields[layout.PIVOT])
    chosen = chosen_of(fields[layout.KEY], bounds)
    row_words, column_words = _I((all_columns + 31) >> 5), _I((all_rows + 31) >> 5)
    columns_place = _L(place + _L(all_rows) * _L(row_words))
    by_columns = fields[layout.KIND] & layout.COLUMN_PIVOT == 0
    if by_columns:
        bits_at, n = _L(place + _L(pivot) * _L(row_words)), all_columns
    else:
        bits_at, n = _L(columns_place + _L(pivot) * _L(column_words)), all_rows
    n_pivots = _I(1)
    if fields[layout.KIND] & layout.HAS_NO_PIVOT != 0:
        bits_at, pivot, n_pivots = _L(-1), _I(-1), _I(0)
        member = child if child < n else _I(-1)
    else:
        member = nth_missed(bits_at, n, child, words)
    other = _L(-1)
    held_rows, optional_rows = chosen.held_rows, chosen.optional_rows
    held_columns, optional_columns = chosen.held_columns, chosen.optional_columns
    if by_columns:
        if member >= 0:
            other = _L(columns_place + _L(member) * _L(column_words))
            held_columns = _I(held_columns + 1)
        else:
            optional_rows = _I(optional_rows + n_pivots)
    elif member >= 0:
        other = _L(place + _L(member) * _L(row_words))
        held_rows = _I(held_rows + 1)
    else:
        optional_columns = _I(optional_columns + n_pivots)
    chosen = Chosen(held_rows, optional_rows, held_columns, optional_columns)
    n_rows = _list_rows(by_columns, bits_at, other, all_rows, pivot, member, own, words)
    n_columns = _mask_columns(by_columns, bits_at, other, all_columns, pivot, member, own, words)
    return place, n_rows, n_columns, row_words, chosen


@cuda.jit(device=True, forceinline=True)
def _list_rows(by_columns, bits_at, other, n, pivot, member, own, words):
    """List the kept rows; return their number, int32.

    Parameters
    ----------
    by_columns : bool
        True if columns are held, and a row is the pivot.
    bits_at : int64
        Position of the pivot's bits, or -1.
    other : int64
        Position of the held vertex's bits, or -1.
    n : int32
        Number of the node's rows.
    pivot : int32
        The pivot, or -1.
    member : int32
        The held vertex, or -1.
    words : uint32, global
    """
    lane = _I(cuda.laneid)
    n_rows = _I(0)
    word = _I(0)
    while _I(32 * word) < n:
        there = (
            _other_side(word, other, n, pivot, words) if by_columns else _pivots_side(word, bits_at, n, member, words)
        )
        if _U(there >> _U(lane)) & _U(1) != 0:
            before = _U(there & _U(_U(_U(1) << _U(lane)) - _U(1)))
            own.rows[n_rows + count_bits(before)] = _I(32 * word + lane)
        n_rows = _I(n_rows + count_bits(there))
        word = next_one(word)
    cuda.syncwarp()
    return n_rows


@cuda.jit(device=True, forceinline=True)
def _mask_columns(by_columns, bits_at, other, n, pivot, member, own, words):
    """Write the mask of the kept columns; return their number, int32.

    Parameters
    ----------
    by_columns, bits_at, other, pivot, member, own, words
        As in `_list_rows`.
    n : int32
        Number of the node's columns.
    """
    n_columns = _I(0)
    tile = _I(0)
    while _I(32 * tile) < n:
        word = _I(tile + _I(cuda.laneid))
        here = _I(0)
        if _I(32 * word) < n:
            if by_columns:
                there = _pivots_side(word, bits_at, n, member, words)
            else:
                there = _other_side(word, other, n, pivot, words)
            own.mask[word] = there
            here = count_bits(there)
        n_columns = _I(n_columns + cuda.shfl_sync(ALL, inclusive_sum(here), 31))
        tile = next_tile(tile)
    cuda.syncwarp()
    return n_columns

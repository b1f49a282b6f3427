"""Submatrices wider than a frame: drop rows and columns, and count leaves.

A *submatrix* is a matrix in the pool, a list of some rows and a mask of some columns: a child of a node, before it is
written as a node. A lane reads a row; 32 rows by 32 columns are transposed between the lanes (`transposed`), and then a
lane has a column. Deep in the tree the mask has few nonzero words, and only these are read (`list_words`: the truncated
bitmaps of GBC, section V-A, but for the remaining columns of this root alone).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import cuda

from mbe_stage.device.masks import transposed
from mbe_stage.device.warp import ALL, ballot, count_bits, max_all, next_one, next_tile, rank
from mbe_stage.pq_counts.cuda import layout
from mbe_stage.pq_counts.cuda.layout import Chosen
from mbe_stage.pq_counts.cuda.leaves import count_leaves, is_wanted, key_of

BINS = 512
"""Number of 32-bit counters at the end of a frame, for leaves of one submatrix before they enter the table."""
BINS_AT = 2 * layout.FRAME_WORDS - BINS
_I = np.int32
_L = np.int64
_U = np.uint32


class Submatrix(NamedTuple):
    """A matrix, row ``i`` in ``words[offset + i * n_words:]``, and the chosen part of it.

    Attributes
    ----------
    words : uint32, global
    offset : int64
    n_words : int32
        Words of a row.
    rows : int32, global
        The chosen rows, of this warp.
    mask : (n_words,) uint32, global
        The chosen columns, of this warp.
    frame : uint64, shared
        The warp's words begin at `frame_at`; they are free until the submatrix is written as a frame.
    frame_at : int32
    is_truncated : bool
        True to read only words where the mask is not zero.
    """

    words: Any
    offset: Any
    n_words: Any
    rows: Any
    mask: Any
    frame: Any
    frame_at: Any
    is_truncated: Any


class Opening(NamedTuple):
    """The path for rows and columns that local counts drop because they are adjacent to everything.

    Attributes
    ----------
    path : int64, global
        This warp's vertices of the graph with their kinds (`optional_vertex`), from `n` on.
    n : int32
        Next position.
    vertices : uint32, global
        The graph's vertex of each row of the matrix is ``vertices[rows_at + row]``.
    rows_at, columns_at : int64
    """

    path: Any
    n: Any
    vertices: Any
    rows_at: Any
    columns_at: Any


@cuda.jit(device=True, forceinline=True)
def optional_vertex(vertex):
    """Return the path entry of an optional vertex: twice its number plus one (twice its number for a held vertex)."""
    return _U(_U(_U(vertex) << _U(1)) | _U(1))


@cuda.jit(device=True, forceinline=True)
def _open(is_full, full, vertex_at, n_before, opening):
    """Append the vertices of the lanes in `full` to the path, after `n_before` earlier ones."""
    if is_full:
        opening.path[_I(opening.n + n_before) + rank(full)] = optional_vertex(opening.vertices[vertex_at])


@cuda.jit(device=True, forceinline=True)
def list_words(submatrix):
    """List the nonzero words of the mask, with their numbers; return their number, int32, or -1 without a list."""
    if not submatrix.is_truncated:
        return _I(-1)
    cuda.syncwarp()
    n_words = _I(0)
    tile = _I(0)
    while tile < submatrix.n_words:
        word = _I(tile + _I(cuda.laneid))
        mask = _U(0)
        if word < submatrix.n_words:
            mask = _U(submatrix.mask[word])
        there = ballot(mask != 0)
        if n_words + count_bits(there) > layout.FRAME_WORDS - BINS // 2:
            return _I(-1)
        if mask != 0:
            entry = np.uint64(np.uint64(np.uint64(word) << np.uint64(32)) | np.uint64(mask))
            submatrix.frame[submatrix.frame_at + n_words + rank(there)] = entry
        n_words = _I(n_words + count_bits(there))
        tile = next_tile(tile)
    cuda.syncwarp()
    return n_words


@cuda.jit(device=True, forceinline=True)
def met_by(row, submatrix, n_listed):
    """Count the chosen columns of a row, int32; `n_listed` is the result of `list_words`."""
    met = _I(0)
    place = _L(submatrix.offset + _L(row) * _L(submatrix.n_words))
    k = _I(0)
    if n_listed >= 0:
        while k < n_listed:
            entry = submatrix.frame[submatrix.frame_at + k]
            word = _L(entry >> np.uint64(32))
            mask = _U(entry & np.uint64(0xFFFFFFFF))
            met = _I(met + count_bits(_U(submatrix.words[place + word] & mask)))
            k = next_one(k)
        return met
    while k < submatrix.n_words:
        met = _I(met + count_bits(_U(submatrix.words[place + k] & submatrix.mask[k])))
        k = next_one(k)
    return met


@cuda.jit(device=True, forceinline=True)
def column_of_lane(submatrix, n_rows, word, tile):
    """Return the bits of 32 rows, from `tile` on, in column ``32 * word + lane``, uint32."""
    place = _I(tile + _I(cuda.laneid))
    mine = _U(0)
    if place < n_rows:
        mine = _U(submatrix.words[_L(submatrix.offset + _L(submatrix.rows[place]) * _L(submatrix.n_words) + word)])
    return transposed(mine)


@cuda.jit(device=True, forceinline=True)
def met_column(submatrix, n_rows, word):
    """Count the chosen rows with column ``32 * word + lane``, int32."""
    met = _I(0)
    tile = _I(0)
    while tile < n_rows:
        met = _I(met + count_bits(column_of_lane(submatrix, n_rows, word, tile)))
        tile = next_tile(tile)
    return met


@cuda.jit(device=True, forceinline=True)
def keep_rows(submatrix, n_rows, n_columns, fewest, opening):
    """Drop the rows with all columns, and the rows with too few.

    Parameters
    ----------
    n_rows, n_columns : int32
    fewest : int32
    opening : Opening or None

    Returns
    -------
    n_kept, n_full : int32
    best, most : int32
        Position in the new list of a row with the most columns, and the number of its columns.
    """
    lane = _I(cuda.laneid)
    n_kept, n_full = _I(0), _I(0)
    most, best = _I(-1), _I(0)
    n_listed = list_words(submatrix)
    tile = _I(0)
    while tile < n_rows:
        is_there = _I(tile + lane) < n_rows
        row, met = _I(0), _I(-1)
        if is_there:
            row = submatrix.rows[tile + lane]
            met = met_by(row, submatrix, n_listed)
        is_full = is_there and met == n_columns
        is_kept = is_there and met < n_columns and met >= fewest
        full = ballot(is_full)
        if opening is not None:
            _open(is_full, full, _L(opening.rows_at + row), n_full, opening)
        n_full = _I(n_full + count_bits(full))
        kept = ballot(is_kept)
        if is_kept:
            place = _I(n_kept + rank(kept))
            submatrix.rows[place] = row
            if met > most:
                most, best = met, place
        n_kept = _I(n_kept + count_bits(kept))
        tile = next_tile(tile)
    cuda.syncwarp()
    most_of_all = max_all(most)
    best = max_all(_I(best if most == most_of_all else -1))
    return n_kept, n_full, best, most_of_all


@cuda.jit(device=True, forceinline=True)
def keep_columns(submatrix, n_rows, fewest, opening):
    """Drop the columns in all rows, and the columns in too few.

    Parameters
    ----------
    n_rows, fewest : int32
    opening : Opening or None

    Returns
    -------
    n_kept, n_full : int32
    best, most : int32
        A column in the most rows, and the number of its rows.
    """
    lane = _I(cuda.laneid)
    n_kept, n_full = _I(0), _I(0)
    most, best = _I(-1), _I(0)
    word = _I(0)
    while word < submatrix.n_words:
        mask = _U(submatrix.mask[word])
        if mask != 0:
            met = met_column(submatrix, n_rows, word)
            is_there = _U(mask >> _U(lane)) & _U(1) != 0
            is_full = is_there and met == n_rows
            full = ballot(is_full)
            if opening is not None:
                _open(is_full, full, _L(opening.columns_at + 32 * word + lane), n_full, opening)
            n_full = _I(n_full + count_bits(full))
            is_kept = is_there and met < n_rows and met >= fewest
            kept = ballot(is_kept)
            n_kept = _I(n_kept + count_bits(kept))
            if is_kept and met > most:
                most, best = met, _I(32 * word + lane)
            if lane == 0:
                submatrix.mask[word] = kept
        word = next_one(word)
    cuda.syncwarp()
    most_of_all = max_all(most)
    best = max_all(_I(best if most == most_of_all else -1))
    return n_kept, n_full, best, most_of_all


@cuda.jit(device=True, forceinline=True)
def count_members(by_rows, submatrix, n_rows, n_bins):
    """Count rows by number of columns, or columns by number of rows, in the bins at the end of the frame.

    Parameters
    ----------
    by_rows : bool
    n_rows : int32
    n_bins : int32
        Number of bins, at most `BINS`; greater than the number of columns of any row, or of rows of any column.
    """
    lane = _I(cuda.laneid)
    bins = submatrix.frame.view(np.int32)
    bins_at = _I(2 * submatrix.frame_at + BINS_AT)
    k = lane
    while k < n_bins:
        bins[bins_at + k] = _I(0)
        k = next_tile(k)
    cuda.syncwarp()
    if by_rows:
        n_listed = list_words(submatrix)
        k = lane
        while k < n_rows:
            met = met_by(submatrix.rows[k], submatrix, n_listed)
            cuda.atomic.add(bins, _I(bins_at + met), _I(1))
            k = next_tile(k)
    else:
        word = _I(0)
        while word < submatrix.n_words:
            mask = _U(submatrix.mask[word])
            if mask != 0:
                met = met_column(submatrix, n_rows, word)
                if _U(mask >> _U(lane)) & _U(1) != 0:
                    cuda.atomic.add(bins, _I(bins_at + met), _I(1))
            word = next_one(word)
    cuda.syncwarp()


@cuda.jit(device=True, forceinline=True)
def _leaf_of_bin(by_rows, met, chosen, bounds):
    """Return the leaf of a row with `met` columns, or of a column with `met` rows, held as the last one."""
    if by_rows:
        return Chosen(bounds.most_rows, _I(0), chosen.held_columns, _I(chosen.optional_columns + met))
    return Chosen(chosen.held_rows, _I(chosen.optional_rows + met), bounds.most_columns, _I(0))


@cuda.jit(device=True, forceinline=True)
def signatures_in_bins(by_rows, submatrix, n_bins, chosen, bounds):
    """Return the number of leaf signatures in the bins, int32."""
    bins = submatrix.frame.view(np.int32)
    bins_at = _I(2 * submatrix.frame_at + BINS_AT)
    n_signatures = _I(0)
    tile = _I(0)
    while tile < n_bins:
        met = _I(tile + _I(cuda.laneid))
        is_leaf = met < n_bins
        if is_leaf:
            is_leaf = bins[bins_at + met] > 0 and is_wanted(_leaf_of_bin(by_rows, met, chosen, bounds), bounds)
        n_signatures = _I(n_signatures + count_bits(ballot(is_leaf)))
        tile = next_tile(tile)
    return n_signatures


@cuda.jit(device=True, forceinline=True)
def count_leaves_in_bins(by_rows, submatrix, n_bins, chosen, device, bounds):
    """Count the leaves in the bins; return the number of new signatures, int32.

    Parameters
    ----------
    by_rows, submatrix, n_bins
        As in `count_members`.
    """
    bins = submatrix.frame.view(np.int32)
    bins_at = _I(2 * submatrix.frame_at + BINS_AT)
    n_new = _I(0)
    tile = _I(0)
    while tile < n_bins:
        met = _I(tile + _I(cuda.laneid))
        n = bins[bins_at + met] if met < n_bins else _I(0)
        leaf = _leaf_of_bin(by_rows, met, chosen, bounds)
        is_leaf = n > 0 and is_wanted(leaf, bounds)
        if cuda.any_sync(ALL, is_leaf):
            n_new = _I(n_new + count_leaves(is_leaf, key_of(leaf, bounds), n, device.keys, device.times))
        tile = next_tile(tile)
    return n_new


@cuda.jit(device=True, forceinline=True)
def count_leaves_by_rows(submatrix, n_rows, chosen, device, bounds):
    """Count a leaf for each row, held as the last one; return the number of new signatures, int32."""
    lane = _I(cuda.laneid)
    n_new = _I(0)
    n_listed = list_words(submatrix)
    tile = _I(0)
    while tile < n_rows:
        is_leaf = _I(tile + lane) < n_rows
        met = _I(0)
        if is_leaf:
            met = met_by(submatrix.rows[tile + lane], submatrix, n_listed)
        leaf = Chosen(bounds.most_rows, _I(0), chosen.held_columns, _I(chosen.optional_columns + met))
        is_leaf = is_leaf and is_wanted(leaf, bounds)
        if cuda.any_sync(ALL, is_leaf):
            n_new = _I(n_new + count_leaves(is_leaf, key_of(leaf, bounds), 1, device.keys, device.times))
        tile = next_tile(tile)
    return n_new


@cuda.jit(device=True, forceinline=True)
def count_leaves_by_columns(submatrix, n_rows, chosen, device, bounds):
    """Count a leaf for each column, held as the last one; return the number of new signatures, int32."""
    lane = _I(cuda.laneid)
    n_new = _I(0)
    word = _I(0)
    while word < submatrix.n_words:
        mask = _U(submatrix.mask[word])
        if mask != 0:
            met = met_column(submatrix, n_rows, word)
            leaf = Chosen(chosen.held_rows, _I(chosen.optional_rows + met), bounds.most_columns, _I(0))
            is_leaf = _U(mask >> _U(lane)) & _U(1) != 0 and is_wanted(leaf, bounds)
            if cuda.any_sync(ALL, is_leaf):
                n_new = _I(n_new + count_leaves(is_leaf, key_of(leaf, bounds), 1, device.keys, device.times))
        word = next_one(word)
    return n_new

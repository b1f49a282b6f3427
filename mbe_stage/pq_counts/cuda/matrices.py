"""A matrix that is wider than a frame: which of its rows and columns stay, and the leaves that it is.

A *piece* is a matrix in the pool, a list of its rows and a mask of its columns: a child of a node, before it is written
as a node of its own. A lane reads a row; 32 rows by 32 columns are turned around between the lanes (`transposed`), and
then a lane has a column. Few words of the mask are left far down: only these are read (`list_words`, the truncated
bitmaps of GBC, section V-A, but for what is left of the columns of this root alone).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import cuda

from mbe_stage.device.masks import transposed
from mbe_stage.device.warp import ALL, ballot, count_bits, max_all, next_one, next_tile, rank
from mbe_stage.pq_counts.cuda import layout as at
from mbe_stage.pq_counts.cuda.layout import Chosen
from mbe_stage.pq_counts.cuda.leaves import is_wanted, key_of, tally

BINS = 512
"""Counters of 32 bits at the end of a frame, which leaves of one piece are counted in before they enter the table."""
BINS_AT = 2 * at.FRAME_WORDS - BINS
_I = np.int32
_L = np.int64
_U = np.uint32


class Piece(NamedTuple):
    """Where a matrix stands: row ``i`` in ``words[offset + i * n_words:]``, and which part of it is meant.

    Attributes
    ----------
    words : uint32, global
    offset : int64
    n_words : int32
        Of a row.
    rows : int32, global
        The rows that are meant, of this warp.
    mask : (n_words,) uint32, global
        The columns that are meant, of this warp.
    frame : uint64, shared
        The warp's words begin at `frame_at`; no frame is in use before the piece has become one.
    frame_at : int32
    is_truncated : bool
        Whether only those words are read that the mask has columns in.
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
    """Where rows and columns go that are taken out because they are adjacent to everything: local counts know them.

    Attributes
    ----------
    path : int64, global
        Of this warp: lines of the graph with their kinds (`optional_line`), from `n` on.
    n : int32
        Where the next one goes.
    lines : uint32, global
        The line of the graph that each row of the matrix is stands in ``lines[rows_at + row]``.
    rows_at, columns_at : int64
    """

    path: Any
    n: Any
    lines: Any
    rows_at: Any
    columns_at: Any


@cuda.jit(device=True, forceinline=True)
def optional_line(line):
    """A line of the graph that is optional, as paths have it: twice its number, plus one; held ones without the one."""
    return _U(_U(_U(line) << _U(1)) | _U(1))


@cuda.jit(device=True, forceinline=True)
def _open(is_full, full, line_at, n_before, opening):
    """Put the lines of some lanes, of which `full` has a bit each, onto the path; `n_before` were put there before."""
    if is_full:
        opening.path[_I(opening.n + n_before) + rank(full)] = optional_line(opening.lines[line_at])


@cuda.jit(device=True, forceinline=True)
def list_words(piece):
    """List the words of the mask that are not zero, with their numbers; how many, int32, or -1 without a list."""
    if not piece.is_truncated:
        return _I(-1)
    cuda.syncwarp()
    n_words = _I(0)
    tile = _I(0)
    while tile < piece.n_words:
        word = _I(tile + _I(cuda.laneid))
        mask = _U(0)
        if word < piece.n_words:
            mask = _U(piece.mask[word])
        there = ballot(mask != 0)
        if n_words + count_bits(there) > at.FRAME_WORDS - BINS // 2:
            return _I(-1)
        if mask != 0:
            entry = np.uint64(np.uint64(np.uint64(word) << np.uint64(32)) | np.uint64(mask))
            piece.frame[piece.frame_at + n_words + rank(there)] = entry
        n_words = _I(n_words + count_bits(there))
        tile = next_tile(tile)
    cuda.syncwarp()
    return n_words


@cuda.jit(device=True, forceinline=True)
def met_by(row, piece, n_listed):
    """How many of the columns a row has, int32; `n_listed` is what `list_words` gave."""
    met = _I(0)
    place = _L(piece.offset + _L(row) * _L(piece.n_words))
    k = _I(0)
    if n_listed >= 0:
        while k < n_listed:
            entry = piece.frame[piece.frame_at + k]
            word = _L(entry >> np.uint64(32))
            mask = _U(entry & np.uint64(0xFFFFFFFF))
            met = _I(met + count_bits(_U(piece.words[place + word] & mask)))
            k = next_one(k)
        return met
    while k < piece.n_words:
        met = _I(met + count_bits(_U(piece.words[place + k] & piece.mask[k])))
        k = next_one(k)
    return met


@cuda.jit(device=True, forceinline=True)
def column_of_lane(piece, n_rows, word, tile):
    """Which of 32 rows, those from `tile` on, have column ``32 * word + lane``, uint32."""
    place = _I(tile + _I(cuda.laneid))
    mine = _U(0)
    if place < n_rows:
        mine = _U(piece.words[_L(piece.offset + _L(piece.rows[place]) * _L(piece.n_words) + word)])
    return transposed(mine)


@cuda.jit(device=True, forceinline=True)
def met_column(piece, n_rows, word):
    """How many of the rows have column ``32 * word + lane``, int32."""
    met = _I(0)
    tile = _I(0)
    while tile < n_rows:
        met = _I(met + count_bits(column_of_lane(piece, n_rows, word, tile)))
        tile = next_tile(tile)
    return met


@cuda.jit(device=True, forceinline=True)
def keep_rows(piece, n_rows, n_columns, fewest, opening):
    """Take out the rows that have all columns, and those that have too few.

    Parameters
    ----------
    n_rows, n_columns : int32
    fewest : int32
    opening : Opening or None

    Returns
    -------
    n_kept, n_full : int32
    best, most : int32
        The place in the new list of a row that has the most columns, and how many those are.
    """
    lane = _I(cuda.laneid)
    n_kept, n_full = _I(0), _I(0)
    most, best = _I(-1), _I(0)
    n_listed = list_words(piece)
    tile = _I(0)
    while tile < n_rows:
        is_there = _I(tile + lane) < n_rows
        row, met = _I(0), _I(-1)
        if is_there:
            row = piece.rows[tile + lane]
            met = met_by(row, piece, n_listed)
        is_full = is_there and met == n_columns
        is_kept = is_there and met < n_columns and met >= fewest
        full = ballot(is_full)
        if opening is not None:
            _open(is_full, full, _L(opening.rows_at + row), n_full, opening)
        n_full = _I(n_full + count_bits(full))
        kept = ballot(is_kept)
        if is_kept:
            place = _I(n_kept + rank(kept))
            piece.rows[place] = row
            if met > most:
                most, best = met, place
        n_kept = _I(n_kept + count_bits(kept))
        tile = next_tile(tile)
    cuda.syncwarp()
    most_of_all = max_all(most)
    best = max_all(_I(best if most == most_of_all else -1))
    return n_kept, n_full, best, most_of_all


@cuda.jit(device=True, forceinline=True)
def keep_columns(piece, n_rows, fewest, opening):
    """Take out the columns that all rows have, and those that too few have.

    Parameters
    ----------
    n_rows, fewest : int32
    opening : Opening or None

    Returns
    -------
    n_kept, n_full : int32
    best, most : int32
        A column that the most rows have, and how many those are.
    """
    lane = _I(cuda.laneid)
    n_kept, n_full = _I(0), _I(0)
    most, best = _I(-1), _I(0)
    word = _I(0)
    while word < piece.n_words:
        mask = _U(piece.mask[word])
        if mask != 0:
            met = met_column(piece, n_rows, word)
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
                piece.mask[word] = kept
        word = next_one(word)
    cuda.syncwarp()
    most_of_all = max_all(most)
    best = max_all(_I(best if most == most_of_all else -1))
    return n_kept, n_full, best, most_of_all


@cuda.jit(device=True, forceinline=True)
def count_members(by_rows, piece, n_rows, n_bins):
    """Count rows by the columns that they have, or columns by their rows, in the bins at the end of the frame.

    Parameters
    ----------
    by_rows : bool
    n_rows : int32
    n_bins : int32
        `BINS` at most; no row has so many columns, or no column so many rows.
    """
    lane = _I(cuda.laneid)
    bins = piece.frame.view(np.int32)
    bins_at = _I(2 * piece.frame_at + BINS_AT)
    k = lane
    while k < n_bins:
        bins[bins_at + k] = _I(0)
        k = next_tile(k)
    cuda.syncwarp()
    if by_rows:
        n_listed = list_words(piece)
        k = lane
        while k < n_rows:
            met = met_by(piece.rows[k], piece, n_listed)
            cuda.atomic.add(bins, _I(bins_at + met), _I(1))
            k = next_tile(k)
    else:
        word = _I(0)
        while word < piece.n_words:
            mask = _U(piece.mask[word])
            if mask != 0:
                met = met_column(piece, n_rows, word)
                if _U(mask >> _U(lane)) & _U(1) != 0:
                    cuda.atomic.add(bins, _I(bins_at + met), _I(1))
            word = next_one(word)
    cuda.syncwarp()


@cuda.jit(device=True, forceinline=True)
def _leaf_of_bin(by_rows, met, chosen, limits):
    """What a row with `met` columns is, held as the last one, or a column with so many rows."""
    if by_rows:
        return Chosen(limits.most_rows, _I(0), chosen.held_columns, _I(chosen.optional_columns + met))
    return Chosen(chosen.held_rows, _I(chosen.optional_rows + met), limits.most_columns, _I(0))


@cuda.jit(device=True, forceinline=True)
def kinds_in_bins(by_rows, piece, n_bins, chosen, limits):
    """How many kinds of leaves the bins hold, int32."""
    bins = piece.frame.view(np.int32)
    bins_at = _I(2 * piece.frame_at + BINS_AT)
    n_kinds = _I(0)
    tile = _I(0)
    while tile < n_bins:
        met = _I(tile + _I(cuda.laneid))
        is_leaf = met < n_bins
        if is_leaf:
            is_leaf = bins[bins_at + met] > 0 and is_wanted(_leaf_of_bin(by_rows, met, chosen, limits), limits)
        n_kinds = _I(n_kinds + count_bits(ballot(is_leaf)))
        tile = next_tile(tile)
    return n_kinds


@cuda.jit(device=True, forceinline=True)
def tally_bins(by_rows, piece, n_bins, chosen, device, limits):
    """Count the leaves that the bins hold; how many kinds are new, int32.

    Parameters
    ----------
    by_rows, piece, n_bins
        As `count_members` took them.
    """
    bins = piece.frame.view(np.int32)
    bins_at = _I(2 * piece.frame_at + BINS_AT)
    n_new = _I(0)
    tile = _I(0)
    while tile < n_bins:
        met = _I(tile + _I(cuda.laneid))
        n = bins[bins_at + met] if met < n_bins else _I(0)
        leaf = _leaf_of_bin(by_rows, met, chosen, limits)
        is_leaf = n > 0 and is_wanted(leaf, limits)
        if cuda.any_sync(ALL, is_leaf):
            n_new = _I(n_new + tally(is_leaf, key_of(leaf, limits), n, device.keys, device.times))
        tile = next_tile(tile)
    return n_new


@cuda.jit(device=True, forceinline=True)
def tally_by_rows(piece, n_rows, chosen, device, limits):
    """Count a leaf for each row, held as the last one; how many kinds are new, int32."""
    lane = _I(cuda.laneid)
    n_new = _I(0)
    n_listed = list_words(piece)
    tile = _I(0)
    while tile < n_rows:
        is_leaf = _I(tile + lane) < n_rows
        met = _I(0)
        if is_leaf:
            met = met_by(piece.rows[tile + lane], piece, n_listed)
        leaf = Chosen(limits.most_rows, _I(0), chosen.held_columns, _I(chosen.optional_columns + met))
        is_leaf = is_leaf and is_wanted(leaf, limits)
        if cuda.any_sync(ALL, is_leaf):
            n_new = _I(n_new + tally(is_leaf, key_of(leaf, limits), 1, device.keys, device.times))
        tile = next_tile(tile)
    return n_new


@cuda.jit(device=True, forceinline=True)
def tally_by_columns(piece, n_rows, chosen, device, limits):
    """Count a leaf for each column, held as the last one; how many kinds are new, int32."""
    lane = _I(cuda.laneid)
    n_new = _I(0)
    word = _I(0)
    while word < piece.n_words:
        mask = _U(piece.mask[word])
        if mask != 0:
            met = met_column(piece, n_rows, word)
            leaf = Chosen(chosen.held_rows, _I(chosen.optional_rows + met), limits.most_columns, _I(0))
            is_leaf = _U(mask >> _U(lane)) & _U(1) != 0 and is_wanted(leaf, limits)
            if cuda.any_sync(ALL, is_leaf):
                n_new = _I(n_new + tally(is_leaf, key_of(leaf, limits), 1, device.keys, device.times))
        word = next_one(word)
    return n_new

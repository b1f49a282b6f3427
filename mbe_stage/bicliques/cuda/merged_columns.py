"""The columns of a list child: those that a candidate holds; columns with the same candidates are merged.

Columns with the same candidates are in the same left sets further down, so one represents all. It holds an excluded row
only if all of them do. With at most 64 candidates, the candidates of a column are a key of two words: columns are equal
if their keys are, without further checks. On dense data thousands of columns become a few dozen.

The pairs of candidates and columns were recorded when paths were counted. Only if the record did not fit the arena are
all paths walked again.

Scratch in the arena of words, which is free during the visit of a child: a hash table, the keys, the number of columns
merged into each new one, and the position of the next of them. The sorted positions of the kept columns replace the
table.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import cuda

from mbe_stage.bicliques.cuda import layout
from mbe_stage.bicliques.cuda.subgraph_parts import fill
from mbe_stage.bicliques.cuda.techniques import MERGING, UPPER_BITS
from mbe_stage.bicliques.cuda.two_step_paths import (
    column_at,
    group_at,
    number_of,
    pairs_from,
    path_at,
    weighs_rows,
)
from mbe_stage.bicliques.cuda.walk_bundles import Columns
from mbe_stage.device.warp import ALL, ballot, clear, count_bits, exclusive_sums, first_bit, next_tile, rank

_U = np.uint32
_ONE = _U(1)
_NONE = _U(0)
_KEPT = 0
_HASH_FACTOR = np.uint64(0x9E3779B97F4A7C15)


class Table(NamedTuple):
    """The hash table at the begin of the arena of words, and the keys behind it.

    Attributes
    ----------
    has_keys : bool
        True if columns are merged. Otherwise it only matters if a column has a candidate.
    size : int32
        A power of two; also the first of the keys.
    """

    has_keys: Any
    size: Any


@cuda.jit(device=True, forceinline=True)
def all_columns(n):
    """The `Columns` of a bitmap child: all of them, unmerged."""
    return Columns(n, n, False, np.int32(0))


@cuda.jit(device=True, forceinline=True)
def no_columns():
    """The `Columns` of a child without a subtree."""
    return all_columns(np.int32(0))


@cuda.jit(device=True, forceinline=True)
def keep_columns(node, child, rows, own, numbers, mode, techniques):
    """Number the kept columns in `columns`, with -1 for others; return the `Columns`.

    `bits` has the numbers of the candidates before (`two_step_paths.look_at_rows`). Afterwards it is empty, except for
    more than a word of columns without merging: then the next step rewrites all of it, unless rows are weighed.
    """
    if rows.n_candidates == 0:
        return no_columns()
    table_size = np.int32(2)
    while table_size <= child.n_left:
        table_size = np.int32(2 * table_size)
    sizes = np.int32(table_size + 2 * child.n_left)
    has_keys = (
        techniques & MERGING != 0
        and rows.n_candidates <= layout.MOST_KEY_ROWS
        and child.n_left <= layout.MOST_MERGED
        and sizes + 2 * child.n_left <= own.words.size
    )
    if has_keys:
        clear(own.words, sizes)
    else:
        fill(own.columns, 0, child.n_left, layout.NO_COLUMN)
    table = Table(has_keys, table_size)
    if pairs_from(child) + 2 * rows.n_pairs <= own.words.size:
        _note_recorded(rows.n_pairs, table, child, own)
    else:
        _note_walked(table, node, child, own, numbers)
    n_columns, n_kept = assign_columns(table, child, own, techniques)
    if mode == layout.COUNT and n_columns > layout.WORD_BITS and n_kept < 2 * n_columns < 2 * n_kept:
        # Few are merged: that takes longer than smaller nodes save.
        n_columns, _ = assign_columns(Table(False, table_size), child, own, techniques)
    is_merged = n_columns < n_kept
    if is_merged:
        _sort_by_column(n_columns, sizes, child, own)
    if is_merged or n_columns <= layout.WORD_BITS or weighs_rows(child, mode):
        _forget_numbers(rows, own)
    return Columns(n_columns, n_kept, is_merged, sizes)


@cuda.jit(device=True, forceinline=True)
def _forget_numbers(rows, own):
    k = np.int32(cuda.laneid)
    if rows.n_candidates <= layout.MOST_KEY_ROWS:
        while k < rows.n_candidates:
            own.bits[own.subsets[_U(k)]] = _NONE
            k = next_tile(k)
    else:
        while k < rows.n_nonzero:
            own.bits[_U(own.nonzero[_U(k)])] = _NONE
            k = next_tile(k)
    cuda.syncwarp()


@cuda.jit(device=True, forceinline=True)
def _note(number, place, table, own):
    """Note that a candidate holds the column at a position of the left set; nothing if its number is 0."""
    if number != 0:
        if table.has_keys:
            bit = _U(number - _ONE)
            cuda.atomic.or_(own.words, _U(_U(table.size + 2 * place) + _U(bit >> _U(5))), _U(_ONE << _U(bit & _U(31))))
        else:
            own.columns[_U(place)] = _KEPT


@cuda.jit(device=True, forceinline=True)
def _note_recorded(n_pairs, table, child, own):
    """Note the recorded pairs. A recorded row that holds everything has no number."""
    tile = np.int32(0)
    while tile < n_pairs:
        k = np.int32(tile + cuda.laneid)
        if k < n_pairs:
            pair = _U(pairs_from(child) + 2 * k)
            _note(own.bits[own.words[pair]], np.int32(own.words[_U(pair + _ONE)]), table, own)
        tile = next_tile(tile)
    cuda.syncwarp()


@cuda.jit(device=True, forceinline=True)
def _note_walked(table, node, child, own, numbers):
    """Note all pairs by walking all paths."""
    lane = np.int32(cuda.laneid)
    group = np.int32(0)
    while group < child.n_left:
        paths = group_at(group, node, child, numbers)
        tile = np.int32(0)
        while tile < paths.total:
            path = path_at(np.int32(tile + lane), paths, node, numbers)
            _note(number_of(path, own), np.int32(group + path[1]), table, own)
            tile = next_tile(tile)
        group = next_tile(group)
    cuda.syncwarp()


@cuda.jit(device=True, forceinline=True)
def assign_columns(table, child, own, techniques):
    """Give each column of the left set with a candidate its new column; return the numbers of both."""
    lane = np.int32(cuda.laneid)
    n_columns = np.int32(0)
    n_kept = np.int32(0)
    group = np.int32(0)
    while group < child.n_left:
        k = np.int32(group + lane)
        low, high = _NONE, _NONE
        if k < child.n_left:
            if table.has_keys:
                low, high = own.words[_U(table.size + 2 * k)], own.words[_U(table.size + 2 * k + 1)]
            else:
                low = _U(own.columns[_U(k)] != layout.NO_COLUMN)
        is_kept = _U(low | high) != 0
        leader = k
        if table.has_keys:
            leader = _find_leader(k, is_kept, low, high, table, own.words, techniques)
        is_leader = is_kept and leader == k
        leaders = ballot(is_leader)
        if k < child.n_left:
            own.columns[_U(k)] = np.int32(n_columns + rank(leaders)) if is_leader else np.int32(layout.NO_COLUMN)
        cuda.syncwarp()
        column = np.int32(layout.NO_COLUMN)
        if is_kept and not is_leader:
            column = own.columns[_U(leader)]
        if column >= 0:
            own.columns[_U(k)] = column
        n_columns = np.int32(n_columns + count_bits(leaders))
        n_kept = np.int32(n_kept + count_bits(ballot(is_kept)))
        cuda.syncwarp()
        group = next_tile(group)
    return n_columns, n_kept


@cuda.jit(device=True, forceinline=True)
def first_place(key, table_size):
    """Return the first slot to probe for a key, in a table whose size is a power of two.

    The upper bits of the product depend on all bits of the key. Most keys have only some of the highest bits.
    """
    return _U(np.uint64(key * _HASH_FACTOR) >> np.uint64(33 + cuda.clz(table_size)))


@cuda.jit(device=True, forceinline=True)
def _find_leader(k, is_kept, low, high, table, words, techniques):
    """Find the first column with the same key as the column at `k`, that one itself if there was none."""
    key = np.uint64(np.uint64(low) | np.uint64(np.uint64(high) << np.uint64(32)))
    place = first_place(key, table.size) if techniques & UPPER_BITS != 0 else _U(key * _HASH_FACTOR)
    leader = k
    # One of the lanes with the same key searches: on dense data most have the same.
    same = _U(cuda.match_any_sync(ALL, np.int64(key)))
    speaker = first_bit(same)
    searching = is_kept and speaker == cuda.laneid
    while cuda.any_sync(ALL, searching):
        if searching:
            place = _U(place & _U(table.size - 1))
            known = cuda.atomic.cas(words, place, _NONE, _U(k + 1))
            other = np.int32(known - _ONE) if known != 0 else k
            if words[_U(table.size + 2 * other)] == low and words[_U(table.size + 2 * other + 1)] == high:
                leader = other
                searching = False
            place = _U(place + _ONE)
    return cuda.shfl_sync(ALL, leader, speaker)


@cuda.jit(device=True, forceinline=True)
def _sort_by_column(n_columns, sizes, child, own):
    """Count the columns of each new one, and put all their positions, sorted by it, before the keys."""
    words = own.words
    cursors = np.int32(sizes + n_columns)
    fill(words, sizes, 2 * n_columns, 0)
    tile = np.int32(0)
    while tile < child.n_left:
        _, column, same = _new_column_at(tile, child, own)
        if column >= 0 and rank(same) == 0:
            words[_U(sizes + column)] = _U(words[_U(sizes + column)] + _U(count_bits(same)))
        cuda.syncwarp()
        tile = next_tile(tile)
    k = np.int32(cuda.laneid)
    while k < n_columns:
        words[_U(cursors + k)] = words[_U(sizes + k)]
        k = next_tile(k)
    cuda.syncwarp()
    exclusive_sums(words, cursors, n_columns)
    tile = np.int32(0)
    while tile < child.n_left:
        k, column, same = _new_column_at(tile, child, own)
        first = _NONE
        if column >= 0:
            first = words[_U(cursors + column)]
        cuda.syncwarp()
        if column >= 0:
            words[_U(first + _U(rank(same)))] = _U(k)
            if rank(same) == 0:
                words[_U(cursors + column)] = _U(first + _U(count_bits(same)))
        cuda.syncwarp()
        tile = next_tile(tile)


@cuda.jit(device=True, forceinline=True)
def _new_column_at(tile, child, own):
    """This lane's position in the left set, its new column, -1 for none, and the lanes with the same."""
    k = np.int32(tile + cuda.laneid)
    column = column_at(k, child, own)
    return k, column, _U(cuda.match_any_sync(ALL, column))

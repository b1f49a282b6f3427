"""The columns of a wide child: only those that a candidate holds, and those that candidates cannot tell apart as one.

Columns with the same candidates are in the same left sets further down, so one stands for all; it holds an excluded
row only if all of them do. With at most 64 candidates, the ones that hold a column are a key of two words: columns
are equal if their keys are, and nothing is left to prove. On dense data thousands of columns become a few dozen.

Scratch in the arena of words, which is free while a child is visited: a hash table, the keys, how many columns stand
behind each new one, and where the next of them goes. The sorted places of the kept columns replace the table.
"""

from __future__ import annotations

import numpy as np
from numba import cuda

from mbe_stage.bicliques.cuda import layout as at
from mbe_stage.bicliques.cuda.ids import exclusive_sums
from mbe_stage.bicliques.cuda.paths import NO_COLUMN, behind_paths, column_at, end_to_end, list_of, number_of, paths_at
from mbe_stage.bicliques.cuda.techniques import MERGING
from mbe_stage.bicliques.cuda.warp import (
    ALL,
    ballot,
    clear,
    count_bits,
    first_bit,
    next_tile,
    rank,
)

__all__ = ["keep_columns", "no_columns"]

_U = np.uint32
_ONE = _U(1)
_NONE = _U(0)


@cuda.jit(device=True, forceinline=True)
def no_columns():
    """The `Columns` of a child below which nothing is."""
    return at.Columns(np.int32(0), np.int32(0), False, np.int32(0), np.int32(0))


@cuda.jit(device=True, forceinline=True)
def keep_columns(node, child, n_touched, most_earlier, own, numbers, mode, techniques):
    """Number the columns that stay in `columns`, -1 for the others; returns the `Columns`.

    `counts` says how many of the left set every touched row holds; `bits` is empty before and after.
    """
    n_candidates = _number_candidates(child, n_touched, own)
    if n_candidates == 0:
        return no_columns()
    table_size = np.int32(2)
    while table_size <= child.n_left:
        table_size = np.int32(2 * table_size)
    keys = table_size
    sizes = np.int32(keys + 2 * child.n_left)
    has_keys = (
        techniques & MERGING != 0
        and n_candidates <= at.MOST_KEY_ROWS
        and child.n_left <= at.MOST_MERGED
        and sizes + 2 * child.n_left <= own.words.size
    )
    if has_keys:
        clear(own.words, table_size)
    n_columns, n_kept = _assign_columns(has_keys, table_size, keys, node, child, own, numbers, mode)
    is_merged = n_columns < n_kept
    if is_merged:
        _sort_by_column(n_columns, sizes, child, own)
    k = np.int32(cuda.laneid)
    while k < n_touched:
        own.bits[_U(own.touched[_U(k)])] = _NONE
        k = next_tile(k)
    cuda.syncwarp()
    return at.Columns(n_columns, n_kept, is_merged, sizes, most_earlier)


@cuda.jit(device=True, forceinline=True)
def _number_candidates(child, n_touched, own):
    """Put the number of each candidate, plus one, into `bits`; returns how many there are."""
    lane = np.int32(cuda.laneid)
    n_candidates = np.int32(0)
    tile = np.int32(0)
    while tile < n_touched:
        is_candidate = False
        other = np.int32(0)
        if np.int32(tile + lane) < n_touched:
            other = own.touched[_U(tile + lane)]
            is_candidate = other > child.row and own.counts[_U(other)] != child.n_left
        mask = ballot(is_candidate)
        if is_candidate:
            own.bits[_U(other)] = _U(n_candidates + rank(mask) + 1)
        n_candidates = np.int32(n_candidates + count_bits(mask))
        tile = next_tile(tile)
    cuda.syncwarp()
    return n_candidates


@cuda.jit(device=True, forceinline=True)
def _assign_columns(has_keys, table_size, keys, node, child, own, numbers, mode):
    """Give each column of the left set that a candidate holds its new column; returns how many of both there are."""
    lane = np.int32(cuda.laneid)
    n_columns = np.int32(0)
    n_kept = np.int32(0)
    group = np.int32(0)
    while group < child.n_left:
        low, high = _keys_of(group, has_keys, node, child, own, numbers, mode)
        k = np.int32(group + lane)
        is_kept = _U(low | high) != 0
        leader = k
        if has_keys:
            leader = _find_leader(k, is_kept, low, high, table_size, keys, own.words)
        is_leader = is_kept and leader == k
        leaders = ballot(is_leader)
        if k < child.n_left:
            own.columns[_U(k)] = np.int32(n_columns + rank(leaders)) if is_leader else np.int32(NO_COLUMN)
        cuda.syncwarp()
        column = np.int32(NO_COLUMN)
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
def _add_to_key(number, holder, has_keys, own):
    """Add a candidate to the key of the column in the lane `holder`."""
    if number != 0:
        # Without keys all that matters is whether there is one.
        bit = _U(number - _ONE) if has_keys else _NONE
        cuda.atomic.or_(own.families, _U(2 * holder + _U(bit >> _U(5))), _U(_ONE << _U(bit & _U(31))))


@cuda.jit(device=True, forceinline=True)
def _keys_of(group, has_keys, node, child, own, numbers, mode):
    """The candidates that hold this lane's column, the `group + lane`-th of the left set, as two words."""
    lane = np.int32(cuda.laneid)
    own.families[_U(lane)] = _NONE
    own.families[_U(lane + 32)] = _NONE
    cuda.syncwarp()
    length, start = list_of(np.int32(group + lane), child.n_left, node, child, numbers)
    ends, shift, total = end_to_end(length, start)
    tile = np.int32(0)
    while tile < total:
        path_0, path_1, path_2, path_3 = paths_at(tile, total, ends, shift, node, numbers, mode)
        other_0, holder_0 = path_0
        other_1, holder_1 = path_1
        other_2, holder_2 = path_2
        other_3, holder_3 = path_3
        number_0, number_1 = number_of(other_0, own), number_of(other_1, own)
        number_2, number_3 = number_of(other_2, own), number_of(other_3, own)
        _add_to_key(number_0, holder_0, has_keys, own)
        _add_to_key(number_1, holder_1, has_keys, own)
        _add_to_key(number_2, holder_2, has_keys, own)
        _add_to_key(number_3, holder_3, has_keys, own)
        tile = behind_paths(tile, mode)
    cuda.syncwarp()
    low, high = own.families[_U(2 * lane)], own.families[_U(2 * lane + 1)]
    cuda.syncwarp()
    return low, high


@cuda.jit(device=True, forceinline=True)
def _find_leader(k, is_kept, low, high, table_size, keys, words):
    """The first column found with the same key, `k` itself where there was none."""
    if is_kept:
        words[_U(keys + 2 * k)] = low
        words[_U(keys + 2 * k + 1)] = high
    cuda.syncwarp()
    place = _U(_U(_U(low ^ _U(high * _U(0x85EBCA6B))) * _U(0x9E3779B1)) >> _U(7))
    leader = k
    # Of lanes with the same key one searches: on dense data most have the same.
    same = _U(cuda.match_any_sync(ALL, np.int64(np.uint64(low) | np.uint64(np.uint64(high) << np.uint64(32)))))
    speaker = first_bit(same)
    searching = is_kept and speaker == cuda.laneid
    while cuda.any_sync(ALL, searching):
        if searching:
            place = _U(place & _U(table_size - 1))
            known = cuda.atomic.cas(words, place, _NONE, _U(k + 1))
            other = np.int32(known - _ONE) if known != 0 else k
            if words[_U(keys + 2 * other)] == low and words[_U(keys + 2 * other + 1)] == high:
                leader = other
                searching = False
            place = _U(place + _ONE)
    return cuda.shfl_sync(ALL, leader, speaker)


@cuda.jit(device=True, forceinline=True)
def _sort_by_column(n_columns, sizes, child, own):
    """Count the columns behind each new one, and put the places of all of them, sorted by it, before the keys."""
    words = own.words
    cursors = np.int32(sizes + n_columns)
    k = np.int32(cuda.laneid)
    while k < 2 * n_columns:
        words[_U(sizes + k)] = _NONE
        k = next_tile(k)
    cuda.syncwarp()
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
    """This lane's place in the left set, the new column that stands there, -1 for none, and the lanes with the same."""
    k = np.int32(tile + cuda.laneid)
    column = column_at(k, child, own)
    return k, column, _U(cuda.match_any_sync(ALL, column))

"""The two-step paths of a sparse node's child: from its left set on to every other row that holds some of it.

Paths are walked by lanes side by side, whatever the lengths of the columns: 32 columns at a time lay their lists end to
end, and each lane finds the column its path belongs to.
"""

from __future__ import annotations

import numpy as np
from numba import cuda

from mbe_stage.bicliques.cuda import layout as at
from mbe_stage.bicliques.cuda.nodes import entry
from mbe_stage.bicliques.cuda.warp import (
    ALL,
    ballot,
    count_bits,
    first_bit,
    inclusive_sum,
    next_tile,
    owner_of,
    rank,
    sum_small,
)

__all__ = [
    "COUNT",
    "FILL",
    "MARK",
    "NO_COLUMN",
    "behind_paths",
    "column_at",
    "count_paths",
    "end_to_end",
    "list_of",
    "number_of",
    "paths_at",
    "record_of",
    "touch",
    "walk_kept",
    "write_edge",
]

_U = np.uint32
_ONE = _U(1)
_NONE = _U(0)
_TAG_SHIFT = 16
NO_COLUMN = -1
_NO_PATH = (np.int32(-1), np.int32(0))
"""What `path_at` answers behind the last one."""
MARK, COUNT, FILL = range(3)


@cuda.jit(device=True, forceinline=True)
def column_at(place, child, own):
    """What stands in `columns` for the left set's column at `place`; `NO_COLUMN` behind the last one."""
    column = np.int32(NO_COLUMN)
    if place < child.n_left:
        column = own.columns[_U(place)]
    return column


@cuda.jit(device=True, forceinline=True)
def number_of(other, own):
    """What stands in `bits` for a row, where that is its number plus one; 0 where there is no path."""
    return own.bits[_U(other)] if other >= 0 else _NONE


@cuda.jit(device=True, forceinline=True)
def list_of(place, n_left, node, child, numbers):
    """Length and beginning, among the node's column members, of the list of the left set's column at `place`."""
    start = np.int32(0)
    length = np.int32(0)
    if 0 <= place < n_left:
        column = numbers[entry(node, child.left_at + place)]
        start = numbers[entry(node, node.column_offsets + column)]
        length = np.int32(numbers[entry(node, node.column_offsets + column + 1)] - start)
    return length, start


@cuda.jit(device=True, forceinline=True)
def end_to_end(length, start):
    """The lanes' lists behind each other: where each ends, how far it lies from its place among the node's column
    members, and how many paths all of them have."""
    ends = inclusive_sum(length)
    return ends, np.int32(start - (ends - length)), cuda.shfl_sync(ALL, ends, 31)


@cuda.jit(device=True, forceinline=True)
def path_at(k, total, ends, shift, node, numbers):
    """The row that path `k` of 32 columns leads to, -1 behind the last one, and the lane of its column."""
    holder = owner_of(k, ends)
    begin = cuda.shfl_sync(ALL, shift, holder)
    other = np.int32(-1)
    if k < total:
        other = numbers[entry(node, node.column_members + begin + k)]
    return other, holder


@cuda.jit(device=True, forceinline=True)
def paths_at(tile, total, ends, shift, node, numbers, mode):
    """The lane's paths of the four tiles from `tile` on, as `path_at` answers; go on at `behind_paths`.

    Four are on their way at once, as each waits for memory. Kernels that write are too long for such code: there only
    the first tile is looked at.
    """
    k = np.int32(tile + cuda.laneid)
    path_0 = path_at(k, total, ends, shift, node, numbers)
    path_1 = _NO_PATH
    path_2 = _NO_PATH
    path_3 = _NO_PATH
    if mode == at.COUNTS and tile + 32 < total:
        path_1 = path_at(np.int32(k + 32), total, ends, shift, node, numbers)
    if mode == at.COUNTS and tile + 64 < total:
        path_2 = path_at(np.int32(k + 64), total, ends, shift, node, numbers)
        path_3 = path_at(np.int32(k + 96), total, ends, shift, node, numbers)
    return path_0, path_1, path_2, path_3


@cuda.jit(device=True, forceinline=True)
def behind_paths(tile, mode):
    """The first tile behind those of `paths_at`."""
    return next_tile(next_tile(next_tile(next_tile(tile)))) if mode == at.COUNTS else next_tile(tile)


@cuda.jit(device=True, forceinline=True)
def _is_first(other, own):
    """Count a path; whether its row had none before."""
    return other >= 0 and cuda.atomic.add(own.counts, _U(max(other, 0)), 1) == 0


@cuda.jit(device=True, forceinline=True)
def touch(is_new, other, n_touched, own):
    """Append the rows of the lanes with a new one to `touched`; returns how many there are."""
    mask = ballot(is_new)
    if is_new:
        own.touched[_U(n_touched + rank(mask))] = other
    return np.int32(n_touched + count_bits(mask))


@cuda.jit(device=True, forceinline=True)
def count_paths(node, child, own, numbers, mode):
    """Count in `counts` how many of the left set every row holds; collects those that hold some in `touched`.

    Returns how many they are.
    """
    lane = np.int32(cuda.laneid)
    n_touched = np.int32(0)
    group = np.int32(0)
    while group < child.n_left:
        length, start = list_of(np.int32(group + lane), child.n_left, node, child, numbers)
        ends, shift, total = end_to_end(length, start)
        tile = np.int32(0)
        while tile < total:
            path_0, path_1, path_2, path_3 = paths_at(tile, total, ends, shift, node, numbers, mode)
            other_0, other_1, other_2, other_3 = path_0[0], path_1[0], path_2[0], path_3[0]
            is_new_0, is_new_1 = _is_first(other_0, own), _is_first(other_1, own)
            is_new_2, is_new_3 = _is_first(other_2, own), _is_first(other_3, own)
            n_touched = touch(is_new_0, other_0, n_touched, own)
            if mode == at.COUNTS and tile + 32 < total:
                n_touched = touch(is_new_1, other_1, n_touched, own)
            if mode == at.COUNTS and tile + 64 < total:
                n_touched = touch(is_new_2, other_2, n_touched, own)
                n_touched = touch(is_new_3, other_3, n_touched, own)
            tile = behind_paths(tile, mode)
        group = next_tile(group)
    cuda.syncwarp()
    return n_touched


@cuda.jit(device=True, forceinline=True)
def count_kept(columns, n_touched, node, child, own, numbers):
    """Put into `bits` how many of the kept columns each row holds, where none are merged; returns their sum.

    A candidate holds kept columns only, and `counts` says how many. What earlier rows hold is found by walking either
    the kept columns or the others, whichever are fewer. Rows that hold the whole left set get 0.
    """
    lane = np.int32(cuda.laneid)
    walks_kept = columns.n_kept < np.int32(child.n_left - columns.n_kept)
    k = lane
    while k < n_touched:
        other = own.touched[_U(k)]
        held = own.counts[_U(other)]
        is_known = held != child.n_left and (other > child.row or not walks_kept)
        own.bits[_U(other)] = _U(held) if is_known else _U(0)
        k = next_tile(k)
    cuda.syncwarp()
    step = _U(1) if walks_kept else _U(0xFFFFFFFF)
    group = np.int32(0) if columns.n_kept < child.n_left else child.n_left
    while group < child.n_left:
        place = np.int32(group + lane)
        column = column_at(place, child, own)
        is_walked = (column != NO_COLUMN) == walks_kept
        length, start = list_of(place if is_walked else np.int32(NO_COLUMN), child.n_left, node, child, numbers)
        ends, shift, total = end_to_end(length, start)
        tile = np.int32(0)
        while tile < total:
            other, _ = path_at(np.int32(tile + lane), total, ends, shift, node, numbers)
            if 0 <= other < child.row:
                cuda.atomic.add(own.bits, _U(other), step)
            tile = next_tile(tile)
        group = next_tile(group)
    cuda.syncwarp()
    n = np.int32(0)
    k = lane
    while k < n_touched:
        n = np.int32(n + np.int32(own.bits[_U(own.touched[_U(k)])]))
        k = next_tile(k)
    return sum_small(n)


@cuda.jit(device=True, forceinline=True)
def _kept_list(i, columns, node, child, own, numbers):
    """The i-th kept column's list: length, start; its new column, for how many that stands, whether it leads them."""
    place = i
    size = np.int32(1)
    leads = True
    if columns.is_merged:
        place = np.int32(NO_COLUMN)
        if i < columns.n_kept:
            place = np.int32(own.words[_U(i)])
    elif i >= child.n_left:
        place = np.int32(NO_COLUMN)
    column = np.int32(NO_COLUMN)
    if place >= 0:
        column = own.columns[_U(place)]
    if columns.is_merged and column >= 0:
        size = np.int32(own.words[_U(columns.sizes + column)])
        leads = i == 0 or own.columns[_U(own.words[_U(max(i - 1, 0))])] != column
    # Candidates are found in the leader's list, earlier rows that hold a whole group in all of its lists, if there are.
    is_read = column >= 0 and (leads or size <= columns.most_earlier)
    length, start = list_of(place if is_read else np.int32(NO_COLUMN), child.n_left, node, child, numbers)
    return length, start, column, size, leads


@cuda.jit(device=True, forceinline=True)
def _is_live(other, held, column, size, leads, first_tag, child, own):
    """Whether this lane's path says that a row holds a new column: once for each pair, in the order of the columns.

    A candidate holds all of a new column's members or none: the leader speaks for it. An excluded row must hold all of
    them, which is counted in `counts`, under a tag for the new column: larger tags forget the smaller ones before.
    `held` may be older than what other paths of the tile before counted.
    """
    live = other > child.row and leads and held != child.n_left
    is_counted = 0 <= other < child.row and held >= size
    if is_counted and size == 1:
        live = True
        is_counted = False
    if ballot(is_counted) != 0:
        counted = own.counts[_U(other)] if is_counted else np.int32(0)
        row = other if is_counted else np.int32(-1 - cuda.laneid)
        # Paths from one column to one row count together, and one of them speaks for all: nobody else's counts are
        # these. For a row that is met from two columns at once the later one's count is kept: the other ends here.
        same_row = _U(cuda.match_any_sync(ALL, row))
        same = _U(cuda.match_any_sync(ALL, np.int64(np.int64(row) << 32 | column)))
        if is_counted and first_bit(same) == cuda.laneid:
            tag = np.int32((first_tag + column) << _TAG_SHIFT)
            counted = np.int32(max(counted, tag) + count_bits(same))
            live = counted == tag + size
            if same_row >> _U(cuda.laneid) == same >> _U(cuda.laneid):
                own.counts[_U(other)] = counted
        cuda.syncwarp()
    return live


@cuda.jit(device=True, forceinline=True)
def write_edge(number, of, place, new, numbers):
    """Write one edge of the node `new`: at `place` among its column members, and where the row's list goes on.

    `number` is the row's, plus one, and `of` the column.
    """
    local = np.int32(number - _ONE)
    numbers[entry(new, new.column_members + place)] = local
    row_place = cuda.atomic.add(numbers, entry(new, new.row_offsets + 1 + local), 1)
    numbers[entry(new, new.row_members + row_place)] = of


@cuda.jit(device=True, forceinline=True)
def record_of(columns):
    """Where in the arena of words the pairs of a row and a new column are recorded: behind all that merging needs."""
    return np.int32(columns.sizes + 2 * columns.n_columns)


@cuda.jit(device=True, forceinline=True)
def walk_kept(action, first_tag, new, columns, node, child, own, numbers):
    """Walk the paths through the kept columns that say that a row holds a new column; returns how many there are.

    Parameters
    ----------
    action : int, known when it is compiled
        `MARK`: collect a row's new columns, at most 32, in `bits`. `COUNT`: count them there, and record the pairs as
        far as there is room. `FILL`: write both directions of the node `new` (see `sparse_fill`), and the lengths of
        its columns' lists into ``new.column_offsets``.
    first_tag : int
        See `_is_live`: a second walk needs larger ones than the first.
    """
    lane = np.int32(cuda.laneid)
    n = columns.n_kept if columns.is_merged else child.n_left
    n_edges = np.int32(0)
    group = np.int32(0)
    while group < n:
        length, start, column, size, leads = _kept_list(np.int32(group + lane), columns, node, child, own, numbers)
        ends, shift, total = end_to_end(length, start)
        # What a path needs to know of its column, in one word: which it is, and whether it leads.
        column = np.int32(2 * column + leads)
        following, following_holder = path_at(lane, total, ends, shift, node, numbers)
        # A lane without a path has `other` = -1: neither candidate nor excluded.
        following_held = own.counts[_U(max(following, 0))]
        tile = np.int32(0)
        while tile < total:
            other, holder, held = following, following_holder, following_held
            tile = next_tile(tile)
            if tile < total:
                # On its way while this one is looked at.
                following, following_holder = path_at(np.int32(tile + lane), total, ends, shift, node, numbers)
                following_held = own.counts[_U(max(following, 0))]
            of = cuda.shfl_sync(ALL, column, holder)
            of_size = cuda.shfl_sync(ALL, size, holder)
            leader = of & 1 != 0
            of = np.int32(of >> 1)
            live = _is_live(other, held, of, of_size, leader, first_tag, child, own)
            mask = ballot(live)
            if live:
                if action == MARK:
                    cuda.atomic.or_(own.bits, _U(other), _U(_ONE << _U(of)))
                elif action == COUNT:
                    cuda.atomic.add(own.bits, _U(other), _ONE)
                    recorded = np.int32(record_of(columns) + 2 * (n_edges + rank(mask)))
                    if recorded + 2 <= own.words.size:
                        own.words[_U(recorded)] = _U(other)
                        own.words[_U(recorded + 1)] = _U(of)
                else:
                    write_edge(own.bits[_U(other)], of, n_edges + rank(mask), new, numbers)
                    cuda.atomic.add(numbers, entry(new, new.column_offsets + of), 1)
            n_edges = np.int32(n_edges + count_bits(mask))
        group = next_tile(group)
    cuda.syncwarp()
    return n_edges

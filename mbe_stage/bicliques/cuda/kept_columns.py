"""Kept columns of a list child: the earlier rows that hold them, or the groups they are merged into."""

from __future__ import annotations

import numpy as np
from numba import cuda

from mbe_stage.bicliques.cuda import layout
from mbe_stage.bicliques.cuda.subgraph_parts import entry, write_edge
from mbe_stage.bicliques.cuda.two_step_paths import column_at, end_to_end, list_of, nonzero_at, path_at
from mbe_stage.device.warp import ALL, ballot, count_bits, first_bit, next_tile, rank

_U = np.uint32
_ONE = _U(1)
_TAG_SHIFT = 16
MARK, COUNT, FILL = range(3)


@cuda.jit(device=True, forceinline=True)
def count_kept(columns, rows, node, child, own, numbers):
    """Write into `bits` how many of the kept columns each row holds, if no columns are merged.

    A candidate holds kept columns only, and `counts` has their number. For earlier rows, the kept columns or the others
    are walked, whichever are fewer. Rows that hold the whole left set get 0.
    """
    lane = np.int32(cuda.laneid)
    walks_kept = columns.n_kept < np.int32(child.n_left - columns.n_kept)
    following = nonzero_at(lane, rows.n_nonzero, own)
    tile = np.int32(0)
    while tile < rows.n_nonzero:
        other = following
        tile = next_tile(tile)
        following = nonzero_at(np.int32(tile + lane), rows.n_nonzero, own)
        if other >= 0:
            held = own.counts[_U(other)]
            is_known = held != child.n_left and (other > child.row or not walks_kept)
            own.bits[_U(other)] = _U(held) if is_known else _U(0)
    cuda.syncwarp()
    step = _U(1) if walks_kept else _U(0xFFFFFFFF)
    group = np.int32(0) if columns.n_kept < child.n_left else child.n_left
    while group < child.n_left:
        place = np.int32(group + lane)
        column = column_at(place, child, own)
        is_walked = (column != layout.NO_COLUMN) == walks_kept
        length, start = list_of(place if is_walked else np.int32(layout.NO_COLUMN), child.n_left, node, child, numbers)
        ends, shift, total = end_to_end(length, start)
        tile = np.int32(0)
        while tile < total:
            other, _ = path_at(np.int32(tile + lane), total, ends, shift, node, numbers)
            if 0 <= other < child.row:
                cuda.atomic.add(own.bits, _U(other), step)
            tile = next_tile(tile)
        group = next_tile(group)
    cuda.syncwarp()


@cuda.jit(device=True, forceinline=True)
def _kept_list(i, columns, rows, node, child, own, numbers):
    """List of the i-th kept column: length, start; its new column, the size of its group, and True if it leads it."""
    place = i
    size = np.int32(1)
    leads = True
    if columns.is_merged:
        place = np.int32(layout.NO_COLUMN)
        if i < columns.n_kept:
            place = np.int32(own.words[_U(i)])
    elif i >= child.n_left:
        place = np.int32(layout.NO_COLUMN)
    column = np.int32(layout.NO_COLUMN)
    if place >= 0:
        column = own.columns[_U(place)]
    if columns.is_merged and column >= 0:
        size = np.int32(own.words[_U(columns.sizes + column)])
        leads = i == 0 or own.columns[_U(own.words[_U(max(i - 1, 0))])] != column
    # Candidates are found in the leader's list. Earlier rows that hold a whole group are found in all of its lists.
    is_read = column >= 0 and (leads or size <= rows.most_earlier)
    length, start = list_of(place if is_read else np.int32(layout.NO_COLUMN), child.n_left, node, child, numbers)
    return length, start, column, size, leads


@cuda.jit(device=True, forceinline=True)
def _is_live(other, held, column, size, leads, first_tag, child, own):
    """True if this lane's path shows that a row holds a new column: once for each pair, in the order of the columns.

    A candidate holds all of a new column's members or none, so the leader represents it. An excluded row must hold all
    of them, which is counted in `counts`, under a tag for the new column: a larger tag overrides smaller ones. `held`
    may be older than the counts of other paths on the tile before.

    Parameters
    ----------
    other : int32
        The row at the path's end, -1 for none.
    held : int32
        Its former entry in `counts`.
    column : int32
        The new column of the path.
    size : int32
        Number of columns in its group.
    leads : bool
        True if the path's own column leads the group.
    first_tag : int
        Tag of the first new column.
    """
    live = other > child.row and leads and held != child.n_left
    is_counted = 0 <= other < child.row and held >= size
    if is_counted and size == 1:
        live = True
        is_counted = False
    if ballot(is_counted) != 0:
        counted = own.counts[_U(other)] if is_counted else np.int32(0)
        row = other if is_counted else np.int32(-1 - cuda.laneid)
        # Paths from one column to one row count together, and one of them represents all, so no other path changes
        # these counts. If a row is met from two columns at once, the later one's count is kept; the other ends here.
        same_row = _U(cuda.match_any_sync(ALL, row))
        same = _U(same_row & _U(cuda.match_any_sync(ALL, column)))
        if is_counted and first_bit(same) == cuda.laneid:
            tag = np.int32((first_tag + column) << _TAG_SHIFT)
            counted = np.int32(max(counted, tag) + count_bits(same))
            live = counted == tag + size
            if same_row >> _U(cuda.laneid) == same >> _U(cuda.laneid):
                own.counts[_U(other)] = counted
        cuda.syncwarp()
    return live


@cuda.jit(device=True, forceinline=True)
def record_of(columns):
    """Offset in the arena of words of the recorded (row, new column) pairs, behind the data of merging."""
    return np.int32(columns.sizes + 2 * columns.n_columns)


@cuda.jit(device=True, forceinline=True)
def walk_kept(action, first_tag, new, columns, rows, node, child, own, numbers, mode):
    """Walk the paths through the kept columns that show that a row holds a new column.

    Parameters
    ----------
    action : int, known at compile time
        `MARK`: collect a row's new columns, at most 32, in `bits`. `COUNT`: count them there, and record the pairs as
        far as there is room. `FILL`: write both directions of the node `new` (see `subgraph_build`), and the lengths of
        its columns' lists into ``new.column_offsets``.
    first_tag : int
        See `_is_live`: a second walk needs larger ones than the first.
    """
    lane = np.int32(cuda.laneid)
    n = columns.n_kept if columns.is_merged else child.n_left
    n_edges = np.int32(0)
    group = np.int32(0)
    while group < n:
        length, start, column, size, leads = _kept_list(
            np.int32(group + lane), columns, rows, node, child, own, numbers
        )
        ends, shift, total = end_to_end(length, start)
        # Data of a path's column in one word: its number, and if it leads.
        column = np.int32(2 * column + leads)
        # The next tile is loaded while one is processed; if bicliques are only counted, two tiles: the rows of the
        # second, and the entries of the first. A lane without a path has row -1: neither candidate nor excluded.
        second, second_holder = path_at(lane, total, ends, shift, node, numbers)
        first, first_holder, first_held = second, second_holder, own.counts[_U(max(second, 0))]
        tile = np.int32(0)
        if mode == layout.COUNT and total > 32:
            second, second_holder = path_at(np.int32(32 + lane), total, ends, shift, node, numbers)
        while tile < total:
            other, holder, held = first, first_holder, first_held
            tile = next_tile(tile)
            if mode != layout.COUNT and tile < total:
                second, second_holder = path_at(np.int32(tile + lane), total, ends, shift, node, numbers)
            if tile < total:
                first, first_holder, first_held = second, second_holder, own.counts[_U(max(second, 0))]
            if mode == layout.COUNT and tile + 32 < total:
                second, second_holder = path_at(np.int32(tile + 32 + lane), total, ends, shift, node, numbers)
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
                    if n_edges < own.words.size and recorded + 2 <= own.words.size:
                        own.words[_U(recorded)] = _U(other)
                        own.words[_U(recorded + 1)] = _U(of)
                else:
                    write_edge(own.bits[_U(other)], of, n_edges + rank(mask), new, numbers)
                    cuda.atomic.add(numbers, entry(new, new.column_offsets + of), 1)
            n_edges = np.int32(n_edges + count_bits(mask))
        group = next_tile(group)
    cuda.syncwarp()

"""Build a subgraph in the pool: a left set's part of a node's graph, with local numbers.

One warp writes its edges in both directions. Meanwhile `bits` has the number of each row in the new node plus one, or
0. The list of a row continues at ``new.row_offsets[1 + number]``.

Induced subgraphs for subtrees come from MCE (Almasri et al., II-D), which makes one per root. Here each list child at
each depth makes its own, with candidates in ascending size as in iMBEA (cuMBE 3.1.2). The early stops of cuMBE 5.2 look
for the smallest candidate at each step, which a single sort replaces.

`count_kept` and `walk_kept` find the columns that a list child keeps: by the earlier rows that hold them, or by the
groups they are merged into.
"""

from __future__ import annotations

import numpy as np
from numba import cuda

from mbe_stage.bicliques.cuda import layout
from mbe_stage.bicliques.cuda.column_bitmaps import shift_of
from mbe_stage.bicliques.cuda.subgraph_parts import (
    are_groups,
    count_ids,
    entry,
    fill,
    parts_of,
    set_bit,
    write_ids,
)
from mbe_stage.bicliques.cuda.two_step_paths import (
    behind_paths,
    column_at,
    end_to_end,
    list_of,
    loads_ahead,
    nonzero_at,
    number_of,
    path_at,
    paths_at,
    weighs_rows,
)
from mbe_stage.bicliques.cuda.walk_bundles import KeptColumn
from mbe_stage.bicliques.cuda.work_donation import ask_to_stop
from mbe_stage.device.warp import ALL, ballot, count_bits, exclusive_sums, first_bit, four, next_tile, rank, sum_small

_TAG_SHIFT = 16
MARK, COUNT, FILL = range(3)
_U = np.uint32
_ONE = _U(1)
_NONE = _U(0)


@cuda.jit(device=True, forceinline=True)
def count_kept(columns, rows, node, child, own, numbers):
    """Write into `bits` how many of the kept columns each row holds, if no columns are merged and `counts` has columns.

    A candidate holds kept columns only, and `counts` has their number. For earlier rows, the kept columns or the others
    are walked, whichever are fewer. Rows that hold the whole left set get 0, and so do those that are too small.
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
            is_known = held != child.n_left and held >= child.fewest and (other > child.row or not walks_kept)
            own.bits[_U(other)] = _U(held) if is_known else _U(0)
    cuda.syncwarp()
    step = _U(1) if walks_kept else _U(0xFFFFFFFF)
    group = np.int32(0) if columns.n_kept < child.n_left else child.n_left
    while group < child.n_left:
        place = np.int32(group + lane)
        column = column_at(place, child, own)
        is_walked = (column != layout.NO_COLUMN) == walks_kept
        length, start = list_of(place if is_walked else np.int32(layout.NO_COLUMN), node, child, numbers)
        paths = end_to_end(length, start)
        tile = np.int32(0)
        while tile < paths.total:
            other, _ = path_at(np.int32(tile + lane), paths, node, numbers)
            # The counts of earlier rows that are too small are 0.
            if 0 <= other < child.row and (child.fewest <= 1 or own.counts[_U(other)] != 0):
                cuda.atomic.add(own.bits, _U(other), step)
            tile = next_tile(tile)
        group = next_tile(group)
    cuda.syncwarp()


@cuda.jit(device=True, forceinline=True)
def _kept_list(i, columns, rows, node, child, own, numbers):
    """List of the i-th kept column, its length and begin, and its `KeptColumn`."""
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
    length, start = list_of(place if is_read else np.int32(layout.NO_COLUMN), node, child, numbers)
    return length, start, KeptColumn(column, size, leads)


@cuda.jit(device=True, forceinline=True)
def _is_live(other, held, column, first_tag, child, own):
    """True if this lane's path shows that a row holds a new column: once for each pair, in the order of the columns.

    The path ends at the row `other`, -1 for none. A candidate holds all of a new column's members or none, so the
    leader represents it. An excluded row must hold all of them, which is counted in `counts`, under a tag for the new
    column, `first_tag` for the first: a larger tag overrides smaller ones. `held`, the row's former entry there, may be
    older than the counts of other paths on the tile before.
    """
    live = other > child.row and column.leads and held != child.whole and held >= child.fewest
    is_counted = 0 <= other < child.row and held >= column.size
    if is_counted and column.size == 1:
        live = True
        is_counted = False
    if ballot(is_counted) != 0:
        counted = own.counts[_U(other)] if is_counted else np.int32(0)
        row = other if is_counted else np.int32(-1 - cuda.laneid)
        # Paths from one column to one row count together, and one of them represents all, so no other path changes
        # these counts. If a row is met from two columns at once, the later one's count is kept; the other ends here.
        same_row = _U(cuda.match_any_sync(ALL, row))
        same = _U(same_row & _U(cuda.match_any_sync(ALL, column.number)))
        if is_counted and first_bit(same) == cuda.laneid:
            tag = np.int32((first_tag + column.number) << _TAG_SHIFT)
            counted = np.int32(max(counted, tag) + count_bits(same))
            live = counted == tag + column.size
            if same_row >> _U(cuda.laneid) == same >> _U(cuda.laneid):
                own.counts[_U(other)] = counted
        cuda.syncwarp()
    return live


@cuda.jit(device=True, forceinline=True)
def record_of(columns):
    """Offset in the arena of words of the recorded (row, new column) pairs, behind the data of merging."""
    return np.int32(columns.sizes + 2 * columns.n_columns)


@cuda.jit(device=True, forceinline=True)
def walk_kept(action, first_tag, new, columns, rows, node, child, own, numbers, launch):
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
    ahead = loads_ahead(launch)
    lane = np.int32(cuda.laneid)
    n = columns.n_kept if columns.is_merged else child.n_left
    n_edges = np.int32(0)
    group = np.int32(0)
    while group < n:
        length, start, mine = _kept_list(np.int32(group + lane), columns, rows, node, child, own, numbers)
        paths = end_to_end(length, start)
        # Data of a path's column in one word: its number, and if it leads.
        column = np.int32(2 * mine.number + mine.leads)
        # The next tile is loaded while one is processed; if bicliques are only counted, two tiles: the rows of the
        # second, and the entries of the first. A lane without a path has row -1: neither candidate nor excluded.
        second, second_holder = path_at(lane, paths, node, numbers)
        first, first_holder, first_held = second, second_holder, own.counts[_U(max(second, 0))]
        tile = np.int32(0)
        if ahead and paths.total > 32:
            second, second_holder = path_at(np.int32(32 + lane), paths, node, numbers)
        while tile < paths.total:
            other, holder, held = first, first_holder, first_held
            tile = next_tile(tile)
            if not ahead and tile < paths.total:
                second, second_holder = path_at(np.int32(tile + lane), paths, node, numbers)
            if tile < paths.total:
                first, first_holder, first_held = second, second_holder, own.counts[_U(max(second, 0))]
            if ahead and tile + 32 < paths.total:
                second, second_holder = path_at(np.int32(tile + 32 + lane), paths, node, numbers)
            word = cuda.shfl_sync(ALL, column, holder)
            of_size = cuda.shfl_sync(ALL, mine.size, holder)
            leads = word & 1 != 0
            of = np.int32(word >> 1)
            live = _is_live(other, held, KeptColumn(of, of_size, leads), first_tag, child, own)
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
                    number = own.bits[_U(other)]
                    place = _next_in_row(number, 1, new, numbers)
                    _write_at(number, of, n_edges + rank(mask), place, new, numbers)
                    cuda.atomic.add(numbers, entry(new, new.column_offsets + of), 1)
            n_edges = np.int32(n_edges + count_bits(mask))
        group = next_tile(group)
    cuda.syncwarp()


@cuda.jit(device=True, forceinline=True)
def fill_from_paths(new, n_full, node, child, own, numbers, launch):
    """Write the edges of the node `new` if no columns are merged, and the offsets of its columns.

    A kept column loses the `n_full` rows that hold the whole left set, and those that are too small, if rows can be.
    `columns` has its new number.
    """
    ahead, loses_more = loads_ahead(launch), child.fewest > 1
    to = np.int32(0)
    group = np.int32(0)
    while group < child.n_left:
        place = np.int32(group + cuda.laneid)
        column = column_at(place, child, own)
        length, start = list_of(place if column >= 0 else np.int32(layout.NO_COLUMN), node, child, numbers)
        paths = end_to_end(length, start)
        kept = ballot(column >= 0)
        begin = np.int32(paths.ends - length)
        if column >= 0 and not loses_more:
            numbers[entry(new, new.column_offsets + column)] = np.int32(to + begin - n_full * rank(kept))
        tile = np.int32(0)
        while tile < paths.total:
            found = paths_at(tile, paths, node, numbers, ahead)
            rows = four(number_of, found, own)
            if loses_more:
                at = to
                for k in range(4):
                    at = _begin_columns(found[k], np.int32(tile + 32 * k), rows[k], begin, column, at, new, numbers)
            # All places are asked for before the first is needed.
            places = four(_next_in_row, rows, 1, new, numbers)
            for k in range(4):
                if k == 0 or (ahead and tile + 32 * k < paths.total):
                    to = _put(rows[k], cuda.shfl_sync(ALL, column, found[k][1]), to, places[k], new, numbers)
            tile = behind_paths(tile, ahead)
        group = next_tile(group)
    cuda.syncwarp()


@cuda.jit(device=True, forceinline=True)
def _begin_columns(path, tile, number, begin, column, to, new, numbers):
    """Write the offsets of the columns whose first path is in a tile; return the position behind the tile's edges.

    Parameters
    ----------
    number : uint32
        Number of the row at the end of this lane's path, plus one; 0 if it is not in the node.
    begin, column : int32
        First path of this lane's column, and its new number.
    to : int32
        Position of the tile's first edge among the column members.
    """
    live = ballot(number != 0)
    first, of = cuda.shfl_sync(ALL, begin, path[1]), cuda.shfl_sync(ALL, column, path[1])
    if path[0] >= 0 and first == np.int32(tile + cuda.laneid):
        numbers[entry(new, new.column_offsets + of)] = np.int32(to + rank(live))
    return np.int32(to + count_bits(live))


@cuda.jit(device=True, forceinline=True)
def fill_from_record(new, columns, n_edges, own, numbers):
    """Write the recorded edges of the node `new`; the lengths of its columns' lists go into their offsets."""
    following, following_of = _recorded(np.int32(0), columns, n_edges, own)
    tile = np.int32(0)
    while tile < n_edges:
        number, of, to = following, following_of, tile
        tile = next_tile(tile)
        # The next record is loaded while this one is written.
        following, following_of = _recorded(tile, columns, n_edges, own)
        if number != 0:
            cuda.atomic.add(numbers, entry(new, new.column_offsets + of), 1)
        _put(number, of, to, _next_in_row(number, 1, new, numbers), new, numbers)
    cuda.syncwarp()


@cuda.jit(device=True, forceinline=True)
def _fill_from_groups(new, columns, n_edges, own, numbers):
    """Write the recorded edges of the node `new`, and the offsets of its columns.

    The edges of a row stand together, 32 columns at a time. So one lane takes places in its list for its neighbours.
    """
    ends = np.int32(new.column_offsets + _ONE)
    k = np.int32(cuda.laneid)
    if k == 0:
        numbers[entry(new, new.column_offsets)] = 0
    while k < columns.n_columns:
        numbers[entry(new, ends + k)] = np.int32(own.words[_U(columns.sizes + 2 * k)])
        k = next_tile(k)
    cuda.syncwarp()
    # Each offset is first the begin of its list and, after filling, its end.
    exclusive_sums(numbers, np.int64(entry(new, ends)), columns.n_columns)
    tile = np.int32(0)
    while tile < n_edges:
        number_0, of_0 = _recorded(tile, columns, n_edges, own)
        number_1, of_1 = _recorded(np.int32(tile + 32), columns, n_edges, own)
        same_0, same_1 = _U(cuda.match_any_sync(ALL, number_0)), _U(cuda.match_any_sync(ALL, number_1))
        # All places are asked for before the first is needed.
        to_0, to_1 = _next_in_column(number_0, of_0, new, numbers), _next_in_column(number_1, of_1, new, numbers)
        place_0 = _next_in_row(_of_first(number_0, same_0), count_bits(same_0), new, numbers)
        place_1 = _next_in_row(_of_first(number_1, same_1), count_bits(same_1), new, numbers)
        place_0 = np.int32(cuda.shfl_sync(ALL, place_0, first_bit(same_0)) + rank(same_0))
        place_1 = np.int32(cuda.shfl_sync(ALL, place_1, first_bit(same_1)) + rank(same_1))
        _write_at(number_0, of_0, to_0, place_0, new, numbers)
        _write_at(number_1, of_1, to_1, place_1, new, numbers)
        tile = next_tile(np.int32(tile + 32))
    cuda.syncwarp()


@cuda.jit(device=True, forceinline=True)
def _of_first(number, same):
    """The number of the first of some lanes; 0 for the others."""
    return number if rank(same) == 0 else _NONE


@cuda.jit(device=True, forceinline=True)
def _next_in_column(number, of, new, numbers):
    """Take the next place in the list of an edge's column, whose end is its offset so far."""
    to = np.int32(0)
    if number != 0:
        to = cuda.atomic.add(numbers, entry(new, np.int32(new.column_offsets + _ONE) + of), 1)
    return to


@cuda.jit(device=True, forceinline=True)
def _next_in_row(number, n, new, numbers):
    """Take the next `n` places in the list of a row, given by its number plus one; none for 0."""
    place = np.int32(0)
    if number != 0:
        place = cuda.atomic.add(numbers, entry(new, new.row_offsets + number), n)
    return place


@cuda.jit(device=True, forceinline=True)
def _write_at(number, of, to, place, new, numbers):
    """Write both directions of an edge, at its places among the column and row members."""
    if number != 0:
        numbers[entry(new, new.column_members + to)] = np.int32(number - _ONE)
        numbers[entry(new, new.row_members + place)] = of
        set_bit(_U(number - _ONE), of, new, numbers)


@cuda.jit(device=True, forceinline=True)
def _recorded(tile, columns, n_edges, own):
    """The number of this lane's row, plus one, and the column of the record's tile; 0 behind the end."""
    k = np.int32(tile + cuda.laneid)
    number, of = _NONE, np.int32(0)
    if k < n_edges:
        place = _U(record_of(columns) + 2 * k)
        number = own.bits[own.words[place]]
        of = np.int32(own.words[_U(place + _ONE)])
    return number, of


@cuda.jit(device=True, forceinline=True)
def _put(number, of, to, place, new, numbers):
    """Write the edges of the lanes that have one, at `place` in their rows; return the columns' next positions."""
    live = ballot(number != 0)
    _write_at(number, of, to + rank(live), place, new, numbers)
    return np.int32(to + count_bits(live))


@cuda.jit(device=True, forceinline=True)
def build_subgraph(node, child, columns, rows, verdict, own, pool, launch):
    """Make a subgraph of a list child, which any warp may work on.

    `counts` has each nonzero row's number of columns in the left set, `own.columns` the new numbers of kept columns.
    Excluded rows come first, candidates in ascending size. Then no candidate is dominated by an earlier one, unless
    they are equal.
    """
    numbers = pool.ints
    mode = launch.mode
    n_columns = columns.n_columns
    # The rows of groups have been counted and recorded.
    if not are_groups(columns):
        if columns.is_merged or weighs_rows(child, mode):
            walk_kept(COUNT, 1, node, columns, rows, node, child, own, numbers, launch)
        else:
            count_kept(columns, rows, node, child, own, numbers)
    n_edges, n_excluded = _totals(child, rows.n_nonzero, own)
    n_rows = np.int32(n_excluded + rows.n_candidates)
    n_path = np.int32(node.n_path + rows.n_full)
    n_ids = count_ids(node, child, own, numbers) if mode >= layout.MEMBERS else np.int32(0)
    shift = shift_of(n_columns, n_rows, n_edges, pool, launch)
    n_bitmaps = np.int64(n_columns) << shift if shift > 0 else np.int64(0)
    size = np.int64(2 * n_columns + 2 + n_ids + 2 * n_rows + 1) + 2 * np.int64(n_edges) + n_path + n_bitmaps
    number, offset = _allocate(size, pool, launch)
    if number < 0:
        return layout.PAUSED
    if cuda.laneid == 0:
        fields = pool.nodes[number]
        fields[layout.NODE_OFFSET] = offset
        fields[layout.NODE_COLUMNS] = n_columns
        fields[layout.NODE_ROWS] = n_rows
        fields[layout.NODE_EDGES] = n_edges
        fields[layout.NODE_PATH] = n_path
        fields[layout.NODE_IDS] = n_ids
        fields[layout.NODE_SIZE] = size
        fields[layout.NODE_SHIFT] = shift
        if mode == layout.WITHIN:
            fields[layout.NODE_RIGHT] = verdict.right_least
    new = parts_of(offset, n_columns, n_rows, n_edges, n_ids, n_path, shift)
    fill(numbers, np.int64(entry(new, new.bitmaps)), n_bitmaps, 0)
    if mode > layout.COUNT:
        write_ids(node, child, columns, own, numbers, offset, n_columns, np.int64(entry(new, new.ids)), numbers, mode)
    _number_rows(new, node, child, n_columns, n_rows, n_excluded, rows, own, numbers)
    if cuda.laneid == 0:
        numbers[entry(new, new.column_offsets + n_columns)] = n_edges
    if are_groups(columns):
        _fill_from_groups(new, columns, n_edges, own, numbers)
    elif columns.is_merged or weighs_rows(child, mode):
        fill(numbers, np.int64(entry(new, new.column_offsets)), n_columns, 0)
        if record_of(columns) + 2 * n_edges <= own.words.size:
            fill_from_record(new, columns, n_edges, own, numbers)
        else:
            walk_kept(FILL, 1 + n_columns, new, columns, rows, node, child, own, numbers, launch)
        exclusive_sums(numbers, np.int64(entry(new, new.column_offsets)), n_columns)
    else:
        fill_from_paths(new, rows.n_full, node, child, own, numbers, launch)
    _publish(number, n_excluded, n_rows, own, pool, launch.control)
    return layout.DONE


@cuda.jit(device=True, forceinline=True)
def _totals(child, n_nonzero, own):
    """Number of edges of the new node, the sum of `bits`, and the number of excluded rows with edges.

    All candidates have edges: the kept columns are those that they hold.
    """
    n_edges = np.int32(0)
    n_excluded = np.int32(0)
    lane = np.int32(cuda.laneid)
    following = nonzero_at(lane, n_nonzero, own)
    tile = np.int32(0)
    while tile < n_nonzero:
        other = following
        tile = next_tile(tile)
        following = nonzero_at(np.int32(tile + lane), n_nonzero, own)
        n_held = np.int32(own.bits[_U(other)]) if other >= 0 else np.int32(0)
        n_edges = np.int32(n_edges + n_held)
        n_excluded = np.int32(n_excluded + (n_held > 0 and other < child.row))
    return sum_small(n_edges), sum_small(n_excluded)


@cuda.jit(device=True, forceinline=True)
def _number_rows(new, node, child, n_columns, n_rows, n_excluded, rows, own, numbers):
    """Number the nonzero rows with columns, excluded ones first, candidates by size; write ids, offsets and path.

    `bits` has their sizes before, and their numbers, plus one, after. ``new.row_offsets[1 + number]`` is the first
    position of a row's list.
    """
    lane = np.int32(cuda.laneid)
    bits = own.bits
    # The column offsets first serve as a histogram of the candidates' sizes.
    fill(numbers, np.int64(entry(new, new.column_offsets)), np.int32(n_columns + 1), 0)
    are_listed = rows.n_candidates <= layout.MOST_KEY_ROWS
    n = rows.n_candidates if are_listed else rows.n_nonzero
    tile = np.int32(0)
    while tile < n:
        k = np.int32(tile + lane)
        other = np.int32(-1)
        if k < n:
            other = np.int32(own.subsets[_U(k)]) if are_listed else own.nonzero[_U(k)]
        if other > child.row and bits[_U(other)] != 0:
            cuda.atomic.add(numbers, entry(new, new.column_offsets + bits[_U(other)]), 1)
        tile = next_tile(tile)
    k = lane
    while k < node.n_path:
        numbers[entry(new, new.path + k)] = numbers[entry(node, node.path + k)]
        k = next_tile(k)
    cuda.syncwarp()
    exclusive_sums(numbers, np.int64(entry(new, new.column_offsets)), np.int32(n_columns + 1))
    n_before = np.int32(0)
    n_path = np.int32(node.n_path)
    following = nonzero_at(lane, rows.n_nonzero, own)
    tile = np.int32(0)
    while tile < rows.n_nonzero:
        other = following
        tile = next_tile(tile)
        following = nonzero_at(np.int32(tile + lane), rows.n_nonzero, own)
        size = _U(0)
        is_full = False
        row_id = np.int32(0)
        if other >= 0:
            size = bits[_U(other)]
            # No earlier row is full, and its count may be a tag.
            is_full = other >= child.row and own.counts[_U(other)] == child.whole
            row_id = numbers[entry(node, node.row_ids + other)]
        full_rows = ballot(is_full)
        if is_full:
            numbers[entry(new, new.path + n_path + rank(full_rows))] = row_id
        n_path = np.int32(n_path + count_bits(full_rows))
        earlier = ballot(size != 0 and other < child.row)
        if size != 0:
            local = np.int32(n_before + rank(earlier))
            if other > child.row:
                local = np.int32(n_excluded + cuda.atomic.add(numbers, entry(new, new.column_offsets + size), 1))
            numbers[entry(new, new.row_ids + local)] = row_id
            numbers[entry(new, new.row_offsets + 1 + local)] = np.int32(size)
            bits[_U(other)] = _U(local + 1)
        n_before = np.int32(n_before + count_bits(earlier))
    if lane == 0:
        numbers[entry(new, new.row_offsets)] = 0
    cuda.syncwarp()
    exclusive_sums(numbers, np.int64(entry(new, new.row_offsets + 1)), n_rows)


@cuda.jit(device=True, forceinline=True)
def _publish(number, n_excluded, n_rows, own, pool, control):
    """Open a node, once all its data is written."""
    if cuda.laneid == 0:
        pool.cursors[number] = n_excluded
        pool.nodes[number, layout.NODE_ROOT] = own.state[layout.ROOT]
        n_own = own.state[layout.N_OWN]
        pool.nodes[number, layout.NODE_IS_OWNED] = n_own < layout.MAX_OWN_NODES
        if n_own < layout.MAX_OWN_NODES:
            own.own_nodes[n_own] = number
            own.state[layout.N_OWN] = n_own + 1
        cuda.atomic.add(control, layout.N_OPEN, 1)
    cuda.threadfence()
    cuda.syncwarp()
    if cuda.laneid == 0:
        cuda.atomic.exch(pool.nodes[number], layout.NODE_END, n_rows)
    cuda.syncwarp()


@cuda.jit(device=True, forceinline=True)
def _allocate(size, pool, launch):
    """Return a free node and its place in the pool; node -1 if there is none, which ends the quantum."""
    control_64 = launch.control_64
    node = np.int32(-1)
    offset = np.int64(0)
    reason = layout.POOL_FULL
    if cuda.laneid == 0:
        size = (size + layout.ALIGNMENT - 1) // layout.ALIGNMENT * layout.ALIGNMENT
        offset = cuda.atomic.add(control_64, layout.POOL_TOP, size)
        # Nothing is given back here: if the top is beyond the end, later allocations fail, too, and the quantum ends.
        if offset + size <= pool.ints.size:
            node = cuda.atomic.add(launch.control, layout.N_NODES, 1)
            if node >= pool.cursors.size:
                node, reason = np.int32(-1), layout.NODES_FULL
        else:
            cuda.atomic.max(control_64, layout.NEEDED_POOL, size)
    node = cuda.shfl_sync(ALL, node, 0)
    if node < 0:
        ask_to_stop(launch.control, reason)
    return node, cuda.shfl_sync(ALL, offset, 0)

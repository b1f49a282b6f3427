"""Nodes with many left vertices, and the whole graph itself: rows and columns are lists.

A child is found by counting: walk the columns of its row, and see how often every other row turns up. The cost is the
number of two-step paths, whatever the number of rows. The few nodes of this kind stand at the top of the tree.
This is the second way of cuMBE 5.4: counting from L, not looking at each vertex of P and Q. A child gets a subgraph:
the part of the graph that its left set sees, with local numbers.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from mbe_stage.bicliques.constraints import MIN_LEFT, MIN_RIGHT
from mbe_stage.bicliques.cpu import layout
from mbe_stage.bicliques.cpu.bitset_walk import count_pair, push_bitset_frame
from mbe_stage.bicliques.cpu.closed_sets import (
    CLOSED_SET_WIDTH,
    TOUCHING,
    closed_sets,
    column_groups,
    subsets_of,
    subsets_of_singles,
    wide_subsets,
)
from mbe_stage.bicliques.cpu.emit import (
    UNWEIGHED,
    count_each,
    count_size,
    is_wide,
    needs_weights,
    take_child,
    take_closed_sets,
)
from mbe_stage.bicliques.cpu.merged_columns import (
    collect_columns,
    collect_words,
    columns_room,
    count_leading,
    drop_narrow_excluded,
    intersect,
    weighed_columns,
    write_column_ids,
    write_column_weights,
)
from mbe_stage.bicliques.cpu.prefetch import prefetch_column
from mbe_stage.bicliques.cpu.row_words import table_size
from mbe_stage.bicliques.cpu.subgraphs import first_in_words, open_subgraph, write_last_rows
from mbe_stage.bicliques.cpu.techniques import CLOSED_SETS, COLUMN_GROUPS, DOMINATED
from mbe_stage.bits import lowest_bit_index, popcount
from mbe_stage.runtime.jit import compiled
from mbe_stage.search.cpu.quanta import OK, OUTPUT_FULL

_U = np.uint64
_ONE = _U(1)
_PROBES = 16
# Numba compiles functions that are called with plain numbers once more, for those very numbers.
_NONE: Any = np.int64(0)
_NO_GROUPS: Any = np.int64(-1)


@njit(inline="always")
def visit_subgraph_child(node, offset, worker, sizes, output):
    """Visit the next child of the deepest frame, a subgraph at ``node[offset]``; push it if it has children of its own.

    Returns
    -------
    int
        ``OK``, or the arena that is short: then nothing has changed.
    """
    frames, control = worker.frames, worker.control
    depth = control[layout.DEPTH]
    n_rows, n_columns = frames[depth, layout.N_ROWS], frames[depth, layout.N_COLUMNS]
    column_starts = offset + n_columns
    row_ids = column_starts + n_columns + 1
    row_offsets = row_ids + n_rows
    column_offsets = row_offsets + n_rows + 1
    row_members = column_offsets + n_columns + 1
    column_members = row_members + node[row_offsets + n_rows]
    column_ids = column_members + node[row_offsets + n_rows]
    row, end = frames[depth, layout.CURSOR], frames[depth, layout.END]
    left_at = left_end = n_left = n_ids = _NONE
    while row < end:
        left_at, left_end = row_members + node[row_offsets + row], row_members + node[row_offsets + row + 1]
        # A single column is a left set of the first row that holds it.
        if left_end - left_at > 1 or node[column_members + node[column_offsets + node[left_at]]] == row:
            n_left = left_end - left_at
            # If a word has room for them, they are weighed with their lists at hand.
            if n_left < sizes.constraints[MIN_LEFT] or n_left > layout.WORD_BITS:
                n_left = _weight(node, offset, left_at, left_end)
            if n_left >= sizes.constraints[MIN_LEFT]:
                break
        row += 1
    frames[depth, layout.CURSOR] = row
    if row == end:
        return OK
    if output is not None:
        for k in range(left_at, left_end):
            n_ids += node[column_starts + node[k] + 1] - node[column_starts + node[k]]
    child = layout.Child(
        node,
        offset,
        column_starts,
        row_ids,
        column_offsets,
        column_members,
        column_ids,
        row,
        left_at,
        left_end,
        n_left,
        n_ids,
        depth,
    )
    if left_end - left_at <= layout.WORD_BITS:
        status = _visit_bitmap_child(child, worker, sizes, output)
    else:
        status = _visit_list_child(child, worker, sizes, output)
    if status == OK:
        control[layout.VISITED] += 1
        frames[depth, layout.CURSOR] = row + 1
    return status


@njit(inline="always")
def _weight(node, offset, left_at, left_end):
    """The user's left vertices behind the columns ``node[left_at:left_end]``."""
    weight = np.int64(0)
    for k in range(left_at, left_end):
        weight += node[offset + node[k]]
    return weight


@njit(inline="always")
def _visit_bitmap_child(child, worker, sizes, output):
    """A child whose left set fits one word: its rows are built in a single pass."""
    bits, nonzero, control, node = worker.bits, worker.nonzero, worker.control, child.node
    n_path, width = worker.frames[child.depth, layout.N_PATH], child.left_end - child.left_at
    heavy = wide = _U(0)
    if width <= 2 and output is None and _count_pair_of_columns(child, n_path, worker, sizes):
        return OK
    n_nonzero = n_left = _NONE
    bit = _ONE
    for k in range(child.left_at, child.left_end):
        prefetch_column(child, k, 0)
        if sizes.weighs_columns:
            n_left += node[child.column_weights + node[k]]
        column = child.column_offsets + node[k]
        for j in range(child.column_members + node[column], child.column_members + node[column + 1]):
            other = node[j]
            known = bits[other]
            nonzero[n_nonzero] = other
            n_nonzero += known == _U(0)
            bits[other] = known | bit
        bit <<= _ONE
    control[layout.WORK] += 8 + 2 * n_nonzero
    if sizes.weighs_columns:
        for k in range(width if n_left != width else 0):
            weight = node[child.column_weights + node[child.left_at + k]]
            heavy |= _U(weight > 1) << _U(k)
            wide |= _U(weight >= sizes.constraints[MIN_LEFT]) << _U(k)
        node, weights, starts, row_ids, offsets, members, ids, row, left_at, left_end, _, n_ids, depth = child
        child = layout.Child(
            node, weights, starts, row_ids, offsets, members, ids, row, left_at, left_end, n_left, n_ids, depth
        )
    columns = layout.Columns(worker.frames[child.depth, layout.INTS_TOP], heavy, wide)
    kept = layout.KeptColumns(node, child.left_at, width, width, _NO_GROUPS)
    if CLOSED_SETS and output is None and width <= CLOSED_SET_WIDTH:
        return _count_small_child(child, kept, columns, n_nonzero, worker, sizes)
    full = ~_U(0) >> _U(layout.WORD_BITS - width)
    status = _open_bitset_frame(child, kept, columns, full, n_path, n_nonzero, worker, sizes, output)
    for k in range(n_nonzero):
        bits[nonzero[k]] = _U(0)
    return status


@njit(inline="always")
def _count_pair_of_columns(child, n_path, worker, sizes):
    """Count the bicliques of a child with one column or two, if their lists alone tell them; return whether they do.

    All rows of a single column hold the whole left set, and are later ones. Of two columns, each is a left set of an
    earlier row by itself if it has any; one that stands for too few left vertices is none that is wanted. A column that
    begins with the child's row is a left set if one of its rows does not hold the other.
    """
    node, row, control = child.node, child.row, worker.control
    a, b = node[child.left_at], node[child.left_end - 1]
    one = child.column_members + node[child.column_offsets + a]
    other = child.column_members + node[child.column_offsets + b]
    end = child.column_members + node[child.column_offsets + a + 1]
    other_end = child.column_members + node[child.column_offsets + b + 1]
    if a != b:
        prefetch_column(child, child.left_at, 0)
        prefetch_column(child, child.left_at + 1, 0)
        leads = node[one] == row and node[child.column_weights + a] >= sizes.constraints[MIN_LEFT]
        other_leads = node[other] == row and node[child.column_weights + b] >= sizes.constraints[MIN_LEFT]
        if leads or other_leads:
            if sizes.are_exact or n_path + 1 < sizes.constraints[MIN_RIGHT]:
                return False
            control[layout.WORK] += 8 + (end - one) + (other_end - other)
            control[layout.COUNT] += count_leading(node, one, end, other, other_end, leads, other_leads)
            return True
        while node[one] != node[other] and node[one] < row and node[other] < row:
            is_behind = node[one] < node[other]
            one += is_behind
            other += not is_behind
    control[layout.WORK] += 8
    if node[one] == node[other] and node[one] < row:
        return True
    n_right = n_path + np.int64(sizes.right_multiplicities[node[child.row_ids + row]])
    while (sizes.are_exact or n_right < sizes.constraints[MIN_RIGHT]) and one < end and other < other_end:
        first, second = node[one], node[other]
        if first == second and first > row:
            n_right += np.int64(sizes.right_multiplicities[node[child.row_ids + first]])
        one += first <= second
        other += second <= first
    if sizes.are_exact:
        count_size(_weight(node, child.column_weights, child.left_at, child.left_end), n_right, control, sizes)
    else:
        control[layout.COUNT] += n_right >= sizes.constraints[MIN_RIGHT]
    return True


@njit(inline="always")
def _count_small_child(child, kept, columns, n_nonzero, worker, sizes):
    """Count the bicliques of a child with at most six columns, and of its subtree; `bits` holds the rows.

    Returns
    -------
    int
        ``OK``, or the arena that is short.
    """
    bits, nonzero, control, node = worker.bits, worker.nonzero, worker.control, child.node
    words, ints, least = worker.words, worker.ints, sizes.constraints[MIN_LEFT]
    n_path, weights_at = worker.frames[child.depth, layout.N_PATH], columns.at + layout.COLUMN_STARTS
    raw_end = top = worker.frames[child.depth, layout.WORDS_TOP]
    heavy, wide = columns.heavy, columns.wide
    candidates = forbidden = _U(0)
    full = (_ONE << _U(kept.n)) - _ONE
    # Without columns of medium weight, and with enough on the path, their numbers decide.
    # All left sets but the child's own are in two rows or more.
    is_weighed = (least > UNWEIGHED and heavy != wide) or needs_weights(n_path + 1, sizes)
    status = layout.shortage(raw_end + n_nonzero, weights_at + n_nonzero, worker) if is_weighed else OK
    # If it alone has all columns, its own right vertices have to be enough.
    n_right = n_path + 1
    if n_right < sizes.constraints[MIN_RIGHT] and not is_weighed:
        for k in range(n_nonzero):
            n_right += np.int64(bits[nonzero[k]] == full)
        if n_right == n_path + 2:
            n_right = n_path + np.int64(sizes.right_multiplicities[node[child.row_ids + child.row]])
    for k in range(n_nonzero if is_weighed and status == OK else 0):
        # No entry of an excluded row is read: most are in no cache.
        other = max(np.int64(nonzero[k]), child.row)
        words[raw_end] = bits[nonzero[k]]
        ints[weights_at + raw_end - top] = sizes.right_multiplicities[node[child.row_ids + other]]
        raw_end += nonzero[k] >= child.row
    for k in range(n_nonzero):
        other = nonzero[k]
        member = _ONE << bits[other]
        candidates |= member if other >= child.row else _U(0)
        forbidden |= member if other < child.row else _U(0)
        bits[other] = _U(0)
    # The child's own row is among the candidates: its left set is a result itself.
    closed = closed_sets(candidates, forbidden)
    if is_weighed:
        if status == OK and closed != _U(0):
            if heavy != _U(0):
                write_column_weights(child, kept, ints, columns.at)
            weighed = layout.Weighed(top, raw_end, weights_at, n_path)
            count_each(closed, full, weighed, columns, worker, sizes)
        return status
    closed &= wide_subsets(least) | TOUCHING[wide] | (TOUCHING[heavy] & wide_subsets(least - 1))
    closed &= ~(_ONE << full) if n_right < sizes.constraints[MIN_RIGHT] else ~_U(0)
    control[layout.COUNT] += popcount(closed)
    return OK


@compiled(nrt=False)
def _open_bitset_frame(child, kept, columns, full, n_path, n_nonzero, worker, sizes, output):
    """Visit a child whose rows stand in `bits`; finish its subtree, or push it as a bitset frame.

    Parameters
    ----------
    kept : KeptColumns
        The part of its left set that candidates see, with the bit of each.
    columns : Columns
        The new columns; the arena of ints is free from their place on, where weights of merged columns may stand.
    full : uint64
        Rows equal to it hold the whole left set; 0 says that they were taken out before and stand on the path.
    n_path, n_nonzero : int
        Right members on the path; rows in the accumulator.
    """
    words, ints, frames, masks = worker.words, worker.ints, worker.frames, worker.masks
    top = frames[child.depth, layout.WORDS_TOP]
    payload_at = columns.at + layout.COLUMN_IDS + child.n_ids
    n_words = top + 3 * n_nonzero + table_size(n_nonzero)
    status = layout.shortage(n_words, payload_at + 3 * n_nonzero + 1, worker)
    if status != OK:
        return status
    excluded_end = words.size
    can_merge = output is None and not needs_weights(n_path + (full != _U(0)), sizes)
    if kept.groups < 0 and columns.heavy != _U(0) and not (can_merge and sizes.constraints[MIN_LEFT] <= UNWEIGHED):
        write_column_weights(child, kept, ints, columns.at)
    n_path, raw_end, excluded_at, singles = _divide_rows(
        child, columns, full, n_path, n_nonzero, payload_at, can_merge, worker, sizes, output
    )
    if n_path == 0:
        return OK
    if not take_child(child, n_path, worker, sizes, output):
        return OUTPUT_FULL
    if can_merge and sizes.least_in_words == 1:
        # All rows are wide: weights say no more.
        columns = layout.Columns(columns.at, _U(0), _U(0))
    if raw_end == top:
        return OK
    if output is not None:
        starts_at = columns.at + layout.COLUMN_STARTS
        write_column_ids(child, kept, ints, starts_at, layout.WORD_BITS + 1, columns.at + layout.COLUMN_IDS)
    behind = layout.Behind(payload_at, layout.NO_GROUPS, 0)
    excluded = layout.Excluded(excluded_at, excluded_end, singles, top, top)
    weighed = layout.Weighed(top, raw_end, payload_at, n_path)
    if DOMINATED and output is None and raw_end - top <= 2:
        count_pair(words[top], words[raw_end - 1], excluded, weighed, n_path, columns, worker, sizes)
        return OK
    if COLUMN_GROUPS and column_groups(words, top, raw_end, masks):
        everything = ~_U(0)
        forbidden = subsets_of(words, excluded_at, excluded_end, everything, masks) | subsets_of_singles(singles, masks)
        closed = closed_sets(subsets_of(words, top, raw_end, everything, masks), forbidden)
        is_taken = take_closed_sets(closed, n_path, top, raw_end, behind, weighed, columns, worker, sizes, output)
        return OK if is_taken else OUTPUT_FULL
    push_bitset_frame(top, raw_end, excluded, behind, weighed, n_path, columns, worker, sizes, output)
    return OK


@njit(inline="always")
def _divide_rows(child, columns, full, n_path, n_nonzero, payload_at, can_merge, worker, sizes, output):
    """Divide the rows in `bits` into those on the path, candidates from ``words[top]`` on, and excluded ones.

    Parameters
    ----------
    columns, full, n_path, n_nonzero
        As in `_open_bitset_frame`.

    Returns
    -------
    n_path : int
        0 if an excluded row holds the whole left set.
    raw_end, excluded_at : int
        End of the candidates, and the first of the excluded rows, which end with the arena.
    singles : uint64
        The columns that an excluded row holds, or that are too few alone.
    """
    bits, nonzero, words, ints = worker.bits, worker.nonzero, worker.words, worker.ints
    raw_end = top = worker.frames[child.depth, layout.WORDS_TOP]
    least = sizes.least_in_words
    # Excluded rows are collected from the far end of the room, out of the way of what the node will keep.
    excluded_at = words.size
    # Half of the rows and more hold a single column. Excluded ones go into one word, and so do candidates' if no
    # weights stand behind them (`can_merge`).
    lone = _U(0)
    singles = ~columns.wide if sizes.constraints[MIN_LEFT] > 1 else _U(0)
    for k in range(n_nonzero):
        other = nonzero[k]
        known = bits[other]
        if known == _U(0):
            continue
        is_single = known & (known - _ONE) == _U(0)
        if other < child.row:
            if known == full:
                return _NONE, top, excluded_at, singles
            singles |= known
            words[excluded_at - 1] = known
            excluded_at -= not is_single
        elif known == full:
            if output is None:
                n_path += sizes.right_multiplicities[child.node[child.row_ids + other]]
            else:
                worker.path[n_path] = child.node[child.row_ids + other]
                n_path += 1
        elif can_merge:
            lone |= known if is_single else _U(0)
            words[raw_end] = known
            raw_end += (not is_single) & is_wide(known, columns, ints, least)
        else:
            row_id = child.node[child.row_ids + other]
            words[raw_end] = known
            ints[payload_at + raw_end - top] = row_id if output is not None else sizes.right_multiplicities[row_id]
            raw_end += is_wide(known, columns, ints, least) & (not is_single or known & ~singles != _U(0))
    lone &= ~singles
    while lone != _U(0):
        words[raw_end] = lone & (~lone + _ONE)
        raw_end += 1
        lone &= lone - _ONE
    return n_path, raw_end, excluded_at, singles


# List children are few and a lot of work: by themselves, they compile in less time.
@compiled(nrt=False)
def _visit_list_child(child, worker, sizes, output):
    """A child with more left vertices than a word has bits."""
    counts, nonzero, node, row = worker.counts, worker.nonzero, child.node, child.row
    frame, n_counted, n_members = worker.frames[child.depth], _NONE, _NONE
    base = first_in_words(frame[layout.N_ROWS], frame[layout.N_EXCLUDED])
    # To count below a few short lists costs less than the words of the whole graph, if it has none yet.
    is_short = (frame[layout.N_ROWS] - row) * (child.left_end - child.left_at) < frame[layout.N_COLUMNS]
    if row >= base and not (output is None and is_short and frame[layout.WORDS_TOP] == frame[layout.WORDS]):
        status, n_path, collected = _collect_last_rows(child, base, worker, sizes, output)
        if status != OK or n_path == 0:
            return status
        return _open_collected(child, collected, n_path, worker, sizes, output)
    for k in range(child.left_at, child.left_end):
        prefetch_column(child, k, 1)
        column = child.column_offsets + node[k]
        weight = node[child.column_weights + node[k]]
        n_members += node[column + 1] - node[column]
        j = child.column_members + node[column + 1] - 1
        while node[j] > row:
            other = node[j]
            nonzero[n_counted] = other
            n_counted += counts[other] == 0
            counts[other] += weight
            j -= 1
    worker.control[layout.WORK] += 8 + 8 * n_counted
    status, n_path, n_counted, collected = _collect(child, n_counted, n_members, worker, sizes, output)
    for k in range(n_counted):
        counts[nonzero[k]] = 0
    if status != OK or n_path == 0:
        return status
    return _open_collected(child, collected, n_path, worker, sizes, output)


@njit(inline="always")
def _collect_last_rows(child, base, worker, sizes, output):
    """Collect the columns of a list child whose later rows, from row `base` on, are bits of its columns' words."""
    node, ints, words, control = child.node, worker.ints, worker.words, worker.control
    frame = worker.frames[child.depth]
    n_left = child.left_end - child.left_at
    scratch_at, column_words = frame[layout.INTS_TOP], frame[layout.WORDS]
    nothing = layout.Collected(scratch_at, scratch_at, _NONE, _NONE, _U(0), _U(0))
    if frame[layout.WORDS_TOP] == column_words:
        # The whole graph gets its words when they are needed first.
        status = layout.shortage(column_words + frame[layout.N_COLUMNS], 0, worker)
        if status != OK:
            return status, _NONE, nothing
        frame[layout.WORDS_TOP] = column_words + frame[layout.N_COLUMNS]
        write_last_rows(
            node, child.column_weights, frame[layout.N_ROWS], frame[layout.N_COLUMNS], base, words, column_words
        )
    top = frame[layout.WORDS_TOP]
    n_members, common, union = _NONE, ~_U(0), _U(0)
    for k in range(child.left_at, child.left_end):
        column = child.column_offsets + node[k]
        n_members += node[column + 1] - node[column]
        common &= words[column_words + node[k]]
        union |= words[column_words + node[k]]
    own = _ONE << _U(child.row - base)
    later = ~(own | (own - _ONE))
    control[layout.WORK] += 8 + 8 * popcount(union & later)
    ints_room, words_room = columns_room(n_left, n_members)
    status = layout.shortage(top + words_room, scratch_at + ints_room, worker)
    if status != OK:
        return status, _NONE, nothing
    if common & (own - _ONE) != _U(0) or _is_excluded(child, ints, scratch_at):
        return OK, _NONE, nothing
    n_path = _join_path(child, child.row, frame[layout.N_PATH], worker, sizes, output)
    rest = common & later
    while rest != _U(0):
        n_path = _join_path(child, base + lowest_bit_index(rest), n_path, worker, sizes, output)
        rest &= rest - _ONE
    live = union & later & ~common
    n_columns, n_kept, end, twice, thrice = collect_words(
        child, later, live, ints, scratch_at, words, column_words, top
    )
    return OK, n_path, layout.Collected(scratch_at, end, n_columns, n_kept, twice, thrice)


@njit(inline="always")
def _collect(child, n_counted, n_members, worker, sizes, output):
    """Collect the columns of a list child, whose candidates are counted.

    Parameters
    ----------
    n_counted, n_members : int
        Candidates with a count; entries of the lists of all columns.

    Returns
    -------
    status : int
        ``OK``, or the arena that is short.
    n_path : int
        Right members on the path; 0 if an earlier row holds the whole left set.
    n_counted : int
        Rows with a count now.
    collected : Collected
    """
    counts, nonzero, ints, words = worker.counts, worker.nonzero, worker.ints, worker.words
    n_left = child.left_end - child.left_at
    scratch_at, top = worker.frames[child.depth, layout.INTS_TOP], worker.frames[child.depth, layout.WORDS_TOP]
    ints_room, words_room = columns_room(n_left, n_members)
    nothing = layout.Collected(scratch_at, scratch_at, _NONE, _NONE, _U(0), _U(0))
    status = layout.shortage(top + words_room, scratch_at + ints_room, worker)
    if status != OK:
        return status, _NONE, n_counted, nothing
    if _is_excluded(child, ints, scratch_at):
        return OK, _NONE, n_counted, nothing
    # Rows that hold the whole left set join the path and lose their counts, as those do that no wanted left set is in:
    # other counted rows can still be children.
    n_path = _join_path(child, child.row, worker.frames[child.depth, layout.N_PATH], worker, sizes, output)
    for k in range(n_counted):
        other = nonzero[k]
        if counts[other] == child.n_left:
            n_path = _join_path(child, other, n_path, worker, sizes, output)
            counts[other] = 0
        elif counts[other] < sizes.constraints[MIN_LEFT]:
            counts[other] = 0
    n_columns, n_kept, end, twice, thrice = collect_columns(child, counts, ints, scratch_at, words, top)
    collected = layout.Collected(scratch_at, end, n_columns, n_kept, twice, thrice)
    # Rows of a single column leave the node, anyway.
    if n_columns > layout.WORD_BITS and sizes.constraints[MIN_LEFT] > 2:
        n_counted = drop_narrow_excluded(child, collected, n_counted, sizes.constraints[MIN_LEFT], worker)
    return OK, n_path, n_counted, collected


@compiled(nrt=False)
def _is_excluded(child, ints, scratch_at):
    """True if an earlier row holds the whole left set of a child; the arena of ints is free from `scratch_at` on."""
    node = child.node
    column = child.column_offsets + node[child.left_at]
    first = child.column_members + node[column]
    n = np.int64(0)
    while node[first + n] < child.row:
        ints[scratch_at + n] = node[first + n]
        n += 1
    # Neighbours in the list tend to be alike: look at some that are far apart first.
    stride = (child.left_end - child.left_at) // _PROBES + 1
    for begin in range(stride):
        for k in range(child.left_at + begin, child.left_end, stride):
            if n == 0:
                return False
            column = child.column_offsets + node[k]
            first, end = child.column_members + node[column], child.column_members + node[column + 1]
            n = intersect(ints, scratch_at, n, node, first, end)
    return n > 0


@njit(inline="always")
def _join_path(child, row, n_path, worker, sizes, output):
    """Put a row on the path; returns the new number of right members there."""
    row_id = child.node[child.row_ids + row]
    if output is None:
        return n_path + np.int64(sizes.right_multiplicities[row_id])
    worker.path[n_path] = row_id
    return n_path + 1


@compiled(nrt=False)
def _open_collected(child, collected, n_path, worker, sizes, output):
    """Visit a list child whose columns are collected, and open what is below it."""
    bits, nonzero = worker.bits, worker.nonzero
    n_left = child.left_end - child.left_at
    is_wide = collected.n_columns > layout.WORD_BITS
    n_edges, n_nonzero = _fill_bits(collected, n_left, is_wide, worker)
    if is_wide:
        status = open_subgraph(child, collected, n_path, n_edges, n_nonzero, worker, sizes, output)
    else:
        kept_at, groups_at = collected.scratch + 3 * n_left, collected.scratch + 4 * n_left
        kept = layout.KeptColumns(worker.ints, kept_at, collected.n_kept, collected.n_columns, groups_at)
        columns = layout.Columns(collected.end, _U(0), _U(0))
        if sizes.weighs_columns and child.n_left != collected.n_columns:
            are_unread = output is None and not needs_weights(n_path, sizes)
            columns = weighed_columns(child, kept, collected, worker.ints, sizes.constraints[MIN_LEFT], are_unread)
        status = _open_bitset_frame(child, kept, columns, _U(0), n_path, n_nonzero, worker, sizes, output)
    for k in range(n_nonzero):
        bits[nonzero[k]] = _U(0)
    return status


@njit(inline="always")
def _fill_bits(collected, n_left, is_wide, worker):
    """Set in `bits` which of the new columns each row holds or, if these are too many for a word, how many.

    Returns
    -------
    n_edges, n_nonzero : int
        Entries of the columns, and the rows that are listed in `nonzero`.
    """
    ints, bits, nonzero = worker.ints, worker.bits, worker.nonzero
    n_edges = n_nonzero = _NONE
    bit = _ONE
    for k in range(collected.scratch, collected.scratch + collected.n_columns):
        start, n_members = ints[k], ints[k + n_left] + ints[k + 2 * n_left]
        for j in range(start, start + n_members):
            known = bits[ints[j]]
            nonzero[n_nonzero] = ints[j]
            n_nonzero += known == _U(0)
            bits[ints[j]] = known + bit
        n_edges += n_members
        bit <<= _U(0) if is_wide else _ONE
    return n_edges, n_nonzero

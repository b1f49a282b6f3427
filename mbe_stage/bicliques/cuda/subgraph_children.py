"""Children of nodes with many left vertices, and of the whole graph, found by counting two-step paths.

Node generation and node check are those of GMBE+ (algorithm 1). GMBE+ leaves out the traversed candidates Q; iMBEA
keeps them (cuMBE, algorithm 3, lines 15 to 33). Here they are the earlier rows.

A left set of at most 32 vertices fits a word. Most rows that see such a set hold one column of it, and only that column
matters: these rows are one candidate, or one excluded row. So the lists of the columns are read twice. First a bitmap
in shared memory finds the rows that are met more than once (and rows that share their bit). Then only these are marked,
one by one, in device memory. A column that an earlier row holds is no left set by itself: it was found below that row.
Later rows that hold only such a column are on no right side, and are left out.
"""

from __future__ import annotations

import numpy as np
from numba import cuda

from mbe_stage.bicliques.constraints import MIN_LEFT
from mbe_stage.bicliques.cuda import layout
from mbe_stage.bicliques.cuda.bitset_walk import count_small, open_bitset_frame
from mbe_stage.bicliques.cuda.closed_sets import clear_subsets, widest
from mbe_stage.bicliques.cuda.column_bitmaps import combine_bitmaps
from mbe_stage.bicliques.cuda.count_within import is_settled
from mbe_stage.bicliques.cuda.emit_bitsets import accepts, emit_list
from mbe_stage.bicliques.cuda.merged_columns import all_columns, keep_columns, no_columns
from mbe_stage.bicliques.cuda.prefix_groups import find_groups, is_grouped_root, left_size_of_root, note_rows
from mbe_stage.bicliques.cuda.subgraph_build import MARK, build_subgraph, record_of, walk_kept
from mbe_stage.bicliques.cuda.subgraph_parts import (
    allows,
    entry,
    has_constraints,
    left_sizes,
    node_at,
    right_bounds,
)
from mbe_stage.bicliques.cuda.techniques import WORDS
from mbe_stage.bicliques.cuda.two_step_paths import (
    append_nonzero,
    clear_accumulator,
    count_paths,
    list_of,
    look_at_rows,
    no_rows,
)
from mbe_stage.bicliques.cuda.walk_bundles import ANY, Child, Rows, Seen, Singles, Verdict
from mbe_stage.bicliques.cuda.work_donation import ask_for_words, ask_to_stop
from mbe_stage.device.warp import ALL, clear, four, next_one, next_tile, or_all, sum_small

_U = np.uint32
_ONE = _U(1)
_NONE = _U(0)
_NO_ROW = np.int32(-1)
"""Larger than any other uint32."""
_FEWEST_BITS = 6
"""Logarithms of a bitmap's words."""
_MOST_BITS = layout.BITMAP_WORDS.bit_length() - 1


@cuda.jit(device=True, forceinline=True)
def mark_rows(node, child, are_bits, own, numbers):
    """Mark the columns that a row holds in `bits`, and collect the marked rows in `nonzero`.

    Rows that hold one column only are not marked. Exception: not `are_bits`, the row is a later one, and the column may
    be a left set, a wanted one.

    With `are_bits`, in some modes known at compile time, such rows need not be in right sides: their columns suffice.
    Returns the number of marked rows, and the `Singles` of the others.
    """
    length, start = list_of(np.int32(cuda.laneid), node, child, numbers)
    n_bits = _bits_of_bitmap(sum_small(length))
    clear(own.table, np.int32(2 << n_bits))
    earlier = _see_bitmaps(length, start, n_bits, node, child, own, numbers)
    n_nonzero, later = _mark_rows(length, start, n_bits, earlier, node, child, are_bits, own, numbers)
    return n_nonzero, Singles(earlier, later)


@cuda.jit(device=True, forceinline=True)
def _see_bitmaps(length, start, n_bits, node, child, own, numbers):
    """Find the rows that are met more than once (`_is_several`); return the columns that an earlier row holds.

    This lane's column has a list of `length` entries from `start` on, a bitmap 2 to the power of `n_bits` words.
    """
    earlier = _NONE
    column = np.int32(0)
    while column < child.n_left:
        n = cuda.shfl_sync(ALL, length, column)
        begin = entry(node, node.column_members + cuda.shfl_sync(ALL, start, column))
        first = _U(_NO_ROW)
        tile = np.int32(0)
        while tile < n:
            rows = _rows_at(tile, n, begin, numbers)
            met = four(_see, rows, n_bits, own.table)
            for k in range(4):
                _see_again(rows[k], met[k], n_bits, own.table)
                first = min(first, _U(rows[k]))
            tile = next_tile(np.int32(tile + 96))
        if cuda.any_sync(ALL, first < _U(child.row)):
            earlier = _U(earlier | _U(_ONE << _U(column)))
        column = next_one(column)
    cuda.syncwarp()
    return earlier


@cuda.jit(device=True, forceinline=True)
def _mark_rows(length, start, n_bits, earlier, node, child, are_bits, own, numbers):
    """Mark and collect rows; return their number, and the columns of unmarked later rows, which hold no other.

    Arguments are those of `_see_bitmaps` and its result.
    """
    n_nonzero = np.int32(0)
    later = _NONE
    column = np.int32(0)
    while column < child.n_left:
        n = cuda.shfl_sync(ALL, length, column)
        begin = entry(node, node.column_members + cuda.shfl_sync(ALL, start, column))
        bit = _U(_ONE << _U(column))
        is_free = child.fewest <= 1 and _U(earlier & bit) == 0
        tile = np.int32(0)
        while tile < n:
            rows = _rows_at(tile, n, begin, numbers)
            held = four(_mark, rows, bit, is_free and not are_bits, n_bits, own)
            if is_free and are_bits:
                is_later = _is_single(rows[0], n_bits, child, own) or _is_single(rows[1], n_bits, child, own)
                is_later = (
                    is_later or _is_single(rows[2], n_bits, child, own) or _is_single(rows[3], n_bits, child, own)
                )
                later = _U(later | bit) if is_later else later
            for k in range(4):
                if tile + 32 * k < n:
                    n_nonzero = append_nonzero(held[k] == 0, rows[k], n_nonzero, own)
            tile = next_tile(np.int32(tile + 96))
        column = next_one(column)
    cuda.syncwarp()
    return n_nonzero, or_all(later)


@cuda.jit(device=True, forceinline=True)
def _bits_of_bitmap(n_paths):
    """Logarithm of the words of a bitmap with a few bits per path; larger ones would cost too much to clear."""
    n_bits = np.int32(_FEWEST_BITS)
    while n_bits < _MOST_BITS and np.int32(8 << n_bits) < n_paths:
        n_bits = np.int32(n_bits + 1)
    return n_bits


@cuda.jit(device=True, forceinline=True)
def _rows_at(tile, n, begin, numbers):
    """This lane's rows of the four tiles of a list from `tile` on, -1 behind the end."""
    k = np.int32(tile + cuda.laneid)
    return four(_row_at, (k, np.int32(k + 32), np.int32(k + 64), np.int32(k + 96)), n, begin, numbers)


@cuda.jit(device=True, forceinline=True)
def _row_at(k, n, begin, numbers):
    return numbers[begin + np.uint64(k)] if k < n else _NO_ROW


@cuda.jit(device=True, forceinline=True)
def _place_of(row, n_bits):
    """Word and bit of a row in the bitmap: consecutive rows are in different words."""
    word = _U(_U(row) & _U((_ONE << _U(n_bits)) - _ONE))
    return word, _U(_ONE << _U(_U(_U(row) >> _U(n_bits)) & _U(31)))


@cuda.jit(device=True, forceinline=True)
def _see(row, n_bits, table):
    """Note a row in the first bitmap; return its bit if it was set before."""
    if row < 0:
        return _NONE
    word, bit = _place_of(row, n_bits)
    return _U(cuda.atomic.or_(table, word, bit) & bit)


@cuda.jit(device=True, forceinline=True)
def _see_again(row, met, n_bits, table):
    """Note a row in the second bitmap if its bit in the first one was set before."""
    if met != 0:
        cuda.atomic.or_(table, _second_word(row, n_bits), met)


@cuda.jit(device=True, forceinline=True)
def _second_word(row, n_bits):
    return _U(_place_of(row, n_bits)[0] + _U(_ONE << _U(n_bits)))


@cuda.jit(device=True, forceinline=True)
def _is_several(row, n_bits, table):
    return _U(table[_second_word(row, n_bits)] & _place_of(row, n_bits)[1]) != 0


@cuda.jit(device=True, forceinline=True)
def _is_single(row, n_bits, child, own):
    """True if this is a later row that holds no other column."""
    return row > child.row and not _is_several(row, n_bits, own.table)


@cuda.jit(device=True, forceinline=True)
def _mark(row, column, marks_singles, n_bits, own):
    """Mark that a row holds a column, if it holds several; return its earlier marks, or one if it is not marked.

    If the walk `marks_singles`, so are rows that hold no other column.
    """
    if row >= 0 and _is_several(row, n_bits, own.table):
        return cuda.atomic.or_(own.bits, _U(row), column)
    if row >= 0 and marks_singles:
        own.bits[_U(row)] = column
        return _NONE
    return _ONE


@cuda.jit(device=True, forceinline=True)
def visit_subgraph_child(number, row, own, pool, output, launch):
    """Visit a child of a subgraph, given by its row; it may leave a frame on the (empty) stack, or a new subgraph.

    Its rows are found, its sizes bounded; it is emitted, its columns are chosen, and it is opened. Returns `DONE`, or
    `PAUSED`: memory was short, and the child has to be visited again in the next quantum.
    """
    node = node_at(number, pool)
    child = _child_at(node, row, pool.ints)
    is_constrained = has_constraints(launch.mode, pool)
    is_grouped = is_grouped_root(number, node, child, pool, launch.mode)
    left_most = np.int32(0)
    if is_grouped:
        left_most = left_size_of_root(node, child, pool)
    elif is_constrained:
        left_most = sum_small(left_sizes(node, child, True, pool, launch.mode)[1])
    if is_constrained and left_most < pool.constraints[MIN_LEFT]:
        return layout.DONE
    verdict = Verdict(True, False, np.int32(0))
    if launch.mode == layout.WITHIN:
        verdict = _first_verdict(number, node, child, left_most, pool, launch)
    status = layout.DONE
    columns = all_columns(child.n_left)
    rows = no_rows()
    n_pairs = np.int32(0)
    if is_grouped:
        fits, rows, columns = find_groups(node, child, own, pool, launch)
        status = layout.DONE if fits else layout.PAUSED
        seen = Seen(True, rows.n_nonzero, Singles(_NONE, _NONE))
    else:
        child = _with_fewest(child, left_most, is_constrained, pool, launch)
        seen, n_pairs = _see_rows(node, child, verdict, own, pool.ints, launch)
        child = _with_whole(child, seen.is_list, own, launch.mode)
    is_hopeless = False
    if is_constrained and (launch.mode >= layout.SIZES or not verdict.is_wanted):
        right_least, right_most = right_bounds(seen, node, child, not verdict.is_settled, own, pool)
        is_hopeless = not verdict.is_settled and not allows(left_most, right_least, right_most, pool)
        if launch.mode == layout.WITHIN:
            is_known = verdict.is_settled or is_settled(left_most, right_least + 1, pool, launch)
            verdict = Verdict(accepts(left_most, right_least, pool.constraints), is_known, right_least)
    if is_hopeless or status != layout.DONE:
        columns = no_columns()
    elif seen.is_list:
        if not is_grouped:
            rows = look_at_rows(child, seen.n_nonzero, n_pairs, own, launch.mode)
        status, rows, columns = _visit_list_child(
            node, child, rows, columns, is_grouped, left_most, verdict, own, pool, output, launch
        )
        seen = Seen(True, rows.n_nonzero, seen.singles)
    else:
        if launch.mode >= layout.SIZES and cuda.laneid < child.n_left:
            own.columns[_U(cuda.laneid)] = cuda.laneid
        cuda.syncwarp()
    if status == layout.DONE:
        status = _open_child(node, child, columns, rows, seen, verdict, own, pool, launch)
    cuda.syncwarp()
    clear_accumulator(seen, own)
    if cuda.laneid == 0:
        # If a child is visited again because memory was short, its written bicliques are skipped.
        if status == layout.DONE:
            own.state[layout.EMITTED] = 0
        if seen.is_list:
            own.state[layout.N_LISTS] += 1
    cuda.syncwarp()
    return status


@cuda.jit(device=True, forceinline=True)
def _child_at(node, row, numbers):
    """Return the child of a row."""
    first = numbers[entry(node, node.row_offsets + row)]
    n_left = np.int32(numbers[entry(node, node.row_offsets + row + 1)] - first)
    return Child(row, _U(node.row_members + _U(first)), n_left, n_left, np.int32(ANY))


@cuda.jit(device=True, forceinline=True)
def _first_verdict(number, node, child, left_most, pool, launch):
    """The `Verdict` on a child before its rows are known: from the rows of its path, and from its own."""
    right_least = np.int32(pool.nodes[number, layout.NODE_RIGHT] + 1)
    if not is_settled(left_most, right_least, pool, launch):
        row = pool.ints[entry(node, node.row_ids + child.row)]
        right_least = np.int32(right_least - 1 + pool.row_multiplicities[_U(row)])
    is_wanted = is_settled(left_most, right_least, pool, launch)
    # All rows that hold a single column hold the whole left set.
    is_below = is_settled(left_most, np.int32(right_least + (child.n_left > 1)), pool, launch)
    return Verdict(is_wanted, is_below, right_least)


@cuda.jit(device=True, forceinline=True)
def _is_list(child, launch):
    return child.n_left > (layout.WORD_BITS if launch.techniques & WORDS != 0 else 0)


@cuda.jit(device=True, forceinline=True)
def _with_whole(child, is_list, own, mode):
    """Return a child with the count of a row that holds all of its left set, once rows are counted."""
    whole = child.n_left
    if layout.COUNT < mode < layout.MEMBERS and is_list:
        whole = own.counts[_U(child.row)]
    return Child(child.row, child.left_at, child.n_left, whole, child.fewest)


@cuda.jit(device=True, forceinline=True)
def _with_fewest(child, left_most, is_constrained, pool, launch):
    """Return a child with what its rows have to hold.

    A row of a wanted biclique holds all of its left side. In a word, columns are counted: a row holds no more of the
    user's vertices than its columns and all further twins of the left set.
    """
    is_list = _is_list(child, launch)
    fewest = np.int32(ANY)
    if is_constrained and not is_list:
        fewest = np.int32(pool.constraints[MIN_LEFT] - (left_most - child.n_left))
    elif is_constrained and launch.mode < layout.MEMBERS:
        fewest = np.int32(pool.constraints[MIN_LEFT])
    return Child(child.row, child.left_at, child.n_left, child.n_left, fewest)


@cuda.jit(device=True, forceinline=True)
def _see_rows(node, child, verdict, own, numbers, launch):
    """Find the rows that see a child, and, for a list child, the number of paths to later ones."""
    is_list = _is_list(child, launch)
    singles = Singles(_U(0), _U(0))
    n_nonzero, n_pairs = np.int32(0), np.int32(0)
    are_bits = launch.mode == layout.COUNT or verdict.is_settled
    if is_list:
        n_nonzero, n_pairs = count_paths(node, child, own, numbers, launch)
    else:
        clear_subsets(own.subsets)
        if launch.mode < layout.SIZES and are_bits and node.shift > 0:
            is_known = launch.mode == layout.COUNT or verdict.is_wanted
            is_small = is_known and child.n_left <= widest(launch)
            n_nonzero, earlier, later = combine_bitmaps(node, child, is_small, own, numbers)
            singles = Singles(earlier, later)
        else:
            n_nonzero, singles = mark_rows(node, child, are_bits, own, numbers)
    return Seen(is_list, n_nonzero, singles), n_pairs


@cuda.jit(device=True, forceinline=True)
def _open_child(node, child, columns, rows, seen, verdict, own, pool, launch):
    """Make a child a subgraph or a bitset frame; finish it at once if it is only counted, or keeps no columns."""
    if columns.n_columns > (layout.WORD_BITS if launch.techniques & WORDS != 0 else 0):
        return build_subgraph(node, child, columns, rows, verdict, own, pool, launch)
    if columns.n_columns <= 0:
        return layout.DONE
    # A frame has the sizes of merged columns, which decide in `WITHIN`.
    are_single = launch.mode != layout.WITHIN or not seen.is_list
    if are_single and columns.n_columns <= widest(launch):
        n_below = count_small(node, child, columns.n_columns, seen, verdict, own, pool, launch.mode)
        if launch.mode == layout.COUNT or n_below <= 0 or verdict.is_settled:
            if cuda.laneid == 0:
                own.state[layout.FOUND] += n_below
                own.state[layout.N_CLOSED_SETS] += 1
            return layout.DONE
    return open_bitset_frame(node, child, columns, seen, verdict, own, pool, launch)


@cuda.jit(device=True, forceinline=True)
def _visit_list_child(node, child, rows, columns, is_grouped, left_most, verdict, own, pool, output, launch):
    """Write a list child unless an earlier row holds its whole left set, and find the columns of its subtree.

    If at most 32 are left, `bits` has the columns of each row. If `is_grouped`, `columns` are its groups. Its left set
    has `left_most` of the user's vertices; 0 if that is not known.

    Returns a status, the `Rows` and the `Columns`. The rows that hold a group may have changed.
    """
    if rows.most_earlier == child.whole:
        return layout.DONE, rows, no_columns()
    if own.state[layout.EMITTED] == 0:
        if launch.mode < layout.SIZES:
            if cuda.laneid == 0:
                own.state[layout.FOUND] += verdict.is_wanted
        elif not emit_list(node, child, rows.n_nonzero, left_most, own, pool, output, launch):
            ask_to_stop(launch.control, layout.OUTPUT_FULL)
            return layout.PAUSED, rows, no_columns()
        cuda.syncwarp()
        if cuda.laneid == 0:
            own.state[layout.EMITTED] = 1
    if is_grouped:
        n_nonzero, n_pairs = note_rows(columns, rows, node, child, own, pool.ints)
        rows = Rows(n_nonzero, n_pairs, rows.n_candidates, rows.n_full, rows.most_earlier)
        needed = np.int32(record_of(columns) + 2 * n_pairs)
        if columns.n_columns > layout.WORD_BITS and not ask_for_words(needed, own.words, launch):
            return layout.PAUSED, rows, no_columns()
        return layout.DONE, rows, columns
    columns = keep_columns(node, child, rows, own, pool.ints, launch.mode, launch.techniques)
    if launch.techniques & WORDS != 0 and 0 < columns.n_columns <= layout.WORD_BITS:
        walk_kept(MARK, 1, node, columns, rows, node, child, own, pool.ints, launch)
    return layout.DONE, rows, columns

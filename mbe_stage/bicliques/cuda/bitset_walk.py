"""Nodes with at most 32 left vertices, on a warp's own stack: lanes over rows, one word per row.

In the arena of words a frame keeps its candidates' rows (distinct, ascending, none dominated), then the excluded rows.
If bicliques are written, its *superset* follows: every row that can be in a right side below, with ids in the arena of
ints. The columns of all frames of a stack are bits of the same 32; the header of ints has their vertices.

Iteration replaces recursion, in memory that all nodes of a subtree share: node reuse in GMBE (idea 1 of its slides) and
GMBE+ IV-A 1, loop-based depth-first search in cuMBE 4.2. There one node's vertices carry the depth at which they left.
Here each frame keeps its part of its parent's rows, behind the parent in one arena. Rows as bitmaps of at most 32
columns, from the same threshold on: GMBE+ IV-B.

A subgraph's child with few columns is counted by its closed sets, or becomes the first frame of the warp's stack. Its
rows are in `bits`. A bitmap child (at most 32 left vertices) is examined here for the first time: a row that holds
all of them is full. A list child is known to be maximal and is written already. Its full rows are in `counts`, and its
columns are those that its candidates hold.

The first frame has one child, which represents the subgraph's: its row is all columns. So bitset frames are processed,
and above all written, in one place.
"""

from __future__ import annotations

import numpy as np
from numba import cuda

from mbe_stage.bicliques.cuda import layout
from mbe_stage.bicliques.cuda.bitset_children import (
    NO_MOVES,
    build_child,
    count_child,
    drop_from_superset,
    earlier_rows,
    is_wanted,
    next_candidate,
    restrict_superset,
    set_frame,
)
from mbe_stage.bicliques.cuda.closed_sets import (
    add_subset,
    clear_subsets,
    closed_sets,
    fewest_members,
    subsets_of_lane,
    without_whole,
)
from mbe_stage.bicliques.cuda.count_within import count_child_within, large_enough, with_few
from mbe_stage.bicliques.cuda.emit_bitsets import emit_below
from mbe_stage.bicliques.cuda.row_words import restrict, union_of
from mbe_stage.bicliques.cuda.subgraph_parts import allows, count_ids, entry, has_constraints, write_ids, write_sizes
from mbe_stage.bicliques.cuda.techniques import DOMINATED, SPLITTING
from mbe_stage.bicliques.cuda.two_step_paths import size_at
from mbe_stage.bicliques.cuda.walk_bundles import Earlier, Superset
from mbe_stage.bicliques.cuda.work_donation import (
    ask_for_words,
    ask_to_stop,
    donate_work,
    end_overdue_quantum,
    is_donor,
    read_shared,
)
from mbe_stage.device.warp import ALL, ballot, count_bits, lowest_bits, next_one, next_tile, rank, sum_small

_U = np.uint32
_ONE = _U(1)
_NONE = _U(0)
_LOOK_AT_CLOCK_EVERY = 64
_EVERYTHING = _U(0xFFFFFFFF)


@cuda.jit(device=True, forceinline=True)
def walk_bitset_frames(warp, own, pool, warps, output, launch):
    """Work on the warp's stack of bitset frames until it is empty, or `PAUSED` because the quantum has to end.

    Idle warps may be given children.
    """
    state = own.state
    depth = np.int32(state[layout.DEPTH])
    found = np.int32(0)
    outcome = layout.DONE
    n_visits = np.int32(0)
    n_opened = np.int32(0)
    n_closed_sets = np.int32(0)
    while depth >= 0 and outcome != layout.PAUSED:
        frame = own.frames[_U(depth)]
        cursor, end = frame[layout.CURSOR], frame[layout.END]
        outcome = layout.DONE
        while cursor < end and outcome == layout.DONE:
            n_visits = np.int32(n_visits + 1)
            is_over, end = _look_around(warp, n_visits, cursor, end, depth, own, warps, launch)
            if is_over:
                outcome = layout.PAUSED
                break
            outcome, n_new, is_opened, is_closed = _visit_child(
                cursor, frame, own.frames[_U(depth + 1)], own, pool, output, launch
            )
            n_opened = np.int32(n_opened + is_opened)
            n_closed_sets = np.int32(n_closed_sets + is_closed)
            if outcome != layout.PAUSED:
                found = np.int32(found + n_new)
                cursor = np.int32(cursor + 1)
        cuda.syncwarp()
        if cuda.laneid == 0:
            frame[layout.CURSOR] = cursor
        cuda.syncwarp()
        if outcome != layout.PAUSED:
            depth = np.int32(depth + (1 if outcome == layout.PUSHED else -1))
    found = sum_small(found)
    cuda.syncwarp()
    if cuda.laneid == 0:
        state[layout.DEPTH] = depth
        state[layout.N_OPENED] += n_opened
        state[layout.N_CLOSED_SETS] += n_closed_sets
        if launch.mode < layout.SIZES:
            state[layout.FOUND] += found
    cuda.syncwarp()
    return layout.PAUSED if outcome == layout.PAUSED else layout.DONE


@cuda.jit(device=True, forceinline=True)
def _visit_child(cursor, frame, next_frame, own, pool, output, launch):
    """Take the next candidate, build the child, count it or check its sizes and emit it, then descend.

    `next_frame` becomes the child's frame if its subtree is not finished.

    Returns
    -------
    outcome : int
        `PAUSED`: memory was short, and the child has to be visited again. `PUSHED`: it has a frame. Else `DONE`.
    n_found : int32
        This lane's share of the bicliques, if they are only counted.
    is_opened, is_closed : int32
        1 if candidates were listed; 1 if closed sets were found.
    """
    mode, no = launch.mode, np.int32(0)
    is_constrained = has_constraints(mode, pool)
    child = next_candidate(cursor, frame, own, pool, launch)
    if not is_wanted(child, frame, own.words, pool, launch):
        return layout.DONE, no, no, no
    has_superset = mode > layout.COUNT and (mode >= layout.SIZES or frame[layout.N_SUPERSET] > 0)
    if (has_superset or not child.is_small) and not _has_room_for_child(frame, own.words, launch):
        return layout.PAUSED, no, no, no
    below = build_child(child, frame, own, launch)
    is_opened = np.int32(not child.is_small and child.kind != layout.OF_LIST)
    is_closed = np.int32(child.is_small)
    goes_below = below.n_kept > (2 if launch.techniques & DOMINATED != 0 else 0)
    n_found, n_superset, right_least = no, no, no
    if mode == layout.COUNT:
        n_found = count_child(child, below, goes_below)
    elif mode == layout.WITHIN:
        n_found, n_superset, right_least, is_hopeless = count_child_within(
            child, below, goes_below, cursor, frame, own, pool, output, launch
        )
        goes_below = goes_below and not is_hopeless
    elif ballot(below.closed != 0) != 0 if child.is_small else below.n_kept > 0 or not child.is_written:
        fewest = fewest_members(below.closed) if child.is_small else np.int32(1)
        n_superset, right_least, right_most = restrict_superset(child.left, fewest, cursor, frame, own, pool, mode)
        if is_constrained and not allows(child.left_most, right_least, right_most, pool):
            return layout.DONE, no, is_opened, is_closed
        superset = Superset(frame[layout.WORDS_TOP], n_superset, frame[layout.INTS_TOP])
        if not _emit(child, below, superset, own, pool, output, launch):
            ask_to_stop(launch.control, layout.OUTPUT_FULL)
            return layout.PAUSED, no, is_opened, is_closed
    if goes_below and is_constrained and (mode >= layout.SIZES or n_superset > 0):
        n_superset, right_most = drop_from_superset(child.left, n_superset, below.top, below.n_kept, frame, own, pool)
        goes_below = allows(child.left_most, right_least, right_most, pool)
    if not goes_below:
        return layout.DONE, n_found, is_opened, is_closed
    _push_child(cursor, frame, next_frame, below.top, below.n_kept, n_superset, own, mode)
    return layout.PUSHED, n_found, is_opened, is_closed


@cuda.jit(device=True, forceinline=True)
def _emit(child, below, superset, own, pool, output, launch):
    """Write a child and its finished subtree as far as they are not written; return False if there was no room.

    The superset is restricted to the child's left set.
    """
    is_known = launch.techniques & DOMINATED != 0
    list_at = np.int32(below.top if is_known else below.top + below.n_kept)
    n_listed = np.int32(below.n_listed if is_known else 0)
    if not child.is_small and not child.is_written:
        if cuda.laneid == 0:
            own.words[_U(list_at + n_listed)] = child.left
        n_listed = np.int32(n_listed + 1)
        cuda.syncwarp()
    return emit_below(child, below, list_at, n_listed, superset, own, pool, output, launch)


@cuda.jit(device=True, forceinline=True)
def _look_around(warp, n_visits, cursor, end, depth, own, warps, launch):
    """Donate children if warps are idle. Return True if the quantum has to end, and the end of the own children."""
    if n_visits % _LOOK_AT_CLOCK_EVERY == 0:
        end_overdue_quantum(launch)
    signal = read_shared(launch.control, layout.SIGNAL)
    if signal >= layout.STOP_BIT:
        return True, end
    if signal > 0 and launch.techniques & SPLITTING != 0 and is_donor(warp, n_visits, signal, warps):
        frame = own.frames[_U(depth)]
        if cuda.laneid == 0:
            frame[layout.CURSOR] = cursor
        cuda.syncwarp()
        donate_work(warp, depth, own, warps, launch)
        end = frame[layout.END]
    return False, end


@cuda.jit(device=True, forceinline=True)
def _has_room_for_child(frame, words, launch):
    # The candidates of the child, their common columns, and the child itself; the excluded rows.
    needed = frame[layout.WORDS_TOP] + frame[layout.N_ROWS] + 2 + frame[layout.N_EXCLUDED]
    if launch.mode > layout.COUNT:
        needed = max(needed, frame[layout.INTS_TOP]) + frame[layout.N_SUPERSET]
    return ask_for_words(needed, words, launch)


@cuda.jit(device=True, forceinline=True)
def _push_child(cursor, frame, child, top, n_kept, n_superset, own, mode):
    """Make the child's frame from its superset, its candidates at `top`, and the excluded rows behind them."""
    union = union_of(own.words, top, n_kept)
    excluded_at = np.int32(top + n_kept)
    n_excluded, singles = restrict(own.words, earlier_rows(cursor, frame), union, excluded_at, own.table, mode)
    singles = _U(singles | (_U(frame[layout.SINGLES]) & union))
    if cuda.laneid == 0:
        superset = Superset(frame[layout.WORDS_TOP], n_superset, frame[layout.INTS_TOP])
        words_top = excluded_at + n_excluded
        set_frame(child, layout.BELOW, n_kept, n_kept, n_excluded, singles, top, words_top, superset)
    cuda.syncwarp()


@cuda.jit(device=True, forceinline=True)
def count_small(node, child, n_columns, seen, verdict, own, pool, mode):
    """Count the bicliques of a child and its subtree, if its subsets of columns fit a closed-set bitmap.

    If it is no list, `subsets` is empty before, or has its rows already.
    """
    subsets = own.subsets
    if seen.is_list:
        clear_subsets(subsets)
    tile = np.int32(0)
    while tile < seen.n_nonzero:
        row = _NONE
        other = np.int32(0)
        if np.int32(tile + cuda.laneid) < seen.n_nonzero:
            other = own.nonzero[_U(tile + cuda.laneid)]
            row = own.bits[_U(other)]
        if mode == layout.WITHIN and count_bits(row) < child.fewest:
            row = _NONE
        add_subset(subsets, row, other < child.row)
        tile = next_tile(tile)
    column = _U(_ONE << _U(cuda.laneid))
    add_subset(subsets, _U(seen.singles.later & column), False)
    add_subset(subsets, _U(seen.singles.earlier & column), True)
    candidates, excluded = subsets_of_lane(subsets)
    closed = closed_sets(candidates, excluded, n_columns)
    if seen.is_list:
        closed = without_whole(closed, candidates, n_columns)
    if mode == layout.WITHIN:
        if not verdict.is_wanted:
            closed = without_whole(closed, _NONE, n_columns)
        few = with_few(closed, pool)
        if cuda.any_sync(ALL, few != 0):
            multiplicity = size_at(np.int32(cuda.laneid), node, child, pool.ints)
            closed = large_enough(closed, few, lowest_bits(n_columns), NO_MOVES, multiplicity, pool)
    return sum_small(count_bits(closed))


@cuda.jit(device=True, forceinline=True)
def open_bitset_frame(node, child, columns, seen, verdict, own, pool, launch):
    """Make the child the only child of a first frame, unless an earlier row holds its whole left set.

    `columns` are those of the word in use.
    """
    words, mode, n_columns = own.words, launch.mode, columns.n_columns
    # The excluded rows as given, the child, its candidates, the kept excluded rows; the superset.
    first = np.int32(seen.n_nonzero)
    superset = np.int32(first + 1 + seen.n_nonzero + layout.WORD_BITS)
    ints_at = np.int32(layout.HEADER_IDS)
    needed = superset
    if mode >= layout.MEMBERS:
        ints_at = np.int32(ints_at + count_ids(node, child, own, pool.ints))
    has_superset = mode > layout.COUNT and not verdict.is_settled
    if mode > layout.COUNT:
        needed = np.int32(max(superset, ints_at))
    if has_superset:
        needed = np.int32(needed + node.n_path + seen.n_nonzero)
    if not ask_for_words(needed, words, launch):
        return layout.PAUSED
    # A single column is the whole left set only if there is no other; then nothing is below.
    later, earlier = seen.singles.later if n_columns > 1 else _NONE, seen.singles.earlier
    full = lowest_bits(n_columns)
    empty = Superset(superset, np.int32(0), ints_at)
    n_candidates, n_excluded, n_superset, is_excluded = _split_rows(
        full, node, child, seen, first, empty, has_superset, own, pool
    )
    is_excluded = is_excluded or (n_columns == 1 and earlier != 0)
    if is_excluded or (seen.is_list and n_candidates == 0):
        return layout.DONE
    if _U(later & _U(_ONE << _U(cuda.laneid))) != 0:
        words[_U(first + 1 + n_candidates + rank(later))] = _U(_ONE << _U(cuda.laneid))
    cuda.syncwarp()
    n_candidates = np.int32(n_candidates + count_bits(later))
    excluded_at = np.int32(first + 1 + n_candidates)
    union = union_of(words, first + 1, n_candidates)
    given = Earlier(np.int32(0), n_excluded, n_excluded, np.int32(0))
    n_excluded, excluded_singles = restrict(words, given, union, excluded_at, own.table, mode)
    excluded_singles = _U(excluded_singles | (earlier & union))
    if mode > layout.COUNT:
        _write_header(node, child, columns, seen.is_list, own, pool, mode)
    if cuda.laneid == 0:
        words[_U(first)] = full
        kind = layout.OF_LIST if seen.is_list or mode == layout.WITHIN else layout.OF_BITMAP
        n_rows, words_top = 1 + n_candidates, superset + n_superset
        filled = Superset(superset, n_superset, ints_at)
        set_frame(own.frames[0], kind, 1, n_rows, n_excluded, excluded_singles, first, words_top, filled)
        own.state[layout.DEPTH] = 0
        if mode == layout.WITHIN and not seen.is_list:
            # The child is counted here. Below, it is like one of a list.
            own.state[layout.FOUND] += verdict.is_wanted
    cuda.syncwarp()
    return layout.DONE


@cuda.jit(device=True, forceinline=True)
def _split_rows(full, node, child, seen, first, superset, has_superset, own, pool):
    """Move excluded rows to the bottom of the arena, and candidates behind the child's row, which is at `first`.

    If there is a superset, fill it, too: every row that can be in a right side below, those of the path and the later
    ones. Returns the numbers of candidates, excluded rows and rows of the superset, and True if an excluded row holds
    the whole left set, `full`.
    """
    lane = np.int32(cuda.laneid)
    words, numbers = own.words, pool.ints
    candidates_at = np.int32(first + 1)
    n_candidates = np.int32(0)
    n_excluded = np.int32(0)
    n_superset = _lay_path(node, superset, own, numbers) if has_superset else np.int32(0)
    is_excluded = False
    tile = np.int32(0)
    while tile < seen.n_nonzero:
        row = _NONE
        other = child.row
        is_full = False
        if np.int32(tile + lane) < seen.n_nonzero:
            other = own.nonzero[_U(tile + lane)]
            row = own.bits[_U(other)]
            is_full = row == full
            if seen.is_list:
                # No earlier row of a list is full, and its count may be a tag (`subgraph_build`).
                is_full = other >= child.row and own.counts[_U(other)] == child.whole
        if is_full and other < child.row:
            is_excluded = True
        is_part = row != 0 and not is_full and (seen.is_list or count_bits(row) >= child.fewest)
        is_later = is_part and other > child.row
        is_earlier = is_part and other < child.row
        later = ballot(is_later)
        earlier = ballot(is_earlier)
        if is_later:
            words[_U(candidates_at + n_candidates + rank(later))] = row
        if is_earlier:
            words[_U(n_excluded + rank(earlier))] = row
        if has_superset:
            in_superset = is_later or (is_full and other >= child.row)
            mask = ballot(in_superset)
            if in_superset:
                place = np.int32(n_superset + rank(mask))
                words[_U(superset.rows + place)] = _EVERYTHING if is_full else row
                own.ints[_U(superset.ids + place)] = numbers[entry(node, node.row_ids + other)]
            n_superset = np.int32(n_superset + count_bits(mask))
        n_candidates = np.int32(n_candidates + count_bits(later))
        n_excluded = np.int32(n_excluded + count_bits(earlier))
        tile = next_tile(tile)
    cuda.syncwarp()
    return n_candidates, n_excluded, n_superset, cuda.any_sync(ALL, is_excluded)


@cuda.jit(device=True, forceinline=True)
def _lay_path(node, superset, own, numbers):
    """Copy the rows of the path, which hold everything, to the beginning of the superset; return their number."""
    k = np.int32(cuda.laneid)
    while k < node.n_path:
        own.words[_U(superset.rows + k)] = _EVERYTHING
        own.ints[_U(superset.ids + k)] = numbers[entry(node, node.path + k)]
        k = next_tile(k)
    return np.int32(node.n_path)


@cuda.jit(device=True, forceinline=True)
def _write_header(node, child, columns, is_list, own, pool, mode):
    """Write the vertices of the stack's columns: see `layout.HEADER_IDS`."""
    lane = np.int32(cuda.laneid)
    n, ids = np.int32(layout.WORD_BITS), np.int64(layout.HEADER_IDS)
    if mode == layout.WITHIN:
        at = np.int64(layout.HEADER_MULTIPLICITIES)
        if is_list:
            write_sizes(node, child, columns, own, own.ints, at, n, pool.ints, mode)
        else:
            own.ints[_U(layout.HEADER_MULTIPLICITIES + lane)] = size_at(lane, node, child, pool.ints)
        cuda.syncwarp()
        return
    write_ids(node, child, columns, own, own.ints, np.int64(0), n, ids, pool.ints, mode)
    multiplicity = np.int32(0)
    k = own.ints[_U(lane)]
    end = own.ints[_U(lane + 1)]
    if mode < layout.MEMBERS:
        multiplicity = np.int32(end - k)
    while mode >= layout.MEMBERS and k < end:
        multiplicity = np.int32(multiplicity + pool.column_multiplicities[_U(own.ints[_U(layout.HEADER_IDS + k)])])
        k = next_one(k)
    own.ints[_U(layout.HEADER_MULTIPLICITIES + lane)] = multiplicity
    cuda.syncwarp()

"""Nodes with at most 64 left vertices: a row is one word. Nearly all nodes are of this kind.

A frame is built from raw candidate rows: sort, merge, drop dominated rows, restrict excluded ones. In the arena of
words a node keeps its candidates' rows (distinct, ascending, none dominated) and behind them the rows of its excluded
vertices. If members are wanted, the arena of ints holds the groups, the right vertices behind each candidate row:
``n_rows + 1`` starts and then the ids.

All nodes of a subtree share one piece of memory: node reuse of GMBE+ IV-A 1. Rows as bitmaps: GMBE+ IV-B, there of 32
bits.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from mbe_stage.bicliques.constraints import ACTIVE, MIN_LEFT
from mbe_stage.bicliques.cpu import layout
from mbe_stage.bicliques.cpu.closed_sets import (
    CLOSED_SET_WIDTH,
    bit_masks,
    closed_sets,
    column_groups,
    subsets_of,
    subsets_of_singles,
)
from mbe_stage.bicliques.cpu.emit import (
    drop_too_small,
    emit_closed_sets,
    emit_word,
    is_hopeless,
    path_multiplicity,
    word_multiplicity,
)
from mbe_stage.bicliques.cpu.row_words import (
    drop_dominated,
    drop_dominated_with_payload,
    is_excluded,
    merge_equal,
    restrict_distinct,
    sort_rows,
    sort_rows_with_payload,
    table_size,
)
from mbe_stage.bicliques.cpu.techniques import CLOSED_SETS, COLUMN_GROUPS, DOMINATED
from mbe_stage.bits import popcount
from mbe_stage.runtime.jit import compiled
from mbe_stage.search.cpu.quanta import OK, OUTPUT_FULL, QUANTUM_OVER

_U = np.uint64


@compiled(nrt=False)
def push_bitset_frame(top, raw_end, excluded, behind, n_path, columns_at, worker, output):
    """Make a frame from the raw candidate rows ``words[top:raw_end]``, unless there is nothing below it.

    The arena must have room for the rows, all excluded ones and their hash table. The entries behind the rows are used
    only if members are wanted; the arena of ints is free behind the payload.

    Parameters
    ----------
    top : int
        Top of the arena of words.
    raw_end : int
        One past the last of the rows, which begin at `top`.
    n_path : int
        Right members on the path.
    columns_at : int
        Position of the columns' starts and ids in the arena of ints.
    """
    words, control, frames = worker.words, worker.control, worker.frames
    depth = control[layout.DEPTH]
    ints_start = ints_top = behind.payload
    multiplicity = 0
    kept_end = raw_end
    # Two thirds of the rows are dominated: looking at each is cheaper than sorting them all.
    if output is None:
        if DOMINATED:
            kept_end = drop_dominated(words, top, raw_end, excluded)
        sort_rows(words, top, kept_end)
        kept_end = merge_equal(words, top, kept_end)
        if DOMINATED and kept_end == top + 1:
            control[layout.COUNT] += 1
            return
    else:
        if DOMINATED:
            kept_end = drop_dominated_with_payload(words, top, raw_end, excluded, worker.ints, behind.payload)
        sort_rows_with_payload(words, top, kept_end, worker.ints, behind.payload)
        kept_end, ints_start, ints_top, multiplicity = _merge_into_groups(top, kept_end, behind, worker, output)
    # Every left set below lies inside some candidate, so excluded rows only matter in what the candidates cover.
    union = _U(0)
    for k in range(top, kept_end):
        union |= words[k]
    if output is not None and output.constraints[ACTIVE]:
        right_least = path_multiplicity(worker.path, n_path, output.right_multiplicities)
        left_most = word_multiplicity(union, columns_at, worker.ints, output.left_multiplicities)
        if is_hopeless(left_most, right_least, right_least + multiplicity, output.constraints):
            return
    if kept_end == top:
        return
    n_all = excluded.end - excluded.start + excluded.siblings_end - excluded.siblings
    table_at = kept_end + n_all
    table_end = table_at + table_size(n_all)
    words[table_at:table_end] = _U(0)
    singles = excluded.singles & union
    end, singles = restrict_distinct(
        words, excluded.start, excluded.end, union, kept_end, kept_end, singles, table_at, table_end
    )
    end, singles = restrict_distinct(
        words, excluded.siblings, excluded.siblings_end, union, kept_end, end, singles, table_at, table_end
    )
    depth += 1
    frames[depth, layout.KIND] = layout.BITSET
    frames[depth, layout.FIRST] = 0
    frames[depth, layout.CURSOR] = 0
    frames[depth, layout.END] = kept_end - top
    frames[depth, layout.N_ROWS] = kept_end - top
    frames[depth, layout.N_EXCLUDED] = end - kept_end
    frames[depth, layout.SINGLES] = np.int64(singles)
    frames[depth, layout.WORDS] = top
    frames[depth, layout.WORDS_TOP] = end
    frames[depth, layout.INTS] = ints_start
    frames[depth, layout.INTS_TOP] = ints_top
    frames[depth, layout.COLUMNS] = columns_at
    frames[depth, layout.N_PATH] = n_path
    control[layout.DEPTH] = depth


@njit(inline="always")
def _merge_into_groups(top, end, behind, worker, output):
    """Merge equal (sorted) rows, and collect the right vertices of each that is kept.

    Returns
    -------
    kept_end, ints_start, ints_top, multiplicity : int
        End of the rows, begin and end of their groups in the arena of ints, and the number of the user's right vertices
        in them.
    """
    words, ints = worker.words, worker.ints
    n_rows = end - top
    starts_at = behind.payload + n_rows
    new_ids_at = starts_at + n_rows + 1
    kept_end = top
    n_ids = 0
    multiplicity = 0
    for k in range(top, end):
        if k == top or words[k] != words[kept_end - 1]:
            words[kept_end] = words[k]
            ints[starts_at + kept_end - top] = n_ids
            kept_end += 1
        number = ints[behind.payload + k - top]
        if behind.groups == layout.NO_GROUPS:
            ints[new_ids_at + n_ids] = number
            multiplicity += output.right_multiplicities[number]
            n_ids += 1
            continue
        group = behind.groups + number
        for j in range(behind.ids + ints[group], behind.ids + ints[group + 1]):
            ints[new_ids_at + n_ids] = ints[j]
            multiplicity += output.right_multiplicities[ints[j]]
            n_ids += 1
    # The ids must stand right behind the starts: move them down over the unused ones.
    n_kept = kept_end - top
    ints[starts_at + n_kept] = n_ids
    final_ids_at = starts_at + n_kept + 1
    for j in range(n_ids):
        ints[final_ids_at + j] = ints[new_ids_at + j]
    return kept_end, starts_at, final_ids_at + n_ids, multiplicity


@compiled(nrt=False)
def walk_bitset_frames(worker, output, work_limit):
    """Work on the deepest frame, a bitset frame, and everything below it.

    Returns
    -------
    int
        ``OK`` when the node is finished and popped, else why the walk stopped; it can continue from there.
    """
    frames, words, control, masks = worker.frames, worker.words, worker.control, worker.masks
    depth = control[layout.DEPTH]
    while depth >= 0 and frames[depth, layout.KIND] == layout.BITSET:
        if depth + 2 > frames.shape[0]:
            control[layout.NEEDED] = 2 * frames.shape[0]
            return layout.FRAMES_SHORT
        rows_at = frames[depth, layout.WORDS]
        excluded_at = rows_at + frames[depth, layout.N_ROWS]
        excluded_end = excluded_at + frames[depth, layout.N_EXCLUDED]
        singles = _U(frames[depth, layout.SINGLES])
        end = rows_at + frames[depth, layout.END]
        row_at = rows_at + frames[depth, layout.CURSOR]
        steps = 8 + ((excluded_end - rows_at) >> 2)
        status = OK
        while row_at < end:
            if control[layout.WORK] >= work_limit:
                status = QUANTUM_OVER
                break
            control[layout.WORK] += steps
            control[layout.VISITED] += 1
            left = words[row_at]
            if CLOSED_SETS and output is None and popcount(left) <= CLOSED_SET_WIDTH:
                # Counting needs no list of the child's rows. Its own row is one: its left set is a result itself.
                bit_masks(left, masks)
                forbidden = subsets_of(words, excluded_at, excluded_end, left, masks)
                forbidden |= subsets_of(words, rows_at, row_at, left, masks) | subsets_of_singles(singles, masks)
                candidates = subsets_of(words, row_at, excluded_at, left, masks)
                control[layout.COUNT] += popcount(closed_sets(candidates, forbidden))
                row_at += 1
                continue
            n_out, left_used, right_used = control[layout.N_OUT], control[layout.LEFT_USED], control[layout.RIGHT_USED]
            count = control[layout.COUNT]
            excluded = layout.Excluded(excluded_at, excluded_end, singles, rows_at, row_at)
            status = _visit_child(left, excluded, depth, worker, output)
            if status != OK:
                control[layout.N_OUT], control[layout.LEFT_USED], control[layout.RIGHT_USED] = (
                    n_out,
                    left_used,
                    right_used,
                )
                control[layout.COUNT] = count
                break
            row_at += 1
            if control[layout.DEPTH] != depth:
                break
        frames[depth, layout.CURSOR] = row_at - rows_at
        if status != OK:
            return status
        if control[layout.DEPTH] == depth:
            control[layout.DEPTH] = depth - 1
        depth = control[layout.DEPTH]
    return OK


@njit(inline="always")
def _is_too_small(left, columns_at, ints, output):
    """True if a left set stands for fewer of the user's vertices than are wanted."""
    constraints = output.constraints
    return (
        constraints[ACTIVE]
        and word_multiplicity(left, columns_at, ints, output.left_multiplicities) < constraints[MIN_LEFT]
    )


@njit(inline="always")
def _visit_child(left, excluded, depth, worker, output):
    """Visit a child, a maximal biclique; push it unless its subtree is finished on the spot.

    The node's rows stand between its earlier siblings, which are excluded for the child, and its excluded rows.
    """
    words, ints, control, frames, masks = worker.words, worker.ints, worker.control, worker.frames, worker.masks
    if output is not None and _is_too_small(left, frames[depth, layout.COLUMNS], ints, output):
        return OK
    if not DOMINATED and is_excluded(left, words, excluded):
        return OK
    top, ints_top = frames[depth, layout.WORDS_TOP], frames[depth, layout.INTS_TOP]
    rows_at, row_at, rows_end = excluded.siblings, excluded.siblings_end, excluded.start
    n_all_excluded = excluded.end - excluded.start + row_at - rows_at
    needed = top + rows_end - rows_at + n_all_excluded + table_size(n_all_excluded)
    if needed > words.size:
        control[layout.NEEDED] = needed
        return layout.WORDS_SHORT
    raw_end = top
    n_path = frames[depth, layout.N_PATH]
    columns_at = frames[depth, layout.COLUMNS]
    groups_at = frames[depth, layout.INTS]
    ids_at = groups_at + rows_end - rows_at + 1
    behind = layout.Behind(ints_top, groups_at, ids_at)
    if output is None:
        for k in range(row_at + 1, rows_end):
            row = words[k] & left
            words[raw_end] = row
            raw_end += (row != _U(0)) & (row != left)
        control[layout.COUNT] += 1
    else:
        needed = ints_top + 2 * (rows_end - rows_at) + 2 + ints_top - ids_at
        if needed > ints.size:
            control[layout.NEEDED] = needed
            return layout.INTS_SHORT
        for k in range(row_at, rows_end):
            row = words[k] & left
            if row == left:
                group = groups_at + k - rows_at
                for j in range(ids_at + ints[group], ids_at + ints[group + 1]):
                    worker.path[n_path] = ints[j]
                    n_path += 1
            elif row != _U(0):
                words[raw_end] = row
                ints[ints_top + raw_end - top] = k - rows_at
                raw_end += 1
        if not emit_word(left, columns_at, n_path, top, top, behind, worker, output):
            return OUTPUT_FULL
        raw_end = drop_too_small(words, top, raw_end, columns_at, ints, ints_top, output)
    if raw_end == top:
        return OK
    if COLUMN_GROUPS and column_groups(words, top, raw_end, masks):
        forbidden = subsets_of(words, excluded.start, excluded.end, left, masks)
        forbidden |= subsets_of(words, rows_at, row_at, left, masks) | subsets_of_singles(excluded.singles, masks)
        closed = closed_sets(subsets_of(words, top, raw_end, left, masks), forbidden)
        if output is None:
            control[layout.COUNT] += popcount(closed)
        elif not emit_closed_sets(closed, columns_at, n_path, top, raw_end, behind, worker, output):
            return OUTPUT_FULL
        return OK
    push_bitset_frame(top, raw_end, excluded, behind, n_path, columns_at, worker, output)
    return OK

"""Nodes with at most 64 left vertices: a row is one word. Nearly all nodes are of this kind.

A frame is built from raw candidate rows: sort, merge, drop dominated rows, restrict excluded ones. In the arena of
words a node keeps its candidates' rows (distinct, ascending, none dominated) and behind them the rows of its excluded
vertices. If members are wanted, the arena of ints holds the groups, the right vertices behind each candidate row:
``n_rows + 1`` starts and then the ids. If only sizes are, the topmost node holds the number of these vertices. The
nodes below it count right vertices with its rows (`layout.Weighed`), so all but the topmost work as in counting.

All nodes of a subtree share one piece of memory: node reuse of GMBE+ IV-A 1. Rows as bitmaps: GMBE+ IV-B, there of 32
bits.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from mbe_stage.bicliques.constraints import ACTIVE, MAX_LEFT, MIN_RIGHT
from mbe_stage.bicliques.cpu import layout
from mbe_stage.bicliques.cpu.closed_sets import (
    CLOSED_SET_WIDTH,
    TOUCHING,
    closed_sets,
    column_groups,
    singles_inside,
    subsets_inside,
    subsets_of,
    subsets_of_singles,
    wide_subsets,
)
from mbe_stage.bicliques.cpu.emit import (
    UNWEIGHED,
    count_each,
    count_left_set,
    count_size,
    emit_word,
    is_hopeless,
    is_wide,
    medium_columns,
    needs_weights,
    path_multiplicity,
    right_weight,
    take_closed_sets,
    word_weight,
)
from mbe_stage.bicliques.cpu.row_words import (
    drop_dominated,
    is_excluded,
    merge_equal,
    restrict_distinct,
    sort_rows,
    table_size,
)
from mbe_stage.bicliques.cpu.techniques import CLOSED_SETS, COLUMN_GROUPS, DOMINATED
from mbe_stage.bits import extract_bits, popcount
from mbe_stage.runtime.jit import compiled
from mbe_stage.search.cpu.quanta import OK, OUTPUT_FULL, QUANTUM_OVER

_U = np.uint64
_ONE = _U(1)


@compiled(nrt=False)
def push_bitset_frame(top, raw_end, excluded, behind, weighed, n_path, columns, worker, sizes, output):
    """Make a frame from the raw candidate rows ``words[top:raw_end]``, unless there is nothing below it.

    The arena must have room for the rows, all excluded ones and their hash table. The entries behind the rows are used
    only if members are wanted, or if the rows are `weighed` themselves; the arena of ints is free behind the payload.
    The top of the arena of words is `top`, and there are `n_path` right members on the path.
    """
    words, control, frames = worker.words, worker.control, worker.frames
    depth = control[layout.DEPTH]
    if output is None:
        has_weights = weighed.start == top and needs_weights(n_path, sizes)
        kept_end = _settle_rows(top, raw_end, excluded, behind, has_weights, worker)
        ints_top = behind.payload + (kept_end - top if has_weights else 0)
        if weighed.start == top:
            weighed = layout.Weighed(top, kept_end, behind.payload, n_path)
        if DOMINATED and kept_end == top + 1:
            count_left_set(words[top], n_path, weighed, columns, worker, sizes)
            return
        ints_start, n_least, n_most = weighed.weights, n_path, np.int64(0)
    else:
        kept_end = raw_end
        if DOMINATED:
            kept_end = drop_dominated(words, top, raw_end, excluded, worker.ints, behind.payload)
        sort_rows(words, top, kept_end, worker.ints, behind.payload)
        kept_end, ints_start, ints_top, n_most = _merge_into_groups(top, kept_end, behind, worker, sizes)
        n_least = path_multiplicity(worker.path, n_path, sizes)
    if kept_end == top:
        return
    # Every left set below lies inside some candidate, so excluded rows only matter in what the candidates cover.
    union = _U(0)
    for k in range(top, kept_end):
        union |= words[k]
    if sizes.constraints[ACTIVE] and (output is not None or needs_weights(n_path, sizes)):
        left_most = word_weight(union, columns, worker.ints)
        n_rows = kept_end - top if output is None else n_most
        if is_hopeless(left_most, n_least + 1, n_least + n_rows, sizes.constraints):
            # A row stands for one right vertex at least.
            if output is None:
                n_most = _candidate_weight(top, kept_end, union, weighed, worker)
            if output is not None or is_hopeless(left_most, n_least + 1, n_least + n_most, sizes.constraints):
                return
    children_end = kept_end
    if sizes.are_exact:
        # Left sets below a child hold what it has in common with all later rows.
        common = ~_U(0)
        while children_end > top:
            common &= words[children_end - 1]
            if word_weight(common, columns, worker.ints) <= sizes.constraints[MAX_LEFT]:
                break
            children_end -= 1
        if children_end == top:
            return
    end, singles = restrict_distinct(words, excluded, union, kept_end, columns.heavy, sizes.least_in_words)
    depth += 1
    frames[depth, layout.KIND] = layout.BITSET
    frames[depth, layout.FIRST] = frames[depth, layout.CURSOR] = 0
    frames[depth, layout.END] = children_end - top
    frames[depth, layout.N_ROWS] = kept_end - top
    frames[depth, layout.N_EXCLUDED] = end - kept_end
    frames[depth, layout.SINGLES] = np.int64(singles)
    frames[depth, layout.WEIGHED], frames[depth, layout.WEIGHED_END] = weighed.start, weighed.end
    frames[depth, layout.WEIGHED_PATH] = weighed.n_path
    frames[depth, layout.WORDS], frames[depth, layout.WORDS_TOP] = top, end
    frames[depth, layout.INTS], frames[depth, layout.INTS_TOP] = ints_start, ints_top
    frames[depth, layout.COLUMNS], frames[depth, layout.N_PATH] = columns.at, n_path
    frames[depth, layout.HEAVY], frames[depth, layout.WIDE] = np.int64(columns.heavy), np.int64(columns.wide)
    control[layout.DEPTH] = depth


@compiled(nrt=False)
def _candidate_weight(top, end, union, weighed, worker):
    """The user's right vertices behind the candidates' rows ``words[top:end]``, which are ascending."""
    words, n_right = worker.words, np.int64(0)
    for k in range(weighed.end - weighed.start):
        row = words[weighed.start + k] & union
        at, n_rows = top, end - top
        while n_rows > 1:
            half = n_rows >> 1
            at += half if words[at + half] <= row else 0
            n_rows -= half
        n_right += np.int64(worker.ints[weighed.weights + k]) if words[at] == row else 0
    return n_right


@njit(inline="always")
def _settle_rows(top, raw_end, excluded, behind, has_weights, worker):
    """Drop dominated rows, sort the others and merge equal ones, with their weights if they have some.

    Returns
    -------
    int
        End of the rows.
    """
    words, ints = worker.words, worker.ints
    kept_end = raw_end
    # Two thirds of the rows are dominated: looking at each is cheaper than sorting them all.
    if not has_weights:
        if DOMINATED:
            kept_end = drop_dominated(words, top, raw_end, excluded, None, top)
        sort_rows(words, top, kept_end, None, top)
        return merge_equal(words, top, kept_end)
    if DOMINATED:
        kept_end = drop_dominated(words, top, raw_end, excluded, ints, behind.payload)
    sort_rows(words, top, kept_end, ints, behind.payload)
    raw_end, kept_end = kept_end, top
    for k in range(top, raw_end):
        weight = ints[behind.payload + k - top]
        if k > top and words[k] == words[kept_end - 1]:
            ints[behind.payload + kept_end - 1 - top] += weight
        else:
            words[kept_end] = words[k]
            ints[behind.payload + kept_end - top] = weight
            kept_end += 1
    return kept_end


@njit(inline="always")
def _merge_into_groups(top, end, behind, worker, sizes):
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
            multiplicity += sizes.right_multiplicities[number]
            n_ids += 1
            continue
        group = behind.groups + number
        for j in range(behind.ids + ints[group], behind.ids + ints[group + 1]):
            ints[new_ids_at + n_ids] = ints[j]
            multiplicity += sizes.right_multiplicities[ints[j]]
            n_ids += 1
    # The ids must stand right behind the starts: move them down over the unused ones.
    n_kept = kept_end - top
    ints[starts_at + n_kept] = n_ids
    final_ids_at = starts_at + n_kept + 1
    for j in range(n_ids):
        ints[final_ids_at + j] = ints[new_ids_at + j]
    return kept_end, starts_at, final_ids_at + n_ids, multiplicity


@compiled(nrt=False)
def walk_bitset_frames(worker, sizes, output, work_limit):
    """Work on the deepest frame, a bitset frame, and everything below it.

    Returns
    -------
    int
        ``OK`` when the node is finished and popped, else why the walk stopped; it can continue from there.
    """
    frames, control = worker.frames, worker.control
    depth = control[layout.DEPTH]
    while depth >= 0 and frames[depth, layout.KIND] == layout.BITSET:
        if depth + 2 > frames.shape[0]:
            control[layout.NEEDED] = 2 * frames.shape[0]
            return layout.FRAMES_SHORT
        rows_at = frames[depth, layout.WORDS]
        excluded_at = rows_at + frames[depth, layout.N_ROWS]
        excluded_end = excluded_at + frames[depth, layout.N_EXCLUDED]
        singles = _U(frames[depth, layout.SINGLES])
        n_path = frames[depth, layout.N_PATH]
        columns = layout.Columns(
            frames[depth, layout.COLUMNS], _U(frames[depth, layout.HEAVY]), _U(frames[depth, layout.WIDE])
        )
        end = rows_at + frames[depth, layout.END]
        row_at = rows_at + frames[depth, layout.CURSOR]
        steps = 8 + ((excluded_end - rows_at) >> 2)
        status = OK
        while row_at < end:
            if control[layout.WORK] >= work_limit:
                status = QUANTUM_OVER
                break
            if output is None and control[layout.N_OUT] > sizes.most_out:
                status = OUTPUT_FULL
                break
            control[layout.WORK] += steps
            control[layout.VISITED] += 1
            left = worker.words[row_at]
            # To a later sibling, this one is an excluded row.
            singles, covered = singles | left, singles
            excluded = layout.Excluded(excluded_at, excluded_end, covered, rows_at, row_at)
            weighed = _weighed(frames, depth, row_at - rows_at)
            if CLOSED_SETS and output is None and popcount(left) <= CLOSED_SET_WIDTH:
                # Counting needs no list of the child's rows.
                _count_small_child(left, excluded, weighed, n_path, columns, worker, sizes)
                row_at += 1
                continue
            n_out, left_used, right_used = control[layout.N_OUT], control[layout.LEFT_USED], control[layout.RIGHT_USED]
            count = control[layout.COUNT]
            status = _visit_child(left, excluded, weighed, n_path, columns, depth, worker, sizes, output)
            if status != OK:
                control[layout.N_OUT], control[layout.LEFT_USED], control[layout.RIGHT_USED] = (
                    n_out,
                    left_used,
                    right_used,
                )
                control[layout.COUNT] = count
                singles = covered
                break
            row_at += 1
            if control[layout.DEPTH] != depth:
                break
        frames[depth, layout.CURSOR] = row_at - rows_at
        frames[depth, layout.SINGLES] = np.int64(singles)
        if status != OK:
            return status
        if control[layout.DEPTH] == depth:
            control[layout.DEPTH] = depth - 1
        depth = control[layout.DEPTH]
    return OK


@njit(inline="always")
def _weighed(frames, depth, n_before):
    """The `Weighed` rows for a child with so many earlier siblings: these hold no left set below it."""
    at = frames[depth, layout.WEIGHED]
    skipped = n_before if at == frames[depth, layout.WORDS] else 0
    weights_at = frames[depth, layout.INTS] + skipped
    return layout.Weighed(
        at + skipped, frames[depth, layout.WEIGHED_END], weights_at, frames[depth, layout.WEIGHED_PATH]
    )


@njit(inline="always")
def _count_small_child(left, excluded, weighed, n_path, columns, worker, sizes):
    """Count the bicliques of a child with at most six columns, and of its subtree."""
    words, control = worker.words, worker.control
    row_at, rows_end = excluded.siblings_end, excluded.start
    heavy, least = left & columns.heavy, sizes.least_in_words
    has_medium = least > UNWEIGHED and medium_columns(left, columns) != _U(0)
    # Single columns that are left sets.
    alone = left & ~excluded.singles
    is_only = popcount(left) <= (1 if alone != _U(0) else 2) or (heavy == _U(0) and popcount(left) <= least)
    if DOMINATED and is_only:
        # All other left sets below are too small, or excluded.
        count_left_set(left, n_path, weighed, columns, worker, sizes)
        return
    # All results below contain the child's own row.
    n_least = n_path + 1
    if n_least < sizes.constraints[MIN_RIGHT]:
        n_least = right_weight(left, weighed, worker)
    forbidden = subsets_inside(words, excluded.start, excluded.end, left)
    forbidden |= subsets_inside(words, excluded.siblings, row_at, left) | singles_inside(excluded.singles, left)
    # The child's own row is a candidate: its left set is a result itself.
    closed = closed_sets(subsets_inside(words, row_at, rows_end, left), forbidden)
    if least > 1 and not has_medium:
        closed &= wide_subsets(least) | TOUCHING[extract_bits(heavy, left)]
    if not (has_medium or sizes.are_exact or n_least < sizes.constraints[MIN_RIGHT]):
        control[layout.COUNT] += popcount(closed)
    elif closed != _U(0):
        if not needs_weights(n_path, sizes):
            weighed = layout.Weighed(row_at, row_at, 0, n_least)
        count_each(closed, left, weighed, columns, worker, sizes)


@njit(inline="always")
def _visit_child(left, excluded, weighed, n_path, columns, depth, worker, sizes, output):
    """Visit a child, a maximal biclique; push it unless its subtree is finished on the spot.

    The node's rows stand between its earlier siblings, which are excluded for the child, and its excluded rows.
    """
    words, frames, masks, least = worker.words, worker.frames, worker.masks, sizes.least_in_words
    if not DOMINATED and is_excluded(left, words, excluded):
        return OK
    top, ints_top, groups_at = (
        frames[depth, layout.WORDS_TOP],
        frames[depth, layout.INTS_TOP],
        frames[depth, layout.INTS],
    )
    rows_at, row_at, rows_end = excluded.siblings, excluded.siblings_end, excluded.start
    n_all_excluded = excluded.end - excluded.start + row_at - rows_at
    ids_at = groups_at + rows_end - rows_at + 1
    n_ints = 0 if output is None else ints_top + 2 * (rows_end - rows_at) + 2 + ints_top - ids_at
    n_words = top + rows_end - rows_at + n_all_excluded + table_size(n_all_excluded)
    status = layout.shortage(n_words, n_ints, worker)
    if status != OK:
        return status
    behind = layout.Behind(ints_top, groups_at, ids_at)
    if output is None:
        raw_end, n_path = _narrow_rows(left, excluded, weighed, n_path, columns, top, worker, sizes)
    else:
        raw_end, n_path = _narrow_groups(left, excluded, n_path, columns, behind, top, worker, least)
        if not emit_word(left, columns, n_path, top, top, behind, worker, sizes, output):
            return OUTPUT_FULL
    if raw_end == top:
        return OK
    if DOMINATED and output is None and raw_end - top <= 2:
        count_pair(words[top], words[raw_end - 1], excluded, weighed, n_path, columns, worker, sizes)
        return OK
    if COLUMN_GROUPS and column_groups(words, top, raw_end, masks):
        forbidden = subsets_of(words, excluded.start, excluded.end, left, masks)
        forbidden |= subsets_of(words, rows_at, row_at, left, masks) | subsets_of_singles(excluded.singles, masks)
        closed = closed_sets(subsets_of(words, top, raw_end, left, masks), forbidden)
        is_taken = take_closed_sets(closed, n_path, top, raw_end, behind, weighed, columns, worker, sizes, output)
        return OK if is_taken else OUTPUT_FULL
    push_bitset_frame(top, raw_end, excluded, behind, weighed, n_path, columns, worker, sizes, output)
    return OK


@compiled(nrt=False)
def count_pair(first, second, excluded, weighed, n_path, columns, worker, sizes):
    """Count the left sets below a node with one candidate's row or two, perhaps equal ones: rows and what they share.

    The rows are wide enough. Left sets around one that no excluded row holds are not excluded, either.
    """
    both = first & second
    is_shared = both != _U(0) and is_wide(both, columns, worker.ints, sizes.least_in_words)
    is_shared = is_shared and not is_excluded(both, worker.words, excluded)
    if is_shared:
        count_left_set(both, n_path, weighed, columns, worker, sizes)
    for row in (first, second):
        if row != both and (is_shared or not is_excluded(row, worker.words, excluded)):
            count_left_set(row, n_path, weighed, columns, worker, sizes)


@njit(inline="always")
def _narrow_rows(left, excluded, weighed, n_path, columns, top, worker, sizes):
    """Count a child and write its candidates' rows.

    Returns
    -------
    raw_end, n_path : int
        End of the rows, which begin at ``words[top]``, and the right vertices on the child's path.
    """
    words, ints, control = worker.words, worker.ints, worker.control
    least = sizes.least_in_words
    raw_end = top
    alone = ~excluded.singles
    for k in range(excluded.siblings_end + 1, excluded.start):
        row = words[k] & left
        words[raw_end] = row
        is_kept = is_wide(row, columns, ints, least) if least > 1 else row & (row - _ONE) | row & alone != _U(0)
        raw_end += is_kept & (row != left)
    if not needs_weights(n_path, sizes):
        control[layout.COUNT] += 1
        return raw_end, n_path + 1
    n_path = right_weight(left, weighed, worker)
    count_size(word_weight(left, columns, ints), n_path, control, sizes)
    return raw_end, n_path


@njit(inline="always")
def _narrow_groups(left, excluded, n_path, columns, behind, top, worker, least):
    """Put the right vertices of a child on the path, and write its candidates' rows, with the numbers of their groups.

    Returns
    -------
    raw_end, n_path : int
        End of the rows, which begin at ``words[top]``, and the right members on the child's path.
    """
    words, ints = worker.words, worker.ints
    raw_end = top
    for k in range(excluded.siblings_end, excluded.start):
        row = words[k] & left
        if row == left:
            group = behind.groups + k - excluded.siblings
            for j in range(behind.ids + ints[group], behind.ids + ints[group + 1]):
                worker.path[n_path] = ints[j]
                n_path += 1
        elif is_wide(row, columns, ints, least):
            words[raw_end] = row
            ints[behind.payload + raw_end - top] = k - excluded.siblings
            raw_end += 1
    return raw_end, n_path

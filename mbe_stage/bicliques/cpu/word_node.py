"""Nodes with at most 64 left vertices: a row is one word. Nearly all nodes are of this kind.

In the arena of words a node keeps its candidates' rows (distinct, ascending, none dominated) and behind them the rows
of its excluded vertices. Where members are wanted, the arena of ints holds the groups: the right vertices behind each
candidate row.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from mbe_stage.bicliques.cpu import layout as at
from mbe_stage.bicliques.cpu.bits import popcount
from mbe_stage.bicliques.cpu.emit import emit_family, emit_word
from mbe_stage.bicliques.cpu.family import (
    FAMILY_WIDTH,
    family_of,
    family_of_singles,
    maximal_family,
    positions_of,
)
from mbe_stage.bicliques.cpu.rows import drop_dominated, is_excluded, merge_equal, restrict_distinct, sort_rows

__all__ = ["close_word_node", "push_word_node", "table_size", "walk_word_nodes"]

_U = np.uint64


@njit(cache=True, nogil=True)
def walk_word_nodes(worker, output, work_limit):
    """Work on the deepest frame, a word node, and everything below it.

    Returns
    -------
    int
        ``OK`` when the node is finished and popped, else why the walk stopped; it can go on from there.
    """
    frames, words, control = worker.frames, worker.words, worker.control
    depth = control[at.DEPTH]
    while depth >= 0 and frames[depth, at.KIND] == at.WORD:
        if depth + 2 > frames.shape[0]:
            control[at.NEEDED] = 2 * frames.shape[0]
            return at.FRAMES_SHORT
        frame = frames[depth]
        first, n_rows, n_excluded = frame[at.WORDS], frame[at.N_ROWS], frame[at.N_EXCLUDED]
        rows = words[first : first + n_rows]
        excluded = words[first + n_rows : first + n_rows + n_excluded]
        end = frame[at.END]
        cursor = frame[at.CURSOR]
        status = at.OK
        pushed = False
        while cursor < end:
            if control[at.WORK] >= work_limit:
                status = at.SLICE_OVER
                break
            left = rows[cursor]
            width = popcount(left)
            control[at.WORK] += 8 + ((n_rows + n_excluded) >> 2)
            n_out, left_used, right_used = control[at.N_OUT], control[at.LEFT_USED], control[at.RIGHT_USED]
            count = control[at.COUNT]
            if width <= FAMILY_WIDTH:
                status = _finish_narrow_child(cursor, left, width, rows, excluded, frame, worker, output)
            else:
                status = _open_child(cursor, left, rows, excluded, depth, worker, output)
                if status == at.OK and control[at.DEPTH] != depth:
                    pushed = True
            if status != at.OK:
                control[at.N_OUT], control[at.LEFT_USED], control[at.RIGHT_USED] = n_out, left_used, right_used
                control[at.COUNT] = count
                break
            cursor += 1
            if pushed:
                break
        frame[at.CURSOR] = cursor
        if status != at.OK:
            return status
        if pushed:
            depth += 1
        else:
            depth -= 1
            control[at.DEPTH] = depth
    return at.OK


@njit(inline="always")
def _finish_narrow_child(cursor, left, width, rows, excluded, frame, worker, output):
    """The whole subtree of a child with few left vertices, without opening it."""
    positions = positions_of(left)
    candidates = family_of(rows[cursor:], left, positions)
    forbidden = family_of(excluded, left, positions) | family_of(rows[:cursor], left, positions)
    forbidden |= family_of_singles(_U(frame[at.SINGLES]), positions)
    family = maximal_family(candidates, forbidden, width)
    if output is None:
        worker.control[at.COUNT] += popcount(family)
        return at.OK
    starts, ids, column_ids = _groups_of(frame, worker)
    if emit_family(family, positions, column_ids, frame[at.N_PATH], cursor, rows, starts, ids, worker, output):
        return at.OK
    return at.OUTPUT_FULL


@njit(inline="always")
def _groups_of(frame, worker):
    """Group starts, group ids and column ids of a word node."""
    ints = worker.ints
    starts_at = frame[at.INTS]
    ids_at = starts_at + frame[at.N_ROWS] + 1
    columns_at = frame[at.COLUMN_IDS]
    return (
        ints[starts_at:ids_at],
        ints[ids_at : frame[at.INTS_TOP]],
        ints[columns_at : columns_at + 64],
    )


@njit(cache=True, nogil=True)
def _open_child(cursor, left, rows, excluded, depth, worker, output):
    """Visit the child of row `cursor`; push it unless its subtree is finished on the spot."""
    words, ints, control, frames = worker.words, worker.ints, worker.control, worker.frames
    frame = frames[depth]
    top = frame[at.WORDS_TOP]
    n_rows = rows.size
    singles = _U(frame[at.SINGLES])
    room = n_rows + excluded.size + cursor + table_size(excluded.size + cursor)
    if top + room > words.size:
        control[at.NEEDED] = top + room
        return at.WORDS_SHORT
    if output is None:
        n_raw = 0
        for k in range(cursor + 1, n_rows):
            row = rows[k] & left
            words[top + n_raw] = row
            n_raw += (row != _U(0)) & (row != left)
        raw = words[top : top + n_raw]
        sort_rows(raw, None)
        raw = raw[: merge_equal(raw)]
        n_kept = drop_dominated(raw, excluded, singles, rows[:cursor])
        control[at.COUNT] += 1
        if n_kept <= 2:
            if n_kept == 1:
                control[at.COUNT] += 1
            elif n_kept == 2:
                both = raw[0] & raw[1]
                control[at.COUNT] += 2
                if both != _U(0) and both != raw[0]:
                    control[at.COUNT] += not is_excluded(both, excluded, singles, rows[:cursor])
            return at.OK
        ints_top = frame[at.INTS_TOP]
        n_path = 0
    else:
        starts, ids, column_ids = _groups_of(frame, worker)
        ints_top = frame[at.INTS_TOP]
        needed = ints_top + 2 * n_rows + 2 + ids.size
        if needed > ints.size:
            control[at.NEEDED] = needed
            return at.INTS_SHORT
        n_path = frame[at.N_PATH]
        n_raw = 0
        for k in range(cursor, n_rows):
            row = rows[k] & left
            if row == left:
                for j in range(starts[k], starts[k + 1]):
                    worker.path[n_path] = ids[j]
                    n_path += 1
            elif row != _U(0):
                words[top + n_raw] = row
                ints[ints_top + n_raw] = k
                n_raw += 1
        if not emit_word(left, column_ids, n_path, 0, rows[:0], starts, ids, worker, output):
            return at.OUTPUT_FULL
        n_kept, ints_start, ints_top = close_word_node(
            top, n_raw, ints_top, excluded, singles, rows[:cursor], starts, ids, n_path, worker, output
        )
        if n_kept == 0:
            return at.OK
        frames[depth + 1, at.INTS] = ints_start
    push_word_node(excluded, singles, rows[:cursor], top, n_kept, ints_top, n_path, depth, worker)
    frames[depth + 1, at.COLUMN_IDS] = frame[at.COLUMN_IDS]
    return at.OK


@njit(inline="always")
def table_size(n_rows):
    """Places of the hash table that finds the distinct ones of `n_rows` rows: at most half of them get used."""
    size = 16
    while size < 2 * n_rows:
        size *= 2
    return size


@njit(cache=True, nogil=True)
def push_word_node(excluded, singles, more_excluded, top, n_kept, ints_top, n_path, depth, worker):
    """Make a frame for the candidate rows at the arena's top, and put the restricted excluded rows behind them.

    Every left set below lies inside some candidate, so excluded rows only matter in what the candidates cover.
    The arena must have room for ``n_kept`` rows, all excluded ones and their hash table.
    """
    words = worker.words
    union = _U(0)
    for k in range(top, top + n_kept):
        union |= words[k]
    n_all = excluded.size + more_excluded.size
    kept_excluded = words[top + n_kept : top + n_kept + n_all]
    table = words[top + n_kept + n_all : top + n_kept + n_all + table_size(n_all)]
    table[:] = 0
    n_excluded, singles = restrict_distinct(excluded, union, kept_excluded, 0, singles & union, table)
    n_excluded, singles = restrict_distinct(more_excluded, union, kept_excluded, n_excluded, singles, table)
    child = worker.frames[depth + 1]
    child[at.KIND] = at.WORD
    child[at.FIRST] = 0
    child[at.CURSOR] = 0
    child[at.END] = n_kept
    child[at.N_ROWS] = n_kept
    child[at.N_EXCLUDED] = n_excluded
    child[at.SINGLES] = np.int64(singles)
    child[at.WORDS] = top
    child[at.WORDS_TOP] = top + n_kept + n_excluded
    child[at.INTS_TOP] = ints_top
    child[at.N_PATH] = n_path
    worker.control[at.DEPTH] = depth + 1


@njit(cache=True, nogil=True)
def close_word_node(top, n_raw, ints_top, excluded, singles, more_excluded, starts, ids, n_path, worker, output):
    """Turn raw candidate rows at the arena's top into a node's candidates, with their groups.

    The payload at ``ints[ints_top:]`` names each raw row's source group in `starts` and `ids`.

    Returns
    -------
    n_kept, ints_start, ints_top : int
        Candidate rows that are left (0 also when no biclique below can be large enough), where the node's groups begin
        in the arena of ints, and where they end.
    """
    ints = worker.ints
    raw = worker.words[top : top + n_raw]
    payload = ints[ints_top : ints_top + n_raw]
    sort_rows(raw, payload)
    group_starts = ints_top + n_raw
    end = group_starts + n_raw + 1
    n_kept = 0
    n_ids = 0
    weight = 0
    k = 0
    while k < n_raw:
        row = raw[k]
        run = k + 1
        while run < n_raw and raw[run] == row:
            run += 1
        if not is_excluded(row, excluded, singles, more_excluded):
            raw[n_kept] = row
            ints[group_starts + n_kept] = n_ids
            n_kept += 1
            for source in payload[k:run]:
                for j in range(starts[source], starts[source + 1]):
                    ints[end + n_ids] = ids[j]
                    weight += output.right_weights[ids[j]]
                    n_ids += 1
        k = run
    if output.limits[at.ACTIVE]:
        for k in range(n_path):
            weight += output.right_weights[worker.path[k]]
        if weight < output.limits[at.MIN_RIGHT]:
            n_kept = 0
    # Groups must end right behind their starts: move the ids down over the unused starts.
    ints[group_starts + n_kept] = n_ids
    ids_start = group_starts + n_kept + 1
    if n_kept < n_raw:
        for j in range(n_ids):
            ints[ids_start + j] = ints[end + j]
    return n_kept, group_starts, ids_start + n_ids

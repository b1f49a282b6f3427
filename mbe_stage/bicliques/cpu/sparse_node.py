"""Nodes with many left vertices, and the whole graph itself: rows and columns are lists.

A child is found by counting: walk the columns of its row, and see how often every other row turns up. The cost is the
number of two-step paths, whatever the number of rows. The few nodes of this kind stand at the top of the tree.

A sparse node's piece of the arena of ints holds, one behind the other: column ids, row ids (excluded rows first), row
offsets, column offsets, row members, column members.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from mbe_stage.bicliques.cpu import layout as at
from mbe_stage.bicliques.cpu.bits import popcount
from mbe_stage.bicliques.cpu.emit import emit_family, emit_list
from mbe_stage.bicliques.cpu.family import FAMILY_WIDTH, maximal_family, positions_of
from mbe_stage.bicliques.cpu.rows import drop_dominated, merge_equal, sort_rows
from mbe_stage.bicliques.cpu.sparse_build import open_sparse_node
from mbe_stage.bicliques.cpu.word_node import close_word_node, push_word_node, table_size

__all__ = ["visit_sparse_child"]

_U = np.uint64
_ONE = _U(1)
_WORD_BITS = 64


@njit(cache=True, nogil=True)
def visit_sparse_child(graph, worker, output):
    """Visit the next child of the deepest frame, a sparse node or the whole graph; push it if it has children.

    Returns
    -------
    int
        ``OK``, or what is short: then nothing has happened.
    """
    frame = worker.frames[worker.control[at.DEPTH]]
    if frame[at.KIND] == at.WHOLE_GRAPH:
        return _visit(
            graph.identity,
            graph.identity,
            graph.row_offsets,
            graph.row_members,
            graph.column_offsets,
            graph.column_members,
            frame,
            graph.identity,
            worker,
            output,
        )
    ints = worker.ints
    n_rows, n_columns = frame[at.N_ROWS], frame[at.N_COLUMNS]
    rows_at = frame[at.INTS] + n_columns
    row_offsets_at = rows_at + n_rows
    column_offsets_at = row_offsets_at + n_rows + 1
    row_members_at = column_offsets_at + n_columns + 1
    n_edges = ints[column_offsets_at - 1]
    return _visit(
        ints[frame[at.INTS] : rows_at],
        ints[rows_at:row_offsets_at],
        ints[row_offsets_at:column_offsets_at],
        ints[row_members_at : row_members_at + n_edges],
        ints[column_offsets_at:row_members_at],
        ints[row_members_at + n_edges : row_members_at + 2 * n_edges],
        frame,
        graph.identity,
        worker,
        output,
    )


@njit(cache=True, nogil=True)
def _visit(
    column_ids, row_ids, row_offsets, row_members, column_offsets, column_members, frame, identity, worker, output
):
    row = frame[at.CURSOR]
    left = row_members[row_offsets[row] : row_offsets[row + 1]]
    if output is not None and output.limits[at.ACTIVE]:
        weight = 0
        for k in range(left.size):
            weight += output.left_weights[column_ids[left[k]]]
        if weight < output.limits[at.MIN_LEFT]:
            frame[at.CURSOR] = row + 1
            return at.OK
    if left.size <= _WORD_BITS:
        status = _visit_narrow(
            row, left, column_ids, row_ids, column_offsets, column_members, frame, identity, worker, output
        )
    else:
        status = _visit_wide(
            row, left, column_ids, row_ids, column_offsets, column_members, frame, identity, worker, output
        )
    if status == at.OK:
        frame[at.CURSOR] = row + 1
    return status


@njit(cache=True, nogil=True)
def _visit_narrow(row, left, column_ids, row_ids, column_offsets, column_members, frame, identity, worker, output):
    """A child whose left set fits one word: its rows are built in a single pass."""
    bits, touched = worker.bits, worker.touched
    n_touched = 0
    for k in range(left.size):
        bit = _ONE << _U(k)
        column = left[k]
        for j in range(column_offsets[column], column_offsets[column + 1]):
            other = column_members[j]
            known = bits[other]
            touched[n_touched] = other
            n_touched += known == _U(0)
            bits[other] = known | bit
    worker.control[at.WORK] += 8 + 2 * n_touched
    if left.size <= FAMILY_WIDTH:
        status = _finish_narrow(row, left, n_touched, column_ids, row_ids, frame, identity, worker, output)
    else:
        full = ~_U(0) >> _U(_WORD_BITS - left.size)
        status = _open_word_node(
            row, left, left, full, frame[at.N_PATH], n_touched, column_ids, row_ids, frame, identity, worker, output
        )
    for k in range(n_touched):
        bits[touched[k]] = _U(0)
    return status


@njit(cache=True, nogil=True)
def _finish_narrow(row, left, n_touched, column_ids, row_ids, frame, identity, worker, output):
    """The whole subtree of a child with few left vertices."""
    bits, touched, control = worker.bits, worker.touched, worker.control
    candidates = forbidden = _U(0)
    for k in range(n_touched):
        other = touched[k]
        if other < row:
            forbidden |= _ONE << bits[other]
        else:
            candidates |= _ONE << bits[other]
    family = maximal_family(candidates, forbidden, left.size)
    if output is None:
        control[at.COUNT] += popcount(family)
        return at.OK
    if family == _U(0):
        return at.OK
    words_top, ints_top = frame[at.WORDS_TOP], frame[at.INTS_TOP]
    if words_top + n_touched > worker.words.size:
        control[at.NEEDED] = words_top + n_touched
        return at.WORDS_SHORT
    if ints_top + n_touched + FAMILY_WIDTH > worker.ints.size:
        control[at.NEEDED] = ints_top + n_touched + FAMILY_WIDTH
        return at.INTS_SHORT
    n = 0
    for k in range(n_touched):
        other = touched[k]
        if other >= row:
            worker.words[words_top + n] = bits[other]
            worker.ints[ints_top + n] = row_ids[other]
            n += 1
    columns_at = ints_top + n
    for k in range(left.size):
        worker.ints[columns_at + k] = column_ids[left[k]]
    full = (_ONE << _U(left.size)) - _ONE
    if emit_family(
        family,
        positions_of(full),
        worker.ints[columns_at : columns_at + left.size],
        frame[at.N_PATH],
        0,
        worker.words[words_top : words_top + n],
        identity,
        worker.ints[ints_top : ints_top + n],
        worker,
        output,
    ):
        return at.OK
    return at.OUTPUT_FULL


@njit(cache=True, nogil=True)
def _open_word_node(row, left, columns, full, n_path, n_touched, column_ids, row_ids, frame, identity, worker, output):
    """Visit a child and push it as a word node made from the rows in `bits`.

    `left` is its left set, `columns` the part of it that candidates touch, in bit order. Rows equal to `full` hold the
    whole left set; 0 says that they were taken out before and stand on the path.
    """
    bits, touched, control = worker.bits, worker.touched, worker.control
    words, ints, frames = worker.words, worker.ints, worker.frames
    depth = control[at.DEPTH]
    top, ints_top = frame[at.WORDS_TOP], frame[at.INTS_TOP]
    if full == _U(0):
        ints_top += left.size  # `columns` is scratch at the arena's top
    words_needed = top + 3 * n_touched + table_size(n_touched)
    if words_needed > words.size:
        control[at.NEEDED] = words_needed
        return at.WORDS_SHORT
    if output is not None and ints_top + _WORD_BITS + 3 * n_touched + 1 > ints.size:
        control[at.NEEDED] = ints_top + _WORD_BITS + 3 * n_touched + 1
        return at.INTS_SHORT
    columns_at = ints_top
    ints_top += _WORD_BITS
    n_raw = 0
    # Excluded rows are collected from the far end of the room, out of the way of what the node will keep.
    excluded_end = words.size
    excluded_at = excluded_end
    for k in range(n_touched):
        other = touched[k]
        known = bits[other]
        if known == _U(0):
            continue
        if other < row:
            if known == full:
                return at.OK
            excluded_at -= 1
            words[excluded_at] = known
        elif known == full:
            if output is not None:
                worker.path[n_path] = row_ids[other]
                n_path += 1
        else:
            words[top + n_raw] = known
            if output is not None:
                ints[ints_top + n_raw] = other
            n_raw += 1
    excluded = words[excluded_at:excluded_end]
    if output is None:
        control[at.COUNT] += 1
        raw = words[top : top + n_raw]
        sort_rows(raw, None)
        raw = raw[: merge_equal(raw)]
        n_kept = drop_dominated(raw, excluded, _U(0), excluded[:0])
        ints_top = frame[at.INTS_TOP]
    else:
        if not emit_list(left, column_ids, n_path, worker, output):
            return at.OUTPUT_FULL
        for k in range(columns.size):
            ints[columns_at + k] = column_ids[columns[k]]
        n_kept, ints_start, ints_top = close_word_node(
            top, n_raw, ints_top, excluded, _U(0), excluded[:0], identity, row_ids, n_path, worker, output
        )
        frames[depth + 1, at.INTS] = ints_start
        frames[depth + 1, at.COLUMN_IDS] = columns_at
    if n_kept == 0:
        return at.OK
    push_word_node(excluded, _U(0), excluded[:0], top, n_kept, ints_top, n_path, depth, worker)
    return at.OK


@njit(cache=True, nogil=True)
def _visit_wide(row, left, column_ids, row_ids, column_offsets, column_members, frame, identity, worker, output):
    """A child with more left vertices than a word has bits."""
    bits, counts, touched = worker.bits, worker.counts, worker.touched
    n_touched = 0
    for k in range(left.size):
        column = left[k]
        for j in range(column_offsets[column], column_offsets[column + 1]):
            other = column_members[j]
            touched[n_touched] = other
            n_touched += counts[other] == 0
            counts[other] += 1
    worker.control[at.WORK] += 8 + 4 * n_touched
    status = _open_wide(
        row, left, n_touched, column_ids, row_ids, column_offsets, column_members, frame, identity, worker, output
    )
    for k in range(n_touched):
        counts[touched[k]] = 0
        bits[touched[k]] = _U(0)
    return status


@njit(cache=True, nogil=True)
def _open_wide(
    row, left, n_touched, column_ids, row_ids, column_offsets, column_members, frame, identity, worker, output
):
    counts, touched, bits = worker.counts, worker.touched, worker.bits
    ints, control = worker.ints, worker.control
    for k in range(n_touched):
        if touched[k] < row and counts[touched[k]] == left.size:
            return at.OK
    ints_top = frame[at.INTS_TOP]
    if ints_top + left.size > ints.size:
        control[at.NEEDED] = ints_top + left.size
        return at.INTS_SHORT
    # Rows that hold the whole left set join the path and leave the counts: what is counted now can still be a child.
    n_path = frame[at.N_PATH]
    for k in range(n_touched):
        other = touched[k]
        if counts[other] == left.size:
            counts[other] = 0
            worker.path[n_path] = row_ids[other]
            n_path += 1
    # Only columns that a candidate touches can be in a left set below; a candidate is a later row.
    columns = ints[ints_top : ints_top + left.size]
    n_columns = 0
    for k in range(left.size):
        column = left[k]
        columns[n_columns] = column
        for j in range(column_offsets[column + 1] - 1, column_offsets[column] - 1, -1):
            if column_members[j] <= row:
                break
            if counts[column_members[j]]:
                n_columns += 1
                break
    columns = columns[:n_columns]
    if n_columns > _WORD_BITS:
        return open_sparse_node(
            row,
            left,
            columns,
            n_path,
            n_touched,
            column_ids,
            row_ids,
            column_offsets,
            column_members,
            frame,
            worker,
            output,
        )
    for k in range(n_columns):
        for j in range(column_offsets[columns[k]], column_offsets[columns[k] + 1]):
            other = column_members[j]
            if counts[other]:
                bits[other] |= _ONE << _U(k)
    return _open_word_node(
        row, left, columns, _U(0), n_path, n_touched, column_ids, row_ids, frame, identity, worker, output
    )

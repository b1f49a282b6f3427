"""Building a sparse node: the part of a graph that a left set sees, with local numbers."""

from __future__ import annotations

import numpy as np
from numba import njit

from mbe_stage.bicliques.cpu import layout as at
from mbe_stage.bicliques.cpu.emit import emit_list
from mbe_stage.bicliques.cpu.rows import sort_rows

__all__ = ["open_sparse_node"]

_U = np.uint64
_LOW = _U(0xFFFFFFFF)


@njit(cache=True, nogil=True)
def open_sparse_node(
    row, left, columns, n_path, n_touched, column_ids, row_ids, column_offsets, column_members, frame, worker, output
):
    """Visit a child and push it as a sparse node over `columns` (scratch at the arena's top).

    `counts` says for every touched row that is still a candidate or excluded how many of `left` it holds. Excluded rows
    come first, candidates in ascending size: then no candidate is dominated by an earlier one, unless they are equal.
    """
    counts, touched, bits = worker.counts, worker.touched, worker.bits
    words, ints, control = worker.words, worker.ints, worker.control
    depth = control[at.DEPTH]
    top = frame[at.WORDS_TOP]
    start = frame[at.INTS_TOP] + left.size
    n_edges = 0
    for k in range(columns.size):
        for j in range(column_offsets[columns[k]], column_offsets[columns[k] + 1]):
            other = column_members[j]
            if counts[other]:
                bits[other] += _U(1)
                n_edges += 1
    needed = start + 2 * columns.size + 2 * n_touched + 2 + 2 * n_edges
    if needed > ints.size:
        control[at.NEEDED] = needed
        return at.INTS_SHORT
    if top + n_touched > words.size:
        control[at.NEEDED] = top + n_touched
        return at.WORDS_SHORT
    if output is None:
        control[at.COUNT] += 1
    elif not emit_list(left, column_ids, n_path, worker, output):
        return at.OUTPUT_FULL

    n_rows = 0
    for k in range(n_touched):
        if bits[touched[k]] and touched[k] < row:
            words[top + n_rows] = _U(touched[k])
            n_rows += 1
    n_excluded = n_rows
    for k in range(n_touched):
        if bits[touched[k]] and touched[k] > row:
            words[top + n_rows] = (bits[touched[k]] << _U(32)) | _U(touched[k])
            n_rows += 1
    sort_rows(words[top + n_excluded : top + n_rows], None)

    rows_at = start + columns.size
    row_offsets_at = rows_at + n_rows
    column_offsets_at = row_offsets_at + n_rows + 1
    row_members_at = column_offsets_at + columns.size + 1
    column_members_at = row_members_at + n_edges
    new_row_offsets = ints[row_offsets_at:column_offsets_at]
    new_column_offsets = ints[column_offsets_at:row_members_at]
    new_row_members = ints[row_members_at:column_members_at]
    new_column_members = ints[column_members_at : column_members_at + n_edges]
    # Each offset first stands where its list begins and, filling done, where it ends: the next one's beginning.
    new_row_offsets[0] = 0
    filled = np.int64(0)
    for local in range(n_rows):
        other = words[top + local] & _LOW
        ints[rows_at + local] = row_ids[other]
        new_row_offsets[local + 1] = filled
        filled += np.int64(bits[other])
        bits[other] = _U(local + 1)
    for k in range(columns.size):
        ints[start + k] = column_ids[columns[k]]
        for j in range(column_offsets[columns[k]], column_offsets[columns[k] + 1]):
            local = np.int64(bits[column_members[j]])  # type: ignore[assignment]
            if local:
                new_row_members[new_row_offsets[local]] = k
                new_row_offsets[local] += 1
    new_column_offsets[:] = 0
    for k in range(n_edges):
        new_column_offsets[new_row_members[k] + 1] += 1
    n_before = 0
    for k in range(1, new_column_offsets.size):
        n = new_column_offsets[k]
        new_column_offsets[k] = n_before
        n_before += n
    for local in range(n_rows):
        for j in range(new_row_offsets[local], new_row_offsets[local + 1]):
            column = new_row_members[j] + 1
            new_column_members[new_column_offsets[column]] = local
            new_column_offsets[column] += 1

    child = worker.frames[depth + 1]
    child[at.KIND] = at.SPARSE
    child[at.FIRST] = n_excluded
    child[at.CURSOR] = n_excluded
    child[at.END] = n_rows
    child[at.N_ROWS] = n_rows
    child[at.N_COLUMNS] = columns.size
    child[at.INTS] = start
    child[at.INTS_TOP] = column_members_at + n_edges
    child[at.WORDS] = top
    child[at.WORDS_TOP] = top
    child[at.N_PATH] = n_path
    control[at.DEPTH] = depth + 1
    return at.OK

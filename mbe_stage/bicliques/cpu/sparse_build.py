"""Building a sparse node: the part of a graph that a left set sees, with local numbers."""

from __future__ import annotations

import numpy as np

from mbe_stage.bicliques.cpu import layout as at
from mbe_stage.bicliques.cpu.bounds import is_hopeless, path_weight
from mbe_stage.bicliques.cpu.columns import write_column_ids
from mbe_stage.bicliques.cpu.emit import emit_list
from mbe_stage.bicliques.cpu.rows import sort_rows
from mbe_stage.jit import compiled

__all__ = ["open_sparse_node"]

_U = np.uint64
_LOW = _U(0xFFFFFFFF)


@compiled(nrt=False)
def open_sparse_node(child, scratch_at, scratch_end, n_columns, n_kept, n_path, n_touched, worker, output):
    """Visit a child and push it as a sparse node over the columns in the scratch of `collect_columns`.

    Excluded rows come first, candidates in ascending size: then no candidate is dominated by an earlier one, unless
    they are equal.
    """
    node, row_ids, row, depth = child.node, child.row_ids, child.row, child.depth
    touched, bits = worker.touched, worker.bits
    words, ints, control, frames = worker.words, worker.ints, worker.control, worker.frames
    top = frames[depth, at.WORDS_TOP]
    n_left = child.left_end - child.left_at
    lists_at, candidates_at, excluded_at = scratch_at, scratch_at + n_left, scratch_at + 2 * n_left
    start = scratch_end
    n_edges = 0
    for k in range(n_columns):
        list_at = ints[lists_at + k]
        n_members = ints[candidates_at + k] + ints[excluded_at + k]
        for j in range(list_at, list_at + n_members):
            bits[ints[j]] += _U(1)
        n_edges += n_members
    needed = start + 2 * n_columns + 2 * n_touched + 3 + 2 * n_edges + child.n_ids
    if needed > ints.size:
        control[at.NEEDED] = needed
        return at.INTS_SHORT
    if top + n_touched > words.size:
        control[at.NEEDED] = top + n_touched
        return at.WORDS_SHORT
    if output is None:
        control[at.COUNT] += 1
    elif not emit_list(child, n_path, worker, output):
        return at.OUTPUT_FULL
    elif output.limits[at.ACTIVE]:
        right_least = right_most = path_weight(worker.path, n_path, output.right_weights)
        for k in range(n_touched):
            if bits[touched[k]] and touched[k] > row:
                right_most += output.right_weights[node[row_ids + touched[k]]]
        left_most = 0
        for k in range(child.left_at, child.left_end):
            column = child.base + node[k]
            for j in range(child.column_ids + node[column], child.column_ids + node[column + 1]):
                left_most += output.left_weights[node[j]]
        if is_hopeless(left_most, right_least, right_most, output.limits):
            return at.OK

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
    sort_rows(words, top + n_excluded, top + n_rows)

    new_row_ids = start + n_columns + 1
    new_row_offsets = new_row_ids + n_rows
    new_column_offsets = new_row_offsets + n_rows + 1
    new_row_members = new_column_offsets + n_columns + 1
    new_column_members = new_row_members + n_edges
    # Each offset first stands where its list begins and, filling done, where it ends: the next one's beginning.
    ints[new_row_offsets] = 0
    filled = np.int64(0)
    for local in range(n_rows):
        other = np.int64(words[top + local] & _LOW)
        ints[new_row_ids + local] = node[row_ids + other]
        ints[new_row_offsets + local + 1] = filled
        filled += np.int64(bits[other])
        bits[other] = _U(local + 1)
    for k in range(n_columns):
        list_at = ints[lists_at + k]
        for j in range(list_at, list_at + ints[candidates_at + k] + ints[excluded_at + k]):
            place = new_row_offsets + np.int64(bits[ints[j]])
            ints[new_row_members + ints[place]] = k
            ints[place] += 1
    for k in range(n_columns + 1):
        ints[new_column_offsets + k] = 0
    for k in range(n_edges):
        ints[new_column_offsets + ints[new_row_members + k] + 1] += 1
    n_before = 0
    for k in range(new_column_offsets + 1, new_column_offsets + n_columns + 1):
        n = ints[k]
        ints[k] = n_before
        n_before += n
    for local in range(n_rows):
        for j in range(ints[new_row_offsets + local], ints[new_row_offsets + local + 1]):
            place = new_column_offsets + ints[new_row_members + j] + 1
            ints[new_column_members + ints[place]] = local
            ints[place] += 1

    end = new_column_members + n_edges
    if output is not None:
        kept_at, groups_at = scratch_at + 3 * n_left, scratch_at + 4 * n_left
        end += write_column_ids(child, ints, kept_at, n_kept, groups_at, ints, start, n_columns + 1, end)
    # The scratch has done its work: move the node down over it.
    for k in range(end - start):
        ints[scratch_at + k] = ints[start + k]
    end -= start - scratch_at

    depth += 1
    frames[depth, at.KIND] = at.SPARSE
    frames[depth, at.FIRST] = n_excluded
    frames[depth, at.CURSOR] = n_excluded
    frames[depth, at.END] = n_rows
    frames[depth, at.N_ROWS] = n_rows
    frames[depth, at.N_COLUMNS] = n_columns
    frames[depth, at.INTS] = scratch_at
    frames[depth, at.INTS_TOP] = end
    frames[depth, at.WORDS] = top
    frames[depth, at.WORDS_TOP] = top
    frames[depth, at.N_PATH] = n_path
    control[at.DEPTH] = depth
    return at.OK

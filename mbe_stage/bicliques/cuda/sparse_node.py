"""Nodes with many left vertices, and the whole graph itself: a child is found by counting over its two-step paths."""

from __future__ import annotations

import numpy as np
from numba import cuda

from mbe_stage.bicliques.cuda import layout as at
from mbe_stage.bicliques.cuda.bounds import allows, left_weight, limits_hold, right_bounds
from mbe_stage.bicliques.cuda.columns import all_columns, keep_columns, no_columns
from mbe_stage.bicliques.cuda.emit_list import emit_list
from mbe_stage.bicliques.cuda.kept import MARK, walk_kept
from mbe_stage.bicliques.cuda.marks import mark_rows
from mbe_stage.bicliques.cuda.nodes import entry, node_at
from mbe_stage.bicliques.cuda.paths import count_paths
from mbe_stage.bicliques.cuda.share import ask_to_stop
from mbe_stage.bicliques.cuda.sparse_build import build_sparse_node
from mbe_stage.bicliques.cuda.sparse_word import count_small, open_word_frame
from mbe_stage.bicliques.cuda.techniques import FAMILIES, WORDS
from mbe_stage.bicliques.cuda.touched import look_at_rows, no_rows
from mbe_stage.device.warp import next_tile

__all__ = ["visit_sparse_child"]

_U = np.uint32


@cuda.jit(device=True, forceinline=True)
def visit_sparse_child(number, row, own, pool, output, control, wide_control, mode, techniques):
    """Visit a child of a sparse node; it may leave a word frame on the (empty) stack, or a new sparse node.

    `PAUSED` says that something was short: the child is to be visited again in the next slice.
    """
    lane = np.int32(cuda.laneid)
    numbers = pool.ints
    node = node_at(number, pool)
    first = numbers[entry(node, node.row_offsets + row)]
    n_left = np.int32(numbers[entry(node, node.row_offsets + row + 1)] - first)
    child = at.Child(row, _U(node.row_members + _U(first)), n_left)
    has_conditions = limits_hold(mode, pool)
    left_most = left_weight(node, child, pool) if has_conditions else np.int32(0)
    if has_conditions and left_most < pool.limits[at.MIN_LEFT]:
        return at.DONE
    word_width = at.WORD_BITS if techniques & WORDS != 0 else 0
    family_width = at.FAMILY_WIDTH if techniques & FAMILIES != 0 else 0
    is_wide = n_left > word_width
    singles = at.Singles(_U(0), _U(0))
    n_pairs = np.int32(0)
    rows = no_rows()
    if is_wide:
        n_touched, n_pairs = count_paths(node, child, own, numbers, mode)
    else:
        n_touched, singles = mark_rows(node, child, own, numbers, mode)
    status = at.DONE
    columns = all_columns(n_left)
    is_hopeless = False
    if has_conditions:
        right_least, right_most = right_bounds(is_wide, node, child, n_touched, own, pool)
        is_hopeless = not allows(left_most, right_least, right_most, pool)
    if is_hopeless:
        columns = no_columns()
    elif is_wide:
        rows = look_at_rows(child, n_touched, n_pairs, own)
        status, columns = _visit_wide(node, child, rows, own, pool, output, control, wide_control, mode, techniques)
    else:
        if mode > at.COUNTS and lane < n_left:
            own.columns[_U(lane)] = lane
        cuda.syncwarp()
    if status == at.DONE and columns.n_columns > word_width:
        status = build_sparse_node(node, child, columns, rows, own, pool, control, wide_control, mode)
    elif status == at.DONE and columns.n_columns > 0:
        # What is only counted, or is nothing, is finished at once.
        is_open = columns.n_columns > family_width
        if not is_open:
            n_below = count_small(is_wide, child, columns.n_columns, n_touched, singles, own)
            is_open = mode > at.COUNTS and n_below > 0
            if not is_open and lane == 0:
                own.state[at.FOUND] += n_below
                own.state[at.N_FAMILIES] += 1
        if is_open:
            status = open_word_frame(
                is_wide, node, child, columns.n_columns, n_touched, singles, own, pool, control, wide_control, mode
            )  # fmt: skip
    cuda.syncwarp()
    k = lane
    while k < n_touched:
        other = own.touched[_U(k)]
        own.bits[_U(other)] = _U(0)
        if is_wide:
            own.counts[_U(other)] = 0
        k = next_tile(k)
    if lane == 0:
        # What is in the output already is not written again when a child that was short of something is visited again.
        if status == at.DONE:
            own.state[at.EMITTED] = 0
        if is_wide:
            own.state[at.N_WIDE] += 1
    cuda.syncwarp()
    return status


@cuda.jit(device=True, forceinline=True)
def _visit_wide(node, child, rows, own, pool, output, control, wide_control, mode, techniques):
    """Write a wide child unless an earlier row holds its whole left set, and find the columns below it.

    Where at most 32 are left, `bits` says which of them each row holds.
    """
    if rows.most_earlier == child.n_left:
        return at.DONE, no_columns()
    if own.state[at.EMITTED] == 0:
        if mode == at.COUNTS:
            if cuda.laneid == 0:
                own.state[at.FOUND] += 1
        elif not emit_list(node, child, rows.n_touched, own, mode, pool, output, wide_control):
            ask_to_stop(control, at.OUTPUT_FULL)
            return at.PAUSED, no_columns()
        cuda.syncwarp()
        if cuda.laneid == 0:
            own.state[at.EMITTED] = 1
    columns = keep_columns(node, child, rows, own, pool.ints, techniques)
    if techniques & WORDS != 0 and 0 < columns.n_columns <= at.WORD_BITS:
        walk_kept(MARK, 1, node, columns, rows, node, child, own, pool.ints, mode)
    return at.DONE, columns

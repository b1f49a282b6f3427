"""Levels of a frame's stack as nodes, which anybody may go on with: given away, or kept for the next quantum."""

from __future__ import annotations

import numpy as np
from numba import cuda

from mbe_stage.device.masks import bit_of, low_bits, nth_of, size_of
from mbe_stage.pq_counts.cuda import layout as at
from mbe_stage.pq_counts.cuda.layout import Chosen
from mbe_stage.pq_counts.cuda.leaves import chosen_of
from mbe_stage.search.cuda.levels import levels_with

_I = np.int32
_KEY = (1 << at.KEY_BITS) - 1


@cuda.jit(device=True, forceinline=True)
def write_frame(home, frame, work):  # noqa: ARG001 - it stands in shared memory
    """Copy rows and columns of the frame into the pool."""
    own, words = work.own, work.device.words
    k = np.int64(cuda.laneid)
    for _ in range(at.STACK // 32):
        mask = own.frame[own.frame_at + k]
        words[home + 2 * k] = np.uint32(mask & np.uint64(0xFFFFFFFF))
        words[home + 2 * k + 1] = np.uint32(mask >> np.uint64(32))
        k += 32


@cuda.jit(device=True, forceinline=True)
def _frame_words(frame):  # noqa: ARG001 - all frames take as many
    return at.MATRIX_WORDS


@cuda.jit(device=True, forceinline=True)
def _write_level(node, level, frame, work):  # noqa: ARG001
    """Write a node of a level of the stack; returns how many children are left, int32."""
    own, nodes = work.own, work.device.nodes
    place = own.frame_at + at.STACK + level * at.LEVEL_WORDS
    rows, columns, missing, tag = own.frame[place], own.frame[place + 1], own.frame[place + 2], own.frame[place + 3]
    if cuda.laneid == 0:
        nodes[node, at.KEY] = np.int64(np.uint64(tag & np.uint64(_KEY)))
        nodes[node, at.PIVOT] = np.int64(tag >> np.uint64(at.KEY_BITS))
        nodes[node, at.KIND] = np.int64(at.IS_FRAME)
        nodes[node, at.ROW_MASK] = np.int64(rows)
        nodes[node, at.COLUMN_MASK] = np.int64(columns)
        nodes[node, at.MISSING] = np.int64(missing)
    cuda.syncwarp()
    return _I(size_of(missing) + 1)


share_level, keep_levels = levels_with(_frame_words, write_frame, _write_level)


@cuda.jit(device=True, forceinline=True)
def open_level(node, child, own, device, limits):
    """Put the frame of a node into shared memory; one of the node's children.

    Parameters
    ----------
    node, child : int32

    Returns
    -------
    rows, columns : uint64
    chosen : Chosen
    home : int64
        Where the frame stands in the pool.
    """
    fields = device.nodes[node]
    home = fields[at.OFFSET]
    cuda.syncwarp()
    k = np.int64(cuda.laneid)
    for _ in range(at.STACK // 32):
        low, high = device.words[home + 2 * k], device.words[home + 2 * k + 1]
        own.frame[own.frame_at + k] = np.uint64(np.uint64(np.uint64(high) << np.uint64(32)) | np.uint64(low))
        k += 32
    cuda.syncwarp()
    rows, columns, missing = (
        np.uint64(fields[at.ROW_MASK]),
        np.uint64(fields[at.COLUMN_MASK]),
        np.uint64(fields[at.MISSING]),
    )
    pivot = _I(fields[at.PIVOT])
    chosen = chosen_of(fields[at.KEY], limits)
    held_rows, optional_rows = chosen.held_rows, chosen.optional_rows
    held_columns, optional_columns = chosen.held_columns, chosen.optional_columns
    by_columns = pivot < 64
    if child == size_of(missing):
        if by_columns:
            rows = np.uint64(rows & ~bit_of(pivot))
            columns = np.uint64(columns & ~missing)
            optional_rows = _I(optional_rows + 1)
        else:
            columns = np.uint64(columns & ~bit_of(_I(pivot & 63)))
            rows = np.uint64(rows & ~missing)
            optional_columns = _I(optional_columns + 1)
    else:
        member = nth_of(missing, child)
        gone = np.uint64(missing & low_bits(_I(member + 1)))
        if by_columns:
            columns = np.uint64(columns & ~gone)
            rows = np.uint64(rows & own.frame[own.frame_at + at.FRAME_COLUMNS + member])
            held_columns = _I(held_columns + 1)
        else:
            rows = np.uint64(rows & ~gone)
            columns = np.uint64(columns & own.frame[own.frame_at + member])
            held_rows = _I(held_rows + 1)
    return rows, columns, Chosen(held_rows, optional_rows, held_columns, optional_columns), home

"""Entries of a frame's stack as nodes that any warp can continue, now or in the next quantum."""

from __future__ import annotations

import numpy as np
from numba import cuda

from mbe_stage.device.masks import bit_of, low_bits, nth_of, size_of
from mbe_stage.pq_counts.cuda import layout
from mbe_stage.pq_counts.cuda.layout import Chosen
from mbe_stage.pq_counts.cuda.leaves import chosen_of
from mbe_stage.search.cuda.levels import stack_entries_with

_I = np.int32
_KEY = (1 << layout.KEY_BITS) - 1


@cuda.jit(device=True, forceinline=True)
def write_frame(pool_offset, frame, work):  # noqa: ARG001 - it stands in shared memory
    """Copy rows and columns of the frame into the pool."""
    own, words = work.own, work.device.words
    k = np.int64(cuda.laneid)
    for _ in range(layout.STACK // 32):
        mask = own.frame[own.frame_at + k]
        words[pool_offset + 2 * k] = np.uint32(mask & np.uint64(0xFFFFFFFF))
        words[pool_offset + 2 * k + 1] = np.uint32(mask >> np.uint64(32))
        k += 32


@cuda.jit(device=True, forceinline=True)
def _frame_words(frame):  # noqa: ARG001 - all frames take as many
    return layout.MATRIX_WORDS


@cuda.jit(device=True, forceinline=True)
def _write_entry(node, entry, frame, work):  # noqa: ARG001
    """Write a node for a stack entry; return its number of children left, int32."""
    own, nodes = work.own, work.device.nodes
    place = own.frame_at + layout.STACK + entry * layout.ENTRY_WORDS
    rows, columns, missing, tag = own.frame[place], own.frame[place + 1], own.frame[place + 2], own.frame[place + 3]
    if cuda.laneid == 0:
        nodes[node, layout.KEY] = np.int64(np.uint64(tag & np.uint64(_KEY)))
        nodes[node, layout.PIVOT] = np.int64(tag >> np.uint64(layout.KEY_BITS))
        nodes[node, layout.KIND] = np.int64(layout.IS_FRAME)
        nodes[node, layout.ROW_MASK] = np.int64(rows)
        nodes[node, layout.COLUMN_MASK] = np.int64(columns)
        nodes[node, layout.MISSING] = np.int64(missing)
    cuda.syncwarp()
    return _I(size_of(missing) + 1)


share_entry, keep_entries = stack_entries_with(_frame_words, write_frame, _write_entry)


@cuda.jit(device=True, forceinline=True)
def open_entry(node, child, own, device, bounds):
    """Load the frame of a node into shared memory; return one of the node's children.

    Parameters
    ----------
    node, child : int32

    Returns
    -------
    rows, columns : uint64
    chosen : Chosen
    pool_offset : int64
        Offset of the frame in the pool.
    """
    fields = device.nodes[node]
    pool_offset = fields[layout.OFFSET]
    cuda.syncwarp()
    k = np.int64(cuda.laneid)
    for _ in range(layout.STACK // 32):
        low, high = device.words[pool_offset + 2 * k], device.words[pool_offset + 2 * k + 1]
        own.frame[own.frame_at + k] = np.uint64(np.uint64(np.uint64(high) << np.uint64(32)) | np.uint64(low))
        k += 32
    cuda.syncwarp()
    rows, columns, missing = (
        np.uint64(fields[layout.ROW_MASK]),
        np.uint64(fields[layout.COLUMN_MASK]),
        np.uint64(fields[layout.MISSING]),
    )
    pivot = _I(fields[layout.PIVOT])
    chosen = chosen_of(fields[layout.KEY], bounds)
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
            rows = np.uint64(rows & own.frame[own.frame_at + layout.FRAME_COLUMNS + member])
            held_columns = _I(held_columns + 1)
        else:
            rows = np.uint64(rows & ~gone)
            columns = np.uint64(columns & own.frame[own.frame_at + member])
            held_rows = _I(held_rows + 1)
    return rows, columns, Chosen(held_rows, optional_rows, held_columns, optional_columns), pool_offset

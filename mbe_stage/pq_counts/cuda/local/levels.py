"""Entries of a frame's stack, also as nodes: with the path, and the graph's vertices of the frame."""

from __future__ import annotations

import numpy as np
from numba import cuda

from mbe_stage.device.masks import bit_of, nth_of, size_of
from mbe_stage.device.warp import next_tile
from mbe_stage.pq_counts.cuda import layout
from mbe_stage.pq_counts.cuda.levels import open_entry, write_frame
from mbe_stage.pq_counts.cuda.local import layout as local_layout
from mbe_stage.pq_counts.cuda.local.layout import (
    ENTRY_FIELDS,
    ENTRY_FIELDS_OF_NODES,
    FRAME_VERTICES,
    FRAME_WORDS,
    FramePath,
)
from mbe_stage.search.cuda.levels import stack_entries_with

_I = np.int32
_L = np.int64
_U = np.uint32


@cuda.jit(device=True, forceinline=True)
def push(depth, rows, columns, key, pivot, path, work):
    """Push a node on the stack whose children are to be visited.

    Parameters
    ----------
    depth : int32
        Entries before.
    rows, columns : uint64
    key : int64
    pivot : int32
        A row, or 64 plus a column.
    """
    own, mine = work.own, work.mine
    missing = np.uint64(rows & ~own.frame[own.frame_at + layout.FRAME_COLUMNS + (pivot & 63)])
    if pivot < 64:
        missing = np.uint64(columns & ~own.frame[own.frame_at + pivot])
    entry = _I(local_layout.STACK_AT + ENTRY_FIELDS * depth)
    cuda.syncwarp()
    if cuda.laneid == 0:
        stack = mine
        stack[entry + local_layout.ROWS] = _L(rows)
        stack[entry + local_layout.COLUMNS] = _L(columns)
        stack[entry + local_layout.MISSING] = _L(missing)
        stack[entry + local_layout.KEY] = _L(key)
        stack[entry + local_layout.PIVOT] = _L(pivot)
        stack[entry + local_layout.HELD_ROWS] = _L(path.held_rows)
        stack[entry + local_layout.OPTIONAL_ROWS] = _L(path.optional_rows)
        stack[entry + local_layout.HELD_COLUMNS] = _L(path.held_columns)
        stack[entry + local_layout.OPTIONAL_COLUMNS] = _L(path.optional_columns)
    cuda.syncwarp()


@cuda.jit(device=True, forceinline=True)
def path_of_entry(fields, first):
    """Read the frame's path of an entry; `first` is its position."""
    return FramePath(
        np.uint64(fields[first]),
        np.uint64(fields[first + 1]),
        np.uint64(fields[first + 2]),
        np.uint64(fields[first + 3]),
    )


@cuda.jit(device=True, forceinline=True)
def _frame_words(n_path):
    """Words of a frame in the pool, including the path outside, int64."""
    return _L(FRAME_WORDS + n_path)


@cuda.jit(device=True, forceinline=True)
def _write_frame(pool_offset, n_path, work):
    """Copy the frame into the pool: rows and columns, their vertices, and the path outside."""
    mine, words = work.mine, work.device.words
    write_frame(pool_offset, None, work)
    k = _I(cuda.laneid)
    for _ in range(FRAME_VERTICES // 32):
        words[pool_offset + layout.MATRIX_WORDS + k] = _U(mine[local_layout.VERTICES_AT + k])
        k = _I(k + 32)
    k = _I(cuda.laneid)
    tile = _I(0)
    while tile < n_path:
        if k < n_path:
            words[pool_offset + FRAME_WORDS + k] = _U(mine[local_layout.PATH_AT + k])
        k = next_tile(k)
        tile = next_tile(tile)


@cuda.jit(device=True, forceinline=True)
def _write_entry(node, entry, n_path, work):
    """Write a node for a stack entry; return its number of children left, int32."""
    mine, nodes = work.mine, work.device.nodes
    first = _I(ENTRY_FIELDS * entry)
    if cuda.laneid == 0:
        nodes[node, layout.KIND] = _L(layout.IS_FRAME)
        nodes[node, local_layout.N_PATH] = _L(n_path)
        for k in range(ENTRY_FIELDS):
            nodes[node, ENTRY_FIELDS_OF_NODES[k]] = mine[local_layout.STACK_AT + first + k]
    cuda.syncwarp()
    return _I(size_of(np.uint64(mine[local_layout.STACK_AT + first + local_layout.MISSING])) + 1)


# Instead of a frame: the number of vertices on the path outside.
share_local_entry, keep_local_entries = stack_entries_with(_frame_words, _write_frame, _write_entry)


@cuda.jit(device=True, forceinline=True)
def open_local_entry(node, child, work, bounds):
    """Load the frame of a node into shared memory; return one of the node's children.

    Parameters
    ----------
    node, child : int32

    Returns
    -------
    rows, columns : uint64
    chosen : Chosen
    path : FramePath
    n_path : int32
        Vertices on the path outside.
    pool_offset : int64
        Offset of the frame in the pool.
    """
    own, mine, device = work.own, work.mine, work.device
    rows, columns, chosen, pool_offset = open_entry(node, child, own, device, bounds)
    fields = device.nodes[node]
    n_path = _I(fields[local_layout.N_PATH])
    k = _I(cuda.laneid)
    for _ in range(FRAME_VERTICES // 32):
        mine[local_layout.VERTICES_AT + k] = _L(device.words[pool_offset + layout.MATRIX_WORDS + k])
        k = _I(k + 32)
    k = _I(cuda.laneid)
    tile = _I(0)
    while tile < n_path:
        if k < n_path:
            mine[local_layout.PATH_AT + k] = _L(device.words[pool_offset + FRAME_WORDS + k])
        k = next_tile(k)
        tile = next_tile(tile)
    cuda.syncwarp()
    path = path_of_entry(fields, local_layout.FIRST_OF_PATH)
    pivot, missing = _I(fields[layout.PIVOT]), np.uint64(fields[layout.MISSING])
    is_last = child == size_of(missing)
    vertex = bit_of(_I(pivot & 63)) if is_last else bit_of(nth_of(missing, child))
    return rows, columns, chosen, with_vertex(path, vertex, pivot < 64, is_last), n_path, pool_offset


@cuda.jit(device=True, forceinline=True)
def with_vertex(path, vertex, is_row_pivot, is_last):
    """Return the path of a child: plus the optional pivot in the last child, else plus the held vertex.

    Parameters
    ----------
    vertex : uint64
    is_row_pivot, is_last : bool
    """
    nothing = np.uint64(0)
    of_rows = is_row_pivot == is_last
    return FramePath(
        np.uint64(path.held_rows | (vertex if of_rows and not is_last else nothing)),
        np.uint64(path.optional_rows | (vertex if of_rows and is_last else nothing)),
        np.uint64(path.held_columns | (vertex if not of_rows and not is_last else nothing)),
        np.uint64(path.optional_columns | (vertex if not of_rows and is_last else nothing)),
    )

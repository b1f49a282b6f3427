"""Levels of a frame's stack, and as nodes: with the path, and with what the frame's lines are in the graph."""

from __future__ import annotations

import numpy as np
from numba import cuda

from mbe_stage.device.masks import bit_of, nth_of, size_of
from mbe_stage.device.warp import next_tile
from mbe_stage.pq_counts.cuda import layout as at
from mbe_stage.pq_counts.cuda.levels import open_level, write_frame
from mbe_stage.pq_counts.cuda.local import layout as own_at
from mbe_stage.pq_counts.cuda.local.layout import (
    FRAME_LINES,
    FRAME_WORDS,
    LEVEL_FIELDS,
    LEVEL_FIELDS_OF_NODES,
    FramePath,
)
from mbe_stage.search.cuda.levels import levels_with

_I = np.int32
_L = np.int64
_U = np.uint32


@cuda.jit(device=True, forceinline=True)
def push(depth, rows, columns, key, pivot, path, work):
    """Put a node on the stack whose children are to be visited.

    Parameters
    ----------
    depth : int32
        Levels before.
    rows, columns : uint64
    key : int64
    pivot : int32
        A row, or 64 plus a column.
    """
    own, mine = work.own, work.mine
    missing = np.uint64(rows & ~own.frame[own.frame_at + at.FRAME_COLUMNS + (pivot & 63)])
    if pivot < 64:
        missing = np.uint64(columns & ~own.frame[own.frame_at + pivot])
    level = _I(own_at.STACK_AT + LEVEL_FIELDS * depth)
    cuda.syncwarp()
    if cuda.laneid == 0:
        stack = mine
        stack[level + own_at.ROWS] = _L(rows)
        stack[level + own_at.COLUMNS] = _L(columns)
        stack[level + own_at.MISSING] = _L(missing)
        stack[level + own_at.KEY] = _L(key)
        stack[level + own_at.PIVOT] = _L(pivot)
        stack[level + own_at.HELD_ROWS] = _L(path.held_rows)
        stack[level + own_at.OPTIONAL_ROWS] = _L(path.optional_rows)
        stack[level + own_at.HELD_COLUMNS] = _L(path.held_columns)
        stack[level + own_at.OPTIONAL_COLUMNS] = _L(path.optional_columns)
    cuda.syncwarp()


@cuda.jit(device=True, forceinline=True)
def path_of_level(fields, first):
    """The lines of the frame that were on the path when a level was made; `first` is where they stand."""
    return FramePath(
        np.uint64(fields[first]),
        np.uint64(fields[first + 1]),
        np.uint64(fields[first + 2]),
        np.uint64(fields[first + 3]),
    )


@cuda.jit(device=True, forceinline=True)
def _frame_words(n_path):
    """Words of a frame in the pool, with the path outside, int64."""
    return _L(FRAME_WORDS + n_path)


@cuda.jit(device=True, forceinline=True)
def _write_frame(home, n_path, work):
    """Copy the frame into the pool: rows and columns, which lines these are, and the path outside."""
    mine, words = work.mine, work.device.words
    write_frame(home, None, work)
    k = _I(cuda.laneid)
    for _ in range(FRAME_LINES // 32):
        words[home + at.MATRIX_WORDS + k] = _U(mine[own_at.LINES_AT + k])
        k = _I(k + 32)
    k = _I(cuda.laneid)
    tile = _I(0)
    while tile < n_path:
        if k < n_path:
            words[home + FRAME_WORDS + k] = _U(mine[own_at.PATH_AT + k])
        k = next_tile(k)
        tile = next_tile(tile)


@cuda.jit(device=True, forceinline=True)
def _write_level(node, level, n_path, work):
    """Write a node of a level of the stack; returns how many children are left, int32."""
    mine, nodes = work.mine, work.device.nodes
    first = _I(LEVEL_FIELDS * level)
    if cuda.laneid == 0:
        nodes[node, at.KIND] = _L(at.IS_FRAME)
        nodes[node, own_at.N_PATH] = _L(n_path)
        for k in range(LEVEL_FIELDS):
            nodes[node, LEVEL_FIELDS_OF_NODES[k]] = mine[own_at.STACK_AT + first + k]
    cuda.syncwarp()
    return _I(size_of(np.uint64(mine[own_at.STACK_AT + first + own_at.MISSING])) + 1)


# In the place of a frame: how many lines are on the path outside.
share_local_level, keep_local_levels = levels_with(_frame_words, _write_frame, _write_level)


@cuda.jit(device=True, forceinline=True)
def open_local_level(node, child, work, limits):
    """Put the frame of a node into shared memory; one of the node's children.

    Parameters
    ----------
    node, child : int32

    Returns
    -------
    rows, columns : uint64
    chosen : Chosen
    path : FramePath
    n_path : int32
        Lines on the path outside.
    home : int64
        Where the frame stands in the pool.
    """
    own, mine, device = work.own, work.mine, work.device
    rows, columns, chosen, home = open_level(node, child, own, device, limits)
    fields = device.nodes[node]
    n_path = _I(fields[own_at.N_PATH])
    k = _I(cuda.laneid)
    for _ in range(FRAME_LINES // 32):
        mine[own_at.LINES_AT + k] = _L(device.words[home + at.MATRIX_WORDS + k])
        k = _I(k + 32)
    k = _I(cuda.laneid)
    tile = _I(0)
    while tile < n_path:
        if k < n_path:
            mine[own_at.PATH_AT + k] = _L(device.words[home + FRAME_WORDS + k])
        k = next_tile(k)
        tile = next_tile(tile)
    cuda.syncwarp()
    path = path_of_level(fields, own_at.FIRST_OF_PATH)
    pivot, missing = _I(fields[at.PIVOT]), np.uint64(fields[at.MISSING])
    is_last = child == size_of(missing)
    line = bit_of(_I(pivot & 63)) if is_last else bit_of(nth_of(missing, child))
    return rows, columns, chosen, with_line(path, line, pivot < 64, is_last), n_path, home


@cuda.jit(device=True, forceinline=True)
def with_line(path, line, is_row_pivot, is_last):
    """The path of a child: with the pivot as optional in the last one, else with what is held in it, a set of one.

    Parameters
    ----------
    line : uint64
    is_row_pivot, is_last : bool
    """
    nothing = np.uint64(0)
    of_rows = is_row_pivot == is_last
    return FramePath(
        np.uint64(path.held_rows | (line if of_rows and not is_last else nothing)),
        np.uint64(path.optional_rows | (line if of_rows and is_last else nothing)),
        np.uint64(path.held_columns | (line if not of_rows and not is_last else nothing)),
        np.uint64(path.optional_columns | (line if not of_rows and is_last else nothing)),
    )

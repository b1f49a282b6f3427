"""The walk of a frame for local counts: the tree of `cuda.frame_walk`, with the path of each node.

Entries of the stack, and their nodes, also store the path, and the graph's vertex of each vertex of the frame.
"""

from __future__ import annotations

import numpy as np
from numba import cuda

from mbe_stage.device.masks import bit_of, first_of, nth_of, size_of
from mbe_stage.device.warp import max_all, next_tile
from mbe_stage.pq_counts.cuda import layout
from mbe_stage.pq_counts.cuda.frame_walk import NOTHING, OPEN, kind_of_end, open_entry, reduced, write_frame
from mbe_stage.pq_counts.cuda.layout import Chosen
from mbe_stage.pq_counts.cuda.leaves import chosen_of, key_of
from mbe_stage.pq_counts.cuda.local import layout as local_layout
from mbe_stage.pq_counts.cuda.local.frame_leaves import (
    add_end,
    clear_sums,
    close_rows,
    frame_path,
    open_row,
    set_frame_path,
    vertices_of_lane,
)
from mbe_stage.pq_counts.cuda.local.layout import (
    ENTRY_FIELDS,
    ENTRY_FIELDS_OF_NODES,
    FRAME_VERTICES,
    FRAME_WORDS,
    HELD,
    OPTIONAL,
    FramePath,
)
from mbe_stage.pq_counts.cuda.local.lines import flush_frame
from mbe_stage.pq_counts.cuda.techniques import DONATION
from mbe_stage.search.cuda.nodes import quantum_is_over, stack_entries_with, warps_are_waiting

_L = np.int64
_U = np.uint32
_LOOK_EVERY = 32
_I = np.int32


@cuda.jit(device=True, forceinline=True)
def push(depth, rows, columns, key, pivot, path, work):
    """Push an open node on the stack.

    Parameters
    ----------
    depth : int32
        Number of entries before.
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
    """Read the frame's path from an entry's fields; `first` is its position."""
    return FramePath(
        np.uint64(fields[first]),
        np.uint64(fields[first + 1]),
        np.uint64(fields[first + 2]),
        np.uint64(fields[first + 3]),
    )


@cuda.jit(device=True, forceinline=True)
def _frame_words(n_path):
    """Return the words of a frame in the pool, including the path outside, int64."""
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
    """Write a stack entry as a node; return the number of its remaining children, int32."""
    mine, nodes = work.mine, work.device.nodes
    first = _I(ENTRY_FIELDS * entry)
    if cuda.laneid == 0:
        nodes[node, layout.KIND] = _L(layout.IS_FRAME)
        nodes[node, local_layout.N_PATH] = _L(n_path)
        for k in range(ENTRY_FIELDS):
            nodes[node, ENTRY_FIELDS_OF_NODES[k]] = mine[local_layout.STACK_AT + first + k]
    cuda.syncwarp()
    return _I(size_of(np.uint64(mine[local_layout.STACK_AT + first + local_layout.MISSING])) + 1)


# The generic argument `frame` is the number of vertices on the path outside.
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
        Number of vertices on the path outside the frame.
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
    """Return the path of a child: with the optional pivot for the last child, otherwise with the held vertex.

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


@cuda.jit(device=True, forceinline=True)
def _visit(rows, columns, chosen, work):
    """Reduce a node, and add its leaves if it has no children.

    Parameters
    ----------
    rows, columns : uint64

    Returns
    -------
    rows, columns : uint64
    chosen : Chosen
    pivot : int32
        A row, or 64 plus a column; -1 if the node is done.
    """
    launch = work.launch
    pivot = _I(-1)
    bounds = launch.bounds
    while True:
        end = kind_of_end(rows, columns, chosen, bounds)
        if end != OPEN:
            if end != NOTHING:
                add_end(end, rows, columns, chosen, work)
            break
        n_before = _I(size_of(rows) + size_of(columns))
        rows, columns, chosen, best_row, best_column, full_rows, full_columns = reduced(
            rows, columns, chosen, bounds, vertices_of_lane(work)
        )
        if launch.with_edges:
            _open_rows(full_rows, work)
        if full_rows | full_columns != np.uint64(0):
            path = frame_path(work)
            optional_rows = np.uint64(path.optional_rows | full_rows)
            optional_columns = np.uint64(path.optional_columns | full_columns)
            set_frame_path(FramePath(path.held_rows, optional_rows, path.held_columns, optional_columns), work)
        n_rows, n_columns = size_of(rows), size_of(columns)
        if n_rows + n_columns == n_before:
            best_row, best_column = max_all(best_row), max_all(best_column)
            pivot = _I(best_row & 63)
            if n_columns - (best_row >> 6) > n_rows - (best_column >> 6):
                pivot = _I(64 + (best_column & 63))
            break
    return rows, columns, chosen, pivot


@cuda.jit(device=True, forceinline=True)
def _open_rows(rows, work):
    """Put optional rows on the path."""
    while rows != np.uint64(0):
        open_row(first_of(rows), OPTIONAL, work)
        rows = np.uint64(rows & np.uint64(rows - np.uint64(1)))


@cuda.jit(device=True, forceinline=True)
def _back_to(kept, work):
    """Close the rows that are not on `kept`, the path of an earlier entry."""
    if work.launch.with_edges:
        path = frame_path(work)
        close_rows(np.uint64(path.held_rows & ~kept.held_rows), HELD, work)
        close_rows(np.uint64(path.optional_rows & ~kept.optional_rows), OPTIONAL, work)


@cuda.jit(device=True, forceinline=True)
def _next_child(depth, work):
    """Return the next child of the top entry, which is popped with its last child.

    Parameters
    ----------
    depth : int32

    Returns
    -------
    rows, columns : uint64
    chosen : Chosen
    depth : int32
    """
    own, mine, launch = work.own, work.mine, work.launch
    entry, stack = _I(local_layout.STACK_AT + ENTRY_FIELDS * (depth - 1)), mine
    rows, columns = np.uint64(stack[entry + local_layout.ROWS]), np.uint64(stack[entry + local_layout.COLUMNS])
    missing, pivot = np.uint64(stack[entry + local_layout.MISSING]), _I(stack[entry + local_layout.PIVOT])
    chosen = chosen_of(stack[entry + local_layout.KEY], launch.bounds)
    kept = path_of_entry(stack, _I(entry + local_layout.HELD_ROWS))
    cuda.syncwarp()
    _back_to(kept, work)
    held_rows, optional_rows = chosen.held_rows, chosen.optional_rows
    held_columns, optional_columns = chosen.held_columns, chosen.optional_columns
    by_columns = pivot < 64
    member = first_of(missing)
    is_last = member < 0
    if is_last:
        depth = _I(depth - 1)
        member = _I(pivot & 63)
    gone = bit_of(member)
    if not is_last and cuda.laneid == 0:
        stack[entry + local_layout.MISSING] = np.int64(np.uint64(missing & ~gone))
    # Remove the vertex from its side: the pivot's side for the last child, otherwise the other side.
    if by_columns == is_last:
        rows = np.uint64(rows & ~gone)
        if is_last:
            optional_rows = _I(optional_rows + 1)
        else:
            held_rows = _I(held_rows + 1)
            if cuda.laneid == 0:
                stack[entry + local_layout.ROWS] = np.int64(rows)
            columns = np.uint64(columns & own.frame[own.frame_at + member])
        if launch.with_edges:
            open_row(member, OPTIONAL if is_last else HELD, work)
    else:
        columns = np.uint64(columns & ~gone)
        if is_last:
            optional_columns = _I(optional_columns + 1)
        else:
            held_columns = _I(held_columns + 1)
            if cuda.laneid == 0:
                stack[entry + local_layout.COLUMNS] = np.int64(columns)
            rows = np.uint64(rows & own.frame[own.frame_at + layout.FRAME_COLUMNS + member])
    set_frame_path(with_vertex(kept, gone, by_columns, is_last), work)
    chosen = Chosen(held_rows, optional_rows, held_columns, optional_columns)
    return rows, columns, chosen, depth


@cuda.jit(device=True, forceinline=True)
def walk_local_frame(rows, columns, chosen, path, n_path, pool_offset, work):
    """Add all leaves below a node. If the quantum ends earlier, the stack becomes nodes (`keep_local_entries`).

    Parameters
    ----------
    rows, columns : uint64
        Masks of the node in the frame in shared memory.
    n_path : int32
        Number of vertices on the path outside the frame.
    pool_offset : int64
        As in `share_local_entry`.
    """
    own, device, launch = work.own, work.device, work.launch
    clear_sums(own)
    set_frame_path(path, work)
    bottom, depth, steps = _I(0), _I(0), _I(0)
    while True:
        rows, columns, chosen, pivot = _visit(rows, columns, chosen, work)
        if pivot >= 0:
            push(depth, rows, columns, key_of(chosen, launch.bounds), pivot, frame_path(work), work)
            depth = _I(depth + 1)
        steps = _I(steps + 1)
        if depth == bottom:
            break
        if (steps & (_LOOK_EVERY - 1)) == 0:
            if quantum_is_over(device.control, launch.deadline):
                keep_local_entries(bottom, depth, pool_offset, n_path, work)
                break
            if launch.techniques & DONATION != 0 and warps_are_waiting(device.control):
                pool_offset, is_shared = share_local_entry(bottom, pool_offset, n_path, work)
                if is_shared:
                    bottom = _I(bottom + 1)
                if depth == bottom:
                    break
        rows, columns, chosen, depth = _next_child(depth, work)
    nothing = np.uint64(0)
    _back_to(FramePath(nothing, nothing, nothing, nothing), work)
    flush_frame(n_path, work)
    if cuda.laneid == 0:
        own.state[layout.N_VISITED] += np.int64(steps)

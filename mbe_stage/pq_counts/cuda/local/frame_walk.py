"""Walk a frame for local counts: the tree of `cuda.frame_walk`, with the path of its vertices."""

from __future__ import annotations

import numpy as np
from numba import cuda

from mbe_stage.device.masks import bit_of, first_of, size_of
from mbe_stage.device.warp import max_all
from mbe_stage.pq_counts.cuda import layout
from mbe_stage.pq_counts.cuda.frame_walk import NOTHING, OPEN, kind_of_end, reduced
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
from mbe_stage.pq_counts.cuda.local.layout import ENTRY_FIELDS, HELD, OPTIONAL, FramePath
from mbe_stage.pq_counts.cuda.local.levels import (
    keep_local_entries,
    path_of_entry,
    push,
    share_local_entry,
    with_vertex,
)
from mbe_stage.pq_counts.cuda.local.lines import flush_frame
from mbe_stage.pq_counts.cuda.techniques import DONATION
from mbe_stage.search.cuda.nodes import quantum_is_over, warps_are_waiting

_LOOK_EVERY = 32
_I = np.int32


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
    """Close the rows that are not on the path of an earlier entry."""
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
    # Side of the vertex that leaves the node: the pivot's in the last child, else the other one.
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
    """Add all nodes below a node. If the quantum ends before, the rest becomes nodes (`keep_local_entries`).

    Parameters
    ----------
    rows, columns : uint64
        Those of the frame in shared memory.
    n_path : int32
        Vertices on the path outside the frame.
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

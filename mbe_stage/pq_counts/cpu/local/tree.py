"""Local counts below some roots: the walk of `cpu.tree`, with vertices that open and close (`leaves`)."""

from __future__ import annotations

import numpy as np
from numba import int64, njit

from mbe_stage.pq_counts.cpu.layout import (
    BYTES_HELD,
    LISTS,
    MAX_COLUMNS,
    MAX_ROWS,
    MIN_COLUMNS,
    MIN_ROWS,
    NODES,
    STOP,
    WIDTH,
    Size,
)
from mbe_stage.pq_counts.cpu.list_nodes import fill_frame, has_room, missed_rows, most_neighbours
from mbe_stage.pq_counts.cpu.local.frame_walk import walk_local_frame
from mbe_stage.pq_counts.cpu.local.layout import COLUMN, HELD, LOCAL_WORKER, N_KINDS, OPENED, OPTIONAL, ROW
from mbe_stage.pq_counts.cpu.local.leaves import values_of, ways_at
from mbe_stage.pq_counts.cpu.local.lines import (
    LocalNode,
    add_leaf_node,
    close_vertices,
    flush_frame,
    held_row,
    open_vertex,
    open_vertices,
    reduced_node,
    rest_node,
    transposed_node,
)
from mbe_stage.pq_counts.cpu.local.words import add
from mbe_stage.pq_counts.cpu.tree import bytes_of, forget, number_rows, root_bytes, root_lists, touch
from mbe_stage.runtime.compile_ahead import CompileStep
from mbe_stage.runtime.jit import LONGS, compiled, steps_of


def compile_steps() -> tuple[CompileStep, ...]:
    """Return the steps to compile this module."""
    return steps_of(add_roots)


@compiled(LISTS, LOCAL_WORKER, LONGS, int64, int64, int64, int64, seconds=25.0)
def add_roots(graph, worker, size_bounds, first, end, part, n_parts):
    """Add the subtrees of some roots, or a part of them, to the sums of a worker.

    Parameters
    ----------
    worker : LocalWorker
        The worker; its sums are useless if it is stopped meanwhile.
    size_bounds : (4,) int64
        One cell.
    part, n_parts : int64
        Only every `n_parts`-th child of each root is added, from number `part` on.
    """
    for root in range(first, end):
        n_touched = touch(graph, worker, root)
        if size_bounds[MAX_ROWS] == 2:
            _add_pairs(graph, worker, size_bounds, root, n_touched, part, n_parts)
        else:
            _add_root(graph, worker, size_bounds, root, n_touched, part, n_parts)
        if worker.control[STOP]:
            return


@njit(nogil=True, inline="always")
def _add_pairs(graph, worker, size_bounds, root, n_touched, part, n_parts):
    """Add the bicliques of a root and one other row: a second walk over their common columns (wedges).

    Parameters
    ----------
    graph, worker, size_bounds, part, n_parts
        As in `add_roots`.
    """
    n_kinds, n_rows, q = worker.control[N_KINDS], graph.row_offsets.size - 1, size_bounds[MAX_COLUMNS]
    for k in range(n_touched):
        row = worker.touched[k]
        is_counted = k % n_parts == part and values_of(worker, size_bounds, Size(2, 0, 0, int64(worker.shared[row])))
        worker.place[row] = 1 if is_counted else -1
        if is_counted:
            add(worker.vertices, int64(row) * n_kinds, worker.values, 0)
            add(worker.vertices, root * n_kinds, worker.values, 0)
    for k in range(graph.row_offsets[root], graph.row_offsets[root + 1]):
        column = graph.columns[k]
        j = graph.column_offsets[column + 1] - 1
        while graph.rows[j] != root:
            row = graph.rows[j]
            if worker.place[row] == 1:
                share = ways_at(int64(worker.shared[row]) - 1, q - 1, q)
                add(worker.vertices, (n_rows + column) * n_kinds, worker.column_ways, share)
                if n_kinds == 2:
                    add(worker.edges, k, worker.column_ways, share)
                    add(worker.edges, worker.entries[j], worker.column_ways, share)
            j -= 1
    forget(worker, n_touched)


@njit(nogil=True, inline="always")
def _add_root(graph, worker, size_bounds, root, n_touched, part, n_parts):
    """Build the node below a root, and add it.

    Parameters
    ----------
    graph, worker, size_bounds, part, n_parts
        As in `add_roots`.
    """
    n_rows, n_entries = number_rows(worker, size_bounds, n_touched)
    n_bytes = root_bytes(graph, root, n_rows, n_entries)
    if 1 + n_rows < size_bounds[MIN_ROWS] or not has_room(worker, n_bytes):
        forget(worker, n_touched)
        return
    rows = np.empty(n_rows, np.int32)
    for k in range(n_touched):
        row = worker.touched[k]
        if worker.place[row] >= 0:
            rows[worker.place[row]] = row
    columns = graph.columns[graph.row_offsets[root] : graph.row_offsets[root + 1]].copy()
    node = LocalNode(root_lists(graph, worker, root, n_touched, n_rows), rows, columns)
    open_vertex(graph, worker, ROW, root, HELD)
    _walk(graph, worker, size_bounds, Size(int64(1), int64(0), int64(0), int64(0)), node, part, n_parts)
    close_vertices(graph, worker, int64(0))
    worker.control[BYTES_HELD] -= n_bytes


@compiled()
def _walk(graph, worker, size_bounds, size, node, part, n_parts):
    """Add all leaves below a node, or below some of its children. Vertices opened here are closed at the end.

    Parameters
    ----------
    part, n_parts : int64
        The children are dealt out to the parts in turn; the last child, with an optional pivot, counts as one of them.
    """
    n_open, n_before = worker.control[OPENED], 0
    while not worker.control[STOP]:
        worker.control[NODES] += 1
        size, node, is_leaf, full_rows, full_columns = reduced_node(size_bounds, size, node)
        open_vertices(graph, worker, ROW, full_rows, OPTIONAL)
        open_vertices(graph, worker, COLUMN, full_columns, OPTIONAL)
        n_rows, n_columns = node.rows.size, node.columns.size
        if is_leaf or (n_rows <= WIDTH and n_columns <= WIDTH):
            if n_before % n_parts == part:
                _add_end(graph, worker, size_bounds, size, node, is_leaf)
            break
        row, row_degree = most_neighbours(node.lists.row_offsets)
        column, column_degree = most_neighbours(node.lists.column_offsets)
        side, pivot = (ROW, column) if n_rows - column_degree < n_columns - row_degree else (COLUMN, row)
        # The node with the held vertices' side as rows: the pivot is then a column.
        seen = node if side == ROW else transposed_node(node)
        missed = missed_rows(seen.lists, pivot)
        gone = np.zeros(seen.rows.size, np.bool_)
        n_bytes = bytes_of(node.lists)
        for vertex in missed:
            gone[vertex] = True
            n_before += 1
            if n_before % n_parts == part:
                if not has_room(worker, n_bytes):
                    return
                n_now = worker.control[OPENED]
                open_vertex(graph, worker, side, seen.rows[vertex], HELD)
                child_size, child = _child(size_bounds, size, seen, vertex, gone, side)
                _walk(graph, worker, size_bounds, child_size, child, int64(0), int64(1))
                close_vertices(graph, worker, n_now)
                worker.control[BYTES_HELD] -= n_bytes
        open_vertex(graph, worker, 1 - side, seen.columns[pivot], OPTIONAL)
        seen = transposed_node(rest_node(transposed_node(seen), pivot))
        held_rows, optional_rows, held_columns, optional_columns = size
        if side == ROW:
            node, size = seen, Size(held_rows, optional_rows, held_columns, optional_columns + 1)
        else:
            node, size = transposed_node(seen), Size(held_rows, optional_rows + 1, held_columns, optional_columns)
    close_vertices(graph, worker, n_open)


@njit(nogil=True, inline="always")
def _child(size_bounds, size, seen, vertex, gone, side):
    """Return the node with one more held vertex.

    Parameters
    ----------
    seen : LocalNode
        The node; its rows are the vertices of `side`.
    gone : bool
        True for each vertex of `side` that the child does not contain.
    """
    held_rows, optional_rows, held_columns, optional_columns = size
    if side == ROW:
        size = Size(held_rows + 1, optional_rows, held_columns, optional_columns)
        return size, held_row(seen, vertex, gone, size_bounds[MIN_COLUMNS] - held_columns - optional_columns)
    size = Size(held_rows, optional_rows, held_columns + 1, optional_columns)
    return size, transposed_node(held_row(seen, vertex, gone, size_bounds[MIN_ROWS] - held_rows - optional_rows))


@njit(nogil=True, inline="always")
def _add_end(graph, worker, size_bounds, size, node, is_leaf):
    """Add a leaf node, or a node that fits a frame."""
    if is_leaf:
        add_leaf_node(graph, worker, size_bounds, size, node)
        return
    row_order, column_order = fill_frame(worker.frame, node.lists)
    walk_local_frame(worker, size_bounds, size, node.rows.size, node.columns.size)
    flush_frame(graph, worker, node, row_order, column_order)

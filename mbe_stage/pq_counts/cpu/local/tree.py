"""The local counts below some roots: the walk of `cpu.tree`, with lines that open and close on the way."""

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
    Node,
    add_leaf_node,
    close_lines,
    hand_on_frame,
    held_row,
    narrowed_node,
    open_line,
    open_lines,
    rest_node,
    turned_node,
)
from mbe_stage.pq_counts.cpu.local.words import add
from mbe_stage.pq_counts.cpu.tree import bytes_of, forget, number_rows, root_bytes, root_lists, touch
from mbe_stage.runtime.compile_ahead import CompileStep
from mbe_stage.runtime.jit import LONGS, compiled, steps_of


def compile_steps() -> tuple[CompileStep, ...]:
    """Everything here."""
    return steps_of(add_roots)


@compiled(LISTS, LOCAL_WORKER, LONGS, int64, int64, int64, int64, seconds=25.0)
def add_roots(graph, worker, asked, first, end, part, n_parts):
    """Add what is below some roots, or a part of it, to the sums of a worker.

    Parameters
    ----------
    worker : LocalWorker
        Its sums are of no use where it is stopped on the way.
    asked : (4,) int64
        One cell.
    part, n_parts : int64
        Of the children of each root, in turn: only those of this part.
    """
    for root in range(first, end):
        n_touched = touch(graph, worker, root)
        if asked[MAX_ROWS] == 2:
            _add_pairs(graph, worker, asked, root, n_touched, part, n_parts)
        else:
            _add_root(graph, worker, asked, root, n_touched, part, n_parts)
        if worker.control[STOP]:
            return


@njit(nogil=True, inline="always")
def _add_pairs(graph, worker, asked, root, n_touched, part, n_parts):
    """Add the bicliques of a root and one other row: the columns that they share are walked once more (wedges).

    Parameters
    ----------
    graph, worker, asked, part, n_parts
        As `add_roots` takes them.
    """
    n_kinds, n_rows, q = worker.control[N_KINDS], graph.row_offsets.size - 1, asked[MAX_COLUMNS]
    for k in range(n_touched):
        row = worker.touched[k]
        is_counted = k % n_parts == part and values_of(worker, asked, Size(2, 0, 0, int64(worker.shared[row])))
        worker.place[row] = 1 if is_counted else -1
        if is_counted:
            add(worker.lines, int64(row) * n_kinds, worker.values, 0)
            add(worker.lines, root * n_kinds, worker.values, 0)
    for k in range(graph.row_offsets[root], graph.row_offsets[root + 1]):
        column = graph.columns[k]
        j = graph.column_offsets[column + 1] - 1
        while graph.rows[j] != root:
            row = graph.rows[j]
            if worker.place[row] == 1:
                share = ways_at(int64(worker.shared[row]) - 1, q - 1, q)
                add(worker.lines, (n_rows + column) * n_kinds, worker.column_ways, share)
                if n_kinds == 2:
                    add(worker.edges, k, worker.column_ways, share)
                    add(worker.edges, worker.entries[j], worker.column_ways, share)
            j -= 1
    forget(worker, n_touched)


@njit(nogil=True, inline="always")
def _add_root(graph, worker, asked, root, n_touched, part, n_parts):
    """Build the node below a root, and add it.

    Parameters
    ----------
    graph, worker, asked, part, n_parts
        As `add_roots` takes them.
    """
    n_rows, n_entries = number_rows(worker, asked, n_touched)
    n_bytes = root_bytes(graph, root, n_rows, n_entries)
    if 1 + n_rows < asked[MIN_ROWS] or not has_room(worker, n_bytes):
        forget(worker, n_touched)
        return
    rows = np.empty(n_rows, np.int32)
    for k in range(n_touched):
        row = worker.touched[k]
        if worker.place[row] >= 0:
            rows[worker.place[row]] = row
    columns = graph.columns[graph.row_offsets[root] : graph.row_offsets[root + 1]].copy()
    node = Node(root_lists(graph, worker, root, n_touched, n_rows), rows, columns)
    open_line(graph, worker, ROW, root, HELD)
    _walk(graph, worker, asked, Size(int64(1), int64(0), int64(0), int64(0)), node, part, n_parts)
    close_lines(graph, worker, int64(0))
    worker.control[BYTES_HELD] -= n_bytes


@compiled()
def _walk(graph, worker, asked, size, node, part, n_parts):
    """Add all leaves below a node, or those of a part of its children; lines that it opens are closed in the end.

    Parameters
    ----------
    part, n_parts : int64
        Children are dealt out in turn; the rest, where the pivots are optional, is one of them.
    """
    n_open, n_before = worker.control[OPENED], 0
    while not worker.control[STOP]:
        worker.control[NODES] += 1
        size, node, is_leaf, full_rows, full_columns = narrowed_node(asked, size, node)
        open_lines(graph, worker, ROW, full_rows, OPTIONAL)
        open_lines(graph, worker, COLUMN, full_columns, OPTIONAL)
        n_rows, n_columns = node.rows.size, node.columns.size
        if is_leaf or (n_rows <= WIDTH and n_columns <= WIDTH):
            if n_before % n_parts == part:
                _add_end(graph, worker, asked, size, node, is_leaf)
            break
        row, row_degree = most_neighbours(node.lists.row_offsets)
        column, column_degree = most_neighbours(node.lists.column_offsets)
        side, pivot = (ROW, column) if n_rows - column_degree < n_columns - row_degree else (COLUMN, row)
        # Seen from the side of which lines are held: the pivot is a column then.
        seen = node if side == ROW else turned_node(node)
        missed = missed_rows(seen.lists, pivot)
        gone = np.zeros(seen.rows.size, np.bool_)
        n_bytes = bytes_of(node.lists)
        for line in missed:
            gone[line] = True
            n_before += 1
            if n_before % n_parts == part:
                if not has_room(worker, n_bytes):
                    return
                n_now = worker.control[OPENED]
                open_line(graph, worker, side, seen.rows[line], HELD)
                child_size, child = _child(asked, size, seen, line, gone, side)
                _walk(graph, worker, asked, child_size, child, int64(0), int64(1))
                close_lines(graph, worker, n_now)
                worker.control[BYTES_HELD] -= n_bytes
        open_line(graph, worker, 1 - side, seen.columns[pivot], OPTIONAL)
        seen = turned_node(rest_node(turned_node(seen), pivot))
        held_rows, optional_rows, held_columns, optional_columns = size
        if side == ROW:
            node, size = seen, Size(held_rows, optional_rows, held_columns, optional_columns + 1)
        else:
            node, size = turned_node(seen), Size(held_rows, optional_rows + 1, held_columns, optional_columns)
    close_lines(graph, worker, n_open)


@njit(nogil=True, inline="always")
def _child(asked, size, seen, line, gone, side):
    """The node where one more line is held.

    Parameters
    ----------
    seen : Node
        Its rows are the lines of `side`.
    gone : bool
        Of each line of `side`.
    """
    held_rows, optional_rows, held_columns, optional_columns = size
    if side == ROW:
        size = Size(held_rows + 1, optional_rows, held_columns, optional_columns)
        return size, held_row(seen, line, gone, asked[MIN_COLUMNS] - held_columns - optional_columns)
    size = Size(held_rows, optional_rows, held_columns + 1, optional_columns)
    return size, turned_node(held_row(seen, line, gone, asked[MIN_ROWS] - held_rows - optional_rows))


@njit(nogil=True, inline="always")
def _add_end(graph, worker, asked, size, node, is_leaf):
    """Add a node that has no children in the shape of lists."""
    if is_leaf:
        add_leaf_node(graph, worker, asked, size, node)
        return
    row_order, column_order = fill_frame(worker.frame, node.lists)
    walk_local_frame(worker, asked, size, node.rows.size, node.columns.size)
    hand_on_frame(graph, worker, node, row_order, column_order)

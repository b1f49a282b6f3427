"""Open and close vertices of the graph, add nodes that are adjacency lists, and flush a frame's sums.

These nodes have the graph's numbers of their rows and columns besides the lists (`cpu.list_nodes`).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import int64, njit

from mbe_stage.bits import lowest_bit_index
from mbe_stage.pq_counts.cpu.layout import MAX_ROWS, MIN_COLUMNS, MIN_ROWS, WIDTH, Size
from mbe_stage.pq_counts.cpu.leaves import is_too_small
from mbe_stage.pq_counts.cpu.list_nodes import (
    FULL,
    child_on,
    is_last,
    kept,
    leaves_out,
    rest_of_row,
    rows_beside,
    rows_on,
    transposed,
    with_columns,
)
from mbe_stage.pq_counts.cpu.local.layout import COLUMN, HELD, N_KINDS, OPENED, OPTIONAL, ROW, at
from mbe_stage.pq_counts.cpu.local.leaves import add_vertex, subtract_vertex, values_of
from mbe_stage.pq_counts.cpu.local.words import add, clear, is_zero, subtract

_ONE = np.uint64(1)
# Events of a vertex.
_CLOSES, _OPENS = np.int64(0), np.int64(1)


class LocalNode(NamedTuple):
    """A node, with the graph's numbers of its rows and columns, int32."""

    lists: Any
    rows: Any
    columns: Any


@njit(nogil=True)
def reduced_node(size_bounds, size, node):
    """Reduce a node as `cpu.list_nodes.reduced` does.

    Returns
    -------
    full_rows, full_columns : int32
        Full vertices, as numbers of the graph.
    """
    full_rows, full_columns = np.empty(node.rows.size, np.int32), np.empty(node.columns.size, np.int32)
    n_full_rows = n_full_columns = 0
    while True:
        lists = node.lists
        n_rows, n_columns = lists.row_offsets.size - 1, lists.column_offsets.size - 1
        is_leaf = is_too_small(size_bounds, size, n_rows, n_columns) or is_last(size_bounds, size, n_rows, n_columns)
        if is_leaf:
            break
        least = size_bounds[MIN_ROWS] - size.held_rows - size.optional_rows
        n_full, new_columns, n_kept = kept(lists.column_offsets, n_rows, least)
        size = Size(size.held_rows, size.optional_rows, size.held_columns, size.optional_columns + n_full)
        least = size_bounds[MIN_COLUMNS] - size.held_columns - size.optional_columns
        if n_kept == n_columns and not leaves_out(lists.row_offsets, n_columns, least):
            break
        row_offsets, columns, n_full, new_rows = rows_on(lists, new_columns, n_kept, least)
        size = Size(size.held_rows, size.optional_rows + n_full, size.held_columns, size.optional_columns)
        n_full_rows = _note_full(new_rows, node.rows, full_rows, n_full_rows)
        n_full_columns = _note_full(new_columns, node.columns, full_columns, n_full_columns)
        rows = _of_kept(new_rows, node.rows, row_offsets.size - 1)
        node = LocalNode(with_columns(row_offsets, columns, n_kept), rows, _of_kept(new_columns, node.columns, n_kept))
    return size, node, is_leaf, full_rows[:n_full_rows], full_columns[:n_full_columns]


@njit(nogil=True)
def _note_full(numbers, ids, full, n_full):
    """Append full vertices to a list; return its length."""
    for vertex in range(numbers.size):
        if numbers[vertex] == FULL:
            full[n_full] = ids[vertex]
            n_full += 1
    return n_full


@njit(nogil=True)
def _of_kept(numbers, ids, n):
    """Return the ids of the kept vertices, by new number."""
    of = np.empty(n, np.int32)
    for vertex in range(numbers.size):
        if numbers[vertex] >= 0:
            of[numbers[vertex]] = ids[vertex]
    return of


@njit(nogil=True)
def held_row(node, row, gone, least):
    """Return the child that holds a row (`cpu.list_nodes.child_of_row`)."""
    number, offsets = rows_beside(node.lists, row, gone, least)
    lists = child_on(node.lists, row, number, offsets)
    return LocalNode(lists, _of_kept(number, node.rows, offsets.size - 1), _columns_of(node, row))


@njit(nogil=True)
def rest_node(node, row):
    """Return the child in which a row is optional (`cpu.list_nodes.rest_of_row`)."""
    rows = np.empty(node.rows.size - 1, np.int32)
    # A loop, because Numba takes seconds to compile an assignment to a slice.
    for k in range(rows.size):
        rows[k] = node.rows[k + (k >= row)]
    return LocalNode(rest_of_row(node.lists, row), rows, _columns_of(node, row))


@njit(nogil=True)
def _columns_of(node, row):
    """Return the columns of a row, as numbers of the graph."""
    first, end = node.lists.row_offsets[row], node.lists.row_offsets[row + 1]
    columns = np.empty(end - first, np.int32)
    for k in range(first, end):
        columns[k - first] = node.columns[node.lists.columns[k]]
    return columns


@njit(nogil=True)
def transposed_node(node):
    """Return the same node with its sides exchanged."""
    return LocalNode(transposed(node.lists), node.columns, node.rows)


@njit(nogil=True)
def open_vertex(graph, worker, side, vertex, kind):
    """Let a row or column of the graph take part in the leaves from here on."""
    n_rows = graph.row_offsets.size - 1
    vertex = int64(vertex) + n_rows * side
    subtract_vertex(worker, worker.vertices, vertex, side, kind, worker.totals)
    if worker.control[N_KINDS] == 2:
        _shift_edges(graph, worker, vertex, kind, _OPENS)
    worker.opened[worker.control[OPENED]] = 2 * vertex + kind
    worker.control[OPENED] += 1


@njit(nogil=True)
def open_vertices(graph, worker, side, vertices, kind):
    """Open several vertices."""
    for vertex in vertices:
        open_vertex(graph, worker, side, vertex, kind)


@njit(nogil=True)
def close_vertices(graph, worker, n):
    """Close the vertices opened last, so that `n` remain open."""
    while worker.control[OPENED] > n:
        worker.control[OPENED] -= 1
        opened = worker.opened[worker.control[OPENED]]
        vertex, kind = opened >> 1, opened & 1
        side = COLUMN if vertex >= graph.row_offsets.size - 1 else ROW
        add_vertex(worker, worker.vertices, vertex, side, kind, worker.totals)
        if worker.control[N_KINDS] == 2:
            _shift_edges(graph, worker, vertex, kind, _CLOSES)


@njit(nogil=True)
def _shift_edges(graph, worker, vertex, kind, event):
    """For each edge of a vertex, add the sum of the other vertex when this one closes; subtract it when this one opens.

    A neighbour that stays open has the same sum both times, since sums change when vertices close.
    """
    n_rows = graph.row_offsets.size - 1
    if vertex < n_rows:
        for k in range(graph.row_offsets[vertex], graph.row_offsets[vertex + 1]):
            _shift(worker, k, 2 * (n_rows + graph.columns[k]) + kind, event)
    else:
        for k in range(graph.column_offsets[vertex - n_rows], graph.column_offsets[vertex - n_rows + 1]):
            _shift(worker, worker.entries[k], 2 * graph.rows[k] + kind, event)


@njit(nogil=True)
def _shift(worker, edge, number, event):
    if event == _OPENS:
        subtract(worker.edges, edge, worker.vertices, number)
    else:
        add(worker.edges, edge, worker.vertices, number)


@njit(nogil=True)
def add_leaf_node(graph, worker, size_bounds, size, node):
    """Add a leaf node found by `reduced_node`: one leaf, or one for each of its vertices.

    Its full vertices are open.
    """
    n_rows, n_columns = node.rows.size, node.columns.size
    if is_too_small(size_bounds, size, n_rows, n_columns):
        return
    if n_rows == 0 or n_columns == 0:
        leaf = Size(size.held_rows, size.optional_rows + n_rows, size.held_columns, size.optional_columns + n_columns)
        if values_of(worker, size_bounds, leaf):
            _add_vertices(graph, worker, ROW, node.rows, OPTIONAL)
            _add_vertices(graph, worker, COLUMN, node.columns, OPTIONAL)
    elif size.held_rows + 1 == size_bounds[MAX_ROWS]:
        _add_last(graph, worker, size_bounds, size, node, ROW)
    else:
        _add_last(graph, worker, size_bounds, size, transposed_node(node), COLUMN)


@njit(nogil=True)
def _add_last(graph, worker, size_bounds, size, node, side):
    """Add a node with one more vertex of `side` to hold, given as the rows of `node`: each row is a leaf."""
    if values_of(worker, size_bounds, _with(size, side, 0, node.columns.size)):
        _add_vertices(graph, worker, 1 - side, node.columns, OPTIONAL)
    offsets = node.lists.row_offsets
    for row in range(node.rows.size):
        first, end = offsets[row], offsets[row + 1]
        if not values_of(worker, size_bounds, _with(size, side, 1, end - first)):
            continue
        vertex = node.rows[row]
        _add_to(graph, worker, side, vertex, HELD)
        for k in range(first, end):
            other = node.columns[node.lists.columns[k]]
            _add_to(graph, worker, 1 - side, other, OPTIONAL)
            if worker.control[N_KINDS] == 2:
                edge = _edge_of(graph, vertex, other) if side == ROW else _edge_of(graph, other, vertex)
                add(worker.edges, edge, worker.values, at(side, HELD, OPTIONAL))


@njit(nogil=True, inline="always")
def _with(size, side, n_held, n_optional):
    """Return the size with more held vertices on one side, and more optional vertices on the other."""
    held_rows, optional_rows, held_columns, optional_columns = size
    if side == ROW:
        return Size(held_rows + n_held, optional_rows, held_columns, optional_columns + n_optional)
    return Size(held_rows, optional_rows + n_optional, held_columns + n_held, optional_columns)


@njit(nogil=True)
def _add_vertices(graph, worker, side, vertices, kind):
    for vertex in vertices:
        _add_to(graph, worker, side, vertex, kind)


@njit(nogil=True)
def _add_to(graph, worker, side, vertex, kind):
    """Add the current leaf to a vertex that is not open."""
    vertex = int64(vertex) + (graph.row_offsets.size - 1) * side
    add_vertex(worker, worker.vertices, vertex, side, kind, worker.values)


@njit(nogil=True)
def _edge_of(graph, row, column):
    """Find the position of an existing column in the list of a row."""
    first, end = graph.row_offsets[row], graph.row_offsets[row + 1]
    while end - first > 1:
        middle = (first + end) >> 1
        if graph.columns[middle] <= column:
            first = middle
        else:
            end = middle
    return first


@njit(nogil=True)
def flush_frame(graph, worker, node, row_order, column_order):
    """Add the sums of a frame to the graph's sums, and clear them.

    Parameters
    ----------
    node : LocalNode
        The frame's node.
    row_order, column_order : int64
        Orders of the frame's rows and columns (`cpu.list_nodes.fill_frame`).
    """
    frame, n_kinds = worker.frame, worker.control[N_KINDS]
    for i in range(row_order.size):
        _flush(frame.sums, i * n_kinds, worker.vertices, int64(node.rows[row_order[i]]) * n_kinds, n_kinds)
    first = graph.row_offsets.size - 1
    for i in range(column_order.size):
        vertex = first + int64(node.columns[column_order[i]])
        _flush(frame.sums, (WIDTH + i) * n_kinds, worker.vertices, vertex * n_kinds, n_kinds)
    if n_kinds == 1:
        return
    for i in range(row_order.size):
        row, left = node.rows[row_order[i]], frame.rows[i]
        while left:
            k = lowest_bit_index(left)
            left &= left - _ONE
            if not is_zero(frame.pairs, i * WIDTH + k):
                edge = _edge_of(graph, row, node.columns[column_order[k]])
                _flush(frame.pairs, i * WIDTH + k, worker.edges, edge, 1)


@njit(nogil=True, inline="always")
def _flush(numbers, i, sums, j, n):
    """Add `n` numbers to others, and clear them.

    Parameters
    ----------
    numbers : (n_numbers, n_words) uint64
    sums : (n_sums, n_words) uint64
    """
    for k in range(n):
        add(sums, j + k, numbers, i + k)
        clear(numbers, i + k)

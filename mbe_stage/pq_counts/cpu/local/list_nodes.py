"""Nodes as adjacency lists that know which rows and columns of the graph their lines are (`cpu.list_nodes`)."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit

from mbe_stage.pq_counts.cpu.layout import MIN_COLUMNS, MIN_ROWS, Size
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
    turned,
    with_columns,
)


class Node(NamedTuple):
    """A node, and the numbers of its rows and columns in the whole graph: int32."""

    lists: Any
    rows: Any
    columns: Any


@njit(nogil=True)
def narrowed_node(asked, size, node):
    """As `cpu.list_nodes.narrowed`.

    Returns
    -------
    full_rows, full_columns : int32
        The lines of the graph that were full.
    """
    full_rows, full_columns = np.empty(node.rows.size, np.int32), np.empty(node.columns.size, np.int32)
    n_full_rows = n_full_columns = 0
    while True:
        lists = node.lists
        n_rows, n_columns = lists.row_offsets.size - 1, lists.column_offsets.size - 1
        is_leaf = is_too_small(asked, size, n_rows, n_columns) or is_last(asked, size, n_rows, n_columns)
        if is_leaf:
            break
        least = asked[MIN_ROWS] - size.held_rows - size.optional_rows
        n_full, new_columns, n_kept = kept(lists.column_offsets, n_rows, least)
        size = Size(size.held_rows, size.optional_rows, size.held_columns, size.optional_columns + n_full)
        least = asked[MIN_COLUMNS] - size.held_columns - size.optional_columns
        if n_kept == n_columns and not leaves_out(lists.row_offsets, n_columns, least):
            break
        row_offsets, columns, n_full, new_rows = rows_on(lists, new_columns, n_kept, least)
        size = Size(size.held_rows, size.optional_rows + n_full, size.held_columns, size.optional_columns)
        n_full_rows = _note_full(new_rows, node.rows, full_rows, n_full_rows)
        n_full_columns = _note_full(new_columns, node.columns, full_columns, n_full_columns)
        rows = _of_kept(new_rows, node.rows, row_offsets.size - 1)
        node = Node(with_columns(row_offsets, columns, n_kept), rows, _of_kept(new_columns, node.columns, n_kept))
    return size, node, is_leaf, full_rows[:n_full_rows], full_columns[:n_full_columns]


@njit(nogil=True)
def _note_full(numbers, ids, full, n_full):
    """Write down those that are full, behind others; returns how many there are then."""
    for line in range(numbers.size):
        if numbers[line] == FULL:
            full[n_full] = ids[line]
            n_full += 1
    return n_full


@njit(nogil=True)
def _of_kept(numbers, ids, n):
    """The ids by new numbers."""
    of = np.empty(n, np.int32)
    for line in range(numbers.size):
        if numbers[line] >= 0:
            of[numbers[line]] = ids[line]
    return of


@njit(nogil=True)
def held_row(node, row, gone, least):
    """The child where a row is held (`cpu.list_nodes.child_of_row`)."""
    number, offsets = rows_beside(node.lists, row, gone, least)
    lists = child_on(node.lists, row, number, offsets)
    return Node(lists, _of_kept(number, node.rows, offsets.size - 1), _columns_of(node, row))


@njit(nogil=True)
def rest_node(node, row):
    """What is left where a row is optional (`cpu.list_nodes.rest_of_row`)."""
    rows = np.empty(node.rows.size - 1, np.int32)
    rows[:row] = node.rows[:row]
    rows[row:] = node.rows[row + 1 :]
    return Node(rest_of_row(node.lists, row), rows, _columns_of(node, row))


@njit(nogil=True)
def _columns_of(node, row):
    """The columns of a row, in numbers of the graph."""
    first, end = node.lists.row_offsets[row], node.lists.row_offsets[row + 1]
    columns = np.empty(end - first, np.int32)
    for k in range(first, end):
        columns[k - first] = node.columns[node.lists.columns[k]]
    return columns


@njit(nogil=True)
def turned_node(node):
    """The same node with its sides exchanged."""
    return Node(turned(node.lists), node.columns, node.rows)

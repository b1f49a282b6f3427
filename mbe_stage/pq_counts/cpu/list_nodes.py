"""Nodes too large for a frame, as adjacency lists: drop small vertices, fill a frame, build a child.

Each node has its own arrays. Their bytes are reserved before allocation (`has_room`), and released after the last use.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from mbe_stage.pq_counts.cpu.layout import (
    BYTES_HELD,
    LACKS_MEMORY,
    MAX_COLUMNS,
    MAX_ROWS,
    MEMORY_BUDGET,
    MIN_COLUMNS,
    MIN_ROWS,
    STOP,
    Lists,
    Size,
)
from mbe_stage.pq_counts.cpu.leaves import count_leaves, is_at_end, is_too_small

FULL = -2
"""New number of a full vertex; a vertex with too few neighbours gets -1."""

_ONE = np.uint64(1)


@njit(nogil=True, inline="always")
def has_room(worker, n_bytes):
    """Reserve bytes of working memory; stop the worker if the budget is exceeded."""
    control = worker.control
    if control[BYTES_HELD] + n_bytes > control[MEMORY_BUDGET]:
        control[STOP] = LACKS_MEMORY
        return False
    control[BYTES_HELD] += n_bytes
    return True


@njit(nogil=True)
def with_columns(row_offsets, columns, n_columns):
    """Return a node with these rows, with the lists of both sides."""
    n_rows = row_offsets.size - 1
    n = row_offsets[n_rows]
    column_offsets = np.zeros(n_columns + 1, np.int64)
    for k in range(n):
        column_offsets[columns[k] + 1] += 1
    for column in range(n_columns):
        column_offsets[column + 1] += column_offsets[column]
    ends = column_offsets[:-1].copy()
    rows = np.empty(n, np.int32)
    for row in range(n_rows):
        for k in range(row_offsets[row], row_offsets[row + 1]):
            column = columns[k]
            rows[ends[column]] = row
            ends[column] += 1
    return Lists(row_offsets, columns, column_offsets, rows)


@njit(nogil=True)
def reduced(size_bounds, size, lists):
    """Drop vertices with too few neighbours, and make full ones optional, until nothing changes.

    Returns
    -------
    is_leaf : bool
        True if `count_leaf` can count the whole node.
    """
    while True:
        n_rows, n_columns = lists.row_offsets.size - 1, lists.column_offsets.size - 1
        if is_too_small(size_bounds, size, n_rows, n_columns) or is_last(size_bounds, size, n_rows, n_columns):
            return size, lists, True
        least = size_bounds[MIN_ROWS] - size.held_rows - size.optional_rows
        n_full, new_columns, n_kept = kept(lists.column_offsets, n_rows, least)
        size = Size(size.held_rows, size.optional_rows, size.held_columns, size.optional_columns + n_full)
        least = size_bounds[MIN_COLUMNS] - size.held_columns - size.optional_columns
        if n_kept == n_columns and not leaves_out(lists.row_offsets, n_columns, least):
            return size, lists, False
        row_offsets, columns, n_full, _ = rows_on(lists, new_columns, n_kept, least)
        size = Size(size.held_rows, size.optional_rows + n_full, size.held_columns, size.optional_columns)
        lists = with_columns(row_offsets, columns, n_kept)


@njit(nogil=True, inline="always")
def is_last(size_bounds, size, n_rows, n_columns):
    """Return True if a side is used up, or if at most one more of its vertices may be held."""
    return (
        n_rows == 0
        or n_columns == 0
        or size.held_rows + 1 >= size_bounds[MAX_ROWS]
        or size.held_columns + 1 >= size_bounds[MAX_COLUMNS]
    )


@njit(nogil=True)
def count_leaf(worker, size_bounds, size, lists):
    """Count a leaf node from `reduced`: as one leaf, or as one leaf for each vertex."""
    n_rows, n_columns = lists.row_offsets.size - 1, lists.column_offsets.size - 1
    if is_too_small(size_bounds, size, n_rows, n_columns) or is_at_end(worker, size_bounds, size, n_rows, n_columns):
        return
    held_rows, optional_rows, held_columns, optional_columns = size
    if held_rows + 1 == size_bounds[MAX_ROWS]:
        count_leaves(worker, size_bounds, held_rows, optional_rows, held_columns, optional_columns + n_columns)
        for row in range(n_rows):
            n = lists.row_offsets[row + 1] - lists.row_offsets[row]
            count_leaves(worker, size_bounds, held_rows + 1, 0, held_columns, optional_columns + n)
    else:
        count_leaves(worker, size_bounds, held_rows, optional_rows + n_rows, held_columns, optional_columns)
        for column in range(n_columns):
            n = lists.column_offsets[column + 1] - lists.column_offsets[column]
            count_leaves(worker, size_bounds, held_rows, optional_rows + n, held_columns + 1, 0)


@njit(nogil=True)
def leaves_out(offsets, n_others, least):
    """Return True if some vertex of a side is full or has too few neighbours."""
    for vertex in range(offsets.size - 1):
        degree = offsets[vertex + 1] - offsets[vertex]
        if degree == n_others or degree < least:
            return True
    return False


@njit(nogil=True)
def kept(offsets, n_others, least):
    """Count a side's full vertices, and number the remaining ones."""
    numbers = np.full(offsets.size - 1, -1, np.int32)
    n_full = n_kept = 0
    for vertex in range(numbers.size):
        degree = offsets[vertex + 1] - offsets[vertex]
        if degree == n_others:
            numbers[vertex] = FULL
            n_full += 1
        elif degree >= least:
            numbers[vertex] = n_kept
            n_kept += 1
    return n_full, numbers, n_kept


@njit(nogil=True)
def rows_on(lists, new_columns, n_columns, least):
    """Return the rows restricted to kept columns, without full rows and rows with too few columns.

    Returns
    -------
    offsets, columns : int64 and int32
    numbers : (former n_rows,) int32
        New numbers of rows, as `kept` returns them for columns.
    """
    numbers = np.full(lists.row_offsets.size - 1, -1, np.int32)
    offsets = np.zeros(lists.row_offsets.size, np.int64)
    columns = np.empty(lists.columns.size, np.int32)
    n_rows = n_full = written = 0
    for row in range(lists.row_offsets.size - 1):
        begin = written
        for k in range(lists.row_offsets[row], lists.row_offsets[row + 1]):
            column = new_columns[lists.columns[k]]
            columns[written] = column
            written += column >= 0
        degree = written - begin
        if degree == n_columns:
            numbers[row] = FULL
            n_full += 1
            written = begin
        elif degree < least:
            written = begin
        else:
            numbers[row] = n_rows
            n_rows += 1
            offsets[n_rows] = written
    return offsets[: n_rows + 1].copy(), columns[:written].copy(), n_full, numbers


@njit(nogil=True)
def fill_frame(frame, lists):
    """Write the node as bits, with vertices of small degree first, so that these are held first.

    Returns
    -------
    row_order, column_order : int64
        The node's row for each row of the frame, and its column for each column.
    """
    n_rows, n_columns = lists.row_offsets.size - 1, lists.column_offsets.size - 1
    place = np.empty(n_columns, np.int64)
    column_order, row_order = _by_degree(lists.column_offsets), _by_degree(lists.row_offsets)
    for column in range(n_columns):
        place[column_order[column]] = column
        frame.columns[column] = 0
    for i in range(n_rows):
        row, word = row_order[i], np.uint64(0)
        for k in range(lists.row_offsets[row], lists.row_offsets[row + 1]):
            column = place[lists.columns[k]]
            word |= _ONE << np.uint64(column)
            frame.columns[column] |= _ONE << np.uint64(i)
        frame.rows[i] = word
    return row_order, column_order


@njit(nogil=True)
def missed_rows(lists, column):
    """List the rows that a column misses, those with few columns first, which keeps the subtrees small."""
    is_missed = np.ones(lists.row_offsets.size - 1, np.bool_)
    for k in range(lists.column_offsets[column], lists.column_offsets[column + 1]):
        is_missed[lists.rows[k]] = False
    rows = _by_degree(lists.row_offsets)
    n = 0
    for row in rows:
        rows[n] = row
        n += is_missed[row]
    return rows[:n]


@njit(nogil=True)
def most_neighbours(offsets):
    """Return the first vertex with the most neighbours, and their number."""
    best = most = 0
    for vertex in range(offsets.size - 1):
        if offsets[vertex + 1] - offsets[vertex] > most:
            best, most = vertex, offsets[vertex + 1] - offsets[vertex]
    return best, most


@njit(nogil=True)
def _by_degree(offsets):
    """Sort the vertices of a side by degree, then by number, in linear time."""
    _, most = most_neighbours(offsets)
    ends = np.zeros(most + 2, np.int64)
    for vertex in range(offsets.size - 1):
        ends[offsets[vertex + 1] - offsets[vertex] + 1] += 1
    for degree in range(most + 1):
        ends[degree + 1] += ends[degree]
    order = np.empty(offsets.size - 1, np.int64)
    for vertex in range(order.size):
        degree = offsets[vertex + 1] - offsets[vertex]
        order[ends[degree]] = vertex
        ends[degree] += 1
    return order


@njit(nogil=True)
def child_of_row(lists, row, gone, least):
    """Return the child that holds a row: its columns, and the remaining rows with enough of them.

    Parameters
    ----------
    gone : (n_rows,) bool
        True for this row, and for rows held in earlier children.
    least : int64
        Fewest columns of a row; 0 if optional columns are enough, so that rows without any of these columns stay.
    """
    number, offsets = rows_beside(lists, row, gone, least)
    return child_on(lists, row, number, offsets)


@njit(nogil=True)
def rows_beside(lists, row, gone, least):
    """Number the rows of `child_of_row`, -1 for others; return their offsets, which give the child's size."""
    first, end = lists.row_offsets[row], lists.row_offsets[row + 1]
    shared = np.zeros(lists.row_offsets.size - 1, np.int64)
    for k in range(first, end):
        column = lists.columns[k]
        for j in range(lists.column_offsets[column], lists.column_offsets[column + 1]):
            shared[lists.rows[j]] += 1
    offsets = np.zeros(shared.size + 1, np.int64)
    number = np.full(shared.size, -1, np.int64)
    n_rows = 0
    for other in range(shared.size):
        if not gone[other] and shared[other] >= least:
            number[other] = n_rows
            n_rows += 1
            offsets[n_rows] = offsets[n_rows - 1] + shared[other]
    return number, offsets[: n_rows + 1].copy()


@njit(nogil=True)
def child_on(lists, row, number, offsets):
    """Return the child of `child_of_row` from the result of `rows_beside`."""
    first, end = lists.row_offsets[row], lists.row_offsets[row + 1]
    columns = np.empty(offsets[-1], np.int32)
    ends = offsets[:-1].copy()
    for k in range(first, end):
        column = lists.columns[k]
        for j in range(lists.column_offsets[column], lists.column_offsets[column + 1]):
            n = number[lists.rows[j]]
            if n >= 0:
                columns[ends[n]] = k - first
                ends[n] += 1
    return with_columns(offsets, columns, end - first)


@njit(nogil=True)
def child_of_column(lists, column, gone, least):
    """The same as `child_of_row`, with sides exchanged."""
    return transposed(child_of_row(transposed(lists), column, gone, least))


@njit(nogil=True)
def rest_of_row(lists, row):
    """Return the child in which a row is optional: its columns, and all other rows."""
    n_columns = lists.row_offsets[row + 1] - lists.row_offsets[row]
    numbers = np.full(lists.column_offsets.size - 1, -1, np.int32)
    for k in range(n_columns):
        numbers[lists.columns[lists.row_offsets[row] + k]] = k
    offsets = np.zeros(lists.row_offsets.size - 1, np.int64)
    columns = np.empty(lists.columns.size, np.int32)
    n_rows = written = 0
    for other in range(lists.row_offsets.size - 1):
        if other == row:
            continue
        for k in range(lists.row_offsets[other], lists.row_offsets[other + 1]):
            number = numbers[lists.columns[k]]
            columns[written] = number
            written += number >= 0
        n_rows += 1
        offsets[n_rows] = written
    return with_columns(offsets, columns[:written].copy(), n_columns)


@njit(nogil=True)
def rest_of_column(lists, column):
    """The same as `rest_of_row`, with sides exchanged."""
    return transposed(rest_of_row(transposed(lists), column))


@njit(nogil=True, inline="always")
def transposed(lists):
    """Return the node with its sides exchanged."""
    return Lists(lists.column_offsets, lists.rows, lists.row_offsets, lists.columns)

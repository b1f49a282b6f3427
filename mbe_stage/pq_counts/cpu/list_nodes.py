"""Nodes too large for a frame, as adjacency lists: drop small lines, fill a frame, build a child.

The arrays of a node are its own; what they take is booked before it is allocated (`held`), and given back by whoever
is done with the node.
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
from mbe_stage.pq_counts.cpu.leaves import is_at_end, is_too_small, tally

FULL = -2
"""In place of the new number of a line that is full; -1 is that of one that is too small."""

_ONE = np.uint64(1)


@njit(nogil=True, inline="always")
def has_room(worker, n_bytes):
    """Book bytes of working memory, or stop the worker where the budget has no room for them."""
    control = worker.control
    if control[BYTES_HELD] + n_bytes > control[MEMORY_BUDGET]:
        control[STOP] = LACKS_MEMORY
        return False
    control[BYTES_HELD] += n_bytes
    return True


@njit(nogil=True)
def with_columns(row_offsets, columns, n_columns):
    """The node with these rows, seen from both sides."""
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
def narrowed(asked, size, lists):
    """The node without what is too small and with all that is full as optional, until nothing changes.

    Returns
    -------
    is_leaf : bool
        True if `count_leaf` counts all of it.
    """
    while True:
        n_rows, n_columns = lists.row_offsets.size - 1, lists.column_offsets.size - 1
        if is_too_small(asked, size, n_rows, n_columns) or is_last(asked, size, n_rows, n_columns):
            return size, lists, True
        least = asked[MIN_ROWS] - size.held_rows - size.optional_rows
        n_full, new_columns, n_kept = kept(lists.column_offsets, n_rows, least)
        size = Size(size.held_rows, size.optional_rows, size.held_columns, size.optional_columns + n_full)
        least = asked[MIN_COLUMNS] - size.held_columns - size.optional_columns
        if n_kept == n_columns and not leaves_out(lists.row_offsets, n_columns, least):
            return size, lists, False
        row_offsets, columns, n_full, _ = rows_on(lists, new_columns, n_kept, least)
        size = Size(size.held_rows, size.optional_rows + n_full, size.held_columns, size.optional_columns)
        lists = with_columns(row_offsets, columns, n_kept)


@njit(nogil=True, inline="always")
def is_last(asked, size, n_rows, n_columns):
    """True if a side is used up, or at most one more vertex of it may be held."""
    return (
        n_rows == 0
        or n_columns == 0
        or size.held_rows + 1 >= asked[MAX_ROWS]
        or size.held_columns + 1 >= asked[MAX_COLUMNS]
    )


@njit(nogil=True)
def count_leaf(worker, asked, size, lists):
    """Count a node of which `narrowed` says that it is a leaf: by itself, or a leaf for each of its lines."""
    n_rows, n_columns = lists.row_offsets.size - 1, lists.column_offsets.size - 1
    if is_too_small(asked, size, n_rows, n_columns) or is_at_end(worker, asked, size, n_rows, n_columns):
        return
    held_rows, optional_rows, held_columns, optional_columns = size
    if held_rows + 1 == asked[MAX_ROWS]:
        tally(worker, asked, held_rows, optional_rows, held_columns, optional_columns + n_columns)
        for row in range(n_rows):
            n = lists.row_offsets[row + 1] - lists.row_offsets[row]
            tally(worker, asked, held_rows + 1, 0, held_columns, optional_columns + n)
    else:
        tally(worker, asked, held_rows, optional_rows + n_rows, held_columns, optional_columns)
        for column in range(n_columns):
            n = lists.column_offsets[column + 1] - lists.column_offsets[column]
            tally(worker, asked, held_rows, optional_rows + n, held_columns + 1, 0)


@njit(nogil=True)
def leaves_out(offsets, n_others, least):
    """True if a line of a side is full, or too small."""
    for line in range(offsets.size - 1):
        degree = offsets[line + 1] - offsets[line]
        if degree == n_others or degree < least:
            return True
    return False


@njit(nogil=True)
def kept(offsets, n_others, least):
    """Count a side's full lines, renumber those that are neither full nor too small, and count these."""
    numbers = np.full(offsets.size - 1, -1, np.int32)
    n_full = n_kept = 0
    for line in range(numbers.size):
        degree = offsets[line + 1] - offsets[line]
        if degree == n_others:
            numbers[line] = FULL
            n_full += 1
        elif degree >= least:
            numbers[line] = n_kept
            n_kept += 1
    return n_full, numbers, n_kept


@njit(nogil=True)
def rows_on(lists, new_columns, n_columns, least):
    """The rows on the columns that are kept, without those that are full there or too small.

    Returns
    -------
    offsets, columns : int64 and int32
    numbers : (former n_rows,) int32
        As `kept` gives those of columns.
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
    """The node as bits; lines of small degree first, as they are held before those that have many neighbours.

    Returns
    -------
    row_order, column_order : int64
        The row, and the column, of the node that each of the frame is.
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
    """The rows that a column misses, those of few columns first: what is left below them is most then, and smallest."""
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
    """The first of the lines with most neighbours, and how many these are."""
    best = most = 0
    for line in range(offsets.size - 1):
        if offsets[line + 1] - offsets[line] > most:
            best, most = line, offsets[line + 1] - offsets[line]
    return best, most


@njit(nogil=True)
def _by_degree(offsets):
    """The lines of a side in ascending order of degree, equal ones by number; linear."""
    _, most = most_neighbours(offsets)
    ends = np.zeros(most + 2, np.int64)
    for line in range(offsets.size - 1):
        ends[offsets[line + 1] - offsets[line] + 1] += 1
    for degree in range(most + 1):
        ends[degree + 1] += ends[degree]
    order = np.empty(offsets.size - 1, np.int64)
    for line in range(order.size):
        degree = offsets[line + 1] - offsets[line]
        order[ends[degree]] = line
        ends[degree] += 1
    return order


@njit(nogil=True)
def child_of_row(lists, row, gone, least):
    """The child that holds a row: its columns, and the rows that are not gone and have enough of them.

    Parameters
    ----------
    gone : (n_rows,) bool
        Rows that were held before, and this one.
    least : int64
        Columns that a row needs; where optional ones are enough, rows without any of these columns are there too.
    """
    number, offsets = rows_beside(lists, row, gone, least)
    return child_on(lists, row, number, offsets)


@njit(nogil=True)
def rows_beside(lists, row, gone, least):
    """The rows of `child_of_row`, which says what it takes: their numbers there, else -1; and where each begins."""
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
    """The result of `child_of_row`, from that of `rows_beside`."""
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
    """As `child_of_row`, with the sides exchanged."""
    return turned(child_of_row(turned(lists), column, gone, least))


@njit(nogil=True)
def rest_of_row(lists, row):
    """The child in which a row is optional: its columns, and all other rows."""
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
    """As `rest_of_row`, with the sides exchanged."""
    return turned(rest_of_row(turned(lists), column))


@njit(nogil=True, inline="always")
def turned(lists):
    """The same node with its sides exchanged."""
    return Lists(lists.column_offsets, lists.rows, lists.row_offsets, lists.columns)

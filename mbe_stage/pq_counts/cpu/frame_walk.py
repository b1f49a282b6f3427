"""The count below a node of at most 64 rows and columns: a node is two masks, and its degrees are counted bits.

The pivot of a node is the row that misses the fewest of its columns, or the column that misses the fewest of its rows.
A biclique holds the first of what the pivot misses, or the second and not the first, and so on: a child each. Or it
holds none of them: then the pivot fits in all the same, as an optional vertex (Jain and Seshadhri, WSDM 2020, for
cliques; node pivots of arXiv 2412.16485 for bicliques). The walk is iterative, as GBC's (section III-B).
"""

from __future__ import annotations

import numpy as np
from numba import njit

from mbe_stage.bits import lowest_bit_index, popcount
from mbe_stage.pq_counts.cpu.layout import MAX_COLUMNS, MAX_ROWS, MIN_COLUMNS, MIN_ROWS, NODES, STOP, Size
from mbe_stage.pq_counts.cpu.leaves import is_at_end, is_too_small, tally

_ONE = np.uint64(1)
_NOTHING = np.uint64(0)
_ALL = ~_NOTHING

# Fields of a node on the stack.
_ROWS, _COLUMNS, _MISSED, _PIVOT, _HOLDS_ROWS = range(5)
_HELD_ROWS, _OPTIONAL_ROWS, _HELD_COLUMNS, _OPTIONAL_COLUMNS = range(5, 9)


@njit(nogil=True, inline="always")
def first_bits(n):
    """A word with the lowest `n` bits set, 0 to 64."""
    return _ALL if n == 64 else (_ONE << np.uint64(n)) - _ONE


@njit(nogil=True)
def walk_frame(worker, asked, size, n_rows, n_columns):
    """Count all leaves below the node that the frame holds."""
    frame = worker.frame
    rows, columns = first_bits(n_rows), first_bits(n_columns)
    depth = 0
    while True:
        worker.control[NODES] += 1
        rows, columns, size, pivot, missed, holds_rows = _narrowed(worker, asked, size, rows, columns)
        if missed != _NOTHING:
            _push(frame.stack[depth], rows, columns, size, pivot, missed, holds_rows)
            depth += 1
        if depth == 0 or worker.control[STOP]:
            return
        rows, columns, size, is_last = _next_child(frame, frame.stack[depth - 1])
        depth -= is_last


@njit(nogil=True, inline="always")
def _narrowed(worker, asked, size, rows, columns):
    """The node without what is too small and with all that is full as optional; and its pivot.

    Parameters
    ----------
    rows, columns : uint64

    Returns
    -------
    rows, columns : uint64
    missed : uint64
        What the pivot misses, of the other side; 0 where the node is a leaf, which is counted then.
    holds_rows : bool
        True if they are rows.
    """
    frame = worker.frame
    while True:
        n_rows, n_columns = popcount(rows), popcount(columns)
        if is_too_small(asked, size, n_rows, n_columns) or is_at_end(worker, asked, size, n_rows, n_columns):
            break
        if _counts_last(worker, asked, size, rows, columns):
            break
        least = asked[MIN_COLUMNS] - size.held_columns - size.optional_columns
        rows, full, row, degree = degrees(frame.rows, rows, columns, n_columns, least)
        size = Size(size.held_rows, size.optional_rows + popcount(full), size.held_columns, size.optional_columns)
        n_rows = popcount(rows)
        if n_rows <= 2:
            _count_few_rows(worker, asked, size, rows, columns)
            break
        least = asked[MIN_ROWS] - size.held_rows - size.optional_rows
        before = columns
        columns, full, column, column_degree = degrees(frame.columns, columns, rows, n_rows, least)
        size = Size(size.held_rows, size.optional_rows, size.held_columns, size.optional_columns + popcount(full))
        n_columns = popcount(columns)
        if n_columns <= 2:
            _count_few_columns(worker, asked, size, rows, columns)
            break
        if columns != before:
            continue
        if n_columns - degree <= n_rows - column_degree:
            return rows, columns, size, row, columns & ~frame.rows[row], False
        return rows, columns, size, column, rows & ~frame.columns[column], True
    return rows, columns, size, 0, _NOTHING, False


@njit(nogil=True, inline="always")
def degrees(lines, mask, others, n_others, least):
    """The lines of a side that are neither full nor too small, those that are full, and the one with most neighbours.

    Parameters
    ----------
    lines : (64,) uint64
        Neighbours of each.
    mask, others : uint64
        The lines, and the vertices of the other side.
    least : int64
        Neighbours below which a line is in no biclique that is asked for.
    """
    kept, full, best, most = mask, _NOTHING, 0, -1
    left = mask
    while left:
        line = lowest_bit_index(left)
        bit = left & (_NOTHING - left)
        left ^= bit
        degree = popcount(lines[line] & others)
        if degree == n_others:
            full |= bit
            kept ^= bit
        elif degree < least:
            kept ^= bit
        elif degree > most:
            best, most = line, degree
    return kept, full, best, most


@njit(nogil=True, inline="always")
def _counts_last(worker, asked, size, rows, columns):
    """Count a node whose bicliques hold one more row, or column, at most: each line is a leaf. Whether it is one.

    Parameters
    ----------
    rows, columns : uint64
    """
    frame = worker.frame
    held_rows, optional_rows, held_columns, optional_columns = size
    if held_rows + 1 == asked[MAX_ROWS]:
        tally(worker, asked, held_rows, optional_rows, held_columns, optional_columns + popcount(columns))
        left = rows
        while left:
            n = popcount(frame.rows[lowest_bit_index(left)] & columns)
            left &= left - _ONE
            tally(worker, asked, held_rows + 1, 0, held_columns, optional_columns + n)
        return True
    if held_columns + 1 == asked[MAX_COLUMNS]:
        tally(worker, asked, held_rows, optional_rows + popcount(rows), held_columns, optional_columns)
        left = columns
        while left:
            n = popcount(frame.columns[lowest_bit_index(left)] & rows)
            left &= left - _ONE
            tally(worker, asked, held_rows, optional_rows + n, held_columns + 1, 0)
        return True
    return False


@njit(nogil=True, inline="always")
def _count_few_rows(worker, asked, size, rows, columns):
    """Count a node of two rows, of one, or of none: a leaf for each set of them that is held.

    Parameters
    ----------
    rows, columns : uint64
    """
    frame = worker.frame
    held, optional, held_columns, optional_columns = size
    tally(worker, asked, held, optional, held_columns, optional_columns + popcount(columns))
    if rows == _NOTHING:
        return
    one = frame.rows[lowest_bit_index(rows)] & columns
    tally(worker, asked, held + 1, optional, held_columns, optional_columns + popcount(one))
    rows &= rows - _ONE
    if rows == _NOTHING:
        return
    other = frame.rows[lowest_bit_index(rows)] & columns
    tally(worker, asked, held + 1, optional, held_columns, optional_columns + popcount(other))
    tally(worker, asked, held + 2, optional, held_columns, optional_columns + popcount(one & other))


@njit(nogil=True, inline="always")
def _count_few_columns(worker, asked, size, rows, columns):
    """As `_count_few_rows`, with the sides exchanged.

    Parameters
    ----------
    rows, columns : uint64
    """
    frame = worker.frame
    held_rows, optional_rows, held, optional = size
    tally(worker, asked, held_rows, optional_rows + popcount(rows), held, optional)
    if columns == _NOTHING:
        return
    one = frame.columns[lowest_bit_index(columns)] & rows
    tally(worker, asked, held_rows, optional_rows + popcount(one), held + 1, optional)
    columns &= columns - _ONE
    if columns == _NOTHING:
        return
    other = frame.columns[lowest_bit_index(columns)] & rows
    tally(worker, asked, held_rows, optional_rows + popcount(other), held + 1, optional)
    tally(worker, asked, held_rows, optional_rows + popcount(one & other), held + 2, optional)


@njit(nogil=True, inline="always")
def _push(node, rows, columns, size, pivot, missed, holds_rows):
    """Put a node on the stack.

    Parameters
    ----------
    node : (FRAME_FIELDS,) uint64
    rows, columns, missed : uint64
    """
    node[_ROWS], node[_COLUMNS], node[_MISSED] = rows, columns, missed
    node[_PIVOT], node[_HOLDS_ROWS] = np.uint64(pivot), np.uint64(holds_rows)
    node[_HELD_ROWS], node[_OPTIONAL_ROWS] = np.uint64(size.held_rows), np.uint64(size.optional_rows)
    node[_HELD_COLUMNS], node[_OPTIONAL_COLUMNS] = np.uint64(size.held_columns), np.uint64(size.optional_columns)


@njit(nogil=True, inline="always")
def _next_child(frame, node):
    """The next child of a node: masks, size, and whether it is the last, where the pivot is optional."""
    held_rows, optional_rows = np.int64(node[_HELD_ROWS]), np.int64(node[_OPTIONAL_ROWS])
    held_columns, optional_columns = np.int64(node[_HELD_COLUMNS]), np.int64(node[_OPTIONAL_COLUMNS])
    missed = node[_MISSED]
    side, other = (_ROWS, _COLUMNS) if node[_HOLDS_ROWS] else (_COLUMNS, _ROWS)
    if missed == _NOTHING:
        node[other] &= ~(_ONE << node[_PIVOT])
        if node[_HOLDS_ROWS]:
            optional_columns += 1
        else:
            optional_rows += 1
        size = Size(held_rows, optional_rows, held_columns, optional_columns)
        return node[_ROWS], node[_COLUMNS], size, True
    node[_MISSED] = missed & (missed - _ONE)
    node[side] &= ~(missed & (_NOTHING - missed))
    line = lowest_bit_index(missed)
    if node[_HOLDS_ROWS]:
        size = Size(held_rows + 1, optional_rows, held_columns, optional_columns)
        return node[_ROWS], node[_COLUMNS] & frame.rows[line], size, False
    size = Size(held_rows, optional_rows, held_columns + 1, optional_columns)
    return node[_ROWS] & frame.columns[line], node[_COLUMNS], size, False

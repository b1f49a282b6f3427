"""Count below a node with at most 64 rows and columns: nodes are two bit masks, and degrees are bit counts.

The pivot of a node is the row that misses the fewest columns, or the column that misses the fewest rows. Each biclique
falls into one case: it contains the first vertex missed by the pivot, or the second but not the first, and so on, with
a child for each case. Or it contains none of these vertices; then the pivot may join it, as an optional vertex (Jain
and Seshadhri, WSDM 2020, for cliques; node pivots of arXiv 2412.16485 for bicliques). The walk is iterative, as in GBC
(section III-B).
"""

from __future__ import annotations

import numpy as np
from numba import njit

from mbe_stage.bits import lowest_bit_index, popcount
from mbe_stage.pq_counts.cpu.layout import MAX_COLUMNS, MAX_ROWS, MIN_COLUMNS, MIN_ROWS, NODES, STOP, Size
from mbe_stage.pq_counts.cpu.leaves import count_leaves, is_at_end, is_too_small
from mbe_stage.runtime.jit import compiled

_ONE = np.uint64(1)
_NOTHING = np.uint64(0)
_ALL = ~_NOTHING

# Fields of a node on the stack.
_ROWS, _COLUMNS, _MISSED, _PIVOT, _HOLDS_ROWS = range(5)
_HELD_ROWS, _OPTIONAL_ROWS, _HELD_COLUMNS, _OPTIONAL_COLUMNS = range(5, 9)


@njit(nogil=True, inline="always")
def first_bits(n):
    """Return a word with its lowest `n` bits set, 0 to 64."""
    return _ALL if n == 64 else (_ONE << np.uint64(n)) - _ONE


@compiled(nrt=False)
def walk_frame(worker, size_bounds, size, n_rows, n_columns):
    """Count all leaves below the node in the frame."""
    frame = worker.frame
    rows, columns = first_bits(n_rows), first_bits(n_columns)
    depth = 0
    while True:
        worker.control[NODES] += 1
        rows, columns, size, pivot, missed, holds_rows = _reduced(worker, size_bounds, size, rows, columns)
        if missed != _NOTHING:
            _push(frame.stack[depth], rows, columns, size, pivot, missed, holds_rows)
            depth += 1
        if depth == 0 or worker.control[STOP]:
            return
        rows, columns, size, is_last = _next_child(frame, frame.stack[depth - 1])
        depth -= is_last


@njit(nogil=True, inline="always")
def _reduced(worker, size_bounds, size, rows, columns):
    """Drop vertices with too few neighbours, make full ones optional, and choose the pivot.

    Parameters
    ----------
    rows, columns : uint64

    Returns
    -------
    rows, columns : uint64
    missed : uint64
        Vertices missed by the pivot; 0 if the node is a leaf, which has been counted then.
    holds_rows : bool
        True if `missed` are rows.
    """
    frame = worker.frame
    while True:
        n_rows, n_columns = popcount(rows), popcount(columns)
        if is_too_small(size_bounds, size, n_rows, n_columns) or is_at_end(
            worker, size_bounds, size, n_rows, n_columns
        ):
            break
        if _counts_last(worker, size_bounds, size, rows, columns):
            break
        least = size_bounds[MIN_COLUMNS] - size.held_columns - size.optional_columns
        rows, full, row, degree = degrees(frame.rows, rows, columns, n_columns, least)
        size = Size(size.held_rows, size.optional_rows + popcount(full), size.held_columns, size.optional_columns)
        n_rows = popcount(rows)
        if n_rows <= 2:
            _count_few_rows(worker, size_bounds, size, rows, columns)
            break
        least = size_bounds[MIN_ROWS] - size.held_rows - size.optional_rows
        before = columns
        columns, full, column, column_degree = degrees(frame.columns, columns, rows, n_rows, least)
        size = Size(size.held_rows, size.optional_rows, size.held_columns, size.optional_columns + popcount(full))
        n_columns = popcount(columns)
        if n_columns <= 2:
            _count_few_columns(worker, size_bounds, size, rows, columns)
            break
        if columns != before:
            continue
        if n_columns - degree <= n_rows - column_degree:
            return rows, columns, size, row, columns & ~frame.rows[row], False
        return rows, columns, size, column, rows & ~frame.columns[column], True
    return rows, columns, size, 0, _NOTHING, False


@njit(nogil=True, inline="always")
def degrees(vertices, mask, others, n_others, least):
    """Split the vertices of a side into kept and full ones, and find the one with the most neighbours.

    Parameters
    ----------
    vertices : (64,) uint64
        Neighbours of each vertex.
    mask, others : uint64
        Vertices of this side, and of the other side.
    least : int64
        Fewest neighbours that a vertex needs.
    """
    kept, full, best, most = mask, _NOTHING, 0, -1
    left = mask
    while left:
        vertex = lowest_bit_index(left)
        bit = left & (_NOTHING - left)
        left ^= bit
        degree = popcount(vertices[vertex] & others)
        if degree == n_others:
            full |= bit
            kept ^= bit
        elif degree < least:
            kept ^= bit
        elif degree > most:
            best, most = vertex, degree
    return kept, full, best, most


@njit(nogil=True, inline="always")
def _counts_last(worker, size_bounds, size, rows, columns):
    """Count a node whose bicliques hold at most one more row or column: each vertex is a leaf. False for other nodes.

    Parameters
    ----------
    rows, columns : uint64
    """
    frame = worker.frame
    held_rows, optional_rows, held_columns, optional_columns = size
    if held_rows + 1 == size_bounds[MAX_ROWS]:
        count_leaves(worker, size_bounds, held_rows, optional_rows, held_columns, optional_columns + popcount(columns))
        left = rows
        while left:
            n = popcount(frame.rows[lowest_bit_index(left)] & columns)
            left &= left - _ONE
            count_leaves(worker, size_bounds, held_rows + 1, 0, held_columns, optional_columns + n)
        return True
    if held_columns + 1 == size_bounds[MAX_COLUMNS]:
        count_leaves(worker, size_bounds, held_rows, optional_rows + popcount(rows), held_columns, optional_columns)
        left = columns
        while left:
            n = popcount(frame.columns[lowest_bit_index(left)] & rows)
            left &= left - _ONE
            count_leaves(worker, size_bounds, held_rows, optional_rows + n, held_columns + 1, 0)
        return True
    return False


@njit(nogil=True, inline="always")
def _count_few_rows(worker, size_bounds, size, rows, columns):
    """Count a node with at most two rows: one leaf for each set of held rows.

    Parameters
    ----------
    rows, columns : uint64
    """
    frame = worker.frame
    held, optional, held_columns, optional_columns = size
    count_leaves(worker, size_bounds, held, optional, held_columns, optional_columns + popcount(columns))
    if rows == _NOTHING:
        return
    one = frame.rows[lowest_bit_index(rows)] & columns
    count_leaves(worker, size_bounds, held + 1, optional, held_columns, optional_columns + popcount(one))
    rows &= rows - _ONE
    if rows == _NOTHING:
        return
    other = frame.rows[lowest_bit_index(rows)] & columns
    count_leaves(worker, size_bounds, held + 1, optional, held_columns, optional_columns + popcount(other))
    count_leaves(worker, size_bounds, held + 2, optional, held_columns, optional_columns + popcount(one & other))


@njit(nogil=True, inline="always")
def _count_few_columns(worker, size_bounds, size, rows, columns):
    """The same as `_count_few_rows`, with sides exchanged.

    Parameters
    ----------
    rows, columns : uint64
    """
    frame = worker.frame
    held_rows, optional_rows, held, optional = size
    count_leaves(worker, size_bounds, held_rows, optional_rows + popcount(rows), held, optional)
    if columns == _NOTHING:
        return
    one = frame.columns[lowest_bit_index(columns)] & rows
    count_leaves(worker, size_bounds, held_rows, optional_rows + popcount(one), held + 1, optional)
    columns &= columns - _ONE
    if columns == _NOTHING:
        return
    other = frame.columns[lowest_bit_index(columns)] & rows
    count_leaves(worker, size_bounds, held_rows, optional_rows + popcount(other), held + 1, optional)
    count_leaves(worker, size_bounds, held_rows, optional_rows + popcount(one & other), held + 2, optional)


@njit(nogil=True, inline="always")
def _push(node, rows, columns, size, pivot, missed, holds_rows):
    """Push a node on the stack.

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
    """Return the next child of a node: masks, size, and True for the last child, in which the pivot is optional."""
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
    vertex = lowest_bit_index(missed)
    if node[_HOLDS_ROWS]:
        size = Size(held_rows + 1, optional_rows, held_columns, optional_columns)
        return node[_ROWS], node[_COLUMNS] & frame.rows[vertex], size, False
    size = Size(held_rows, optional_rows, held_columns + 1, optional_columns)
    return node[_ROWS] & frame.columns[vertex], node[_COLUMNS], size, False

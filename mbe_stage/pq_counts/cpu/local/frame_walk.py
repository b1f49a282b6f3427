"""The walk of `cpu.frame_walk` for local counts: the same tree, with vertices that open and close (`leaves`)."""

from __future__ import annotations

import numpy as np
from numba import njit

from mbe_stage.bits import lowest_bit_index, popcount
from mbe_stage.pq_counts.cpu.frame_walk import degrees, first_bits
from mbe_stage.pq_counts.cpu.layout import MAX_COLUMNS, MAX_ROWS, MIN_COLUMNS, MIN_ROWS, NODES, STOP, WIDTH, Size
from mbe_stage.pq_counts.cpu.leaves import is_too_small
from mbe_stage.pq_counts.cpu.local.layout import COLUMN, HELD, N_KINDS, OPTIONAL, ROW, at
from mbe_stage.pq_counts.cpu.local.leaves import add_vertex, subtract_vertex, values_of
from mbe_stage.pq_counts.cpu.local.words import add, subtract
from mbe_stage.runtime.jit import compiled

_ONE = np.uint64(1)
_NOTHING = np.uint64(0)

# Fields of a stack entry: remaining vertices, and the ones the pivot misses; pivot; 1 if rows are held; size; full
# vertices, which are open; their neighbours when they opened; the held vertex of the current child, plus one; 1 if the
# pivot is open.
_ROWS, _COLUMNS, _MISSED, _PIVOT, _HOLDS_ROWS = range(5)
_HELD_ROWS, _OPTIONAL_ROWS, _HELD_COLUMNS, _OPTIONAL_COLUMNS = range(5, 9)
_FULL_ROWS, _FULL_COLUMNS, _FIRST_ROWS, _FIRST_COLUMNS, _VERTEX, _RESTS = range(9, 15)


@njit(nogil=True, inline="always")
def walk_local_frame(worker, size_bounds, size, n_rows, n_columns):
    """Add all leaves below the node in the frame to `totals`, and to the sums of the frame.

    Parameters
    ----------
    size_bounds : (4,) int64
        One cell.
    """
    stack = worker.frame.stack
    depth = _visit(worker, size_bounds, size, first_bits(n_rows), first_bits(n_columns), np.int64(0))
    while depth > 0 and not worker.control[STOP]:
        node = stack[depth - 1]
        _close_held(worker, node)
        if node[_RESTS]:
            _close_node(worker, node)
            depth -= 1
        else:
            rows, columns, size = _next_child(worker, node)
            depth = _visit(worker, size_bounds, size, rows, columns, depth)


@compiled(nrt=False)
def _visit(worker, size_bounds, size, rows, columns, depth):
    """Add a node that is a leaf, or push it on the stack; return the number of nodes on the stack.

    Parameters
    ----------
    rows, columns : uint64
    depth : int64
        Number of nodes on the stack before.
    """
    worker.control[NODES] += 1
    frame = worker.frame
    full_rows = full_columns = _NOTHING
    while True:
        n_rows, n_columns = popcount(rows), popcount(columns)
        if is_too_small(size_bounds, size, n_rows, n_columns):
            return depth
        if n_rows == 0 or n_columns == 0:
            size = _grown(size, 0, n_rows, 0, n_columns)
            _add_leaf(worker, size_bounds, size, _NOTHING, full_rows | rows, _NOTHING, full_columns | columns)
            return depth
        if _adds_last(worker, size_bounds, size, rows, columns, full_rows, full_columns):
            return depth
        least = size_bounds[MIN_COLUMNS] - size.held_columns - size.optional_columns
        rows, full, row, degree = degrees(frame.rows, rows, columns, n_columns, least)
        full_rows |= full
        size = _grown(size, 0, popcount(full), 0, 0)
        n_rows = popcount(rows)
        if n_rows <= 2:
            _add_few_rows(worker, size_bounds, size, rows, columns, full_rows, full_columns)
            return depth
        least = size_bounds[MIN_ROWS] - size.held_rows - size.optional_rows
        before = columns
        columns, full, column, column_degree = degrees(frame.columns, columns, rows, n_rows, least)
        full_columns |= full
        size = _grown(size, 0, 0, 0, popcount(full))
        n_columns = popcount(columns)
        if n_columns <= 2:
            _add_few_columns(worker, size_bounds, size, rows, columns, full_rows, full_columns)
            return depth
        if columns == before:
            break
    node = frame.stack[depth]
    if n_columns - degree <= n_rows - column_degree:
        _push(node, size, rows, columns, row, columns & ~frame.rows[row], False)
    else:
        _push(node, size, rows, columns, column, rows & ~frame.columns[column], True)
    _open_full(worker, node, full_rows, full_columns)
    return depth + 1


@njit(nogil=True, inline="always")
def _grown(size, held_rows, optional_rows, held_columns, optional_columns):
    """Return the size of a node with more held and optional vertices."""
    return Size(
        size.held_rows + held_rows,
        size.optional_rows + optional_rows,
        size.held_columns + held_columns,
        size.optional_columns + optional_columns,
    )


@compiled(nrt=False)
def _push(node, size, rows, columns, pivot, missed, holds_rows):
    """Push a node on the stack.

    Parameters
    ----------
    node : (FIELDS,) uint64
    rows, columns : uint64
    missed : uint64
    """
    node[_ROWS], node[_COLUMNS], node[_MISSED] = rows, columns, missed
    node[_FIRST_ROWS], node[_FIRST_COLUMNS] = rows, columns
    node[_PIVOT], node[_HOLDS_ROWS] = np.uint64(pivot), np.uint64(holds_rows)
    node[_HELD_ROWS], node[_OPTIONAL_ROWS] = np.uint64(size.held_rows), np.uint64(size.optional_rows)
    node[_HELD_COLUMNS], node[_OPTIONAL_COLUMNS] = np.uint64(size.held_columns), np.uint64(size.optional_columns)
    node[_VERTEX] = node[_RESTS] = _NOTHING


@compiled(nrt=False)
def _open_full(worker, node, full_rows, full_columns):
    """Open the full vertices of a node: rows first, so that the full columns open as their neighbours."""
    node[_FULL_ROWS], node[_FULL_COLUMNS] = full_rows, full_columns
    left = full_rows
    while left:
        _open(worker, ROW, lowest_bit_index(left), OPTIONAL, node[_FIRST_COLUMNS] | full_columns)
        left &= left - _ONE
    left = full_columns
    while left:
        _open(worker, COLUMN, lowest_bit_index(left), OPTIONAL, node[_FIRST_ROWS])
        left &= left - _ONE


@compiled(nrt=False)
def _close_node(worker, node):
    """Close the pivot of a node, and its full vertices."""
    pivot = np.int64(node[_PIVOT])
    if node[_HOLDS_ROWS]:
        _close(worker, COLUMN, pivot, OPTIONAL, node[_ROWS])
    else:
        _close(worker, ROW, pivot, OPTIONAL, node[_COLUMNS])
    left = node[_FULL_COLUMNS]
    while left:
        _close(worker, COLUMN, lowest_bit_index(left), OPTIONAL, node[_FIRST_ROWS])
        left &= left - _ONE
    left = node[_FULL_ROWS]
    while left:
        _close(worker, ROW, lowest_bit_index(left), OPTIONAL, node[_FIRST_COLUMNS] | node[_FULL_COLUMNS])
        left &= left - _ONE


@compiled(nrt=False)
def _close_held(worker, node):
    """Close the held vertex of a node, if any."""
    if node[_VERTEX] == _NOTHING:
        return
    vertex = np.int64(node[_VERTEX]) - 1
    if node[_HOLDS_ROWS]:
        _close(worker, ROW, vertex, HELD, node[_COLUMNS] & worker.frame.rows[vertex])
    else:
        _close(worker, COLUMN, vertex, HELD, node[_ROWS] & worker.frame.columns[vertex])
    node[_VERTEX] = _NOTHING


@compiled(nrt=False)
def _next_child(worker, node):
    """Open a vertex for the next child; return its masks and size. In the last child the pivot is optional."""
    frame = worker.frame
    size = Size(
        np.int64(node[_HELD_ROWS]),
        np.int64(node[_OPTIONAL_ROWS]),
        np.int64(node[_HELD_COLUMNS]),
        np.int64(node[_OPTIONAL_COLUMNS]),
    )
    missed = node[_MISSED]
    if missed == _NOTHING:
        node[_RESTS] = _ONE
        pivot = np.int64(node[_PIVOT])
        if node[_HOLDS_ROWS]:
            node[_COLUMNS] &= ~(_ONE << node[_PIVOT])
            _open(worker, COLUMN, pivot, OPTIONAL, node[_ROWS])
            return node[_ROWS], node[_COLUMNS], _grown(size, 0, 0, 0, 1)
        node[_ROWS] &= ~(_ONE << node[_PIVOT])
        _open(worker, ROW, pivot, OPTIONAL, node[_COLUMNS])
        return node[_ROWS], node[_COLUMNS], _grown(size, 0, 1, 0, 0)
    bit, vertex = missed & (_NOTHING - missed), lowest_bit_index(missed)
    node[_MISSED] = missed ^ bit
    node[_VERTEX] = np.uint64(vertex + 1)
    if node[_HOLDS_ROWS]:
        node[_ROWS] ^= bit
        columns = node[_COLUMNS] & frame.rows[vertex]
        _open(worker, ROW, vertex, HELD, columns)
        return node[_ROWS], columns, _grown(size, 1, 0, 0, 0)
    node[_COLUMNS] ^= bit
    rows = node[_ROWS] & frame.columns[vertex]
    _open(worker, COLUMN, vertex, HELD, rows)
    return rows, node[_COLUMNS], _grown(size, 0, 0, 1, 0)


@compiled(nrt=False)
def _open(worker, side, vertex, kind, others):
    """Include a vertex in the following leaves; `others` are the neighbours that may open while it is open.

    Parameters
    ----------
    others : uint64
    """
    frame = worker.frame
    subtract_vertex(worker, frame.sums, side * WIDTH + vertex, side, kind, worker.totals)
    if worker.control[N_KINDS] == 2:
        while others:
            other = lowest_bit_index(others)
            others &= others - _ONE
            pair = vertex * WIDTH + other if side == ROW else other * WIDTH + vertex
            subtract(frame.pairs, pair, frame.sums, 2 * ((1 - side) * WIDTH + other) + kind)


@compiled(nrt=False)
def _close(worker, side, vertex, kind, others):
    """Exclude a vertex from the following leaves; `others` is the same as in `_open`.

    Parameters
    ----------
    others : uint64
    """
    frame = worker.frame
    add_vertex(worker, frame.sums, side * WIDTH + vertex, side, kind, worker.totals)
    if worker.control[N_KINDS] == 2:
        while others:
            other = lowest_bit_index(others)
            others &= others - _ONE
            pair = vertex * WIDTH + other if side == ROW else other * WIDTH + vertex
            add(frame.pairs, pair, frame.sums, 2 * ((1 - side) * WIDTH + other) + kind)


@compiled(nrt=False)
def _add_leaf(worker, size_bounds, size, held_rows, rows, held_columns, columns):
    """Add a leaf.

    Parameters
    ----------
    size : Size
        Size of the leaf, including these vertices.
    held_rows, rows, held_columns, columns : uint64
        Vertices of the leaf that are not open: held rows, optional rows, held columns, optional columns.
    """
    if not values_of(worker, size_bounds, size):
        return
    _add_vertices(worker, ROW, held_rows, HELD)
    _add_vertices(worker, ROW, rows, OPTIONAL)
    _add_vertices(worker, COLUMN, held_columns, HELD)
    _add_vertices(worker, COLUMN, columns, OPTIONAL)
    if worker.control[N_KINDS] == 2:
        _add_pairs(worker, held_rows, HELD, columns, OPTIONAL)
        _add_pairs(worker, rows, OPTIONAL, held_columns, HELD)
        _add_pairs(worker, rows, OPTIONAL, columns, OPTIONAL)


@compiled(nrt=False)
def _add_vertices(worker, side, vertices, kind):
    while vertices:
        vertex = lowest_bit_index(vertices)
        vertices &= vertices - _ONE
        add_vertex(worker, worker.frame.sums, side * WIDTH + vertex, side, kind, worker.values)


@compiled(nrt=False)
def _add_pairs(worker, rows, row_kind, columns, column_kind):
    value = at(ROW, row_kind, column_kind)
    while rows:
        row = lowest_bit_index(rows)
        rows &= rows - _ONE
        left = columns
        while left:
            add(worker.frame.pairs, row * WIDTH + lowest_bit_index(left), worker.values, value)
            left &= left - _ONE


@compiled(nrt=False)
def _adds_last(worker, size_bounds, size, rows, columns, full_rows, full_columns):
    """Add a node with one more row or column to hold: each candidate is a leaf. Return False for other nodes.

    Parameters
    ----------
    rows, columns, full_rows, full_columns : uint64
    """
    frame = worker.frame
    if size.held_rows + 1 == size_bounds[MAX_ROWS]:
        leaf = _grown(size, 0, 0, 0, popcount(columns))
        _add_leaf(worker, size_bounds, leaf, _NOTHING, full_rows, _NOTHING, full_columns | columns)
        while rows:
            bit = rows & (_NOTHING - rows)
            others = frame.rows[lowest_bit_index(rows)] & columns
            rows ^= bit
            leaf = _grown(size, 1, 0, 0, popcount(others))
            _add_leaf(worker, size_bounds, leaf, bit, _NOTHING, _NOTHING, full_columns | others)
        return True
    if size.held_columns + 1 == size_bounds[MAX_COLUMNS]:
        leaf = _grown(size, 0, popcount(rows), 0, 0)
        _add_leaf(worker, size_bounds, leaf, _NOTHING, full_rows | rows, _NOTHING, full_columns)
        while columns:
            bit = columns & (_NOTHING - columns)
            others = frame.columns[lowest_bit_index(columns)] & rows
            columns ^= bit
            leaf = _grown(size, 0, popcount(others), 1, 0)
            _add_leaf(worker, size_bounds, leaf, _NOTHING, full_rows | others, bit, _NOTHING)
        return True
    return False


@compiled(nrt=False)
def _add_few_rows(worker, size_bounds, size, rows, columns, full_rows, full_columns):
    """Add a node of at most two rows: a leaf for each set of held rows.

    Parameters
    ----------
    rows, columns, full_rows, full_columns : uint64
    """
    held = rows
    while True:
        others, left = columns, held
        while left:
            others &= worker.frame.rows[lowest_bit_index(left)]
            left &= left - _ONE
        leaf = _grown(size, popcount(held), 0, 0, popcount(others))
        _add_leaf(worker, size_bounds, leaf, held, full_rows, _NOTHING, full_columns | others)
        if held == _NOTHING:
            return
        held = (held - _ONE) & rows


@compiled(nrt=False)
def _add_few_columns(worker, size_bounds, size, rows, columns, full_rows, full_columns):
    """The same as `_add_few_rows`, with the sides exchanged.

    Parameters
    ----------
    rows, columns, full_rows, full_columns : uint64
    """
    held = columns
    while True:
        others, left = rows, held
        while left:
            others &= worker.frame.columns[lowest_bit_index(left)]
            left &= left - _ONE
        leaf = _grown(size, 0, popcount(others), popcount(held), 0)
        _add_leaf(worker, size_bounds, leaf, _NOTHING, full_rows | others, held, full_columns)
        if held == _NOTHING:
            return
        held = (held - _ONE) & columns

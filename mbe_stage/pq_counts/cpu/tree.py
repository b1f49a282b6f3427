"""Count below some roots: lists first, then frames.

A root is a row. Its subtree has the bicliques with this row as the first, in the order of the rows; their other rows
come later, and their columns are the root's. Nodes of up to 64 rows and columns are frames (`frame_walk`). Larger nodes
are lists, with the same pivots. The walk over lists is recursive, but no deeper than the wanted sizes, since each level
holds one more vertex.

If a node is too large for a frame, and two more vertices of a side can be held, it gives a leaf for each pair of
vertices. With pivots it would be a chain of newly built nodes, one for each vertex that becomes optional. Listing all
pairs needs only their numbers of common neighbours. These are counted along the columns between them (wedges), or as
common bits of two rows, whichever is less work. Pairs with equal numbers are counted together.
"""

from __future__ import annotations

import numpy as np
from numba import int64, njit

from mbe_stage.bits import popcount
from mbe_stage.pq_counts.cpu.frame_walk import walk_frame
from mbe_stage.pq_counts.cpu.layout import (
    BYTES_HELD,
    LISTS,
    MAX_COLUMNS,
    MAX_ROWS,
    MEMORY_BUDGET,
    MIN_COLUMNS,
    MIN_ROWS,
    NODES,
    STOP,
    WIDTH,
    WORKER,
    Size,
)
from mbe_stage.pq_counts.cpu.leaves import count_leaf_times, count_leaves
from mbe_stage.pq_counts.cpu.list_nodes import (
    child_of_column,
    child_of_row,
    count_leaf,
    fill_frame,
    has_room,
    missed_rows,
    most_neighbours,
    reduced,
    rest_of_column,
    rest_of_row,
    transposed,
    with_columns,
)
from mbe_stage.runtime.compile_ahead import CompileStep
from mbe_stage.runtime.jit import LONGS, compiled, steps_of

NO_SIDE, OF_ROWS, OF_COLUMNS = range(3)
# Cost of a wedge in words: a step along a column reads the next address to write, but words of a row are read in order.
_WORDS_PER_STEP = 4


@njit(nogil=True)
def pairs_side(size_bounds, size, lists):
    """Choose the side with two more vertices to hold; if both sides have that, the one with less work."""
    of_rows = size.held_rows + 2 == size_bounds[MAX_ROWS]
    of_columns = size.held_columns + 2 == size_bounds[MAX_COLUMNS]
    if of_rows and of_columns:
        return OF_ROWS if _pair_cost(lists) <= _pair_cost(transposed(lists)) else OF_COLUMNS
    if of_rows:
        return OF_ROWS
    return OF_COLUMNS if of_columns else NO_SIDE


@njit(nogil=True)
def count_pairs(worker, size_bounds, size, lists, side, part, n_parts):
    """Count all leaves of a node, or a part of them.

    Parameters
    ----------
    lists : Lists
        Result of `reduced`.
    side : int64
        `OF_ROWS` or `OF_COLUMNS`.
    part, n_parts : int64
        Rows (or columns) are dealt out to parts in turn, each paired with later ones.
    """
    by_rows = side == OF_ROWS
    oriented = lists if by_rows else transposed(lists)
    n_vertices, n_others = oriented.row_offsets.size - 1, oriented.column_offsets.size - 1
    control = worker.control
    n_bytes, bit_bytes = 8 * (n_others + 1) + 4 * n_vertices, 8 * n_vertices * ((n_others + 63) // 64)
    uses_bits = bits_pay(oriented) and control[BYTES_HELD] + n_bytes + bit_bytes <= control[MEMORY_BUDGET]
    if uses_bits:
        n_bytes += bit_bytes
    if not has_room(worker, n_bytes):
        return
    times = np.zeros(n_others + 1, np.int64)
    if uses_bits:
        share_bits(oriented, times, part, n_parts, control)
    else:
        share_steps(oriented, times, part, n_parts, control)
    for n_shared in range(n_others + 1):
        if times[n_shared]:
            _count_leaves(worker, size_bounds, size, by_rows, 2, n_shared, times[n_shared])
    for vertex in range(part, n_vertices, n_parts):
        _count_leaves(
            worker, size_bounds, size, by_rows, 1, oriented.row_offsets[vertex + 1] - oriented.row_offsets[vertex], 1
        )
    if part == 0:
        _count_leaves(worker, size_bounds, size, by_rows, 0, n_others, 1)
    control[BYTES_HELD] -= n_bytes


@njit(nogil=True, inline="always")
def _count_leaves(worker, size_bounds, size, by_rows, n_more, n_others, n):
    """Count `n` leaves with `n_more` more held rows and `n_others` more optional columns, or with sides exchanged.

    Parameters
    ----------
    n : int64
        Number of equal leaves.
    """
    held_rows, optional_rows, held_columns, optional_columns = size
    if by_rows:
        held_rows, optional_columns = held_rows + n_more, optional_columns + n_others
        if n_more == 2:
            optional_rows = 0
    else:
        held_columns, optional_rows = held_columns + n_more, optional_rows + n_others
        if n_more == 2:
            optional_columns = 0
    count_leaf_times(worker, size_bounds, Size(held_rows, optional_rows, held_columns, optional_columns), n)


@njit(nogil=True)
def bits_pay(oriented):
    """Return True if common bits of two rows are less work than wedges."""
    return _bit_words(oriented) < _WORDS_PER_STEP * _wedges(oriented)


@njit(nogil=True)
def _pair_cost(oriented):
    """Return the cost of listing pairs of rows, in words."""
    return min(_bit_words(oriented), _WORDS_PER_STEP * _wedges(oriented))


@njit(nogil=True)
def _bit_words(oriented):
    """Return the number of words to read for all pairs of rows."""
    n_vertices, n_others = oriented.row_offsets.size - 1, oriented.column_offsets.size - 1
    return n_vertices * n_vertices // 2 * ((n_others + 63) // 64)


@njit(nogil=True)
def _wedges(oriented):
    """Return the number of wedges: pairs of rows with a common column, once for each such column."""
    n = 0
    for other in range(oriented.column_offsets.size - 1):
        degree = oriented.column_offsets[other + 1] - oriented.column_offsets[other]
        n += degree * (degree - 1) // 2
    return n


@njit(nogil=True)
def share_bits(oriented, times, part, n_parts, control):
    """Count pairs in `times` by their number of common columns, using common bits of two rows.

    Parameters
    ----------
    times : (n_columns + 1,) int64
    control : (N_CONTROL,) int64
        If the worker is stopped, only some of the pairs have been counted.
    """
    n_vertices, n_others = oriented.row_offsets.size - 1, oriented.column_offsets.size - 1
    n_words = (n_others + 63) // 64
    bits = np.zeros((n_vertices, n_words), np.uint64)
    for vertex in range(n_vertices):
        for k in range(oriented.row_offsets[vertex], oriented.row_offsets[vertex + 1]):
            other = oriented.columns[k]
            bits[vertex, other >> 6] |= np.uint64(1) << np.uint64(other & 63)
    for vertex in range(part, n_vertices, n_parts):
        if control[STOP]:
            return
        for second in range(vertex + 1, n_vertices):
            n_shared = 0
            for word in range(n_words):
                n_shared += popcount(bits[vertex, word] & bits[second, word])
            times[n_shared] += 1


@njit(nogil=True)
def share_steps(oriented, times, part, n_parts, control):
    """The same as `share_bits`, using wedges."""
    n_vertices = oriented.row_offsets.size - 1
    shared = np.zeros(n_vertices, np.int32)
    for vertex in range(part, n_vertices, n_parts):
        if control[STOP]:
            return
        for k in range(oriented.row_offsets[vertex], oriented.row_offsets[vertex + 1]):
            other = oriented.columns[k]
            # The rows of a column ascend, so later rows are at the end.
            j = oriented.column_offsets[other + 1] - 1
            while oriented.rows[j] != vertex:
                shared[oriented.rows[j]] += 1
                j -= 1
        for second in range(vertex + 1, n_vertices):
            times[shared[second]] += 1
            shared[second] = 0


def compile_steps() -> tuple[CompileStep, ...]:
    """Return the steps to compile the functions of this module."""
    return steps_of(count_roots, later_paths)


@compiled(LISTS, WORKER, LONGS, int64, int64, int64, int64, seconds=12.0)
def count_roots(graph, worker, size_bounds, first, end, part, n_parts):
    """Count the subtrees of some roots, or a part of them.

    Parameters
    ----------
    part, n_parts : int64
        Count only every `n_parts`-th child of each root, starting with number `part`.
    """
    for root in range(first, end):
        n_touched = touch(graph, worker, root)
        if size_bounds[MAX_ROWS] == 2:
            _count_pairs(worker, size_bounds, n_touched, part, n_parts)
        else:
            _count_root(graph, worker, size_bounds, root, n_touched, part, n_parts)
        if worker.control[STOP]:
            return


@njit(nogil=True, inline="always")
def touch(graph, worker, root):
    """Count the columns that each later row shares with a root; return the number of rows that share some."""
    n_touched = 0
    for k in range(graph.row_offsets[root], graph.row_offsets[root + 1]):
        column = graph.columns[k]
        # The rows of a column ascend, so later rows are at the end.
        j = graph.column_offsets[column + 1] - 1
        while graph.rows[j] != root:
            row = graph.rows[j]
            if worker.shared[row] == 0:
                worker.touched[n_touched] = row
                n_touched += 1
            worker.shared[row] += 1
            j -= 1
    return n_touched


@njit(nogil=True, inline="always")
def _count_pairs(worker, size_bounds, n_touched, part, n_parts):
    """Count pairs of rows by their common columns (wedges), which is enough if bicliques have at most two rows."""
    for k in range(n_touched):
        row = worker.touched[k]
        if k % n_parts == part:
            count_leaves(worker, size_bounds, 2, 0, 0, int64(worker.shared[row]))
        worker.shared[row] = 0


@njit(nogil=True, inline="always")
def _count_root(graph, worker, size_bounds, root, n_touched, part, n_parts):
    """Build the node below a root, and count it.

    Parameters
    ----------
    graph, worker, size_bounds, part, n_parts
        As in `count_roots`.
    """
    n_rows, n_entries = number_rows(worker, size_bounds, n_touched)
    n_bytes = root_bytes(graph, root, n_rows, n_entries)
    if 1 + n_rows < size_bounds[MIN_ROWS] or not has_room(worker, n_bytes):
        forget(worker, n_touched)
        return
    lists = root_lists(graph, worker, root, n_touched, n_rows)
    _count(worker, size_bounds, Size(1, 0, 0, 0), lists, part, n_parts)
    worker.control[BYTES_HELD] -= n_bytes


@njit(nogil=True, inline="always")
def number_rows(worker, size_bounds, n_touched):
    """Number the rows that share enough with a root, -1 for others; return their number and number of entries."""
    n_rows = n_entries = 0
    for k in range(n_touched):
        row = worker.touched[k]
        worker.place[row] = -1
        if worker.shared[row] >= size_bounds[MIN_COLUMNS]:
            worker.place[row] = n_rows
            n_rows += 1
            n_entries += worker.shared[row]
    return n_rows, n_entries


@njit(nogil=True, inline="always")
def root_bytes(graph, root, n_rows, n_entries):
    """Return the bytes of the node below a root."""
    return 16 * n_entries + 16 * (n_rows + graph.row_offsets[root + 1] - graph.row_offsets[root])


@njit(nogil=True, inline="always")
def forget(worker, n_touched):
    """Clear the counts of `touch`."""
    for k in range(n_touched):
        worker.shared[worker.touched[k]] = 0


@njit(nogil=True, inline="always")
def root_lists(graph, worker, root, n_touched, n_rows):
    """Build the node below a root from the results of `touch` and `number_rows`, and clear these."""
    offsets = np.zeros(n_rows + 1, np.int64)
    for k in range(n_touched):
        row = worker.touched[k]
        if worker.place[row] >= 0:
            offsets[worker.place[row] + 1] = worker.shared[row]
    forget(worker, n_touched)
    for row in range(n_rows):
        offsets[row + 1] += offsets[row]
    columns = np.empty(offsets[n_rows], np.int32)
    _fill(graph, worker, root, offsets[:-1].copy(), columns)
    return with_columns(offsets, columns, graph.row_offsets[root + 1] - graph.row_offsets[root])


@njit(nogil=True, inline="always")
def _fill(graph, worker, root, ends, columns):
    """Write the columns of each row below a root; `ends` has the first position of each row initially."""
    first = graph.row_offsets[root]
    for k in range(first, graph.row_offsets[root + 1]):
        column = graph.columns[k]
        j = graph.column_offsets[column + 1] - 1
        while graph.rows[j] != root:
            row = worker.place[graph.rows[j]]
            if row >= 0:
                columns[ends[row]] = k - first
                ends[row] += 1
            j -= 1


@compiled()
def _count(worker, size_bounds, size, lists, part, n_parts):
    """Count all leaves below a node, or below some of its children.

    Parameters
    ----------
    part, n_parts : int64
        Children are dealt out to parts in turn; the last one, with an optional pivot, is a child too.
    """
    n_before = 0
    while not worker.control[STOP]:
        worker.control[NODES] += 1
        size, lists, is_leaf = reduced(size_bounds, size, lists)
        n_rows, n_columns = lists.row_offsets.size - 1, lists.column_offsets.size - 1
        if is_leaf or (n_rows <= WIDTH and n_columns <= WIDTH):
            if n_before % n_parts == part:
                _count_end(worker, size_bounds, size, lists, is_leaf)
            return
        side = pairs_side(size_bounds, size, lists)
        if side != NO_SIDE:
            count_pairs(worker, size_bounds, size, lists, side, part, n_parts)
            return
        row, row_degree = most_neighbours(lists.row_offsets)
        column, column_degree = most_neighbours(lists.column_offsets)
        holds_rows = n_rows - column_degree < n_columns - row_degree
        missed = missed_rows(lists, column) if holds_rows else missed_rows(transposed(lists), row)
        gone = np.zeros(max(n_rows, n_columns), np.bool_)
        n_bytes = bytes_of(lists)
        for vertex in missed:
            gone[vertex] = True
            n_before += 1
            if n_before % n_parts != part:
                continue
            if not has_room(worker, n_bytes):
                return
            child_size, child = _child(size_bounds, size, lists, vertex, gone, holds_rows)
            _count(worker, size_bounds, child_size, child, int64(0), int64(1))
            worker.control[BYTES_HELD] -= n_bytes
        held_rows, optional_rows, held_columns, optional_columns = size
        if holds_rows:
            lists, size = (
                rest_of_column(lists, column),
                Size(held_rows, optional_rows, held_columns, optional_columns + 1),
            )
        else:
            lists, size = rest_of_row(lists, row), Size(held_rows, optional_rows + 1, held_columns, optional_columns)


@njit(nogil=True, inline="always")
def _count_end(worker, size_bounds, size, lists, is_leaf):
    """Count a node whose children are not lists."""
    if is_leaf:
        count_leaf(worker, size_bounds, size, lists)
    else:
        fill_frame(worker.frame, lists)
        walk_frame(worker, size_bounds, size, lists.row_offsets.size - 1, lists.column_offsets.size - 1)


@njit(nogil=True, inline="always")
def _child(size_bounds, size, lists, vertex, gone, holds_rows):
    """Return the node with one more held row or column.

    Parameters
    ----------
    gone : bool
        True for each row (or column) to leave out.
    """
    held_rows, optional_rows, held_columns, optional_columns = size
    if holds_rows:
        least = size_bounds[MIN_COLUMNS] - held_columns - optional_columns
        size = Size(held_rows + 1, optional_rows, held_columns, optional_columns)
        return size, child_of_row(lists, vertex, gone, least)
    least = size_bounds[MIN_ROWS] - held_rows - optional_rows
    return Size(held_rows, optional_rows, held_columns + 1, optional_columns), child_of_column(
        lists, vertex, gone, least
    )


@njit(nogil=True, inline="always")
def bytes_of(lists):
    """Return the most bytes of a node's child, including its construction."""
    return 24 * lists.columns.size + 48 * (lists.row_offsets.size + lists.column_offsets.size)


@compiled(LISTS)
def later_paths(graph):
    """Return the number of two-step paths from each row to later rows, ``(n_rows,) float64``.

    This is the work of building the nodes below the rows.
    """
    counts = np.zeros(graph.row_offsets.size - 1)
    for column in range(graph.column_offsets.size - 1):
        first, end = graph.column_offsets[column], graph.column_offsets[column + 1]
        for j in range(first, end):
            counts[graph.rows[j]] += end - 1 - j
    return counts

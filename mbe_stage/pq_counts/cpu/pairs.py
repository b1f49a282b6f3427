"""Nodes too large for a frame with two more vertices to hold on a side: a leaf for each pair of vertices.

With a pivot such a node would be a chain of newly built nodes, one for each vertex that becomes optional. Listing all
pairs only needs their numbers of common neighbours. These are counted along the columns between them (wedges), or as
common bits of two rows, whichever is less work. Pairs with equal numbers are counted at once.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from mbe_stage.bits import popcount
from mbe_stage.pq_counts.cpu.layout import BYTES_HELD, MAX_COLUMNS, MAX_ROWS, MEMORY_BUDGET, STOP, Size
from mbe_stage.pq_counts.cpu.leaves import count_leaf_times
from mbe_stage.pq_counts.cpu.list_nodes import has_room, transposed

NO_SIDE, OF_ROWS, OF_COLUMNS = range(3)
# A step along a column reads the next address to write; words of a row are read in sequence.
_WORDS_PER_STEP = 4


@njit(nogil=True)
def pairs_side(size_bounds, size, lists):
    """Choose the side with two more vertices to hold, the one with less work if both; `NO_SIDE` if neither."""
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
        Rows (columns) are dealt out in turn, each with the later ones.
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
    """Count leaves with `n_more` held rows and `n_others` optional columns more, or the other way round.

    Parameters
    ----------
    n : int64
        Number of such leaves.
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
    """True if common bits of two rows are less work than the steps between them."""
    return _bit_words(oriented) < _WORDS_PER_STEP * _wedges(oriented)


@njit(nogil=True)
def _pair_cost(oriented):
    """Cost of listing pairs of rows, in words."""
    return min(_bit_words(oriented), _WORDS_PER_STEP * _wedges(oriented))


@njit(nogil=True)
def _bit_words(oriented):
    """Words to read for all pairs of rows."""
    n_vertices, n_others = oriented.row_offsets.size - 1, oriented.column_offsets.size - 1
    return n_vertices * n_vertices // 2 * ((n_others + 63) // 64)


@njit(nogil=True)
def _wedges(oriented):
    """Pairs of rows with a common column, counted once for each column."""
    n = 0
    for other in range(oriented.column_offsets.size - 1):
        degree = oriented.column_offsets[other + 1] - oriented.column_offsets[other]
        n += degree * (degree - 1) // 2
    return n


@njit(nogil=True)
def share_bits(oriented, times, part, n_parts, control):
    """Count pairs into `times`, by their number of common columns: common bits of two rows.

    Parameters
    ----------
    times : (n_columns + 1,) int64
    control : (N_CONTROL,) int64
        A stopped worker has counted only some of the pairs.
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
    """Count as `share_bits`, along the columns of each row."""
    n_vertices = oriented.row_offsets.size - 1
    shared = np.zeros(n_vertices, np.int32)
    for vertex in range(part, n_vertices, n_parts):
        if control[STOP]:
            return
        for k in range(oriented.row_offsets[vertex], oriented.row_offsets[vertex + 1]):
            other = oriented.columns[k]
            # The rows of a column ascend: the later ones are its last.
            j = oriented.column_offsets[other + 1] - 1
            while oriented.rows[j] != vertex:
                shared[oriented.rows[j]] += 1
                j -= 1
        for second in range(vertex + 1, n_vertices):
            times[shared[second]] += 1
            shared[second] = 0

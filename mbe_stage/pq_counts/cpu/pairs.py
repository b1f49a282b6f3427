"""Nodes too large for a frame with two more vertices of a side to hold: a leaf for each pair of lines.

With a pivot such a node is a chain, one node for each vertex that becomes optional, and each is built anew. To list all
pairs takes what they share and nothing else: counted along the columns between them (wedges), or as the common bits of
two rows, whichever is less work. Pairs that share equally many are counted at once.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from mbe_stage.bits import popcount
from mbe_stage.pq_counts.cpu.layout import BYTES_HELD, MAX_COLUMNS, MAX_ROWS, MEMORY_BUDGET, STOP, Size
from mbe_stage.pq_counts.cpu.leaves import tally_times
from mbe_stage.pq_counts.cpu.list_nodes import has_room, turned

NO_SIDE, OF_ROWS, OF_COLUMNS = range(3)
# A step along a column reads where it writes next; a word of a row is read in a stream.
_WORDS_PER_STEP = 4


@njit(nogil=True)
def pairs_side(asked, size, lists):
    """The side of which two more may be held, the one with less work if both; `NO_SIDE` if neither."""
    of_rows = size.held_rows + 2 == asked[MAX_ROWS]
    of_columns = size.held_columns + 2 == asked[MAX_COLUMNS]
    if of_rows and of_columns:
        return OF_ROWS if _work(lists) <= _work(turned(lists)) else OF_COLUMNS
    if of_rows:
        return OF_ROWS
    return OF_COLUMNS if of_columns else NO_SIDE


@njit(nogil=True)
def count_pairs(worker, asked, size, lists, side, part, n_parts):
    """Count all leaves of a node, or a part of them.

    Parameters
    ----------
    lists : Lists
        As `narrowed` gives it.
    side : int64
        `OF_ROWS` or `OF_COLUMNS`.
    part, n_parts : int64
        Rows (columns) are dealt out in turn, each with those after it.
    """
    by_rows = side == OF_ROWS
    lines = lists if by_rows else turned(lists)
    n_lines, n_others = lines.row_offsets.size - 1, lines.column_offsets.size - 1
    control = worker.control
    n_bytes, bit_bytes = 8 * (n_others + 1) + 4 * n_lines, 8 * n_lines * ((n_others + 63) // 64)
    uses_bits = bits_pay(lines) and control[BYTES_HELD] + n_bytes + bit_bytes <= control[MEMORY_BUDGET]
    if uses_bits:
        n_bytes += bit_bytes
    if not has_room(worker, n_bytes):
        return
    times = np.zeros(n_others + 1, np.int64)
    if uses_bits:
        share_bits(lines, times, part, n_parts, control)
    else:
        share_steps(lines, times, part, n_parts, control)
    for n_shared in range(n_others + 1):
        if times[n_shared]:
            _tally(worker, asked, size, by_rows, 2, n_shared, times[n_shared])
    for line in range(part, n_lines, n_parts):
        _tally(worker, asked, size, by_rows, 1, lines.row_offsets[line + 1] - lines.row_offsets[line], 1)
    if part == 0:
        _tally(worker, asked, size, by_rows, 0, n_others, 1)
    control[BYTES_HELD] -= n_bytes


@njit(nogil=True, inline="always")
def _tally(worker, asked, size, by_rows, n_more, n_others, n):
    """Count leaves with so many more rows held and columns optional, or the other way round.

    Parameters
    ----------
    n : int64
        How many such leaves.
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
    tally_times(worker, asked, Size(held_rows, optional_rows, held_columns, optional_columns), n)


@njit(nogil=True)
def bits_pay(lines):
    """True if the common bits of two rows are less work than the steps between them."""
    return _bit_words(lines) < _WORDS_PER_STEP * _wedges(lines)


@njit(nogil=True)
def _work(lines):
    """Cost of listing pairs of rows, in words."""
    return min(_bit_words(lines), _WORDS_PER_STEP * _wedges(lines))


@njit(nogil=True)
def _bit_words(lines):
    """Words to be read for all pairs of rows."""
    n_lines, n_others = lines.row_offsets.size - 1, lines.column_offsets.size - 1
    return n_lines * n_lines // 2 * ((n_others + 63) // 64)


@njit(nogil=True)
def _wedges(lines):
    """Pairs of rows that share a column, each as often as they share one."""
    n = 0
    for other in range(lines.column_offsets.size - 1):
        degree = lines.column_offsets[other + 1] - lines.column_offsets[other]
        n += degree * (degree - 1) // 2
    return n


@njit(nogil=True)
def share_bits(lines, times, part, n_parts, control):
    """Count into `times` the pairs that share so many columns, by the common bits of two rows.

    Parameters
    ----------
    times : (n_columns + 1,) int64
    control : (N_CONTROL,) int64
        Who is told to stop has counted some of the pairs.
    """
    n_lines, n_others = lines.row_offsets.size - 1, lines.column_offsets.size - 1
    n_words = (n_others + 63) // 64
    bits = np.zeros((n_lines, n_words), np.uint64)
    for line in range(n_lines):
        for k in range(lines.row_offsets[line], lines.row_offsets[line + 1]):
            other = lines.columns[k]
            bits[line, other >> 6] |= np.uint64(1) << np.uint64(other & 63)
    for line in range(part, n_lines, n_parts):
        if control[STOP]:
            return
        for second in range(line + 1, n_lines):
            n_shared = 0
            for word in range(n_words):
                n_shared += popcount(bits[line, word] & bits[second, word])
            times[n_shared] += 1


@njit(nogil=True)
def share_steps(lines, times, part, n_parts, control):
    """As `share_bits`, along the columns of each row."""
    n_lines = lines.row_offsets.size - 1
    shared = np.zeros(n_lines, np.int32)
    for line in range(part, n_lines, n_parts):
        if control[STOP]:
            return
        for k in range(lines.row_offsets[line], lines.row_offsets[line + 1]):
            other = lines.columns[k]
            # The rows of a column ascend: the later ones are its last.
            j = lines.column_offsets[other + 1] - 1
            while lines.rows[j] != line:
                shared[lines.rows[j]] += 1
                j -= 1
        for second in range(line + 1, n_lines):
            times[shared[second]] += 1
            shared[second] = 0

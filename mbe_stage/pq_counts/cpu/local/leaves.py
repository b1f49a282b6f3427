"""Add a leaf to the local counts of the vertices in its bicliques.

A leaf of h held and o optional rows, g held and r optional columns is C(o, p - h) C(r, q - g) bicliques. A held row and
a held column are in all of them. An optional row is in C(o - 1, p - h - 1) C(r, q - g), and so on. So the number for a
row and a column depends on their kinds alone.

These numbers are not added to each vertex of each leaf. `totals` has the sums over all leaves so far, and a vertex
*opens* before the first leaf that contains it and *closes* after the last one. So totals are subtracted when it opens
and added when it closes. An edge also gets such a difference, of the sum of one of its vertices: if a neighbour opens
and closes while the vertex is open, its sum grows by the bicliques that contain both. Vertices of a single leaf are not
opened: its numbers are added to them directly.
"""

from __future__ import annotations

import numpy as np
from numba import int64, njit

from mbe_stage.pq_counts.cpu.layout import MAX_COLUMNS, MAX_ROWS
from mbe_stage.pq_counts.cpu.local.layout import HELD, N_KINDS, OPTIONAL, at
from mbe_stage.pq_counts.cpu.local.words import NUMBERS, add, multiply, subtract
from mbe_stage.runtime.compile_ahead import CompileStep
from mbe_stage.runtime.jit import compiled, steps_of


def compile_steps() -> tuple[CompileStep, ...]:
    """Return the steps to compile the functions that Python calls."""
    return steps_of(_fill_ways)


def n_ways(most: int, size: int) -> int:
    """Return the length of `ways`."""
    return (most + 1) * (size + 1) + 1


def ways(most: int, size: int, n_words: int) -> np.ndarray:
    """Return binomials C(n, k), n up to `most` and k up to `size`: ``(n_ways, n_words) uint64``, zero at the end."""
    numbers = np.zeros((n_ways(most, size), n_words), np.uint64)
    _fill_ways(numbers, most, size)
    return numbers


@compiled(NUMBERS, int64, int64)
def _fill_ways(numbers, most, size):
    """Fill Pascal's triangle."""
    for n in range(most + 1):
        row = n * (size + 1)
        numbers[row, 0] = np.uint64(1)
        for k in range(1, min(n, size) + 1):
            above = row - (size + 1) + k
            add(numbers, row + k, numbers, above - 1)
            if k < n:
                add(numbers, row + k, numbers, above)


@njit(nogil=True)
def ways_at(n, k, size):
    """Return the index of C(n, k) in `ways`."""
    return n * (size + 1) + k


@compiled(nrt=False)
def values_of(worker, size_bounds, size):
    """Compute `values` of a leaf of this size, and add them to `totals`; return False if it has no biclique.

    Parameters
    ----------
    size_bounds : (4,) int64
        One cell.
    """
    p, q = size_bounds[MAX_ROWS], size_bounds[MAX_COLUMNS]
    k, m = p - size.held_rows, q - size.held_columns
    if size.optional_rows < k or size.optional_columns < m:
        return False
    last = worker.row_ways.shape[0] - 1, worker.column_ways.shape[0] - 1
    rows = ways_at(size.optional_rows, k, p)
    columns = ways_at(size.optional_columns, m, q)
    with_row = ways_at(size.optional_rows - 1, k - 1, p) if k > 0 else last[0]
    with_column = ways_at(size.optional_columns - 1, m - 1, q) if m > 0 else last[1]
    values = worker.values
    multiply(values, 0, worker.row_ways, rows, worker.column_ways, columns)
    multiply(values, 1, worker.row_ways, rows, worker.column_ways, with_column)
    multiply(values, 2, worker.row_ways, with_row, worker.column_ways, columns)
    multiply(values, 3, worker.row_ways, with_row, worker.column_ways, with_column)
    for i in range(4):
        add(worker.totals, i, values, i)
    return True


@compiled(nrt=False)
def add_vertex(worker, sums, vertex, side, kind, numbers):
    """Add totals, or values, to a vertex.

    Parameters
    ----------
    sums : (n_vertices * n_kinds, n_words) uint64
    numbers : (4, n_words) uint64
    """
    n_kinds = worker.control[N_KINDS]
    add(sums, vertex * n_kinds, numbers, at(side, kind, HELD))
    if n_kinds == 2:
        add(sums, vertex * n_kinds + 1, numbers, at(side, kind, OPTIONAL))


@compiled(nrt=False)
def subtract_vertex(worker, sums, vertex, side, kind, numbers):
    """Subtract totals, or values, from a vertex.

    Parameters
    ----------
    sums : (n_vertices * n_kinds, n_words) uint64
    numbers : (4, n_words) uint64
    """
    n_kinds = worker.control[N_KINDS]
    subtract(sums, vertex * n_kinds, numbers, at(side, kind, HELD))
    if n_kinds == 2:
        subtract(sums, vertex * n_kinds + 1, numbers, at(side, kind, OPTIONAL))

"""Add leaves to a table by their signatures."""

from __future__ import annotations

import numpy as np
from numba import njit

from mbe_stage.pq_counts.cpu.layout import (
    MAX_COLUMNS,
    MAX_ROWS,
    MIN_COLUMNS,
    MIN_ROWS,
    STOP,
    TABLE_FULL,
    TABLE_USED,
    WORKER,
    Size,
)
from mbe_stage.runtime.compile_ahead import CompileStep
from mbe_stage.runtime.jit import LONGS, WORDS, compiled, steps_of
from mbe_stage.splitmix import finalised

_mix = njit(inline="always")(finalised)
_HALF = np.uint64(32)
_ODD = np.uint64(0x9E3779B97F4A7C15)


def compile_steps() -> tuple[CompileStep, ...]:
    """Return the steps to compile the functions called from Python."""
    return steps_of(put_back)


@compiled(nrt=False, inlined=True)
def count_leaves(worker, size_bounds, held_rows, optional_rows, held_columns, optional_columns):
    """Count a leaf if its bicliques can reach the wanted sizes."""
    count_leaf_times(worker, size_bounds, Size(held_rows, optional_rows, held_columns, optional_columns), 1)


@compiled(nrt=False, inlined=True)
def count_leaf_times(worker, size_bounds, size, n):
    """Count `n` equal leaves, as `count_leaves` does for one."""
    held_rows, optional_rows, held_columns, optional_columns = size
    if held_rows + optional_rows < size_bounds[MIN_ROWS] or held_columns + optional_columns < size_bounds[MIN_COLUMNS]:
        return
    rows = (np.uint64(held_rows) << _HALF) | np.uint64(optional_rows)
    columns = (np.uint64(held_columns) << _HALF) | np.uint64(optional_columns)
    _add(worker.table, worker.control, rows, columns, n)


@compiled(WORKER, WORDS, WORDS, LONGS)
def put_back(worker, rows, columns, times):
    """Add leaf signatures and their numbers to a table."""
    for k in range(times.size):
        _add(worker.table, worker.control, rows[k], columns[k], times[k])


@compiled(nrt=False)
def _add(table, control, rows, columns, n):
    places = np.uint64(table.times.size - 1)
    at = _mix(rows * _ODD + columns) & places
    while table.times[at]:
        if table.rows[at] == rows and table.columns[at] == columns:
            table.times[at] += n
            return
        at = (at + np.uint64(1)) & places
    # One place stays free, so that a search for a missing signature ends.
    if control[TABLE_USED] + 1 >= table.times.size:
        control[STOP] = TABLE_FULL
        return
    control[TABLE_USED] += 1
    table.rows[at] = rows
    table.columns[at] = columns
    table.times[at] = n


@njit(nogil=True, inline="always")
def is_too_small(size_bounds, size, n_rows, n_columns):
    """Return True if a node with these rows and columns has no biclique of a wanted size."""
    return (
        size.held_rows + size.optional_rows + n_rows < size_bounds[MIN_ROWS]
        or size.held_columns + size.optional_columns + n_columns < size_bounds[MIN_COLUMNS]
    )


@njit(nogil=True, inline="always")
def is_at_end(worker, size_bounds, size, n_rows, n_columns):
    """Count a node that is a leaf, because a side is used up or no more vertices may be held. False for other nodes.

    Parameters
    ----------
    n_rows, n_columns : int64
        Numbers of vertices that are neither held nor optional.
    """
    if n_rows == 0 or n_columns == 0:
        count_leaves(
            worker,
            size_bounds,
            size.held_rows,
            size.optional_rows + n_rows,
            size.held_columns,
            size.optional_columns + n_columns,
        )
        return True
    if size.held_rows == size_bounds[MAX_ROWS]:
        count_leaves(worker, size_bounds, size.held_rows, 0, size.held_columns, size.optional_columns + n_columns)
        return True
    if size.held_columns == size_bounds[MAX_COLUMNS]:
        count_leaves(worker, size_bounds, size.held_rows, size.optional_rows + n_rows, size.held_columns, 0)
        return True
    return False

"""Add leaves to the table of their kinds."""

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
    """Everything here that Python calls."""
    return steps_of(put_back)


@njit(nogil=True, inline="always")
def tally(worker, asked, held_rows, optional_rows, held_columns, optional_columns):
    """Count a leaf, where its bicliques reach the sizes that are asked for."""
    tally_times(worker, asked, Size(held_rows, optional_rows, held_columns, optional_columns), 1)


@njit(nogil=True, inline="always")
def tally_times(worker, asked, size, n):
    """Count a leaf `n` times, as `tally` does once."""
    held_rows, optional_rows, held_columns, optional_columns = size
    if held_rows + optional_rows < asked[MIN_ROWS] or held_columns + optional_columns < asked[MIN_COLUMNS]:
        return
    rows = (np.uint64(held_rows) << _HALF) | np.uint64(optional_rows)
    columns = (np.uint64(held_columns) << _HALF) | np.uint64(optional_columns)
    _add(worker.table, worker.control, rows, columns, n)


@compiled(WORKER, WORDS, WORDS, LONGS)
def put_back(worker, rows, columns, times):
    """Count kinds of leaves so many times each."""
    for k in range(times.size):
        _add(worker.table, worker.control, rows[k], columns[k], times[k])


@njit(nogil=True)
def _add(table, control, rows, columns, n):
    places = np.uint64(table.times.size - 1)
    at = _mix(rows * _ODD + columns) & places
    while table.times[at]:
        if table.rows[at] == rows and table.columns[at] == columns:
            table.times[at] += n
            return
        at = (at + np.uint64(1)) & places
    # One place stays free, or a search for what is not there would not end.
    if control[TABLE_USED] + 1 >= table.times.size:
        control[STOP] = TABLE_FULL
        return
    control[TABLE_USED] += 1
    table.rows[at] = rows
    table.columns[at] = columns
    table.times[at] = n


@njit(nogil=True, inline="always")
def is_too_small(asked, size, n_rows, n_columns):
    """True if a node with so many rows and columns has no biclique of a size that is asked for."""
    return (
        size.held_rows + size.optional_rows + n_rows < asked[MIN_ROWS]
        or size.held_columns + size.optional_columns + n_columns < asked[MIN_COLUMNS]
    )


@njit(nogil=True, inline="always")
def is_at_end(worker, asked, size, n_rows, n_columns):
    """True if a node is a leaf: a side is used up, or nothing more may be held of it. Then it is counted.

    Parameters
    ----------
    n_rows, n_columns : int64
        Of the node, neither held nor optional.
    """
    if n_rows == 0 or n_columns == 0:
        tally(
            worker,
            asked,
            size.held_rows,
            size.optional_rows + n_rows,
            size.held_columns,
            size.optional_columns + n_columns,
        )
        return True
    if size.held_rows == asked[MAX_ROWS]:
        tally(worker, asked, size.held_rows, 0, size.held_columns, size.optional_columns + n_columns)
        return True
    if size.held_columns == asked[MAX_COLUMNS]:
        tally(worker, asked, size.held_rows, size.optional_rows + n_rows, size.held_columns, 0)
        return True
    return False

"""Arrays of the compiled count, by scope."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import types

from mbe_stage.runtime.jit import INTS, LONGS, WORDS

WIDTH = 64
"""Most rows and most columns of a frame: bits of a word."""

# Fields of `size_bounds`, (4,) int64: sizes of a query or a cell, in rows and columns.
MIN_ROWS, MAX_ROWS, MIN_COLUMNS, MAX_COLUMNS = range(4)

# Fields of a worker's `control`.
STOP, TABLE_USED, NODES, BYTES_HELD, MEMORY_BUDGET = range(5)
N_CONTROL = 5

# Reasons for a worker to stop (`STOP`); 0 to continue.
STOPPED, TABLE_FULL, LACKS_MEMORY = 1, 2, 3

# Fields of a stack entry: masks of rows and columns, the missed vertices to hold next, the pivot, whether rows are held
# (else columns), and the size.
FRAME_FIELDS = 9
# Each node holds one vertex more than its parent, or has one vertex fewer.
FRAME_DEPTH = 2 * WIDTH + 2


class Size(NamedTuple):
    """Numbers of a node's held vertices, which are in each of its bicliques, and of its optional ones, which may be."""

    held_rows: Any
    optional_rows: Any
    held_columns: Any
    optional_columns: Any


class Lists(NamedTuple):
    """A bipartite graph between rows and columns; lists are ascending.

    Attributes
    ----------
    row_offsets, column_offsets : int64
    columns, rows : int32
        Columns of each row; rows of each column.
    """

    row_offsets: np.ndarray
    columns: np.ndarray
    column_offsets: np.ndarray
    rows: np.ndarray


class LeafTable(NamedTuple):
    """Leaves by signature: a hash table with open addressing.

    Attributes
    ----------
    rows, columns : (capacity,) uint64
        Number of held vertices in the upper half of the word, of optional ones in the lower half.
    times : (capacity,) int64
        Number of leaves with this signature; 0 marks a free place.
    """

    rows: np.ndarray
    columns: np.ndarray
    times: np.ndarray


class Frame(NamedTuple):
    """A node with at most 64 rows and columns as bits, and the stack of nodes below it.

    Attributes
    ----------
    rows, columns : (64,) uint64
        Columns of each row; rows of each column.
    stack : (FRAME_DEPTH, FRAME_FIELDS) uint64
    """

    rows: np.ndarray
    columns: np.ndarray
    stack: np.ndarray


class Worker(NamedTuple):
    """Working memory of a thread.

    Attributes
    ----------
    control : (N_CONTROL,) int64
    shared, place : (n_rows,) int32
        Number of columns that a row shares with the root, zero between roots; and the row's number below the root.
    touched : (n_rows,) int32
        Rows that share columns with the root.
    """

    table: LeafTable
    frame: Frame
    control: np.ndarray
    shared: np.ndarray
    place: np.ndarray
    touched: np.ndarray


_LEAF_TABLE = types.NamedTuple((WORDS, WORDS, LONGS), LeafTable)
_FRAME = types.NamedTuple((WORDS, WORDS, types.uint64[:, ::1]), Frame)
LISTS = types.NamedTuple((LONGS, INTS, LONGS, INTS), Lists)
WORKER = types.NamedTuple((_LEAF_TABLE, _FRAME, LONGS, INTS, INTS, INTS), Worker)


def new_table(capacity: int) -> LeafTable:
    """Return an empty table; `capacity` is a power of two."""
    return LeafTable(np.zeros(capacity, np.uint64), np.zeros(capacity, np.uint64), np.zeros(capacity, np.int64))


def new_worker(n_rows: int, capacity: int, memory_budget: int) -> Worker:
    """Allocate a thread's working memory for a graph with this number of rows."""
    control = np.zeros(N_CONTROL, np.int64)
    control[MEMORY_BUDGET] = memory_budget
    frame = Frame(
        np.zeros(WIDTH, np.uint64), np.zeros(WIDTH, np.uint64), np.zeros((FRAME_DEPTH, FRAME_FIELDS), np.uint64)
    )
    counts = [np.zeros(n_rows, np.int32) for _ in range(3)]
    return Worker(new_table(capacity), frame, control, *counts)

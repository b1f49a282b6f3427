"""Arrays of the compiled count, by their scope."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import types

from mbe_stage.runtime.jit import INTS, LONGS, WORDS

WIDTH = 64
"""Rows and columns of a frame, at most: bits of a word."""

# Fields of `asked`, (4,) int64: the sizes of a query or a cell, in rows and columns.
MIN_ROWS, MAX_ROWS, MIN_COLUMNS, MAX_COLUMNS = range(4)

# Fields of a worker's control.
STOP, TABLE_USED, NODES, BYTES_HELD, MEMORY_BUDGET = range(5)
N_CONTROL = 5

# Why a worker stops (`STOP`), beside 0: it goes on.
STOPPED, TABLE_FULL, LACKS_MEMORY = 1, 2, 3

# Fields of a node of a frame that is worked on: masks of its rows and columns, the vertices still to be held, its
# pivot, whether rows are held (else columns), and its size.
FRAME_FIELDS = 9
# A node holds one vertex more than the one above it, or has a vertex less.
FRAME_DEPTH = 2 * WIDTH + 2


class Size(NamedTuple):
    """Vertices of a node that are in each of its bicliques (held), and those that are in any of them (optional)."""

    held_rows: Any
    optional_rows: Any
    held_columns: Any
    optional_columns: Any


class Lists(NamedTuple):
    """A bipartite graph between rows and columns; entries ascend.

    Attributes
    ----------
    row_offsets, column_offsets : int64
    columns, rows : int32
        Of each row, and of each column.
    """

    row_offsets: np.ndarray
    columns: np.ndarray
    column_offsets: np.ndarray
    rows: np.ndarray


class LeafTable(NamedTuple):
    """Leaves by their kind: a hash table with open addressing.

    Attributes
    ----------
    rows, columns : (capacity,) uint64
        Held vertices in the upper half of the word, optional ones in the lower half.
    times : (capacity,) int64
        How many such leaves; 0 is a free place.
    """

    rows: np.ndarray
    columns: np.ndarray
    times: np.ndarray


class Frame(NamedTuple):
    """A node of at most 64 rows and columns as bits, and the nodes below it that are worked on.

    Attributes
    ----------
    rows, columns : (64,) uint64
        The columns of each row, and the rows of each column.
    stack : (FRAME_DEPTH, FRAME_FIELDS) uint64
    """

    rows: np.ndarray
    columns: np.ndarray
    stack: np.ndarray


class Worker(NamedTuple):
    """Working memory of one thread.

    Attributes
    ----------
    control : (N_CONTROL,) int64
    shared, place : (n_rows,) int32
        Columns that a row shares with the root, zero between roots; and the row's number below it.
    touched : (n_rows,) int32
        Rows that share some.
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
    """An empty one; `capacity` is a power of two."""
    return LeafTable(np.zeros(capacity, np.uint64), np.zeros(capacity, np.uint64), np.zeros(capacity, np.int64))


def new_worker(n_rows: int, capacity: int, memory_budget: int) -> Worker:
    """Working memory of a thread for a graph of so many rows."""
    control = np.zeros(N_CONTROL, np.int64)
    control[MEMORY_BUDGET] = memory_budget
    frame = Frame(
        np.zeros(WIDTH, np.uint64), np.zeros(WIDTH, np.uint64), np.zeros((FRAME_DEPTH, FRAME_FIELDS), np.uint64)
    )
    counts = [np.zeros(n_rows, np.int32) for _ in range(3)]
    return Worker(new_table(capacity), frame, control, *counts)

"""Arrays of the compiled local counts: of a frame, and of a thread.

The vertices are the rows, then the columns. A number is a row of an array of words (`cpu.local.words`).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit, types

from mbe_stage.pq_counts.cpu.layout import FRAME_DEPTH, MEMORY_BUDGET, N_CONTROL, WIDTH
from mbe_stage.pq_counts.cpu.local.words import NUMBERS
from mbe_stage.runtime.jit import INTS, LONGS, WORDS

# NumPy integers, since Numba would compile each function again for each Python constant.
ROW, COLUMN = np.int64(0), np.int64(1)
"""Sides of a vertex."""

HELD, OPTIONAL = np.int64(0), np.int64(1)
"""Kinds of a vertex in a leaf."""

OPENED, N_KINDS = N_CONTROL, N_CONTROL + 1
"""Further fields of a worker's control (`cpu.layout`): number of open vertices, and of sums per vertex."""

FIELDS = 15
"""Number of fields of a stack entry."""


class LocalFrame(NamedTuple):
    """A node of at most 64 rows and columns as bits, the stack of nodes below it, and its sums.

    Attributes
    ----------
    rows, columns : (64,) uint64
    stack : (FRAME_DEPTH, FIELDS) uint64
    sums : (128 * n_kinds, n_words) uint64
        Sums of each row, then of each column; see `LocalWorker.vertices`.
    pairs : (64 * 64, n_words) uint64
        Sums of each row with each column; empty if edges are not requested.
    """

    rows: np.ndarray
    columns: np.ndarray
    stack: np.ndarray
    sums: np.ndarray
    pairs: np.ndarray


class LocalWorker(NamedTuple):
    """Working memory of one thread.

    Attributes
    ----------
    control : (N_CONTROL + 2,) int64
    shared, place, touched : (n_rows,) int32
        As in `cpu.layout.Worker`.
    vertices : ((n_rows + n_columns) * n_kinds, n_words) uint64
        For each row, then for each column: number of bicliques of the leaves so far that contain it. With edges, a
        second number follows: of those that contain an optional vertex of the other side.
    edges : (n_entries, n_words) uint64
        For each entry of each row; empty if edges are not requested.
    totals, values : (4, n_words) uint64
        Number of bicliques that contain one row and one column of given kinds (`at`): of all leaves so far, and of the
        current leaf.
    row_ways, column_ways : (n, n_words) uint64
        Binomials (`cpu.local.leaves.ways`).
    entries : (n_entries,) int64
        The position in the rows' lists for each entry of the columns' lists; empty if edges are not requested.
    opened : (n_rows + n_columns,) int64
        Open vertices in the order of opening: twice the vertex plus its kind.
    """

    frame: LocalFrame
    control: np.ndarray
    shared: np.ndarray
    place: np.ndarray
    touched: np.ndarray
    vertices: np.ndarray
    edges: np.ndarray
    totals: np.ndarray
    values: np.ndarray
    row_ways: np.ndarray
    column_ways: np.ndarray
    entries: np.ndarray
    opened: np.ndarray


_FRAME = types.NamedTuple((WORDS, WORDS, NUMBERS, NUMBERS, NUMBERS), LocalFrame)
LOCAL_WORKER = types.NamedTuple(
    (_FRAME, LONGS, *[INTS] * 3, *[NUMBERS] * 6, LONGS, LONGS),
    LocalWorker,
)


@njit(nogil=True)
def at(side, kind, other_kind):
    """Return the index in `totals` and `values` for a vertex of one kind with one of the other side."""
    return 2 * kind + other_kind if side == ROW else 2 * other_kind + kind


def worker_bytes(n_rows: int, n_columns: int, n_entries: int, n_words: int, *, edges: bool) -> int:
    """Return the bytes of a thread's working memory, without the small frame."""
    n_vertices = n_rows + n_columns
    if edges:
        return 12 * n_rows + 8 * n_vertices + 8 * n_words * (2 * n_vertices + n_entries)
    return 12 * n_rows + 8 * n_vertices + 8 * n_words * n_vertices


def new_local_worker(
    n_rows: int,
    n_columns: int,
    row_ways: np.ndarray,
    column_ways: np.ndarray,
    entries: np.ndarray,
    memory_budget: int,
    *,
    edges: bool,
) -> LocalWorker:
    """Allocate the working memory of a thread, for a graph with these rows and columns.

    Parameters
    ----------
    row_ways, column_ways, entries
        As in `LocalWorker`; shared by all threads.
    memory_budget : int
        Limit for nodes, in bytes.
    edges : bool
        True if counts of edges are requested.
    """
    n_words, n_kinds, n_vertices = row_ways.shape[1], 1 + edges, n_rows + n_columns

    def numbers(n: int) -> np.ndarray:
        return np.zeros((n, n_words), np.uint64)

    control = np.zeros(N_CONTROL + 2, np.int64)
    control[MEMORY_BUDGET] = memory_budget
    control[N_KINDS] = n_kinds
    frame = LocalFrame(
        np.zeros(WIDTH, np.uint64),
        np.zeros(WIDTH, np.uint64),
        np.zeros((FRAME_DEPTH, FIELDS), np.uint64),
        numbers(2 * WIDTH * n_kinds),
        numbers(WIDTH * WIDTH if edges else 0),
    )
    return LocalWorker(
        frame=frame,
        control=control,
        shared=np.zeros(n_rows, np.int32),
        place=np.zeros(n_rows, np.int32),
        touched=np.zeros(n_rows, np.int32),
        vertices=numbers(n_vertices * n_kinds),
        edges=numbers(entries.size),
        totals=numbers(4),
        values=numbers(4),
        row_ways=row_ways,
        column_ways=column_ways,
        entries=entries,
        opened=np.zeros(n_vertices, np.int64),
    )

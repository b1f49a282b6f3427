"""The count below some roots: lists first, then frames.

A root is a row, and what is below it are the bicliques whose first row it is, in the order of the rows. Their other
rows come later; their columns are the root's. Nodes of up to 64 rows and columns are frames (`frame_walk`); larger ones
are lists, with the same pivots, and the walk over these is recursive: no deeper than the sizes that are asked for, as
each step down holds one vertex more.
"""

from __future__ import annotations

import numpy as np
from numba import int64, njit

from mbe_stage.pq_counts.cpu.frame_walk import walk_frame
from mbe_stage.pq_counts.cpu.layout import (
    BYTES_HELD,
    LISTS,
    MAX_ROWS,
    MIN_COLUMNS,
    MIN_ROWS,
    NODES,
    STOP,
    WIDTH,
    WORKER,
    Size,
)
from mbe_stage.pq_counts.cpu.leaves import tally
from mbe_stage.pq_counts.cpu.list_nodes import (
    child_of_column,
    child_of_row,
    count_leaf,
    fill_frame,
    has_room,
    missed_rows,
    most_neighbours,
    narrowed,
    rest_of_column,
    rest_of_row,
    turned,
    with_columns,
)
from mbe_stage.pq_counts.cpu.pairs import NO_SIDE, count_pairs, pairs_side
from mbe_stage.runtime.compile_ahead import CompileStep
from mbe_stage.runtime.jit import LONGS, compiled, steps_of


def compile_steps() -> tuple[CompileStep, ...]:
    """Everything here."""
    return steps_of(count_roots, later_paths)


@compiled(LISTS, WORKER, LONGS, int64, int64, int64, int64, seconds=12.0)
def count_roots(graph, worker, asked, first, end, part, n_parts):
    """Count what is below some roots, or a part of it.

    Parameters
    ----------
    part, n_parts : int64
        Of the children of each root, in turn: only those of this part.
    """
    for root in range(first, end):
        n_touched = touch(graph, worker, root)
        if asked[MAX_ROWS] == 2:
            _count_pairs(worker, asked, n_touched, part, n_parts)
        else:
            _count_root(graph, worker, asked, root, n_touched, part, n_parts)
        if worker.control[STOP]:
            return


@njit(nogil=True, inline="always")
def touch(graph, worker, root):
    """Count the columns that each later row shares with a root; returns how many rows share some."""
    n_touched = 0
    for k in range(graph.row_offsets[root], graph.row_offsets[root + 1]):
        column = graph.columns[k]
        # The rows of a column ascend: the later ones are its last.
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
def _count_pairs(worker, asked, n_touched, part, n_parts):
    """Count pairs of rows by what they share: all there is to do where no biclique has more rows (wedges)."""
    for k in range(n_touched):
        row = worker.touched[k]
        if k % n_parts == part:
            tally(worker, asked, 2, 0, 0, int64(worker.shared[row]))
        worker.shared[row] = 0


@njit(nogil=True, inline="always")
def _count_root(graph, worker, asked, root, n_touched, part, n_parts):
    """Build the node below a root, and count it.

    Parameters
    ----------
    graph, worker, asked, part, n_parts
        As `count_roots` takes them.
    """
    n_rows, n_entries = number_rows(worker, asked, n_touched)
    n_bytes = root_bytes(graph, root, n_rows, n_entries)
    if 1 + n_rows < asked[MIN_ROWS] or not has_room(worker, n_bytes):
        forget(worker, n_touched)
        return
    lists = root_lists(graph, worker, root, n_touched, n_rows)
    _count(worker, asked, Size(1, 0, 0, 0), lists, part, n_parts)
    worker.control[BYTES_HELD] -= n_bytes


@njit(nogil=True, inline="always")
def number_rows(worker, asked, n_touched):
    """Number the rows that share enough with a root, the others -1; how many they are, and what they share in all."""
    n_rows = n_entries = 0
    for k in range(n_touched):
        row = worker.touched[k]
        worker.place[row] = -1
        if worker.shared[row] >= asked[MIN_COLUMNS]:
            worker.place[row] = n_rows
            n_rows += 1
            n_entries += worker.shared[row]
    return n_rows, n_entries


@njit(nogil=True, inline="always")
def root_bytes(graph, root, n_rows, n_entries):
    """Bytes of the node below a root."""
    return 16 * n_entries + 16 * (n_rows + graph.row_offsets[root + 1] - graph.row_offsets[root])


@njit(nogil=True, inline="always")
def forget(worker, n_touched):
    """Set back what `touch` counted."""
    for k in range(n_touched):
        worker.shared[worker.touched[k]] = 0


@njit(nogil=True, inline="always")
def root_lists(graph, worker, root, n_touched, n_rows):
    """The node below a root, of what `touch` and `number_rows` found, which is forgotten."""
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
    """The columns of each row below a root, by their number there; `ends` begins as where each row begins."""
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
def _count(worker, asked, size, lists, part, n_parts):
    """Count all leaves below a node, or those of a part of its children.

    Parameters
    ----------
    part, n_parts : int64
        Children are dealt out in turn; the rest, where the pivots are optional, is one of them.
    """
    n_before = 0
    while not worker.control[STOP]:
        worker.control[NODES] += 1
        size, lists, is_leaf = narrowed(asked, size, lists)
        n_rows, n_columns = lists.row_offsets.size - 1, lists.column_offsets.size - 1
        if is_leaf or (n_rows <= WIDTH and n_columns <= WIDTH):
            if n_before % n_parts == part:
                _count_end(worker, asked, size, lists, is_leaf)
            return
        side = pairs_side(asked, size, lists)
        if side != NO_SIDE:
            count_pairs(worker, asked, size, lists, side, part, n_parts)
            return
        row, row_degree = most_neighbours(lists.row_offsets)
        column, column_degree = most_neighbours(lists.column_offsets)
        holds_rows = n_rows - column_degree < n_columns - row_degree
        missed = missed_rows(lists, column) if holds_rows else missed_rows(turned(lists), row)
        gone = np.zeros(max(n_rows, n_columns), np.bool_)
        n_bytes = bytes_of(lists)
        for line in missed:
            gone[line] = True
            n_before += 1
            if n_before % n_parts != part:
                continue
            if not has_room(worker, n_bytes):
                return
            child_size, child = _child(asked, size, lists, line, gone, holds_rows)
            _count(worker, asked, child_size, child, int64(0), int64(1))
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
def _count_end(worker, asked, size, lists, is_leaf):
    """Count a node that has no children in the shape of lists."""
    if is_leaf:
        count_leaf(worker, asked, size, lists)
    else:
        fill_frame(worker.frame, lists)
        walk_frame(worker, asked, size, lists.row_offsets.size - 1, lists.column_offsets.size - 1)


@njit(nogil=True, inline="always")
def _child(asked, size, lists, line, gone, holds_rows):
    """The node where one more row, or column, is held.

    Parameters
    ----------
    gone : bool
        Of each row, or column.
    """
    held_rows, optional_rows, held_columns, optional_columns = size
    if holds_rows:
        least = asked[MIN_COLUMNS] - held_columns - optional_columns
        size = Size(held_rows + 1, optional_rows, held_columns, optional_columns)
        return size, child_of_row(lists, line, gone, least)
    least = asked[MIN_ROWS] - held_rows - optional_rows
    return Size(held_rows, optional_rows, held_columns + 1, optional_columns), child_of_column(lists, line, gone, least)


@njit(nogil=True, inline="always")
def bytes_of(lists):
    """Most bytes that a child of a node takes, and building it."""
    return 24 * lists.columns.size + 48 * (lists.row_offsets.size + lists.column_offsets.size)


@compiled(LISTS)
def later_paths(graph):
    """Two-step paths from each row to later rows, ``(n_rows,) float64``: what building the nodes below them takes."""
    counts = np.zeros(graph.row_offsets.size - 1)
    for column in range(graph.column_offsets.size - 1):
        first, end = graph.column_offsets[column], graph.column_offsets[column + 1]
        for j in range(first, end):
            counts[graph.rows[j]] += end - 1 - j
    return counts

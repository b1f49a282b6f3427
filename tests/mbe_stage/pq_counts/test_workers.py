"""Leaf tables that fill up, and pieces of the work."""

from __future__ import annotations

import functools

import numpy as np
import pytest

from mbe_stage.pq_counts.cpu.layout import Lists
from mbe_stage.pq_counts.cpu.workers import Counting, TaskRange
from mbe_stage.pq_counts.ordering import row_lists
from mbe_stage.pq_counts.query import PqQuery
from mbe_stage.pq_counts.reduction import reduced, to_choose
from tests.mbe_stage import graphs


def leaves(n_parts: int, capacity: int, n_threads: int = 1) -> dict[tuple[int, ...], int]:
    """Return the leaves by kind; the graph has list nodes and frames below each root."""
    graph = graphs.from_matrix(graphs.random_matrix(2, 100, 80, 0.5))
    part = reduced(to_choose(graph, PqQuery(2, 4, 2, 4)))
    lists, _ = row_lists(part)
    asked = np.array([2, 4, 2, 4], np.int64)
    counting = Counting(Lists(*lists), asked, n_threads, 1 << 28, capacity)
    n_rows = lists[0].size - 1
    pieces = [
        TaskRange(first, min(n_rows, first + 7), k, n_parts, 1.0)
        for first in range(0, n_rows, 7)
        for k in range(n_parts)
    ]
    found: dict[tuple[int, ...], int] = {}
    shares = []
    for counted, share in counting.run(pieces):
        shares.append(share)
        for *kind, times in zip(*(column.tolist() for column in counted), strict=True):
            found[tuple(kind)] = found.get(tuple(kind), 0) + times
    assert shares == sorted(shares)
    assert shares[-1] == 1.0
    return found


@functools.cache
def all_leaves() -> dict[tuple[int, ...], int]:
    """Return all leaves from one piece, with a table that has room for them."""
    return leaves(1, 1 << 14)


@pytest.mark.parametrize("capacity", [2, pytest.param(16, marks=pytest.mark.slow), 256])
@pytest.mark.parametrize("n_threads", [1, 2])
def test_a_full_table_neither_loses_nor_repeats_leaves(capacity: int, n_threads: int) -> None:
    assert leaves(1, capacity, n_threads) == all_leaves()


@pytest.mark.parametrize("n_parts", [2, 3, 50])
def test_parts_of_the_children_are_complete_and_disjoint(n_parts: int) -> None:
    assert leaves(n_parts, 1 << 14) == all_leaves()

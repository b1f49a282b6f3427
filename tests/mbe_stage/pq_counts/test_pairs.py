"""Pairs of a wide node's rows or columns: within a budget, and with a stop."""

from __future__ import annotations

from math import comb
from threading import Timer

import numpy as np
import pytest

from mbe_stage.pq_counts.cpu.layout import (
    BYTES_HELD,
    LACKS_MEMORY,
    N_CONTROL,
    STOP,
    STOPPED,
    Lists,
    Size,
    Worker,
    new_worker,
)
from mbe_stage.pq_counts.cpu.tree import OF_COLUMNS, OF_ROWS, bits_pay, count_pairs, share_bits, share_steps
from tests.mbe_stage import graphs

N_ROWS, N_COLUMNS = 170, 150
SHARES = [pytest.param(share_bits, id="bits"), pytest.param(share_steps, id="steps")]


def random_lists(density: float) -> tuple[Lists, np.ndarray]:
    matrix = graphs.random_matrix(3, N_ROWS, N_COLUMNS, density)
    graph = graphs.from_matrix(matrix)
    return Lists(graph.left_offsets, graph.left_members, graph.right_offsets, graph.right_members), matrix


def in_one_column(n_rows: int) -> Lists:
    """Return rows that all have the one column."""
    rows = np.arange(n_rows)
    return Lists(np.arange(n_rows + 1), np.zeros(n_rows, np.int32), np.array([0, n_rows]), rows.astype(np.int32))


def counted(lists: Lists, side: int, budget: int) -> tuple[Worker, dict[tuple[int, int], int]]:
    """Return the leaves below a root: the table's rows and columns, and how often."""
    worker = new_worker(N_ROWS, 1 << 12, budget)
    asked = np.array([2, 3, 2, 9] if side == OF_ROWS else [2, 9, 2, 3], np.int64)
    count_pairs(worker, asked, Size(1, 0, 0, 0) if side == OF_ROWS else Size(0, 0, 1, 0), lists, side, 0, 1)
    table = worker.table
    known = np.flatnonzero(table.times)
    kinds = zip(table.rows[known].tolist(), table.columns[known].tolist(), strict=True)
    return worker, dict(zip(kinds, table.times[known].tolist(), strict=True))


@pytest.mark.parametrize("side", [OF_ROWS, OF_COLUMNS])
def test_steps_replace_bits_that_exceed_the_budget(side: int) -> None:
    lists, _ = random_lists(0.3)
    assert bits_pay(lists)
    n_vertices, n_others = (N_ROWS, N_COLUMNS) if side == OF_ROWS else (N_COLUMNS, N_ROWS)
    of_steps = 8 * (n_others + 1) + 4 * n_vertices
    of_bits = of_steps + 8 * n_vertices * -(-n_others // 64)
    _, wanted = counted(lists, side, of_bits)
    assert sum(wanted.values()) > comb(n_vertices, 2)
    for budget in (of_steps, of_bits - 1):
        worker, found = counted(lists, side, budget)
        assert found == wanted
        assert worker.control[[STOP, BYTES_HELD]].tolist() == [0, 0]
    worker, found = counted(lists, side, of_steps - 1)
    assert worker.control[STOP] == LACKS_MEMORY
    assert found == {}


@pytest.mark.parametrize("share", SHARES)
def test_both_ways_count_what_rows_share(share: object) -> None:
    for density in (0.06, 0.5):
        lists, matrix = random_lists(density)
        rows = matrix.astype(np.int64)
        times = np.zeros(N_COLUMNS + 1, np.int64)
        for part in range(3):
            share(lists, times, part, 3, np.zeros(N_CONTROL, np.int64))  # type: ignore[operator]
        in_common = (rows @ rows.T)[np.triu_indices(N_ROWS, 1)]
        assert times.tolist() == np.bincount(in_common, minlength=N_COLUMNS + 1).tolist()


@pytest.mark.parametrize("share", SHARES)
def test_a_stop_ends_a_long_list_of_pairs(share: object) -> None:
    """Twenty thousand million pairs: a stop after all of them would be far too late."""
    control, n_rows = np.zeros(N_CONTROL, np.int64), 200_000
    share(in_one_column(3), np.zeros(2, np.int64), 0, 1, control)  # type: ignore[operator]
    times = np.zeros(2, np.int64)
    stop = Timer(0.2, control.__setitem__, (STOP, STOPPED))
    stop.start()
    share(in_one_column(n_rows), times, 0, 1, control)  # type: ignore[operator]
    stop.join()
    assert times[0] == 0
    assert 0 < times[1] < comb(n_rows, 2)

"""Threads that add the local counts of one cell, each with its own sums."""

from __future__ import annotations

import math
import time
from collections.abc import Generator, Sequence
from contextlib import closing
from typing import NamedTuple

import numpy as np

from mbe_stage.errors import MemoryBudgetExceeded
from mbe_stage.pq_counts.cpu.layout import BYTES_HELD, LACKS_MEMORY, MAX_COLUMNS, MAX_ROWS, NODES, STOP, STOPPED, Lists
from mbe_stage.pq_counts.cpu.local.layout import N_KINDS, LocalWorker, new_local_worker, worker_bytes
from mbe_stage.pq_counts.cpu.local.leaves import n_ways, ways
from mbe_stage.pq_counts.cpu.local.tree import add_roots
from mbe_stage.pq_counts.cpu.local.words import digits_of_words
from mbe_stage.pq_counts.cpu.workers import TAKING_SECONDS, TaskRange, worked_off

# Copying sums takes time: copies come after this many numbers, worth a second.
_NUMBERS_A_SECOND = 1 << 21


class Sums(NamedTuple):
    """Sums over some bicliques, as digits of 32 bits (`mbe_stage.pq_counts.digits`).

    Attributes
    ----------
    total : (1, n_digits) uint64
        Number of bicliques.
    rows, columns : (n_rows, n_digits) and (n_columns, n_digits) uint64
        Numbers for each row and column.
    edges : (n_entries, n_digits) uint64 or None
        Numbers for each entry of each row.
    """

    total: np.ndarray
    rows: np.ndarray
    columns: np.ndarray
    edges: np.ndarray | None


def bytes_needed(lists: Lists, size_bounds: np.ndarray, n_words: int, n_threads: int, *, edges: bool) -> int:
    """Bytes of the sums of all threads, of their shared data, and of one copy that is delivered.

    Parameters
    ----------
    size_bounds : (4,) int64
        One cell.
    n_words : int
        Words of a number.
    """
    n_rows, n_columns, n_entries = lists.row_offsets.size - 1, lists.column_offsets.size - 1, lists.columns.size
    most_rows, most_columns = _most(lists)
    shared = (
        8
        * n_words
        * (n_ways(most_rows, int(size_bounds[MAX_ROWS])) + n_ways(most_columns, int(size_bounds[MAX_COLUMNS])))
    )
    copy = 16 * n_words * (n_rows + n_columns + (n_entries if edges else 0))
    each = worker_bytes(n_rows, n_columns, n_entries, n_words, edges=edges)
    return shared + copy + 8 * n_entries * edges + n_threads * each


class LocalCounting:
    """Adds the bicliques of one cell that contain each row, column and entry.

    Parameters
    ----------
    lists : Lists
        The whole graph; roots are rows.
    size_bounds : (4,) int64
        The cell.
    n_words : int
        Words of a number: enough for the number of all counted bicliques.
    memory_budget : int
        Limit for all threads together, with their shared data, in bytes.
    edges : bool
        True if entries are requested.

    Raises
    ------
    MemoryBudgetExceeded
        The sums do not fit the budget.
    """

    def __init__(
        self, lists: Lists, size_bounds: np.ndarray, n_words: int, n_threads: int, memory_budget: int, *, edges: bool
    ) -> None:
        self._lists = lists
        self._size_bounds = size_bounds
        self._n_threads = n_threads
        self._edges = edges
        self._needed = bytes_needed(lists, size_bounds, n_words, n_threads, edges=edges)
        if self._needed > memory_budget:
            raise self._lack(self._needed, memory_budget)
        self._budget = memory_budget
        self._share = (memory_budget - self._needed) // n_threads
        most_rows, most_columns = _most(lists)
        shared = (
            ways(most_rows, int(size_bounds[MAX_ROWS]), n_words),
            ways(most_columns, int(size_bounds[MAX_COLUMNS]), n_words),
            _entries_of_columns(lists) if edges else np.empty(0, np.int64),
        )
        n_rows, n_columns = lists.row_offsets.size - 1, lists.column_offsets.size - 1
        self._workers = [
            new_local_worker(n_rows, n_columns, *shared, self._share, edges=edges) for _ in range(n_threads)
        ]
        numbers = self._workers[0].vertices.size + self._workers[0].edges.size
        self._taking_seconds = TAKING_SECONDS + numbers / _NUMBERS_A_SECOND
        self._is_whole = [True] * n_threads
        self._last_taken = [time.perf_counter()] * n_threads

    def run(self, task_ranges: Sequence[TaskRange], deadline: float = math.inf) -> Generator[tuple[Sums | None, float]]:
        """Do all task ranges; yield new sums now and then, with the share of the work that is done.

        Parameters
        ----------
        deadline : float, optional
            As in `cpu.workers.Counting`; task ranges stopped by it are left out.
        """
        done = 0.0
        with closing(worked_off(task_ranges, self._n_threads, self._add, self._stop, deadline)) as found:
            for sums, done in found:
                yield sums, done
        for worker, is_whole in zip(self._workers, self._is_whole, strict=True):
            # A stopped worker has no results, but the caller learns before the end that the limit was reached.
            yield self._taken(worker) if is_whole else None, done

    @property
    def n_nodes(self) -> int:
        """Number of nodes visited so far."""
        return sum(int(worker.control[NODES]) for worker in self._workers)

    def _stop(self) -> None:
        for worker in self._workers:
            worker.control[STOP] = STOPPED

    def _add(self, k: int, task_range: TaskRange) -> Sums | None:
        """Add a task range to the sums of a worker; return these now and then."""
        worker = self._workers[k]
        add_roots(
            self._lists,
            worker,
            self._size_bounds,
            task_range.first,
            task_range.end,
            task_range.part,
            task_range.n_parts,
        )
        if worker.control[STOP] == LACKS_MEMORY:
            raise self._lack(
                self._needed + self._n_threads * (int(worker.control[BYTES_HELD]) + 1), self._budget, at_least=True
            )
        now = time.perf_counter()
        # The sums of a stopped worker are useless: vertices are open.
        if worker.control[STOP]:
            self._is_whole[k] = False
            return None
        if now - self._last_taken[k] < self._taking_seconds:
            return None
        self._last_taken[k] = now
        return self._taken(worker)

    def _taken(self, worker: LocalWorker) -> Sums:
        """Return the sums of a worker, and clear them."""
        n_rows, n_kinds = self._lists.row_offsets.size - 1, int(worker.control[N_KINDS])
        vertices = digits_of_words(worker.vertices[::n_kinds])
        edges = digits_of_words(worker.edges) if n_kinds == 2 else None
        sums = Sums(digits_of_words(worker.totals[:1]), vertices[:n_rows], vertices[n_rows:], edges)
        for numbers in (worker.totals, worker.vertices, worker.edges):
            numbers[:] = 0
        return sums

    def _lack(self, needed: int, budget: int, *, at_least: bool = False) -> MemoryBudgetExceeded:
        what = "vertex and edge" if self._edges else "vertex"
        return MemoryBudgetExceeded(
            f"counting for every {what} takes {'more than ' if at_least else ''}{needed:,} bytes with "
            f"{self._n_threads} threads, beside the tables, and memory_budget_bytes leaves {budget:,}: raise it, or "
            "use fewer threads",
        )


def _most(lists: Lists) -> tuple[int, int]:
    """Most rows of a column, and most columns of a row."""
    of_column, of_row = np.diff(lists.column_offsets), np.diff(lists.row_offsets)
    return int(of_column.max(initial=0)), int(of_row.max(initial=0))


def _entries_of_columns(lists: Lists) -> np.ndarray:
    """Return the entry of the rows for each entry of the columns; rows of a column ascend."""
    return np.argsort(lists.columns, kind="stable")

"""Threads that count task ranges, each with its own table of leaves."""

from __future__ import annotations

import math
import queue
import time
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from mbe_stage.errors import MemoryBudgetExceeded
from mbe_stage.pq_counts.cpu.layout import (
    BYTES_HELD,
    LACKS_MEMORY,
    MEMORY_BUDGET,
    NODES,
    STOP,
    STOPPED,
    TABLE_USED,
    LeafTable,
    Lists,
    Worker,
    new_worker,
)
from mbe_stage.pq_counts.cpu.leaves import put_back
from mbe_stage.pq_counts.cpu.tree import count_roots

TAKING_SECONDS = 0.5
"""Interval in which a worker delivers its counts, so that a search stopped by a time limit has most of them."""

_Found = TypeVar("_Found")

_FIRST_CAPACITY = 1 << 14
_ROW_BYTES = 12
_POLL_SECONDS = 0.1
_NONE = [np.empty(0, np.int64)] * 5
_HALF = np.uint64(32)
_LOW = np.uint64((1 << 32) - 1)


@dataclass(frozen=True, slots=True)
class TaskRange:
    """A range of roots, or a part of the children of one root.

    Attributes
    ----------
    cost : float
        Expected work, in no unit.
    """

    first: int
    end: int
    part: int
    n_parts: int
    cost: float


def worked_off(
    task_ranges: Sequence[TaskRange],
    n_threads: int,
    work: Callable[[int, TaskRange], _Found | None],
    stop: Callable[[], None],
    deadline: float = math.inf,
) -> Generator[tuple[_Found | None, float]]:
    """Process all task ranges in threads; yield results from time to time, with the share of finished work.

    Parameters
    ----------
    work : callable
        Takes a worker's number, which only one thread uses at a time, and a task range; its result is yielded.
    stop : callable
        Called once at the end, in any thread, also if an exception or the caller ends the work early; it must stop the
        running task ranges.
    deadline : float, optional
        Time by `time.perf_counter` when the running task ranges are stopped and their results yielded.
    """
    todo, ready = deque(task_ranges), queue.SimpleQueue[_Found | None]()
    total, done = max(1e-9, sum(task_range.cost for task_range in task_ranges)), [0.0] * n_threads
    is_stopped = False

    def end() -> None:
        nonlocal is_stopped
        is_stopped = True
        todo.clear()
        stop()

    def work_off(k: int) -> None:
        try:
            while (task_range := _first(todo)) is not None:
                found = work(k, task_range)
                done[k] += 0.0 if is_stopped else task_range.cost
                if found is not None:
                    ready.put(found)
        except BaseException:
            end()
            raise
        finally:
            ready.put(None)

    # One call per thread, and no message per task range: the consumer gets a core only when no worker needs it.
    with ThreadPoolExecutor(n_threads, thread_name_prefix="pq-counts") as pool:
        try:
            working = [pool.submit(work_off, k) for k in range(n_threads)]
            n_working = n_threads
            while n_working:
                left = deadline - time.perf_counter()
                if left <= 0 and not is_stopped:
                    end()
                try:
                    found = ready.get(timeout=_POLL_SECONDS if is_stopped else min(_POLL_SECONDS, left))
                    n_working -= found is None
                except queue.Empty:
                    found = None
                # After the deadline the consumer may stop at any item, so only results are yielded.
                if found is not None or time.perf_counter() < deadline:
                    yield found, 1.0 if n_working == 0 and not is_stopped else min(1.0, sum(done) / total)
            for worker in working:
                worker.result()
        finally:
            end()


def _first(todo: deque[TaskRange]) -> TaskRange | None:
    """Take the next task range, or None; thread-safe."""
    try:
        return todo.popleft()
    except IndexError:
        return None


class Counting:
    """Counts the leaves below all roots of task ranges.

    Parameters
    ----------
    lists : Lists
        The whole graph; its rows are the roots.
    size_bounds : (4,) int64
        Wanted sizes, in the fields of `cpu.layout`.
    memory_budget : int
        Bytes for all threads together.
    first_capacity : int
        Initial capacity of a table of leaves, a power of two; it grows as needed.
    """

    def __init__(
        self,
        lists: Lists,
        size_bounds: np.ndarray,
        n_threads: int,
        memory_budget: int,
        first_capacity: int = _FIRST_CAPACITY,
    ) -> None:
        self._lists = lists
        self._size_bounds = size_bounds
        self._n_threads = n_threads
        self._share = memory_budget // n_threads
        self._n_rows = lists.row_offsets.size - 1
        self._is_stopped = False
        self._last_taken = [time.perf_counter()] * n_threads
        self._workers = [self._new_worker(first_capacity) for _ in range(n_threads)]
        # Leaves of each worker before its task range, in preallocated memory.
        self._before = [_copied(worker.table) for worker in self._workers]

    def run(
        self, task_ranges: Sequence[TaskRange], deadline: float = math.inf
    ) -> Iterator[tuple[list[np.ndarray], float]]:
        """Count all task ranges; yield new counts from time to time, with the share of finished work.

        Parameters
        ----------
        deadline : float, optional
            Time by `time.perf_counter` when all workers stop and their counts so far are yielded.

        Yields
        ------
        leaves : list of five int64 arrays
            Held and optional rows, held and optional columns, times; empty if there are no new counts.
        """
        done = 0.0
        with closing(worked_off(task_ranges, self._n_threads, self._count, self._stop, deadline)) as found:
            for leaves, done in found:
                yield leaves or _NONE, done
        for worker in self._workers:
            yield _taken(worker), done

    def _stop(self) -> None:
        """Make all workers return soon."""
        self._is_stopped = True
        for worker in self._workers:
            worker.control[STOP] = STOPPED

    @property
    def n_nodes(self) -> int:
        """Number of nodes visited so far."""
        return sum(int(worker.control[NODES]) for worker in self._workers)

    def _count(self, k: int, task_range: TaskRange) -> list[np.ndarray] | None:
        """Count a task range with worker `k`; return its counts if they are due."""
        while True:
            worker = self._workers[k]
            for array, before in zip(worker.table, self._before[k], strict=True):
                np.copyto(before, array)
            count_roots(
                self._lists,
                worker,
                self._size_bounds,
                task_range.first,
                task_range.end,
                task_range.part,
                task_range.n_parts,
            )
            reason = int(worker.control[STOP])
            if reason in (0, STOPPED):
                break
            if reason == LACKS_MEMORY:
                raise self._lack(int(worker.control[MEMORY_BUDGET]))
            # The full table has a part of this task range, which restarts from the leaves before it.
            self._replace(k, self._before[k])
        now = time.perf_counter()
        if now - self._last_taken[k] < TAKING_SECONDS:
            return None
        self._last_taken[k] = now
        return _taken(worker)

    def _replace(self, k: int, table: LeafTable) -> None:
        """Give a worker these leaves, in a table of four times the capacity."""
        capacity = 4 * table.times.size
        control = self._workers[k].control
        held = int(control[BYTES_HELD]) + _table_bytes(capacity) - _table_bytes(table.times.size)
        if held > control[MEMORY_BUDGET]:
            raise self._lack(held)
        larger = self._new_worker(capacity)
        taken = table.times > 0
        put_back(larger, table.rows[taken], table.columns[taken], table.times[taken])
        larger.control[NODES] = control[NODES]
        self._workers[k], self._before[k] = larger, _copied(larger.table)
        if self._is_stopped:
            larger.control[STOP] = STOPPED

    def _new_worker(self, capacity: int) -> Worker:
        worker = new_worker(self._n_rows, capacity, self._share)
        worker.control[BYTES_HELD] = _ROW_BYTES * self._n_rows + _table_bytes(capacity)
        if worker.control[BYTES_HELD] > self._share:
            raise self._lack(int(worker.control[BYTES_HELD]))
        return worker

    def _lack(self, needed: int) -> MemoryBudgetExceeded:
        n = self._n_threads
        return MemoryBudgetExceeded(
            f"counting takes more than {needed:,} bytes of working memory a thread, and memory_budget_bytes has "
            f"{self._share:,} for each of {n}: raise it, or use fewer threads"
        )


def _copied(table: LeafTable) -> LeafTable:
    return LeafTable(*(array.copy() for array in table))


def _table_bytes(capacity: int) -> int:
    # The table, and its copy from before the task range.
    return 2 * 24 * capacity


def _taken(worker: Worker) -> list[np.ndarray]:
    """Return the leaves of a worker's table, and clear the table."""
    table = worker.table
    known = np.flatnonzero(table.times)
    rows, columns, times = table.rows[known], table.columns[known], table.times[known]
    table.times[:] = 0
    worker.control[TABLE_USED] = 0
    return [*((half.astype(np.int64)) for word in (rows, columns) for half in (word >> _HALF, word & _LOW)), times]

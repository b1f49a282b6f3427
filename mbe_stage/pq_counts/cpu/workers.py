"""Threads that count pieces of the work, each with a table of leaves of its own."""

from __future__ import annotations

import math
import queue
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from dataclasses import dataclass

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

__all__ = ["Counting", "Piece"]

_FIRST_CAPACITY = 1 << 14
_ROW_BYTES = 12
_POLL_SECONDS = 0.1
# A search that a time limit ends has counted what was handed over by then.
_TAKING_SECONDS = 0.5
_NONE = [np.empty(0, np.int64)] * 5
_HALF = np.uint64(32)
_LOW = np.uint64((1 << 32) - 1)


@dataclass(frozen=True, slots=True)
class Piece:
    """Some of the work: a range of roots, or a part of the children of one.

    Attributes
    ----------
    first, end : int
    part, n_parts : int
    cost : float
        Expected work, in no unit.
    """

    first: int
    end: int
    part: int
    n_parts: int
    cost: float


class Counting:
    """Counts the leaves below all roots of some pieces.

    Parameters
    ----------
    lists : Lists
        The whole graph; roots are rows.
    asked : (4,) int64
        Sizes, as `cpu.layout` numbers them.
    n_threads : int
    memory_budget : int
        Bytes for all threads together.
    first_capacity : int
        Of a table of leaves, which grows as needed; a power of two.
    """

    def __init__(
        self,
        lists: Lists,
        asked: np.ndarray,
        n_threads: int,
        memory_budget: int,
        first_capacity: int = _FIRST_CAPACITY,
    ) -> None:
        self._lists = lists
        self._asked = asked
        self._n_threads = n_threads
        self._share = memory_budget // n_threads
        self._n_rows = lists.row_offsets.size - 1
        self._is_stopped = False
        self._last_taken = [time.perf_counter()] * n_threads
        self._workers = [self._new_worker(first_capacity) for _ in range(n_threads)]

    def run(self, pieces: Sequence[Piece], deadline: float = math.inf) -> Iterator[tuple[list[np.ndarray], float]]:
        """Work all pieces off; yields now and then what was newly counted, and the share of the work that is done.

        Parameters
        ----------
        pieces : sequence of Piece
        deadline : float, optional
            In the time of `time.perf_counter`: then all workers stop where they are, and what they have counted by then
            is yielded.

        Yields
        ------
        leaves : list of five int64 arrays
            Held and optional rows, held and optional columns, times; empty ones where nothing new is to be told.
        work_done : float
        """
        free: queue.SimpleQueue[int] = queue.SimpleQueue()
        for k in range(len(self._workers)):
            free.put(k)
        total, done = max(1e-9, sum(piece.cost for piece in pieces)), 0.0
        with ThreadPoolExecutor(len(self._workers), thread_name_prefix="pq-counts") as pool:
            try:
                waiting = {pool.submit(self._count, free, piece) for piece in pieces}
                while waiting and (left := deadline - time.perf_counter()) > 0:
                    ended, waiting = wait(waiting, min(_POLL_SECONDS, left), FIRST_COMPLETED)
                    for cost, leaves in (future.result() for future in ended):
                        done += cost
                        yield leaves, done / total
                    if not ended and time.perf_counter() < deadline:
                        yield _NONE, done / total
                self._stop()
                for future in waiting:
                    if not future.cancel():
                        yield future.result()[1], done / total
            finally:
                self._stop()
                pool.shutdown(wait=False, cancel_futures=True)
        for worker in self._workers:
            yield _taken(worker), done / total

    def _stop(self) -> None:
        """Have all workers return from where they are."""
        self._is_stopped = True
        for worker in self._workers:
            worker.control[STOP] = STOPPED

    @property
    def n_nodes(self) -> int:
        """Nodes that were visited so far."""
        return sum(int(worker.control[NODES]) for worker in self._workers)

    def _count(self, free: queue.SimpleQueue[int], piece: Piece) -> tuple[float, list[np.ndarray]]:
        """Count a piece with a worker that is free; returns its cost, and now and then what was counted."""
        k = free.get()
        try:
            while True:
                worker = self._workers[k]
                before = LeafTable(*(array.copy() for array in worker.table))
                count_roots(self._lists, worker, self._asked, piece.first, piece.end, piece.part, piece.n_parts)
                reason = int(worker.control[STOP])
                if reason in (0, STOPPED):
                    break
                if reason == LACKS_MEMORY:
                    raise self._lack(int(worker.control[MEMORY_BUDGET]))
                # What the piece has counted so far is in the full table; the piece begins anew on what was before.
                self._replace(k, before)
            now = time.perf_counter()
            if now - self._last_taken[k] < _TAKING_SECONDS:
                return piece.cost, _NONE
            self._last_taken[k] = now
            return piece.cost, _taken(worker)
        finally:
            free.put(k)

    def _replace(self, k: int, table: LeafTable) -> None:
        """Give a worker these leaves, and room for four times as many kinds."""
        capacity = 4 * table.times.size
        control = self._workers[k].control
        held = int(control[BYTES_HELD]) + _table_bytes(capacity) - _table_bytes(table.times.size)
        if held > control[MEMORY_BUDGET]:
            raise self._lack(held)
        larger = self._new_worker(capacity)
        taken = table.times > 0
        put_back(larger, table.rows[taken], table.columns[taken], table.times[taken])
        larger.control[NODES] = control[NODES]
        self._workers[k] = larger
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


def _table_bytes(capacity: int) -> int:
    # The table, and its copy from before a piece.
    return 2 * 24 * capacity


def _taken(worker: Worker) -> list[np.ndarray]:
    """The leaves of a worker's table, which is empty then."""
    table = worker.table
    known = np.flatnonzero(table.times)
    rows, columns, times = table.rows[known], table.columns[known], table.times[known]
    table.times[:] = 0
    worker.control[TABLE_USED] = 0
    return [*((half.astype(np.int64)) for word in (rows, columns) for half in (word >> _HALF, word & _LOW)), times]

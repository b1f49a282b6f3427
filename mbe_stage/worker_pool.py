"""The threads that walk the tree share the work, split pieces of it when one is idle, and hand full blocks over."""

from __future__ import annotations

import queue
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

__all__ = ["Piece", "WorkerPool"]

_POLL_SECONDS = 0.05


@dataclass(slots=True)
class Piece:
    """A range of roots, or a state that carries a split-off piece of the tree.

    Attributes
    ----------
    cost : float
        Its share of the whole work, in the unit of the plan's costs.
    first, end : int
        The range, where `state` is None.
    state : optional
        A worker's, as its problem has it.
    """

    cost: float
    first: int = 0
    end: int = 0
    state: Any = None


class WorkerPool:
    """What the workers (one a thread) share: pieces of the work, the memory budget, the way to the consumer.

    Parameters
    ----------
    pieces : list of Piece
        In the order they are to be started.
    n_workers : int
    budget_bytes : int
    """

    def __init__(self, pieces: list[Piece], n_workers: int, budget_bytes: int) -> None:
        self._changed = threading.Condition()
        self._pieces = deque(pieces)
        self._n_workers = n_workers
        self._n_idle = 0
        self._bytes = 0
        self._budget_bytes = budget_bytes
        self._total_cost = max(1e-9, sum(piece.cost for piece in pieces))
        self._finished_cost = 0.0
        self._blocks: queue.Queue[Iterable[Any] | BaseException | None] = queue.Queue(maxsize=n_workers + 1)
        self.stopped = False

    def run(self, works: Sequence[Callable[[], None]], name: str) -> Iterator[Any]:
        """Start a thread for the work of each worker, and yield what they deliver; closing stops and joins them.

        The threads are called by that name, with a number.
        """
        threads = [
            threading.Thread(target=self._guarded, args=(work,), name=f"{name}-{k}", daemon=True)
            for k, work in enumerate(works)
        ]
        started: list[threading.Thread] = []
        try:
            for thread in threads:
                thread.start()
                started.append(thread)
            n_working = len(threads)
            while n_working:
                item = self._blocks.get()
                if item is None:
                    n_working -= 1
                elif isinstance(item, BaseException):
                    raise item
                else:
                    yield from item
        finally:
            self.stopped = True
            for thread in started:
                thread.join()

    def _guarded(self, work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as error:  # noqa: BLE001 - the consumer raises it
            self._put(error)
        else:
            self._put(None)

    def _put(self, item: Iterable[Any] | BaseException | None) -> None:
        # A consumer that is gone takes nothing any more: never wait for it without looking.
        while not self.stopped:
            try:
                self._blocks.put(item, timeout=_POLL_SECONDS)
            except queue.Full:
                continue
            return

    @property
    def work_done(self) -> float:
        """Share of the work that is finished."""
        return min(1.0, self._finished_cost / self._total_cost)

    @property
    def wants_work(self) -> bool:
        """Whether a worker is idle and no piece is waiting for it."""
        return self._n_idle > len(self._pieces)

    def next_piece(self) -> Piece | None:
        """The next piece; waits while other workers may still share theirs. None when all work is done or stopped."""
        with self._changed:
            self._n_idle += 1
            while not self._pieces and not self.stopped and self._n_idle < self._n_workers:
                self._changed.wait(timeout=_POLL_SECONDS)
            if self.stopped or not self._pieces:
                self._changed.notify_all()
                return None
            self._n_idle -= 1
            return self._pieces.popleft()

    def offer(self, piece: Piece) -> None:
        """Put a split-off piece up for whoever is idle."""
        with self._changed:
            self._pieces.append(piece)
            self._changed.notify()

    def finish(self, cost: float) -> None:
        """Book finished work."""
        with self._changed:
            self._finished_cost += cost

    def reserve(self, n_bytes: int) -> int:
        """Take working memory from the budget, give it back when negative.

        Returns
        -------
        int
            0, or, with nothing taken, how large the budget would have to be.
        """
        with self._changed:
            if n_bytes > 0 and self._bytes + n_bytes > self._budget_bytes:
                return self._bytes + n_bytes
            self._bytes += n_bytes
            return 0

    @property
    def consumer_waits(self) -> bool:
        """Whether nothing is ready for the consumer."""
        return self._blocks.empty()

    def deliver(self, blocks: Iterable[Any]) -> None:
        """Hand blocks to the consumer, whose thread makes those that are not made yet; waits while it has enough."""
        self._put(blocks)

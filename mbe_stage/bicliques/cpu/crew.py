"""The threads that walk the tree share tasks, split them when one of them is idle, and hand full blocks over."""

from __future__ import annotations

import queue
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from mbe_stage.bicliques.cpu.layout import Worker
from mbe_stage.results import BicliqueBlock

__all__ = ["Crew", "Task"]

_POLL_SECONDS = 0.05


@dataclass(slots=True)
class Task:
    """A range of rows of the whole graph, or a worker that carries a split-off piece of the tree.

    Attributes
    ----------
    cost : float
        Its share of the whole work, in the unit of the plan's costs.
    first_row, end_row : int
        The range, where `worker` is None.
    worker : Worker or None
    """

    cost: float
    first_row: int = 0
    end_row: int = 0
    worker: Worker | None = None


class Crew:
    """What the hands (one a thread) share: tasks, the memory budget, the way to the consumer.

    Parameters
    ----------
    tasks : list of Task
        In the order they are to be started.
    n_hands : int
    budget_bytes : int
    """

    def __init__(self, tasks: list[Task], n_hands: int, budget_bytes: int) -> None:
        self._changed = threading.Condition()
        self._tasks = deque(tasks)
        self._n_hands = n_hands
        self._n_idle = 0
        self._bytes = 0
        self._budget_bytes = budget_bytes
        self._total_cost = max(1e-9, sum(task.cost for task in tasks))
        self._finished_cost = 0.0
        self._blocks: queue.Queue[Iterable[BicliqueBlock] | BaseException | None] = queue.Queue(maxsize=n_hands + 1)
        self.stopped = False

    def run(self, works: Sequence[Callable[[], None]]) -> Iterator[BicliqueBlock]:
        """Start the hands, a thread for the work of each, and yield what they deliver; closing stops and joins them."""
        threads = [
            threading.Thread(target=self._guarded, args=(work,), name=f"bicliques-{k}", daemon=True)
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

    def _put(self, item: Iterable[BicliqueBlock] | BaseException | None) -> None:
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
        """Whether a hand is idle and no task is waiting for it."""
        return self._n_idle > len(self._tasks)

    def next_task(self) -> Task | None:
        """The next task; waits while other hands may still share theirs. None when all work is done or stopped."""
        with self._changed:
            self._n_idle += 1
            while not self._tasks and not self.stopped and self._n_idle < self._n_hands:
                self._changed.wait(timeout=_POLL_SECONDS)
            if self.stopped or not self._tasks:
                self._changed.notify_all()
                return None
            self._n_idle -= 1
            return self._tasks.popleft()

    def offer(self, task: Task) -> None:
        """Put a split-off task up for whoever is idle."""
        with self._changed:
            self._tasks.append(task)
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

    def deliver(self, blocks: Iterable[BicliqueBlock]) -> None:
        """Hand blocks to the consumer, whose thread makes those that are not made yet; waits while it has enough."""
        self._put(blocks)

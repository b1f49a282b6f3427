"""The pool of threads that walk the tree: they share the work, split it if a thread is idle, and deliver full blocks.

The consumer may request a barrier: a point where all begun roots are finished and their results delivered. The workers
finish their current roots (split ones together) and return the rest of their ranges. When all workers are idle, a
marker with the remaining ranges follows the blocks, and the work continues. Without requests there is no cost.
"""

from __future__ import annotations

import math
import platform
import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mbe_stage.options import Execution
from mbe_stage.tasks import split

_POLL_SECONDS = 0.05
# The search begins in the caller's thread for this long: starting threads takes longer than a small search.
_ALONE_SECONDS = 1e-3
# Actions of a worker before it waits at a barrier, and of the last worker to arrive.
_FLUSH, _MARK = "flush", "mark"


@dataclass(slots=True)
class Subproblem:
    """A range of roots, or a state with a part of the tree that was split off.

    Attributes
    ----------
    cost : float
        Its part of the whole work, in the unit of the plan's costs.
    first, end : int
        The range, if `state` is None.
    state : optional
        A worker's state, as defined by its problem.
    """

    cost: float
    first: int = 0
    end: int = 0
    state: Any = None


def subproblems_of(costs: np.ndarray, ranges: Sequence[tuple[int, int]], n: int) -> list[Subproblem]:
    """Cut ranges of roots into about `n` subproblems of similar cost, the last and heaviest first.

    Parameters
    ----------
    costs : (n_roots,) float64
        Cost of each root.
    ranges : sequence of (int, int)
        The ranges, ascending.
    """
    of_ranges = [float(costs[first:end].sum()) for first, end in ranges]
    total = max(1e-9, sum(of_ranges))
    subproblems = []
    for (first, end), cost in zip(ranges, of_ranges, strict=True):
        n_of_range = max(1, round(n * cost / total))
        subproblems += [(first + start, first + stop) for start, stop in split(costs[first:end], n_of_range)]
    return [Subproblem(cost=float(costs[first:end].sum()), first=first, end=end) for first, end in subproblems[::-1]]


class Barrier:
    """A consumer's request for a barrier, from any thread. The answer is a marker among the blocks.

    If the search ends before all workers arrive, there is no marker.

    Attributes
    ----------
    takes_open_work : bool
        True if the marker may have saved work in place of tasks (`mbe_stage.tasks.OpenWork`).
    """

    def __init__(self, *, takes_open_work: bool = False) -> None:
        self.takes_open_work = takes_open_work
        self._requested = threading.Event()

    @property
    def is_requested(self) -> bool:
        """True if a barrier is requested and not reached yet."""
        return self._requested.is_set()

    def ask(self) -> None:
        """Request a barrier."""
        self._requested.set()

    def reached(self) -> None:
        """Note that the barrier is reached; the next may be requested."""
        self._requested.clear()


class WorkerPool:
    """State shared by the workers (one per thread): subproblems, the memory budget, the queue to the consumer.

    Parameters
    ----------
    subproblems : list of Subproblem
        In the order of starting.
    marker : callable, optional
        Makes the marker for the consumer from the remaining ranges at a barrier (ascending, adjoining ones merged).
    """

    def __init__(
        self,
        subproblems: list[Subproblem],
        budget_bytes: int,
        barrier: Barrier | None = None,
        marker: Callable[[list[tuple[int, int]]], Any] = tuple,
    ) -> None:
        self._changed = threading.Condition()
        self._ranges = deque(subproblems)
        self._split_off: deque[Subproblem] = deque()
        self._barrier = Barrier() if barrier is None else barrier
        self._marker = marker
        # One worker until threads start.
        self._n_workers = 1
        self._n_idle = 0
        self._bytes = 0
        self._budget_bytes = budget_bytes
        self._total_cost = max(1e-9, sum(subproblem.cost for subproblem in subproblems))
        self._finished_cost = 0.0
        self._blocks: queue.Queue[Iterable[Any] | BaseException | None] = queue.Queue()
        self._is_over = False
        self._is_marking = False
        self.stopped = False

    def run(self, works: Sequence[Callable[[], Iterator[None]]], name: str) -> Iterator[Any]:
        """Yield the results of the workers; closing stops them.

        The first worker begins in this thread. If the search does not end within a millisecond, each worker gets a
        thread named `name` with a number, and closing joins the threads. A single worker gets one when it has results.
        """
        steps = [work() for work in works]
        threads: list[threading.Thread] = []
        if not self._ends_soon(steps[0], _ALONE_SECONDS if len(steps) > 1 else math.inf):
            self._n_workers, self._blocks.maxsize = len(steps), len(steps) + 1
            threads = [
                threading.Thread(target=self._guarded, args=(of_worker,), name=f"{name}-{k}", daemon=True)
                for k, of_worker in enumerate(steps)
            ]
        started: list[threading.Thread] = []
        try:
            for thread in threads:
                thread.start()
                started.append(thread)
            n_working = max(1, len(threads))
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

    def _ends_soon(self, steps: Iterator[None], seconds: float) -> bool:
        """Work in this thread for so long, or until there are results; True if the work is finished."""
        until = time.perf_counter() + seconds
        try:
            if not all(time.perf_counter() < until and self._blocks.empty() for _ in steps):
                return False
        except Exception as error:  # noqa: BLE001 - raised behind the results so far
            self._put(error)
        else:
            self._put(None)
        return True

    def _guarded(self, steps: Iterator[None]) -> None:
        try:
            for _ in steps:
                pass
        except BaseException as error:  # noqa: BLE001 - the consumer raises it
            self._put(error)
        else:
            self._put(None)

    def _put(self, item: Iterable[Any] | BaseException | None) -> None:
        # The consumer may be gone, so check before each wait.
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
    def wants_barrier(self) -> bool:
        """True if workers should finish their current roots and begin no others."""
        return self._barrier.is_requested or self._is_marking

    @property
    def wants_work(self) -> bool:
        """True if a worker is idle and no subproblem is waiting for it."""
        waiting = len(self._split_off) + (0 if self.wants_barrier else len(self._ranges))
        return self._n_idle > waiting

    def next_subproblem(self, flush: Callable[[], None]) -> Subproblem | None:
        """Return the next subproblem; wait for a split one if there is none. None if all work is done or stopped.

        Parameters
        ----------
        flush : callable
            Delivers the worker's results; called before it waits at a barrier.
        """
        has_flushed = False
        while True:
            with self._changed:
                subproblem, step = self._waited(has_flushed)
            if step == _FLUSH:
                flush()
                has_flushed = True
            elif step == _MARK:
                self._mark()
            else:
                return subproblem

    def _waited(self, has_flushed: bool) -> tuple[Subproblem | None, str]:
        """Return a subproblem, or None and the action before the next call; the caller holds the lock."""
        self._n_idle += 1
        while not self.stopped:
            step, subproblems = "", self._split_off or self._ranges
            if self.wants_barrier and not self._is_over:
                step, subproblems = "" if has_flushed else _FLUSH, self._split_off
                if not step and not subproblems and self._n_idle == self._n_workers:
                    step = _MARK
            if step or subproblems:
                self._n_idle -= 1
                return (None, step) if step else (subproblems.popleft(), "")
            if self._n_idle == self._n_workers:
                # Workers leave from here on, so no barrier can be reached any more.
                self._is_over = True
                break
            self._changed.wait(timeout=_POLL_SECONDS)
        self._changed.notify_all()
        return None, ""

    def _mark(self) -> None:
        """Deliver the marker. All other workers wait, so no later results precede it."""
        with self._changed:
            left = sorted((subproblem.first, subproblem.end) for subproblem in self._ranges)
            # Clear the request before the consumer sees this marker: a later request is for another barrier.
            self._is_marking = True
            self._barrier.reached()
        joined: list[tuple[int, int]] = []
        for first, end in left:
            if joined and joined[-1][1] == first:
                joined[-1] = (joined[-1][0], end)
            else:
                joined.append((first, end))
        self._put([self._marker(joined)])
        with self._changed:
            self._is_marking = False
            self._changed.notify_all()

    def offer(self, subproblem: Subproblem) -> None:
        """Add a subproblem: one that was split off for an idle worker, or a range for after the barrier."""
        with self._changed:
            if subproblem.state is None:
                self._ranges.appendleft(subproblem)
            else:
                self._split_off.append(subproblem)
            self._changed.notify()

    def finish(self, cost: float) -> None:
        """Add finished work to the progress."""
        with self._changed:
            self._finished_cost += cost

    def reserve(self, n_bytes: int) -> int:
        """Take working memory from the budget; a negative number returns it.

        Returns
        -------
        0, or the budget that would be needed; then nothing is taken.
        """
        with self._changed:
            if n_bytes > 0 and self._bytes + n_bytes > self._budget_bytes:
                return self._bytes + n_bytes
            self._bytes += n_bytes
            return 0

    @property
    def consumer_waits(self) -> bool:
        """True if no block is ready for the consumer."""
        return self._blocks.empty()

    def deliver(self, blocks: Iterable[Any]) -> None:
        """Pass blocks to the consumer, whose thread evaluates lazy ones; wait while the consumer has enough."""
        self._put(blocks)


def unavailable_reason() -> str | None:
    """Return None: Numba is a base dependency and compiles for every processor it installs on."""
    return None


def device(execution: Execution) -> str:
    """Return the processor's architecture and the number of threads."""
    n = execution.worker_count
    return f"cpu, {platform.machine()}, {n} thread{'' if n == 1 else 's'}"

"""One thread of a search: it walks subproblems in time quanta, and splits them if another thread is idle.

A state is a named tuple of arrays (arenas). Compiled code reports an arena that is too small, and the host enlarges it.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator
from typing import Any, NamedTuple

import numpy as np

from mbe_stage.errors import MemoryBudgetExceeded
from mbe_stage.search.cpu.pool import Subproblem, WorkerPool

# Status of a quantum. Larger numbers name the arena that is too small.
OK = 0
DONE = 1
QUANTUM_OVER = 2
OUTPUT_FULL = 3
_QUANTUM_SECONDS = 0.02
_FIRST_WORK_LIMIT = 1 << 16
_REPORT_SECONDS = 0.1


class Shortage(NamedTuple):
    """An arena that is too small.

    Attributes
    ----------
    arena : str
        The field of the state.
    n_needed : int
        Entries needed.
    """

    arena: str
    n_needed: int


def nbytes(state: Any) -> int:
    """Return the bytes of a state's arrays."""
    return sum(array.nbytes for array in state)


def growth_bytes(state: Any, short: Shortage) -> int:
    """Return the bytes that `grown` will add."""
    arena = getattr(state, short.arena)
    return (_grown_size(arena, short) - arena.shape[0]) * arena[:1].nbytes


def grown(state: Any, short: Shortage) -> Any:
    """Return the state with a larger arena."""
    arena = getattr(state, short.arena)
    larger = np.zeros((_grown_size(arena, short), *arena.shape[1:]), arena.dtype)
    larger[: arena.shape[0]] = arena
    return state._replace(**{short.arena: larger})


def _grown_size(arena: np.ndarray, short: Shortage) -> int:
    # Grow by at least half; otherwise a deep walk would grow entry by entry.
    return max(short.n_needed, arena.shape[0] + arena.shape[0] // 2)


def beyond_budget(n_bytes: int) -> MemoryBudgetExceeded:
    """Return the error of a search that needs this much working memory, more than its budget."""
    return MemoryBudgetExceeded(
        f"the CPU engine needs {n_bytes:,} bytes of working memory, more than its budget: raise the memory "
        f"budget to at least {2 * n_bytes:,} bytes, or use fewer threads or smaller blocks"
    )


class RangeFields(NamedTuple):
    """Fields of a frame that define a range of children: the first of the task, the next one, and one past the last."""

    first: int
    cursor: int
    end: int


def ranges_ahead(frames: np.ndarray, at: RangeFields) -> tuple[float, float]:
    """Return the share of a task that lies ahead, and of a child of the last frame, if siblings weigh the same.

    Parameters
    ----------
    frames : (n, n_fields) integers
        Frames of the task, the top one first.
    """
    ahead, weight = 0.0, 1.0
    for frame in frames:
        n_children = max(1, int(frame[at.end] - frame[at.first]))
        ahead += weight * float(frame[at.end] - frame[at.cursor]) / n_children
        weight /= n_children
    return ahead, weight


def range_given_back(frame: np.ndarray, at: RangeFields, share_left: float) -> tuple[int, int, float] | None:
    """Cut the range of a frame of roots after the current root, and return the rest.

    Parameters
    ----------
    frame : (n_fields,) integers
        Changed in place.
    share_left : float
        Share of the task that lies ahead, 0 to 1.

    Returns
    -------
    tuple or None
        First and end of the roots not begun, and their share of the work ahead, 0 to 1. None if there are none.
    """
    first, end = int(frame[at.cursor]), int(frame[at.end])
    if first >= end:
        return None
    share = (end - first) / max(1, end - int(frame[at.first])) / share_left
    frame[at.end] = first
    return first, end, min(1.0, share)


class QuantumWorker(ABC):
    """Takes subproblems from its pool until there are none, and delivers the results.

    A state has the arrays of one subproblem. Compiled code continues from it; the host makes, grows and splits it.
    """

    def __init__(self, pool: WorkerPool) -> None:
        self._pool = pool
        self._last_report = time.perf_counter()
        self._work_limit = _FIRST_WORK_LIMIT

    @abstractmethod
    def _new_state(self) -> Any:
        """Return a state without a subproblem."""

    @abstractmethod
    def _set_subproblem(self, state: Any, first: int, end: int) -> None:
        """Give a state a range of roots."""

    @abstractmethod
    def _run_quantum(self, state: Any, work_limit: int) -> int:
        """Continue a state's subproblem for a quantum; return its status."""

    @abstractmethod
    def _share_left(self, state: Any) -> float:
        """Return the share of a state's subproblem that lies ahead, 0 to 1."""

    @abstractmethod
    def _split(self, state: Any, reserve: Callable[[int], int]) -> Any:
        """Split off half of the work ahead as a new state; None if it cannot be split, or exceeds the budget."""

    def _give_back(self, state: Any) -> tuple[int, int, float] | None:  # noqa: ARG002 - the seam's signature
        """Remove the roots that have not begun from a state's subproblem.

        Returns
        -------
        tuple or None
            Their range, and their share of the work ahead. None if there are none, or they cannot be removed; then a
            barrier waits for the whole subproblem.
        """
        return None

    @abstractmethod
    def _short_of(self, state: Any, status: int) -> Shortage:
        """Return the arena of a state that is too small, by the status of a quantum."""

    @abstractmethod
    def _make_room(self) -> None:
        """Empty a full output, or enlarge it."""

    @abstractmethod
    def _flush(self) -> None:
        """Deliver the results so far."""

    def work(self) -> Generator[None]:
        """Work until the pool has no more subproblems, quantum by quantum."""
        own: Any = None
        while (subproblem := self._pool.next_subproblem(self._flush)) is not None:
            if subproblem.state is not None:
                state = yield from self._walk(subproblem.state, subproblem.cost)
                self._reserve(-nbytes(state))
                continue
            if own is None:
                own = self._new_state()
                self._reserve(nbytes(own))
            self._set_subproblem(own, subproblem.first, subproblem.end)
            own = yield from self._walk(own, subproblem.cost)
        self._flush()

    def _walk(self, state: Any, cost: float) -> Generator[None, None, Any]:
        """Walk a subproblem, quantum by quantum; return the state, whose arenas may have grown."""
        ahead = self._share_left(state)
        while not self._pool.stopped:
            if self._pool.wants_barrier:
                cost -= self._returned(state, cost)
                ahead = self._share_left(state)
            began = time.perf_counter()
            status = self._run_quantum(state, self._work_limit)
            if status == OUTPUT_FULL:
                self._make_room()
            elif status == DONE:
                self._pool.finish(cost)
                self._report()
                yield
                break
            elif status == QUANTUM_OVER:
                self._adapt(time.perf_counter() - began)
                still_ahead = min(ahead, self._share_left(state))
                finished = cost * (1.0 - still_ahead / ahead) if ahead > 0 else 0.0
                self._pool.finish(finished)
                cost -= finished
                if self._pool.wants_work and self._share(state, cost / 2):
                    cost /= 2
                    still_ahead = self._share_left(state)
                ahead = still_ahead
                self._report()
            else:
                short = self._short_of(state, status)
                self._reserve(growth_bytes(state, short))
                state = grown(state, short)
            yield
        return state

    def _returned(self, state: Any, cost: float) -> float:
        """Return the rest of a range to the pool; return its part of the subproblem's cost."""
        rest = self._give_back(state)
        if rest is None:
            return 0.0
        first, end, share = rest
        self._pool.offer(Subproblem(cost=cost * share, first=first, end=end))
        return cost * share

    def _share(self, state: Any, cost: float) -> bool:
        """Split the subproblem and offer one half; False if it cannot be split, or exceeds the budget."""
        receiver = self._split(state, self._pool.reserve)
        if receiver is None:
            return False
        self._pool.offer(Subproblem(cost=cost, state=receiver))
        return True

    def _adapt(self, seconds: float) -> None:
        """Keep quanta short enough for sharing, progress and Ctrl-C, and long enough to amortise the call."""
        if seconds < _QUANTUM_SECONDS / 2:
            self._work_limit *= 2
        elif seconds > _QUANTUM_SECONDS * 2:
            self._work_limit = max(_FIRST_WORK_LIMIT, self._work_limit // 2)

    def _report(self) -> None:
        """Report progress to the consumer at intervals."""
        now = time.perf_counter()
        if now - self._last_report >= _REPORT_SECONDS:
            self._last_report = now
            self._flush()

    def _reserve(self, n_bytes: int) -> None:
        needed = self._pool.reserve(n_bytes)
        if needed:
            raise beyond_budget(needed)

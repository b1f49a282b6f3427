"""Limits of a search, its checkpoints, and reasons to end it early."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

from mbe_stage.errors import STOPPED_BY_MEMORY, MemoryBudgetExceeded
from mbe_stage.problem import Problem
from mbe_stage.search.cpu.pool import Barrier

# The next checkpoint comes after this multiple of the last one's duration, and after this share of the time so far. So
# checkpoints stay few and cheap, however long a search is.
_TIMES_ITS_COST = 50.0
_SHARE_OF_TIME = 0.05
# Shares of a limit at which a checkpoint is due, because a resumed run repeats the work after the last checkpoint. They
# are early, because the limit may be reached before the roots in progress are finished.
_SHARES_OF_RESULTS = (0.25, 0.5, 0.75, 0.9)
_SHARE_OF_TIME_LIMIT = 0.9
# At a limit, except that of results, the search awaits a last barrier: a share of the time so far, and bounds in
# seconds.
_WAITED_SHARE, _LEAST_WAITED, _MOST_WAITED = 0.05, 0.25, 10.0


@dataclass(frozen=True, slots=True)
class RunLimits:
    """Limits of a search, and its checkpoints.

    Attributes
    ----------
    checkpoint_seconds : float or None
        Seconds between calls of the sink's `checkpoint`, or 5 % of the time so far if that is more. Another checkpoint
        comes shortly before a limit. An engine that takes no barrier (`mbe_stage.engines`) has no checkpoints.
    n_before : int
        Results of earlier searches of the same work; they count towards the limit on results.
    ended : callable
        Called after every block; returns a reason to end the search, or None.
    share : callable
        Called after every block; returns the share of the `ended` condition that is used up, 0 at first.
    patience : callable
        Called when the search should end, also at a limit. Returns the seconds to wait for a last checkpoint, or None
        for a share of the time so far.
    memory_is_a_limit : bool
        True if a search that runs out of memory after its first result ends there, truncated, without an error.
    """

    checkpoint_seconds: float | None = None
    n_before: int = 0
    ended: Callable[[], str | None] = lambda: None
    share: Callable[[], float] = lambda: 0.0
    patience: Callable[[], float | None] = lambda: None
    memory_is_a_limit: bool = False


@dataclass(slots=True)
class LimitWatch:
    """Watches the limits that end a search early: results, time, or a condition of the caller."""

    problem: Problem
    run_limits: RunLimits
    of_results: int | None
    of_time: float | None
    stated_seconds: float | None = None
    ending: str | None = None
    of_memory: str | None = None
    has_found: bool = False

    def until_memory_ends(self, blocks: Iterable[Any]) -> Iterator[Any]:
        """Yield the blocks. If memory runs out after the first result and that is a limit, end instead of raising.

        Closing this generator leaves `blocks` open: the caller closes them after it has stopped the sampler.
        """
        later = iter(blocks)
        try:
            # Keep no reference: the block may be device memory that the next one needs.
            while taken := list(islice(later, 1)):
                yield taken.pop()
        except MemoryBudgetExceeded as refusal:
            if not (self.run_limits.memory_is_a_limit and self.has_found):
                raise
            # Keep the text, not the error: its traceback would keep the engine's memory.
            self.of_memory = f"{STOPPED_BY_MEMORY}: {refusal}"

    def within(self, block: Any, n_found: int) -> tuple[Any, str | None]:
        """Return the part of a block within the limit, after `n_found` results, and the reason if it was cut."""
        n_found += self.run_limits.n_before
        self.has_found = self.has_found or n_found + len(block) > 0
        if self.of_results is None or n_found + len(block) <= self.of_results:
            return block, None
        return block.first(self.of_results - n_found), f"stopped at {self.problem.limit} = {self.of_results}"

    def n_shares(self, n_found: int, seconds: float) -> int:
        """Return the number of shares of the limits used up; each one triggers a checkpoint."""
        n_left = 0 if self.of_results is None else self.of_results - self.run_limits.n_before
        of_results = sum(n_found >= share * n_left for share in _SHARES_OF_RESULTS) if n_left > 0 else 0
        used = self.run_limits.share()
        of_caller = sum(used >= share for share in _SHARES_OF_RESULTS)
        return of_results + of_caller + (self.of_time is not None and seconds >= _SHARE_OF_TIME_LIMIT * self.of_time)

    def reached(self, seconds: float) -> str | None:
        """Return the reason to end the search after so many seconds, or None. A reason, once given, stays."""
        if self.ending is None and self.of_time is not None and seconds > self.of_time:
            self.ending = f"stopped at time_limit_seconds = {self.stated_seconds or self.of_time:g}"
        if self.ending is None:
            self.ending = self.run_limits.ended()
        return self.ending


class Checkpoints:
    """Requests barriers when checkpoints are due, and calls the sink at each barrier."""

    def __init__(self, sink: Any, seconds: float | None) -> None:
        self._checkpoint = getattr(sink, "checkpoint", None)
        self._seconds = math.inf if seconds is None or self._checkpoint is None else seconds
        self._due = self._seconds
        self._barrier: Barrier | None = None
        self._n_shares = self._n_come = 0
        self._ends_itself = self._is_requested = self._is_at_barrier = False
        self._waits_until: float | None = None

    def barrier_for(self, engine: Any) -> Barrier | None:
        """Return the barrier for an engine; None without checkpoints, or if the engine takes no barrier."""
        can_be_asked = getattr(engine, "TAKES_BARRIER", False)
        self._barrier = Barrier(takes_open_work=True) if can_be_asked and self._seconds < math.inf else None
        self._ends_itself = getattr(engine, "ENDS_ITSELF", False)
        return self._barrier

    @property
    def none_has_come(self) -> bool:
        """True if checkpoints were possible, but none was made."""
        return self._barrier is not None and self._n_come == 0

    def note(self, block: Any, seconds: float, n_shares: Callable[[], int]) -> None:
        """Note a block that the sink took in, `seconds` after the search began."""
        if self._barrier is None:
            return
        remaining = getattr(block, "remaining", None)
        self._is_at_barrier = remaining is not None
        if remaining is not None:
            self._is_requested = False
            begun = time.perf_counter()
            assert self._checkpoint is not None
            self._checkpoint(remaining, block.work_done)
            self._n_come += 1
            took = time.perf_counter() - begun + sum(getattr(each, "seconds", 0.0) for each in remaining)
            self._due = seconds + max(self._seconds, _TIMES_ITS_COST * took, _SHARE_OF_TIME * seconds)
        elif (n_now := n_shares()) > self._n_shares or seconds >= self._due:
            self._n_shares = n_now
            self._ask()

    def last_is_awaited(self, seconds: float, patience: float | None) -> bool:
        """True if the search should continue briefly to end at a barrier; `seconds` is the time since it began."""
        if self._barrier is None or self._ends_itself or self._is_at_barrier:
            return False
        if self._waits_until is None:
            usual = min(_MOST_WAITED, max(_LEAST_WAITED, _WAITED_SHARE * seconds))
            self._waits_until = seconds + (usual if patience is None else patience)
            self._ask()
        return self._is_requested and seconds < self._waits_until

    def _ask(self) -> None:
        assert self._barrier is not None
        self._due, self._is_requested = math.inf, True
        self._barrier.ask()


def ending(limits: LimitWatch, checkpoints: Checkpoints, seconds: float) -> str | None:
    """Return the reason to end the search now; None if it continues, even if only to a last barrier."""
    reason = limits.reached(seconds)
    if reason is None or checkpoints.last_is_awaited(seconds, limits.run_limits.patience()):
        return None
    return reason


@dataclass(frozen=True, slots=True)
class EmptyBlock:
    """A block without results (`mbe_stage.stream.Block`), of any problem.

    Attributes
    ----------
    work_done : float
        Share of the whole work that is finished.
    """

    work_done: float = 0.0

    def __len__(self) -> int:
        return 0

    def first(self, n: int) -> EmptyBlock:  # noqa: ARG002 - the seam's signature
        """Return the block itself: it has no results."""
        return self

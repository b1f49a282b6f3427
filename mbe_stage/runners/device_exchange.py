"""State shared by the threads of several devices: idle devices, transferred work and results.

Roots are dealt to all devices, the heaviest first. An idle device interrupts the device with the most remaining work,
which then hands over a share. A *round* ends when all devices are idle.

An *epoch* ends when every device has saved its work between two quanta. Meanwhile no work changes hands. Later results
of a device that has saved already belong to the next epoch. If a search cannot save, or has too much to save, devices
begin no more roots, and the epoch ends with the round: then the results below each root are complete or absent.

Only complete epochs are delivered. If a device is lost, all devices drop the current epoch and start it again without
that device, from the same saved work or roots. So no result is lost or delivered twice. This module knows neither
devices nor problems.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import partial
from typing import Any, Protocol

import numpy as np

from mbe_stage.errors import DeviceLost
from mbe_stage.search.cpu.pool import Barrier

log = logging.getLogger(__name__)

# Poll interval of waiting threads.
_LOOK_SECONDS = 0.005
# Wait before a device without an answer is asked again; rest of a device that gave work, and of one that had none.
_AGAIN_SECONDS = 0.05
_REST_SECONDS = 0.01
_LONG_REST_SECONDS = 0.05
# Shortest epoch in multiples of the time that ending one takes, even if it exceeds the budget for held results.
_TIMES_ITS_END = 50.0
_PROGRESS_SECONDS = 0.1
# The same for the time that saving takes.
_TIMES_SAVING = 10.0


class DeviceSearch(Protocol):
    """One device's part of a search. One thread calls it, except `stop_soon` and methods that need no device.

    Attributes
    ----------
    rows : (n,) integers
        All roots to search, the heaviest first; the same on each device.
    is_done : bool
        True if this device has no work left.
    capacity : object
        Its capacity for more work once it is done.
    can_save : bool
        True if `save` works for this search.
    works : sequence
        Saved work, made by `save`, that the search begins with; `rows` includes its roots.
    """

    rows: np.ndarray
    is_done: bool
    can_save: bool
    works: Sequence[Any]

    @property
    def capacity(self) -> Any:
        """Capacity for more work once `is_done`."""

    def begin(self, rows: np.ndarray, works: Sequence[Any]) -> None:
        """Drop the current work, and begin with these roots and saved works."""

    def save(self) -> Any:
        """Return a copy of all work on this device, on the host; None if it is too large."""

    def rows_in(self, works: Sequence[Any]) -> np.ndarray:
        """Return the roots in saved works that have not begun. Needs no device."""

    def work(self, block_bytes: int) -> Iterator[list[Any]]:
        """Search for a quantum and yield its blocks in parts; the search is paused when the first part arrives."""

    def stop_soon(self) -> None:
        """Make `work` end soon; callable from any thread."""

    def hold(self) -> np.ndarray:
        """Remove and return the roots that have not begun."""

    def split(self, capacities: Sequence[Any]) -> list[Any]:
        """Take a share of the remaining work for each of the other devices; each has the attribute `n_items`."""

    def take_in(self, transfer: Any) -> None:
        """Begin with work from another device, when this one has none left."""

    def progress(self) -> Any:
        """Return the progress; its attribute `ahead` is the remaining work, comparable between devices."""

    def share(self, remaining: np.ndarray, progresses: Sequence[Any]) -> float:
        """Return the share of all work done, if these rows remained at the start. Needs no device."""

    def in_order(self, rows: np.ndarray) -> np.ndarray:
        """Return the roots, the heaviest first. Needs no device."""

    def begun_all_the_same(self, rows: np.ndarray) -> np.ndarray:
        """Mark the roots to finish before a barrier, (n,) bool. Needs no device."""

    def empty(
        self, share: float, remaining: np.ndarray | None = None, works: Sequence[Any] = (), seconds: float = 0.0
    ) -> Any:
        """Return an empty block that reports progress, or marks a barrier with the remaining roots or saved works.

        Saving the works took `seconds`. Needs no device.
        """

    def brought_here(self, block: Any) -> Any:
        """Return a block of any device in the memory of the current device."""


@dataclass(frozen=True, slots=True)
class Terms:
    """Conditions for delivering results.

    Attributes
    ----------
    most_bytes : int
        Bytes of results that may be held back; as many again may wait for the consumer.
    epoch_seconds : float
        Shortest duration of an epoch.
    holds : bool
        True if results are held back. Otherwise a lost device ends the search.
    remedy : str
        Advice for the user if a device is lost after part of its work was delivered.
    """

    most_bytes: int
    epoch_seconds: float
    holds: bool
    remedy: str


@dataclass(slots=True)
class _Member:
    """A device, as seen by the others.

    Attributes
    ----------
    facts : DeviceFacts
        Statistics of the device; this module counts them.
    rows : array or None
        Roots that the device should begin this round with; None once it has begun.
    works : list
        Saved works to begin with.
    is_saved : bool
        True if `saved` holds its work at the end of the epoch; `saved` is None if there was no work.
    """

    search: DeviceSearch
    name: str
    facts: Any
    rows: np.ndarray | None = None
    works: list[Any] = field(default_factory=list)
    is_saved: bool = False
    saved: Any = None
    is_dry: bool = False
    has_held: bool = False
    is_served: bool = False
    capacity: Any = None
    transfer: Any = None
    progress: Any = None
    asked: float | None = None
    rests_until: float = 0.0


class Exchange:
    """State shared by the threads.

    Attributes
    ----------
    warnings : list of str
        One line for each lost device.
    """

    def __init__(self, terms: Terms, barrier: Barrier | None) -> None:
        self._terms = terms
        self._barrier = Barrier() if barrier is None else barrier
        self._changed = threading.Condition()
        self._members: dict[int, _Member] = {}
        self._lead: DeviceSearch | None = None
        self._generation = 0
        self._remaining = np.empty(0, np.int32)
        self._begun_with: tuple[np.ndarray, list[Any]] = self._remaining, []
        self._back: list[np.ndarray] = []
        self._is_closing = self._is_saving = self._is_over = self._is_stopped = self._has_flushed = False
        self._began = self._closed = self._told = time.perf_counter()
        self._epoch_seconds, self._least_seconds = terms.epoch_seconds, 0.0
        # Results of this epoch, and of the next one while devices save.
        self._held: list[tuple[_Member, Any]] = []
        self._later: list[tuple[_Member, Any]] = []
        self._ready: deque[Any] = deque()
        self._held_bytes = self._ready_bytes = 0
        self._saving_seconds = 0.0
        self._shown = 0.0
        self._error: BaseException | None = None
        self.warnings: list[str] = []

    # Methods for the consumer's thread.

    def start(self, searches: dict[int, tuple[DeviceSearch, str, Any]]) -> None:
        """Deal the roots to the devices that are ready; each comes with its name and facts."""
        with self._changed:
            self._members = {k: _Member(*each) for k, each in searches.items()}
            self._lead = next(iter(self._members.values())).search
            self._remaining, works = self._lead.rows, list(self._lead.works)
            self._begun_with = (self._remaining[:0] if works else self._remaining), works
            self._began = time.perf_counter()
            self._deal(*self._begun_with)

    def blocks(self) -> Iterator[Any]:
        """Yield results as they are delivered.

        Raises
        ------
        Exception
            The error that ended the search on a device.
        """
        while True:
            with self._changed:
                while not (self._ready or self._is_over or self._error is not None):
                    self._changed.wait(timeout=_LOOK_SECONDS * 10)
                    if self._barrier.is_requested:
                        self._close()
                if self._error is not None:
                    raise self._error
                if not self._ready:
                    return
                taken = [self._ready.popleft()]
                self._ready_bytes -= _nbytes(taken[0])
                self._changed.notify_all()
            if callable(taken[0]):
                taken[0] = taken[0]()
            # Keep no reference: it may be device memory.
            yield taken.pop()

    def interrupt(self, ks: Sequence[int]) -> None:
        """Make some devices end their quantum soon, without further action."""
        with self._changed:
            self._interrupt([self._members[k] for k in ks if k in self._members])

    def stop(self) -> None:
        """Make all threads end soon."""
        with self._changed:
            self._is_stopped = True
            self._interrupt(self._members.values())
            self._changed.notify_all()

    # Methods for the thread of a device.

    def next_round(self, k: int) -> tuple[int, np.ndarray, list[Any]] | None:
        """Return the generation, and the roots and saved works for a device to begin with; None at the end."""
        with self._changed:
            while not (self._is_over or self._is_stopped or self._error is not None):
                member = self._members.get(k)
                if member is not None and member.rows is not None:
                    rows, works = member.rows, member.works
                    member.rows, member.works = None, []
                    member.facts.n_leases += 1
                    return self._generation, rows, works
                self._changed.wait(timeout=_LOOK_SECONDS * 10)
        return None

    def goes_on(self, generation: int) -> bool:
        """True if the work begun in this generation is still wanted."""
        return generation == self._generation and not self._is_stopped and self._error is None

    def wants_roots_back(self, k: int, generation: int) -> bool:
        """True if a device should begin no other root."""
        with self._changed:
            is_asked = self._is_closing and not self._is_saving
            return generation == self._generation and is_asked and not self._members[k].has_held

    def wants_saved(self, k: int, generation: int) -> bool:
        """True if a device should save its work."""
        with self._changed:
            is_asked = self._is_closing and self._is_saving
            return generation == self._generation and is_asked and not self._members[k].is_saved

    def save(self, k: int, generation: int, work: Any, seconds: float) -> None:
        """Note a device's saved work and the duration of saving.

        `work` is None if it is too large; then devices begin no more roots instead.
        """
        with self._changed:
            if generation != self._generation or not self._is_saving:
                return
            if work is None:
                self._is_saving = False
                self._held, self._later = self._held + self._later, []
                for member in self._members.values():
                    member.is_saved, member.saved = False, None
                self._interrupt(each for each in self._members.values() if not each.is_dry)
            else:
                self._saving_seconds = max(self._saving_seconds, seconds)
                self._members[k].is_saved, self._members[k].saved = True, work
                self._end_if_saved()
            self._changed.notify_all()

    def give_back(self, k: int, generation: int, rows: np.ndarray) -> None:
        """Return roots that a device has not begun."""
        with self._changed:
            if generation == self._generation:
                self._back.append(rows)
                self._members[k].has_held = True

    def stands(self, k: int, generation: int, progress: Any) -> None:
        """Note a device's progress."""
        with self._changed:
            if generation == self._generation:
                self._members[k].progress = progress
                self._tell(time.perf_counter())

    def report(self, k: int, generation: int, blocks: list[Any], seconds: float) -> None:
        """Take a device's results out of the list, with its seconds of work; wait while the consumer has enough."""
        with self._changed:
            if generation != self._generation:
                return
            member = self._members[k]
            member.facts.busy_seconds += seconds
            # Empty blocks are not delivered: no consumer would release their bytes.
            found = [block for block in blocks if len(block)]
            blocks.clear()
            (self._later if member.is_saved else self._held).extend((member, block) for block in found)
            self._held_bytes += sum(map(_nbytes, found))
            # Keep no reference: the consumer may release the blocks while this thread waits.
            del found
            now = time.perf_counter()
            seconds, is_full = now - self._began, self._held_bytes > self._terms.most_bytes // 2
            is_long = seconds > self._epoch_seconds or (is_full and seconds > self._least_seconds)
            if self._barrier.is_requested or (self._terms.holds and is_long and len(self._members) > 1):
                self._close()
            is_too_much = self._has_flushed or self._held_bytes > self._terms.most_bytes
            if not self._terms.holds or len(self._members) == 1 or is_too_much:
                # From here on the results of this epoch cannot be withdrawn.
                self._has_flushed = self._has_flushed or bool(self._held)
                self._flush()
            self._changed.notify_all()
            while self._ready_bytes > self._terms.most_bytes and self.goes_on(generation):
                self._changed.wait(timeout=_LOOK_SECONDS * 10)

    def requests(self, k: int, generation: int) -> list[tuple[int, Any]]:
        """Return the devices waiting for work, with their capacity. The caller must then call `hand_over`."""
        with self._changed:
            member = self._members.get(k)
            if member is None or generation != self._generation:
                return []
            member.asked = None
            if time.perf_counter() < member.rests_until or (self._is_closing and self._is_saving):
                return []
            waiting = {
                j: other
                for j, other in self._members.items()
                if j != k and other.is_dry and other.transfer is None and not other.is_served
            }
            for other in waiting.values():
                other.is_served = True
            return [(j, other.capacity) for j, other in waiting.items()]

    def hand_over(self, k: int, generation: int, transfers: Sequence[tuple[int, Any]]) -> None:
        """Give work, or nothing, to devices from `requests`."""
        with self._changed:
            if generation != self._generation:
                return
            n_given = 0
            for j, transfer in transfers:
                other = self._members[j]
                other.is_served = False
                if transfer.n_items:
                    other.transfer = transfer
                    other.facts.n_received += transfer.n_items
                    n_given += transfer.n_items
            self._members[k].facts.n_given += n_given
            rest = _REST_SECONDS if n_given else _LONG_REST_SECONDS
            self._members[k].rests_until = time.perf_counter() + rest
            self._changed.notify_all()

    def wait(self, k: int, generation: int) -> Any:
        """Wait for work from another device; None if the round is over."""
        with self._changed:
            if generation != self._generation:
                return None
            member = self._members[k]
            member.is_dry, member.capacity = True, member.search.capacity
            while self.goes_on(generation) and not self._is_over and member.rows is None:
                if member.transfer is not None:
                    transfer, member.transfer = member.transfer, None
                    member.is_dry = False
                    member.facts.n_leases += 1
                    return transfer
                if all(each.is_dry and each.transfer is None and not each.is_served for each in self._members.values()):
                    self._end_round()
                    continue
                if self._is_closing and self._is_saving and not (member.is_saved or member.is_served):
                    member.is_saved = True
                    self._end_if_saved()
                    continue
                self._ask_for_work(time.perf_counter())
                self._changed.wait(timeout=_LOOK_SECONDS)
        return None

    def lose(self, k: int, error: BaseException, *, is_of_device: bool) -> None:
        """Handle the failure of a device."""
        with self._changed:
            if self._is_stopped or self._error is not None:
                return
            member = self._members.pop(k, None)
            if member is None or not is_of_device or not self._members:
                self._error = error
            elif self._has_flushed:
                lost = DeviceLost(
                    f"{member.name} was lost ({_line(error)}), and part of what was found below the roots that it was "
                    f"in had been handed on already: {self._terms.remedy}"
                )
                lost.__cause__ = error
                self._error = lost
            else:
                told = (
                    f"{member.name} was lost ({_line(error)}): what was begun since the last results is searched again "
                    "without it"
                )
                log.warning("%s", told)
                self.warnings.append(told)
                self._generation += 1
                self._held, self._later, self._back, self._held_bytes, self._is_closing = [], [], [], 0, False
                self._interrupt(self._members.values())
                rows, works = self._begun_with
                assert self._lead is not None
                self._remaining = np.concatenate([rows, self._lead.rows_in(works)]) if works else rows
                self._deal(self._lead.in_order(rows), works)
            self._changed.notify_all()

    # Methods that need the lock.

    def _deal(self, ordered: np.ndarray, works: Sequence[Any] = ()) -> None:
        """Deal the roots, the heaviest first, and saved works to the devices."""
        n = len(self._members)
        for k, member in enumerate(self._members.values()):
            member.rows, member.works = ordered[k::n], list(works[k::n])
            member.is_dry = member.is_served = member.has_held = member.is_saved = False
            member.transfer = member.progress = member.asked = member.saved = None
            member.rests_until = time.perf_counter() + _REST_SECONDS
        self._changed.notify_all()

    def _close(self) -> None:
        """Begin to end the epoch: make all devices save their work, or begin no more roots."""
        if not self._is_closing and self._members:
            assert self._lead is not None
            self._is_closing, self._closed, self._saving_seconds = True, time.perf_counter(), 0.0
            can_be_marked = self._barrier.takes_open_work or not self._barrier.is_requested
            self._is_saving = self._lead.can_save and can_be_marked
            self._interrupt(each for each in self._members.values() if not each.is_dry)

    def _end_if_saved(self) -> None:
        """End the epoch once all devices have saved their work."""
        if not all(each.is_saved for each in self._members.values()):
            return
        assert self._lead is not None
        self._flush()
        works = [each.saved for each in self._members.values() if each.saved is not None]
        self._begun_with = self._remaining[:0], works
        self._held, self._later = self._later, []
        self._has_flushed = self._is_closing = False
        for member in self._members.values():
            member.is_saved, member.saved = False, None
        if self._barrier.is_requested and self._barrier.takes_open_work:
            # Works are merged later, without the lock: it takes seconds for some GB.
            self._ready.append(partial(self._lead.empty, self._share(), works=works, seconds=self._saving_seconds))
            self._barrier.reached()
        self._began, self._least_seconds = time.perf_counter(), _TIMES_SAVING * self._saving_seconds
        self._epoch_seconds = max(self._terms.epoch_seconds, self._least_seconds)

    def _end_round(self) -> None:
        """End a round: all roots in progress are finished."""
        assert self._lead is not None
        self._held, self._later = self._held + self._later, []
        rows = np.concatenate([self._remaining[:0], *self._back])
        self._back = []
        if self._is_closing and self._barrier.is_requested and rows.size:
            is_begun = self._lead.begun_all_the_same(rows)
            if is_begun.any():
                # Another round of the same epoch, to finish these roots.
                self._deal(self._lead.in_order(rows[is_begun]))
                self._back = [rows[~is_begun]]
                for member in self._members.values():
                    member.has_held = True
                return
        self._flush()
        self._remaining, self._has_flushed, self._is_closing = rows, False, False
        self._begun_with = rows, []
        now = time.perf_counter()
        if not rows.size:
            self._is_over = True
            self._changed.notify_all()
            return
        if self._barrier.is_requested:
            self._ready.append(self._lead.empty(self._share_with([]), rows))
            self._barrier.reached()
        self._least_seconds = _TIMES_ITS_END * (now - self._closed)
        self._epoch_seconds = max(self._terms.epoch_seconds, self._least_seconds)
        self._began = now
        self._deal(self._lead.in_order(rows))

    def _flush(self) -> None:
        share = self._share()
        for member, block in self._held:
            n_bytes = _nbytes(block)
            member.facts.n_found += len(block)
            member.facts.n_bytes += n_bytes
            self._ready_bytes += n_bytes
            self._held_bytes -= n_bytes
            self._ready.append(replace(block, work_done=share))
        self._held = []

    def _tell(self, now: float) -> None:
        """Report progress if nothing was delivered for a while."""
        if not self._ready and now - self._told > _PROGRESS_SECONDS:
            assert self._lead is not None
            self._told = now
            self._ready.append(self._lead.empty(self._share()))

    def _share(self) -> float:
        return self._share_with([each.progress for each in self._members.values() if each.progress is not None])

    def _share_with(self, progresses: Sequence[Any]) -> float:
        """Return the share of work done. It never falls, even if work is repeated."""
        assert self._lead is not None
        self._shown = max(self._shown, self._lead.share(self._remaining, progresses))
        return self._shown

    def _ask_for_work(self, now: float) -> None:
        """Interrupt the device with most remaining work, unless one has been asked already, or devices save."""
        if self._is_closing and self._is_saving:
            return
        busy = [each for each in self._members.values() if not each.is_dry and each.rows is None]
        if any(each.asked is not None and now - each.asked < _AGAIN_SECONDS for each in busy):
            return
        able = [each for each in busy if now >= each.rests_until]
        if able:
            # A device that has not reported yet has just begun.
            donor = max(
                able, key=lambda each: (each.progress is None, () if each.progress is None else each.progress.ahead)
            )
            donor.asked = now
            self._interrupt([donor])

    @staticmethod
    def _interrupt(members: Any) -> None:
        for member in members:
            try:
                member.search.stop_soon()
            except Exception:
                # If the device has failed, its own thread reports it.
                log.debug("%s could not be interrupted", member.name, exc_info=True)


def _nbytes(block: Any) -> int:
    """Return the bytes of a block's arrays; 0 for a marker that is not made yet."""
    return 0 if callable(block) else sum(getattr(getattr(block, each.name), "nbytes", 0) for each in fields(block))


def _line(error: BaseException) -> str:
    return " ".join(str(error).split()) or type(error).__name__

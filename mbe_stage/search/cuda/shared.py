"""One device's part of a search that several devices share by handing over roots and open nodes.

Each device has the same graph and different roots. The children of a node depend on it alone, and its block is
self-contained, so any device can continue them. Here roots are numbered from 1; root 0 stands for results that are
known without a search.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mbe_stage.device.arrays import wait_for_device
from mbe_stage.device.memory_budget import device_work
from mbe_stage.search.cuda import barriers
from mbe_stage.search.cuda.session import MOST_DONE, HeldSearch, Quantum
from mbe_stage.search.cuda.work_handover import Capacity, WorkTransfer
from mbe_stage.tasks import Remaining

_MUCH_OF_THE_WORK = 0.25
"""If the roots that have not begun have more than this share of the expected work, only roots are transferred."""
_NONE = np.empty(0, np.int64)


@dataclass(frozen=True, slots=True)
class DeviceProgress:
    """Progress of a device on its work.

    Attributes
    ----------
    begun : float
        Expected work below the roots it has begun.
    unfinished : (n,) int64
        Roots with work left on this device, each once, as far as known; on the host.
    ahead : tuple of numbers
        Expected work below its roots ahead, number of open nodes and, for bicliques, of stacks; comparable between
        devices.
    """

    begun: float
    unfinished: np.ndarray
    ahead: tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Blocks:
    """A problem's functions for making blocks.

    Attributes
    ----------
    of : callable
        Yields the blocks of a quantum, at least one.
    empty : callable
        Makes an empty block from a share of the work, and the remaining tasks or None.
    brought_here : callable
        As `mbe_stage.runners.device_exchange.DeviceSearch.brought_here`.
    known : tuple
        Blocks with the wanted results that are known without a search.
    on_device : bool
        True if blocks stay in device memory.
    """

    of: Callable[[Quantum[Any]], Iterator[Any]]
    empty: Callable[[float, Any], Any]
    brought_here: Callable[[Any], Any]
    known: tuple[Any, ...] = ()
    on_device: bool = False


class SharedSearch:
    """A search on one of several devices (`mbe_stage.runners.device_exchange.DeviceSearch`).

    Parameters
    ----------
    search : HeldSearch or None
        The search of all wanted roots; None if nothing must be searched.
    blocks : Blocks
    is_requested : bool
        True if the caller may request barriers.

    Attributes
    ----------
    rows : (n,) int64
        All wanted roots, the heaviest first; the same on each device.
    can_save, works
        As in `HeldSearch`; `rows` includes the roots of the saved works.
    """

    def __init__(self, search: HeldSearch[Any] | None, blocks: Blocks, *, is_requested: bool) -> None:
        self._blocks = blocks
        self.can_save, self.works = (False, ()) if search is None else (search.can_save, search.works)
        self._session: Any = None if search is None else search.session
        self._known: tuple[Any, ...] = ()
        self._begun_before, roots, self._costs = 0.0, _NONE, np.zeros(1)
        if search is not None:
            self._search: Any = search
            with device_work(search.budget):
                roots = self.rows_in(self.works) - 1 if self.works else search.session.roots_ahead()
                search.session.let_stop()
                search.session.rehearse()
                self._costs = np.concatenate([self._costs, search.work_below])
                if is_requested:
                    # The first call reads device data, so it must happen while this device is current.
                    search.remaining(search.roots_of(_NONE))
        self.rows = np.concatenate([np.zeros(int(len(blocks.known) > 0), np.int64), roots + np.int64(1)])
        self._places = np.zeros(self._costs.size, np.int64)
        self._places[self.rows] = np.arange(self.rows.size)
        self._summed = self.rows, float(self._costs[self.rows].sum())
        self._total = max(1.0, self._summed[1])
        self._follow(_NONE)

    @property
    def is_done(self) -> bool:
        """True if no work is left on this device."""
        return not self._known and (self._session is None or self._session.is_over)

    def begin(self, rows: np.ndarray, works: Sequence[Any] = ()) -> None:
        """Drop the current work, and begin with these roots and saved works."""
        # The exchange holds the works that the search was made with.
        self.works = ()
        self._known = self._blocks.known if (rows == 0).any() else ()
        self._begun_before = 0.0
        if works:
            self._search.resume(works, rows - 1)
            self._follow(self._session.roots_ahead() + np.int64(1))
            return
        self._follow(rows[rows > 0])
        if self._session is not None:
            with device_work(self._search.budget):
                self._session.restart(self._order - 1)
            self._session.is_over = self._order.size == 0

    def work(self, _block_bytes: int) -> Iterator[list[Any]]:
        """Yield the results of a quantum, one block at a time; a block on the device is complete when it is yielded."""
        session = self._session
        if session is not None and not session.is_over:
            with device_work(self._search.budget):
                found = session.quantum()
            for block in self._blocks.of(Quantum(found, 0.0)):
                if self._blocks.on_device:
                    # Other devices copy it without waiting for this device's stream.
                    wait_for_device()
                yield [block]
            if not session.is_over:
                with device_work(self._search.budget):
                    session.make_room()
        if self._known:
            known, self._known = self._known, ()
            yield list(known)

    def stop_soon(self) -> None:
        """End the running quantum early; callable from any thread."""
        if self._session is not None:
            self._session.stop_soon()

    def hold(self) -> np.ndarray:
        """Remove and return the roots that have not begun."""
        ahead = self._order[self._n_begun :]
        self._replace_ahead(ahead, ahead[:0])
        return ahead

    @property
    def capacity(self) -> Capacity | None:
        """Capacity for more work once `is_done`."""
        return None if self._session is None else self._session.capacity

    def split(self, capacities: Sequence[Capacity]) -> list[WorkTransfer]:
        """Hand over a share of the remaining work to each of several other devices; called between two quanta.

        If the roots ahead are much of the work, only roots are handed over, otherwise open nodes too.
        """
        n, ahead = len(capacities) + 1, self._order[self._n_begun :]
        self._replace_ahead(ahead, ahead[::n])
        transfers = [WorkTransfer(ahead[k::n]) for k in range(1, n)]
        if self._session is not None and self._costs[ahead].sum() < _MUCH_OF_THE_WORK * self._total:
            with device_work(self._search.budget):
                given = self._session.give_nodes(capacities)
            for transfer, nodes in zip(transfers, given, strict=True):
                transfer.nodes, transfer.words = nodes or (None, None)
        return transfers

    def take_in(self, transfer: WorkTransfer) -> None:
        """Begin with work from another device, when this one has none left."""
        self._begun_before += self._begun()
        self._follow(transfer.roots)
        with device_work(self._search.budget):
            self._session.take_in(WorkTransfer(transfer.roots - 1, transfer.nodes, transfer.words))

    def progress(self) -> DeviceProgress:
        """Return the progress on the current roots and on work transferred since."""
        begun, session = self._begun(), self._session
        unfinished, n_open = (_NONE, 0) if session is None else (session.unfinished + 1, session.n_open)
        return DeviceProgress(self._begun_before + begun, unfinished, (float(self._below[-1]) - begun, n_open))

    def share(self, remaining: np.ndarray, progresses: Sequence[DeviceProgress]) -> float:
        """Return the share of all work done, if these rows remained when all devices began their parts."""
        unfinished = np.unique(np.concatenate([_NONE, *(each.unfinished for each in progresses)]))
        begun = sum(each.begun for each in progresses) - float(self._costs[unfinished].sum())
        # `remaining` is the same object until the round ends.
        if remaining is not self._summed[0]:
            self._summed = remaining, float(self._costs[remaining].sum())
        done = self._total - self._summed[1] + begun
        return min(MOST_DONE, max(0.0, done / self._total))

    def in_order(self, rows: np.ndarray) -> np.ndarray:
        """Return the rows, the heaviest first."""
        return rows[np.argsort(self._places[rows], kind="stable")]

    def begun_all_the_same(self, rows: np.ndarray) -> np.ndarray:
        """Mark the roots to finish before a barrier, so that the rest form few ranges; (n,) bool."""
        return barriers.begun_all_the_same(self._search.roots_of(rows - 1), self._costs[rows], barriers.MOST_RANGES)

    def save(self) -> Any:
        """Copy all work on this device to the host; None if it is too large."""
        return self._search.work_in_progress()

    def rows_in(self, works: Sequence[Any]) -> np.ndarray:
        """Return the roots in saved works that have not begun."""
        return np.concatenate([_NONE, *(work["order"] + np.int64(1) for work in works)])

    def empty(
        self,
        share: float,
        remaining: np.ndarray | None = None,
        works: Sequence[Any] = (),
        seconds: float = 0.0,
    ) -> Any:
        """Return an empty block on the host that reports progress, or marks a barrier with the remaining work.

        Saving the works took `seconds`.
        """
        tasks: Remaining | None = None
        if works:
            tasks = self._search.open_work(works, seconds)
        elif remaining is not None:
            tasks = self._search.remaining(self._search.roots_of(remaining - 1))
        return self._blocks.empty(share, tasks)

    def brought_here(self, block: Any) -> Any:
        """Return a block in the memory of the current device, which may differ from this search's device."""
        return self._blocks.brought_here(block)

    def _follow(self, rows: np.ndarray) -> None:
        """Record the session's roots in this order, taken ones first."""
        self._order, self._below = rows, np.concatenate([[0.0], np.cumsum(self._costs[rows])])

    @property
    def _n_begun(self) -> int:
        return 0 if self._session is None else min(self._session.n_roots_taken, self._order.size)

    def _begun(self) -> float:
        """Return the expected work below the roots that the session has begun."""
        return float(self._below[self._n_begun])

    def _replace_ahead(self, ahead: np.ndarray, kept: np.ndarray) -> None:
        """Keep only the roots `kept` of the roots ahead."""
        if kept.size < ahead.size:
            with device_work(self._search.budget):
                self._session.replace_roots(kept - 1)
            self._follow(np.concatenate([self._order[: self._n_begun], kept]))

"""A search on one of several devices: the same graph on each, other roots, and work that is handed on to others."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from mbe_stage.bicliques.cuda.blocks import DeviceBlock
from mbe_stage.bicliques.cuda.handing_over import Parcel, Room, Standing
from mbe_stage.bicliques.cuda.search import MOST_DONE, Search
from mbe_stage.bicliques.cuda.techniques import Techniques
from mbe_stage.bicliques.query import BicliqueQuery
from mbe_stage.bicliques.results import BicliqueBlock, Detail
from mbe_stage.device.arrays import wait_for_work
from mbe_stage.device.memory_budget import device_work
from mbe_stage.graphs.bipartite import BipartiteCSR
from mbe_stage.options import Execution
from mbe_stage.search.cuda import barriers
from mbe_stage.search.cuda.barriers import begun_all_the_same
from mbe_stage.tasks import Task

__all__ = ["SharedSearch"]

_NONE = np.empty(0, np.int32)


class SharedSearch(Search):
    """A search on the current device, as `mbe_stage.runners.devices.DeviceSearch` says.

    Parameters
    ----------
    graph, query, execution, detail, tasks, sizes
        As of `Search`.
    is_asked : bool
        Whether somebody may want to know which tasks are left.
    on_device : bool
        Whether what is found stays in device memory.

    Attributes
    ----------
    rows : (n,) int32
        All roots that are wanted, the heaviest first; the same ones on each device.
    """

    def __init__(
        self,
        graph: BipartiteCSR,
        query: BicliqueQuery,
        execution: Execution,
        detail: Detail,
        tasks: Iterable[Task] | None,
        sizes: dict[str, Any],
        is_asked: bool,
        on_device: bool = False,
    ) -> None:
        super().__init__(graph, query, execution, detail, tasks, sizes, Techniques())
        self._begun_before = 0.0
        self._on_device = on_device
        self.rows = _NONE
        if self.is_done:
            return
        with device_work(self.budget_bytes):
            self.session.let_stop()
            self.rows = self.session.roots_ahead()
            self.session.rehearse()
            self._paths = self.session.all_paths()
            self._total = max(1.0, float(self._paths[self.rows].sum()))
            if is_asked:
                # Taken from the device while that is the current one.
                assert self._roots

    def begin(self, rows: np.ndarray) -> None:
        """Forget what is in progress, and begin with these roots."""
        with device_work(self.budget_bytes):
            self.session.restart(rows)
            self._begun_before = self.session.begun()
        self.is_done = rows.size == 0

    def work(self, block_bytes: int) -> Iterator[list[Any]]:
        """What a quantum finds; on the device a block at a time, each there before it is handed out."""
        quantum = self.quantum()
        if not self._on_device:
            yield list(quantum.host_blocks(block_bytes))
            return
        for block in quantum.device_blocks():
            # Another device copies it without a look at what is enqueued on this one.
            wait_for_work()
            yield [block]

    def stop_soon(self) -> None:
        """Have the quantum that is at work end before its time; from any thread."""
        self.session.stop_soon()

    def hold(self) -> np.ndarray:
        """The roots that have not been begun; they are not this device's any more."""
        with device_work(self.budget_bytes):
            rows = self.session.roots_ahead()
            if rows.size:
                self.session.replace_roots(_NONE)
        return rows

    @property
    def room(self) -> Room:
        """What can be taken in once all is done."""
        return self.session.room

    def split(self, rooms: Sequence[Room]) -> list[Parcel]:
        """A share of what is left for each of some other devices."""
        with device_work(self.budget_bytes):
            return self.session.split(rooms)

    def take_in(self, parcel: Parcel) -> None:
        """Begin with what another device has handed over; all is done here."""
        with device_work(self.budget_bytes):
            self.session.take_in(parcel)
        self.is_done = False

    def standing(self) -> Standing:
        """How far it is in what it was last told to begin, and what was handed over since."""
        with device_work(self.budget_bytes):
            now = self.session.standing()
        return Standing(now.begun - self._begun_before, now.unfinished, now.ahead)

    def share(self, remaining: np.ndarray, standings: Sequence[Standing]) -> float:
        """Share of all work that is done, where these rows were left when all devices began with their parts."""
        total = self._total
        unfinished = np.unique(np.concatenate([_NONE, *(each.unfinished for each in standings)]))
        begun = sum(each.begun for each in standings) - float(self._paths[unfinished].sum())
        return min(MOST_DONE, max(0.0, (total - float(self._paths[remaining].sum()) + begun) / total))

    def in_order(self, rows: np.ndarray) -> np.ndarray:
        """The heaviest first."""
        return rows[np.argsort(-self._paths[rows], kind="stable")]

    def begun_all_the_same(self, rows: np.ndarray) -> np.ndarray:
        """Which roots are to be finished before a barrier, so that what is left are few ranges; (n,) bool."""
        return begun_all_the_same(rows, self._paths[rows], barriers.MOST_RANGES)

    def empty(self, share: float, remaining: np.ndarray | None = None) -> BicliqueBlock:
        """A block that says how far all is, or marks a barrier with the roots that are left; of the host."""
        tasks = None if remaining is None else self._tasks_of(remaining, self._paths[remaining])
        return BicliqueBlock.empty(self.detail, share, tasks)

    def brought_here(self, block: Any) -> DeviceBlock:
        """A block in the memory of the current device, which need not be this search's."""
        return block.brought_here() if len(block) else DeviceBlock.empty(block.work_done, block.remaining)

    def _share(self) -> float:
        # Of one device alone nobody is told.
        return 0.0

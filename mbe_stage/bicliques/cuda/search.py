"""A search on the current device, quantum by quantum: prepare, plan, walk, yield blocks.

`SharedSearch` is a search on one of several devices. Each has the same graph and other roots, and transfers work to the
others.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import cupy as cp
import numpy as np

from mbe_stage.bicliques.constraints import size_constraints
from mbe_stage.bicliques.cuda import kernels, layout, saved_work, session
from mbe_stage.bicliques.cuda.blocks import DeviceBlock
from mbe_stage.bicliques.cuda.layout import mode_of
from mbe_stage.bicliques.cuda.memory_plan import MemoryPlan, ReducedSizes, plan_memory
from mbe_stage.bicliques.cuda.prepare import DeviceGraph, prepare
from mbe_stage.bicliques.cuda.prepare_on_host import HostGraph
from mbe_stage.bicliques.cuda.techniques import Techniques
from mbe_stage.bicliques.cuda.twin_expansion import ListSizes, expanded, room_for_sizes, work_out_sizes
from mbe_stage.bicliques.cuda.work_handover import Capacity, WorkTransfer
from mbe_stage.bicliques.query import BicliqueQuery
from mbe_stage.bicliques.results import BicliqueBlock, Detail
from mbe_stage.device import launch
from mbe_stage.device.arrays import wait_for_device
from mbe_stage.device.memory_budget import device_budget, device_work
from mbe_stage.device.to_host import to_host
from mbe_stage.graphs.bipartite import BipartiteCSR
from mbe_stage.options import Execution
from mbe_stage.search.cuda import barriers
from mbe_stage.search.cuda.barriers import begun_all_the_same, ranges_from
from mbe_stage.search.cuda.saved_work import SAVED_SHARE, Arrays
from mbe_stage.search.cuda.session import MOST_DONE
from mbe_stage.search.cuda.shared import DeviceProgress
from mbe_stage.tasks import OpenWork, Remaining, Roots, Task, open_work_of, positions, ranges_of, with_roots

log = logging.getLogger(__name__)

_NONE = np.empty(0, np.int32)
# One offset in so many is copied to the host to cut blocks.
_STRIDE = 256


@dataclass(frozen=True, slots=True, eq=False)
class Quantum:
    """Results of one quantum, still in ids of the reduced graph. They are taken before the next one begins.

    Attributes
    ----------
    share : float
        Estimated share of the work that is done.
    remaining : tuple of Task or OpenWork, or None
        The remaining work, if this marks a barrier; there are no results then.
    """

    search: Search
    share: float
    remaining: Remaining | None = None

    def host_blocks(self, block_bytes: int) -> Iterator[BicliqueBlock]:
        """Yield results on the host: at least one block, so that limits and progress are checked."""
        detail, session_of = self.search.detail, self.search.session
        if self.remaining is not None:
            yield BicliqueBlock.empty(detail, self.share, self.remaining)
        elif detail == Detail.COUNT:
            yield BicliqueBlock(session_of.take_count(), work_done=self.share)
        elif detail == Detail.SIZES:
            left_sizes, right_sizes = session_of.take_sizes()
            if self.search.rows_are_left:
                left_sizes, right_sizes = right_sizes, left_sizes
            yield BicliqueBlock(left_sizes.size, left_sizes, right_sizes, work_done=self.share)
        else:
            for block in self.device_blocks():
                yield from _host_blocks(block, block_bytes)

    def device_blocks(self) -> Iterator[DeviceBlock]:
        """Yield the user's vertices in blocks; at least one, as on the host."""
        if self.remaining is not None:
            yield DeviceBlock.empty(self.share, self.remaining)
            return
        search, is_empty = self.search, True
        found, plan, sizes = search.session.found, search.session.plan, search.list_sizes
        assert sizes is not None
        for block in expanded(found, search.session.n_slots, sizes, plan.range_members, search.budget_bytes):
            is_empty = False
            yield replace(block.swapped() if search.rows_are_left else block, work_done=self.share)
        if is_empty:
            yield DeviceBlock.empty(self.share)


class Search:
    """A search on the current device. It holds device memory for its lifetime.

    Parameters
    ----------
    graph, query, execution
        As in `engine_cuda.run`.
    detail : Detail
        `Detail.MEMBERS` needs room for the lists, the others do not.
    tasks : iterable of Task, optional
        All roots by default.
    sizes : dict
        Fields of the memory plan that are set by hand, for tests; may be empty.
    techniques : Techniques
        Techniques of the kernel and of the order of the rows.
    at_once : bool
        As in `prepare`.

    Attributes
    ----------
    session : Session
        Exists if `is_done` was false in the beginning.
    list_sizes : ListSizes or None
        Sizes of the lists of the last quantum, if there are members.
    rows_are_left : bool
        True if rows are the user's left side.
    is_done : bool
        True if all roots have begun, and nothing is left below them.
    budget_bytes : int
    """

    session: session.Session
    rows_are_left: bool

    def __init__(
        self,
        graph: BipartiteCSR,
        query: BicliqueQuery,
        execution: Execution,
        detail: Detail,
        tasks: Iterable[Task | OpenWork] | None,
        sizes: dict[str, Any],
        techniques: Techniques,
        *,
        at_once: bool = False,
    ) -> None:
        self.detail = detail
        self.list_sizes: ListSizes | None = None
        self.budget_bytes = budget = device_budget(execution)
        self._holds_back = False
        self._most_saved = execution.memory_budget_bytes // SAVED_SHARE
        with device_work(budget):
            # Members of wide groups would be written by one lane. Groups that fit a word are not lists.
            sorts = detail < Detail.MEMBERS and techniques.merging and techniques.words and techniques.prefixes
            n_blocks, by_degree = launch.resident_blocks(), techniques.ordering
            prepared = prepare(
                graph, query, n_blocks, budget, by_degree=by_degree, sorts_columns=sorts, at_once=at_once
            )
            wanted, work = None, None
            if tasks is not None:
                tasks, roots = tuple(tasks), _roots(graph, query, prepared)
                work = open_work_of(tasks, roots, _form(detail, query))
                wanted = positions(ranges_of([each for each in tasks if each is not work], roots))
            self.is_done = prepared is None or (work is None and wanted is not None and wanted.size == 0)
            if prepared is None or self.is_done:
                return
            self._graph, self._query, self._prepared = graph, query, prepared
            self.rows_are_left = prepared.rows_are_left
            constraints = size_constraints(query, prepared.rows_are_left)
            mode = mode_of(detail, constraints)
            plan = _overridden(_plan(prepared, mode, budget), prepared.facts, sizes)
            if log.isEnabledFor(logging.DEBUG):
                log.debug("memory on the device:\n%s", plan.describe())
            rows = None if work is not None else wanted
            self.session = session.Session(prepared, constraints, mode, plan, budget, techniques.kernel_mask, rows)
            if work is not None and wanted is not None:
                saved_work.check(work.arrays, prepared.facts, mode)
                self._resume(with_roots(work.arrays, saved_work.roots_of(work.arrays), wanted))

    def _resume(self, work: Arrays) -> None:
        """Begin with saved work."""
        self.session.load(work)

    def quanta(self) -> Iterator[Quantum]:
        """Yield the work, quantum by quantum."""
        while not self.is_done:
            yield self.quantum()

    def quantum(self) -> Quantum:
        """Work for a quantum; the results of the last one have been taken."""
        with device_work(self.budget_bytes):
            if self.session.status & layout.OUTPUT_FULL:
                self.session.make_room()
            self.session.start_quantum()
            if self.detail == Detail.MEMBERS:
                # The host finishes its part before the walk ends.
                n_slots = self.session.found.starts.size
                if self.list_sizes is None or self.list_sizes.full.shape[1] != n_slots:
                    self.list_sizes = None
                    rows, columns = self._prepared.groups()
                    self.list_sizes = room_for_sizes(n_slots, (columns, rows))
                work_out_sizes(self.list_sizes, self.session.found, self.session.taken)
            self.is_done = self.session.finish_quantum()
            return Quantum(self, self._share())

    def _share(self) -> float:
        """Share of the work that is done."""
        return MOST_DONE if self.is_done and not self._holds_back else min(MOST_DONE, self.session.work_done())

    def roots_ahead(self) -> tuple[np.ndarray, np.ndarray] | None:
        """See `mbe_stage.search.cuda.barriers.HoldsRoots`, as for the next methods."""
        if self.is_done:
            return None
        with device_work(self.budget_bytes):
            rows = self.session.roots_ahead()
            return (rows, self.session.paths_of(rows)) if rows.size else None

    def replace_roots(self, roots: np.ndarray) -> None:
        """Begin these instead of the roots ahead; the others are held back."""
        with device_work(self.budget_bytes):
            self.session.replace_roots(roots)
        self._holds_back = True

    def restart(self, roots: np.ndarray) -> None:
        """Begin the held-back roots."""
        with device_work(self.budget_bytes):
            self.session.restart(roots)
        self._holds_back = self.is_done = False

    def marker(self, roots: np.ndarray) -> Quantum:
        """Return the empty block that marks a barrier."""
        with device_work(self.budget_bytes):
            return Quantum(self, self._share(), self._tasks_of(roots, self.session.paths_of(roots)))

    def saved(self, held: np.ndarray) -> Quantum | None:
        """Return the marker of a barrier with the saved work and these held-back roots; None if it is too large."""
        begun = time.perf_counter()
        with device_work(self.budget_bytes):
            work = None if self.is_done else self.session.saved(self._most_saved)
            if work is None:
                return None
            work["order"] = np.concatenate([work["order"], held.astype(np.int32)])
            form = _form(self.detail, self._query)
            saved = OpenWork(self._roots, form, work, time.perf_counter() - begun)
            return Quantum(self, self._share(), (saved,))

    def _tasks_of(self, rows: np.ndarray, paths: np.ndarray) -> tuple[Task, ...]:
        """Return some roots as tasks, ascending."""
        costs = np.zeros(self._prepared.facts.n_rows)
        # As in `ordering.task_costs`.
        costs[rows] = (paths + 1.0) ** 1.5
        return tuple(Task(self._roots, first, end, float(costs[first:end].sum())) for first, end in ranges_from(rows))

    @cached_property
    def _roots(self) -> Roots:
        return _roots(self._graph, self._query, self._prepared)


def planned(graph: BipartiteCSR, query: BicliqueQuery, execution: Execution, detail: Detail) -> MemoryPlan | None:
    """Plan a search on the current device; None if nothing is left of the graph."""
    budget = device_budget(execution)
    with device_work(budget):
        prepared = prepare(graph, query, launch.resident_blocks(), budget, sorts_columns=detail < Detail.MEMBERS)
    return None if prepared is None else _plan(prepared, mode_of(detail, size_constraints(query)), budget)


def _plan(prepared: DeviceGraph | HostGraph, mode: int, budget: int) -> MemoryPlan:
    return plan_memory(prepared.facts, kernels.kernel_blocks(mode), mode, budget)


def _form(detail: Detail, query: BicliqueQuery) -> str:
    """Name of what saved work of such a search means."""
    return f"bicliques, cuda {saved_work.VERSION}, mode {mode_of(detail, size_constraints(query))}"


def _roots(graph: BipartiteCSR, query: BicliqueQuery, prepared: DeviceGraph | HostGraph | None) -> Roots:
    """Return the roots of all the work, with the row numbers of the CPU engine."""
    rows_are_left, vertices = False, np.empty(0, np.int32)
    if prepared is not None:
        rows_are_left, vertices = prepared.rows_are_left, prepared.first_vertices()
    return Roots.of("bicliques", vertices, rows_are_left, *query.identity, graph.n_right, graph.edges_checksum)


def _overridden(plan: MemoryPlan, facts: ReducedSizes, sizes: dict[str, Any]) -> MemoryPlan:
    if not sizes:
        return plan
    others = {name: value for name, value in sizes.items() if name != "pool_extra"}
    if "pool_extra" in sizes:
        others["pool"] = facts.pool_ints + sizes["pool_extra"]
    return replace(plan, **others)


def _host_blocks(block: DeviceBlock, block_bytes: int) -> Iterator[BicliqueBlock]:
    """Copy a block's bicliques to the host, at most `block_bytes` at a time, a larger biclique alone."""
    if block.n_bicliques == 0:
        yield BicliqueBlock.empty(Detail.MEMBERS, block.work_done)
    for first, stop, left, right in _cuts(block, block_bytes // 4):
        left_sizes, right_sizes, left_members, right_members = to_host(
            *(
                cp.subtract(ends[first + 1 : stop + 1], ends[first:stop], dtype=np.int32, casting="unsafe")
                for ends in (block.left_offsets, block.right_offsets)
            ),
            block.left_members[left],
            block.right_members[right],
        )
        yield BicliqueBlock(stop - first, left_sizes, right_sizes, left_members, right_members, block.work_done)


def _cuts(block: DeviceBlock, most_entries: int) -> Iterator[tuple[int, int, slice, slice]]:
    """Cut a block into parts of at most so many sizes and members, a larger biclique alone.

    Each is given by its first biclique, the one behind its last, and its members on each side. One offset in `_STRIDE`
    comes to the host; the others only of a stretch that is too large for a part.
    """
    n_left, n_right = block.left_members.size, block.right_members.size
    if 0 < 2 * block.n_bicliques + n_left + n_right <= most_entries:
        yield 0, block.n_bicliques, slice(0, n_left), slice(0, n_right)
        return
    places = np.append(np.arange(0, block.n_bicliques, _STRIDE), block.n_bicliques)
    offsets = _offsets(block, cp.asarray(places))
    first, begin = 0, offsets[:, 0]
    while first < block.n_bicliques:
        most = begin.sum() + 2 * first + most_entries
        at = int(np.searchsorted(offsets.sum(axis=0) + 2 * places, most, side="right")) - 1
        stop, end = int(places[at]), offsets[:, at]
        if stop <= first:
            each = np.arange(first + 1, 1 + places[np.searchsorted(places, first, side="right")])
            ends = _offsets(block, cp.asarray(each))
            at = max(0, int(np.searchsorted(ends.sum(axis=0) + 2 * each, most, side="right")) - 1)
            stop, end = int(each[at]), ends[:, at]
        left, right = (slice(int(begin[side]), int(end[side])) for side in (0, 1))
        yield first, stop, left, right
        first, begin = stop, end


def _offsets(block: DeviceBlock, places: cp.ndarray) -> np.ndarray:
    """Offsets of both sides at some places, (2, n) int64, on the host."""
    return cp.asnumpy(cp.stack([block.left_offsets[places], block.right_offsets[places]]))


class SharedSearch(Search):
    """A search on one of several devices (`mbe_stage.runners.device_exchange.DeviceSearch`).

    Parameters
    ----------
    graph, query, execution, detail, tasks, sizes
        As in `Search`.
    is_requested : bool
        True if the caller may request barriers.
    on_device : bool
        True if results stay in device memory.

    Attributes
    ----------
    rows : (n,) int32
        All wanted roots, the heaviest first; the same on each device.
    works : list of dict
        Saved work that one of the devices is to begin with; the rows are in it.
    """

    can_save: ClassVar[bool] = True
    works: Sequence[Arrays] = ()

    def __init__(
        self,
        graph: BipartiteCSR,
        query: BicliqueQuery,
        execution: Execution,
        detail: Detail,
        tasks: Iterable[Task | OpenWork] | None,
        sizes: dict[str, Any],
        is_requested: bool,
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
            self.rows = self.rows_in(self.works) if self.works else self.session.roots_ahead()
            self.session.rehearse()
            self._paths = self.session.all_paths()
            wanted = self._paths if self.rows.size == self._paths.size else self._paths[self.rows]
            self._summed = self.rows, float(wanted.sum())
            begun = sum(float(self._paths[saved_work.roots_of(work)].sum()) for work in self.works)
            self._total = max(1.0, self._summed[1] + begun)
            if is_requested:
                # Read while this device is the current one.
                assert self._roots

    def _resume(self, work: Arrays) -> None:
        self.works = [work]

    def begin(self, rows: np.ndarray, works: Sequence[Arrays] = ()) -> None:
        """Drop the work in progress, and begin with these roots and saved works."""
        # The exchange has those that the search was made with.
        self.works = ()
        with device_work(self.budget_bytes):
            if works:
                work = saved_work.merged(works)
                self.session.load(work | {"order": np.concatenate([work["order"], rows])})
            else:
                self.session.restart(rows)
            self._begun_before = self.session.begun()
        self.is_done = rows.size == 0 and not works

    def save(self) -> Arrays | None:
        """Copy all work on this device to the host; None if it is too large."""
        with device_work(self.budget_bytes):
            return self.session.saved(self._most_saved)

    def rows_in(self, works: Sequence[Arrays]) -> np.ndarray:
        """Return the roots in saved works that have not begun."""
        return np.concatenate([_NONE, *(work["order"] for work in works)])

    def work(self, block_bytes: int) -> Iterator[list[Any]]:
        """Yield the results of a quantum; on the device one block at a time, each complete before it is yielded."""
        quantum = self.quantum()
        if not self._on_device:
            yield list(quantum.host_blocks(block_bytes))
            return
        for block in quantum.device_blocks():
            # Other devices copy it without waiting for the queue of this one.
            wait_for_device()
            yield [block]

    def stop_soon(self) -> None:
        """End the running quantum early; from any thread."""
        self.session.stop_soon()

    def hold(self) -> np.ndarray:
        """Take away and return the roots that have not begun."""
        with device_work(self.budget_bytes):
            rows = self.session.roots_ahead()
            if rows.size:
                self.session.replace_roots(_NONE)
        return rows

    @property
    def capacity(self) -> Capacity:
        """Capacity for more work once all is done."""
        return self.session.capacity

    def split(self, capacities: Sequence[Capacity]) -> list[WorkTransfer]:
        """Hand over a share of the remaining work to each of some other devices."""
        with device_work(self.budget_bytes):
            return self.session.split(capacities)

    def take_in(self, transfer: WorkTransfer) -> None:
        """Begin with work from another device; this one has none left."""
        with device_work(self.budget_bytes):
            self.session.take_in(transfer)
        self.is_done = False

    def progress(self) -> DeviceProgress:
        """Progress in the roots that it last began, and in work transferred since."""
        with device_work(self.budget_bytes):
            if self.is_done:
                return DeviceProgress(self.session.begun() - self._begun_before, _NONE, (0.0, 0, 0))
            now = self.session.progress()
        return DeviceProgress(now.begun - self._begun_before, now.unfinished, now.ahead)

    def share(self, remaining: np.ndarray, progresses: Sequence[DeviceProgress]) -> float:
        """Share of all work that is done, if these rows remained when all devices began their parts."""
        # They are the same ones until the round ends.
        if remaining is not self._summed[0]:
            self._summed = remaining, float(self._paths[remaining].sum())
        total = self._total
        unfinished = np.unique(np.concatenate([_NONE, *(each.unfinished for each in progresses)]))
        begun = sum(each.begun for each in progresses) - float(self._paths[unfinished].sum())
        return min(MOST_DONE, max(0.0, (total - self._summed[1] + begun) / total))

    def in_order(self, rows: np.ndarray) -> np.ndarray:
        """Order rows, the heaviest first."""
        return rows[np.argsort(-self._paths[rows], kind="stable")]

    def begun_all_the_same(self, rows: np.ndarray) -> np.ndarray:
        """Roots to finish before a barrier, so that the rest are few ranges; (n,) bool."""
        return begun_all_the_same(rows, self._paths[rows], barriers.MOST_RANGES)

    def empty(
        self,
        share: float,
        remaining: np.ndarray | None = None,
        works: Sequence[Arrays] = (),
        seconds: float = 0.0,
    ) -> BicliqueBlock:
        """Make an empty block on the host that reports progress, or marks a barrier with the remaining work.

        Saving the works took these seconds.
        """
        tasks: Remaining | None = None if remaining is None else self._tasks_of(remaining, self._paths[remaining])
        if works:
            tasks = (OpenWork(self._roots, _form(self.detail, self._query), saved_work.merged(works), seconds),)
        return BicliqueBlock.empty(self.detail, share, tasks)

    def brought_here(self, block: Any) -> DeviceBlock:
        """Copy a block into the memory of the current device, which may be another one than this search's."""
        return block.brought_here() if len(block) else DeviceBlock.empty(block.work_done, block.remaining)

    def _share(self) -> float:
        # `share` computes it for all devices together.
        return 0.0

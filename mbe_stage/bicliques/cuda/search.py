"""One search on the current device, quantum by quantum: what is prepared, planned and walked, and what it found."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import cupy as cp
import numpy as np

from mbe_stage.bicliques.constraints import size_constraints
from mbe_stage.bicliques.cuda import kernels, session
from mbe_stage.bicliques.cuda import layout as at
from mbe_stage.bicliques.cuda.blocks import DeviceBlock
from mbe_stage.bicliques.cuda.memory_plan import MemoryPlan, ReducedSizes, plan_memory
from mbe_stage.bicliques.cuda.modes import mode_of
from mbe_stage.bicliques.cuda.prepare import DeviceGraph, prepare
from mbe_stage.bicliques.cuda.techniques import Techniques
from mbe_stage.bicliques.cuda.twin_expansion import ListSizes, expanded, room_for_sizes, work_out_sizes
from mbe_stage.bicliques.query import BicliqueQuery
from mbe_stage.bicliques.results import BicliqueBlock, Detail
from mbe_stage.bicliques.roots import roots_of
from mbe_stage.device import launch
from mbe_stage.device.memory_budget import device_budget, device_work
from mbe_stage.graphs.bipartite import BipartiteCSR
from mbe_stage.options import Execution
from mbe_stage.search.cuda.barriers import ranges_from
from mbe_stage.tasks import Roots, Task, positions, ranges_of

__all__ = ["MOST_DONE", "Quantum", "Search", "planned"]

log = logging.getLogger(__name__)

MOST_DONE = 0.999
"""What is told of a search that has not ended."""


@dataclass(frozen=True, slots=True, eq=False)
class Quantum:
    """What one quantum found, still in ids of the reduced graph; taken before the next one begins.

    Attributes
    ----------
    search : Search
    share : float
        Of the work that is done, an estimate.
    remaining : tuple of Task or None
        Of one that marks a barrier: nothing was found, and this is left.
    """

    search: Search
    share: float
    remaining: tuple[Task, ...] | None = None

    def host_blocks(self, block_bytes: int) -> Iterator[BicliqueBlock]:
        """What was found, on the host; one block at least, so that run limits and progress are looked after."""
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
        """The user's vertices, in pieces; one at least, as on the host."""
        if self.remaining is not None:
            yield DeviceBlock.empty(self.share, self.remaining)
            return
        search, is_empty = self.search, True
        found, plan, sizes = search.session.found, search.session.plan, search.list_sizes
        assert sizes is not None
        for block in expanded(found, search.session.n_slots, sizes, plan.piece_members, search.budget_bytes):
            is_empty = False
            yield replace(block.swapped() if search.rows_are_left else block, work_done=self.share)
        if is_empty:
            yield DeviceBlock.empty(self.share)


class Search:
    """A search on the current device. It holds device memory as long as it is there.

    Parameters
    ----------
    graph, query, execution
        As `engine_cuda.run` has them.
    detail : Detail
        `Detail.MEMBERS` needs room for the lists, the others do not.
    tasks : iterable of Task, optional
        All roots where it is None.
    sizes : dict
        Fields of the memory plan that are set by hand, for tests; may be empty.
    techniques : Techniques
        What the kernel and the order of the rows make use of.

    Attributes
    ----------
    session : Session
        There where `is_done` was false in the beginning.
    list_sizes : ListSizes or None
        Of the lists that the last quantum found, where members are.
    rows_are_left : bool
        Whether rows are the user's left side.
    is_done : bool
        Whether all roots that there are to begin have been, and nothing below them is left.
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
        tasks: Iterable[Task] | None,
        sizes: dict[str, Any],
        techniques: Techniques,
    ) -> None:
        self.detail = detail
        self.list_sizes: ListSizes | None = None
        self.budget_bytes = budget = device_budget(execution)
        self._holds_back = False
        with device_work(budget):
            prepared = prepare(graph, query, launch.resident_blocks(), budget, by_degree=techniques.ordering)
            wanted = None
            if tasks is not None:
                wanted = positions(ranges_of(tasks, _roots(graph, query, prepared)))
            self.is_done = prepared is None or (wanted is not None and wanted.size == 0)
            if prepared is None or self.is_done:
                return
            self._graph, self._query, self._prepared = graph, query, prepared
            self.rows_are_left = prepared.rows_are_left
            constraints = size_constraints(query.swapped() if prepared.rows_are_left else query)
            mode = mode_of(detail, constraints)
            plan = _overridden(_plan(prepared, mode, budget), prepared.facts, sizes)
            if log.isEnabledFor(logging.DEBUG):
                log.debug("memory on the device:\n%s", plan.describe())
            self.session = session.Session(prepared, constraints, mode, plan, budget, techniques.kernel_mask, wanted)

    def quanta(self) -> Iterator[Quantum]:
        """The work, quantum by quantum."""
        while not self.is_done:
            yield self.quantum()

    def quantum(self) -> Quantum:
        """Work for a while; what the last one found has been taken."""
        with device_work(self.budget_bytes):
            if self.session.status & at.OUTPUT_FULL:
                self.session.enlarge_output()
            self.session.start_quantum()
            if self.detail == Detail.MEMBERS:
                # The host's part of this is over before the walk is.
                if self.list_sizes is None:
                    rows, columns = self._prepared.groups()
                    self.list_sizes = room_for_sizes(self.session.plan.descriptors, (columns, rows))
                work_out_sizes(self.list_sizes, self.session.found, self.session.taken)
            self.is_done = self.session.finish_quantum()
            return Quantum(self, self._share())

    def _share(self) -> float:
        """Of the work that is done."""
        return MOST_DONE if self.is_done and not self._holds_back else min(MOST_DONE, self.session.work_done())

    def roots_ahead(self) -> tuple[np.ndarray, np.ndarray] | None:
        """As `mbe_stage.search.cuda.barriers.HoldsRoots`, as all that follows."""
        if self.is_done:
            return None
        with device_work(self.budget_bytes):
            rows = self.session.roots_ahead()
            return (rows, self.session.paths_of(rows)) if rows.size else None

    def replace_roots(self, roots: np.ndarray) -> None:
        """Have these begun in the place of those ahead; the others are held back."""
        with device_work(self.budget_bytes):
            self.session.replace_roots(roots)
        self._holds_back = True

    def restart(self, roots: np.ndarray) -> None:
        """Begin with roots that were held back."""
        with device_work(self.budget_bytes):
            self.session.restart(roots)
        self._holds_back = self.is_done = False

    def marker(self, roots: np.ndarray) -> Quantum:
        """What marks a barrier."""
        with device_work(self.budget_bytes):
            return Quantum(self, self._share(), self._tasks_of(roots, self.session.paths_of(roots)))

    def _tasks_of(self, rows: np.ndarray, paths: np.ndarray) -> tuple[Task, ...]:
        """Some roots as tasks, ascending."""
        costs = np.zeros(self._prepared.facts.n_rows)
        # As `ordering.task_costs` has them.
        costs[rows] = (paths + 1.0) ** 1.5
        return tuple(Task(self._roots, first, end, float(costs[first:end].sum())) for first, end in ranges_from(rows))

    @cached_property
    def _roots(self) -> Roots:
        return _roots(self._graph, self._query, self._prepared)


def planned(graph: BipartiteCSR, query: BicliqueQuery, execution: Execution, detail: Detail) -> MemoryPlan | None:
    """What a search would allocate on the current device; None where nothing is left of the graph."""
    budget = device_budget(execution)
    with device_work(budget):
        prepared = prepare(graph, query, launch.resident_blocks(), budget)
    return None if prepared is None else _plan(prepared, mode_of(detail, size_constraints(query)), budget)


def _plan(prepared: DeviceGraph, mode: int, budget: int) -> MemoryPlan:
    return plan_memory(prepared.facts, kernels.walking_blocks(mode), mode, budget)


def _roots(graph: BipartiteCSR, query: BicliqueQuery, prepared: DeviceGraph | None) -> Roots:
    """The roots of all of the work; rows are numbered here as they are by the CPU engine."""
    if prepared is None:
        return roots_of(graph, query, np.empty(0, np.int32), are_left=False)
    return roots_of(graph, query, prepared.first_vertices(), are_left=prepared.rows_are_left)


def _overridden(plan: MemoryPlan, facts: ReducedSizes, sizes: dict[str, Any]) -> MemoryPlan:
    if not sizes:
        return plan
    others = {name: value for name, value in sizes.items() if name != "pool_extra"}
    if "pool_extra" in sizes:
        others["pool"] = facts.pool_ints + sizes["pool_extra"]
    return replace(plan, **others)


def _host_blocks(block: DeviceBlock, block_bytes: int) -> Iterator[BicliqueBlock]:
    """Copies of a block's bicliques, at most `block_bytes` at a time, a larger biclique alone."""
    if block.n_bicliques == 0:
        yield BicliqueBlock.empty(Detail.MEMBERS, block.work_done)
    left_offsets, right_offsets = cp.asnumpy(block.left_offsets), cp.asnumpy(block.right_offsets)
    ends = 4 * (left_offsets[1:] + right_offsets[1:] + 2 * np.arange(1, block.n_bicliques + 1))
    first = 0
    while first < block.n_bicliques:
        before = int(ends[first - 1]) if first else 0
        stop = max(first + 1, int(np.searchsorted(ends, before + block_bytes, side="right")))
        yield BicliqueBlock(
            n_bicliques=stop - first,
            left_sizes=np.diff(left_offsets[first : stop + 1]).astype(np.int32),
            right_sizes=np.diff(right_offsets[first : stop + 1]).astype(np.int32),
            left_members=cp.asnumpy(block.left_members[left_offsets[first] : left_offsets[stop]]),
            right_members=cp.asnumpy(block.right_members[right_offsets[first] : right_offsets[stop]]),
            work_done=block.work_done,
        )
        first = stop

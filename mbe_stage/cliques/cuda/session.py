"""A search on the device: its memory, time quanta and the room made between them; and the same with barriers."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import cupy as cp
import numpy as np

from mbe_stage.cliques.cuda import layout, saved_work
from mbe_stage.cliques.cuda.kernels import kernel_blocks, kernel_for
from mbe_stage.cliques.cuda.layout import Device, Output, Warps
from mbe_stage.cliques.cuda.memory_plan import MemoryPlan, SearchSizes, plan_memory
from mbe_stage.cliques.cuda.prepare import DeviceGraph, prepare
from mbe_stage.cliques.cuda.root_order import RootOrder, task_costs
from mbe_stage.cliques.cuda.techniques import ALL_TECHNIQUES, SUB_WARPS
from mbe_stage.device.arrays import upload
from mbe_stage.device.launch import resident_blocks
from mbe_stage.device.memory_budget import device_work
from mbe_stage.graphs.undirected import UndirectedCSR
from mbe_stage.search.cuda.barriers import tasks_from
from mbe_stage.search.cuda.plan import budget_refusal, does_not_fit
from mbe_stage.search.cuda.saved_work import Arrays
from mbe_stage.search.cuda.session import KeptNodes, PoolSession, SavingSearch
from mbe_stage.tasks import Task, with_roots

_MOST_OF_IT = 0.875
"""If an output is filled to this share, the caller gets it without a copy."""
_PROGRESS_SECONDS = 0.1
_MOST_WORDS_AT_ONCE = 1 << 22
"""Words of device memory, besides the plan, used for saving nodes."""


class Session(PoolSession):
    """Device memory of one search, and its quanta.

    Parameters
    ----------
    prepared : DeviceGraph
        The graph with the wanted roots.
    mode : int
        `layout.COUNT`, `SIZES` or `MEMBERS`.
    size_limits : tuple of int
        Fewest and most members, below 2^31.
    plan : MemoryPlan
    budget_bytes : int
        Limit on device memory when growing.
    techniques : int
        `Techniques.kernel_mask`.
    """

    def __init__(
        self,
        prepared: DeviceGraph,
        mode: int,
        size_limits: tuple[int, int],
        plan: MemoryPlan,
        budget_bytes: int,
        techniques: int = ALL_TECHNIQUES,
    ) -> None:
        super().__init__(prepared.lists, plan, budget_bytes, kernel_for(mode, techniques), layout.CONTROL_WORDS)
        self._nanoseconds = self._n_found = self._n_written = self._n_roots_done = 0
        self._is_written, self._size_limits, self._is_loaded = mode == layout.MEMBERS, size_limits, False
        # Small roots fit into any frame, unless a test makes frames narrower.
        n_small = prepared.n_small if techniques & SUB_WARPS and plan.narrow >= layout.SMALL_ROOT else 0
        self._n_large = self._n_wanted - n_small
        self._large_roots, self._looked_at = self._graph.order[: self._n_large], 0.0
        n_warps = plan.n_warps
        state, histogram = self._new_state(((n_warps, plan.histogram), np.int64))
        self._warps = Warps(
            cp.empty((n_warps, plan.scratch_columns), cp.int32),
            cp.empty((n_warps, plan.scratch_rows), cp.int32),
            cp.empty((n_warps, plan.scratch_words), cp.uint32),
            cp.empty((n_warps, plan.scratch_words), cp.uint32),
            histogram,
            cp.empty((n_warps, plan.page_members), cp.int32),
            cp.empty((n_warps, plan.page_cliques), cp.int32),
            state,
        )
        self._device = Device(*self._new_pool(), *self._new_words())
        self._output = Output(cp.empty(plan.members, cp.int32), cp.empty(plan.cliques, cp.int32))

    def _bundles(self) -> tuple[Any, ...]:
        return (*super()._bundles(), self._output)

    @property
    def statistics(self) -> dict[str, int]:
        """Statistics of the quanta, for benchmarks and tests."""
        busy = cp.asnumpy(self._warps.state[:, layout.BUSY_NS])
        return super().statistics | {
            "busy_ns": int(busy.sum()),
            "least_busy_ns": int(busy.min()),
            "median_busy_ns": int(np.median(busy)),
            "most_busy_ns": int(busy.max()),
            "kernel_us": self._nanoseconds // 1000,
            "roots": self._n_wanted,
            "roots_done": self._n_roots_before + self._n_roots_done,
        }

    @property
    def n_roots_done(self) -> int:
        """Number of finished roots as in `SearchSession`; roots with open nodes below them do not count."""
        return self._n_roots_done

    def quantum(self) -> Session:
        """Search for one quantum; return this session with the results. Earlier results are dropped.

        Raises
        ------
        RuntimeError
            The numbers of written and found cliques differ.
        """
        if self._is_loaded:
            self._is_loaded = False
            return self
        if self._output.members is None:
            self._output = self._output._replace(members=cp.empty(self._plan.members, cp.int32))
        control = self._control
        control[layout.OUTPUT_END] = control[layout.BEGAN] = layout.NEVER
        self._run(layout.FOUND, layout.OUTPUT_TOP, layout.OUTPUT_NEEDED, layout.ENDED)
        self._nanoseconds += int(self._control[layout.ENDED] - self._control[layout.BEGAN])
        self._n_found += self.n_found
        self._n_written += self._written_end >> layout.CLIQUES_SHIFT
        self.n_roots_taken = self._n_begun
        self.is_over = int(self._control[layout.STATUS]) == 0
        if self.is_over:
            self._finish()
        else:
            self._look_at_what_is_left()
        return self

    def _look_at_what_is_left(self) -> None:
        """Find the nodes to keep for the next quantum, and count the finished roots."""
        self._state = cp.asnumpy(self._warps.state[:, : layout.PAGE + 1])
        self._kept = KeptNodes(self._device.nodes, self._state[:, layout.PENDING_NODE], self._plan.all_words)
        self._control[layout.N_OPEN] = self._kept.n_open
        # If quanta are short because the output fills up, counting some of the time is enough for progress.
        if time.perf_counter() - self._looked_at >= _PROGRESS_SECONDS:
            self.unfinished = self._unfinished()
            self._n_roots_done = self.n_roots_taken - self.unfinished.size
            self._looked_at = time.perf_counter()

    def _unfinished(self) -> np.ndarray:
        """Return begun roots that are not finished: those with open nodes, or in a warp's unfinished task."""
        nodes, order = self._kept.fields, self._graph.order
        places = nodes[:, layout.OFFSET] + cp.where(
            nodes[:, layout.KIND] == layout.FRAME, layout.BASE_AT, nodes[:, layout.N_CANDIDATES]
        )
        is_unfinished = cp.zeros(self._graph.later_ends.size, cp.bool_)
        # The root is the first vertex of every base.
        is_unfinished[self._device.words[places].astype(cp.int64)] = True
        pending, children = self._state[:, layout.PENDING_NODE], self._state[:, layout.PENDING_CHILD]
        is_unfinished[cp.asarray(children[pending == layout.ROOT])] = True
        is_unfinished[order[cp.asarray(self._small_roots_at(children[pending == layout.SMALL]))]] = True
        return cp.asnumpy(cp.flatnonzero(is_unfinished))

    def _small_roots_at(self, places: np.ndarray) -> np.ndarray:
        """Return the positions of all roots in groups of small roots that start at these positions."""
        numbers = (places[:, None] + np.arange(layout.ROOTS_AT_ONCE)).reshape(-1)
        return numbers[numbers < self._graph.order.size]

    @property
    def _n_turns(self) -> int:
        """Number of steps in which warps take all roots: large ones singly, small ones in groups."""
        n_small = int(self._graph.order.size) - self._n_large
        return self._n_large + -(-n_small // layout.ROOTS_AT_ONCE)

    @property
    def _n_begun(self) -> int:
        """Number of roots that warps have taken."""
        n_turns = min(self._n_turns, int(self._control[layout.NEXT_ROOT]))
        n_begun = min(n_turns, self._n_large) + layout.ROOTS_AT_ONCE * max(0, n_turns - self._n_large)
        return min(n_begun, int(self._graph.order.size))

    def later_neighbours(self) -> np.ndarray:
        """Return the number of later neighbours of each vertex; (n,) int64, on the host."""
        return cp.asnumpy(self._graph.later_ends - self._graph.offsets[:-1])

    def _set_order(self, taken: cp.ndarray, roots: np.ndarray) -> None:
        """As in `SearchSession`, with vertices as roots, the large ones first. Tasks use positions of taken roots."""
        super()._set_order(taken, roots)
        n_large = int(cp.isin(cp.asarray(roots, cp.int32), self._large_roots).sum())
        # Small roots are taken in full groups.
        self._n_large = min(int(taken.size), self._n_large) + n_large

    def restart(self, roots: np.ndarray) -> None:
        """As in `PoolSession`."""
        super().restart(roots)
        self._n_roots_done = self._n_found = self._n_written = 0
        self._is_loaded = False
        self.unfinished = self.unfinished[:0]
        self._warps.state[:, layout.PAGE] = 0
        self._warps.histogram.fill(0)

    @property
    def n_found(self) -> int:
        """Number of cliques found by the last quantum."""
        return int(self._control[layout.FOUND])

    def saved(self, most_bytes: int) -> Arrays | None:
        """Copy the work in progress and the roots ahead to the host (`saved_work`); None if it is too large.

        Called between two quanta, after the output has been taken. The work continues here.
        """
        self._look_at_what_is_left()
        kept, state = self._kept, self._state
        order, children = self._graph.order, state[:, layout.PENDING_CHILD]
        n_bytes = 4 * kept.n_words + 8 * layout.NODE_FIELDS * (kept.n + len(state)) + 4 * int(order.size)
        n_bytes += 4 * len(state) * (self._plan.page_members + self._plan.page_cliques)
        if n_bytes > most_bytes:
            return None
        pending = state[:, layout.PENDING_NODE]
        is_child = pending >= 0
        tasks = np.stack([kept.numbers(pending[is_child]), children[is_child]], axis=1)
        small = self._small_roots_at(children[pending == layout.SMALL])
        roots = children[pending == layout.ROOT], cp.asnumpy(order)[small], self.roots_ahead()
        page = state[:, layout.PAGE, None]
        each = (self._warps.page_sizes, page >> layout.CLIQUES_SHIFT), (self._warps.page, page & layout.MEMBERS_MASK)
        sizes, members = (cp.asnumpy(rows)[np.arange(rows.shape[1]) < n] for rows, n in each)
        return {
            "order": np.concatenate(roots).astype(np.int32),
            "nodes": saved_work.nodes_of(cp.asnumpy(kept.placed()), tasks),
            "words": kept.to_host(self._device.words, _MOST_WORDS_AT_ONCE),
            "sizes": sizes,
            "members": members,
        }

    def load(self, work: Arrays) -> None:
        """Begin with saved work, checked to fit this graph and mode; this session must have none in progress.

        The first quantum returns the saved cliques that were not written.

        Raises
        ------
        MemoryBudgetExceeded
            The work does not fit.
        """
        order, nodes, words, sizes, members = (work[name] for name in ("order", "nodes", "words", "sizes", "members"))
        # Large roots first.
        is_small = ~np.isin(order, cp.asnumpy(self._large_roots))
        self.restart(order[np.argsort(is_small, kind="stable")])
        # Kernels need a non-empty order, so one taken root stands for none.
        self._n_roots_before = self._n_wanted - max(1, order.size)
        plan = self._plan.with_room(words.size, len(nodes), self._control)
        if members.size > plan.members or sizes.size > plan.cliques:
            plan = replace(plan, members=max(plan.members, members.size), cliques=max(plan.cliques, sizes.size))
        if plan.total_bytes > self._budget:
            raise does_not_fit(budget_refusal("the search", plan.total_bytes, self._budget), self._budget)
        self._replace_pool(plan)
        self._plan = plan
        self._output = self._output._replace(members=None, sizes=None)
        self._output = Output(cp.empty(plan.members, cp.int32), cp.empty(plan.cliques, cp.int32))
        pairs = (nodes, self._device.nodes), (words, self._device.words)
        for host, device in (*pairs, (sizes, self._output.sizes), (members, self._output.members)):
            if host.size:
                upload(host, device[: len(host)])
        self._control[layout.N_NODES] = len(nodes)
        self._control[layout.POOL_TOP] = words.size
        self._control[layout.OUTPUT_TOP] = (sizes.size << layout.CLIQUES_SHIFT) | members.size
        self._control[layout.OUTPUT_END], self._control[layout.FOUND] = layout.NEVER, 0
        self._look_at_what_is_left()
        self._is_loaded, self.is_over = True, False

    def take_histogram(self) -> np.ndarray:
        """Return the number of cliques of each size found since the last call, int64."""
        counts = cp.asnumpy(self._warps.histogram.sum(axis=0))
        self._warps.histogram.fill(0)
        return counts

    def written(self) -> tuple[cp.ndarray, cp.ndarray]:
        """Return sizes and members of the cliques written by the last quantum, as views valid until the next one."""
        end = self._written_end
        n_members = end & layout.MEMBERS_MASK
        return self._output.sizes[: end >> layout.CLIQUES_SHIFT], self._output.members[:n_members]

    def take_written(self) -> tuple[cp.ndarray, cp.ndarray]:
        """Return the same for the caller to keep: copies, or the members themselves if they nearly fill their array."""
        sizes, members = self.written()
        if members.size < _MOST_OF_IT * self._output.members.size:
            return sizes.copy(), members.copy()
        self._output = self._output._replace(members=None)
        return sizes.copy(), members

    @property
    def _written_end(self) -> int:
        """Cliques and members written by the last quantum, in the form of `OUTPUT_TOP`."""
        return min(int(self._control[layout.OUTPUT_TOP]), int(self._control[layout.OUTPUT_END]))

    def _finish(self) -> None:
        """Note the end, and check the numbers of cliques; all pages are empty."""
        self.is_over, self._n_roots_done, self.unfinished = True, self.n_roots_taken, self.unfinished[:0]
        if self._is_written and self._n_written != self._n_found:
            raise RuntimeError(
                f"{self._n_found:,} cliques were found and {self._n_written:,} written, an error of the CUDA engine: "
                "use the engine cpu, and please report this with the graph"
            )

    def make_room(self) -> None:
        """Make room after a quantum that ended early, or note that the search is over.

        Raises
        ------
        MemoryBudgetExceeded
            A larger pool does not fit the budget.
        RuntimeError
            The search is over, but the numbers of written and found cliques differ.
        """
        pending, kept = self._state[:, layout.PENDING_NODE], self._kept
        roots_left = int(self._control[layout.NEXT_ROOT]) < self._n_turns
        is_all_written = (self._state[:, layout.PAGE] == 0).all()
        if kept.n == 0 and (pending == layout.NOTHING).all() and not roots_left and is_all_written:
            self._finish()
            return
        output, plan = (self._plan.members, self._plan.cliques), self._with_room(kept.n_words, kept.n)
        self._move_together(kept, plan, (self._budget - plan.total_bytes) // 4)
        self._warps.state[:, layout.PENDING_NODE] = cp.asarray(kept.numbers(pending))
        if (self._plan.members, self._plan.cliques) != output:
            # Free the old output before the larger one is allocated.
            self._output = self._output._replace(members=None, sizes=None)
            self._output = Output(cp.empty(self._plan.members, cp.int32), cp.empty(self._plan.cliques, cp.int32))

    def _with_room(self, n_words: int, n_nodes: int) -> MemoryPlan:
        """Return the plan, enlarged if kept nodes and shortages would take more than half of the memory."""
        plan: MemoryPlan = self._plan.with_room(n_words + int(self._control[layout.NEEDED]), n_nodes, self._control)
        if int(self._control[layout.OUTPUT_NEEDED]) > plan.members:
            plan = replace(plan, members=int(self._control[layout.OUTPUT_NEEDED]))
        needed = plan.total_bytes + 4 * n_words
        if plan is not self._plan and needed > self._budget:
            raise budget_refusal("the search", needed, self._budget, " to go on")
        is_full = int(self._control[layout.STATUS]) & layout.OUTPUT_FULL
        return plan.with_more_output(self._budget) if is_full else plan

    def _settings(self) -> np.ndarray:
        settings = self._plan.settings(layout.N_SETTINGS)
        settings[layout.MIN_SIZE], settings[layout.MAX_SIZE] = self._size_limits
        settings[layout.N_LARGE] = self._n_large
        return settings


@dataclass(frozen=True, slots=True, eq=False)
class SearchRequest:
    """A search's task and resources.

    Attributes
    ----------
    graph : UndirectedCSR
        The graph, with at least one vertex.
    roots : RootOrder
    mode : int
        `layout.COUNT`, `SIZES` or `MEMBERS`.
    size_limits : tuple of int
        Fewest and most members, not counting required vertices.
    budget : int
        Bytes of device memory.
    wanted : (n,) int64 or None
        The roots to search; None for all.
    sizes : dict
        Fields of the `MemoryPlan` to override.
    techniques : int
        `Techniques.kernel_mask`.
    most_saved : int
        Most bytes of saved work.
    n_copies : int
        As in `MemoryPlan`.
    work : dict or None
        Saved work; `wanted` then has additional roots.
    """

    graph: UndirectedCSR
    roots: RootOrder
    mode: int
    size_limits: tuple[int, int]
    budget: int
    wanted: np.ndarray | None
    sizes: dict[str, Any]
    techniques: int
    most_saved: int
    n_copies: int = 0
    work: Arrays | None = None


def form_of(mode: int) -> str:
    """Return the form of saved work for a mode (`OpenWork.form`)."""
    return f"cliques, cuda {saved_work.VERSION}, mode {mode}"


class Search(SavingSearch[Session]):
    """A search on the current device.

    Parameters
    ----------
    request : SearchRequest
    """

    def __init__(self, request: SearchRequest) -> None:
        self._roots = request.roots
        graph, budget = request.graph, request.budget
        with device_work(budget):
            prepared = prepare(graph, resident_blocks(), budget)
            if request.wanted is not None and request.work is None:
                prepared = prepared.with_roots(request.roots.order[request.wanted])
            of_graph = (graph.n_edges, prepared.most_later, prepared.most_neighbours)
            facts = SearchSizes(*of_graph, request.mode, request.n_copies)
            plan = replace(plan_memory(facts, kernel_blocks(), budget), **request.sizes)
            session = Session(prepared, request.mode, request.size_limits, plan, budget, request.techniques)
        super().__init__(session, budget, lambda: self._roots.identity, form_of(request.mode), request.most_saved)
        if request.work is not None:
            others = self._vertices(np.empty(0, np.int32) if request.wanted is None else request.wanted)
            saved_work.check(request.work, facts, graph.n)
            self.works = [with_roots(request.work, saved_work.roots_of(request.work), others)]

    @cached_property
    def costs(self) -> np.ndarray:
        """Expected work below each root."""
        return self.work_below[self._roots.order]

    @cached_property
    def work_below(self) -> np.ndarray:
        """Expected work below each vertex."""
        return task_costs(self.session.later_neighbours())

    def _ahead(self) -> np.ndarray | None:
        vertices = self.session.roots_ahead()
        return self.roots_of(vertices) if vertices.size else None

    def _vertices(self, roots: np.ndarray) -> np.ndarray:
        return self._roots.order[roots]

    def roots_of(self, vertices: np.ndarray) -> np.ndarray:
        """Return the roots for vertices, as in `HeldSearch`."""
        return self._roots.ranks[vertices]

    def remaining(self, roots: np.ndarray) -> tuple[Task, ...]:
        """Return the tasks of these roots."""
        return tasks_from(roots, self._roots.identity, self.costs)

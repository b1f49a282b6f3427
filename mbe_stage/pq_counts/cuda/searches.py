"""Search a core on the device, whole or in parts: all searches are planned first, then run one after the other.

The memory of the whole search is known before anything is copied to the device. If it exceeds the budget, the host
takes the core and cuts it into parts (`pq_counts.partition`). One part at a time is on the device, while the host
writes the lists of the next part.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import cupy as cp
import numpy as np

from mbe_stage.device import WARPS_PER_BLOCK
from mbe_stage.device.graph import copy_bytes, on_device, on_host
from mbe_stage.device.grid import SHORT
from mbe_stage.device.launch import resident_blocks
from mbe_stage.device.mapped import mapped_copy
from mbe_stage.device.memory_budget import device_work
from mbe_stage.errors import MemoryBudgetExceeded
from mbe_stage.graphs.bipartite import BipartiteCSR
from mbe_stage.pq_counts import reduction
from mbe_stage.pq_counts.cuda import saved_work
from mbe_stage.pq_counts.cuda.kernels import kernel_blocks
from mbe_stage.pq_counts.cuda.layout import Graph
from mbe_stage.pq_counts.cuda.low_memory_prepare import in_order, peeled, peeling_bytes
from mbe_stage.pq_counts.cuda.memory_plan import (
    MemoryPlan,
    SearchSizes,
    bytes_with_blocks,
    key_layout,
    least_bytes,
    plan_memory,
    prices_of,
)
from mbe_stage.pq_counts.cuda.prepare import DeviceGraph, preparation_bytes, prepare
from mbe_stage.pq_counts.cuda.rank_windows import SHORT_LIST
from mbe_stage.pq_counts.cuda.session import Session
from mbe_stage.pq_counts.cuda.techniques import WINDOWS, Techniques
from mbe_stage.pq_counts.cuda.wedge_session import PAIR, WedgeSession, WindowSettings, wedge_bytes, wedges_of
from mbe_stage.pq_counts.cuda.wedges import wedge_blocks
from mbe_stage.pq_counts.ordering import roots_are_left, row_lists
from mbe_stage.pq_counts.partition import Core, Fewest, GraphPart, PartLists, compile_steps, core_of, cut, lists_of
from mbe_stage.pq_counts.reduction import Reduced, reduced
from mbe_stage.runtime.compile_ahead import compile_ahead
from mbe_stage.search.cuda.plan import QUANTUM_SECONDS
from mbe_stage.search.cuda.saved_work import Arrays

MOST_EDGES = 1 << 31
_MICROSECONDS = 1_000_000
ROWS_PER_PATH, _UNEVEN = 128, 16
"""Limits for wedges (visited rows per path) and for the kernel in windows (paths of the heaviest root, relative to an
average warp). Measured on an H200, relative to the time of the other search: wedges take 0.8 at 35 to 48 rows per path
(youtube, github_half, bookcrossing), and 1.6 at 877 (actor_movies). The kernel in windows takes 0.42 at 56 times the
average (kddcup99_onehot), 1 at 1 to 6 times, and 2 at 0.3 times (actor_movies)."""


@dataclass(frozen=True, slots=True, eq=False)
class Job:
    """Data that all searches share.

    Attributes
    ----------
    part : Reduced
        The part of the graph to choose vertices from.
    budget : int
        Device memory in bytes.
    overrides : dict
        Fields of each `MemoryPlan` to replace, for tests.
    techniques : Techniques
    facts : dict
        Statistics; times and sizes are added.
    """

    part: Reduced
    budget: int
    overrides: dict[str, Any]
    techniques: Techniques
    facts: dict[str, int] = field(default_factory=dict)

    @property
    def is_searched(self) -> bool:
        """True if some counts do not follow from degrees."""
        return self.part.max_p >= 2 and self.part.max_q >= 2

    @property
    def fewest(self) -> tuple[int, int]:
        """Left and right vertices of the smallest biclique."""
        return max(2, self.part.min_p), max(2, self.part.min_q)

    def size_bounds(self, rows_are_left: bool) -> tuple[int, int, int, int]:
        """Return the fewest and most rows, and the fewest and most columns."""
        of_left, of_right = (self.fewest[0], self.part.max_p), (self.fewest[1], self.part.max_q)
        return (*of_left, *of_right) if rows_are_left else (*of_right, *of_left)

    def add_facts(self, **facts: int) -> None:
        """Add to the facts."""
        for name, number in facts.items():
            self.facts[name] = self.facts.get(name, 0) + number

    def add_session_facts(self, session: Session | WedgeSession) -> None:
        """Add a session's statistics; for memory sizes, keep the largest."""
        for name, number in session.statistics.items():
            if name in ("warps", "plan_bytes", "nodes", "pool_words"):
                self.facts[name] = max(number, self.facts.get(name, 0))
            else:
                self.add_facts(**{name: number})

    def add_time(self, name: str, began: float) -> None:
        """Add the microseconds since `began`, by `time.perf_counter`."""
        self.add_facts(**{name: round(_MICROSECONDS * (time.perf_counter() - began))})


class AllocatedSearch(NamedTuple):
    """A search with allocated memory.

    Attributes
    ----------
    session : Session
    before, share : float
        Shares of the work of all searches: earlier searches, and this one.
    n_rows_later : int
        The wanted rows before this number are roots of later searches; 0 without later searches.
    """

    session: Session | WedgeSession
    before: float
    share: float
    n_rows_later: int = 0


def core_within(job: Job) -> WholeCore | CoreInParts | None:
    """Plan the search of a core, whole if it fits the budget, otherwise in parts; None if the core is empty.

    Raises
    ------
    MemoryBudgetExceeded
        The graph has more edges than the engine can number.
    """
    graph = job.part.graph
    if graph.n_edges >= MOST_EDGES:
        raise MemoryBudgetExceeded(
            f"the graph has {graph.n_edges:,} edges, and the engine cuda numbers fewer than {MOST_EDGES:,}: "
            "use the engine cpu"
        )
    with device_work(job.budget):
        if preparation_bytes(graph) <= job.budget:
            most = job.part.max_p, job.part.max_q
            prepared = prepare(graph, job.fewest, most, resident_blocks(), job.techniques)
            if prepared is None:
                return None
            whole = WholeCore(prepared, job)
            if whole.fits:
                return whole
            del prepared, whole
        if peeling_bytes(graph) <= job.budget:
            return _in_little_memory(job)
    return _on_the_host(job)


def _in_little_memory(job: Job) -> WholeCore | CoreInParts | None:
    """Plan the search of the whole core, with lists in host memory if they do not fit; otherwise in parts."""
    graph, room = _reachable(job)
    most = job.part.max_p, job.part.max_q
    core = peeled(graph, job.fewest, most, resident_blocks(), job.techniques)
    if core is None:
        return None
    if core.least_bytes <= room:
        make_way(core.least_bytes + core.list_bytes, room)
        fewest_columns = job.size_bounds(core.rows_are_left)[2]
        whole = WholeCore(in_order(core, fewest_columns, room, room * 3 // 4), job)
        if whole.fits:
            return whole
    return _on_the_host(job)


def _reachable(job: Job) -> tuple[BipartiteCSR, int]:
    """Make the graph readable for kernels, in host memory if necessary; return it with the remaining budget."""
    graph = job.part.graph
    if not graph.is_on_host:
        return graph, job.budget
    n_bytes = copy_bytes(graph)
    if n_bytes + peeling_bytes(graph) <= job.budget // 2:
        return on_device(graph), job.budget - n_bytes
    members = mapped_copy(graph.left_members), mapped_copy(graph.right_members)
    offsets = mapped_copy(graph.left_offsets), mapped_copy(graph.right_offsets)
    return BipartiteCSR(graph.n_left, graph.n_right, offsets[0], members[0], offsets[1], members[1]), job.budget


class WholeCore:
    """One search of the whole core.

    Attributes
    ----------
    rows_are_left : bool
    vertices : (n_rows,) int64
        The vertex of the job's graph of each row.
    """

    def __init__(self, graph: DeviceGraph, job: Job) -> None:
        self.rows_are_left, self._graph, self._job = graph.rows_are_left, graph, job
        self._size_bounds = job.size_bounds(graph.rows_are_left)
        self._sizes = SearchSizes(
            graph.n_rows,
            int(graph.lists.row_members.size),
            graph.max_row_degree,
            graph.max_column_degree,
            graph.max_matrix_rows,
            graph.max_node_words,
            self._size_bounds[1],
            self._size_bounds[3],
        )
        # Wedges visit all later rows of a root, which takes too long if there are few paths.
        are_dense = graph.is_low_memory or graph.n_rows**2 <= 2 * ROWS_PER_PATH * graph.n_paths
        self._is_of_pairs = job.techniques.wedges and self._size_bounds[1] == PAIR and are_dense
        budget, n_blocks = job.budget - graph.list_bytes, kernel_blocks()
        self._is_short = graph.is_low_memory or budget < bytes_with_blocks(self._sizes, n_blocks)
        # One warp makes the matrix of a root. For a heavy root it is faster in windows; the others would wait for it.
        is_uneven = graph.max_paths * WARPS_PER_BLOCK * n_blocks > _UNEVEN * graph.n_paths
        self._is_windowed = self._is_short or is_uneven
        if self._is_windowed:
            # Kernels that count in windows have no array of all rows, and search for positions.
            self._sizes = replace(self._sizes, is_windowed=True)
            self._graph = replace(graph, lists=graph.lists._replace(positions=cp.empty(1, cp.int64)))

    @property
    def vertices(self) -> np.ndarray:
        """The vertex of each row, copied from the device."""
        return cp.asnumpy(self._graph.vertices).astype(np.int64)

    @property
    def paths(self) -> np.ndarray:
        """Two-step paths from each row to later ones, (n_rows,) int64; copied from the device."""
        return cp.asnumpy(self._graph.paths)

    @property
    def fits(self) -> bool:
        """True if the lists and the smallest plan fit the budget."""
        of_pairs = wedge_bytes(self._graph.max_row_degree) + 4 * self._graph.n_rows
        least = of_pairs if self._is_of_pairs else least_bytes(self._sizes)
        return self._graph.list_bytes + least <= self._job.budget

    @property
    def form(self) -> str:
        """The form of saved work; empty for two rows, where a root is a single task."""
        return "" if self._size_bounds[1] == PAIR else saved_work.form_of(key_layout(self._sizes))

    def check(self, work: Arrays) -> None:
        """Check saved work as in `saved_work.check`."""
        saved_work.check(work, self._sizes, key_layout(self._sizes))

    def searches(self, rows: np.ndarray | None) -> Generator[AllocatedSearch]:
        """Yield the search, with some rows as roots, or all for None.

        Raises
        ------
        MemoryBudgetExceeded
            Sizes and degrees are too large for the engine's keys.
        """
        job, n_entries = self._job, 2 * self._sizes.n_edges
        job.add_facts(parts=1, entries=n_entries, core_entries=n_entries)
        session, n_bytes = self._wedges() if self._is_of_pairs else self._planned()

        def begun() -> Session | WedgeSession:
            with device_work(job.budget):
                make_way(self._graph.list_bytes + n_bytes, job.budget)
                return session(self._graph.roots(rows, are_spread=self._is_short and not self._is_of_pairs))

        return (AllocatedSearch(begin(), 0.0, 1.0) for begin in (begun,))

    def _wedges(self) -> tuple[Callable[[Graph], WedgeSession], int]:
        """Return the function that begins the search, and the bytes it needs."""
        fewest, longest, n_rows = self._size_bounds[2], self._graph.max_row_degree, self._graph.n_rows
        seconds = self._job.overrides.get("quantum_seconds", QUANTUM_SECONDS)
        # Over the bus, neighbouring lanes should read neighbouring entries, so fewer lists are walked by one lane.
        short_list = SHORT if self._graph.mapped_bytes else SHORT_LIST
        size_bounds = WindowSettings(n_rows, fewest, longest, short_list, seconds)

        def begun(graph: Graph) -> WedgeSession:
            # Rows are in ascending degree, so their numbers are their ranks.
            shared = wedges_of(size_bounds, cp.arange(n_rows, dtype=cp.int32))
            return WedgeSession(graph, shared, wedge_blocks(), wedge_bytes(longest))

        return begun, wedge_bytes(longest) + 4 * n_rows

    def _planned(self) -> tuple[Callable[[Graph], Session], int]:
        """Return the function that begins a search with planned memory, and the bytes it needs."""
        job, budget = self._job, self._job.budget - self._graph.list_bytes
        techniques = job.techniques.kernel_mask | (WINDOWS if self._is_windowed else 0)
        keys = key_layout(self._sizes)
        plan = replace(plan_memory(self._sizes, kernel_blocks(), budget), **job.overrides)
        return lambda graph: Session(graph, self._size_bounds, keys, plan, budget, techniques), plan.total_bytes


def make_way(n_bytes: int, budget: int) -> None:
    """Free the unused memory of CuPy's pool if it would exceed the budget together with the next allocation."""
    pool = cp.get_default_memory_pool()
    if pool.free_bytes() + n_bytes > budget:
        pool.free_all_blocks()


def _on_the_host(job: Job) -> CoreInParts | None:
    """Take the core on the host, as the engine `cpu` does, and plan its search in parts."""
    compile_ahead((*reduction.compile_steps(), *compile_steps()))
    began = time.perf_counter()
    graph = job.part.graph if job.part.graph.is_on_host else on_host(job.part.graph)
    part = replace(job.part, graph=graph, left_ids=np.arange(graph.n_left), right_ids=np.arange(graph.n_right))
    core = reduced(part)
    if core.graph.n_edges == 0:
        return None
    are_left = not job.techniques.layer_choice or roots_are_left(core)
    lists, order = row_lists(core if are_left else core.swapped())
    fewest = Fewest(*(job.fewest if are_left else job.fewest[::-1]))
    found = CoreInParts(core_of(lists, fewest), (core.left_ids if are_left else core.right_ids)[order], are_left, job)
    job.add_time("host_us", began)
    return found


class CoreInParts:
    """A search for each part of a core, which stays on the host.

    Attributes
    ----------
    rows_are_left : bool
    vertices : (n_rows,) int64
        The vertex of the job's graph of each row.
    paths : (n_rows,) int64
        Two-step paths from each row to later ones.
    """

    def __init__(self, core: Core, vertices: np.ndarray, rows_are_left: bool, job: Job) -> None:
        self.vertices, self.rows_are_left, self.paths = vertices, rows_are_left, core.paths
        self._core, self._job = core, job
        size_bounds = job.size_bounds(rows_are_left)
        self._sizes = SearchSizes(
            core.paths.size,
            core.columns.size,
            int(np.diff(core.row_offsets).max()),
            int(np.diff(core.column_offsets).max()),
            0,
            0,
            size_bounds[1],
            size_bounds[3],
        )

    def searches(self, rows: np.ndarray | None) -> Generator[AllocatedSearch]:
        """Plan all searches and return a generator of them; each must end before the next begins.

        Raises
        ------
        MemoryBudgetExceeded
            The subtree of one row does not fit the budget; or sizes and degrees are too large for the engine's keys.
        """
        job, n_blocks = self._job, kernel_blocks()
        key_layout(self._sizes)
        began = time.perf_counter()
        parts = cut(self._core, prices_of(self._sizes, n_blocks, job.budget), rows)
        plans = [self._planned(part, n_blocks) for part in parts]
        job.add_time("host_us", began)
        n_entries = sum(part.sizes.n_root_entries + part.sizes.n_column_entries for part in parts)
        job.add_facts(parts=len(parts), entries=n_entries, core_entries=2 * self._sizes.n_edges)
        return self._begun(parts, plans)

    def _planned(self, part: GraphPart, n_blocks: int) -> MemoryPlan:
        found, budget = part.sizes, self._job.budget - part.sizes.list_bytes
        sizes = SearchSizes(
            found.n_rows,
            found.n_root_entries + found.n_column_entries,
            found.max_row_degree,
            found.max_column_degree,
            found.max_matrix_rows,
            found.max_node_words,
            self._sizes.most_rows,
            self._sizes.most_columns,
        )
        return replace(plan_memory(sizes, n_blocks, budget), **self._job.overrides)

    def _begun(self, parts: list[GraphPart], plans: list[MemoryPlan]) -> Generator[AllocatedSearch]:
        total, before = max(1, sum(part.sizes.paths for part in parts)), 0.0
        with ThreadPoolExecutor(1, thread_name_prefix="pq-parts") as ahead:
            coming = [ahead.submit(lists_of, self._core, part) for part in parts[:1]]
            for part, plan, following in zip(parts, plans, [*parts[1:], None], strict=True):
                began = time.perf_counter()
                lists = coming.pop().result()
                self._job.add_time("lists_us", began)
                if following is not None:
                    coming.append(ahead.submit(lists_of, self._core, following))
                share = part.sizes.paths / total
                # No reference to the session is kept, since the next session needs its memory. Parts are searched from
                # the last rows to the first.
                n_later = 0 if following is None else int(following.roots[-1]) + 1
                yield AllocatedSearch(self._session(part, plan, lists), before, share, n_later)
                before += share

    def _session(self, part: GraphPart, plan: MemoryPlan, lists: PartLists) -> Session:
        job, size_bounds, keys = self._job, self._job.size_bounds(self.rows_are_left), key_layout(self._sizes)
        began = time.perf_counter()
        with device_work(job.budget):
            # The previous part's arrays had other sizes: kept for reuse, they would only take memory.
            cp.get_default_memory_pool().free_all_blocks()
            graph = Graph(*map(cp.asarray, lists))
            job.add_time("transfer_us", began)
            return Session(
                graph, size_bounds, keys, plan, job.budget - part.sizes.list_bytes, job.techniques.kernel_mask
            )

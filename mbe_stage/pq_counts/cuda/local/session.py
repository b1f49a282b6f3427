"""Local counts on the device, cell by cell: the lists and sums of a cell, and a search for each modulus.

Numbers below 2^63 need one search. For larger ones there is a search for each prime of `digits.moduli`.

If barriers may be requested, a query is counted in rounds: local counts of a root are known once all cells are searched
below it, so a barrier can only follow all cells of some roots. A round counts below some roots for a while, and then
searches each cell below the same roots.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any, Protocol

import cupy as cp
import numpy as np

from mbe_stage.device.memory_budget import device_work
from mbe_stage.graphs.bipartite import BipartiteCSR
from mbe_stage.options import Execution
from mbe_stage.pq_counts.cpu.layout import MAX_COLUMNS, MAX_ROWS
from mbe_stage.pq_counts.cpu.local.cells import LocalSearch
from mbe_stage.pq_counts.cpu.local.cells import Sums as SumsOfCell
from mbe_stage.pq_counts.cpu.search import PlannedSearch
from mbe_stage.pq_counts.cpu.tree import later_paths
from mbe_stage.pq_counts.cuda.kernels import kernel_blocks
from mbe_stage.pq_counts.cuda.layout import Graph
from mbe_stage.pq_counts.cuda.local.kernels import local_kernel_for
from mbe_stage.pq_counts.cuda.local.layout import PAIRS_AT, PATH_AT, Scratch, Sums
from mbe_stage.pq_counts.cuda.local.memory_plan import LocalSizes
from mbe_stage.pq_counts.cuda.memory_plan import KeyLayout, MemoryPlan, key_layout
from mbe_stage.pq_counts.cuda.session import Session
from mbe_stage.pq_counts.cuda.techniques import ALL_TECHNIQUES
from mbe_stage.pq_counts.digits import digits_of_residues, moduli, ways_modulo
from mbe_stage.pq_counts.query import PqQuery
from mbe_stage.pq_counts.results import Detail, Leaves, PqBlock, PqSink
from mbe_stage.search.cpu.pool import Barrier
from mbe_stage.tasks import Remaining, positions, without

_SHORTEST_QUANTUM = 0.01
_SUMS_BYTES = 32
"""Bytes on the host for each sum: the number, and two copies of its digits."""
ROUND_SECONDS = 1.0
"""Least seconds that a round counts before it only finishes begun roots; short compared with the time between
checkpoints."""
TIMES_ITS_BEGINNING = 20.0
"""A round counts at least this many times as long as its first result takes, since each round prepares the graph."""
_BEFORE_THE_END = 0.999


class LocalSession(Session):
    """A search that adds up local counts; it reports no leaves.

    Parameters
    ----------
    graph : Graph
    size_bounds, keys, plan, budget_bytes
        As in `Session`.
    sizes : LocalSizes
    sums : Sums
        The sums to add to.
    """

    def __init__(
        self,
        graph: Graph,
        size_bounds: tuple[int, int, int, int],
        keys: KeyLayout,
        plan: MemoryPlan,
        budget_bytes: int,
        sizes: LocalSizes,
        sums: Sums,
    ) -> None:
        super().__init__(graph, size_bounds, keys, plan, budget_bytes, ALL_TECHNIQUES)
        n_warps, with_edges = plan.n_warps, sizes.edges
        self._sums, self._kernel = sums, local_kernel_for(with_edges)
        words = cp.empty((n_warps, sizes.scratch_words), cp.int64)
        words[:, PAIRS_AT:PATH_AT] = 0
        self._scratch = Scratch(words)

    def _bundles(self) -> tuple[Any, ...]:
        return (*super()._bundles(), self._scratch, self._sums)


def device_lists(lists: Any) -> Graph:
    """Copy the lists of a core to the device: all rows are roots, in descending number of two-step paths.

    Parameters
    ----------
    lists : cpu.layout.Lists
    """
    row_offsets, columns, column_offsets, rows = (cp.asarray(array) for array in lists)
    n_edges = columns.size
    entries = cp.arange(n_edges, dtype=cp.int64)
    by_column = cp.argsort(columns.astype(cp.int64) << 32 | entries)
    positions = cp.empty(n_edges, cp.int64)
    positions[by_column] = entries
    ends = cp.zeros(n_edges + 1, cp.int64)
    cp.cumsum(column_offsets[columns.astype(cp.int64) + 1] - positions - 1, out=ends[1:])
    paths = cp.diff(ends[row_offsets])
    order = cp.argsort(-paths).astype(cp.int32)
    return Graph(row_offsets, columns, positions, column_offsets, rows, order)


class DeviceCounting:
    """Adds the bicliques of one cell that contain each row, column and entry.

    Parameters
    ----------
    graph : Graph
    sizes : LocalSizes
        Sizes of the cell.
    count : int
        Number of bicliques.
    budget : int
        Bytes of device memory.
    overrides : dict
        Fields of the plan to replace, for tests.
    facts : dict
        Statistics of the warps are added to these.

    Attributes
    ----------
    n_nodes : int
        Number of nodes visited so far.

    Raises
    ------
    MemoryBudgetExceeded
        The search does not fit the budget.
    """

    def __init__(
        self,
        graph: Graph,
        sizes: LocalSizes,
        count: int,
        budget: int,
        overrides: dict[str, Any],
        facts: dict[str, int],
    ) -> None:
        self._graph, self._sizes, self._count, self._budget = graph, sizes, count, budget
        self._plan = replace(sizes.plan(kernel_blocks(), budget), **overrides)
        self._keys, self._facts = key_layout(sizes.search), facts
        self.n_nodes = 0

    def run(self, rows: np.ndarray | None, deadline: float = math.inf) -> Generator[tuple[SumsOfCell | None, float]]:
        """Search below some rows, or all: yield the finished share of the work, and the sums at the end.

        Parameters
        ----------
        rows : (n,) int64 or None
        deadline : float, optional
            Time limit by `time.perf_counter`. Sums until then are lower bounds; numbers that need several searches are
            unknown.
        """
        primes = moduli(self._count)
        found: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []
        for number, modulus in enumerate(primes):
            with device_work(self._budget):
                sums = self._empty_sums(modulus)
                session = self._session(rows, sums, deadline)
            while not session.is_over:
                with device_work(self._budget):
                    session.quantum()
                    if modulus:
                        for array in (sums.vertices, sums.edges, sums.total):
                            array %= modulus
                yield None, (number + session.share) / len(primes)
                if time.perf_counter() >= deadline:
                    break
            statistics = session.statistics
            self.n_nodes += statistics["visited"]
            for name, fact in statistics.items():
                self._facts[name] = self._facts.get(name, 0) + fact
            if not session.is_over and modulus:
                return
            found.append((cp.asnumpy(sums.total), cp.asnumpy(sums.vertices), cp.asnumpy(sums.edges)))
        yield self._result(found, primes), 1.0

    def _result(self, found: list[tuple[np.ndarray, np.ndarray, np.ndarray]], primes: list[int]) -> SumsOfCell:
        total, vertices, edges = (
            digits_of_residues(residues, primes, self._count) for residues in zip(*found, strict=True)
        )
        n_rows = self._sizes.search.n_rows
        return SumsOfCell(total, vertices[:n_rows], vertices[n_rows:], edges if self._sizes.edges else None)

    def _empty_sums(self, modulus: int) -> Sums:
        search = self._sizes.search
        return Sums(
            cp.zeros(search.n_rows + self._sizes.n_columns, cp.int64),
            cp.zeros(search.n_edges if self._sizes.edges else 1, cp.int64),
            cp.zeros(1, cp.int64),
            cp.asarray(ways_modulo(search.max_column_degree, search.most_rows, modulus)),
            cp.asarray(ways_modulo(search.max_row_degree, search.most_columns, modulus)),
            cp.asarray(np.array([modulus, search.n_rows, PATH_AT + self._sizes.most_path], np.int64)),
        )

    def _session(self, rows: np.ndarray | None, sums: Sums, deadline: float) -> LocalSession:
        graph, plan, search = self._graph, self._plan, self._sizes.search
        if rows is not None:
            is_wanted = cp.zeros(search.n_rows, cp.bool_)
            is_wanted[cp.asarray(rows)] = True
            graph = graph._replace(order=cp.ascontiguousarray(graph.order[is_wanted[graph.order]]))
        # Half of the remaining time at most, so that a quantum ends before the deadline.
        left = max(_SHORTEST_QUANTUM, (deadline - time.perf_counter()) / 2)
        plan = replace(plan, quantum_seconds=min(plan.quantum_seconds, left))
        size_bounds = (search.most_rows, search.most_rows, search.most_columns, search.most_columns)
        return LocalSession(
            graph, size_bounds, self._keys, plan, self._budget - self._sizes.fixed_bytes, self._sizes, sums
        )


class DeviceLocalSearch(LocalSearch):
    """Local counts of each vertex, and of each edge.

    Parameters
    ----------
    graph : BipartiteCSR
        The user's graph, on the host.
    query : PqQuery
    search : PlannedSearch
        The search for the counts of the same query.
    execution : Execution
        Options; the memory budget limits the tables, which are on the host.
    detail : Detail
        Vertices, or vertices and edges.
    device_budget : int
        Bytes of device memory.
    overrides : dict
        Fields of each plan to replace, for tests.

    Attributes
    ----------
    facts : dict
        Statistics of the warps, summed over all cells.

    Raises
    ------
    MemoryBudgetExceeded
        The tables exceed the host's budget, or a search exceeds the device's.
    """

    def __init__(
        self,
        graph: BipartiteCSR,
        query: PqQuery,
        search: PlannedSearch,
        execution: Execution,
        detail: Detail,
        device_budget: int,
        overrides: dict[str, Any],
    ) -> None:
        self._device_budget, self._overrides = device_budget, overrides
        self.facts: dict[str, int] = {}
        self._paths = later_paths(search.lists)
        self._on_device: Graph | None = None
        super().__init__(graph, query, search, execution, detail)

    def let_go(self) -> None:
        """Free the device memory that is kept between calls of `blocks`."""
        self._on_device = None

    def _beside(self) -> tuple[str, str]:
        return "", ""

    def _counting(self, cell: tuple[int, int], count: int) -> Any:
        if self._on_device is None:
            with device_work(self._device_budget):
                self._on_device = device_lists(self._search.lists)
        return DeviceCounting(
            self._on_device, self._sizes(cell), count, self._device_budget, self._overrides, self.facts
        )

    def _bytes_of_counting(self, cell: tuple[int, int]) -> int:
        sizes = self._sizes(cell)
        sizes.check(self._device_budget)
        return _SUMS_BYTES * sizes.n_sums

    def _sizes(self, cell: tuple[int, int]) -> LocalSizes:
        lists, size_bounds = self._search.lists, self._size_bounds(cell)
        most = int(size_bounds[MAX_ROWS]), int(size_bounds[MAX_COLUMNS])
        return LocalSizes.of(lists.row_offsets, lists.column_offsets, self._paths, most, edges=self._edges)


class LocalBlocks(Protocol):
    """The interface of `DeviceLocalSearch`: searches all cells below some rows."""

    n_searched: int

    def blocks(
        self,
        pieces: np.ndarray | None,
        counts: dict[tuple[int, int], int],
        work_done: float,
        deadline: float,
        *,
        is_first: bool,
    ) -> Iterator[PqBlock]:
        """Yield the local counts of the rows."""

    def let_go(self) -> None:
        """Free the device memory that is kept between calls."""


@dataclass(frozen=True, slots=True, eq=False)
class Rounds:
    """Runs the counts first, which show how large the numbers get, and then the local counts.

    Attributes
    ----------
    counted : callable
        Function that counts below some tasks, or all for None, with its own barrier; returns a generator of blocks.
    query : PqQuery
    local : LocalBlocks
    ranges : callable
        Function that returns the ranges of some tasks, or of all for None. Root 0 stands for the counts known from
        degrees.
    deadline : float
        Time limit by `time.perf_counter`.
    """

    counted: Callable[[Remaining | None, Barrier | None], Generator[PqBlock]]
    query: PqQuery
    local: LocalBlocks
    ranges: Callable[[Remaining | None], list[tuple[int, int]]]
    deadline: float

    def blocks(self, tasks: Remaining | None, barrier: Barrier | None) -> Iterator[PqBlock]:
        """Yield the results below some tasks, or all for None; in one round, unless barriers may be requested."""
        done = 0.0
        while True:
            remaining: Remaining | None = None
            for block in self._round(tasks, is_requested=barrier is not None):
                remaining = block.remaining
                if remaining is None:
                    yield replace(block, work_done=done + (1.0 - done) * block.work_done)
                else:
                    done += (1.0 - done) * block.work_done
            if remaining is None or barrier is None:
                return
            self.local.let_go()
            if time.perf_counter() > self.deadline:
                # Local counts may be incomplete; a share below 1 tells the caller that work was left.
                yield PqBlock(Leaves.none(), work_done=min(_BEFORE_THE_END, done))
                return
            if barrier.is_requested:
                barrier.reached()
                yield PqBlock(Leaves.none(), work_done=done, remaining=remaining)
            tasks = remaining

    def _round(self, tasks: Remaining | None, *, is_requested: bool) -> Iterator[PqBlock]:
        """Run one round; the last block has the remaining tasks, if any."""
        # Estimated as if each cell took as long as all counts together; it takes longer.
        share, found = 1.0 / (1 + self.local.n_searched), PqSink(self.query)
        own, last = Barrier() if is_requested else None, PqBlock(Leaves.none(), work_done=1.0)
        began, until = time.perf_counter(), math.inf
        with closing(self.counted(tasks, own)) as counted:
            for block in counted:
                if until == math.inf:
                    now = time.perf_counter()
                    until = now + max(ROUND_SECONDS, TIMES_ITS_BEGINNING * (now - began))
                if block.remaining is not None:
                    last = block
                    break
                found.accept(block)
                yield replace(block, work_done=share * block.work_done)
                if own is not None and time.perf_counter() > until:
                    own.ask()
        counted_ranges = self.ranges(tasks)
        if last.remaining is not None:
            counted_ranges = without(counted_ranges, self.ranges(last.remaining))
        is_first = bool(counted_ranges) and counted_ranges[0][0] == 0
        rows = positions(counted_ranges) - 1
        # None stands for all rows.
        wanted = None if tasks is None and last.remaining is None else rows[rows >= 0]
        for block in self.local.blocks(wanted, found.counts(), share, self.deadline, is_first=is_first):
            yield replace(block, work_done=last.work_done * block.work_done)
        if last.remaining is not None:
            yield last

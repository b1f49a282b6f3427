"""The CPU engine: leaves of a search tree with pivots, counted by all cores.

The steps: count what follows from degrees (`pq_counts.reduction`); take the core; choose the side of the roots and
their order (`pq_counts.ordering`); cut the roots into task ranges of similar cost; count these with threads
(`cpu.workers`, `cpu.tree`, `cpu.frame_walk`). For local counts, each cell is searched a second time (`cpu.local`),
because the counts show how large the numbers get.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from mbe_stage.graphs.bipartite import BipartiteCSR
from mbe_stage.options import Execution
from mbe_stage.pq_counts import reduction
from mbe_stage.pq_counts.cpu import leaves, tree
from mbe_stage.pq_counts.cpu.local import cells
from mbe_stage.pq_counts.cpu.local.cells import LocalSearch
from mbe_stage.pq_counts.cpu.search import PlannedSearch, task_ranges_of
from mbe_stage.pq_counts.cpu.workers import Counting
from mbe_stage.pq_counts.query import PqQuery
from mbe_stage.pq_counts.results import Detail, Leaves, PqBlock, PqSink
from mbe_stage.runtime.compile_ahead import CompileStep, compile_ahead
from mbe_stage.search.cpu.pool import Barrier, device, unavailable_reason
from mbe_stage.tasks import Task, cut, ranges_of, split

__all__ = [
    "ENDS_ITSELF",
    "TAKES_BARRIER",
    "compile_steps",
    "device",
    "prepare",
    "run",
    "tasks_of",
    "unavailable_reason",
]

ENDS_ITSELF = TAKES_BARRIER = True

# If barriers may be requested, the roots are counted in about this many parts, one after the other. Threads are idle at
# the end of each part, so there are few parts.
_N_PARTS = 16
# Only the empty block at the end reports that all work is done.
_BEFORE_THE_END = 0.999


def compile_steps(query: PqQuery | None = None, detail: Detail | None = None) -> tuple[CompileStep, ...]:  # noqa: ARG001
    """Return the steps to compile for `run` and any query; without local counts if `detail` is `Detail.COUNTS`."""
    local = () if detail == Detail.COUNTS else cells.compile_steps()
    return (*tree.compile_steps(), *leaves.compile_steps(), *reduction.compile_steps(), *local)


def run(
    graph: BipartiteCSR,
    query: PqQuery,
    execution: Execution,
    detail: Detail,
    tasks: Iterable[Task] | None = None,
    *,
    prepared: PlannedSearch | None = None,
    barrier: Barrier | None = None,
    on_visited: Callable[[int], None] | None = None,
) -> Iterator[PqBlock]:
    """Yield the leaves of all (p, q)-bicliques of `query`, then the local counts cell by cell.

    Parameters
    ----------
    detail : Detail
        Above `Detail.COUNTS`, each cell has at least one block with the numbers of all vertices (and edges).
    tasks : iterable of Task, optional
        The part to search, made by `tasks_of` for the same graph and query; all by default.
    prepared : PlannedSearch, optional
        Result of `prepare` for the same graph and query.
    barrier : Barrier, optional
        If a barrier is requested, an empty block with the remaining tasks is yielded (`PqBlock.remaining`).
    on_visited : callable, optional
        Called at the end with the number of visited nodes.

    Raises
    ------
    InvalidArgument
        Tasks belong to another graph or query, or overlap.
    MemoryBudgetExceeded
        Working memory exceeds the budget. The tables of all vertices and edges are checked in advance, except for
        numbers above 64 bits.
    """
    # Measured from here, like the caller's limit: workers deliver their results before it is reached.
    deadline = time.perf_counter() + (execution.time_limit_seconds or math.inf)
    search = prepare(graph, query) if prepared is None else prepared
    ranges = ranges_of(tasks, search.roots(graph, query))
    local = LocalSearch(graph, query, search, execution, detail) if detail > Detail.COUNTS else None
    parts = [ranges] if barrier is None or not ranges else _parts(search.costs, ranges)
    counted = _Counted(search, query, execution, local, deadline)
    cost_of = [sum(float(search.costs[first:end].sum()) for first, end in part) for part in parts]
    done, total = 0.0, max(1e-9, sum(cost_of))
    for k, (part, cost) in enumerate(zip(parts, cost_of, strict=True)):
        for block in counted.blocks(part):
            yield replace(block, work_done=min(1.0, (done + cost * block.work_done) / total))
        done += cost
        left = [each for later in parts[k + 1 :] for each in later]
        if left and time.perf_counter() > deadline:
            # An unfinished share tells the caller that work was left.
            yield PqBlock(Leaves.none(), work_done=min(_BEFORE_THE_END, done / total))
            break
        if barrier is not None and barrier.is_requested and left:
            roots = search.roots(graph, query)
            remaining = tuple(Task(roots, *each, float(search.costs[slice(*each)].sum())) for each in left)
            barrier.reached()
            yield PqBlock(Leaves.none(), work_done=done / total, remaining=remaining)
    if on_visited is not None:
        on_visited(counted.n_nodes)
    yield PqBlock(Leaves.none(), work_done=1.0)


def _parts(costs: np.ndarray, ranges: Sequence[tuple[int, int]]) -> list[list[tuple[int, int]]]:
    """Cut ranges of roots into about `_N_PARTS` parts of similar cost."""
    total = max(1e-9, sum(float(costs[first:end].sum()) for first, end in ranges))
    parts = []
    for first, end in ranges:
        n = max(1, round(_N_PARTS * float(costs[first:end].sum()) / total))
        parts += [[(first + start, first + stop)] for start, stop in split(costs[first:end], n)]
    return parts


@dataclass(slots=True)
class _Counted:
    """Counts parts of the roots, one after the other."""

    search: PlannedSearch
    query: PqQuery
    execution: Execution
    local: LocalSearch | None
    deadline: float
    n_nodes: int = 0

    def blocks(self, ranges: Sequence[tuple[int, int]]) -> Iterator[PqBlock]:
        """Yield the leaves below some roots; each block reports the finished share of these roots."""
        search, execution, local = self.search, self.execution, self.local
        is_first = bool(ranges) and ranges[0][0] == 0
        # Each cell of local counts takes about as long as all counts together.
        share = 1.0 if local is None else 1.0 / (1 + local.n_searched)
        for known in search.known if is_first else ():
            yield PqBlock(known)
        task_ranges, found = task_ranges_of(search.costs, ranges, execution.worker_count), PqSink(self.query)
        counting = Counting(search.lists, search.size_bounds, execution.worker_count, execution.memory_budget_bytes)
        for counted, work_done in counting.run(task_ranges, self.deadline):
            block = PqBlock(search.leaves(counted), work_done=share * work_done)
            found.accept(block)
            yield block
        self.n_nodes += counting.n_nodes
        if local is not None:
            del counting
            before = local.n_nodes
            yield from local.blocks(task_ranges, found.counts(), share, self.deadline, is_first=is_first)
            self.n_nodes += local.n_nodes - before


def tasks_of(graph: BipartiteCSR, query: PqQuery, n: int) -> list[Task]:
    """Divide the whole work into at most `n` tasks of similar cost; a biclique belongs to its first row."""
    compile_ahead(compile_steps(query, Detail.COUNTS))
    search = prepare(graph, query)
    return cut(search.roots(graph, query), search.costs, n)


def prepare(graph: BipartiteCSR, query: PqQuery) -> PlannedSearch:
    """Prepare the search for any task."""
    return PlannedSearch(graph, query)

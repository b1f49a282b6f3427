"""The CPU engine: the search tree compiled by Numba, walked by all cores.

The steps: reduce the graph (`bicliques.reduction`); choose side and order (`bicliques.ordering`); cut the roots into
subproblems of similar cost; walk them with a pool of threads (`mbe_stage.search.cpu.pool`, `cpu.worker`, `cpu.tree`);
convert the results to the user's vertices (`cpu.twin_expansion`). All tasks of a search share the steps before the
walk. `prepare` does them once for a caller with several tasks.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from mbe_stage.bicliques import ordering, reduction
from mbe_stage.bicliques.constraints import MIN_EDGES, size_constraints
from mbe_stage.bicliques.cpu import tree, twin_expansion
from mbe_stage.bicliques.cpu.layout import without_ids
from mbe_stage.bicliques.cpu.worker import FirstSizes, Plan, Worker, count_small
from mbe_stage.bicliques.ordering import Arranged, arranged
from mbe_stage.bicliques.query import BicliqueQuery
from mbe_stage.bicliques.reduction import core_of, whole
from mbe_stage.bicliques.results import BicliqueBlock, Detail
from mbe_stage.graphs.bipartite import BipartiteCSR
from mbe_stage.options import Execution
from mbe_stage.runtime.compile_ahead import CompileStep, compile_ahead
from mbe_stage.runtime.jit import steps_of
from mbe_stage.search.cpu.pool import Barrier, WorkerPool, device, subproblems_of, unavailable_reason
from mbe_stage.tasks import Roots, Task, cut, ranges_of

__all__ = ["TAKES_BARRIER", "compile_steps", "device", "prepare", "run", "tasks_of", "unavailable_reason"]

log = logging.getLogger(__name__)

TAKES_BARRIER = True
"""See `mbe_stage.engines`."""

_FIRST_SIZES: FirstSizes = (1 << 16, 1 << 15, 64)
_SUBPROBLEMS_PER_THREAD = 32
# Least cost of a subproblem, and of one that is only counted, which takes less time: smaller ones are not worth their
# calls.
_SUBPROBLEM_COST, _COUNTED_COST = 1 << 18, 1 << 20
# A search below this cost takes a fraction of a millisecond; only graphs with few edges may be below. It needs less
# memory than this budget.
_SMALL_COST, _FEW_EDGES, _SMALL_BYTES = 65536.0, 4096, 1 << 20
# Blocks per thread at the same time: its output, one waiting, one being expanded, and the expansion.
_BLOCKS_PER_THREAD = 4


@dataclass(frozen=True, eq=False)
class Prepared:
    """A prepared search, for any of its tasks.

    Attributes
    ----------
    arranged : Arranged
        The graph to walk. Roots that have no row in it have no results.
    read_roots : callable
        Returns the roots for tasks. This reads all edges, so it is called only if there are tasks.
    """

    arranged: Arranged
    read_roots: Callable[[], Roots]

    @functools.cached_property
    def roots(self) -> Roots:
        """The roots of the search, for tasks."""
        return self.read_roots()

    def rows_of(self, tasks: Iterable[Task] | None) -> list[tuple[int, int]]:
        """Return the ranges of rows of the tasks, or of all rows."""
        if tasks is None:
            return [(0, self.arranged.rows.n)]
        return [
            tuple(np.searchsorted(self.arranged.places, range_).tolist()) for range_ in ranges_of(tasks, self.roots)
        ]

    def task_of(self, first: int, end: int) -> Task:
        """Return the task of a non-empty range of rows."""
        places, cost = self.arranged.places, float(self.arranged.costs[first:end].sum())
        return Task(self.roots, int(places[first]), int(places[end - 1]) + 1, cost)


def compile_steps(query: BicliqueQuery | None = None, detail: Detail | None = None) -> tuple[CompileStep, ...]:  # noqa: ARG001
    """Return the steps to compile for `run` with a detail, or all steps of this engine without one."""
    return _steps(detail)


@functools.cache
def _steps(detail: Detail | None) -> tuple[CompileStep, ...]:
    searches = () if detail == Detail.COUNT else tree.compile_steps(detail is None or detail >= Detail.MEMBERS)
    if detail in (None, Detail.COUNT):
        searches = (*searches, *(replace(step, compile=_compile_counting) for step in steps_of(count_small)))
    expansion = twin_expansion.compile_steps(Detail.MEMBERS if detail is None else detail)
    return (*searches, *expansion, *reduction.compile_steps(), *ordering.compile_steps())


def _compile_counting() -> None:
    """Compile the walk that counts before the function that contains it: two processes would both compile the walk."""
    for step in (*tree.compile_steps(collects=False), *steps_of(count_small)):
        step.compile()


def run(
    graph: BipartiteCSR,
    query: BicliqueQuery,
    execution: Execution,
    detail: Detail,
    tasks: Iterable[Task] | None = None,
    *,
    barrier: Barrier | None = None,
    prepared: Prepared | None = None,
    first_sizes: FirstSizes | None = None,
    on_visited: Callable[[int], None] | None = None,
    least_edges: Callable[[], int] | None = None,
) -> Iterator[BicliqueBlock]:
    """Yield every maximal biclique of `graph` that satisfies `query`, in blocks.

    Parameters
    ----------
    tasks : iterable of Task, optional
        The part to search, made by `tasks_of` for the same graph and query; all by default.
    barrier : Barrier, optional
        If a barrier is requested, an empty block with the remaining tasks is yielded (`BicliqueBlock.remaining`).
    prepared : Prepared, optional
        Result of `prepare` for the same graph and query.
    first_sizes : FirstSizes, optional
        Initial sizes of a worker's arenas, which grow as needed; for tests.
    on_visited : callable, optional
        Called at the end with the number of visited nodes; for the ablation benchmark.
    least_edges : callable, optional
        Called after each block; returns a minimum number of edges, which may rise, in place of the query's.

    Raises
    ------
    InvalidArgument
        Tasks belong to another graph or query, or overlap.
    MemoryBudgetExceeded
        Working memory and output blocks do not fit the budget.
    """
    has_tasks = tasks is not None or barrier is not None
    if detail == Detail.COUNT and not has_tasks and prepared is None and first_sizes is None:
        n_found, n_visited = _count_if_small(graph, query, execution)
        if n_found >= 0:
            if on_visited is not None:
                on_visited(n_visited)
            yield BicliqueBlock(n_found, work_done=1.0)
            return
    ready = prepare(graph, query, has_tasks=has_tasks) if prepared is None else prepared
    made = ready.arranged
    if detail == Detail.RIGHT and made.rows_are_left:
        # The columns are the right side, so their members are needed; those of rows are few.
        detail = Detail.MEMBERS
    total_cost, n_threads = made.costs.sum(), execution.worker_count
    plan = Plan(
        graph=made.node if detail != Detail.RIGHT else without_ids(made.node, made.columns.n),
        columns=made.columns,
        rows=made.rows,
        rows_are_left=made.rows_are_left,
        constraints=size_constraints(query, made.rows_are_left),
        detail=detail,
        block_bytes=min(execution.block_bytes, execution.memory_budget_bytes // (2 * _BLOCKS_PER_THREAD * n_threads)),
        first_sizes=first_sizes or _FIRST_SIZES,
    )

    def marker(left: list[tuple[int, int]]) -> BicliqueBlock:
        remaining = tuple(ready.task_of(first, end) for first, end in left)
        return BicliqueBlock.empty(detail, pool.work_done, remaining)

    least_cost = _COUNTED_COST if detail == Detail.COUNT else _SUBPROBLEM_COST
    n_subproblems = min(n_threads * _SUBPROBLEMS_PER_THREAD, 1 + int(total_cost / least_cost))
    subproblems = subproblems_of(made.costs, ready.rows_of(tasks), n_subproblems)
    pool = WorkerPool(subproblems, execution.memory_budget_bytes, barrier, marker)
    workers = [Worker(pool, plan) for _ in range(n_threads)]
    for block in pool.run([worker.work for worker in workers], "bicliques"):
        yield block
        # The walk tracks all sizes only if the query has a minimum from the beginning.
        if least_edges is not None and query.min_edges > 1:
            plan.constraints[MIN_EDGES] = max(plan.constraints[MIN_EDGES], least_edges())
    if on_visited is not None:
        on_visited(sum(worker.n_visited for worker in workers))
    yield BicliqueBlock.empty(detail, work_done=1.0)


def _count_if_small(graph: BipartiteCSR, query: BicliqueQuery, execution: Execution) -> tuple[int, int]:
    """Count bicliques and visited nodes if the search is small; return -1 for both if it is not."""
    if graph.n_edges >= _FEW_EDGES or execution.memory_budget_bytes < _SMALL_BYTES:
        return -1, -1
    # Making a core takes longer than the search.
    core = core_of(graph, query) if query.containing_left or query.containing_right else whole(graph, is_listed=False)
    constraints = size_constraints(query), size_constraints(query, is_swapped=True)
    return count_small(*core.arrays, constraints, _SMALL_COST)


def tasks_of(graph: BipartiteCSR, query: BicliqueQuery, n: int) -> list[Task]:
    """Divide the whole work into at most `n` tasks of similar cost.

    A maximal biclique belongs to the task with its first row, in the order of the roots.
    """
    compile_ahead((*reduction.compile_steps(), *ordering.compile_steps()))
    ready = prepare(graph, query)
    costs = np.zeros(ready.roots.n)
    costs[ready.arranged.places] = ready.arranged.costs
    return cut(ready.roots, costs, n)


def prepare(graph: BipartiteCSR, query: BicliqueQuery, *, has_tasks: bool = True) -> Prepared:
    """Prepare the search for any task: reduction, side, order, costs. The code for it must be compiled already.

    Parameters
    ----------
    has_tasks : bool
        False if the whole work is done at once; then the roots may differ from those of tasks.
    """
    core = core_of(graph, query, is_exact=has_tasks)
    searched = core.without_weak_edges(query, graph.n_edges)
    made = roots = arranged(searched if not has_tasks else core)
    if searched is not core and has_tasks:
        # Take the roots and their order from engines that keep these edges.
        made = arranged(searched, roots)
    return Prepared(
        made,
        read_roots=lambda: Roots.of(
            "bicliques",
            roots.rows.first_members,
            roots.rows_are_left,
            *query.identity,
            graph.n_right,
            graph.edges_checksum,
        ),
    )

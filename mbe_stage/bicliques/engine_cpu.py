"""The CPU engine: the search tree compiled by Numba, walked by all cores.

The order of work: reduce the graph (`bicliques.reduction`), choose side and order (`bicliques.ordering`), cut the roots
into subproblems of similar cost, let a pool of threads walk them (`mbe_stage.search.cpu.pool`, `cpu.worker`,
`cpu.tree`), turn the results back into the user's vertices (`cpu.twin_expansion`). All tasks of a search share the
steps before the walk: `prepare` does them once for a caller with several tasks.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from mbe_stage.bicliques import ordering, reduction
from mbe_stage.bicliques.constraints import MIN_EDGES, size_constraints
from mbe_stage.bicliques.cpu import techniques, tree, twin_expansion
from mbe_stage.bicliques.cpu.twin_expansion import Translation
from mbe_stage.bicliques.cpu.worker import FirstSizes, Plan, Worker, as_subgraph
from mbe_stage.bicliques.ordering import enumerates_left, rows_among, rows_by_degree, task_costs
from mbe_stage.bicliques.query import BicliqueQuery
from mbe_stage.bicliques.reduction import ReducedGraph, core_of
from mbe_stage.bicliques.results import BicliqueBlock, Detail
from mbe_stage.graphs.bipartite import BipartiteCSR
from mbe_stage.options import Execution
from mbe_stage.runtime.compile_ahead import CompileStep, compile_ahead
from mbe_stage.search.cpu.pool import Barrier, WorkerPool, device, subproblems_of, unavailable_reason
from mbe_stage.tasks import Roots, Task, cut, ranges_of

__all__ = ["TAKES_BARRIER", "compile_steps", "device", "prepare", "run", "tasks_of", "unavailable_reason"]

log = logging.getLogger(__name__)

TAKES_BARRIER = True
"""See `mbe_stage.engines`."""

_FIRST_SIZES: FirstSizes = (1 << 16, 1 << 15, 64)
_SUBPROBLEMS_PER_THREAD = 32
# A search of less is over in a fraction of a millisecond: several subproblems are not worth the calls.
_SMALL_COST = 1 << 16
# Blocks that exist at once for each thread: its output, one that is waiting, one that is expanded, its expansion.
_BLOCKS_PER_THREAD = 4


@dataclass(frozen=True, eq=False)
class Prepared:
    """The prepared search, for any tasks.

    Attributes
    ----------
    reduced : ReducedGraph
        With its rows on the right, in order.
    rows_are_left : bool
        True if the rows are the user's left side.
    node : (n,) int32
        The same in the layout of a subgraph, from which the walk starts.
    costs : (n_rows,) float64
        Expected work below each row.
    places : (n_rows,) int64
        Root of each row, ascending. There is nothing below roots without a row.
    read_roots : callable
        Returns the rows as tasks identify them. That reads all edges, and most searches need no tasks.
    """

    reduced: ReducedGraph
    rows_are_left: bool
    node: np.ndarray
    costs: np.ndarray
    places: np.ndarray
    read_roots: Callable[[], Roots]

    @functools.cached_property
    def roots(self) -> Roots:
        """The rows as tasks identify them."""
        return self.read_roots()

    def rows_of(self, tasks: Iterable[Task] | None) -> list[tuple[int, int]]:
        """Ranges of rows: those of the tasks, or all."""
        if tasks is None:
            return [(0, self.places.size)]
        return [tuple(np.searchsorted(self.places, range_).tolist()) for range_ in ranges_of(tasks, self.roots)]

    def task_of(self, first: int, end: int) -> Task:
        """The task of a range of rows, which is not empty."""
        places, cost = self.places, float(self.costs[first:end].sum())
        return Task(self.roots, int(places[first]), int(places[end - 1]) + 1, cost)


def compile_steps(query: BicliqueQuery | None = None, detail: Detail | None = None) -> tuple[CompileStep, ...]:  # noqa: ARG001
    """Compile what `run` needs for a detail, or all that this engine compiles if none is given."""
    searches = tree.compile_steps(None if detail is None else detail >= Detail.MEMBERS)
    expansion = twin_expansion.compile_steps(Detail.MEMBERS if detail is None else detail)
    return (*searches, *expansion, *reduction.compile_steps(), *ordering.compile_steps())


def run(
    graph: BipartiteCSR,
    query: BicliqueQuery,
    execution: Execution,
    detail: Detail,
    tasks: Iterable[Task] | None = None,
    *,
    barrier: Barrier | None = None,
    prepared: Prepared | None = None,
    first_sizes: FirstSizes = _FIRST_SIZES,
    on_visited: Callable[[int], None] | None = None,
    least_edges: Callable[[], int] | None = None,
) -> Iterator[BicliqueBlock]:
    """Yield every maximal biclique of `graph` that satisfies `query`, in blocks.

    Parameters
    ----------
    tasks : iterable of Task, optional
        The part to search: tasks made by `tasks_of` for the same graph and query. By default all.
    barrier : Barrier, optional
        A request is answered by an empty block with the remaining tasks (`BicliqueBlock.remaining`).
    prepared : Prepared, optional
        Result of `prepare` for the same graph and query.
    first_sizes : FirstSizes
        Initial sizes of a worker's arenas, which grow as needed. For tests.
    on_visited : callable, optional
        Receives the number of visited nodes at the end. For the ablation benchmark.
    least_edges : callable, optional
        Called after each block; returns a minimum of edges, which may rise, in place of that of the query.

    Raises
    ------
    InvalidArgument
        Tasks of another graph or query, or that overlap.
    MemoryBudgetExceeded
        Working memory and output blocks do not fit the budget.
    """
    ready = prepare(graph, query) if prepared is None else prepared
    reduced, rows_are_left = ready.reduced, ready.rows_are_left
    if detail == Detail.RIGHT and rows_are_left:
        # Columns are the right side: their members are needed, and those of rows are few.
        detail = Detail.MEMBERS
    ranges = ready.rows_of(tasks)
    n_threads = execution.worker_count
    plan = Plan(
        graph=ready.node if detail != Detail.RIGHT else as_subgraph(reduced, has_ids=False),
        n_rows=reduced.graph.n_right,
        n_columns=reduced.graph.n_left,
        columns=Translation.of(reduced.left_groups),
        rows=Translation.of(reduced.right_groups),
        rows_are_left=rows_are_left,
        constraints=size_constraints(query.swapped() if rows_are_left else query),
        detail=detail,
        block_bytes=min(execution.block_bytes, execution.memory_budget_bytes // (2 * _BLOCKS_PER_THREAD * n_threads)),
        first_sizes=first_sizes,
    )

    def marker(left: list[tuple[int, int]]) -> BicliqueBlock:
        remaining = tuple(ready.task_of(first, end) for first, end in left)
        return BicliqueBlock.empty(detail, pool.work_done, remaining)

    n_subproblems = 1 if ready.costs.sum() < _SMALL_COST else n_threads * _SUBPROBLEMS_PER_THREAD
    subproblems = subproblems_of(ready.costs, ranges, n_subproblems)
    pool = WorkerPool(subproblems, execution.memory_budget_bytes, barrier, marker)
    workers = [Worker(pool, plan) for _ in range(n_threads)]
    for block in pool.run([worker.work for worker in workers], "bicliques"):
        yield block
        # Without a minimum at the beginning, the walk does not know all sizes.
        if least_edges is not None and query.min_edges > 1:
            plan.constraints[MIN_EDGES] = max(plan.constraints[MIN_EDGES], least_edges())
    if on_visited is not None:
        on_visited(sum(worker.n_visited for worker in workers))
    yield BicliqueBlock.empty(detail, work_done=1.0)


def tasks_of(graph: BipartiteCSR, query: BicliqueQuery, n: int) -> list[Task]:
    """Divide all work into at most `n` tasks of similar cost.

    A task holds the maximal bicliques whose first row, in the order of the roots, is in its range.
    """
    compile_ahead((*reduction.compile_steps(), *ordering.compile_steps()))
    ready = prepare(graph, query)
    costs = np.zeros(ready.roots.n)
    costs[ready.places] = ready.costs
    return cut(ready.roots, costs, n)


def prepare(graph: BipartiteCSR, query: BicliqueQuery) -> Prepared:
    """Prepare any task: reduction, side, order, costs. What this needs is compiled."""
    core = core_of(graph, query)
    reduced = core.reduced(techniques.TWINS)
    rows_are_left = enumerates_left(reduced.graph) == techniques.SIDE
    if rows_are_left:
        reduced = reduced.swapped()
    if techniques.ORDER:
        reduced = rows_by_degree(reduced)
    first_twins = reduced.right_groups.first_members
    places = np.arange(first_twins.size)
    searched = core.without_weak_edges(query, graph.n_edges)
    if searched is not core:
        # The roots, and their order, are those of engines that keep these edges.
        without = searched.reduced(techniques.TWINS)
        reduced, places = rows_among(without.swapped() if rows_are_left else without, reduced.right_groups)
    return Prepared(
        reduced=reduced,
        rows_are_left=rows_are_left,
        node=as_subgraph(reduced),
        costs=task_costs(reduced.graph),
        places=places,
        read_roots=lambda: Roots.of(
            "bicliques", first_twins, rows_are_left, *query.identity, graph.n_right, graph.edges_checksum
        ),
    )

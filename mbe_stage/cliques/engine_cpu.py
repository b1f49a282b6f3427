"""The CPU engine: the search tree compiled by Numba, walked by all cores.

The steps: take the common neighbourhood of the required vertices (`cliques.reduction`); order it by degeneracy
(`cliques.ordering`); cut the roots into subproblems of similar cost; walk them with a pool of threads
(`mbe_stage.search.cpu.pool`, `cpu.worker`, `cpu.tree`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import numpy as np

from mbe_stage.cliques import ordering, reduction
from mbe_stage.cliques.cpu import techniques, tree
from mbe_stage.cliques.cpu.worker import FirstSizes, Plan, Worker
from mbe_stage.cliques.ordering import OrderedGraph, numbered, ordered
from mbe_stage.cliques.query import CliqueQuery
from mbe_stage.cliques.reduction import CommonPart, common_part
from mbe_stage.cliques.results import CliqueBlock, Detail
from mbe_stage.graphs.undirected import UndirectedCSR
from mbe_stage.options import Execution
from mbe_stage.runtime.compile_ahead import CompileStep, compile_ahead
from mbe_stage.search.cpu.pool import Barrier, WorkerPool, device, subproblems_of, unavailable_reason
from mbe_stage.tasks import Roots, Task, cut, ranges_of

__all__ = ["TAKES_BARRIER", "compile_steps", "device", "prepare", "run", "tasks_of", "unavailable_reason"]

TAKES_BARRIER = True

_FIRST_SIZES: FirstSizes = (1 << 12, 1 << 14, 16)
_SUBPROBLEMS_PER_THREAD = 8
# Blocks per thread at the same time: its output, a copy of it, and a waiting one.
_BLOCKS_PER_THREAD = 3


def compile_steps(query: CliqueQuery | None = None, detail: Detail | None = None) -> tuple[CompileStep, ...]:  # noqa: ARG001
    """Return the steps to compile for `run` with a detail and any query, or for all details without one."""
    walks = tree.compile_steps(None if detail is None else detail > Detail.COUNT)
    return (*walks, *ordering.compile_steps(), *reduction.compile_steps())


def run(
    graph: UndirectedCSR,
    query: CliqueQuery,
    execution: Execution,
    detail: Detail,
    tasks: Iterable[Task] | None = None,
    *,
    prepared: tuple[CommonPart, OrderedGraph] | None = None,
    barrier: Barrier | None = None,
    first_sizes: FirstSizes = _FIRST_SIZES,
    on_visited: Callable[[int], None] | None = None,
) -> Iterator[CliqueBlock]:
    """Yield every maximal clique of `graph` that satisfies `query`, in blocks.

    Parameters
    ----------
    tasks : iterable of Task, optional
        The part to search, made by `tasks_of` for the same graph and query; all by default.
    prepared : (CommonPart, OrderedGraph), optional
        Result of `prepare` for the same graph and query.
    barrier : Barrier, optional
        If a barrier is requested, an empty block with the remaining tasks is yielded (`CliqueBlock.remaining`).
    first_sizes : FirstSizes
        Initial sizes of a worker's arenas, which grow as needed; for tests.
    on_visited : callable, optional
        Called at the end with the number of visited nodes; for the ablation benchmark.

    Raises
    ------
    InvalidArgument
        Tasks belong to another graph or query, or overlap.
    MemoryBudgetExceeded
        Working memory and output blocks do not fit the budget.
    """
    part, in_order = prepare(graph, query) if prepared is None else prepared
    roots = _root_vertices(part, in_order)
    ranges = ranges_of(tasks, _identity(graph, query, roots))
    n_visited = 0
    if part.graph.n == 0:
        if ranges and ranges[0][1] > 0 and query.accepts(len(part.held)):
            yield _of_held(part, detail)
    else:
        n_threads = execution.worker_count
        plan = Plan(
            graph=in_order,
            held=part.held,
            min_size=query.min_size,
            max_size=graph.n if query.max_size is None else query.max_size,
            detail=detail,
            block_bytes=max(
                1, min(execution.block_bytes, execution.memory_budget_bytes // (2 * _BLOCKS_PER_THREAD * n_threads))
            ),
            first_sizes=first_sizes,
        )
        costs = _costs(in_order)

        def marker(left: list[tuple[int, int]]) -> CliqueBlock:
            of = _identity(graph, query, roots)
            remaining = tuple(Task(of, first, end, float(costs[first:end].sum())) for first, end in left)
            return CliqueBlock.empty(detail, pool.work_done, remaining)

        subproblems = subproblems_of(costs, ranges, n_threads * _SUBPROBLEMS_PER_THREAD)
        pool = WorkerPool(subproblems, execution.memory_budget_bytes, barrier, marker)
        workers = [Worker(pool, plan) for _ in range(n_threads)]
        yield from pool.run([worker.work for worker in workers], "cliques")
        n_visited = sum(worker.n_visited for worker in workers)
    if on_visited is not None:
        on_visited(n_visited)
    yield CliqueBlock.empty(detail, work_done=1.0)


def tasks_of(graph: UndirectedCSR, query: CliqueQuery, n: int) -> list[Task]:
    """Divide the whole work into at most `n` tasks of similar cost.

    A clique belongs to the task with its first vertex, in the order of the roots.
    """
    compile_ahead((*ordering.compile_steps(), *reduction.compile_steps()))
    part, in_order = prepare(graph, query)
    roots = _root_vertices(part, in_order)
    costs = _costs(in_order) if part.graph.n else np.ones(roots.size)
    return cut(_identity(graph, query, roots), costs, n)


def _identity(graph: UndirectedCSR, query: CliqueQuery, vertices: np.ndarray) -> Roots:
    return Roots.of("cliques", vertices, *query.identity, graph.n, graph.edges_checksum)


def prepare(graph: UndirectedCSR, query: CliqueQuery) -> tuple[CommonPart, OrderedGraph]:
    """Return the part of the graph for the query, also with its vertices in order."""
    part = common_part(graph, query)
    in_order = ordered(part.graph) if techniques.ORDER else numbered(part.graph)
    return part, in_order._replace(vertices=part.vertices[in_order.vertices])


def _root_vertices(part: CommonPart, in_order: OrderedGraph) -> np.ndarray:
    """Return the user's vertices of the roots; if no other vertices are left, the root is a required vertex."""
    if part.graph.n == 0 and part.is_possible:
        return np.array(part.held[:1], np.int32)
    return in_order.vertices


def _of_held(part: CommonPart, detail: Detail) -> CliqueBlock:
    members = np.array(part.held, np.int32)
    return CliqueBlock(
        1,
        np.array([members.size], np.int32) if detail >= Detail.SIZES else None,
        members if detail >= Detail.MEMBERS else None,
    )


def _costs(graph: OrderedGraph) -> np.ndarray:
    """Return the expected work below each root, ``(n,) float64``, in no unit."""
    later, earlier = np.diff(graph.later_offsets), np.diff(graph.earlier_offsets)
    return 1.0 + later * (later + 0.1 * earlier)

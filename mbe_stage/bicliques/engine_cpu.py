"""The CPU engine: the search tree compiled by Numba, walked by all cores.

The order of work: reduce the graph (`mbe_stage.reduction`), choose side and order (`mbe_stage.ordering`), cut the
roots into tasks of similar cost, let a crew of threads walk them (`cpu.crew`, `cpu.hand`, `cpu.tree`), and turn what
they find back into the user's vertices (`cpu.expand`).
"""

from __future__ import annotations

import logging
import platform
from collections.abc import Callable, Iterator

import numpy as np

from mbe_stage import ordering, reduction
from mbe_stage.bicliques.cpu import expand, switches, tree
from mbe_stage.bicliques.cpu import layout as at
from mbe_stage.bicliques.cpu.crew import Crew, Task
from mbe_stage.bicliques.cpu.expand import Translation
from mbe_stage.bicliques.cpu.hand import Hand, Plan
from mbe_stage.bicliques.cpu.whole_graph import as_sparse_node, size_limits
from mbe_stage.bicliques.cpu.worker import FirstSizes
from mbe_stage.compile_ahead import CompileStep
from mbe_stage.graph import BipartiteCSR
from mbe_stage.options import BicliqueQuery, Execution
from mbe_stage.ordering import enumerates_left, rows_by_degree, task_costs
from mbe_stage.reduction import reduce_graph
from mbe_stage.results import BicliqueBlock, Detail

__all__ = ["compile_steps", "device", "run", "unavailable_reason"]

log = logging.getLogger(__name__)

_FIRST_SIZES: FirstSizes = (1 << 16, 1 << 15, 64)
_TASKS_PER_THREAD = 32
# Blocks that exist at once for each thread: its output, one that is waiting, one that is expanded, its expansion.
_BLOCKS_PER_THREAD = 4


def unavailable_reason() -> str | None:
    """None: Numba is a base dependency and compiles for every processor it installs on."""
    return None


def device(execution: Execution) -> str:
    """The processor and the number of threads."""
    n = execution.worker_count
    return f"cpu, {platform.machine()}, {n} thread{'' if n == 1 else 's'}"


def compile_steps(query: BicliqueQuery | None = None, detail: Detail | None = None) -> tuple[CompileStep, ...]:
    """What `run` needs for such a query and detail; without them, for any. All that this engine compiles is here."""
    searches = tree.compile_steps(None if query is None or detail is None else _collects(query, detail))
    expansion = expand.compile_steps(Detail.MEMBERS if detail is None else detail)
    return (*searches, *expansion, *reduction.compile_steps(), *ordering.compile_steps())


def run(
    graph: BipartiteCSR,
    query: BicliqueQuery,
    execution: Execution,
    detail: Detail,
    *,
    first_sizes: FirstSizes = _FIRST_SIZES,
    on_visited: Callable[[int], None] | None = None,
) -> Iterator[BicliqueBlock]:
    """Every maximal biclique of `graph` that satisfies `query`, in blocks.

    Parameters
    ----------
    graph : BipartiteCSR
    query : BicliqueQuery
    execution : Execution
    detail : Detail
    first_sizes : FirstSizes
        What a worker's arenas start with; they grow as needed. For tests.
    on_visited : callable, optional
        Told the number of visited nodes at the end. For the ablation benchmark.

    Raises
    ------
    MemoryBudgetExceeded
        Working memory and output blocks do not fit the budget.
    """
    reduced = reduce_graph(graph, query, merge_twins=switches.TWINS)
    rows_are_left = enumerates_left(reduced.graph) == switches.SIDE
    if rows_are_left:
        reduced, query = reduced.swapped(), query.swapped()
    if switches.ORDER:
        reduced = rows_by_degree(reduced)
    n_threads = execution.worker_count
    plan = Plan(
        graph=as_sparse_node(reduced.graph),
        n_rows=reduced.graph.n_right,
        n_columns=reduced.graph.n_left,
        columns=Translation.of(reduced.left_groups),
        rows=Translation.of(reduced.right_groups),
        rows_are_left=rows_are_left,
        limits=size_limits(query),
        detail=detail,
        block_bytes=min(execution.block_bytes, execution.memory_budget_bytes // (2 * _BLOCKS_PER_THREAD * n_threads)),
        first_sizes=first_sizes,
    )
    crew = Crew(_tasks(reduced.graph, n_threads), n_threads, execution.memory_budget_bytes)
    hands = [Hand(crew, plan) for _ in range(n_threads)]
    yield from crew.run([hand.work for hand in hands])
    if on_visited is not None:
        on_visited(sum(hand.n_visited for hand in hands))
    yield _finished(detail)


def _collects(query: BicliqueQuery, detail: Detail) -> bool:
    """Whether the walk has to collect members: for the sink, or to check sizes."""
    return detail > Detail.COUNT or bool(size_limits(query)[at.ACTIVE])


def _tasks(graph: BipartiteCSR, n_threads: int) -> list[Task]:
    """Ranges of roots of similar cost, the last and heaviest first: nothing large is left for the end."""
    if graph.n_right == 0:
        return []
    costs = np.cumsum(task_costs(graph))
    n_tasks = min(graph.n_right, n_threads * _TASKS_PER_THREAD)
    cuts = np.searchsorted(costs, costs[-1] * np.arange(1, n_tasks) / n_tasks, side="right")
    bounds = np.unique(np.concatenate([[0], cuts, [graph.n_right]]))
    ends = np.concatenate([[0.0], costs])[bounds]
    tasks = [
        Task(cost=float(ends[k + 1] - ends[k]), first_row=int(bounds[k]), end_row=int(bounds[k + 1]))
        for k in range(bounds.size - 1)
    ]
    return tasks[::-1]


def _finished(detail: Detail) -> BicliqueBlock:
    none = np.empty(0, np.int32)
    sizes = none if detail >= Detail.SIZES else None
    members = none if detail >= Detail.MEMBERS else None
    return BicliqueBlock(0, sizes, sizes, members, members, work_done=1.0)

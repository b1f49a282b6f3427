"""The CPU engine: leaves of a search tree with pivots, counted by all cores.

The order of work: leave out what is known from degrees (`pq_counts.reduction`), take the core, choose the side of the
roots and their order (`pq_counts.ordering`), cut the roots into pieces of similar cost, and let threads count what is
below them (`cpu.workers`, `cpu.tree`, `cpu.frame_walk`).
"""

from __future__ import annotations

import math
import platform
import time
from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np

from mbe_stage.compile_ahead import CompileStep, compile_ahead
from mbe_stage.graphs.bipartite import BipartiteCSR
from mbe_stage.options import Execution
from mbe_stage.pq_counts import reduction
from mbe_stage.pq_counts.cpu import leaves, tree
from mbe_stage.pq_counts.cpu.layout import Lists
from mbe_stage.pq_counts.cpu.tree import later_paths
from mbe_stage.pq_counts.cpu.workers import Counting, Piece
from mbe_stage.pq_counts.ordering import roots_are_left, row_lists
from mbe_stage.pq_counts.query import PqQuery
from mbe_stage.pq_counts.reduction import is_possible, reduced, to_choose, without_search
from mbe_stage.pq_counts.results import Detail, Leaves, PqBlock
from mbe_stage.pq_counts.roots import roots_of
from mbe_stage.tasks import Roots, Task, cut, ranges_of, split

__all__ = ["compile_steps", "device", "run", "tasks_of", "unavailable_reason"]

_PIECES_PER_THREAD = 32


def unavailable_reason() -> str | None:
    """None: Numba is a base dependency and compiles for every processor it installs on."""
    return None


def device(execution: Execution) -> str:
    """The processor and the number of threads."""
    n = execution.worker_count
    return f"cpu, {platform.machine()}, {n} thread{'' if n == 1 else 's'}"


def compile_steps(query: PqQuery | None = None, detail: Detail | None = None) -> tuple[CompileStep, ...]:  # noqa: ARG001
    """What `run` needs, whatever is asked."""
    return (*tree.compile_steps(), *leaves.compile_steps(), *reduction.compile_steps())


def run(
    graph: BipartiteCSR,
    query: PqQuery,
    execution: Execution,
    detail: Detail,  # noqa: ARG001 - leaves are all that is known
    tasks: Iterable[Task] | None = None,
    *,
    on_visited: Callable[[int], None] | None = None,
) -> Iterator[PqBlock]:
    """The leaves of all (p, q)-bicliques that `query` asks for.

    Parameters
    ----------
    graph : BipartiteCSR
    query : PqQuery
    execution : Execution
    detail : Detail
    tasks : iterable of Task, optional
        Which part of them: what `tasks_of` gave for the same graph and query. By default all.
    on_visited : callable, optional
        Told the number of visited nodes at the end.

    Raises
    ------
    InvalidArgument
        Tasks of another graph or query, or that overlap.
    MemoryBudgetExceeded
        Working memory does not fit the budget.
    """
    # As early as whoever set the limit begins to count: what the workers have found comes before the end.
    deadline = time.perf_counter() + (execution.time_limit_seconds or math.inf)
    search = _Search(graph, query)
    ranges = [(0, search.costs.size)] if tasks is None else ranges_of(tasks, search.roots(graph, query))
    if ranges and ranges[0][0] == 0:
        for known in search.known:
            yield PqBlock(known)
    counting = Counting(search.lists, search.asked, execution.worker_count, execution.memory_budget_bytes)
    pieces = _pieces(search.costs, ranges, execution.worker_count)
    for counted, work_done in counting.run(pieces, deadline):
        yield PqBlock(search.leaves(counted), work_done=work_done)
    if on_visited is not None:
        on_visited(counting.n_nodes)
    yield PqBlock(Leaves.none(), work_done=1.0)


def tasks_of(graph: BipartiteCSR, query: PqQuery, n: int) -> list[Task]:
    """All of the work in at most `n` tasks of similar cost: a biclique belongs to its first row."""
    compile_ahead(compile_steps())
    search = _Search(graph, query)
    return cut(search.roots(graph, query), search.costs, n)


class _Search:
    """What is to be searched, and what is known without: that is the first root, before the rows.

    Attributes
    ----------
    known : list of Leaves
    lists : Lists
        Roots are its rows.
    asked : (4,) int64
    costs : (1 + n_rows,) float64
        Expected work of each root.
    """

    def __init__(self, graph: BipartiteCSR, query: PqQuery) -> None:
        whole = to_choose(graph, query)
        self.known = without_search(whole) if is_possible(graph, query) else []
        part = reduced(whole)
        self._are_left = roots_are_left(part)
        self._part = part if self._are_left else part.swapped()
        lists, order = row_lists(self._part)
        self._root_ids = np.concatenate([[-1], self._part.left_ids[order]])
        self.lists = Lists(*lists)
        self.asked = np.array([self._part.min_p, self._part.max_p, self._part.min_q, self._part.max_q], np.int64)
        paths = later_paths(self.lists) + 1.0
        # The work grows faster than the paths, as that of the enumeration does (`bicliques.ordering.task_costs`).
        self.costs = np.concatenate([[1.0], paths * np.sqrt(paths)])

    def roots(self, graph: BipartiteCSR, query: PqQuery) -> Roots:
        """The identity of the roots."""
        return roots_of(graph, query, self._root_ids, are_left=self._are_left)

    def leaves(self, counted: Sequence[np.ndarray]) -> Leaves:
        """What was counted below the rows, in left and right vertices."""
        part = self._part
        held_rows, optional_rows, held_columns, optional_columns, times = counted
        found = Leaves(
            held_rows + part.held_left,
            optional_rows,
            held_columns + part.held_right,
            optional_columns,
            times,
            min_p=part.held_left + 2,
            min_q=part.held_right + 2,
        )
        return found if self._are_left else found.swapped()


def _pieces(costs: np.ndarray, ranges: Sequence[tuple[int, int]], n_threads: int) -> list[Piece]:
    """Roots of some ranges in pieces of similar cost, the heaviest first; a heavy root is several pieces."""
    rows = [(max(1, first), end) for first, end in ranges if end > 1]
    total = sum(float(costs[first:end].sum()) for first, end in rows)
    most = max(1e-9, total / (n_threads * _PIECES_PER_THREAD))
    pieces = []
    for first, end in rows:
        n = max(1, round(float(costs[first:end].sum()) / most))
        for start, stop in split(costs[first:end], n):
            cost = float(costs[first + start : first + stop].sum())
            n_parts = 1 if stop - start > 1 else max(1, int(cost / most))
            pieces += [
                Piece(first + start - 1, first + stop - 1, part, n_parts, cost / n_parts) for part in range(n_parts)
            ]
    return sorted(pieces, key=lambda piece: -piece.cost)

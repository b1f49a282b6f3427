"""The CPU engine's search for a query, and its division into task ranges."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mbe_stage.graphs.bipartite import BipartiteCSR
from mbe_stage.pq_counts.cpu.layout import Lists
from mbe_stage.pq_counts.cpu.tree import later_paths
from mbe_stage.pq_counts.cpu.workers import TaskRange
from mbe_stage.pq_counts.ordering import roots_are_left, row_lists
from mbe_stage.pq_counts.query import PqQuery
from mbe_stage.pq_counts.reduction import is_possible, reduced, to_choose, without_search
from mbe_stage.pq_counts.results import Leaves
from mbe_stage.tasks import Roots, split

_RANGES_PER_THREAD = 32


class PlannedSearch:
    """The part to search, and the counts known from degrees; these belong to a first root before the rows.

    Attributes
    ----------
    whole : Reduced
        The part of the graph to choose vertices from.
    is_possible : bool
        True if all required vertices are adjacent, and some cell is large enough for them.
    known : list of Leaves
    are_left : bool
        True if the roots are left vertices.
    part : Reduced
        The core of `whole`, with sides exchanged if the roots are right vertices.
    order : (n_rows,) int64
        The left vertex of `part` for each row.
    lists : Lists
        The core; its rows are the roots.
    size_bounds : (4,) int64
    costs : (1 + n_rows,) float64
        Expected work of each root.
    """

    def __init__(self, graph: BipartiteCSR, query: PqQuery) -> None:
        self.whole = to_choose(graph, query)
        self.is_possible = is_possible(graph, query)
        self.known = without_search(self.whole) if self.is_possible else []
        part = reduced(self.whole)
        self.are_left = roots_are_left(part)
        self.part = part if self.are_left else part.swapped()
        lists, self.order = row_lists(self.part)
        self._root_ids = np.concatenate([[-1], self.part.left_ids[self.order]])
        self.lists = Lists(*lists)
        self.size_bounds = np.array([self.part.min_p, self.part.max_p, self.part.min_q, self.part.max_q], np.int64)
        paths = later_paths(self.lists) + 1.0
        # The work grows faster than the paths, as in the enumeration (`bicliques.ordering.Arranged.costs`).
        self.costs = np.concatenate([[1.0], paths * np.sqrt(paths)])

    def roots(self, graph: BipartiteCSR, query: PqQuery) -> Roots:
        """Return the identity of the roots."""
        return Roots.of(
            "pq_counts", self._root_ids, self.are_left, *query.identity, graph.n_right, graph.edges_checksum
        )

    def leaves(self, counted: Sequence[np.ndarray]) -> Leaves:
        """Convert leaves of rows and columns to leaves of left and right vertices."""
        part = self.part
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
        return found if self.are_left else found.swapped()


def task_ranges_of(costs: np.ndarray, ranges: Sequence[tuple[int, int]], n_threads: int) -> list[TaskRange]:
    """Cut ranges of roots into task ranges of similar cost, the heaviest first; a heavy root becomes several."""
    rows = [(max(1, first), end) for first, end in ranges if end > 1]
    total = sum(float(costs[first:end].sum()) for first, end in rows)
    most = max(1e-9, total / (n_threads * _RANGES_PER_THREAD))
    task_ranges = []
    for first, end in rows:
        n = max(1, round(float(costs[first:end].sum()) / most))
        for start, stop in split(costs[first:end], n):
            cost = float(costs[first + start : first + stop].sum())
            n_parts = 1 if stop - start > 1 else max(1, int(cost / most))
            task_ranges += [
                TaskRange(first + start - 1, first + stop - 1, part, n_parts, cost / n_parts) for part in range(n_parts)
            ]
    return sorted(task_ranges, key=lambda task_range: -task_range.cost)

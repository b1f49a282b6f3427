"""Local counts of a query, cell by cell: from degrees, or by a search in several threads with their own sums."""

from __future__ import annotations

import math
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import closing
from typing import Any, NamedTuple

import numpy as np

from mbe_stage.errors import MemoryBudgetExceeded
from mbe_stage.graphs.bipartite import BipartiteCSR
from mbe_stage.options import Execution
from mbe_stage.pq_counts.cpu.layout import BYTES_HELD, LACKS_MEMORY, MAX_COLUMNS, MAX_ROWS, NODES, STOP, STOPPED, Lists
from mbe_stage.pq_counts.cpu.local import leaves, tree
from mbe_stage.pq_counts.cpu.local.layout import N_KINDS, LocalWorker, new_local_worker, worker_bytes
from mbe_stage.pq_counts.cpu.local.leaves import n_ways, ways
from mbe_stage.pq_counts.cpu.local.tree import add_roots
from mbe_stage.pq_counts.cpu.local.words import digits_of_words, n_words
from mbe_stage.pq_counts.cpu.search import PlannedSearch
from mbe_stage.pq_counts.cpu.workers import TAKING_SECONDS, TaskRange, worked_off
from mbe_stage.pq_counts.local_tables import Places, from_degrees, table_bytes
from mbe_stage.pq_counts.query import PqQuery
from mbe_stage.pq_counts.results import Detail, Leaves, LocalCounts, PqBlock
from mbe_stage.runtime.compile_ahead import CompileStep

# Copying sums takes time: a worker waits one more second between copies for every so many numbers.
_NUMBERS_A_SECOND = 1 << 21
_FEWEST_DIGITS = 2
# Largest share of the work reported before the empty block at the end, which alone reports that all is done.
_BEFORE_THE_END = 0.999


class Sums(NamedTuple):
    """Sums over some bicliques, as digits of 32 bits (`mbe_stage.pq_counts.digits`).

    Attributes
    ----------
    total : (1, n_digits) uint64
        Number of all bicliques.
    rows, columns : (n_rows, n_digits) and (n_columns, n_digits) uint64
        Numbers for each row and column.
    edges : (n_entries, n_digits) uint64 or None
        Numbers for each entry of each row.
    """

    total: np.ndarray
    rows: np.ndarray
    columns: np.ndarray
    edges: np.ndarray | None


def bytes_needed(lists: Lists, size_bounds: np.ndarray, n_words: int, n_threads: int, *, edges: bool) -> int:
    """Return the bytes of the sums of all threads, of their shared data, and of one copy to deliver.

    Parameters
    ----------
    size_bounds : (4,) int64
        One cell.
    n_words : int
        Words of a number.
    """
    n_rows, n_columns, n_entries = lists.row_offsets.size - 1, lists.column_offsets.size - 1, lists.columns.size
    most_rows, most_columns = _most(lists)
    shared = (
        8
        * n_words
        * (n_ways(most_rows, int(size_bounds[MAX_ROWS])) + n_ways(most_columns, int(size_bounds[MAX_COLUMNS])))
    )
    copy = 16 * n_words * (n_rows + n_columns + (n_entries if edges else 0))
    each = worker_bytes(n_rows, n_columns, n_entries, n_words, edges=edges)
    return shared + copy + 8 * n_entries * edges + n_threads * each


class LocalCounting:
    """Adds the bicliques of one cell that contain each row, column and entry.

    Parameters
    ----------
    lists : Lists
        The whole graph; roots are rows.
    size_bounds : (4,) int64
        The cell.
    n_words : int
        Words of 64 bits per number: enough for the number of all counted bicliques.
    memory_budget : int
        Limit in bytes for all threads and their shared data.
    edges : bool
        True if entries are requested.

    Raises
    ------
    MemoryBudgetExceeded
        The sums do not fit the budget.
    """

    def __init__(
        self, lists: Lists, size_bounds: np.ndarray, n_words: int, n_threads: int, memory_budget: int, *, edges: bool
    ) -> None:
        self._lists = lists
        self._size_bounds = size_bounds
        self._n_threads = n_threads
        self._edges = edges
        self._needed = bytes_needed(lists, size_bounds, n_words, n_threads, edges=edges)
        if self._needed > memory_budget:
            raise self._lack(self._needed, memory_budget)
        self._budget = memory_budget
        self._share = (memory_budget - self._needed) // n_threads
        most_rows, most_columns = _most(lists)
        shared = (
            ways(most_rows, int(size_bounds[MAX_ROWS]), n_words),
            ways(most_columns, int(size_bounds[MAX_COLUMNS]), n_words),
            _entries_of_columns(lists) if edges else np.empty(0, np.int64),
        )
        n_rows, n_columns = lists.row_offsets.size - 1, lists.column_offsets.size - 1
        self._workers = [
            new_local_worker(n_rows, n_columns, *shared, self._share, edges=edges) for _ in range(n_threads)
        ]
        numbers = self._workers[0].vertices.size + self._workers[0].edges.size
        self._taking_seconds = TAKING_SECONDS + numbers / _NUMBERS_A_SECOND
        self._is_whole = [True] * n_threads
        self._last_taken = [time.perf_counter()] * n_threads

    def run(self, task_ranges: Sequence[TaskRange], deadline: float = math.inf) -> Generator[tuple[Sums | None, float]]:
        """Process all task ranges; yield new sums from time to time, with the finished share of the work.

        Parameters
        ----------
        deadline : float, optional
            As in `cpu.workers.Counting`; task ranges that it stops are left out of the sums.
        """
        done = 0.0
        with closing(worked_off(task_ranges, self._n_threads, self._add, self._stop, deadline)) as found:
            for sums, done in found:
                yield sums, done
        for worker, is_whole in zip(self._workers, self._is_whole, strict=True):
            # A stopped worker has no results, but the caller learns before the end that the limit was reached.
            yield self._taken(worker) if is_whole else None, done

    @property
    def n_nodes(self) -> int:
        """Number of nodes visited so far."""
        return sum(int(worker.control[NODES]) for worker in self._workers)

    def _stop(self) -> None:
        for worker in self._workers:
            worker.control[STOP] = STOPPED

    def _add(self, k: int, task_range: TaskRange) -> Sums | None:
        """Add a task range to the sums of a worker; return the sums from time to time."""
        worker = self._workers[k]
        add_roots(
            self._lists,
            worker,
            self._size_bounds,
            task_range.first,
            task_range.end,
            task_range.part,
            task_range.n_parts,
        )
        if worker.control[STOP] == LACKS_MEMORY:
            raise self._lack(
                self._needed + self._n_threads * (int(worker.control[BYTES_HELD]) + 1), self._budget, at_least=True
            )
        now = time.perf_counter()
        # The sums of a stopped worker are useless, since some vertices are still open.
        if worker.control[STOP]:
            self._is_whole[k] = False
            return None
        if now - self._last_taken[k] < self._taking_seconds:
            return None
        self._last_taken[k] = now
        return self._taken(worker)

    def _taken(self, worker: LocalWorker) -> Sums:
        """Return the sums of a worker as digits, and clear them."""
        n_rows, n_kinds = self._lists.row_offsets.size - 1, int(worker.control[N_KINDS])
        vertices = digits_of_words(worker.vertices[::n_kinds])
        edges = digits_of_words(worker.edges) if n_kinds == 2 else None
        sums = Sums(digits_of_words(worker.totals[:1]), vertices[:n_rows], vertices[n_rows:], edges)
        for numbers in (worker.totals, worker.vertices, worker.edges):
            numbers[:] = 0
        return sums

    def _lack(self, needed: int, budget: int, *, at_least: bool = False) -> MemoryBudgetExceeded:
        what = "vertex and edge" if self._edges else "vertex"
        return MemoryBudgetExceeded(
            f"counting for every {what} takes {'more than ' if at_least else ''}{needed:,} bytes with "
            f"{self._n_threads} threads, beside the tables, and memory_budget_bytes leaves {budget:,}: raise it, or "
            "use fewer threads",
        )


def _most(lists: Lists) -> tuple[int, int]:
    """Return the largest number of rows of a column, and of columns of a row."""
    of_column, of_row = np.diff(lists.column_offsets), np.diff(lists.row_offsets)
    return int(of_column.max(initial=0)), int(of_row.max(initial=0))


def _entries_of_columns(lists: Lists) -> np.ndarray:
    """Return the position in the rows' lists for each entry of the columns' lists; rows of a column ascend."""
    return np.argsort(lists.columns, kind="stable")


def compile_steps() -> tuple[CompileStep, ...]:
    """Return the steps to compile the code of local counts, besides the code of the counts."""
    return (*tree.compile_steps(), *leaves.compile_steps())


class LocalSearch:
    """Local counts of each vertex, and of each edge.

    Parameters
    ----------
    search : PlannedSearch
        The search for the counts.
    detail : Detail
        Vertices, or vertices and edges.

    Attributes
    ----------
    n_searched : int
        Number of cells that need a search.
    n_nodes : int
        Number of nodes visited so far.

    Raises
    ------
    MemoryBudgetExceeded
        The tables of all cells and the sums of all threads exceed the budget, even if all numbers fit 64 bits.
    """

    def __init__(
        self, graph: BipartiteCSR, query: PqQuery, search: PlannedSearch, execution: Execution, detail: Detail
    ) -> None:
        self._graph = graph
        self._search = search
        self._edges = detail >= Detail.EDGES
        self._n_threads = execution.worker_count
        self._budget = execution.memory_budget_bytes
        self._n_held = len(set(query.containing_left)), len(set(query.containing_right))
        self._cells = query.cells
        self.n_searched = sum(min(self._to_choose(cell)) >= 2 for cell in self._cells)
        self.n_nodes = 0
        self._check_budget()
        self._whole = Places(graph, query, search.whole, edges=self._edges)
        part = search.part if search.are_left else search.part.swapped()
        self._core = Places(graph, query, part, edges=self._edges)
        self._entries = self._entries_by_left() if self._edges else np.empty(0, np.int64)

    def blocks(
        self,
        task_ranges: Any,
        counts: Mapping[tuple[int, int], int],
        work_done: float,
        deadline: float,
        *,
        is_first: bool,
    ) -> Generator[PqBlock]:
        """Yield the counts of some task ranges, at least one block with `local` for each cell.

        Parameters
        ----------
        task_ranges : sequence of TaskRange
            Input of `_counting`.
        counts : (p, q) -> int
            Number of each cell's bicliques that the search finds in these task ranges.
        work_done : float
            Share of the whole work that is already finished.
        deadline : float
            Time by `time.perf_counter` from which only numbers known from degrees follow, as the counts may be
            incomplete.
        is_first : bool
            True if the counts known from degrees are included.
        """
        each = (1.0 - work_done) / max(1, self.n_searched)
        for cell in self._cells:
            p, q = self._to_choose(cell)
            if min(p, q) >= 2 and counts[cell] and time.perf_counter() < deadline:
                with closing(self._searched(cell, task_ranges, counts[cell], deadline)) as found:
                    for local, done in found:
                        yield PqBlock(Leaves.none(), local, min(work_done + each * done, _BEFORE_THE_END))
            elif is_first and self._search.is_possible and 0 <= min(p, q) <= 1:
                yield PqBlock(Leaves.none(), self._known(cell), min(work_done, _BEFORE_THE_END))
            else:
                yield PqBlock(Leaves.none(), self._nothing(cell), min(work_done, _BEFORE_THE_END))
            work_done += each * (min(p, q) >= 2)

    def _searched(
        self, cell: tuple[int, int], task_ranges: Any, count: int, deadline: float
    ) -> Generator[tuple[LocalCounts | None, float]]:
        """Search a cell with this number of bicliques; yield tables, and the finished share of its work."""
        counting = self._counting(cell, count)
        done, has_results = 0.0, False
        with closing(counting.run(task_ranges, deadline)) as found:
            for sums, done in found:
                yield None if sums is None else self._table(cell, sums), done
                has_results |= sums is not None
        if not has_results:
            # No worker finished before the time limit.
            yield self._nothing(cell), done
        self.n_nodes += counting.n_nodes

    def _counting(self, cell: tuple[int, int], count: int) -> Any:
        """Return an object like `LocalCounting` for a cell with this number of bicliques."""
        budget = self._budget - self._bytes_of_tables()
        return LocalCounting(
            self._search.lists, self._size_bounds(cell), n_words(count), self._n_threads, budget, edges=self._edges
        )

    def _bytes_of_counting(self, cell: tuple[int, int]) -> int:
        """Return the bytes that `_counting` needs besides the tables."""
        return bytes_needed(self._search.lists, self._size_bounds(cell), 1, self._n_threads, edges=self._edges)

    def _beside(self) -> tuple[str, str]:
        """Return two parts of the error message: what uses memory beside the tables, and how to use less."""
        return f", {self._n_threads} threads", ", use fewer threads"

    def _table(self, cell: tuple[int, int], sums: Sums) -> LocalCounts:
        """Return the sums in the order of the user's vertices and edges."""
        of_rows, of_edges = np.empty_like(sums.rows), None
        of_rows[self._search.order] = sums.rows
        if sums.edges is not None:
            of_edges = np.empty_like(sums.edges)
            of_edges[self._entries] = sums.edges
        sides = (of_rows, sums.columns) if self._search.are_left else (sums.columns, of_rows)
        return self._core.table(cell, sums.total, *sides, of_edges)

    def _known(self, cell: tuple[int, int]) -> LocalCounts:
        """Return the table of a cell with at most one vertex to choose on a side."""
        return self._whole.table(cell, *from_degrees(self._search.whole.graph, *self._to_choose(cell)))

    def _nothing(self, cell: tuple[int, int]) -> LocalCounts:
        """Return the table of a cell without bicliques."""
        graph = self._graph
        left, right, edges = (np.zeros((n, 1), np.uint64) for n in (graph.n_left, graph.n_right, graph.n_edges))
        return LocalCounts(*cell, left, right, edges if self._edges else None)

    def _to_choose(self, cell: tuple[int, int]) -> tuple[int, int]:
        """Return the number of further vertices to choose on each side; negative if too many are required."""
        return cell[0] - self._n_held[0], cell[1] - self._n_held[1]

    def _size_bounds(self, cell: tuple[int, int]) -> np.ndarray:
        """Return the sizes of the cell, in rows and columns."""
        p, q = self._to_choose(cell)
        return np.array([p, p, q, q] if self._search.are_left else [q, q, p, p], np.int64)

    def _entries_by_left(self) -> np.ndarray:
        """Return the core's edge, in the order of left vertices, for each entry of the rows' lists."""
        part, lists = self._search.part.graph, self._search.lists
        begins = part.left_offsets[self._search.order] - lists.row_offsets[:-1]
        by_row = np.repeat(begins, np.diff(lists.row_offsets)) + np.arange(lists.columns.size)
        if self._search.are_left:
            return by_row
        return np.argsort(part.right_members, kind="stable")[by_row]

    def _bytes_of_tables(self) -> int:
        return len(self._cells) * table_bytes(self._graph, _FEWEST_DIGITS, edges=self._edges)

    def _check_budget(self) -> None:
        """Raise before any work if the tables cannot fit the budget."""
        needed = self._bytes_of_tables()
        searched = [cell for cell in self._cells if min(self._to_choose(cell)) >= 2]
        if searched:
            needed += max(map(self._bytes_of_counting, searched))
        if needed > self._budget:
            what, graph = ("vertex and edge" if self._edges else "vertex"), self._graph
            among, remedy = self._beside()
            raise MemoryBudgetExceeded(
                f"counts for every {what} take {needed:,} bytes or more ({len(self._cells):,} cells x "
                f"{graph.n_left + graph.n_right:,} vertices"
                f"{f' and {graph.n_edges:,} edges' if self._edges else ''}{among}), and "
                f"memory_budget_bytes is {self._budget:,}: raise it{remedy}, ask for fewer cells"
                f"{' or for vertices alone' if self._edges else ''}",
                needed_bytes=needed,
            )

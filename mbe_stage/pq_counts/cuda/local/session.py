"""Local counts of one cell on the device: its lists and sums, and a search for each modulus."""

from __future__ import annotations

import math
import time
from collections.abc import Generator
from dataclasses import replace
from typing import Any

import cupy as cp
import numpy as np

from mbe_stage.device.memory_budget import device_work
from mbe_stage.pq_counts.cpu.local.workers import Sums as SumsOfCell
from mbe_stage.pq_counts.cuda.kernels import kernel_blocks
from mbe_stage.pq_counts.cuda.layout import Graph
from mbe_stage.pq_counts.cuda.local.kernels import local_kernel_for
from mbe_stage.pq_counts.cuda.local.layout import PAIRS_AT, PATH_AT, Scratch, Sums
from mbe_stage.pq_counts.cuda.local.memory_plan import LocalSizes
from mbe_stage.pq_counts.cuda.local.residues import digits_of_residues, moduli, ways_modulo
from mbe_stage.pq_counts.cuda.memory_plan import KeyLayout, MemoryPlan, key_layout
from mbe_stage.pq_counts.cuda.session import Session
from mbe_stage.pq_counts.cuda.techniques import ALL_TECHNIQUES

_SHORTEST_QUANTUM = 0.01


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
    """Copy the lists of a core for kernels: all rows are roots, those with the most two-step paths first.

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
    """Adds up the bicliques of one cell that contain each row, column and entry.

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
        Fields of the plan. For tests.
    facts : dict
        Receives statistics of the warps, added up.

    Attributes
    ----------
    n_nodes : int
        Nodes visited so far.

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
        """Search below some rows, or all: yield the share of the work that is done, and the sums at the end.

        Parameters
        ----------
        rows : (n,) int64 or None
        deadline : float, optional
            By `time.perf_counter`. Sums until then are lower bounds; numbers that need several searches are not known
            then.
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
        # A quantum ends before the deadline.
        left = max(_SHORTEST_QUANTUM, (deadline - time.perf_counter()) / 2)
        plan = replace(plan, quantum_seconds=min(plan.quantum_seconds, left))
        size_bounds = (search.most_rows, search.most_rows, search.most_columns, search.most_columns)
        return LocalSession(
            graph, size_bounds, self._keys, plan, self._budget - self._sizes.fixed_bytes, self._sizes, sums
        )

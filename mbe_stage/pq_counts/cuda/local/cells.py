"""Local counts of a query, cell by cell, with searches on the device."""

from __future__ import annotations

from typing import Any

from mbe_stage.device.memory_budget import device_work
from mbe_stage.graphs.bipartite import BipartiteCSR
from mbe_stage.options import Execution
from mbe_stage.pq_counts.cpu.layout import MAX_COLUMNS, MAX_ROWS
from mbe_stage.pq_counts.cpu.local.cells import LocalSearch
from mbe_stage.pq_counts.cpu.search import PlannedSearch
from mbe_stage.pq_counts.cpu.tree import later_paths
from mbe_stage.pq_counts.cuda.layout import Graph
from mbe_stage.pq_counts.cuda.local.memory_plan import LocalSizes
from mbe_stage.pq_counts.cuda.local.session import DeviceCounting, device_lists
from mbe_stage.pq_counts.query import PqQuery
from mbe_stage.pq_counts.results import Detail

_SUMS_BYTES = 32
"""Bytes of each number from the device: the number, and twice its digits."""


class DeviceLocalSearch(LocalSearch):
    """Local counts of each vertex, and of each edge.

    Parameters
    ----------
    graph : BipartiteCSR
        On the host.
    query : PqQuery
    search : PlannedSearch
        The search for the counts.
    execution : Execution
        Its memory budget is for the tables, which are on the host.
    detail : Detail
        Vertices, or edges, too.
    device_budget : int
        Bytes of device memory.
    overrides : dict
        Fields of each plan. For tests.

    Attributes
    ----------
    facts : dict
        Statistics of the warps, over all cells.

    Raises
    ------
    MemoryBudgetExceeded
        The tables do not fit the host's budget, or a search does not fit the device's.
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
        """Free the device memory kept between two calls of `blocks`."""
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

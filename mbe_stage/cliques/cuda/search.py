"""A search on the current device, quantum by quantum: preparation, plan, search and barriers."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import cupy as cp
import numpy as np

from mbe_stage.cliques.cuda.kernels import kernel_blocks
from mbe_stage.cliques.cuda.memory_plan import SearchSizes, plan_memory
from mbe_stage.cliques.cuda.prepare import prepare
from mbe_stage.cliques.cuda.root_order import RootOrder, task_costs
from mbe_stage.cliques.cuda.session import Session
from mbe_stage.device.launch import resident_blocks
from mbe_stage.device.memory_budget import device_work
from mbe_stage.graphs.undirected import UndirectedCSR
from mbe_stage.search.cuda.barriers import tasks_from
from mbe_stage.search.cuda.session import HeldSearch
from mbe_stage.tasks import Task


@dataclass(frozen=True, slots=True, eq=False)
class SearchRequest:
    """A search's task and means.

    Attributes
    ----------
    graph : UndirectedCSR
        With at least one vertex.
    roots : RootOrder
    mode : int
        `layout.COUNT`, `SIZES` or `MEMBERS`.
    size_limits : tuple of int
        Fewest and most members, besides those that all cliques hold.
    budget : int
        Bytes of device memory.
    wanted : (n,) int64 or None
        The wanted roots; None for all.
    sizes : dict
        Fields of the `MemoryPlan` to override.
    techniques : int
        `Techniques.kernel_mask`.
    n_copies : int
        As in `MemoryPlan`.
    """

    graph: UndirectedCSR
    roots: RootOrder
    mode: int
    size_limits: tuple[int, int]
    budget: int
    wanted: np.ndarray | None
    sizes: dict[str, Any]
    techniques: int
    n_copies: int = 0


class Search(HeldSearch[Session]):
    """A search on the current device.

    Parameters
    ----------
    request : SearchRequest
    """

    def __init__(self, request: SearchRequest) -> None:
        self._roots = request.roots
        graph, budget = request.graph, request.budget
        with device_work(budget):
            prepared = prepare(_on_device(graph), resident_blocks(), budget)
            if request.wanted is not None:
                prepared = prepared.with_roots(request.roots.order[request.wanted])
            of_graph = (graph.n_edges, prepared.most_later, prepared.most_neighbours)
            facts = SearchSizes(*of_graph, request.mode, request.n_copies)
            plan = replace(plan_memory(facts, kernel_blocks(), budget), **request.sizes)
            session = Session(prepared, request.mode, request.size_limits, plan, budget, request.techniques)
        super().__init__(session, budget)

    @cached_property
    def costs(self) -> np.ndarray:
        """Expected work below each root."""
        return task_costs(self.session.later_neighbours()[self._roots.order])

    def _ahead(self) -> np.ndarray | None:
        vertices = self.session.roots_ahead()
        return self._roots.ranks[vertices] if vertices.size else None

    def _vertices(self, roots: np.ndarray) -> np.ndarray:
        return self._roots.order[roots]

    def _remaining(self, roots: np.ndarray) -> tuple[Task, ...]:
        with device_work(self._budget):
            return tasks_from(roots, self._roots.identity, self.costs)


def _on_device(graph: UndirectedCSR) -> UndirectedCSR:
    return UndirectedCSR(graph.n, cp.asarray(graph.offsets, cp.int64), cp.asarray(graph.members, cp.int32))

"""One search on the current device, quantum by quantum: what is prepared, planned and searched, and its barriers."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import cupy as cp
import numpy as np

from mbe_stage.cliques.cuda.kernels import searching_blocks
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
class Asked:
    """What is searched for, and with what means.

    Attributes
    ----------
    graph : UndirectedCSR
        With one vertex at least.
    roots : RootOrder
    mode : int
        `layout.COUNT`, `SIZES` or `MEMBERS`.
    size_limits : tuple of int
        Fewest and most members that are not held by all.
    budget : int
        Bytes of device memory.
    wanted : (n,) int64 or None
        Which of the roots; None for all.
    sizes : dict
        Fields of the `MemoryPlan` to override.
    techniques : int
        `Techniques.kernel_mask`.
    n_copies : int
        As `MemoryPlan.n_copies`.
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
    asked : Asked
    """

    def __init__(self, asked: Asked) -> None:
        self._roots = asked.roots
        graph, budget = asked.graph, asked.budget
        with device_work(budget):
            prepared = prepare(_on_device(graph), resident_blocks(), budget)
            if asked.wanted is not None:
                prepared = prepared.with_roots(asked.roots.order[asked.wanted])
            of_graph = (graph.n_edges, prepared.most_later, prepared.most_neighbours)
            facts = SearchSizes(*of_graph, asked.mode, asked.n_copies)
            plan = replace(plan_memory(facts, searching_blocks(), budget), **asked.sizes)
            session = Session(prepared, asked.mode, asked.size_limits, plan, budget, asked.techniques)
        super().__init__(session, budget)

    @cached_property
    def costs(self) -> np.ndarray:
        """Work expected below each root."""
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

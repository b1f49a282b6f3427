"""One search on the current device, quantum by quantum: what is prepared, planned and searched, and its barriers."""

from __future__ import annotations

from collections.abc import Iterator
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
from mbe_stage.device.held_roots import ranges_from
from mbe_stage.device.launch import resident_blocks
from mbe_stage.device.memory_budget import device_work
from mbe_stage.graphs.undirected import UndirectedCSR
from mbe_stage.tasks import Task

__all__ = ["Asked", "Quantum", "Search"]

_MOST_DONE = 0.999


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


@dataclass(frozen=True, slots=True, eq=False)
class Quantum:
    """What one quantum found, which `session` has until the next one begins.

    Attributes
    ----------
    session : Session
    share : float
        Of the work that is done.
    remaining : tuple of Task or None
        Of one that marks a barrier: nothing was found, and this is left.
    """

    session: Session
    share: float
    remaining: tuple[Task, ...] | None = None


class Search:
    """A search on the current device, whose roots can be held back; it holds device memory as long as it is there.

    Parameters
    ----------
    asked : Asked

    Attributes
    ----------
    session : Session
    """

    def __init__(self, asked: Asked) -> None:
        self._asked = asked
        graph, budget = asked.graph, asked.budget
        with device_work(budget):
            prepared = prepare(_on_device(graph), resident_blocks(), budget)
            if asked.wanted is not None:
                prepared = prepared.with_roots(asked.roots.order[asked.wanted])
            of_graph = (graph.n_edges, prepared.most_later, prepared.most_neighbours)
            facts = SearchSizes(*of_graph, asked.mode, asked.n_copies)
            plan = replace(plan_memory(facts, searching_blocks(), budget), **asked.sizes)
            self.session = Session(prepared, asked.mode, asked.size_limits, plan, budget, asked.techniques)

    def quanta(self) -> Iterator[Quantum]:
        """The work, quantum by quantum; what one found has been taken when the next is asked for."""
        is_over = False
        while not is_over:
            with device_work(self._asked.budget):
                is_over = self.session.quantum()
            yield self._quantum()
            if not is_over:
                with device_work(self._asked.budget):
                    is_over = not self.session.make_room()

    def roots_ahead(self) -> tuple[np.ndarray, np.ndarray] | None:
        """As `HoldsRoots` says, as all that follows."""
        with device_work(self._asked.budget):
            vertices = self.session.roots_ahead()
            if vertices is None:
                return None
            roots = self._asked.roots.ranks[vertices]
            return roots, self._costs[roots]

    def replace_roots(self, roots: np.ndarray) -> None:
        """Have these begun in the place of those ahead."""
        with device_work(self._asked.budget):
            self.session.replace_roots(self._asked.roots.order[roots])

    def restart(self, roots: np.ndarray) -> None:
        """Begin with roots that were held back."""
        with device_work(self._asked.budget):
            self.session.restart(self._asked.roots.order[roots])

    def marker(self, roots: np.ndarray) -> Quantum:
        """What marks a barrier."""
        costs, identity = self._costs, self._asked.roots.identity
        ranges = ranges_from(roots)
        return self._quantum(tuple(Task(identity, *each, float(costs[slice(*each)].sum())) for each in ranges))

    def _quantum(self, remaining: tuple[Task, ...] | None = None) -> Quantum:
        return Quantum(self.session, _MOST_DONE * self.session.share, remaining)

    @cached_property
    def _costs(self) -> np.ndarray:
        """Work expected below each root."""
        with device_work(self._asked.budget):
            return task_costs(self.session.later_neighbours()[self._asked.roots.order])


def _on_device(graph: UndirectedCSR) -> UndirectedCSR:
    return UndirectedCSR(graph.n, cp.asarray(graph.offsets, cp.int64), cp.asarray(graph.members, cp.int32))

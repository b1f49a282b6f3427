"""Blocks of the engines, and a sink that keeps them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mbe_stage.graphs.bipartite import BipartiteCSR
from mbe_stage.tasks import Roots, Task, cut
from tests.toys.butterflies.problem import EdgeQuery

__all__ = ["EdgeBlock", "EdgeCount", "EdgeSink", "possible_butterflies", "roots_of", "tasks_of"]


@dataclass(frozen=True, slots=True, eq=False)
class EdgeBlock:
    """Edges and the butterflies of each: (n,) int32, int32, int64."""

    left: np.ndarray
    right: np.ndarray
    butterflies: np.ndarray
    work_done: float

    def __len__(self) -> int:
        return self.left.size

    def first(self, n: int) -> EdgeBlock:
        """Return the first `n` edges."""
        return EdgeBlock(self.left[:n], self.right[:n], self.butterflies[:n], self.work_done)


class EdgeCount:
    """A sink that only counts."""

    detail = None

    def accept(self, block: EdgeBlock) -> None:
        """The streaming engine has counted already."""


class EdgeSink:
    """A sink that keeps every edge."""

    detail = None

    def __init__(self) -> None:
        self.found: dict[tuple[int, int], int] = {}

    def accept(self, block: EdgeBlock) -> None:
        for left, right, n in zip(block.left.tolist(), block.right.tolist(), block.butterflies.tolist(), strict=True):
            assert (left, right) not in self.found, "an edge came twice"
            self.found[left, right] = n


def roots_of(graph: BipartiteCSR, query: EdgeQuery) -> Roots:
    """Return the left vertices as roots; a root's subtree is its edges."""
    return Roots.of("butterflies", np.arange(graph.n_left), query, graph.n_right, graph.n_edges)


def possible_butterflies(graph: BipartiteCSR) -> np.ndarray:
    """Return the number of possible butterflies by edge: (n_edges,) int64."""
    left, right = graph.edges()
    return (graph.left_degrees[left] - 1) * (graph.right_degrees[right] - 1)


def tasks_of(graph: BipartiteCSR, query: EdgeQuery, n: int) -> list[Task]:
    """Split all edges into at most `n` tasks of similar cost."""
    return cut(roots_of(graph, query), graph.left_degrees + 1.0, n)

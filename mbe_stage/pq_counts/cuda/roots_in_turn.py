"""The roots of a search on the device, which are taken in turn: those that nobody has taken can be held back."""

from __future__ import annotations

import cupy as cp
import numpy as np

from mbe_stage.pq_counts.cuda.layout import Graph

__all__ = ["RootsInTurn"]


class RootsInTurn:
    """What sessions have of roots; rows that have been taken stand first in the order.

    Parameters
    ----------
    graph : Graph
        With the roots that are wanted.

    Attributes
    ----------
    n_roots_taken : int
        Since the search began, or began again with those that were held back.
    """

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self.n_roots_taken, self._n_taken_before, self._n_wanted = 0, 0, int(graph.order.size)

    @property
    def share_taken(self) -> float:
        """Of the roots."""
        return (self._n_taken_before + self.n_roots_taken) / max(1, self._n_wanted)

    def roots_ahead(self) -> np.ndarray:
        """Rows that nobody has taken, in the order in which they are to be, (n,) int32, on the host."""
        return cp.asnumpy(self._graph.order[self.n_roots_taken :])

    def replace_roots(self, rows: np.ndarray) -> None:
        """Have these taken, in this order, in the place of those ahead; between two quanta."""
        taken = self._graph.order[: self.n_roots_taken]
        self._graph = self._graph._replace(order=cp.concatenate([taken, cp.asarray(rows, cp.int32)]))

    def restart(self, rows: np.ndarray) -> None:
        """Begin with rows that were held back, one at least, in this order; the search of all others is over."""
        self._n_taken_before += self.n_roots_taken
        self._graph, self.n_roots_taken = self._graph._replace(order=cp.asarray(rows, cp.int32)), 0

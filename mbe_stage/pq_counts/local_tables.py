"""Make tables of local counts for the user's vertices and edges from those of a part of the graph."""

from __future__ import annotations

import numpy as np

from mbe_stage.graphs.bipartite import BipartiteCSR
from mbe_stage.pq_counts.query import PqQuery
from mbe_stage.pq_counts.reduction import Reduced
from mbe_stage.pq_counts.results import LocalCounts

__all__ = ["Places", "table_bytes"]


def table_bytes(graph: BipartiteCSR, n_digits: int, *, edges: bool) -> int:
    """Bytes of the tables of one cell, and of the edges' positions."""
    return 8 * n_digits * (graph.n_left + graph.n_right) + (8 * n_digits + 8) * graph.n_edges * edges


class Places:
    """Positions of a part's vertices and edges in the user's graph.

    Parameters
    ----------
    graph : BipartiteCSR
        The user's graph.
    part : Reduced
        An induced subgraph, without the vertices that all bicliques contain.
    edges : bool
        True if they are requested.
    """

    def __init__(self, graph: BipartiteCSR, query: PqQuery, part: Reduced, *, edges: bool) -> None:
        self._graph = graph
        self._part = part
        self._held_left = sorted(set(query.containing_left))
        self._held_right = sorted(set(query.containing_right))
        self._edges = self._edges_of_part() if edges else None

    def table(
        self,
        cell: tuple[int, int],
        total: np.ndarray,
        left: np.ndarray,
        right: np.ndarray,
        edges: np.ndarray | None,
    ) -> LocalCounts:
        """Return the table of some bicliques of a cell.

        Parameters
        ----------
        cell : (p, q)
        total : (1, n_digits) uint64
            Number of bicliques; a vertex that all contain gets this number.
        left, right : (n, n_digits) uint64
            Numbers for the vertices of the part.
        edges : (n_edges, n_digits) uint64 or None
            Numbers for the edges of the part, by left vertex.
        """
        graph, n_digits = self._graph, total.shape[1]
        of_left, of_right = (np.zeros((n, n_digits), np.uint64) for n in (graph.n_left, graph.n_right))
        of_left[self._part.left_ids], of_right[self._part.right_ids] = left, right
        of_left[self._held_left] = of_right[self._held_right] = total
        if self._edges is None or edges is None:
            return LocalCounts(*cell, of_left, of_right)
        of_edges = np.zeros((graph.n_edges, n_digits), np.uint64)
        of_edges[self._edges] = edges
        # An edge of a vertex that all bicliques contain is in those of its other vertex.
        for u in self._held_left:
            of_edges[graph.left_offsets[u] : graph.left_offsets[u + 1]] = of_right[graph.neighbours_of_left(u)]
        for v in self._held_right:
            of_edges[self._edges_of_right(v)] = of_left[graph.neighbours_of_right(v)]
        return LocalCounts(*cell, of_left, of_right, of_edges)

    def _edges_of_part(self) -> np.ndarray:
        """Find the user's edges of the part, in their order: the part is induced, and its ids ascend."""
        graph = self._graph
        is_left, is_right = np.zeros(graph.n_left, np.bool_), np.zeros(graph.n_right, np.bool_)
        is_left[self._part.left_ids] = is_right[self._part.right_ids] = True
        return np.flatnonzero(np.repeat(is_left, graph.left_degrees) & is_right[graph.left_members])

    def _edges_of_right(self, v: int) -> np.ndarray:
        return np.flatnonzero(self._graph.left_members == v)

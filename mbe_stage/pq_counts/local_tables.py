"""Tables of local counts for the user's vertices and edges, from those for a part of the graph.

For a cell with at most one vertex to choose on a side, the local counts follow from degrees, without a search.
"""

from __future__ import annotations

from math import comb
from typing import NamedTuple

import numpy as np

from mbe_stage.graphs.bipartite import BipartiteCSR
from mbe_stage.pq_counts.digits import carried, digits_of, n_digits
from mbe_stage.pq_counts.query import PqQuery
from mbe_stage.pq_counts.reduction import Reduced
from mbe_stage.pq_counts.results import LocalCounts


class FromDegrees(NamedTuple):
    """Numbers of bicliques that contain each vertex and each edge of a graph, as digits of 32 bits.

    Attributes
    ----------
    total : (1, n_digits) uint64
        Number of all bicliques.
    left, right : (n_left, n_digits) and (n_right, n_digits) uint64
    edges : (n_edges, n_digits) uint64
        Numbers for the edges, by left vertex.
    """

    total: np.ndarray
    left: np.ndarray
    right: np.ndarray
    edges: np.ndarray

    def swapped(self, graph: BipartiteCSR) -> FromDegrees:
        """Return the numbers for the graph with its sides exchanged; `graph` is the graph of these numbers."""
        by_right = np.argsort(graph.left_members, kind="stable")
        return FromDegrees(self.total, self.right, self.left, self.edges[by_right])


def from_degrees(graph: BipartiteCSR, p: int, q: int) -> FromDegrees:
    """Compute the local counts of a graph for p left and q right vertices, one of them at most 1.

    With one left vertex u, there are C(d(u), q) bicliques, and C(d(u) - 1, q - 1) with a given neighbour. With none,
    all right vertices may be chosen, because `graph` is the common neighbourhood of the held vertices.

    Parameters
    ----------
    p, q : int
        Numbers of vertices to choose, at least 0.
    """
    if p > 1:
        return from_degrees(graph.swapped(), q, p).swapped(graph.swapped())
    if p == 0:
        total, each = comb(graph.n_right, q), _others(graph.n_right, q)
        n = n_digits(total)
        right = np.repeat(digits_of([each], n), graph.n_right, axis=0)
        left, edges = (np.zeros((size, n), np.uint64) for size in (graph.n_left, graph.n_edges))
        return FromDegrees(digits_of([total], n), left, right, edges)
    degrees, kind, times = np.unique(graph.left_degrees, return_inverse=True, return_counts=True)
    whole = [comb(degree, q) for degree in degrees.tolist()]
    total = sum(ways * n for ways, n in zip(whole, times.tolist(), strict=True))
    n = n_digits(total)
    left = digits_of(whole, n)[kind]
    with_one = digits_of([_others(degree, q) for degree in degrees.tolist()], n)[kind]
    edges = np.repeat(with_one, graph.left_degrees, axis=0)
    return FromDegrees(digits_of([total], n), left, _sums(with_one[graph.right_members], graph.right_offsets), edges)


def _others(n: int, size: int) -> int:
    """Return the number of ways to choose `size` of `n`, including a given one."""
    return comb(n - 1, size - 1) if n >= 1 and size >= 1 else 0


def _sums(digits: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """Sum ranges of numbers; each sum fits the digits, and fewer than 2^31 numbers are added."""
    before = np.zeros((digits.shape[0] + 1, digits.shape[1]), np.uint64)
    # Differences are right even if running sums wrap around at 2^64, because each range's sum is below that.
    np.cumsum(digits, axis=0, out=before[1:])
    return carried(before[offsets[1:]] - before[offsets[:-1]])


def table_bytes(graph: BipartiteCSR, n_digits: int, *, edges: bool) -> int:
    """Return the bytes of the tables of one cell, and of the edges' positions."""
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
        True if counts of edges are requested.
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
        """Return the table for the user's graph of bicliques of a cell.

        Parameters
        ----------
        cell : (p, q)
        total : (1, n_digits) uint64
            Number of bicliques; it is the count of each vertex that all bicliques contain.
        left, right : (n, n_digits) uint64
            Numbers for the part's vertices.
        edges : (n_edges, n_digits) uint64 or None
            Numbers for the part's edges, by left vertex.
        """
        graph, n_digits = self._graph, total.shape[1]
        of_left, of_right = (np.zeros((n, n_digits), np.uint64) for n in (graph.n_left, graph.n_right))
        of_left[self._part.left_ids], of_right[self._part.right_ids] = left, right
        of_left[self._held_left] = of_right[self._held_right] = total
        if self._edges is None or edges is None:
            return LocalCounts(*cell, of_left, of_right)
        of_edges = np.zeros((graph.n_edges, n_digits), np.uint64)
        of_edges[self._edges] = edges
        # If all bicliques contain a vertex, its edges have the counts of their other vertices.
        for u in self._held_left:
            of_edges[graph.left_offsets[u] : graph.left_offsets[u + 1]] = of_right[graph.neighbours_of_left(u)]
        for v in self._held_right:
            of_edges[self._edges_of_right(v)] = of_left[graph.neighbours_of_right(v)]
        return LocalCounts(*cell, of_left, of_right, of_edges)

    def _edges_of_part(self) -> np.ndarray:
        """Return the positions of the part's edges in the user's graph; ids ascend in both: same order."""
        graph = self._graph
        is_left, is_right = np.zeros(graph.n_left, np.bool_), np.zeros(graph.n_right, np.bool_)
        is_left[self._part.left_ids] = is_right[self._part.right_ids] = True
        return np.flatnonzero(np.repeat(is_left, graph.left_degrees) & is_right[graph.left_members])

    def _edges_of_right(self, v: int) -> np.ndarray:
        return np.flatnonzero(self._graph.left_members == v)

"""Make the graph smaller without losing or adding a counted biclique.

- `containing`: if bicliques must contain the left vertices A and the right vertices B, choose p - |A| left vertices of
  N(B) and q - |B| right vertices of N(A), on the induced subgraph;
- bicliques with at most one vertex to choose on a side are counted from degrees (`without_search`), so the search has
  at least two to choose on each side;
- the (p, q)-core: then a left vertex needs as many neighbours as the smallest q, and a right vertex as the smallest p.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mbe_stage.graphs import subgraphs
from mbe_stage.graphs.bipartite import BipartiteCSR
from mbe_stage.graphs.subgraphs import common_neighbours, peel_to_core, ranks, subgraph
from mbe_stage.pq_counts.query import PqQuery
from mbe_stage.pq_counts.results import Leaves
from mbe_stage.runtime.compile_ahead import CompileStep


@dataclass(frozen=True, slots=True, eq=False)
class Reduced:
    """The part of the graph to search.

    Attributes
    ----------
    left_ids, right_ids : (graph.n_left,) and (graph.n_right,) int64
        The user's vertices, ascending.
    held_left, held_right : int
        Numbers of vertices outside `graph` that every biclique contains.
    min_p, max_p, min_q, max_q : int
        Wanted numbers of vertices of `graph`, at least two. The graph is empty if a maximum is below two.
    """

    graph: BipartiteCSR
    left_ids: np.ndarray
    right_ids: np.ndarray
    held_left: int
    held_right: int
    min_p: int
    max_p: int
    min_q: int
    max_q: int

    def swapped(self) -> Reduced:
        """Return the part with its sides exchanged."""
        return Reduced(
            self.graph.swapped(),
            self.right_ids,
            self.left_ids,
            self.held_right,
            self.held_left,
            self.min_q,
            self.max_q,
            self.min_p,
            self.max_p,
        )


def to_choose(graph: BipartiteCSR, query: PqQuery) -> Reduced:
    """Return the part of the graph to choose vertices from, before its core is taken.

    Parameters
    ----------
    query : PqQuery
        If no biclique can match, the part is empty.
    """
    left, right = set(query.containing_left), set(query.containing_right)
    left_free, right_free = common_neighbours(graph, left, right)
    left_free[list(left)] = right_free[list(right)] = False
    if not is_possible(graph, query):
        left_free[:] = right_free[:] = False
    sizes = [
        max(0, size - len(held))
        for size, held in zip(
            (query.min_p, query.max_p, query.min_q, query.max_q), (left, left, right, right), strict=True
        )
    ]
    return Reduced(
        subgraph(graph, left_free, right_free, ranks(left_free), ranks(right_free)),
        np.flatnonzero(left_free),
        np.flatnonzero(right_free),
        len(left),
        len(right),
        *sizes,
    )


def is_possible(graph: BipartiteCSR, query: PqQuery) -> bool:
    """Return True if all required vertices are adjacent, and some cell is large enough for them."""
    left, right = sorted(set(query.containing_left)), set(query.containing_right)
    adjacent = all(right <= set(graph.neighbours_of_left(u).tolist()) for u in left)
    return adjacent and len(left) <= query.max_p and len(right) <= query.max_q


def reduced(part: Reduced) -> Reduced:
    """Return the core of the result of `to_choose`, with at least two vertices to choose on each side."""
    graph = part.graph
    min_p, min_q = max(2, part.min_p), max(2, part.min_q)
    left_alive, right_alive = np.ones(graph.n_left, np.bool_), np.ones(graph.n_right, np.bool_)
    if part.max_p < min_p or part.max_q < min_q:
        left_alive[:] = right_alive[:] = False
    peel_to_core(graph, left_alive, right_alive, min_p, min_q)
    return Reduced(
        subgraph(graph, left_alive, right_alive, ranks(left_alive), ranks(right_alive)),
        part.left_ids[left_alive],
        part.right_ids[right_alive],
        part.held_left,
        part.held_right,
        min_p,
        part.max_p,
        min_q,
        part.max_q,
    )


def without_search(part: Reduced) -> list[Leaves]:
    """Count all bicliques with at most one vertex to choose on a side, from degrees.

    Parameters
    ----------
    part : Reduced
        Result of `to_choose`.
    """
    graph, held_left, held_right = part.graph, part.held_left, part.held_right
    found = []
    if part.min_p == 0:
        found.append(_leaves(held_left, 0, held_right, [graph.n_right], [1], min_q=0))
    if part.min_p <= 1 <= part.max_p:
        found.append(_leaves(held_left + 1, 0, held_right, *_degrees(graph.left_degrees), min_q=0))
    if part.min_q == 0:
        found.append(_leaves(held_right, 0, held_left, [graph.n_left], [1], min_q=held_left + 2).swapped())
    if part.min_q <= 1 <= part.max_q:
        others = _leaves(held_right + 1, 0, held_left, *_degrees(graph.right_degrees), min_q=held_left + 2)
        found.append(others.swapped())
    return found


def compile_steps() -> tuple[CompileStep, ...]:
    """Return the steps to compile for this module."""
    return subgraphs.compile_steps()


def _degrees(degrees: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return np.unique(degrees, return_counts=True)


def _leaves(
    held_left: int, optional_left: int, held_right: int, optional_right: object, times: object, *, min_q: int
) -> Leaves:
    """Return leaves that differ only in their optional right vertices.

    Parameters
    ----------
    optional_right, times : (n,) integers
    """
    optional = np.asarray(optional_right, np.int64)
    return Leaves(
        held_left=np.full(optional.size, held_left, np.int64),
        optional_left=np.full(optional.size, optional_left, np.int64),
        held_right=np.full(optional.size, held_right, np.int64),
        optional_right=optional,
        times=np.asarray(times, np.int64),
        min_q=min_q,
    )

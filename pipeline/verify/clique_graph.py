"""The graph that a run of cliques is of, made again from its input; and what it says of vertices and of cliques.

Deliberately plain, and by other means than what searched: sparse matrices, sets, and integers as sets of bits.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from scipy.sparse import csr_array

from mbe_stage.pipeline.edges import EdgeData
from mbe_stage.pipeline.verify.closure import Adjacency

__all__ = ["CliqueGraph", "cliques_of", "core_numbers", "graph_of", "grown"]

# Products that a projection may take, and rows of it that are made at once.
_MOST_PRODUCTS = 500_000_000
_PRODUCTS_AT_ONCE = 20_000_000


@dataclass(frozen=True, slots=True, eq=False)
class CliqueGraph:
    """Neighbours of each vertex, ascending: those of `v` are ``members[offsets[v]:offsets[v + 1]]``."""

    offsets: np.ndarray
    members: np.ndarray
    known: dict[int, frozenset[int]] = field(default_factory=dict)

    @property
    def n(self) -> int:
        """Number of vertices."""
        return self.offsets.size - 1

    @property
    def n_edges(self) -> int:
        """Number of edges."""
        return self.members.size // 2

    def neighbours(self, vertex: int) -> frozenset[int]:
        """As a set, made once."""
        if vertex not in self.known:
            self.known[vertex] = frozenset(self.members[self.offsets[vertex] : self.offsets[vertex + 1]].tolist())
        return self.known[vertex]

    def with_loops(self) -> Adjacency:
        """Each vertex joined to itself as well, as a graph of two sides.

        There a set of vertices, put on both sides, is a maximal biclique exactly where it is a maximal clique here.
        """
        n = self.n
        sources = np.concatenate([np.repeat(np.arange(n), np.diff(self.offsets)), np.arange(n)]).astype(np.int32)
        targets = np.concatenate([self.members, np.arange(n)]).astype(np.int32)
        return Adjacency.of(sources, targets, n, n)


def graph_of(edges: EdgeData, project: str | None, min_shared: int) -> CliqueGraph | None:
    """The graph of the edges, or their projection; None where that takes too many steps here.

    Parameters
    ----------
    min_shared : int
        Of the projection.
    """
    n_left, n_right = len(edges.left_keys), len(edges.right_keys)
    joined = csr_array((np.ones(edges.left_ids.size, np.int64), (edges.left_ids, edges.right_ids)), (n_left, n_right))
    if project is None:
        both = joined + joined.T
        both.setdiag(0)
        both.eliminate_zeros()
        return _graph(both.tocsr())
    side = joined if project == "left" else joined.T.tocsr()
    return _projection(side, min_shared)


def _projection(side: csr_array, min_shared: int) -> CliqueGraph | None:
    degrees = np.bincount(side.indices, minlength=side.shape[1]).astype(np.int64)
    steps = np.zeros(side.shape[0] + 1, np.int64)
    steps[1:] = np.cumsum(degrees[side.indices])[side.indptr[1:] - 1] if side.indices.size else 0
    if steps[-1] > _MOST_PRODUCTS:
        return None
    transposed, parts, first = side.T.tocsr(), [], 0
    while first < side.shape[0]:
        end = int(np.searchsorted(steps, steps[first] + _PRODUCTS_AT_ONCE, side="right")) - 1
        end = min(max(end, first + 1), side.shape[0])
        shared = (side[first:end] @ transposed).tocoo()
        rows, columns = shared.row + first, shared.col
        wanted = (shared.data >= min_shared) & (rows != columns)
        parts.append((rows[wanted], columns[wanted]))
        first = end
    rows, columns = (np.concatenate([part[i] for part in parts]) for i in (0, 1))
    return _graph(csr_array((np.ones(rows.size, np.int8), (rows, columns)), (side.shape[0], side.shape[0])))


def _graph(matrix: csr_array) -> CliqueGraph:
    matrix.sort_indices()
    return CliqueGraph(matrix.indptr.astype(np.int64), matrix.indices.astype(np.int32))


def core_numbers(graph: CliqueGraph) -> np.ndarray:
    """The largest k for which each vertex is in a subgraph where all have k neighbours; (n,) int64.

    Whoever has at most k neighbours among those that are left leaves, round by round, for k = 0, 1, 2, ...
    """
    left = np.diff(graph.offsets)
    cores, is_there, k = np.zeros(graph.n, np.int64), np.ones(graph.n, np.bool_), 0
    while is_there.any():
        leaving = np.flatnonzero(is_there & (left <= k))
        if not leaving.size:
            k = int(left[is_there].min())
            continue
        cores[leaving], is_there[leaving] = k, False
        starts, sizes = graph.offsets[leaving], np.diff(graph.offsets)[leaving]
        places = np.repeat(starts - np.concatenate([[0], np.cumsum(sizes)[:-1]]), sizes) + np.arange(sizes.sum())
        left = left - np.bincount(graph.members[places], minlength=graph.n)
    return cores


def grown(graph: CliqueGraph, seed: tuple[int, ...]) -> list[int]:
    """One maximal clique that holds some vertices with edges between them: it takes the first that can join."""
    clique, candidates = list(seed), set.intersection(*(set(graph.neighbours(vertex)) for vertex in seed))
    while candidates:
        vertex = min(candidates)
        clique.append(vertex)
        candidates &= graph.neighbours(vertex)
    return sorted(clique)


def cliques_of(graph: CliqueGraph, cores: np.ndarray, most_nodes: int) -> list[list[int]] | None:
    """Every maximal clique; None where a search of so many nodes does not find them all.

    Bron and Kerbosch 1973 below each vertex, with those of larger core numbers as candidates, sets as bits of integers.
    """
    order = np.lexsort((np.arange(graph.n), cores))
    rank = np.empty(graph.n, np.int64)
    rank[order] = np.arange(graph.n)
    found: list[list[int]] = []
    n_nodes = 0
    for root in order.tolist():
        local = sorted(graph.neighbours(root), key=lambda vertex: rank[vertex])
        place = {vertex: i for i, vertex in enumerate(local)}
        rows = [sum(1 << place[other] for other in graph.neighbours(vertex) if other in place) for vertex in local]
        later = sum(1 << i for i, vertex in enumerate(local) if rank[vertex] > rank[root])
        open_nodes = [([root], later, (1 << len(local)) - 1 - later)]
        while open_nodes:
            n_nodes += 1
            if n_nodes > most_nodes:
                return None
            clique, candidates, excluded = open_nodes.pop()
            if not candidates:
                if not excluded:
                    found.append(sorted(clique))
                continue
            pivot = max(_bits(candidates | excluded), key=lambda i: (candidates & rows[i]).bit_count())
            for i in _bits(candidates & ~rows[pivot]):
                open_nodes.append(([*clique, local[i]], candidates & rows[i], excluded & rows[i]))
                candidates &= ~(1 << i)
                excluded |= 1 << i
    return found


def _bits(word: int) -> list[int]:
    places = []
    while word:
        lowest = word & -word
        places.append(lowest.bit_length() - 1)
        word ^= lowest
    return places

"""Undirected graphs with closed-form maximal cliques, and random ones."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import numpy as np

from mbe_stage import CliqueQuery, UndirectedCSR

if TYPE_CHECKING:
    from hypothesis import strategies as st

Cliques = set[tuple[int, ...]]


def from_matrix(matrix: np.ndarray) -> UndirectedCSR:
    """Return the graph of a 0/1 matrix, made symmetric."""
    return UndirectedCSR.from_edges(*np.nonzero(matrix), n=matrix.shape[0])


def complement(graph: UndirectedCSR) -> UndirectedCSR:
    matrix = np.ones((graph.n, graph.n), bool)
    matrix[graph.edges()] = False
    return from_matrix(matrix & matrix.T)


def complete(n: int) -> UndirectedCSR:
    return from_matrix(np.ones((n, n), bool))


def cycle(n: int) -> UndirectedCSR:
    return UndirectedCSR.from_edges(np.arange(n), (np.arange(n) + 1) % n)


def turan(part_sizes: list[int]) -> tuple[UndirectedCSR, Cliques]:
    """Return a complete multipartite graph: a clique takes one vertex of each part (Moon and Moser: parts of 3)."""
    part = np.repeat(np.arange(len(part_sizes)), part_sizes)
    ids = iter(range(part.size))
    parts = [[next(ids) for _ in range(size)] for size in part_sizes]
    return from_matrix(part[:, None] != part[None, :]), set(itertools.product(*parts))


def perrin(n: int) -> int:
    """Count maximal independent sets of a cycle of n > 2: maximal cliques of its complement (Füredi 1987)."""
    numbers = [3, 0, 2]
    while len(numbers) <= n:
        numbers.append(numbers[-2] + numbers[-3])
    return numbers[n]


def random_graph(rng: np.random.Generator, n: int, density: float) -> UndirectedCSR:
    return from_matrix(np.triu(rng.random((n, n)) < density, 1))


def nearly_complete(rng: np.random.Generator, n: int, n_missing: int, n_others: int) -> UndirectedCSR:
    """Return a nearly complete graph, with other vertices adjacent to half of it, under shuffled ids.

    Its roots have up to n candidates and the other vertices among the excluded ones; there are few cliques.
    """
    matrix = np.zeros((n + n_others, n + n_others), bool)
    matrix[:n, :n] = np.triu(np.ones((n, n), bool), 1)
    matrix[rng.integers(0, n, n_missing), rng.integers(0, n, n_missing)] = False
    matrix[:n, n:] = rng.random((n, n_others)) < 0.5
    ids = rng.permutation(n + n_others)
    src, dst = np.nonzero(matrix)
    return UndirectedCSR.from_edges(ids[src], ids[dst], n=n + n_others)


def two_densities(rng: np.random.Generator, n: int, n_dense: int, density: float) -> UndirectedCSR:
    """Return a graph with a dense part whose vertices have few neighbours elsewhere, under shuffled ids."""
    chance = np.full((n, n), 0.05)
    chance[:n_dense, :n_dense] = density
    ids = rng.permutation(n)
    src, dst = np.nonzero(np.triu(rng.random((n, n)) < chance, 1))
    return UndirectedCSR.from_edges(ids[src], ids[dst], n=n)


def matrices(most: int = 14) -> st.SearchStrategy[np.ndarray]:
    from hypothesis import strategies as st

    return st.builds(
        lambda n, density, seed: np.random.default_rng(seed).random((n, n)) < density,
        st.integers(1, most),
        st.sampled_from([0.1, 0.3, 0.5, 0.7, 0.9]),
        st.integers(0, 2**32 - 1),
    )


def of_networkx(graph: UndirectedCSR) -> Cliques:
    """Return the maximal cliques by networkx; GPU machines need not have it installed."""
    import networkx

    other = networkx.Graph()
    other.add_nodes_from(range(graph.n))
    src, dst = graph.edges()
    other.add_edges_from(zip(src.tolist(), dst.tolist(), strict=True))
    return {tuple(sorted(clique)) for clique in networkx.find_cliques(other)}


def matching(cliques: Cliques, query: CliqueQuery) -> Cliques:
    return {one for one in cliques if query.accepts(len(one)) and set(query.containing) <= set(one)}


def queries(n: int) -> st.SearchStrategy[CliqueQuery]:
    from hypothesis import strategies as st

    return st.builds(
        lambda fewest, more, members: CliqueQuery(
            fewest, None if more is None else max(fewest + more, len(members)), tuple(members)
        ),
        st.integers(1, 4),
        st.none() | st.integers(0, 3),
        st.lists(st.integers(0, n - 1), max_size=2, unique=True),
    )

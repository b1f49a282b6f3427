"""Graphs with closed-form maximal bicliques, and random ones."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

from mbe_stage import BipartiteCSR

if TYPE_CHECKING:
    from hypothesis import strategies as st


def from_matrix(matrix: np.ndarray) -> BipartiteCSR:
    """Return the graph of a 0/1 matrix; rows are the left side."""
    left, right = np.nonzero(matrix)
    return BipartiteCSR.from_edges(left, right, *matrix.shape)


def complete(n_left: int, n_right: int) -> BipartiteCSR:
    """Return a complete graph: one biclique."""
    return from_matrix(np.ones((n_left, n_right), bool))


def crown(n: int) -> BipartiteCSR:
    """Return a crown, which lacks a perfect matching: 2**n - 2 bicliques, one per proper non-empty left subset."""
    return from_matrix(~np.eye(n, dtype=bool))


def bicliques_of_crown(n: int, n_right: Iterable[int]) -> set[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Return those of a crown's 2**n - 2 bicliques with this many right vertices; the rest are on the left."""
    chosen = itertools.chain.from_iterable(itertools.combinations(range(n), size) for size in n_right)
    return {(tuple(v for v in range(n) if v not in right), right) for right in chosen}


def path(n_edges: int) -> BipartiteCSR:
    """Return a path: each inner vertex with its two neighbours, so n_edges - 1 bicliques (1 for a single edge)."""
    edges = np.arange(n_edges)
    return BipartiteCSR.from_edges((edges + 1) // 2, edges // 2)


def cycle(n: int) -> BipartiteCSR:
    """Return a cycle of 2 n vertices, n > 2: every vertex with its two neighbours, 2 n bicliques."""
    edges = np.arange(n)
    return BipartiteCSR.from_edges(np.concatenate([edges, edges]), np.concatenate([edges, (edges + 1) % n]))


def star(n_leaves: int) -> BipartiteCSR:
    """Return a star with a right centre: one biclique."""
    return BipartiteCSR.from_edges(np.arange(n_leaves), np.zeros(n_leaves, int))


def half_graph(n: int) -> BipartiteCSR:
    """Return the graph where left vertex i has the right neighbours 0 .. i: n nested bicliques."""
    return from_matrix(np.tri(n, dtype=bool))


def blocks(sizes: list[tuple[int, int]]) -> BipartiteCSR:
    """Return disjoint complete blocks: one biclique each."""
    n_left, n_right = (sum(size[side] for size in sizes) for side in (0, 1))
    matrix = np.zeros((n_left, n_right), bool)
    left = right = 0
    for block_left, block_right in sizes:
        matrix[left : left + block_left, right : right + block_right] = True
        left, right = left + block_left, right + block_right
    return from_matrix(matrix)


def random_matrix(seed: int, n_left: int, n_right: int, density: float) -> np.ndarray:
    return np.random.default_rng(seed).random((n_left, n_right)) < density


def matrices(max_left: int = 12, max_right: int = 12) -> st.SearchStrategy[np.ndarray]:
    """Generate small 0/1 matrices of any density, including empty sides and isolated vertices."""
    # The processes of emulated kernels do not need Hypothesis.
    from hypothesis import strategies as st

    @st.composite
    def made(draw: st.DrawFn) -> np.ndarray:
        n_left = draw(st.integers(1, max_left))
        n_right = draw(st.integers(1, max_right))
        rows = draw(st.lists(st.integers(0, 2**n_right - 1), min_size=n_left, max_size=n_left))
        return np.array([[row >> k & 1 for k in range(n_right)] for row in rows], dtype=bool)

    return made()

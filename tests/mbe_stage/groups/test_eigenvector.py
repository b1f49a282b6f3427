"""The first eigenvector equals its reference and a dense one, and is unique even with ties."""

from __future__ import annotations

import numpy as np
import pytest

from mbe_stage import BipartiteCSR
from mbe_stage.groups import reference
from mbe_stage.groups.eigenvector import tfidf_eigenvector
from tests.mbe_stage import graphs
from tests.mbe_stage.groups.random_graphs import small_graphs, with_blocks


def dense(graph: BipartiteCSR) -> tuple[np.ndarray, np.ndarray, float]:
    """Return the first singular vectors, scaled to a maximum of 1, and the second singular value by the first."""
    matrix = np.zeros((graph.n_left, graph.n_right))
    matrix[graph.edges()] = 1
    vectors = matrix * np.log(graph.n_left / np.maximum(graph.right_degrees, 1))
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    vectors = np.divide(vectors, lengths, out=np.zeros_like(vectors), where=lengths > 0)
    left, values, right = np.linalg.svd(vectors, full_matrices=False)
    of_both = np.abs(left[:, 0]), np.abs(right[0])
    gap = values[1] / values[0] if values.size > 1 and values[0] > 0 else 0.0
    first, second = (each / each.max() for each in of_both)
    return first, second, gap


def test_it_equals_the_dense_eigenvector() -> None:
    n_compared = 0
    for seed in range(20):
        graph = with_blocks(seed)
        left, right, gap = dense(graph)
        if gap < 0.9:
            n_compared += 1
            found = tfidf_eigenvector(graph)
            assert found[0] == pytest.approx(left, abs=1e-4)
            assert found[1] == pytest.approx(right, abs=1e-4)
    assert n_compared >= 5


def test_it_equals_the_reference() -> None:
    for graph in (*small_graphs(40), *(with_blocks(seed) for seed in range(5))):
        if graph.n_edges:
            found = tfidf_eigenvector(graph)
            expected = reference.tfidf_eigenvector(*graph.edges(), (graph.n_left, graph.n_right))
            for side, wanted in zip(found, expected, strict=True):
                assert side.tolist() == pytest.approx(wanted.tolist(), rel=4e-6, abs=0)
                assert side.min() >= 0
                assert side.max() in (0, 1)
                # Twenty digits.
                mantissas, _ = np.frexp(side)
                assert (np.ldexp(mantissas, 20) % 1 == 0).all()


def test_equal_blocks_share_the_first_place() -> None:
    """Their eigenvalues are equal, so that any mixture would be an eigenvector."""
    left, right = tfidf_eigenvector(graphs.blocks([(3, 4), (3, 4), (1, 1), (1, 1)]))
    assert left.tolist() == [1.0] * 6 + [left[6]] * 2
    assert left[6] < 1e-6
    assert right[:8].tolist() == [1.0] * 8


def test_targets_shared_by_all_score_zero() -> None:
    for graph in (graphs.complete(3, 4), graphs.star(5), graphs.from_matrix(np.zeros((3, 4), bool))):
        assert not any(side.any() for side in tfidf_eigenvector(graph))


def test_order_and_other_vertices_do_not_matter() -> None:
    graph = with_blocks(3)
    left, right = (ids.astype(np.int64) for ids in graph.edges())
    dice = np.random.default_rng(1)
    order, places = dice.permutation(left.size), dice.permutation(graph.n_left)
    again = BipartiteCSR.from_edges(places[left[order]], right[order], graph.n_left, graph.n_right)
    found, moved = tfidf_eigenvector(graph), tfidf_eigenvector(again)
    assert moved[0][places] == pytest.approx(found[0], rel=1e-5)
    assert moved[1] == pytest.approx(found[1], rel=1e-5)

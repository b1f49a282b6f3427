"""Graphs with no structure except their degrees have no groups, short or grown."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.groups.ours import Search, grown_above_chance, search
from benchmarks.groups.swaps import by_configuration, half_graph, swapped
from mbe_stage import BipartiteCSR
from mbe_stage.groups.null_model import SIGNIFICANT

COPIES = [3, pytest.param(60, marks=pytest.mark.slow)]


def has_no_groups(graph: BipartiteCSR, least: int = 2) -> Search:
    """Check that no biclique is significant and no group grows."""
    found = search(graph, least, least, time_limit_seconds=20)
    assert not (found.candidates.surprise > SIGNIFICANT).any()
    assert grown_above_chance(found).scores.size == 0
    return found


@pytest.mark.parametrize("n", [6, 20, 60, 150, pytest.param(300, marks=pytest.mark.slow)])
def test_a_graph_determined_by_its_degrees(n: int) -> None:
    """All its edges are forced; by `d d / E` the block in its corner would have fewer edges than expected."""
    graph = half_graph(n)
    assert has_no_groups(graph).model.is_fitted
    copy = swapped(graph, 0)
    assert copy.left_members.tolist() == graph.left_members.tolist()


@pytest.mark.parametrize("n_copies", COPIES)
@pytest.mark.parametrize("n_of_one", [300, 1000, 4000])
def test_vertices_of_one_and_two_edges(n_of_one: int, n_copies: int) -> None:
    """If most vertices have one edge, few vertices are left to name."""
    for seed in range(n_copies):
        assert not has_no_groups(by_configuration(n_of_one, 3000, seed)).model.is_fitted


@pytest.mark.parametrize("n_copies", COPIES)
@pytest.mark.parametrize(("n_left", "n_right", "density"), [(60, 40, 0.25), (25, 90, 0.5)])
def test_rewired_copies_of_dense_graphs(n_left: int, n_right: int, density: float, n_copies: int) -> None:
    """Log-normal activity and popularity; the original has a block that the copies lack."""
    dice = np.random.default_rng(1)
    odds = np.exp(dice.normal(0, 1, n_left))[:, None] * np.exp(dice.normal(0, 1, n_right)) * density / (1 - density)
    present = dice.random((n_left, n_right)) < odds / (1 + odds)
    present[:12, :12] = True
    graph = BipartiteCSR.from_edges(*np.nonzero(present), n_left, n_right)
    for seed in range(n_copies):
        assert has_no_groups(swapped(graph, seed), least=4).model.is_fitted

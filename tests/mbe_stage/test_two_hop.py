"""Two-hop degrees compared with plain sets, and their cost with known bounds."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mbe_stage import BipartiteCSR
from mbe_stage.graphs.bipartite import wedge_counts
from mbe_stage.graphs.two_hop import sampled_two_hop_degrees, two_hop_degrees, two_hop_steps
from tests.mbe_stage import graphs


def plain(graph: BipartiteCSR) -> list[int]:
    rows = [set(graph.neighbours_of_left(u).tolist()) for u in range(graph.n_left)]
    return [sum(u != w and not mine.isdisjoint(rows[w]) for w in range(graph.n_left)) for u, mine in enumerate(rows)]


@settings(deadline=None)  # the first call compiles
@given(graphs.matrices(), st.integers(1, 4))
def test_as_plain_sets_say(matrix: np.ndarray, threads: int) -> None:
    graph = graphs.from_matrix(matrix)
    assert two_hop_degrees(graph, threads).tolist() == plain(graph)
    assert two_hop_degrees(graph.swapped(), threads).tolist() == plain(graph.swapped())


@pytest.mark.parametrize("seed", range(5))
def test_samples_have_distinct_vertices(seed: int) -> None:
    graph = graphs.from_matrix(graphs.random_matrix(seed, 60, 30, 0.05))
    found = sampled_two_hop_degrees(graph, 60, seed)
    assert sorted(found.tolist()) == sorted(plain(graph))
    few = sampled_two_hop_degrees(graph, 7, seed)
    vertices = np.random.default_rng(seed).choice(60, 7, replace=False)
    assert few.tolist() == np.array(plain(graph))[vertices].tolist()


@pytest.mark.parametrize("seed", range(20))
def test_if_nearly_all_are_reached_the_others_are_counted(seed: int) -> None:
    """Columns that all rows but a few have, as one-hot attributes do, and empty rows."""
    matrix = graphs.random_matrix(seed, 80, 30, [0.05, 0.3, 0.9][seed % 3])
    matrix[: 80 - seed, :3] = True
    matrix[40:42] = False
    graph = graphs.from_matrix(matrix)
    for each in (graph, graph.swapped()):
        assert two_hop_degrees(each, 2).tolist() == plain(each)
        assert two_hop_degrees(each).dtype == np.int64


@pytest.mark.parametrize(
    ("graph", "left"),
    [
        (graphs.complete(5, 3), [4] * 5),
        (graphs.crown(6), [5] * 6),
        (graphs.cycle(9), [2] * 9),
        (graphs.half_graph(7), [6] * 7),
        (graphs.star(4), [3] * 4),
        (graphs.blocks([(3, 4), (1, 1), (5, 2)]), [2] * 3 + [0] + [4] * 5),
        (BipartiteCSR.from_edges([], [], 3, 2), [0] * 3),
        (BipartiteCSR.from_edges([], []), []),
    ],
)
def test_closed_forms(graph: BipartiteCSR, left: list[int]) -> None:
    assert two_hop_degrees(graph).tolist() == left


def test_vertices_reached_by_the_hub_cost_nothing() -> None:
    assert two_hop_steps(graphs.star(1000)) == (0, 999)
    assert wedge_counts(graphs.star(1000)) == (1000, 1_000_000)
    # If one column holds all rows, each row only needs its own neighbours.
    matrix = graphs.random_matrix(1, 200, 20, 0.5)
    matrix[:, 4] = True
    graph = graphs.from_matrix(matrix)
    assert two_hop_steps(graph)[0] == 200 + graph.n_edges


@pytest.mark.parametrize(
    ("name", "most_steps"),
    [
        ("southern_women", 1_000),
        ("mushroom", 200_000),
        pytest.param("kddcup99_onehot", 22_000_000, marks=pytest.mark.slow),
    ],
)
def test_real_graphs_with_columns_that_nearly_all_rows_share(data_dir: Path, name: str, most_steps: int) -> None:
    with np.load(data_dir / f"{name}.npz") as arrays:
        graph = BipartiteCSR.from_edges(arrays["u"], arrays["v"])
    assert two_hop_steps(graph)[0] <= most_steps < 2 * wedge_counts(graph)[1]
    found = two_hop_degrees(graph)
    for vertex in np.random.default_rng(0).integers(0, graph.n_left, 5).tolist():
        met = np.concatenate([graph.neighbours_of_right(v) for v in graph.neighbours_of_left(vertex)])
        assert found[vertex] == np.unique(met).size - 1

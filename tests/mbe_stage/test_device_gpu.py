"""Computations in device memory on a GPU, compared with the host's functions. Run with `make test-gpu`.

Several processes share the GPU. The longest stand first.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from mbe_stage import BicliqueQuery, BipartiteCSR, Detail, Execution, InvalidArgument, TableSink, enumerate_into
from mbe_stage.bicliques import reference
from tests.mbe_stage import graphs

pytestmark = pytest.mark.gpu


class Kept:
    detail = Detail.MEMBERS
    on_device = True

    def __init__(self) -> None:
        self.blocks: list = []

    def accept(self, block) -> None:
        self.blocks.append(block)


def load(data_dir: Path, name: str) -> BipartiteCSR:
    with np.load(data_dir / f"{name}.npz") as arrays:
        return BipartiteCSR.from_edges(arrays["u"], arrays["v"])


def with_hubs(seed: int) -> BipartiteCSR:
    """Return a graph with columns that nearly all rows have, and empty rows."""
    matrix = graphs.random_matrix(seed, 300, 60, [0.02, 0.2, 0.7][seed % 3])
    matrix[: 300 - 7 * seed, :2] = True
    matrix[100:104] = False
    return graphs.from_matrix(matrix)


@pytest.mark.parametrize(
    "name",
    [
        *("kddcup99_onehot", "bookcrossing", "gowalla", "EuAll", "lastfm_tag_artist", "youtube", "BMS_WebView2"),
        *("actor_movies", "github_half", "mushroom", "marvel", "movielens_ti", "dbpedia_writer", "chess"),
        *("ucforum", "unicodelang", "moreno_crime", "club_membership", "corporate_leadership", "southern_women"),
    ],
)
def test_two_hop_degrees_of_real_graphs(data_dir: Path, name: str) -> None:
    from tests.mbe_stage import device_checks

    graph = load(data_dir, name)
    device_checks.check_graph(graph)
    device_checks.check_two_hop(graph)


@pytest.mark.parametrize("name", ["youtube", "github_half", "mushroom", "marvel", "ucforum", "southern_women"])
def test_sums_over_real_graphs(data_dir: Path, name: str) -> None:
    from tests.mbe_stage import device_checks

    graph = load(data_dir, name)
    sink = Kept()
    # A small budget gives many blocks.
    enumerate_into(sink, device_checks.to_device(graph), None, Execution(device_memory_bytes=3 << 30))
    fingerprint = device_checks.check_sums(graph, sink.blocks)
    assert fingerprint == device_checks.check_sums(graph, device_checks.blocks_of(graph, 2))


def test_hashes() -> None:
    from tests.mbe_stage import device_checks

    device_checks.check_hashes()


def test_copies_and_cuts() -> None:
    from tests.mbe_stage import device_checks

    device_checks.check_cuts()
    device_checks.check_copies()


@pytest.mark.parametrize(
    "graph",
    [
        BipartiteCSR.from_edges([], []),
        BipartiteCSR.from_edges([], [], 3, 2),
        BipartiteCSR.from_edges([1], [2]),
        graphs.star(500),
        graphs.crown(11),
        graphs.half_graph(200),
        graphs.blocks([(400, 300), (1, 1), (3, 5)]),
        *(with_hubs(seed) for seed in range(6)),
        *(graphs.from_matrix(graphs.random_matrix(seed, 30, 40, 0.05 + 0.04 * seed)) for seed in range(10)),
    ],
)
def test_small_graphs(graph: BipartiteCSR) -> None:
    from tests.mbe_stage import device_checks

    device_checks.check_graph(graph)
    device_checks.check_two_hop(graph, 1, 5000)
    if graph.n_left <= 40:
        device_checks.check_sums(graph, device_checks.blocks_of(graph, 5))


def test_time_and_memory_follow_the_steps_and_not_the_number_of_vertices() -> None:
    """A table of this many vertices by bits would take 500 GB."""
    from tests.mbe_stage import device_checks

    graph = graphs.path(4_000_000)
    found = device_checks.device_two_hop.two_hop_degrees(device_checks.to_device(graph), 64 << 20)
    assert found.tolist() == [1, *[2] * (graph.n_left - 2), 1]


@pytest.mark.parametrize("left", [[-1], [3], [0, 1]])
def test_wrong_ids_are_named(left: list[int]) -> None:
    import cupy as cp

    from mbe_stage.device.graph import graph_from_edges

    with pytest.raises(InvalidArgument, match="left_ids"):
        graph_from_edges(cp.asarray(left), cp.asarray([0]), 3, 1)


@pytest.mark.parametrize("seed", range(20))
def test_device_and_host_sinks_get_the_same(seed: int) -> None:
    from tests.mbe_stage import device_checks

    graph = graphs.from_matrix(graphs.random_matrix(seed, 20 + seed, 25, 0.3))
    queries = [BicliqueQuery(), BicliqueQuery(min_left=2, min_right=2), BicliqueQuery(containing_left=(3,))]
    for query in queries:
        for given in (graph, device_checks.to_device(graph)):
            sink, again = Kept(), TableSink()
            facts = enumerate_into(sink, given, query)
            for block in sink.blocks:
                again.accept(device_checks.to_host(block))
            wanted = {pair for pair in reference.maximal_bicliques(graph) if reference.matches(*pair, query)}
            assert again.table().as_set() == wanted
            assert (facts.n_bicliques, facts.engine, facts.truncated) == (len(wanted), "cuda", None)
            assert sink.blocks[-1].work_done == 1.0


def test_limits_hold_on_the_device() -> None:
    sink = Kept()
    facts = enumerate_into(sink, graphs.crown(14), None, Execution(max_bicliques=1000))
    assert facts.n_bicliques == sum(block.n_bicliques for block in sink.blocks) == 1000
    assert facts.truncated == "stopped at max_bicliques = 1000"
    block = sink.blocks[-1]
    assert block.left_members.size == int(block.left_offsets[-1])
    assert block.right_members.size == int(block.right_offsets[-1])
    facts = enumerate_into(Kept(), graphs.crown(44), None, Execution(time_limit_seconds=1.0))
    assert facts.truncated == "stopped at time_limit_seconds = 1"
    assert facts.seconds < 60

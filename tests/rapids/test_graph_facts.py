"""Degrees and two-hop degrees by cuGraph, compared with the CPU's."""

from __future__ import annotations

import logging
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("cudf", reason="needs RAPIDS: pip install 'mbe-stage[rapids-cu13]'")
pytest.importorskip("pylibcugraph", reason="needs RAPIDS: pip install 'mbe-stage[rapids-cu13]'")

import cupy as cp

from mbe_stage.device.graph import graph_from_edges
from mbe_stage.graphs.bipartite import BipartiteCSR
from mbe_stage.graphs.two_hop import two_hop_degrees, two_hop_steps
from mbe_stage.pipeline.backends.cudf import graph_facts as module
from mbe_stage.pipeline.backends.cudf.graph_facts import graph_facts, network_of, two_hop_by_cugraph

pytestmark = pytest.mark.gpu

PLENTY = 1 << 32


def on_device(graph: BipartiteCSR) -> BipartiteCSR:
    left, right = graph.edges()
    return graph_from_edges(cp.asarray(left), cp.asarray(right), graph.n_left, graph.n_right)


def assert_right(graph: BipartiteCSR, facts: module.GraphFacts) -> None:
    assert np.array_equal(facts.left_degrees.get(), graph.left_degrees)
    assert np.array_equal(facts.right_degrees.get(), graph.right_degrees)
    assert facts.left_two_hop is not None
    assert facts.right_two_hop is not None
    assert np.array_equal(facts.left_two_hop.get(), two_hop_degrees(graph))
    assert np.array_equal(facts.right_two_hop.get(), two_hop_degrees(graph.swapped()))


def random_graph(seed: int, n_left: int, n_right: int, n_edges: int) -> BipartiteCSR:
    """Return a graph with skewed degrees and no isolated vertex."""
    rng = np.random.default_rng(seed)
    left = np.unique((n_left * rng.random(n_edges) ** 2).astype(int), return_inverse=True)[1]
    right = np.unique((n_right * rng.random(n_edges) ** 3).astype(int), return_inverse=True)[1]
    return BipartiteCSR.from_edges(left, right)


@pytest.mark.parametrize("seed", range(8))
def test_random_graphs_in_one_batch_and_in_many(seed: int) -> None:
    graph = random_graph(seed, 40 * (seed + 1), 25, 60 * (seed + 1))
    paths = module._paths(on_device(graph))
    facts = graph_facts(on_device(graph), 10**9, PLENTY)
    assert_right(graph, facts)
    assert facts.methods["left_two_hop"].startswith("cugraph (")
    assert ", 1 batches)" in facts.methods["left_two_hop"]
    least = int(paths.max())
    counts, n_batches = two_hop_by_cugraph(network_of(on_device(graph)), 0, paths, least)
    assert np.array_equal(counts.get(), facts.left_two_hop.get())
    assert n_batches > 1


def test_closed_forms() -> None:
    # A star, where all meet through the centre, and a path, where inner vertices meet two.
    star = BipartiteCSR.from_edges(range(50), [0] * 50)
    facts = graph_facts(on_device(star), 10**9, PLENTY)
    assert facts.left_two_hop.tolist() == [49] * 50
    assert facts.right_two_hop.tolist() == [0]
    path = BipartiteCSR.from_edges([0, 1, 1, 2, 2, 3], [0, 0, 1, 1, 2, 2])
    facts = graph_facts(on_device(path), 10**9, PLENTY)
    assert facts.left_two_hop.tolist() == [1, 2, 2, 1]
    assert facts.right_two_hop.tolist() == [1, 2, 1]


def test_the_budget_selects_the_counter(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    caplog.set_level(logging.INFO)
    graph = random_graph(3, 200, 60, 900)
    most = int(max(module._paths(on_device(graph)).max(), module._paths(on_device(graph.swapped())).max()))
    of_network = graph.n_edges * module._BYTES_PER_EDGE
    within = graph_facts(on_device(graph), 10**9, max(of_network, most * module._BYTES_PER_PATH))
    without = graph_facts(on_device(graph), 10**9, of_network - 1)
    monkeypatch.setattr(module, "_BYTES_PER_EDGE", 1)
    beyond = graph_facts(on_device(graph), 10**9, (most - 1) * module._BYTES_PER_PATH)
    assert beyond.methods["degrees"] == "cugraph"
    for facts in (within, beyond, without):
        assert_right(graph, facts)
    assert not any(method.startswith("cugraph") for method in without.methods.values())
    assert {method.partition(" (")[0] for side, method in within.methods.items() if "two_hop" in side} == {"cugraph"}
    assert "device code" in " ".join(beyond.methods.values())
    assert "two-hop degrees of the left side: " in caplog.text
    # A pair table that would not fit is never requested.
    monkeypatch.setattr(module, "_MOST_PATHS", 10)
    assert_right(graph, graph_facts(on_device(graph), 10**9, PLENTY))


def test_a_side_with_too_many_steps_is_not_counted() -> None:
    graph = random_graph(5, 300, 20, 800)
    left_steps, right_steps = two_hop_steps(graph)
    assert left_steps != right_steps
    few = min(left_steps, right_steps)
    facts = graph_facts(on_device(graph), few, PLENTY)
    assert (facts.left_two_hop is None) == (left_steps > few)
    assert (facts.right_two_hop is None) == (right_steps > few)
    none = graph_facts(on_device(graph), 0, PLENTY)
    assert none.left_two_hop is None
    assert none.right_two_hop is None
    assert none.methods["left_two_hop"] == "not counted"


NAMES = ["southern_women", "moreno_crime", "ucforum", "unicodelang", "marvel", "movielens_ti", "mushroom"]
NAMES += ["lastfm_tag_artist", "dbpedia_writer", "github_half", "BMS_WebView2", "youtube", "EuAll", "gowalla"]
NAMES += ["actor_movies", "bookcrossing", "kddcup99_onehot", "uni_ca_HepPh", "uni_wiki_Vote"]
NAMES += ["chess", "club_membership", "corporate_leadership"]


@pytest.mark.parametrize("name", NAMES)
def test_real_graphs(data_dir: Path, name: str) -> None:
    if not (data_dir / f"{name}.npz").is_file():
        pytest.skip(f"no {name}.npz in {data_dir}")
    with np.load(data_dir / f"{name}.npz") as archive:
        # u and v; src and dst of an undirected graph serve as two sides here.
        ids = [np.unique(archive[side], return_inverse=True)[1] for side in archive.files]
    graph = BipartiteCSR.from_edges(*ids)
    device = on_device(graph)
    facts = graph_facts(device, 10**12, PLENTY)
    assert_right(graph, facts)
    # If cuGraph can count, it agrees with the chosen counter.
    network = network_of(device)
    for first, side, counts in ((0, device, facts.left_two_hop), (graph.n_left, device.swapped(), facts.right_two_hop)):
        paths = module._paths(side)
        if int(paths.sum()) <= 1 << 30:
            found, _ = two_hop_by_cugraph(network, first, paths, max(1 << 28, int(paths.max())))
            assert bool((found == counts).all())

"""The candidate sink in device memory equals the host's: on the emulator and on a GPU."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import numpy as np
import pytest

from mbe_stage import BipartiteCSR, Detail, Execution, enumerate_into
from mbe_stage.groups import CandidateSink, NullModel
from tests.mbe_stage import graphs
from tests.mbe_stage.groups.random_graphs import block_of, blocks_of, candidates_of_sets, hashes_of, keyed, small_graphs
from tests.mbe_stage.processes import run_module


@pytest.mark.skipif(importlib.util.find_spec("greenlet") is None, reason="greenlet, of the group dev, is missing")
@pytest.mark.parametrize("n_graphs", [6, pytest.param(150, marks=pytest.mark.slow)])
def test_the_kernels_in_lockstep_lanes(n_graphs: int) -> None:
    lines = run_module("tests.mbe_stage.groups.emulated_candidates", str(n_graphs)).splitlines()
    cases = {part["part"]: part["cases"] for part in map(json.loads, lines)}
    parts = {"random_cases", "merged", "ties", "lists_longer_than_a_warp", "pool_stays_small", "refusals"}
    assert cases.keys() == parts
    assert cases["random_cases"] > 2 * n_graphs
    assert cases["merged"] > n_graphs


class Named:
    """Names the bicliques of device blocks and passes them to two sinks, one on the device and one on the host."""

    detail = Detail.MEMBERS
    on_device = True

    def __init__(self, graph: BipartiteCSR, on_device, on_host) -> None:
        import cupy as cp

        self._hashes = tuple(map(cp.asarray, hashes_of(graph)))
        self._on_device, self._on_host = on_device, on_host
        self.n_blocks = 0

    def accept(self, block) -> None:
        import cupy as cp

        from mbe_stage.bicliques.cuda.keys import biclique_keys
        from tests.mbe_stage import device_checks

        keys = biclique_keys(block, *self._hashes)
        self._on_device.accept(block, keys)
        self._on_host.accept(device_checks.to_host(block), cp.asnumpy(keys))
        self.n_blocks += 1


@pytest.mark.gpu
@pytest.mark.parametrize("name", ["EuAll", "youtube", "github_half", "mushroom", "marvel", "ucforum", "southern_women"])
@pytest.mark.parametrize("top", [100, 20_000])
def test_real_graphs(data_dir: Path, name: str, top: int) -> None:
    from mbe_stage.groups.cuda.candidates import DeviceCandidateSink
    from tests.mbe_stage import device_checks
    from tests.mbe_stage.groups.device_checks import assert_same

    with np.load(data_dir / f"{name}.npz") as arrays:
        graph = BipartiteCSR.from_edges(arrays["u"], arrays["v"])
    model = NullModel.of(graph)
    on_device = DeviceCandidateSink(model, graph.n_left, graph.n_right, top)
    on_host = CandidateSink(model, graph.n_left, graph.n_right, top)
    # A small budget gives several blocks.
    execution = Execution(device_memory_bytes=3 << 30)
    enumerate_into(Named(graph, on_device, on_host), device_checks.to_device(graph), None, execution, "cuda")
    assert len(assert_same(on_device, on_host)) > 20


@pytest.mark.gpu
@pytest.mark.parametrize("part", range(4))
def test_random_graphs_in_any_order(part: int) -> None:
    from tests.mbe_stage.groups import device_checks

    for seed, graph in list(enumerate(small_graphs(100)))[part::4]:
        rng = np.random.default_rng(seed)
        bicliques, top = keyed(graph), int(rng.integers(1, 12))
        wanted = candidates_of_sets(graph, bicliques, top)
        for _ in range(2):
            assert device_checks.check(graph, list(blocks_of(bicliques, rng)), top) == wanted


@pytest.mark.gpu
def test_sinks_of_disjoint_bicliques_merge() -> None:
    from tests.mbe_stage.groups import device_checks

    for seed, graph in enumerate([*small_graphs(30), graphs.crown(11)]):
        rng = np.random.default_rng(seed)
        bicliques, top = keyed(graph), int(rng.integers(1, 12))
        found = device_checks.check_merge(graph, list(blocks_of(bicliques, rng)), top, rng)
        assert found == candidates_of_sets(graph, bicliques, top)


@pytest.mark.gpu
@pytest.mark.parametrize("n_blocks", [1, 7, 300])
@pytest.mark.parametrize("top", [5, 500])
def test_many_ties_and_long_lists(n_blocks: int, top: int) -> None:
    """All warps update the same few vertices at once, and the lowest of many keys of one score."""
    from tests.mbe_stage.groups import device_checks

    for graph in (graphs.crown(11), graphs.from_matrix(graphs.random_matrix(3, 300, 12, 0.6))):
        bicliques = keyed(graph)
        keys = np.random.default_rng(n_blocks).permutation(np.array(list(bicliques), np.int64))
        blocks = [
            (block_of([bicliques[key] for key in part.tolist()]), part) for part in np.array_split(keys, n_blocks)
        ]
        assert device_checks.check(graph, blocks, top) == candidates_of_sets(graph, bicliques, top)

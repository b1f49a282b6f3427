"""`inspect_edges`: figures that can be checked by hand, and cores that keep every group they promise to keep."""

from __future__ import annotations

import time
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mbe_stage import BicliqueBlock, BicliqueQuery, BipartiteCSR, Detail, Execution
from mbe_stage.bicliques import reference
from mbe_stage.bicliques.reference import maximal_bicliques
from pipeline import inspect
from pipeline.edges import EdgeData, InputFacts
from pipeline.inspect import core_size, inspect_edges, run_trial


def edge_data(left: list[int], right: list[int]) -> EdgeData:
    n_left, n_right = max(left) + 1, max(right) + 1
    facts = InputFacts("memory:test", "numpy", len(left), 0, 0, 0, 0, n_left, n_right, len(left), "none")
    keys = pa.array(range(n_left), pa.int64()), pa.array(range(n_right), pa.int64())
    return EdgeData(np.array(left, np.int32), np.array(right, np.int32), *keys, facts)


def test_star() -> None:
    found = inspect_edges(edge_data([0, 1, 2, 3], [0, 0, 0, 0]), engine="reference")
    assert (found.left.n, found.left.max, found.left.n_degree_one) == (4, 1, 4)
    assert (found.right.n, found.right.max, found.right.mean) == (1, 4, 4.0)
    # The hub leads from each of 4 leaves to each of 4; from the hub each leaf leads back only to it.
    assert (found.left.two_hop, found.right.two_hop) == (16, 4)
    assert found.density == 1.0
    assert found.trial is not None
    assert found.trial.complete
    assert found.trial.n_bicliques == found.trial.expected_bicliques == 1
    assert found.trial.member_bytes == 4 * (4 + 1)
    assert found.graph_bytes == 8 * (5 + 2) + 4 * 2 * 4
    assert found.expected_memory_bytes == found.read_memory_bytes + (1 << 30) > 1 << 30


def test_cores_of_a_block_with_a_tail() -> None:
    left, right = [u for u in range(3) for _ in range(4)], [v for _ in range(3) for v in range(4)]
    graph = BipartiteCSR.from_edges(np.array([*left, 3, 4]), np.array([*right, 0, 1]))
    core = core_size(graph, 3, 4)
    assert (core.n_left, core.n_right, core.n_edges) == (3, 4, 12)
    gone = core_size(graph, 4, 4)
    assert (gone.n_left, gone.n_right, gone.n_edges) == (0, 0, 0)


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 3), st.integers(1, 3))
def test_cores_keep_every_large_group(seed: int, min_left: int, min_right: int) -> None:
    left, right = np.nonzero(np.random.default_rng(seed).random((8, 7)) < 0.4)
    graph = BipartiteCSR.from_edges(left, right, 8, 7)
    core = core_size(graph, min_left, min_right)
    kept = [(us, vs) for us, vs in maximal_bicliques(graph) if len(us) >= min_left and len(vs) >= min_right]
    covered = {(u, v) for us, vs in kept for u in us for v in vs}
    assert len(covered) <= core.n_edges <= graph.n_edges
    assert len({u for u, _ in covered}) <= core.n_left
    assert len({v for _, v in covered}) <= core.n_right


@pytest.mark.parametrize("least", [1, 10**6])
def test_a_trial_that_is_cut_short_extrapolates(monkeypatch: pytest.MonkeyPatch, least: int) -> None:
    monkeypatch.setattr(inspect, "_LEAST_FOUND", least)
    whole = reference.run

    def slow(
        graph: BipartiteCSR, query: BicliqueQuery, execution: Execution, detail: Detail
    ) -> Iterator[BicliqueBlock]:
        for block in whole(graph, query, execution, detail):
            time.sleep(0.005)
            yield block

    monkeypatch.setattr(reference, "run", slow)
    left, right = np.nonzero(np.random.default_rng(3).random((14, 12)) < 0.5)
    graph = BipartiteCSR.from_edges(left, right)
    total = len(maximal_bicliques(graph))
    trial = run_trial(graph, 0.1, "reference", Execution(block_bytes=1))
    assert not trial.complete
    assert 0 < trial.n_bicliques < total
    if least > 1:
        assert trial.expected_bicliques is trial.expected_seconds is None
        return
    # The reference states the share of bicliques that it has handed over, so extrapolating is exact.
    assert trial.expected_bicliques == total
    assert trial.expected_seconds == pytest.approx(trial.seconds / trial.work_done)

"""Undirected graphs in CSR form: dropped edges, kept vertices, refusals."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from mbe_stage import BipartiteCSR, InvalidArgument, MemoryBudgetExceeded, UndirectedCSR
from mbe_stage.shared_neighbours import projection


def test_loops_and_duplicates_are_dropped_and_their_vertices_kept() -> None:
    graph = UndirectedCSR.from_edges([2, 0, 0, 1, 3, 3], [2, 1, 1, 0, 1, 3])
    assert (graph.n, graph.n_edges) == (4, 2)
    assert [graph.neighbours(v).tolist() for v in range(4)] == [[1], [0, 3], [], [1]]
    assert graph.degrees.tolist() == [1, 2, 0, 1]
    assert [side.tolist() for side in graph.edges()] == [[0, 1], [1, 3]]


def test_the_arrays_have_the_documented_types() -> None:
    for graph in (UndirectedCSR.from_edges([], []), UndirectedCSR.from_edges(np.array([5], np.uint8), [3], n=9)):
        assert (graph.offsets.dtype, graph.members.dtype) == (np.int64, np.int32)
        assert graph.offsets.size == graph.n + 1
        assert graph.is_on_host
        assert graph.nbytes == graph.offsets.nbytes + graph.members.nbytes


def test_neighbours_ascend_for_any_order_of_edges() -> None:
    rng = np.random.default_rng(1)
    src, dst = rng.integers(0, 40, (2, 600))
    graph = UndirectedCSR.from_edges(src, dst)
    wanted = {(a, b) for a, b in zip(src.tolist(), dst.tolist(), strict=True) if a != b}
    wanted |= {(b, a) for a, b in wanted}
    assert {(v, int(u)) for v in range(graph.n) for u in graph.neighbours(v)} == wanted
    assert all((np.diff(graph.neighbours(v)) > 0).all() for v in range(graph.n))


def test_the_checksum_depends_only_on_the_graph() -> None:
    one = UndirectedCSR.from_edges([0, 1], [1, 2])
    assert one.edges_checksum == UndirectedCSR.from_edges([2, 1, 1], [1, 0, 2]).edges_checksum
    assert one.edges_checksum != UndirectedCSR.from_edges([0, 0], [1, 2]).edges_checksum
    assert one.edges_checksum != UndirectedCSR.from_edges([0, 1], [1, 2], n=4).edges_checksum


@pytest.mark.parametrize(
    ("src", "dst", "n", "message"),
    [
        ([0, 1], [1], None, "src has 2 entries and dst 1"),
        ([[0]], [[1]], None, "src has 2 dimensions"),
        ([0.5], [1], None, "src has dtype float64"),
        ([0], [-1], None, "dst holds the negative id -1"),
        ([0], [2**31], None, f"dst holds {2**31}"),
        ([0], [4], 4, "n is 4, but the ids reach 4: expected at least 5"),
    ],
)
def test_invalid_graphs_are_refused(src: list, dst: list, n: int | None, message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        UndirectedCSR.from_edges(src, dst, n=n)


def joined(graph: BipartiteCSR, min_shared: int) -> set[tuple[int, int]]:
    rows = [set(graph.neighbours_of_left(u).tolist()) for u in range(graph.n_left)]
    return {(u, v) for v in range(graph.n_left) for u in range(v) if len(rows[u] & rows[v]) >= min_shared}


@pytest.mark.parametrize("block_bytes", [12, 1 << 20])
def test_a_projection_is_the_same_in_any_pieces(block_bytes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(projection, "_BLOCK_BYTES", block_bytes)
    for seed in range(6):
        left, right = np.random.default_rng(seed).integers(0, 12, (2, 10 * seed))
        graph = BipartiteCSR.from_edges(left, right, 13, 12)
        for min_shared in (1, 2):
            made = projection.projected(graph, min_shared, threads=1 + seed % 2)
            assert all((np.diff(made.neighbours(v)) > 0).all() for v in range(made.n))
            assert {(int(u), int(v)) for u, v in zip(*made.edges(), strict=True)} == joined(graph, min_shared)


def test_a_projection_takes_no_more_than_its_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(projection, "_BLOCK_BYTES", 1 << 16)
    n, n_edges = 1000, 1000 * 999 // 2
    graph = BipartiteCSR.from_edges(np.arange(n), np.zeros(n, np.int64))
    for budget, found in ((100_000, "at least 0 edges between 1,000"), (1_000_000, "at least [1-9][0-9,]* edges")):
        with pytest.raises(MemoryBudgetExceeded, match=found):
            projection.projected(graph, memory_budget=budget)
    budget = 8 * n_edges + 48 * n + sum(projection.engine_cpu.working_bytes(graph, 1 << 16))
    with pytest.raises(MemoryBudgetExceeded, match=f"has {n_edges:,} edges .* needs {budget:,} bytes: expected at"):
        projection.projected(graph, memory_budget=budget - 1)
    tracemalloc.start()
    try:
        assert projection.projected(graph, memory_budget=budget).n_edges == n_edges
        assert tracemalloc.get_traced_memory()[1] <= budget
    finally:
        tracemalloc.stop()

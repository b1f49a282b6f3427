"""Pairs that share neighbours: the engine compared with the reference, similarity with scipy, ranks, budgets."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array
from scipy.stats import hypergeom

from mbe_stage import BipartiteCSR, Execution, InvalidArgument, MemoryBudgetExceeded, shared_neighbour_pairs
from mbe_stage.shared_neighbours import engine_cpu, engine_cuda, reference, results
from mbe_stage.shared_neighbours.problem import SharedQuery
from mbe_stage.shared_neighbours.results import MEASURES, PairBlock, PairSink, SharedNeighbours
from tests.mbe_stage import graphs

Pairs = list[tuple[int, int, int]]


def found(
    graph: BipartiteCSR, min_shared: int, tasks: object = None, engine: Any = engine_cpu, **settings: int
) -> Pairs:
    pairs: Pairs = []
    for block in engine.run(graph, SharedQuery(min_shared), Execution(**settings), None, tasks):
        pairs += zip(block.first.tolist(), block.second.tolist(), block.shared.tolist(), strict=True)
    return pairs


def expected(graph: BipartiteCSR, min_shared: int) -> Pairs:
    return sorted((u, v, n) for (u, v), n in reference.pairs(graph, min_shared).items())


@pytest.mark.parametrize("seed", range(0, 120, 12))
def test_random_graphs(seed: int) -> None:
    """With blocks of some pairs, several threads, and tasks: the same pairs in the order of their ids."""
    for each in range(seed, seed + 12):
        dice = np.random.default_rng(each)
        n_left, n_right = dice.integers(1, 15, 2)
        graph = graphs.from_matrix(graphs.random_matrix(each, n_left, n_right, dice.choice([0.1, 0.3, 0.6, 1.0])))
        for min_shared in (1, 2, 3, 6):
            wanted = expected(graph, min_shared)
            assert found(graph, min_shared, threads=2, block_bytes=48) == wanted
            tasks = engine_cpu.tasks_of(graph, SharedQuery(min_shared), 4)
            one, other = (found(graph, min_shared, part, threads=1) for part in (tasks[1::2], tasks[::2]))
            assert sorted(one + other) == wanted


@pytest.mark.gpu
def test_the_engine_of_the_gpu_finds_the_same() -> None:
    for seed in range(20):
        graph = graphs.from_matrix(graphs.random_matrix(seed, 40, 200, 0.1))
        for min_shared in (1, 3):
            wanted, tasks = found(graph, min_shared), engine_cuda.tasks_of(graph, SharedQuery(min_shared), 3)
            assert found(graph, min_shared, engine=engine_cuda) == wanted
            assert sorted(found(graph, min_shared, tasks[1:], engine_cuda)) == sorted(
                set(wanted) - set(found(graph, min_shared, tasks[:1], engine_cuda))
            )


def test_closed_forms() -> None:
    assert [n for *_, n in found(graphs.complete(7, 5), 5)] == [5] * 21
    assert found(graphs.complete(7, 5), 6) == []
    assert {n for *_, n in found(graphs.crown(9), 1)} == {7}
    # Neighbours on a path share one vertex.
    assert found(graphs.path(8), 1) == [(u, u + 1, 1) for u in range(4)][: graphs.path(8).n_left - 1]
    assert found(BipartiteCSR.from_edges([], [], n_left=3, n_right=2), 1) == []


def test_only_marked_groups_are_visited() -> None:
    """Disjoint edges mark no group, and visiting all groups for each vertex would take quadratic time."""
    n = 3 << 12
    lists = engine_cpu._lists_of(BipartiteCSR.from_edges(np.arange(n), np.arange(n)), 1)
    scratch, found = np.zeros(3 * n, np.int32), np.empty((3, n), np.int32)
    # A visit would clear the bit of an unmarked group.
    bits = np.zeros(n // 63 + 3, np.uint64)
    bits[1] = 1
    assert engine_cpu._pairs_of(*lists[:4], 0, n, 1, scratch, bits, found) == 0
    assert bits[1] == 1


def test_similarity_equals_scipy() -> None:
    """Few, many and nearly all neighbours, and graphs so large that p-values are far below 1e-300."""
    dice = np.random.default_rng(5)
    for n in (6, 40, 1000):
        degrees = dice.integers(1, n + 1, 60)
        left = np.repeat(np.arange(60), degrees)
        right = np.concatenate([dice.choice(n, degree, replace=False) for degree in degrees])
        # Some isolated right vertices do not count.
        graph = BipartiteCSR.from_edges(left, right, n_right=n + 50)
        table = shared_neighbour_pairs(graph)
        first, second = degrees[table.first], degrees[table.second]
        n_used = int(np.unique(right).size)
        exact = hypergeom.sf(table.shared - 1, n_used, first, second)
        np.testing.assert_allclose(table.p_value, exact, rtol=1e-8, atol=1e-300)
        np.testing.assert_allclose(table.jaccard, table.shared / (first + second - table.shared))
        np.testing.assert_allclose(table.cosine, table.shared / np.sqrt(first * second))


def test_ranks_beyond_the_smallest_number() -> None:
    """All p-values in the table are 0, and still the pairs are ordered: the fewest shared neighbours come last."""
    edges = [(2 * k + u, 500 * k + v) for k, n in enumerate((400, 500, 450)) for u in (0, 1) for v in range(n)]
    left, right = np.array(edges).T
    table = shared_neighbour_pairs(BipartiteCSR.from_edges(left, right, n_right=1500), top=3)
    assert table.first.tolist() == [2, 4, 0]
    assert table.p_value.tolist() == [0.0, 0.0, 0.0]


@pytest.mark.parametrize("by", MEASURES)
def test_the_best_pairs_are_the_first_of_all(by: results.Measure, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(results, "_WAITING_PAIRS", 20)
    for seed in range(30):
        graph = graphs.from_matrix(graphs.random_matrix(seed, 25, 12, 0.3))
        every = shared_neighbour_pairs(graph)
        values = {"p_value": -every.p_value.round(12)}.get(by, getattr(every, by))
        order = np.lexsort((every.second, every.first, -values))
        for top in (1, 7, 10_000):
            best = PairSink(graph, top, by)
            for block in engine_cpu.run(graph, SharedQuery(), Execution(block_bytes=100), None):
                best.accept(block)
            assert_equal_values(best.table(), every, order[:top], by)


def assert_equal_values(best: SharedNeighbours, every: SharedNeighbours, order: np.ndarray, by: str) -> None:
    assert len(best) == order.size
    np.testing.assert_allclose(getattr(best, by), getattr(every, by)[order], rtol=1e-9)
    if by != "p_value":  # rounded above, where it may tie otherwise
        assert list(zip(best.first, best.second, strict=True)) == list(
            zip(every.first[order], every.second[order], strict=True)
        )


def test_invalid_queries() -> None:
    graph = graphs.crown(4)
    with pytest.raises(InvalidArgument, match="min_shared is 0: expected 1 or more"):
        shared_neighbour_pairs(graph, min_shared=0)
    with pytest.raises(InvalidArgument, match="top is 0: expected 1 pair or more"):
        shared_neighbour_pairs(graph, top=0)
    with pytest.raises(InvalidArgument, match="by is 'size': expected one of p_value, jaccard, cosine, shared"):
        shared_neighbour_pairs(graph, by="size")


def test_a_budget_holds_or_is_refused_with_a_sufficient_one() -> None:
    graph = graphs.from_matrix(graphs.random_matrix(1, 300, 50, 0.2))
    with pytest.raises(MemoryBudgetExceeded, match="memory budget") as refused:
        found(graph, 2, memory_budget_bytes=1000, block_bytes=1000)
    needed = int(str(refused.value).split(" needs ")[1].split(" bytes")[0].replace(",", ""))
    with pytest.raises(MemoryBudgetExceeded):
        found(graph, 2, memory_budget_bytes=needed - 1, block_bytes=1000)
    assert found(graph, 2, memory_budget_bytes=needed, block_bytes=1000) == expected(graph, 2)


def test_closing_ends_the_threads() -> None:
    blocks = engine_cpu.run(graphs.crown(60), SharedQuery(), Execution(threads=2, block_bytes=24), None)
    assert len(next(blocks)) > 0
    blocks.close()
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("pairs")]


def test_progress_ends_at_one() -> None:
    blocks = list(engine_cpu.run(graphs.crown(30), SharedQuery(), Execution(block_bytes=24), None))
    shares = [block.work_done for block in blocks]
    assert shares == sorted(shares)
    assert shares[-1] == 1.0
    assert isinstance(blocks[0], PairBlock)


def test_real_graphs(data_dir: Path) -> None:
    for name in ("unicodelang", "moreno_crime", "ucforum"):
        with np.load(data_dir / f"{name}.npz") as arrays:
            ends = (arrays["u"], arrays["v"])
        matrix = csr_array((np.ones(ends[0].size, np.int64), ends))
        product = (matrix @ matrix.T).tocoo()
        wanted = (product.row < product.col) & (product.data >= 3)
        table = shared_neighbour_pairs(ends, min_shared=3)
        order = np.lexsort((product.col[wanted], product.row[wanted]))
        for column, right in ((table.first, product.row), (table.second, product.col), (table.shared, product.data)):
            assert np.array_equal(column, right[wanted][order])

"""Local counts on a GPU, compared with the reference, closed forms, sum rules and the CPU engine."""

from __future__ import annotations

from math import comb
from typing import Any

import numpy as np
import pytest

from mbe_stage import BipartiteCSR, Execution
from mbe_stage.errors import MemoryBudgetExceeded
from mbe_stage.pq_counts import engine_cpu, engine_cuda, reference
from mbe_stage.pq_counts.digits import integers
from mbe_stage.pq_counts.query import PqQuery
from mbe_stage.pq_counts.results import Detail, PqSink
from tests.mbe_stage import graphs
from tests.mbe_stage.pq_counts.local_counting import Local, counted, sums_hold

pytestmark = pytest.mark.gpu

SIZES: list[dict[str, Any]] = [
    {},
    {"narrow": 2},
    {"narrow": 8},
    {"n_blocks": 1, "narrow": 5, "pool_words": 256},
    {"quantum_seconds": 0.0001},
    {"narrow": 2, "quantum_seconds": 0.0001, "n_nodes": 1},
]
SHAPES = [((7, 9), 0.5), ((10, 8), 0.6), ((9, 11), 0.8), ((12, 10), 0.3), ((8, 14), 0.4)]
DETAILS = [Detail.VERTICES, Detail.EDGES]


def on_device(graph: BipartiteCSR, query: PqQuery, detail: Detail, **options: Any) -> Local:
    return counted(engine_cuda, graph, query, detail, Execution(device_memory_bytes=8 << 30), **options)


@pytest.mark.parametrize("detail", DETAILS)
@pytest.mark.parametrize("first", range(0, 60, 20))
def test_random_graphs_as_specified(first: int, detail: Detail) -> None:
    for seed in range(first, first + 20):
        shape, density = SHAPES[seed % len(SHAPES)]
        graph = graphs.from_matrix(graphs.random_matrix(seed, *shape, density))
        held = ((0,), ()) if seed % 5 == 3 else ((), (1,)) if seed % 5 == 4 else ((), ())
        query = PqQuery(1 + seed % 3, 4, 1 + seed % 2, 4, *held)
        found = on_device(graph, query, detail, sizes=SIZES[seed % len(SIZES)])
        assert found == counted(reference, graph, query, detail, Execution()), seed


@pytest.mark.parametrize("detail", DETAILS)
@pytest.mark.parametrize("shape", [(40, 40), (70, 70), (130, 90), (65, 65), (33, 300), (300, 33)])
@pytest.mark.parametrize("density", [0.1, 0.35])
def test_sums_of_wide_matrices(shape: tuple[int, int], density: float, detail: Detail) -> None:
    matrix = graphs.random_matrix(7, *shape, density)
    # Rows and columns that are full in dense parts.
    matrix[:12, :30] |= graphs.random_matrix(8, 12, 30, 0.8)
    matrix[3] = matrix[:, 5] = True
    graph = graphs.from_matrix(matrix)
    for cell in ((2, 2), (3, 3), (2, 4), (4, 3), (4, 4)):
        for sizes in ({}, {"narrow": 6}, {"quantum_seconds": 0.0002}):
            assert sums_hold(graph, *on_device(graph, PqQuery.of(*cell), detail, sizes=sizes)), (cell, sizes)


@pytest.mark.parametrize("detail", DETAILS)
def test_wide_counts_equal_the_cpu(detail: Detail) -> None:
    for seed, shape in enumerate([(70, 70), (30, 150), (150, 30)]):
        graph = graphs.from_matrix(graphs.random_matrix(seed, *shape, 0.3))
        for query in (PqQuery.of(3, 3), PqQuery(2, 4, 2, 3), PqQuery.of(3, 5)):
            assert on_device(graph, query, detail) == counted(engine_cpu, graph, query, detail, Execution()), (
                shape,
                query,
            )


@pytest.mark.parametrize(("n", "p", "q"), [(80, 10, 12), (300, 20, 9), (90, 44, 45)])
def test_numbers_of_more_than_64_bits(n: int, p: int, q: int) -> None:
    """A complete graph without one edge: several primes, and each number is combined from its residues."""
    matrix = np.ones((n, n + 7), np.bool_)
    matrix[0, 0] = False
    graph = graphs.from_matrix(matrix)
    counts, local = on_device(graph, PqQuery.of(p, q), Detail.EDGES)
    whole = comb(n, p) * comb(n + 7, q) - comb(n - 1, p - 1) * comb(n + 6, q - 1)
    assert counts[p, q] == whole >= 1 << 64
    left, right, edges = local[p, q]
    assert left[0] == comb(n - 1, p - 1) * comb(n + 6, q)
    assert right[0] == comb(n, p) * comb(n + 6, q - 1) - comb(n - 1, p - 1) * comb(n + 6, q - 1)
    assert len(set(left[1:])) == len(set(right[1:])) == 1
    assert sums_hold(graph, counts, local)
    assert edges[0] == comb(n - 1, p - 1) * comb(n + 5, q - 1)


def test_crowns() -> None:
    for n in (12, 70):
        found = on_device(graphs.crown(n), PqQuery.of(3, 3), Detail.EDGES)[1][3, 3]
        total = comb(n, 3) * comb(n - 3, 3)
        assert found == (
            [3 * total // n] * n,
            [3 * total // n] * n,
            [9 * total // (n * (n - 1))] * (n * (n - 1)),
        )


def test_parts_of_the_work() -> None:
    graph = graphs.from_matrix(graphs.random_matrix(4, 120, 100, 0.2))
    query = PqQuery(1, 3, 1, 3)
    sink = PqSink(query, Detail.EDGES)
    tasks = engine_cuda.tasks_of(graph, query, 7)
    for part in (tasks[::2], tasks[1::2]):
        for block in engine_cuda.run(graph, query, Execution(), Detail.EDGES, part):
            sink.accept(block)
    whole = on_device(graph, query, Detail.EDGES)
    for cell, one in sink.local_counts().items():
        assert tuple(map(integers, (one.left, one.right, one.edges))) == whole[1][cell]


@pytest.mark.parametrize("detail", DETAILS)
def test_a_budget_holds_or_is_refused(detail: Detail) -> None:
    import cupy as cp

    graph = graphs.from_matrix(graphs.random_matrix(5, 1500, 1000, 0.02))
    query = PqQuery.of(3, 3)
    with pytest.raises(MemoryBudgetExceeded, match="as it takes the graph as a whole") as refusal:
        counted(engine_cuda, graph, query, detail, Execution(device_memory_bytes=1))
    enough = refusal.value.needed_bytes
    assert enough is not None
    pool = cp.get_default_memory_pool()
    wanted = on_device(graph, query, detail)
    for budget in (enough, 2 * enough):
        pool.free_all_blocks()
        before = pool.total_bytes()
        assert counted(engine_cuda, graph, query, detail, Execution(device_memory_bytes=budget)) == wanted
        # CuPy rounds each array up.
        assert pool.total_bytes() - before <= budget + (4 << 20)


def test_a_time_limit_leaves_lower_bounds() -> None:
    graph = graphs.from_matrix(graphs.random_matrix(5, 3000, 2000, 0.03))
    query = PqQuery.of(4, 4)
    execution = Execution(device_memory_bytes=8 << 30)
    whole = counted(engine_cuda, graph, query, Detail.VERTICES, execution)[1][4, 4]
    for seconds in (0.05, 0.3):
        limited = Execution(device_memory_bytes=8 << 30, time_limit_seconds=seconds)
        local = counted(engine_cuda, graph, query, Detail.VERTICES, limited)[1]
        for some, everything in zip(local[4, 4], whole, strict=True):
            assert all(n <= most for n, most in zip(some, everything, strict=True))

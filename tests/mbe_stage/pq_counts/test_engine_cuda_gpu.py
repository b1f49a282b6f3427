"""(p, q)-counts on a GPU, compared with the reference, closed forms and recorded counts."""

from __future__ import annotations

from dataclasses import fields
from math import comb
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array, triu

from mbe_stage import BipartiteCSR, Execution
from mbe_stage.errors import MemoryBudgetExceeded
from mbe_stage.pq_counts import engine_cpu, engine_cuda
from mbe_stage.pq_counts.cuda.techniques import Techniques
from mbe_stage.pq_counts.query import PqQuery
from mbe_stage.pq_counts.results import Detail, PqSink
from mbe_stage.search.cpu.pool import Barrier
from mbe_stage.tasks import OpenWork
from tests.mbe_stage import graphs
from tests.mbe_stage.pq_counts.asked_at_random import asked_at_random
from tests.mbe_stage.pq_counts.counting import by_subsets, of_complete, of_crown

pytestmark = pytest.mark.gpu

PLENTY = Execution(device_memory_bytes=8 << 30)
SIZES: list[dict] = [
    {},
    {"narrow": 2},
    {"narrow": 8},
    {"n_blocks": 1, "narrow": 5, "pool_words": 64},
    {"n_blocks": 1, "narrow": 3, "n_nodes": 2},
    {"quantum_seconds": 0.0001},
    {"narrow": 2, "quantum_seconds": 0.0001, "pool_words": 32, "n_nodes": 1},
]
SHAPES = [((7, 9), 0.5), ((12, 10), 0.6), ((9, 14), 0.8), ((30, 12), 0.3), ((14, 40), 0.2), ((13, 13), 0.7)]


def counted(
    graph: BipartiteCSR, query: PqQuery, engine: Any = engine_cuda, execution: Execution = PLENTY, **options: Any
) -> dict:
    sink = PqSink(query)
    for block in engine.run(graph, query, execution, Detail.COUNTS, **options):
        sink.accept(block)
    return sink.counts()


@pytest.mark.parametrize("first", range(0, 120, 40))
def test_random_graphs(first: int) -> None:
    for seed in range(first, first + 40):
        shape, density = SHAPES[seed % len(SHAPES)]
        graph = graphs.from_matrix(graphs.random_matrix(seed, *shape, density))
        query = PqQuery(1, 6, 1, 6) if seed % 2 else PqQuery(1 + seed % 4, 6, 1 + seed % 3, 5)
        assert counted(graph, query, sizes=SIZES[seed % len(SIZES)]) == by_subsets(graph, query), seed


@pytest.mark.parametrize("shape", [(40, 40), (70, 70), (120, 90), (64, 64), (65, 65), (33, 300)])
@pytest.mark.parametrize("density", [0.1, 0.4, 0.8])
def test_wide_counts_equal_the_cpu(shape: tuple[int, int], density: float) -> None:
    graph = graphs.from_matrix(graphs.random_matrix(7, *shape, density))
    # Nodes grow with the subsets of the smaller size: nearly complete graphs have few, for the CPU's sake.
    dense, others = ((2, 3, 2, 3), (2, 2, 4, 4), (1, 2, 1, 4)), ((2, 4, 2, 4), (3, 3, 5, 5), (1, 3, 1, 8))
    for query in (PqQuery(*sizes) for sizes in (dense if density > 0.5 else others)):
        assert counted(graph, query) == counted(graph, query, engine_cpu)


def test_closed_forms() -> None:
    # The tree of a crown has at least as many leaves as subsets of the requested sizes.
    for n, largest in ((12, 12), (60, 3), (90, 3)):
        query = PqQuery(1, largest, 1, largest)
        for sizes in ({}, {"narrow": 16}):
            assert counted(graphs.crown(n), query, sizes=sizes) == of_crown(n, query), (n, sizes)
    query = PqQuery(1, 500, 1, 3)
    assert counted(graphs.complete(500, 300), query) == of_complete(500, 300, query)


def test_every_technique_can_be_left_out() -> None:
    graph = graphs.from_matrix(graphs.random_matrix(3, 90, 70, 0.5))
    for query in (PqQuery(2, 5, 2, 5), PqQuery(2, 2, 2, 5), PqQuery(3, 3, 2, 5)):
        wanted = counted(graph, query)
        for field in fields(Techniques):
            assert counted(graph, query, techniques=Techniques.without(field.name)) == wanted


@pytest.mark.parametrize(
    ("shape", "density", "where"),
    [
        pytest.param((60, 9000), 0.5, "chunks", id="rows that are all partners, some columns at a time"),
        pytest.param((110, 9000), 0.4, "chunks", id="some columns at a time in shared memory"),
        pytest.param((200, 5000), 0.4, "device", id="masks in device memory"),
        pytest.param((9000, 60), 0.15, "windows", id="several windows of rows"),
        pytest.param((300, 400), 0.1, "shared", id="masks in shared memory"),
    ],
)
def test_three_rows_with_masks_in_every_memory(shape: tuple[int, int], density: float, where: str) -> None:
    from mbe_stage.pq_counts.cuda.triples import layout
    from mbe_stage.pq_counts.cuda.wedge_session import wedge_bytes

    graph, statistics = graphs.from_matrix(graphs.random_matrix(5, *shape, density)), {}
    n_rows, n_words = shape[0], int(graph.left_degrees.min()) // 32
    fits = n_rows * (shape[1] // 32 + 1) <= layout.AREA
    fits_in_chunks = n_rows * (n_rows - 1) // 2 + layout.LEAST_CHUNK * n_rows <= layout.AREA
    expected = "windows" if n_rows > layout.WINDOW else "shared" if fits else "chunks" if fits_in_chunks else "device"
    assert expected == where
    assert where != "chunks" or n_rows * n_words > layout.AREA
    # Left vertices are the rows, whichever side has fewer paths.
    left_rows = Techniques(layer_choice=False)
    for query in (PqQuery.of(3, 3), PqQuery(3, 3, 2, 6)):
        found = counted(graph, query, statistics=statistics, techniques=left_rows)
        assert "pool_words" not in statistics
        assert 0 <= statistics["idle_ns"] < 1000 * statistics["kernel_us"] * statistics["warps"]
        takes_areas = statistics["plan_bytes"] > wedge_bytes(int(graph.left_degrees.max()))
        assert takes_areas == (where == "device")
        assert found == counted(graph, query, techniques=Techniques(triples=False))
        assert found == counted(graph, query, engine_cpu)


@pytest.mark.parametrize("detail", [Detail.COUNTS, Detail.EDGES])
def test_results_around_a_barrier_are_complete(detail: Detail, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whole in nodes and in wedges, and local counts in rounds."""
    from mbe_stage.pq_counts.cuda.local import session

    monkeypatch.setattr(session, "ROUND_SECONDS", 0.0)
    monkeypatch.setattr(session, "TIMES_ITS_BEGINNING", 0.0)
    told = []
    for seed in range(12 if detail == Detail.COUNTS else 6):
        graph = graphs.from_matrix(graphs.random_matrix(seed, 700, 500, 0.01 + 0.004 * (seed % 3)))
        query = (PqQuery(1, 3, 1, 3), PqQuery.of(3, 3), PqQuery(2, 4, 2, 5), PqQuery(1, 3, 2, 3, (3,)))[seed % 4]
        tasks = tuple(engine_cpu.tasks_of(graph, query, 4)[::2]) if seed % 3 == 2 else None
        # Few warps, so that quanta end before all roots have started.
        sizes = {"n_blocks": 1, "quantum_seconds": 0.0001} | SIZES[seed % len(SIZES)]
        told.append(asked_at_random(graph, query, detail, tasks, seed, PLENTY, 4, sizes=sizes))
        assert told[-1]["same"], seed
    assert sum(case["between"] for case in told) > 5


def test_saved_work_is_continued() -> None:
    n_saved = 0
    for seed in range(8):
        graph = graphs.from_matrix(graphs.random_matrix(seed, 90, 60, 0.4 + 0.05 * (seed % 4)))
        query = (PqQuery(3, 9, 3, 9), PqQuery(1, 4, 2, 5, (3,)))[seed % 2]
        sizes = {"n_blocks": 1, "quantum_seconds": 0.0001} | SIZES[seed % len(SIZES)]
        sink, tasks, is_over = PqSink(query), None, False
        for n_before in range(1000):
            barrier = Barrier(takes_open_work=True)
            if n_before < 20:
                barrier.ask()
            is_over = True
            for block in engine_cuda.run(graph, query, PLENTY, Detail.COUNTS, tasks, barrier=barrier, sizes=sizes):
                sink.accept(block)
                if block.remaining is not None:
                    tasks, is_over = block.remaining, False
                    n_saved += isinstance(tasks[0], OpenWork)
                    break
            if is_over:
                break
        assert is_over
        assert sink.counts() == counted(graph, query), seed
    assert n_saved > 20


def test_barriers_in_little_memory_and_in_parts() -> None:
    graph = sparse_with_a_block(30_000, 200_000, 40)
    between = 0
    for budget in (60 << 20, 12 << 20):
        execution = Execution(device_memory_bytes=budget)
        for query in (PqQuery.of(3, 3), PqQuery(2, 2, 2, 4)):
            told = asked_at_random(
                graph, query, Detail.COUNTS, None, 1, execution, 3, sizes={"quantum_seconds": 0.0001}
            )
            assert told["same"], (budget, query)
            between += told["between"]
    assert between > 0


def sparse_with_a_block(n: int, n_edges: int, n_block: int) -> BipartiteCSR:
    """Return random edges between `n` vertices per side, and all edges between the last `n_block`."""
    random = np.random.default_rng(n)
    block = np.indices((n_block, n_block)).reshape(2, -1) + n - n_block
    return BipartiteCSR.from_edges(*np.concatenate([random.integers(0, n, (2, n_edges)), block], axis=1), n, n)


def test_bicliques_of_two_rows_in_several_windows() -> None:
    """Rows of several windows; few and many shared columns; quanta that end."""
    graph = sparse_with_a_block(30_000, 200_000, 700)
    matrix = csr_array((np.ones(graph.n_edges, np.int64), graph.left_members, graph.left_offsets), (30_000, 30_000))
    n_shared, times = np.unique(triu(matrix @ matrix.T, 1).data, return_counts=True)
    for sizes in ({}, {"quantum_seconds": 0.00002}):
        facts: dict[str, int] = {}
        found = counted(graph, PqQuery(2, 2, 2, 4), sizes=sizes, statistics=facts)
        for q in (2, 3, 4):
            wanted = sum(comb(n, q) * k for n, k in zip(n_shared.tolist(), times.tolist(), strict=True))
            assert found[2, q] == wanted, (q, sizes)
        assert "pool_words" not in facts
        assert (facts["quanta"] > 1) == bool(sizes)


@pytest.mark.parametrize("query", [PqQuery.of(2, 2), PqQuery.of(3, 3), PqQuery(2, 4, 2, 4)], ids=str)
@pytest.mark.parametrize("on_device", [False, True])
def test_with_little_memory_the_graph_is_searched_as_a_whole(query: PqQuery, on_device: bool) -> None:
    """Lists in pieces, on the device and in host memory; the budget holds, except for the graph itself."""
    import cupy as cp

    from mbe_stage.device.graph import on_device as copied

    graph = sparse_with_a_block(30_000, 200_000, 40)
    wanted = counted(graph, query, engine_cpu)
    if on_device:
        graph = copied(graph)
    pool = cp.get_default_memory_pool()
    for budget in (60 << 20, 20 << 20, 12 << 20):
        pool.free_all_blocks()
        before, facts = pool.total_bytes(), {}
        assert counted(graph, query, execution=Execution(device_memory_bytes=budget), statistics=facts) == wanted
        assert facts["parts"] == 1
        assert pool.total_bytes() - before <= budget + (4 << 20), budget


def test_parts_of_the_work() -> None:
    graph = graphs.from_matrix(graphs.random_matrix(4, 120, 100, 0.3))
    query = PqQuery(1, 4, 1, 4)
    sink = PqSink(query)
    tasks = engine_cuda.tasks_of(graph, query, 7)
    for part in (tasks[::2], tasks[1::2]):
        for block in engine_cuda.run(graph, query, PLENTY, Detail.COUNTS, part):
            sink.accept(block)
    assert sink.counts() == counted(graph, query)


def in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Count small graphs in parts too, although the whole would fit."""
    from mbe_stage.pq_counts.cuda import as_given, searches

    monkeypatch.setattr(as_given, "as_given", lambda _job, **_: None)
    for name in ("preparation_bytes", "peeling_bytes"):
        monkeypatch.setattr(searches, name, lambda _graph: 1 << 40)


def smallest_budget(graph: BipartiteCSR, query: PqQuery) -> int:
    """Return the budget that a refusal of one byte names."""
    with pytest.raises(MemoryBudgetExceeded, match=r"needs [\d,]+ bytes of device memory") as refusal:
        counted(graph, query, execution=Execution(device_memory_bytes=1))
    assert refusal.value.needed_bytes is not None
    return refusal.value.needed_bytes


def test_a_budget_holds_or_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    import cupy as cp

    graph = graphs.from_matrix(graphs.random_matrix(5, 3000, 2000, 0.02))
    query = PqQuery.of(3, 3)
    wanted = counted(graph, query)
    in_parts(monkeypatch)
    enough = smallest_budget(graph, query)
    with pytest.raises(MemoryBudgetExceeded):
        counted(graph, query, execution=Execution(device_memory_bytes=enough - 1))
    pool = cp.get_default_memory_pool()
    n_parts = []
    for budget in (enough, 2 * enough, 8 * enough):
        pool.free_all_blocks()
        before, facts = pool.total_bytes(), {}
        found = counted(graph, query, execution=Execution(device_memory_bytes=budget), statistics=facts)
        assert found == wanted
        # CuPy rounds each array up.
        assert pool.total_bytes() - before <= budget + (4 << 20)
        n_parts.append(facts["parts"])
    assert n_parts[0] > n_parts[-1]


@pytest.mark.parametrize("first", range(0, 60, 20))
def test_the_budget_of_a_refusal_is_enough(first: int, monkeypatch: pytest.MonkeyPatch) -> None:
    in_parts(monkeypatch)
    for seed in range(first, first + 20):
        shape, density = ((60, 40), (25, 90), (120, 30))[seed % 3], (0.2, 0.4, 0.1)[seed % 3]
        graph = graphs.from_matrix(graphs.random_matrix(seed, *shape, density))
        query = PqQuery(1 + seed % 3, 4, 1 + seed % 2, 3)
        wanted, enough = counted(graph, query, engine_cpu), smallest_budget(graph, query)
        for budget in (enough, enough + 5000, 3 * enough):
            found = counted(graph, query, execution=Execution(device_memory_bytes=budget))
            assert found == wanted, (seed, budget)


def test_tasks_of_a_graph_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    in_parts(monkeypatch)
    graph = graphs.from_matrix(graphs.random_matrix(4, 120, 100, 0.3))
    query = PqQuery(1, 4, 1, 4)
    tight = Execution(device_memory_bytes=smallest_budget(graph, query))
    sink = PqSink(query)
    tasks = engine_cuda.tasks_of(graph, query, 7)
    for part in (tasks[::2], tasks[1::2]):
        for block in engine_cuda.run(graph, query, tight, Detail.COUNTS, part):
            sink.accept(block)
    assert sink.counts() == counted(graph, query)


@pytest.mark.parametrize("seed", range(6))
def test_nodes_without_room_in_the_pool_wait_on_the_host(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    from mbe_stage.pq_counts.cuda.session import Session

    monkeypatch.setattr(Session, "_grown", lambda session, *_: session._plan)
    graph = graphs.from_matrix(graphs.random_matrix(seed, 30, 26, 0.6))
    query, facts = PqQuery(2, 5, 2, 5), {}
    # A node of 29 rows by 26 columns has 55 words.
    sizes = {"narrow": 4 + seed, "pool_words": 128, "n_nodes": 3 + 40 * (seed % 2), "n_blocks": 1 + seed % 3}
    assert counted(graph, query, sizes=sizes, statistics=facts) == counted(graph, query, engine_cpu)
    assert facts["waits"] > 0


def test_progress_over_parts_ends_at_one(monkeypatch: pytest.MonkeyPatch) -> None:
    in_parts(monkeypatch)
    graph = graphs.from_matrix(graphs.random_matrix(5, 3000, 2000, 0.02))
    query = PqQuery.of(3, 3)
    execution = Execution(device_memory_bytes=smallest_budget(graph, query))
    done = [block.work_done for block in engine_cuda.run(graph, query, execution, Detail.COUNTS)]
    assert len(done) > 3
    assert done == sorted(done)
    assert done[-1] == 1.0 > done[-2]


def test_recorded_counts(data_dir: Path) -> None:
    with np.load(data_dir / "youtube.npz") as arrays:
        graph = BipartiteCSR.from_edges(arrays["u"], arrays["v"])
    lines = (data_dir / "youtube_pq_counts.txt").read_text(encoding="ascii").splitlines()
    recorded = {(p, q): n for p, q, n in (map(int, line.split()) for line in lines) if p <= 10 and q <= 10}
    query = PqQuery(1, 10, 1, 10)
    found = counted(graph, query)
    for cell, n in recorded.items():
        assert found[cell] == n, cell

"""Maximal cliques on a GPU, compared with the reference, closed forms, the CPU engine and recorded counts."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mbe_stage import CliqueQuery, CliqueTable, Execution, UndirectedCSR
from mbe_stage.cliques import engine_cpu, engine_cuda, reference
from mbe_stage.cliques.cuda.techniques import Techniques
from mbe_stage.cliques.results import CliqueTableSink, Detail
from mbe_stage.errors import MemoryBudgetExceeded
from mbe_stage.search.cpu.pool import Barrier
from mbe_stage.tasks import OpenWork
from tests.mbe_stage.cliques import undirected_graphs as graphs
from tests.mbe_stage.cliques.fingerprints import fingerprint

# Seconds; the first tests compile their kernels.
pytestmark = [pytest.mark.gpu, pytest.mark.timeout(90)]

PLENTY = Execution(device_memory_bytes=16 << 30)
SIZES: list[dict[str, Any]] = [
    {},
    {"narrow": 2},
    {"narrow": 8},
    {"n_blocks": 1, "narrow": 5, "pool_words": 64},
    {"n_blocks": 1, "narrow": 3, "n_nodes": 2},
    {"quantum_seconds": 0.0001},
    {"members": 90, "cliques": 64, "page_members": 50, "page_cliques": 8},
    {"narrow": 0, "quantum_seconds": 0.0001, "pool_words": 32, "n_nodes": 1, "members": 40, "cliques": 64}
    | {"page_members": 30, "page_cliques": 5, "most_members": 0},
]
SHAPES = [(9, 0.5), (14, 0.7), (20, 0.3), (12, 0.9), (24, 0.5), (30, 0.2), (16, 0.8)]
QUERIES = [CliqueQuery(), CliqueQuery(3), CliqueQuery(1, 4), CliqueQuery(4, 6), CliqueQuery(containing=(3,))]
COUNTS = {
    "ca_HepPh": 14_937,
    "email_Enron": 226_859,
    "wiki_Vote": 459_002,
    "soc_Epinions1": 1_775_065,
    "follow_flickr": 10_342_039,
    "Cornell5": 11_200_870,
    "blogcatalog": 116_299_960,
}
SMALL = ["ca_HepPh", "email_Enron", "wiki_Vote"]


def table_of(graph: UndirectedCSR, query: CliqueQuery, engine: Any = engine_cuda, **options: Any) -> CliqueTable:
    sink = CliqueTableSink()
    for block in engine.run(graph, query, PLENTY, Detail.MEMBERS, **options):
        sink.accept(block)
    return sink.table()


def counted(graph: UndirectedCSR, query: CliqueQuery, **options: Any) -> int:
    return sum(block.n_cliques for block in engine_cuda.run(graph, query, PLENTY, Detail.COUNT, **options))


def recorded(data_dir: Path, name: str) -> UndirectedCSR:
    with np.load(data_dir / f"uni_{name}.npz") as arrays:
        return UndirectedCSR.from_edges(arrays["src"], arrays["dst"])


@pytest.mark.parametrize("first", range(0, 240, 40))
def test_random_graphs(first: int) -> None:
    for seed in range(first, first + 40):
        graph = graphs.random_graph(np.random.default_rng(seed), *SHAPES[seed % len(SHAPES)])
        query = QUERIES[seed // 2 % len(QUERIES)]
        table = table_of(graph, query, sizes=SIZES[seed // 3 % len(SIZES)])
        wanted = {one for one in reference.maximal_cliques(graph) if reference.matches(one, query)}
        assert table.as_set() == wanted, seed
        assert len(table) == len(wanted), seed
        assert counted(graph, query, sizes=SIZES[seed % len(SIZES)]) == len(wanted), seed


@pytest.mark.parametrize(("n", "density"), [(40, 0.5), (70, 0.6), (90, 0.5), (200, 0.3), (400, 0.15), (130, 0.4)])
def test_wide_matrices_equal_the_cpu(n: int, density: float) -> None:
    graph = graphs.two_densities(np.random.default_rng(n), n + 60, n, density)
    wanted = table_of(graph, CliqueQuery(), engine_cpu).as_set()
    for sizes in ({}, {"narrow": 20}):
        table = table_of(graph, CliqueQuery(), sizes=sizes)
        assert len(table) == len(wanted)
        assert table.as_set() == wanted


def test_closed_forms() -> None:
    for parts in ([3] * 9, [1] * 300, [2] * 12, [1] * 70 + [2] * 8):
        graph, wanted = graphs.turan(parts)
        assert table_of(graph, CliqueQuery()).as_set() == wanted
    # Only the last level shows that all cliques have the same size.
    graph, _ = graphs.turan([3] * 11)
    blocks = list(engine_cuda.run(graph, CliqueQuery(), PLENTY, Detail.SIZES))
    assert np.array_equal(np.concatenate([block.sizes for block in blocks]), np.full(3**11, 11))
    assert counted(graph, CliqueQuery(max_size=10)) == counted(graph, CliqueQuery(12)) == 0
    for n in (20, 45):
        assert counted(graphs.complement(graphs.cycle(n)), CliqueQuery()) == graphs.perrin(n)


def test_every_technique_can_be_left_out() -> None:
    graph = graphs.two_densities(np.random.default_rng(3), 160, 90, 0.5)
    wanted = table_of(graph, CliqueQuery()).as_set()
    for field in fields(Techniques):
        assert table_of(graph, CliqueQuery(), techniques=Techniques.without(field.name)).as_set() == wanted


def test_blocks_in_device_memory() -> None:
    graph = graphs.random_graph(np.random.default_rng(6), 120, 0.4)
    for query in (CliqueQuery(), CliqueQuery(3, 5, (7,))):
        wanted = table_of(graph, query).as_set()
        for sizes in ({}, {"members": 5000, "cliques": 700}):
            found = set()
            for block in engine_cuda.device_blocks(graph, query, PLENTY, sizes=sizes):
                table = CliqueTable(block.offsets.get(), block.members.get())
                assert not found & table.as_set()
                found |= table.as_set()
            assert found == wanted


def test_parts_of_the_work() -> None:
    graph = graphs.random_graph(np.random.default_rng(4), 150, 0.3)
    for query in (CliqueQuery(), CliqueQuery(3, 5, (7,))):
        tasks = engine_cuda.tasks_of(graph, query, 7)
        parts = [table_of(graph, query, tasks=part).as_set() for part in (tasks[::2], tasks[1::2])]
        assert not parts[0] & parts[1]
        assert parts[0] | parts[1] == table_of(graph, query).as_set()


def found_before_barriers(
    graph: UndirectedCSR, query: CliqueQuery, takes_open_work: bool, **options: Any
) -> tuple[list[tuple], CliqueTable]:
    """Return the results and remaining tasks at each barrier, and all results; check that they are complete."""
    barrier, sink, markers = Barrier(takes_open_work=takes_open_work), CliqueTableSink(), []
    barrier.ask()
    for block in engine_cuda.run(graph, query, PLENTY, Detail.MEMBERS, barrier=barrier, **options):
        sink.accept(block)
        if block.remaining is not None:
            assert len(block) == 0
            markers.append((sink.table(), block.remaining))
        barrier.ask()
    return markers, sink.table()


@pytest.mark.parametrize("takes_open_work", [False, True])
def test_results_around_a_barrier_are_complete(takes_open_work: bool) -> None:
    n_markers = n_saved = 0
    for seed in range(24):
        rng = np.random.default_rng(seed)
        # Many roots, some of them small, and few warps, so that quanta end before all roots have started.
        graph = graphs.random_graph(rng, 900, 0.01) if seed % 2 else graphs.two_densities(rng, 500, 120, 0.4)
        query = QUERIES[seed // 2 % 4]
        sizes = {"n_blocks": 1, "quantum_seconds": 0.0001} | SIZES[seed % len(SIZES)]
        wanted = table_of(graph, query).as_set()
        markers, everything = found_before_barriers(graph, query, takes_open_work, sizes=sizes)
        assert len(everything) == len(wanted)
        assert everything.as_set() == wanted, seed
        n_markers += len(markers)
        n_saved += sum(isinstance(remaining[0], OpenWork) for _, remaining in markers)
        for before, remaining in markers[:: max(1, len(markers) // 3)]:
            rest = table_of(graph, query, tasks=remaining).as_set()
            assert len(before) + len(rest) == len(wanted), seed
            assert before.as_set() | rest == wanted, seed
    assert n_markers > 40
    assert (n_saved > 0) == takes_open_work


def test_barriers_with_device_blocks() -> None:
    graph = graphs.two_densities(np.random.default_rng(8), 600, 150, 0.4)
    barrier, found, n_markers = Barrier(), [], 0
    barrier.ask()
    options: dict[str, Any] = {"barrier": barrier, "sizes": {"n_blocks": 1, "quantum_seconds": 0.001}}
    for block in engine_cuda.device_blocks(graph, CliqueQuery(), PLENTY, **options):
        found.append(block)
        n_markers += block.remaining is not None
        barrier.ask()
    assert n_markers > 1
    wanted = table_of(graph, CliqueQuery()).as_set()
    tables = [CliqueTable(block.offsets.get(), block.members.get()).as_set() for block in found]
    assert sum(map(len, tables)) == len(wanted)
    assert set().union(*tables) == wanted


def test_a_budget_holds_or_is_refused() -> None:
    import cupy as cp

    graph = graphs.random_graph(np.random.default_rng(5), 300, 0.2)
    wanted = counted(graph, CliqueQuery())
    with pytest.raises(MemoryBudgetExceeded, match=r"needs [\d,]+ bytes of device memory") as refusal:
        list(engine_cuda.run(graph, CliqueQuery(), Execution(device_memory_bytes=1 << 20), Detail.COUNT))
    enough = refusal.value.needed_bytes
    assert enough is not None
    pool = cp.get_default_memory_pool()
    pool.free_all_blocks()
    before = pool.total_bytes()
    blocks = engine_cuda.run(graph, CliqueQuery(), Execution(device_memory_bytes=enough), Detail.COUNT)
    assert sum(block.n_cliques for block in blocks) == wanted
    # CuPy rounds each array up.
    assert pool.total_bytes() - before <= enough + (16 << 20)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in SMALL else pytest.mark.slow) for name in COUNTS]
)
@pytest.mark.timeout(300)
def test_recorded_graphs_ten_times(name: str, data_dir: Path) -> None:
    """Counts and members agree with each other and with the CPU's fingerprint."""
    import cupy as cp

    graph = recorded(data_dir, name)
    assert {counted(graph, CliqueQuery()) for _ in range(10)} == {COUNTS[name]}
    wanted = fingerprint(engine_cpu.run(graph, CliqueQuery(), PLENTY, Detail.MEMBERS))
    assert wanted[0] == COUNTS[name]
    for _ in range(10):
        assert fingerprint(engine_cuda.device_blocks(graph, CliqueQuery(), PLENTY), cp) == wanted


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_more_cliques_than_a_32_bit_word_counts(data_dir: Path) -> None:
    """Most of 116 million cliques in one block: one quantum, into an output with room for twice as many."""
    import cupy as cp

    if cp.cuda.runtime.memGetInfo()[1] < 30 << 30:
        pytest.skip("the GPU has less than 30 GiB of memory")
    graph = recorded(data_dir, "blogcatalog")
    sizes = {"cliques": 2 * COUNTS["blogcatalog"], "members": 20 * COUNTS["blogcatalog"]}
    # Beside this output, the plan has room for two blocks of its size.
    plenty = Execution(device_memory_bytes=40 << 30)
    blocks = list(engine_cuda.device_blocks(graph, CliqueQuery(), plenty, sizes=sizes | {"quantum_seconds": 30.0}))
    assert len(blocks[0]) > 1 << 26
    assert sum(len(block) for block in blocks) == COUNTS["blogcatalog"]
    for block in blocks:
        assert block.members.size == int(block.sizes.sum(dtype=np.int64))

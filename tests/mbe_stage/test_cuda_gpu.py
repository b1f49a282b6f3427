"""The CUDA engine on a GPU, compared with the reference and the CPU engine. Run with `make test-gpu`.

Several processes share the GPU: tests take at most 8 GiB and do not depend on time. The longest stand first.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mbe_stage import BicliqueBlock, BicliqueQuery, BipartiteCSR, Execution, TableSink
from mbe_stage.bicliques import engine_cpu, engine_cuda, reference
from mbe_stage.bicliques.cuda.techniques import Techniques
from mbe_stage.bicliques.keys import Fingerprint, biclique_keys, hash_integers, vertex_hashes
from mbe_stage.bicliques.results import Detail
from mbe_stage.errors import MemoryBudgetExceeded
from tests.mbe_stage import emulated_memory, graphs
from tests.mbe_stage.preparation import differences, expected, prepared

pytestmark = pytest.mark.gpu

PLENTY = Execution(device_memory_bytes=8 << 30)
FEW = {"n_blocks": 2}
EVERYTHING = Techniques()
N_RANDOM = 1000

# Every pause, split and resume path: arenas, pool, node table and output so small that each of them runs short. A
# quantum costs the host milliseconds, and small graphs need hundreds of them.
TINY = [
    {"n_blocks": 1},
    {"n_blocks": 1, "words": 64},
    {"n_blocks": 2, "quantum_seconds": 0.0002},
    {"n_blocks": 2, "nodes": 2},
    {"n_blocks": 2, "pool_extra": 64},
    {"n_blocks": 3, "members": 512, "descriptors": 64, "chunk_members": 16},
    {"n_blocks": 1, "words": 64, "nodes": 3, "members": 1024, "descriptors": 128, "chunk_members": 32},
    {"n_blocks": 16, "quantum_seconds": 0.0002, "members": 8192, "descriptors": 512, "chunk_members": 64},
]
# Bitset frames, list children whose columns merge, subgraphs: a few hundred bicliques each.
SMALL = [((12, 12), 0.6), ((200, 9), 0.6), ((60, 45), 0.15), ((90, 60), 0.1)]


def found(
    graph: BipartiteCSR,
    query: BicliqueQuery | None = None,
    sizes: dict | None = None,
    techniques: Techniques = EVERYTHING,
) -> set:
    """Return the set of bicliques; check that none is repeated."""
    sink = TableSink()
    for block in engine_cuda.run(
        graph, query or BicliqueQuery(), PLENTY, Detail.MEMBERS, sizes=sizes or FEW, techniques=techniques
    ):
        sink.accept(block)
    table = sink.table()
    as_set = table.as_set()
    assert len(as_set) == len(table)
    return as_set


def counted(graph: BipartiteCSR, query: BicliqueQuery | None = None, sizes: dict | None = None) -> int:
    blocks = engine_cuda.run(graph, query or BicliqueQuery(), PLENTY, Detail.COUNT, sizes=sizes or FEW)
    return sum(block.n_bicliques for block in blocks)


def read(data_dir: Path, name: str) -> BipartiteCSR:
    with np.load(data_dir / f"{name}.npz") as arrays:
        return BipartiteCSR.from_edges(arrays["u"], arrays["v"])


def on_device(graph: BipartiteCSR) -> BipartiteCSR:
    import cupy as cp

    parts = (graph.left_offsets, graph.left_members, graph.right_offsets, graph.right_members)
    return BipartiteCSR(graph.n_left, graph.n_right, *map(cp.asarray, parts))


def wanted(graph: BipartiteCSR, query: BicliqueQuery | None = None) -> set:
    return {pair for pair in reference.maximal_bicliques(graph) if reference.matches(*pair, query or BicliqueQuery())}


def cpu_fingerprint(graph: BipartiteCSR) -> str:
    execution = Execution(memory_budget_bytes=16 << 30)
    return fingerprint_of(engine_cpu.run(graph, BicliqueQuery(), execution, Detail.MEMBERS), graph)


def fingerprint_of(blocks: Iterable[BicliqueBlock], graph: BipartiteCSR) -> str:
    left = vertex_hashes(hash_integers(np.arange(graph.n_left)), "left")
    right = vertex_hashes(hash_integers(np.arange(graph.n_right)), "right")
    result = Fingerprint()
    for block in blocks:
        if block.n_bicliques:
            result.add(biclique_keys(block, left, right))
    return str(result)


def gpu_fingerprint(graph: BipartiteCSR) -> str:
    """Compute it without copying a biclique from the device."""
    import cupy as cp

    from mbe_stage.bicliques.cuda.keys import add_to, biclique_keys
    from tests.mbe_stage.device_checks import hashes_of

    left, right = map(cp.asarray, hashes_of(graph))
    result = Fingerprint()
    for block in engine_cuda.device_blocks(on_device(graph), BicliqueQuery(), PLENTY):
        add_to(result, biclique_keys(block, left, right))
    return str(result)


REAL = {
    "bookcrossing": 54_458_949,
    "gowalla": 36_353_156,
    "EuAll": 12_306_755,
    "lastfm_tag_artist": 5_318_319,
    "youtube": 1_826_587,
    "BMS_WebView2": 1_691_049,
    "actor_movies": 1_075_444,
    "github_half": 691_250,
    "mushroom": 238_709,
    "marvel": 206_135,
    "movielens_ti": 140_266,
    "dbpedia_writer": 57_222,
    "ucforum": 16_261,
    "moreno_crime": 620,
    "unicodelang": 460,
    "corporate_leadership": 66,
    "southern_women": 63,
    "club_membership": 60,
}


@pytest.mark.parametrize("name", REAL)
def test_fingerprints_of_real_graphs(data_dir: Path, name: str) -> None:
    """Block by block on both sides: only one block is held at a time, however many bicliques there are."""
    graph = read(data_dir, name)
    assert gpu_fingerprint(graph) == cpu_fingerprint(graph)


@pytest.mark.parametrize("name", REAL)
def test_counts_of_real_graphs(data_dir: Path, name: str) -> None:
    assert counted(read(data_dir, name), sizes={"quantum_seconds": 0.5}) == REAL[name]


def test_bookcrossing_in_four_gigabytes(data_dir: Path) -> None:
    graph = on_device(read(data_dir, "bookcrossing"))
    blocks = engine_cuda.run(graph, BicliqueQuery(), Execution(device_memory_bytes=4 << 30), Detail.COUNT)
    assert sum(block.n_bicliques for block in blocks) == 54_458_949


@pytest.mark.parametrize(
    "techniques",
    [
        Techniques(merging=False, closed_sets=False, dominated=False, words=False, splitting=False, ordering=False),
        *(Techniques.without(field.name) for field in fields(Techniques)),
    ],
)
def test_without_a_technique(techniques: Techniques) -> None:
    """Techniques are selected by widths: without one its threshold is 0; without words it is infinite for lists."""
    for shape, density in SMALL:
        graph = graphs.from_matrix(graphs.random_matrix(11, *shape, density))
        for sizes in (FEW, {"n_blocks": 1, "pool_extra": 64}):
            assert found(graph, sizes=sizes, techniques=techniques) == wanted(graph)


@pytest.mark.parametrize(
    ("graph", "n_bicliques"),
    [
        (graphs.complete(1, 1), 1),
        (graphs.complete(70, 3), 1),
        (graphs.crown(2), 2),
        (graphs.crown(12), 2**12 - 2),
        (graphs.crown(13), 2**13 - 2),
        (graphs.path(9), 8),
        (graphs.cycle(40), 80),
        (graphs.star(200), 1),
        (graphs.half_graph(100), 100),
        (graphs.half_graph(300), 300),
        (graphs.blocks([(3, 4), (1, 1), (5, 2)]), 3),
        (BipartiteCSR.from_edges([], [], 4, 3), 0),
    ],
)
def test_closed_forms(graph: BipartiteCSR, n_bicliques: int) -> None:
    pairs = found(graph)
    assert len(pairs) == n_bicliques
    assert found(graph.swapped()) == {(right, left) for left, right in pairs}


@pytest.mark.parametrize("n", [31, 75])
def test_bounds_cut_deep_trees(n: int) -> None:
    """Only the paths to the wanted bicliques, up to n nodes deep, of 2**n - 2 may be visited."""
    for query, n_right in (
        (BicliqueQuery(min_right=n - 2), (n - 2, n - 1)),
        (BicliqueQuery(min_left=n - 2), (1, 2)),
        (BicliqueQuery(max_right=2), (1, 2)),
        (BicliqueQuery(max_right=2, min_edges=n), (2,)),
    ):
        pairs = graphs.bicliques_of_crown(n, n_right)
        assert found(graphs.crown(n), query) == pairs
        assert counted(graphs.crown(n), query) == len(pairs)


def random_graph(seed: int) -> BipartiteCSR:
    chance = np.random.default_rng(seed)
    shape = [(12, 12), (30, 25), (14, 40), (160, 14), (90, 90)][seed % 5]
    density = chance.choice(
        [[0.1, 0.5, 0.8], [0.1, 0.3, 0.4], [0.2, 0.4, 0.6], [0.3, 0.6, 0.8], [0.03, 0.08, 0.12]][seed % 5]
    )
    return graphs.from_matrix(graphs.random_matrix(seed, *shape, float(density)))


@pytest.mark.parametrize("first", range(0, N_RANDOM, 50))
def test_random_graphs(first: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """In counting, every other two graphs have sorted columns."""
    from mbe_stage.bicliques.cuda import prepare

    monkeypatch.setattr(prepare, "LONG_SHARE", 1 << 30)
    for seed in range(first, first + 50):
        graph = random_graph(seed)
        monkeypatch.setattr(prepare, "LONG_ROW", 2 if seed & 2 else 8000)
        sizes = TINY[0] if seed % 2 else FEW
        pairs = wanted(graph)
        assert found(graph, sizes=sizes) == pairs, seed
        assert counted(graph, sizes=sizes) == len(pairs), seed
        p, q, most, edges = (int(each) for each in np.random.default_rng(seed).integers(1, (6, 6, 9, 40)))
        for query in (BicliqueQuery(p, q), BicliqueQuery(p, q, max_left=p + most, min_edges=edges)):
            n_wanted = sum(reference.matches(*pair, query) for pair in pairs)
            assert counted(graph, query, sizes) == n_wanted, (seed, query)


@pytest.mark.parametrize("seed", range(24))
def test_sizes_of_skewed_graphs(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A few rows have most columns; columns are sorted, and rows too small for the wanted sizes are dropped."""
    from mbe_stage.bicliques.cuda import prepare

    monkeypatch.setattr(prepare, "LONG_ROW", 2)
    monkeypatch.setattr(prepare, "LONG_SHARE", 1 << 30)
    chance = np.random.default_rng(seed)
    density = np.minimum(0.9, chance.uniform(0.5, 1.5) * np.arange(1, 60) ** -chance.uniform(0.8, 1.4))
    matrix = np.repeat(chance.random((200, 59)) < density, chance.integers(1, 3, 200), axis=0)
    graph = graphs.from_matrix(matrix if seed % 2 else matrix.T)
    query = BicliqueQuery(*[(1, 1), (2, 2), (3, 5), (6, 3)][seed % 4])
    expected_sizes = sorted(
        pair
        for block in engine_cpu.run(graph, query, PLENTY, Detail.SIZES)
        for pair in zip(block.left_sizes.tolist(), block.right_sizes.tolist(), strict=True)
    )
    found_sizes = sorted(
        pair
        for block in engine_cuda.run(graph, query, PLENTY, Detail.SIZES, sizes=TINY[seed % len(TINY)])
        if block.n_bicliques
        for pair in zip(block.left_sizes.tolist(), block.right_sizes.tolist(), strict=True)
    )
    assert found_sizes == expected_sizes
    assert counted(graph, query) == len(expected_sizes)


@pytest.mark.parametrize("sizes", TINY)
@pytest.mark.parametrize(("shape", "density"), SMALL)
def test_all_work_areas_run_short(
    sizes: dict, shape: tuple[int, int], density: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    from mbe_stage.bicliques.cuda import prepare

    monkeypatch.setattr(prepare, "LONG_ROW", 2)
    monkeypatch.setattr(prepare, "LONG_SHARE", 1 << 30)
    graph = graphs.from_matrix(graphs.random_matrix(3, *shape, density))
    pairs = wanted(graph)
    assert found(graph, sizes=sizes) == pairs
    assert counted(graph, sizes=sizes) == len(pairs)


@pytest.mark.parametrize("sizes", [{"pool_extra": 64}, {"pool_extra": 64, "words": 64}, {"pool_extra": 64, "nodes": 2}])
def test_budgets_run_short(sizes: dict, monkeypatch: pytest.MonkeyPatch) -> None:
    """The emulator's cases with truly parallel warps: a run is refused clearly, or finds everything."""
    from mbe_stage.bicliques.cuda import pool_compaction, session

    original = session.Session
    # To be restored.
    monkeypatch.setattr(session, "Session", original)
    monkeypatch.setattr(session, "with_space_in_pool", session.with_space_in_pool)
    monkeypatch.setattr(pool_compaction, "PASSING_INTS", 96)
    graph = emulated_memory.graph()
    pairs = wanted(graph)
    happened: list[str] = []
    n_refused = 0
    spares = [0, 4_000, 8_000, 16_000, 32_000, 64_000, 128_000, 256_000, 16_000_000]
    for spare in spares:
        emulated_memory.limit(original, spare, happened)
        try:
            assert found(graph, sizes={"n_blocks": 4, "nodes": 64} | sizes) == pairs
            is_refused = False
        except MemoryBudgetExceeded:
            is_refused = True
        n_refused += is_refused
    # The largest needs no refusal.
    assert not is_refused
    assert n_refused < len(spares) // 2
    assert {"grown", "fewer warps"} <= set(happened)


def test_idle_warps_get_work() -> None:
    """Hundreds of warps, thirty roots, and a stack of bitset frames below each: most warps live on donated work."""
    graph = graphs.from_matrix(graphs.random_matrix(1, 30, 32, 0.8))
    n_bicliques = sum(block.n_bicliques for block in engine_cpu.run(graph, BicliqueQuery(), Execution(), Detail.COUNT))
    fingerprint = cpu_fingerprint(graph)
    sizes: dict[str, Any]
    for sizes in ({"n_blocks": 64}, {"n_blocks": 64, "words": 64}):
        statistics: dict[str, float] = {}
        blocks = engine_cuda.run(graph, BicliqueQuery(), PLENTY, Detail.COUNT, sizes=sizes, statistics=statistics)
        assert sum(block.n_bicliques for block in blocks) == n_bicliques
        assert statistics["donated"] > 0, sizes
        statistics = {}
        blocks = engine_cuda.run(graph, BicliqueQuery(), PLENTY, Detail.MEMBERS, sizes=sizes, statistics=statistics)
        assert fingerprint_of(blocks, graph) == fingerprint
        assert statistics["donated"] > 0, sizes


@pytest.mark.parametrize("n_blocks", [1, 2, 5, 16, 64, None])
def test_grids_of_one_block_and_of_many(n_blocks: int | None) -> None:
    sizes = {"n_blocks": n_blocks} if n_blocks else {"quantum_seconds": 0.5}
    for seed in range(20):
        graph = random_graph(seed)
        pairs = wanted(graph)
        assert found(graph, sizes=sizes) == pairs
        assert counted(graph, sizes=sizes) == len(pairs)


@pytest.mark.parametrize(
    "query",
    [
        BicliqueQuery(min_left=3, min_right=2),
        BicliqueQuery(max_left=4, max_right=5),
        BicliqueQuery(min_edges=12),
        BicliqueQuery(min_left=2, max_right=3, min_edges=6),
        BicliqueQuery(containing_left=(3,), min_right=2),
        BicliqueQuery(containing_right=(2, 5)),
        BicliqueQuery(containing_left=(1,), containing_right=(4,), min_left=3),
    ],
)
def test_sizes(query: BicliqueQuery) -> None:
    for seed in range(40):
        graph = random_graph(seed)
        pairs = wanted(graph, query)
        assert found(graph, query) == pairs, seed
        assert counted(graph, query) == len(pairs), seed


@pytest.mark.parametrize(
    "query",
    [
        BicliqueQuery(),
        BicliqueQuery(min_left=4, min_right=5),
        BicliqueQuery(containing_left=(3,), min_right=2),
        BicliqueQuery(containing_right=(1, 2)),
    ],
)
@pytest.mark.parametrize("name", ["gowalla", "EuAll", "youtube", "mushroom", "marvel", "unicodelang"])
def test_preparation_equals_the_host_s(data_dir: Path, name: str, query: BicliqueQuery) -> None:
    from mbe_stage.device.launch import resident_blocks

    graph = read(data_dir, name)
    assert differences(prepared(on_device(graph), query, resident_blocks()), expected(graph, query)) == []


def test_bicliques_are_expanded_correctly() -> None:
    from tests.mbe_stage.expansion_checks import CASES, check_expansion

    for seed in range(10):
        for case in CASES:
            check_expansion(case, seed)


def test_a_graph_on_the_device_is_used_unchanged() -> None:
    for query in (BicliqueQuery(), BicliqueQuery(containing_left=(3,), min_right=2)):
        for seed in range(10):
            graph = random_graph(seed)
            assert counted(on_device(graph), query) == len(wanted(graph, query))


def test_any_current_stream() -> None:
    import cupy as cp

    from tests.mbe_stage.device_checks import to_host

    with cp.cuda.Stream(non_blocking=True):
        for seed in range(10):
            graph = random_graph(seed)
            assert counted(on_device(graph)) == len(wanted(graph))
            sink = TableSink()
            for block in engine_cuda.device_blocks(on_device(graph), BicliqueQuery(), PLENTY):
                sink.accept(to_host(block))
            assert sink.table().as_set() == wanted(graph)


def test_the_plan_and_its_budget_are_available() -> None:
    graph = random_graph(1)
    plan = engine_cuda.memory_plan(graph, BicliqueQuery(), PLENTY, Detail.MEMBERS)
    assert plan is not None
    assert "total" in plan.describe()
    with pytest.raises(MemoryBudgetExceeded) as refusal:
        list(engine_cuda.run(graph, BicliqueQuery(), Execution(device_memory_bytes=300_000), Detail.MEMBERS))
    named = int(str(refusal.value).split("needs ")[1].split(" bytes")[0].replace(",", ""))
    blocks = engine_cuda.run(graph, BicliqueQuery(), Execution(device_memory_bytes=named), Detail.MEMBERS)
    assert sum(block.n_bicliques for block in blocks) == len(wanted(graph))


def test_a_budget_beyond_the_device_is_refused() -> None:
    with pytest.raises(MemoryBudgetExceeded, match="lower the memory budget"):
        list(
            engine_cuda.run(random_graph(1), BicliqueQuery(), PLENTY, Detail.COUNT, sizes=FEW | {"pool_extra": 1 << 40})
        )


def test_size_histogram_needs_no_members() -> None:
    graph = random_graph(3)
    blocks = list(engine_cuda.run(graph, BicliqueQuery(), PLENTY, Detail.SIZES, sizes=FEW))
    sizes = sorted((a, b) for block in blocks for a, b in zip(block.left_sizes, block.right_sizes, strict=True))
    assert sizes == sorted((len(left), len(right)) for left, right in wanted(graph))


def test_the_same_set_each_time(data_dir: Path) -> None:
    graph = read(data_dir, "marvel")
    assert len({gpu_fingerprint(graph) for _ in range(10)}) == 1

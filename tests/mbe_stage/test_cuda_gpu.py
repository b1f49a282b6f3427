"""The CUDA engine on a GPU, against the specification and the CPU engine. Run with `pytest -m gpu`."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from mbe_stage import BicliqueQuery, BipartiteCSR, Execution, TableSink
from mbe_stage.bicliques import engine_cpu, engine_cuda, reference
from mbe_stage.errors import MemoryBudgetExceeded
from mbe_stage.keys import Fingerprint, biclique_keys, hash_integers, vertex_hashes
from mbe_stage.results import Detail
from tests.mbe_stage import graphs
from tests.mbe_stage.preparation import expected, prepared

pytestmark = pytest.mark.gpu

PLENTY = Execution(memory_budget_bytes=32 << 30)
FEW = {"n_blocks": 2}
N_RANDOM = 1000

# Every pause, split and resume path: arenas, pool, node table and output so small that each of them runs short.
TINY = [
    {"n_blocks": 1},
    {"n_blocks": 1, "words": 64},
    {"n_blocks": 2, "slice_seconds": 0.0001},
    {"n_blocks": 2, "nodes": 2},
    {"n_blocks": 2, "pool_extra": 64},
    {"n_blocks": 3, "members": 512, "descriptors": 64, "chunk_members": 16},
    {"n_blocks": 1, "words": 64, "nodes": 3, "members": 1024, "descriptors": 128, "chunk_members": 32},
    {"n_blocks": 16, "slice_seconds": 0.00005, "members": 1024, "descriptors": 64, "chunk_members": 64},
]


@pytest.fixture(autouse=True)
def _needs_gpu() -> None:
    reason = engine_cuda.unavailable_reason()
    if reason:
        pytest.skip(reason)


def found(graph: BipartiteCSR, query: BicliqueQuery | None = None, sizes: dict | None = None) -> set:
    """The bicliques as a set; that none comes twice, and that counting agrees, is checked on the way."""
    query = query or BicliqueQuery()
    sink = TableSink()
    for block in engine_cuda.run(graph, query, PLENTY, Detail.MEMBERS, sizes=sizes or FEW):
        sink.accept(block)
    table = sink.table()
    as_set = table.as_set()
    assert len(as_set) == len(table)
    assert counted(graph, query, sizes) == len(table)
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


def fingerprint(engine, graph: BipartiteCSR, query: BicliqueQuery, execution: Execution) -> str:
    left = vertex_hashes(hash_integers(np.arange(graph.n_left)), "left")
    right = vertex_hashes(hash_integers(np.arange(graph.n_right)), "right")
    result = Fingerprint()
    for block in engine.run(graph, query, execution, Detail.MEMBERS):
        if block.n_bicliques:
            result.add(biclique_keys(block, left, right))
    return str(result)


@pytest.mark.parametrize(
    ("graph", "n_bicliques"),
    [
        (graphs.complete(1, 1), 1),
        (graphs.complete(70, 3), 1),
        (graphs.crown(2), 2),
        (graphs.crown(12), 2**12 - 2),
        (graphs.crown(15), 2**15 - 2),
        (graphs.path(9), 8),
        (graphs.cycle(40), 80),
        (graphs.star(200), 1),
        (graphs.staircase(100), 100),
        (graphs.staircase(300), 300),
        (graphs.blocks([(3, 4), (1, 1), (5, 2)]), 3),
        (BipartiteCSR.from_edges([], [], 4, 3), 0),
    ],
)
def test_closed_forms(graph: BipartiteCSR, n_bicliques: int) -> None:
    pairs = found(graph)
    assert len(pairs) == n_bicliques
    assert found(graph.swapped()) == {(right, left) for left, right in pairs}


def random_graph(seed: int) -> BipartiteCSR:
    chance = np.random.default_rng(seed)
    shape = [(12, 12), (30, 25), (14, 40), (160, 14), (90, 90)][seed % 5]
    density = chance.choice(
        [[0.1, 0.5, 0.8], [0.1, 0.3, 0.4], [0.2, 0.4, 0.6], [0.3, 0.6, 0.8], [0.03, 0.08, 0.12]][seed % 5]
    )
    return graphs.from_matrix(graphs.random_matrix(seed, *shape, float(density)))


@pytest.mark.parametrize("first", range(0, N_RANDOM, 100))
def test_random_graphs(first: int) -> None:
    for seed in range(first, first + 100):
        graph = random_graph(seed)
        assert found(graph, sizes=TINY[0] if seed % 2 else FEW) == wanted(graph), seed


@pytest.mark.parametrize("sizes", TINY)
@pytest.mark.parametrize("seed", [3, 8, 53])
def test_short_of_everything(sizes: dict, seed: int) -> None:
    for graph in (random_graph(seed), graphs.from_matrix(graphs.random_matrix(seed, 400, 13, 0.6))):
        assert found(graph, sizes=sizes) == wanted(graph)


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
        assert found(graph, query) == wanted(graph, query), seed


@pytest.mark.parametrize(
    "query",
    [
        BicliqueQuery(),
        BicliqueQuery(min_left=4, min_right=5),
        BicliqueQuery(containing_left=(3,), min_right=2),
        BicliqueQuery(containing_right=(1, 2)),
    ],
)
@pytest.mark.parametrize("name", ["unicodelang", "marvel", "mushroom", "youtube", "EuAll", "gowalla"])
def test_preparation_is_the_hosts(data_dir: Path, name: str, query: BicliqueQuery) -> None:
    from mbe_stage.bicliques.cuda.device import resident_blocks

    graph = read(data_dir, name)
    assert prepared(on_device(graph), query, resident_blocks()) == expected(graph, query)


def test_bicliques_are_expanded_as_they_should_be() -> None:
    from tests.mbe_stage.expansion_checks import CASES, check_expansion

    for seed in range(10):
        for case in CASES:
            check_expansion(case, seed)


def test_a_graph_on_the_device_is_taken_as_it_is() -> None:
    for query in (BicliqueQuery(), BicliqueQuery(containing_left=(3,), min_right=2)):
        for seed in range(10):
            graph = random_graph(seed)
            assert counted(on_device(graph), query) == len(wanted(graph, query))


def test_whatever_stream_is_current() -> None:
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


def test_the_plan_can_be_asked_for_and_the_budget_it_needs() -> None:
    graph = random_graph(1)
    plan = engine_cuda.memory_plan(graph, BicliqueQuery(), PLENTY, Detail.MEMBERS)
    assert plan is not None
    assert "total" in plan.describe()
    with pytest.raises(MemoryBudgetExceeded) as refusal:
        list(engine_cuda.run(graph, BicliqueQuery(), Execution(device_memory_bytes=300_000), Detail.MEMBERS))
    named = int(str(refusal.value).split("needs ")[1].split(" bytes")[0].replace(",", ""))
    blocks = engine_cuda.run(graph, BicliqueQuery(), Execution(device_memory_bytes=named), Detail.MEMBERS)
    assert sum(block.n_bicliques for block in blocks) == len(wanted(graph))


def test_a_budget_beyond_the_device_is_refused_in_words() -> None:
    with pytest.raises(MemoryBudgetExceeded, match="lower the memory budget"):
        list(
            engine_cuda.run(random_graph(1), BicliqueQuery(), PLENTY, Detail.COUNT, sizes=FEW | {"pool_extra": 1 << 40})
        )


def test_size_histogram_needs_no_members() -> None:
    graph = random_graph(3)
    blocks = list(engine_cuda.run(graph, BicliqueQuery(), PLENTY, Detail.SIZES, sizes=FEW))
    sizes = sorted((a, b) for block in blocks for a, b in zip(block.left_sizes, block.right_sizes, strict=True))
    assert sizes == sorted((len(left), len(right)) for left, right in wanted(graph))


@pytest.mark.parametrize(
    ("name", "n_bicliques"),
    [
        ("southern_women", 63),
        ("unicodelang", 460),
        ("ucforum", 16_261),
        ("marvel", 206_135),
        ("movielens_ti", 140_266),
        ("dbpedia_writer", 57_222),
        ("mushroom", 238_709),
        ("github_half", 691_250),
        ("actor_movies", 1_075_444),
        ("BMS_WebView2", 1_691_049),
        ("youtube", 1_826_587),
        ("lastfm_tag_artist", 5_318_319),
        ("EuAll", 12_306_755),
        ("gowalla", 36_353_156),
        ("bookcrossing", 54_458_949),
    ],
)
def test_real_graphs(data_dir: Path, name: str, n_bicliques: int) -> None:
    graph = read(data_dir, name)
    assert counted(graph, sizes={"slice_seconds": 0.5}) == n_bicliques
    if n_bicliques < 20_000_000:
        assert fingerprint(engine_cuda, graph, BicliqueQuery(), PLENTY) == fingerprint(
            engine_cpu, graph, BicliqueQuery(), Execution(memory_budget_bytes=16 << 30)
        )


def test_the_same_set_each_time(data_dir: Path) -> None:
    graph = read(data_dir, "marvel")
    assert len({fingerprint(engine_cuda, graph, BicliqueQuery(), PLENTY) for _ in range(10)}) == 1

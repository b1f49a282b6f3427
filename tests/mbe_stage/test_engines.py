"""Every engine compared with the reference: the sets must be equal, not only their sizes."""

from __future__ import annotations

import math
import pickle
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mbe_stage import (
    BicliqueQuery,
    BipartiteCSR,
    CountSink,
    Execution,
    HistogramSink,
    TableSink,
    enumerate_bicliques,
    enumerate_into,
)
from mbe_stage.bicliques import engine_cpu, reference
from mbe_stage.bicliques.results import BicliqueBlock, Detail
from tests.mbe_stage import graphs
from tests.mbe_stage.engines import every_engine

# Small ones: the reference takes a moment for each.
REAL_GRAPHS = {
    "southern_women": 63,
    "corporate_leadership": 66,
    "club_membership": 60,
    "moreno_crime": 620,
    "unicodelang": 460,
}


def found(graph: BipartiteCSR, query: BicliqueQuery | None = None, engine: str = "cpu", **execution) -> set:
    """Return the set of bicliques; check that none is repeated and that counts and sizes agree."""
    sink = TableSink()
    facts = enumerate_into(sink, graph, query, Execution(**execution), engine)
    table = sink.table()
    assert len(table.as_set()) == len(table) == facts.n_bicliques
    counting = CountSink()
    enumerate_into(counting, graph, query, Execution(**execution), engine)
    assert counting.n_bicliques == len(table)
    histogram = HistogramSink()
    enumerate_into(histogram, graph, query, Execution(**execution), engine)
    assert histogram.counts == sizes_of(table.as_set())
    return table.as_set()


def sizes_of(pairs: set) -> Counter[tuple[int, int]]:
    return Counter((len(left), len(right)) for left, right in pairs)


def wanted(graph: BipartiteCSR, query: BicliqueQuery | None = None) -> set:
    return {pair for pair in reference.maximal_bicliques(graph) if reference.matches(*pair, query or BicliqueQuery())}


def swapped(pairs: set) -> set:
    return {(right, left) for left, right in pairs}


@every_engine
@pytest.mark.parametrize(
    ("graph", "n_bicliques"),
    [
        (graphs.complete(1, 1), 1),
        (graphs.complete(7, 5), 1),
        (graphs.complete(70, 3), 1),
        (graphs.crown(2), 2),
        (graphs.crown(9), 2**9 - 2),
        (graphs.path(1), 1),
        (graphs.path(2), 1),
        (graphs.path(9), 8),
        (graphs.cycle(3), 6),
        (graphs.cycle(40), 80),
        (graphs.star(200), 1),
        (graphs.half_graph(100), 100),
        (graphs.blocks([(3, 4), (1, 1), (5, 2)]), 3),
        (BipartiteCSR.from_edges([], [], 4, 3), 0),
    ],
)
def test_closed_forms(engine: str, graph: BipartiteCSR, n_bicliques: int) -> None:
    pairs = found(graph, engine=engine)
    assert len(pairs) == n_bicliques
    assert pairs == wanted(graph)
    assert found(graph.swapped(), engine=engine) == swapped(pairs)


@every_engine
@given(matrix=graphs.matrices())
@settings(max_examples=300, deadline=None)
def test_random_graphs(engine: str, matrix: np.ndarray) -> None:
    graph = graphs.from_matrix(matrix)
    assert found(graph, engine=engine) == wanted(graph)


@every_engine
@given(matrix=graphs.matrices(max_left=7, max_right=7), data=st.data())
@settings(max_examples=200, deadline=None)
def test_queries(engine: str, matrix: np.ndarray, data: st.DataObject) -> None:
    graph = graphs.from_matrix(matrix)
    small = st.integers(1, 4)
    query = BicliqueQuery(
        min_left=data.draw(small),
        min_right=data.draw(small),
        max_left=data.draw(st.none() | st.integers(4, 7)),
        max_right=data.draw(st.none() | st.integers(4, 7)),
        min_edges=data.draw(st.integers(1, 12)),
        containing_left=tuple(data.draw(st.lists(st.integers(0, graph.n_left - 1), max_size=2))),
        containing_right=tuple(data.draw(st.lists(st.integers(0, graph.n_right - 1), max_size=2))),
    )
    assert found(graph, query, engine) == wanted(graph, query)
    assert found(graph.swapped(), query.swapped(), engine) == swapped(wanted(graph, query))


@every_engine
@pytest.mark.parametrize("n_left", [1, 5, 6, 7, 8, 31, 32, 33, 63, 64, 65, 127, 128, 129, 200])
@pytest.mark.parametrize("density", [0.2, 0.6, 0.9])
def test_left_sets_around_word_boundaries(engine: str, n_left: int, density: float) -> None:
    for seed in range(2):
        graph = graphs.from_matrix(graphs.random_matrix(seed, n_left, 8, density))
        assert found(graph, engine=engine) == wanted(graph)
        assert found(graph.swapped(), engine=engine) == swapped(wanted(graph))


@every_engine
@pytest.mark.parametrize("shape", [(40, 40), (90, 30), (150, 150)])
def test_wide_roots(engine: str, shape: tuple[int, int]) -> None:
    graph = graphs.from_matrix(graphs.random_matrix(7, *shape, 12 / shape[1]))
    assert found(graph, engine=engine) == wanted(graph)


@every_engine
@pytest.mark.parametrize(("name", "n_bicliques"), REAL_GRAPHS.items())
def test_real_graphs(engine: str, data_dir: Path, name: str, n_bicliques: int) -> None:
    if not (data_dir / f"{name}.npz").is_file():
        pytest.skip(f"no {name}.npz in {data_dir}")
    with np.load(data_dir / f"{name}.npz") as archive:
        graph = BipartiteCSR.from_edges(*(np.unique(archive[side], return_inverse=True)[1] for side in archive.files))
    pairs = found(graph, engine=engine)
    assert len(pairs) == n_bicliques
    assert pairs == wanted(graph)
    assert found(graph.swapped(), engine=engine) == swapped(pairs)
    query = BicliqueQuery(min_left=2, min_right=3)
    assert found(graph, query, engine) == wanted(graph, query)


@pytest.mark.parametrize("block_bytes", [1, 100, 4096])
@pytest.mark.parametrize("threads", [1, 2, 5])
def test_every_pause_grow_and_share_path(threads: int, block_bytes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Arenas of one entry, blocks smaller than a biclique, quanta of one child: the set stays the same."""
    monkeypatch.setattr("mbe_stage.search.cpu.quanta._FIRST_WORK_LIMIT", 1)
    monkeypatch.setattr("mbe_stage.search.cpu.pool._ALONE_SECONDS", 0.0)
    monkeypatch.setattr("mbe_stage.search.cpu.quanta._QUANTUM_SECONDS", 0.0)
    for seed, shape, density in [(1, (14, 14), 0.5), (2, (100, 9), 0.5), (3, (130, 40), 0.1)]:
        graph = graphs.from_matrix(graphs.random_matrix(seed, *shape, density))
        execution = Execution(threads=threads, block_bytes=block_bytes)
        sink = TableSink()
        counted = 0
        for block in engine_cpu.run(graph, BicliqueQuery(), execution, Detail.MEMBERS, first_sizes=(1, 1, 1)):
            sink.accept(block)
        for block in engine_cpu.run(graph, BicliqueQuery(), execution, Detail.COUNT, first_sizes=(1, 1, 1)):
            counted += block.n_bicliques
        histogram = HistogramSink()
        query = BicliqueQuery(min_left=2, min_right=3)
        for block in engine_cpu.run(graph, query, execution, Detail.SIZES, first_sizes=(1, 1, 1)):
            histogram.accept(block)
        assert histogram.counts == sizes_of(wanted(graph, query))
        sent = pickle.dumps(histogram)
        assert pickle.loads(sent).counts == histogram.counts
        assert len(sent) < 10_000
        assert sink.table().as_set() == wanted(graph)
        assert counted == len(sink.table()) == len(wanted(graph))


@pytest.mark.parametrize(
    ("shape", "density"), [((6, 9), 0.6), ((12, 9), 0.6), ((40, 12), 0.4), ((90, 12), 0.5), ((150, 14), 0.4)]
)
@pytest.mark.parametrize("most_twins", [1, 4])
def test_sizes_are_known_without_members(shape: tuple[int, int], density: float, most_twins: int) -> None:
    """Counts and histograms, with twins on both sides, around every bound."""
    random = np.random.default_rng(most_twins)
    for seed in range(3):
        matrix = graphs.random_matrix(seed, *shape, density)
        for axis in (0, 1):
            matrix = np.repeat(matrix, random.integers(1, most_twins + 1, shape[axis]), axis=axis)
        graph = graphs.from_matrix(matrix)
        pairs = wanted(graph)
        for _ in range(25):
            least, most = random.integers(1, 8, 2).tolist(), random.integers(8, 40, 2).tolist()
            maxima = [None if random.integers(3) else n for n in most]
            query = BicliqueQuery(*least, *maxima, min_edges=random.choice([1, 1, 30]).item())
            expected = sizes_of(pair for pair in pairs if query.accepts(len(pair[0]), len(pair[1])))
            counting, histogram = CountSink(), HistogramSink()
            for sink in (counting, histogram):
                enumerate_into(sink, graph, query, Execution(threads=1), "cpu")
            assert histogram.counts == expected
            assert counting.n_bicliques == expected.total()


@every_engine
def test_isolated_vertices_and_twins_change_nothing_else(engine: str) -> None:
    matrix = graphs.random_matrix(3, 9, 9, 0.5)
    pairs = wanted(graphs.from_matrix(matrix))
    with_isolated = np.zeros((12, 12), bool)
    with_isolated[:9, :9] = matrix
    assert found(graphs.from_matrix(with_isolated), engine=engine) == pairs
    twins = np.repeat(matrix, 2, axis=0)
    assert found(graphs.from_matrix(twins), engine=engine) == {
        (tuple(u for vertex in left for u in (2 * vertex, 2 * vertex + 1)), right) for left, right in pairs
    }


@every_engine
@given(matrix=graphs.matrices(), random=st.randoms(use_true_random=False))
@settings(max_examples=50, deadline=None)
def test_permuted_vertices(engine: str, matrix: np.ndarray, random) -> None:
    left, right = (random.sample(range(n), n) for n in matrix.shape)
    pairs = found(graphs.from_matrix(matrix[np.ix_(left, right)]), engine=engine)
    back = {(tuple(sorted(left[u] for u in pair[0])), tuple(sorted(right[v] for v in pair[1]))) for pair in pairs}
    assert back == wanted(graphs.from_matrix(matrix))


def test_thousands_of_twins() -> None:
    matrix = np.repeat(np.repeat(graphs.random_matrix(5, 6, 6, 0.5), 700, axis=0), 500, axis=1)
    sink = HistogramSink()
    enumerate_into(sink, graphs.from_matrix(matrix))
    small = HistogramSink()
    enumerate_into(small, graphs.from_matrix(matrix[::700, ::500]))
    assert sink.counts == {(700 * left, 500 * right): n for (left, right), n in small.counts.items()}


def test_a_histogram_sums_many_blocks() -> None:
    """Small and large sizes, read in between, and merged with the counts of other tasks."""
    rng = np.random.default_rng(1)
    sinks, sizes = (HistogramSink(), HistogramSink()), Counter()
    for k in range(100):
        most = (9, 1 << 16, 1 << 17, 2**31)[k % 4] if k % 5 else 3
        left, right = rng.integers(1, most, (2, int(rng.integers(0, 60))), dtype=np.int32)
        sinks[k % 3 == 0].accept(BicliqueBlock(left.size, left, right))
        sizes.update(zip(left.tolist(), right.tolist(), strict=True))
        if k in (7, 60):
            assert sinks[0].counts + sinks[1].counts == sizes
    sinks[0].merge(sinks[1])
    assert sinks[0].counts == sizes


def test_large_closed_forms() -> None:
    for graph, n_bicliques in [
        (graphs.star(100_000), 1),
        (graphs.star(100_000).swapped(), 1),
        (graphs.complete(2000, 2000), 1),
        (graphs.crown(20), 2**20 - 2),
        (graphs.half_graph(600), 600),
    ]:
        sink = CountSink()
        enumerate_into(sink, graph)
        assert sink.n_bicliques == n_bicliques


@every_engine
def test_members_are_sorted_and_histogram_agrees(engine: str) -> None:
    graph = graphs.from_matrix(graphs.random_matrix(11, 15, 15, 0.4))
    histogram = HistogramSink()
    enumerate_into(histogram, graph, engine=engine)
    table = enumerate_bicliques(graph, engine=engine)
    sizes: dict[tuple[int, int], int] = {}
    for k in range(len(table)):
        left, right = table[k]
        assert (np.diff(left) > 0).all()
        assert (np.diff(right) > 0).all()
        sizes[left.size, right.size] = sizes.get((left.size, right.size), 0) + 1
    assert sizes == histogram.counts


@pytest.mark.parametrize(
    ("n", "few"),
    [(40, 3), (64, 2), (75, 2), (110, 1)],
)
@pytest.mark.parametrize("engine", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def test_bounds_cut_deep_trees(engine: str, n: int, few: int) -> None:
    """A crown has 2**n - 2 bicliques; only the paths to the wanted ones, up to n nodes deep, may be visited."""
    for query in (BicliqueQuery(min_right=n - few), BicliqueQuery(min_left=n - few)):
        sink = HistogramSink()
        enumerate_into(sink, graphs.crown(n), query, engine=engine)
        sizes = {tuple(sorted(size)): count for size, count in sink.counts.items()}
        assert sizes == {(k, n - k): math.comb(n, k) for k in range(1, few + 1)}


@pytest.mark.parametrize(("n", "most"), [(40, 3), (70, 2)])
@pytest.mark.parametrize("detail", [CountSink, HistogramSink, TableSink])
def test_maxima_cut_deep_trees(n: int, most: int, detail: type) -> None:
    for query in (BicliqueQuery(max_left=most), BicliqueQuery(max_right=most)):
        sink = detail()
        facts = enumerate_into(sink, graphs.crown(n), query, Execution(threads=1), "cpu")
        assert facts.n_bicliques == sum(math.comb(n, k) for k in range(1, most + 1))


def test_bounds_on_edges_and_most_members() -> None:
    n = 18
    for query in (BicliqueQuery(min_edges=(n // 2) ** 2), BicliqueQuery(max_left=2), BicliqueQuery(max_right=2)):
        sink = HistogramSink()
        enumerate_into(sink, graphs.crown(n), query, engine="cpu")
        assert sink.counts == {(k, n - k): math.comb(n, k) for k in range(1, n) if query.accepts(k, n - k)}

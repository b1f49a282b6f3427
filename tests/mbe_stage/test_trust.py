"""Large and adversarial graphs with closed-form bicliques: sets, not counts, on every engine that can."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from mbe_stage import (
    BicliqueQuery,
    BicliqueTable,
    BipartiteCSR,
    CountSink,
    Execution,
    HistogramSink,
    TableSink,
    enumerate_into,
)
from mbe_stage.bicliques import engine_cpu, reference
from mbe_stage.bicliques.cpu import layout, worker
from mbe_stage.bicliques.cpu.tree import run_quantum
from mbe_stage.bicliques.reduction import core_of
from mbe_stage.bicliques.results import Detail, Sink
from tests.mbe_stage import graphs
from tests.mbe_stage.engines import ALL_ENGINES, FAST_ENGINES


def table_of(graph: BipartiteCSR, engine: str, query: BicliqueQuery | None = None, **execution: int) -> BicliqueTable:
    """Return the bicliques; check that counting without members agrees."""
    sink, counting = TableSink(), CountSink()
    enumerate_into(sink, graph, query, Execution(**execution), engine)
    enumerate_into(counting, graph, query, Execution(**execution), engine)
    table = sink.table()
    assert counting.n_bicliques == len(table)
    return table


def as_bits(offsets: np.ndarray, members: np.ndarray) -> np.ndarray:
    """Return each list of ids below 64 as one word; the ids must ascend."""
    steps = np.diff(members)
    steps[offsets[1:-1] - 1] = 1
    assert (steps > 0).all()
    return np.bitwise_or.reduceat(np.uint64(1) << members.astype(np.uint64), offsets[:-1])


@pytest.mark.parametrize("engine", FAST_ENGINES)
@pytest.mark.parametrize("n", range(2, 21))
def test_a_crown_has_every_proper_subset_once(n: int, engine: str) -> None:
    table = table_of(graphs.crown(n), engine)
    left = as_bits(table.left_offsets, table.left_members)
    right = as_bits(table.right_offsets, table.right_members)
    assert np.array_equal(np.sort(left), np.arange(1, 2**n - 1, dtype=np.uint64))
    assert np.array_equal(right, np.uint64(2**n - 1) - left)


@pytest.mark.parametrize("engine", ALL_ENGINES)
@pytest.mark.parametrize("flip", [False, True])
@pytest.mark.parametrize(("n_left", "n_right"), [(100_000, 1), (2000, 2000), (1, 1), (65, 4000)])
def test_a_complete_graph_is_one_biclique(n_left: int, n_right: int, flip: bool, engine: str) -> None:
    graph = graphs.star(n_left) if n_right == 1 else graphs.complete(n_left, n_right)
    table = table_of(graph.swapped() if flip else graph, engine)
    assert len(table) == 1
    left, right = reversed(table[0]) if flip else table[0]
    assert np.array_equal(left, np.arange(n_left))
    assert np.array_equal(right, np.arange(n_right))


@pytest.mark.parametrize("engine", ALL_ENGINES)
@pytest.mark.parametrize("n", [63, 64, 65, 129, 300])
def test_a_half_graph_is_nested(n: int, engine: str) -> None:
    assert table_of(graphs.half_graph(n), engine).as_set() == {
        (tuple(range(first, n)), tuple(range(first + 1))) for first in range(n)
    }


@pytest.mark.parametrize("engine", FAST_ENGINES)
def test_thousands_of_twins_stay_together(engine: str) -> None:
    n_left, n_right = 700, 500
    matrix = graphs.random_matrix(5, 6, 6, 0.5)
    graph = graphs.from_matrix(np.repeat(np.repeat(matrix, n_left, axis=0), n_right, axis=1))
    assert table_of(graph, engine).as_set() == {
        (_repeated(left, n_left), _repeated(right, n_right))
        for left, right in reference.maximal_bicliques(graphs.from_matrix(matrix))
    }


def _repeated(vertices: tuple[int, ...], n: int) -> tuple[int, ...]:
    return tuple(vertex * n + k for vertex in vertices for k in range(n))


@pytest.mark.parametrize("engine", FAST_ENGINES)
@pytest.mark.parametrize(("n", "few"), [(40, 3), (64, 2), (75, 2), pytest.param(110, 1, marks=pytest.mark.slow)])
@pytest.mark.parametrize("side", ["left", "right"])
def test_deep_trees(n: int, few: int, side: str, engine: str) -> None:
    """Only those of a crown's 2**n - 2 bicliques at the end of paths of up to n - 1 nodes are wanted."""
    query = BicliqueQuery(min_left=n - few) if side == "left" else BicliqueQuery(min_right=n - few)
    subsets = [subset for k in range(1, few + 1) for subset in itertools.combinations(range(n), k)]
    pairs = {(tuple(sorted(set(range(n)) - set(subset))), subset) for subset in subsets}
    expected = pairs if side == "left" else {(right, left) for left, right in pairs}
    assert table_of(graphs.crown(n), engine, query).as_set() == expected


@pytest.mark.parametrize(
    ("graph", "n_bicliques"),
    [
        (graphs.crown(11), 2**11 - 2),
        (graphs.star(5000), 1),
        (graphs.complete(200, 300), 1),
        (graphs.half_graph(150), 150),
        (graphs.from_matrix(graphs.random_matrix(17, 150, 70, 0.15)), None),
        (graphs.from_matrix(graphs.random_matrix(18, 129, 129, 0.08)), None),
    ],
)
@pytest.mark.parametrize("detail", [Detail.COUNT, Detail.MEMBERS])
def test_arenas_grow_from_one_entry(graph: BipartiteCSR, n_bicliques: int | None, detail: Detail) -> None:
    expected = reference.maximal_bicliques(graph) if n_bicliques is None or detail == Detail.MEMBERS else None
    sink, n_found = TableSink(), 0
    for block in engine_cpu.run(graph, BicliqueQuery(), Execution(threads=2), detail, first_sizes=(1, 1, 1)):
        n_found += block.n_bicliques
        if detail == Detail.MEMBERS:
            sink.accept(block)
    assert n_found == (n_bicliques or len(set(expected or ())))
    if detail == Detail.MEMBERS:
        assert sink.table().as_set() == set(expected or ())


def test_many_columns_and_few_rows() -> None:
    """Nodes of more than 64 columns are lists: hundreds of graphs with a few of them."""
    rng = np.random.default_rng(31)
    for seed in range(300):
        matrix = rng.random((int(rng.integers(70, 160)), 9)) < rng.random(9) * 0.9
        graph = graphs.from_matrix(matrix if seed % 2 else matrix.T)
        least, other = (int(rng.integers(1, 9)), int(rng.integers(1, 3))) if seed % 3 else (1, 1)
        query = BicliqueQuery(least, other) if seed % 2 else BicliqueQuery(other, least)
        wanted = {pair for pair in reference.maximal_bicliques(graph) if reference.matches(*pair, query)}
        assert table_of(graph, "cpu", query).as_set() == wanted
        sink = CountSink()
        enumerate_into(sink, graph, query, Execution(threads=1), "cpu")
        assert sink.n_bicliques == len(wanted)


def test_counts_with_small_minima_are_those_of_the_reference() -> None:
    """Stars, twins, single edges and isolated vertices, around a core that takes most edges or few."""
    rng = np.random.default_rng(43)
    for seed in range(200):
        matrix = rng.random(rng.integers(1, 9, 2)) < rng.random()
        twins = np.repeat(np.repeat(matrix, rng.integers(1, 3, matrix.shape[0]), 0), 1 + seed % 2, 1)
        n_stars = int(rng.integers(0, 4))
        matrix = np.pad(twins, ((0, n_stars), (0, 2 * n_stars)))
        matrix[np.arange(twins.shape[0], matrix.shape[0]), np.arange(twins.shape[1], matrix.shape[1])[:n_stars]] = True
        matrix[rng.integers(0, matrix.shape[0], n_stars), np.arange(matrix.shape[1] - n_stars, matrix.shape[1])] = True
        graph = graphs.from_matrix(matrix)
        found = list(reference.maximal_bicliques(graph))
        for least in itertools.product(range(1, 4), repeat=2):
            for containing in ((), (0,)):
                query = BicliqueQuery(*least, containing_left=containing)
                sink = CountSink()
                enumerate_into(sink, graph, query, Execution(threads=1), "cpu")
                assert sink.n_bicliques == sum(reference.matches(*pair, query) for pair in found), (seed, query)


def visited(graph: BipartiteCSR, query: BicliqueQuery) -> int:
    """Return the search tree nodes that the CPU engine visits."""
    seen: list[int] = []
    for _ in engine_cpu.run(graph, query, Execution(threads=1), Detail.MEMBERS, on_visited=seen.append):
        pass
    return seen[0]


SPARSE = graphs.from_matrix(graphs.random_matrix(23, 120, 90, 0.12))
WITH_TWINS = graphs.from_matrix(np.repeat(graphs.random_matrix(24, 80, 40, 0.2), [1, 2, 3, 1] * 20, axis=0))
BUSIEST_LEFT, BUSIEST_RIGHT = int(np.argmax(SPARSE.left_degrees)), int(np.argmax(SPARSE.right_degrees))


@pytest.mark.parametrize(
    ("graph", "query", "most_share"),
    [
        (SPARSE, BicliqueQuery(min_left=5), 0.1),
        (SPARSE.swapped(), BicliqueQuery(min_right=5), 0.1),
        (SPARSE, BicliqueQuery(min_left=3, min_right=3), 0.6),
        (SPARSE, BicliqueQuery(containing_left=(BUSIEST_LEFT,)), 0.1),
        (SPARSE, BicliqueQuery(containing_right=(BUSIEST_RIGHT,)), 0.1),
        (graphs.crown(13), BicliqueQuery(min_left=10), 0.3),
        (graphs.crown(13), BicliqueQuery(max_right=2), 0.3),
        (graphs.crown(13), BicliqueQuery(max_left=2), 0.3),
        (graphs.crown(13), BicliqueQuery(min_right=10), 0.8),
    ],
)
def test_size_constraints_keep_the_search_out_of_subtrees(
    graph: BipartiteCSR, query: BicliqueQuery, most_share: float
) -> None:
    assert 0 < visited(graph, query) <= most_share * visited(graph, BicliqueQuery())
    wanted = {pair for pair in reference.maximal_bicliques(graph) if reference.matches(*pair, query)}
    assert wanted
    assert table_of(graph, "cpu", query).as_set() == wanted


class Quanta:
    """Records the CPU engine's calls of compiled code: elementary steps and written members."""

    def __init__(self) -> None:
        self.n_steps = self.n_members = 0

    def __call__(self, graph, state, *rest) -> int:
        status: int = run_quantum(graph, state, *rest)
        self.n_steps += int(state.control[layout.WORK])
        self.n_members += int(state.control[layout.LEFT_USED] + state.control[layout.RIGHT_USED])
        return status


def quanta_of(graph: BipartiteCSR, query: BicliqueQuery, sink: Sink, monkeypatch: pytest.MonkeyPatch) -> Quanta:
    quanta = Quanta()
    # A small graph is counted in one compiled call.
    monkeypatch.setattr(engine_cpu, "_FEW_EDGES", 0)
    monkeypatch.setattr(worker, "run_quantum", quanta)
    enumerate_into(sink, graph, query, Execution(threads=1), "cpu")
    return quanta


@pytest.mark.parametrize("graph", [SPARSE, SPARSE.swapped(), WITH_TWINS, graphs.crown(14)])
@pytest.mark.parametrize("least", [(2, 1), (1, 2), (2, 2), (3, 3), (5, 5)])
def test_a_narrower_query_is_not_more_work(
    graph: BipartiteCSR, least: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Visited nodes alone cannot show it: a walk that lists instead of counting visits fewer and works more."""
    everything, asked, histogram = (
        quanta_of(graph, query, sink, monkeypatch)
        for query, sink in (
            (BicliqueQuery(), CountSink()),
            (BicliqueQuery(*least), CountSink()),
            (BicliqueQuery(*least), HistogramSink()),
        )
    )
    # With at least two vertices, no size is checked. With twins that are too few alone, each biclique must be weighed.
    most = 1 if max(least) == 2 else 1.1 if graph is WITH_TWINS else 1.015
    assert asked.n_steps <= most * everything.n_steps
    assert histogram.n_steps <= 1.3 * everything.n_steps
    assert asked.n_members == histogram.n_members == 0
    listed = quanta_of(graph, BicliqueQuery(), TableSink(), monkeypatch)
    assert listed.n_steps > 1.2 * everything.n_steps
    assert listed.n_members > 0


def test_a_single_column_is_a_child_of_its_first_row_alone() -> None:
    """Below a list node, later rows of a single column are not visited: they were 1,186 more nodes."""
    assert visited(graphs.from_matrix(graphs.random_matrix(23, 1500, 200, 0.05)), BicliqueQuery()) <= 18_600


def test_absent_size_constraints_cost_nothing() -> None:
    graph = graphs.from_matrix(graphs.random_matrix(29, 60, 40, 0.2))
    assert core_of(graph, BicliqueQuery()).graph is graph
    assert visited(graph, BicliqueQuery()) == visited(graph, BicliqueQuery(max_left=10**6, max_right=10**6))

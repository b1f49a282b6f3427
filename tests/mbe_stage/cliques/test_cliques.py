"""Every engine finds exactly the maximal cliques: of random graphs and of closed forms."""

from __future__ import annotations

import importlib
from collections import Counter
from itertools import chain
from math import prod
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mbe_stage import (
    CliqueCountSink,
    CliqueHistogramSink,
    CliqueQuery,
    CliqueTableSink,
    Execution,
    InvalidArgument,
    UndirectedCSR,
    count_maximal_cliques,
    enumerate_cliques_into,
    enumerate_maximal_cliques,
    find_cliques,
)
from mbe_stage.cliques.problem import PROBLEM
from mbe_stage.cliques.reference import maximal_cliques
from mbe_stage.cliques.results import CliqueBlock, Detail
from mbe_stage.tasks import Task
from tests.mbe_stage.cliques import undirected_graphs as graphs
from tests.mbe_stage.cliques.fingerprints import fingerprint

_NEEDS = {"cuda": [pytest.mark.gpu]}
every_engine = pytest.mark.parametrize(
    "engine", [pytest.param(name, marks=_NEEDS.get(name, [])) for name in PROBLEM.engines]
)


def module_of(engine: str) -> Any:
    return importlib.import_module(PROBLEM.engines[engine])


def found(
    engine: str,
    graph: UndirectedCSR,
    query: CliqueQuery | None = None,
    tasks: list[Task] | None = None,
    execution: Execution | None = None,
) -> graphs.Cliques:
    """Return an engine's cliques at every detail; check that they are distinct, ascending and consistent."""
    query, execution = query or CliqueQuery(), execution or Execution(threads=2)
    sink, counts, sizes = CliqueTableSink(), CliqueCountSink(), CliqueHistogramSink()
    for each in (sink, counts, sizes):
        enumerate_cliques_into(each, graph, query, execution, engine, tasks=tasks)
    table = sink.table()
    cliques = [tuple(table[k].tolist()) for k in range(len(table))]
    assert all(one == tuple(sorted(set(one))) for one in cliques)
    assert len(set(cliques)) == len(cliques) == counts.n_cliques
    assert sizes.counts == Counter(table.sizes.tolist())
    return set(cliques)


@settings(max_examples=200, deadline=None)
@given(matrix=graphs.matrices())
def test_the_reference_equals_networkx(matrix: np.ndarray) -> None:
    graph = graphs.from_matrix(matrix)
    assert maximal_cliques(graph) == graphs.of_networkx(graph)


@every_engine
@settings(max_examples=300, deadline=None)
@given(matrix=graphs.matrices(), data=st.data())
def test_random_graphs_and_queries(engine: str, matrix: np.ndarray, data: st.DataObject) -> None:
    graph = graphs.from_matrix(matrix)
    query = data.draw(graphs.queries(graph.n))
    assert found(engine, graph, query) == graphs.matching(graphs.of_networkx(graph), query)


@every_engine
@pytest.mark.parametrize("seed", range(12))
def test_larger_random_graphs(engine: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    n, density = (90, 0.3) if seed % 2 else (45, 0.7)
    graph = graphs.random_graph(rng, n, density)
    wanted = graphs.of_networkx(graph)
    assert found(engine, graph) == wanted
    query = CliqueQuery(4, 6, (int(rng.integers(0, n)),))
    assert found(engine, graph, query) == graphs.matching(wanted, query)


@every_engine
@pytest.mark.parametrize("part_sizes", [[3] * 5, [2] * 9, [1, 4, 2, 3], [7], [1] * 12, [2] * 7 + [1] * 70])
def test_complete_multipartite_graphs(engine: str, part_sizes: list[int]) -> None:
    graph, wanted = graphs.turan(part_sizes)
    assert len(wanted) == prod(part_sizes)
    assert found(engine, graph) == wanted


@every_engine
@pytest.mark.parametrize("n", [3, 4, 5, 9, 20, 27])
def test_complements_of_cycles(engine: str, n: int) -> None:
    """Each vertex misses two others (for three vertices, all)."""
    graph = graphs.complement(graphs.cycle(n))
    cliques = found(engine, graph)
    assert len(cliques) == graphs.perrin(n)
    assert cliques == graphs.of_networkx(graph)


@every_engine
def test_cycles_and_trees_have_their_edges(engine: str) -> None:
    assert found(engine, graphs.cycle(3)) == {(0, 1, 2)}
    for n in (4, 7, 100):
        assert found(engine, graphs.cycle(n)) == {(v, v + 1) for v in range(n - 1)} | {(0, n - 1)}
    parents = np.arange(1, 64) // 2
    tree = UndirectedCSR.from_edges(np.arange(1, 64), parents, n=64)
    assert found(engine, tree) == {(int(parent), v) for v, parent in zip(range(1, 64), parents, strict=True)}


@every_engine
@pytest.mark.parametrize("n", [1, 2, 64, 65, 130])
def test_one_clique(engine: str, n: int) -> None:
    assert found(engine, graphs.complete(n)) == {tuple(range(n))}


@every_engine
def test_vertices_without_edges_are_cliques_of_one(engine: str) -> None:
    assert found(engine, UndirectedCSR.from_edges([], [])) == set()
    assert found(engine, UndirectedCSR.from_edges([], [], n=3)) == {(0,), (1,), (2,)}
    graph = UndirectedCSR.from_edges([4, 1, 2], [4, 2, 1], n=6)
    assert found(engine, graph) == {(0,), (1, 2), (3,), (4,), (5,)}
    assert found(engine, graph, CliqueQuery(min_size=2)) == {(1, 2)}
    assert found(engine, graph, CliqueQuery(max_size=1)) == {(0,), (3,), (4,), (5,)}
    assert found(engine, graph, CliqueQuery(containing=(3,))) == {(3,)}


@every_engine
def test_required_members(engine: str) -> None:
    graph, wanted = graphs.turan([2, 2, 2, 2])
    assert found(engine, graph, CliqueQuery(containing=(0, 3))) == {one for one in wanted if {0, 3} <= set(one)}
    assert found(engine, graph, CliqueQuery(containing=(0, 0, 3, 5, 6))) == {(0, 3, 5, 6)}
    assert found(engine, graph, CliqueQuery(containing=(0, 1))) == set()
    assert found(engine, graph, CliqueQuery(min_size=5, containing=(0, 3))) == set()


@every_engine
@settings(max_examples=100, deadline=None)
@given(matrix=graphs.matrices(), data=st.data())
def test_disjoint_clique_tasks_equal_the_whole(engine: str, matrix: np.ndarray, data: st.DataObject) -> None:
    graph = graphs.from_matrix(matrix)
    query = data.draw(graphs.queries(graph.n))
    tasks = [
        Task.from_json(one.to_json()) for one in module_of(engine).tasks_of(graph, query, data.draw(st.integers(1, 6)))
    ]
    parts = [found(engine, graph, query, tasks[start::3]) for start in range(3)]
    whole = graphs.matching(graphs.of_networkx(graph), query)
    assert sum(map(len, parts)) == len(whole)
    assert set.union(*parts) == whole


@every_engine
def test_tasks_of_other_work_are_refused(engine: str) -> None:
    graph, _ = graphs.turan([3, 3, 3])
    other, _ = graphs.turan([3, 3, 2, 1])
    module = module_of(engine)
    tasks = module.tasks_of(graph, CliqueQuery(), 3)
    for asked_of, query in ((other, CliqueQuery()), (graph, CliqueQuery(min_size=2))):
        with pytest.raises(InvalidArgument, match="expected tasks of the same problem, graph and query"):
            list(module.run(asked_of, query, Execution(), Detail.COUNT, tasks))
    with pytest.raises(InvalidArgument, match="two tasks have root"):
        list(module.run(graph, CliqueQuery(), Execution(), Detail.COUNT, [*tasks, tasks[0]]))


@every_engine
def test_blocks_stay_within_their_bytes(engine: str) -> None:
    graph, wanted = graphs.turan([3] * 6)
    table = CliqueTableSink()
    blocks = list(module_of(engine).run(graph, CliqueQuery(), Execution(block_bytes=300), Detail.MEMBERS))
    for block in blocks:
        table.accept(block)
        assert block.sizes is not None
        assert block.members is not None
        assert block.sizes.nbytes + block.members.nbytes <= 300
    assert blocks[-1].work_done == 1.0
    assert table.table().as_set() == wanted
    # A larger clique gets its own block.
    assert found(engine, graphs.complete(90), execution=Execution(block_bytes=64)) == {tuple(range(90))}


@every_engine
def test_a_limit_stops_the_search(engine: str) -> None:
    graph, wanted = graphs.turan([3] * 6)
    sink = CliqueTableSink()
    facts = enumerate_cliques_into(sink, graph, execution=Execution(max_cliques=100), engine=engine)
    assert (facts.n_found, facts.truncated) == (100, "stopped at max_cliques = 100")
    assert len(sink.table()) == 100
    assert sink.table().as_set() < wanted


@every_engine
def test_cliques_one_by_one_and_closed(engine: str) -> None:
    graph, wanted = graphs.turan([3] * 8)
    assert {tuple(clique) for clique in find_cliques(graph, engine=engine)} == wanted
    cliques = find_cliques(graph, engine=engine)
    first = next(cliques)
    assert tuple(first) in wanted
    assert all(type(vertex) is int for vertex in first)
    cliques.close()
    assert list(cliques) == []


def test_invalid_queries_one_by_one_are_refused_at_once() -> None:
    with pytest.raises(InvalidArgument, match="containing holds 3: the ids run from 0 to 2"):
        find_cliques(([0, 1], [1, 2]), containing=(3,), engine="reference")
    with pytest.raises(InvalidArgument, match="engine is 'other' for problem 'cliques'"):
        find_cliques(([0, 1], [1, 2]), engine="other")


@every_engine
def test_arrays_in_and_out(engine: str) -> None:
    edges = np.array([0, 0, 1, 2, 4]), np.array([1, 2, 2, 3, 4])
    table = enumerate_maximal_cliques(edges, engine=engine, threads=1)
    assert table.as_set() == {(0, 1, 2), (2, 3), (4,)}
    assert table.sizes.tolist() == [table[k].size for k in range(len(table))]
    assert count_maximal_cliques(edges, engine=engine) == 3
    assert count_maximal_cliques(edges, min_size=2, max_size=2, engine=engine) == 1
    with pytest.raises(IndexError, match="clique 3 of 3"):
        table[3]


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"min_size": 0}, "min_size is 0: expected 1 or more"),
        ({"max_size": 2**62}, "expected 1 or more, and less than"),
        ({"min_size": 4, "max_size": 3}, "max_size is 3, below min_size = 4: no clique can match"),
        ({"max_size": 1, "containing": (2, 5)}, "max_size is 1, and containing holds 2 vertices"),
    ],
)
def test_queries_that_match_nothing_are_refused(asked: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        CliqueQuery(**asked)


def test_the_first_cliques_of_a_block() -> None:
    block = CliqueBlock(3, np.array([2, 1, 3], np.int32), np.array([0, 4, 2, 1, 2, 3], np.int32), 0.5)
    first = block.first(2)
    assert first.sizes is not None
    assert first.members is not None
    assert (len(first), first.sizes.tolist(), first.members.tolist(), first.work_done) == (2, [2, 1], [0, 4, 2], 0.5)
    assert block.first(3) is block
    assert CliqueBlock(7).first(4).n_cliques == 4
    with pytest.raises(TypeError, match="only counts its cliques"):
        CliqueBlock(7).offsets  # noqa: B018 - refused


def test_a_fingerprint_depends_on_the_set_of_cliques() -> None:
    def of(*blocks: list[list[int]]) -> tuple[int, int]:
        return fingerprint(
            CliqueBlock(len(one), np.array(list(map(len, one)), np.int32), np.array(list(chain(*one)), np.int32))
            for one in blocks
        )

    cliques = [[0], [1, 4], [2, 3, 5], [0, 7]]
    wanted = of(cliques)
    assert wanted == of(cliques[:2], [], cliques[:1:-1]) == of(*([one] for one in reversed(cliques)))
    for others in ([[0], [1, 4], [2, 3, 5], [0, 6]], [[0], [1], [4, 2, 3, 5], [0, 7]], cliques[:3], [*cliques, [0, 7]]):
        assert of(others) != wanted


def test_sinks_merge_others_results() -> None:
    blocks = [CliqueBlock(1, np.array([2], np.int32), np.array([v, v + 1], np.int32)) for v in (0, 5)]
    for sink_type, told in (
        (CliqueCountSink, lambda sink: sink.n_cliques == 2),
        (CliqueHistogramSink, lambda sink: sink.counts == {2: 2}),
        (CliqueTableSink, lambda sink: sink.table().as_set() == {(0, 1), (5, 6)}),
    ):
        sinks = [sink_type(), sink_type()]
        for sink, block in zip(sinks, blocks, strict=True):
            sink.accept(block)
        sinks[0].merge(sinks[1])
        assert told(sinks[0])

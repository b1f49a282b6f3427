"""Tasks: disjoint, together complete, exchangeable between engines, and bound to their graph."""

from __future__ import annotations

import importlib
import importlib.util
import itertools
import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mbe_stage import (
    BicliqueQuery,
    BipartiteCSR,
    CountSink,
    Detail,
    Execution,
    HistogramSink,
    InvalidArgument,
    TableSink,
)
from mbe_stage.bicliques import engine_cpu, engine_cuda, reference
from mbe_stage.tasks import Roots, Task, cut, positions, ranges_of, split
from tests.mbe_stage import graphs
from tests.mbe_stage.engines import every_engine, module_of
from tests.mbe_stage.processes import run_module

TWO = Execution(threads=2)


def found(engine, graph: BipartiteCSR, query: BicliqueQuery, tasks: list[Task] | None) -> set:
    sink = TableSink()
    n_counted = 0
    for block in engine.run(graph, query, TWO, Detail.MEMBERS, tasks):
        sink.accept(block)
    for block in engine.run(graph, query, TWO, Detail.COUNT, tasks):
        n_counted += block.n_bicliques
    pairs = sink.table().as_set()
    assert len(pairs) == len(sink.table()) == n_counted
    return pairs


@every_engine
@given(matrix=graphs.matrices(), data=st.data())
@settings(max_examples=150, deadline=None)
def test_disjoint_tasks_equal_the_whole(engine: str, matrix: np.ndarray, data: st.DataObject) -> None:
    module, graph = module_of(engine), graphs.from_matrix(matrix)
    sizes = st.integers(1, 3)
    query = BicliqueQuery(
        min_left=data.draw(sizes),
        min_right=data.draw(sizes),
        min_edges=data.draw(st.integers(1, 6)),
        containing_left=tuple(data.draw(st.lists(st.integers(0, graph.n_left - 1), max_size=1))),
        containing_right=tuple(data.draw(st.lists(st.integers(0, graph.n_right - 1), max_size=1))),
    )
    tasks = module.tasks_of(graph, query, data.draw(st.integers(1, 8)))
    hands = data.draw(st.lists(st.integers(0, 2), min_size=len(tasks), max_size=len(tasks)))
    # Other processes get text.
    sent = [Task.from_json(task.to_json()) for task in tasks]
    parts = [
        found(module, graph, query, [task for task, to in zip(sent, hands, strict=True) if to == hand])
        for hand in range(3)
    ]
    assert sum(map(len, parts)) == len(set().union(*parts))
    assert set().union(*parts) == found(module, graph, query, None) == found(reference, graph, query, None)


@every_engine
@given(matrix=graphs.matrices(), n=st.integers(1, 6))
@settings(max_examples=40, deadline=None)
def test_sinks_of_disjoint_pieces_merge_into_that_of_the_whole(engine: str, matrix: np.ndarray, n: int) -> None:
    module, graph, query = module_of(engine), graphs.from_matrix(matrix), BicliqueQuery()
    tasks = module.tasks_of(graph, query, n)

    def sinks(of: list[Task] | None) -> tuple[CountSink, HistogramSink, TableSink]:
        made = CountSink(), HistogramSink(), TableSink()
        for sink in made:
            for block in module.run(graph, query, TWO, sink.detail, of):
                sink.accept(block)
        return made

    merged = sinks(tasks[::2])
    for sink, other in zip(merged, sinks(tasks[1::2]), strict=True):
        sink.merge(other)
    count, histogram, table = sinks(None)
    assert merged[0].n_bicliques == count.n_bicliques == len(merged[2].table())
    assert merged[1].counts == histogram.counts
    assert merged[2].table().as_set() == table.table().as_set()


@pytest.mark.skipif(importlib.util.find_spec("greenlet") is None, reason="greenlet, of the group dev, is missing")
@pytest.mark.parametrize("part", ["some", pytest.param("others", marks=pytest.mark.slow)])
def test_the_gpu_runs_tasks_cut_by_the_cpu(part: str) -> None:
    cases = [json.loads(line) for line in run_module("emulated_tasks", part).splitlines()]
    assert len(cases) == {"some": 4, "others": 7}[part]
    for case in cases:
        assert case["same"], case
        assert case["counted"] == case["wanted"], case
    assert max(case["parts"] for case in cases) > 2


def test_the_gpu_cuts_the_same_tasks() -> None:
    graph = graphs.from_matrix(graphs.random_matrix(1, 30, 20, 0.3))
    assert engine_cuda.tasks_of(graph, BicliqueQuery(), 4) == engine_cpu.tasks_of(graph, BicliqueQuery(), 4)


@every_engine
def test_a_graph_without_edges_has_no_tasks(engine: str) -> None:
    module = module_of(engine)
    graph = BipartiteCSR.from_edges([], [], 3, 0)
    assert module.tasks_of(graph, BicliqueQuery(), 4) == []
    assert found(module, graph, BicliqueQuery(), []) == set()


def rewired_matrix(matrix: np.ndarray) -> np.ndarray:
    """Return another matrix with the same row and column sums."""
    for u, x in itertools.combinations(range(matrix.shape[0]), 2):
        only_u, only_x = np.flatnonzero(matrix[u] & ~matrix[x]), np.flatnonzero(matrix[x] & ~matrix[u])
        if only_u.size and only_x.size:
            changed = matrix.copy()
            changed[np.ix_([u, x], [only_u[0], only_x[0]])] ^= True
            return changed
    raise AssertionError("no two edges can be swapped")


@every_engine
def test_tasks_of_other_work_are_refused(engine: str) -> None:
    module = module_of(engine)
    graph = graphs.from_matrix(graphs.random_matrix(2, 12, 12, 0.5))
    matrix = graphs.random_matrix(2, 12, 12, 0.5)
    matrix[0, 0] = not matrix[0, 0]
    # The same number of edges and the same degrees: two edges are swapped.
    rewired = graphs.from_matrix(rewired_matrix(graphs.random_matrix(2, 12, 12, 0.5)))
    assert np.array_equal(rewired.left_degrees, graph.left_degrees)
    assert np.array_equal(rewired.right_degrees, graph.right_degrees)
    others = [
        (graphs.from_matrix(matrix), BicliqueQuery()),
        (rewired, BicliqueQuery()),
        (graph.swapped(), BicliqueQuery()),
        (graph, BicliqueQuery(min_left=2)),
        (graph, BicliqueQuery(containing_right=(3,))),
    ]
    tasks = module.tasks_of(graph, BicliqueQuery(), 3)
    for other, query in others:
        with pytest.raises(InvalidArgument, match="expected tasks of the same problem, graph and query"):
            list(module.run(other, query, TWO, Detail.COUNT, tasks))
    with pytest.raises(InvalidArgument, match="expected disjoint ones"):
        list(module.run(graph, BicliqueQuery(), TWO, Detail.COUNT, [tasks[0], tasks[0]]))
    beyond = replace(tasks[-1], end=tasks[-1].end + 1)
    with pytest.raises(InvalidArgument, match="expected a range below"):
        list(module.run(graph, BicliqueQuery(), TWO, Detail.COUNT, [beyond]))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"version": 1}',
        '{"version": 1, "roots": {}, "first": 0, "end": 1, "cost": 1.0}',
        Task(Roots("bicliques", 3, 4), 0, 2, 1.5).to_json().replace('"first": 0', '"first": null'),
        Task(Roots("bicliques", 3, 4), 0, 2, 1.5).to_json().replace('"end": 2', '"end": 2.5'),
        Task(Roots("bicliques", 3, 4), 0, 2, 1.5).to_json().replace('"cost": 1.5', '"cost": "much"'),
    ],
)
def test_invalid_task_text_is_refused(text: str) -> None:
    with pytest.raises(InvalidArgument, match="is no task"):
        Task.from_json(text)


def test_a_task_of_another_version_is_refused() -> None:
    text = Task(Roots("bicliques", 3, 4), 0, 2, 1.5).to_json()
    with pytest.raises(InvalidArgument, match="of version 7: expected 1; let the same version"):
        Task.from_json(text.replace('"version": 1', '"version": 7'))


@given(st.lists(st.floats(0.1, 100.0), max_size=40), st.integers(1, 12))
def test_tasks_cover_all_roots(costs: list[float], n: int) -> None:
    ranges = split(np.array(costs), n)
    assert len(ranges) <= n
    assert positions(ranges).tolist() == list(range(len(costs)))
    roots = Roots("bicliques", len(costs), 0)
    tasks = cut(roots, np.array(costs), n)
    assert sum(task.cost for task in tasks) == pytest.approx(sum(costs))
    assert positions(ranges_of(tasks[::-1], roots)).tolist() == list(range(len(costs)))
    if costs:
        # No range exceeds its share by more than one root.
        assert max(task.cost for task in tasks) <= sum(costs) / min(n, len(costs)) + max(costs) + 1e-9


def test_fewer_than_one_task_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="n is 0: expected 1 task or more"):
        engine_cpu.tasks_of(graphs.crown(4), BicliqueQuery(), 0)


def test_equal_queries_have_equal_roots() -> None:
    graph = graphs.crown(6)
    asked = BicliqueQuery(min_left=2, containing_left=(1, 4))
    again = BicliqueQuery(min_left=np.int64(2), containing_left=(np.int32(4), 1, 4))
    assert engine_cpu.tasks_of(graph, asked, 3) == engine_cpu.tasks_of(graph, again, 3)

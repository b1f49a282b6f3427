"""Problems as plugins: one from outside the stage runs through it, found by its entry point."""

from __future__ import annotations

import importlib.util
import json
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mbe_stage import BipartiteCSR, Execution, InvalidArgument, MemoryBudgetExceeded
from mbe_stage import engines as registry
from mbe_stage.problem import PROBLEMS, problem_named, problem_names
from mbe_stage.stream import Progress, stream
from mbe_stage.tasks import Task
from tests.mbe_stage import graphs
from tests.mbe_stage.processes import run_module
from tests.patience import completed
from tests.toys.butterflies import engine_cpu, reference
from tests.toys.butterflies.problem import PROBLEM, EdgeQuery
from tests.toys.butterflies.results import EdgeSink

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.usefixtures("installed")


def found(graph: BipartiteCSR, query: EdgeQuery, engine: str, tasks: list[Task] | None = None) -> dict:
    sink = EdgeSink()
    facts = stream(PROBLEM, sink, graph, query, Execution(), engine, tasks=tasks)
    assert facts.n_found == len(sink.found)
    return sink.found


def wanted(graph: BipartiteCSR, query: EdgeQuery) -> dict:
    return {edge: n for edge, n in reference.butterflies(graph).items() if n >= query.min_butterflies}


def test_it_is_found_by_its_entry_point(installed: Path) -> None:
    assert problem_names() == (*PROBLEMS, "butterflies")
    assert problem_named("butterflies") is PROBLEM
    code = "from mbe_stage.problem import problem_named; print(problem_named('butterflies').name)"
    done = completed([sys.executable, "-c", code], env={"PYTHONPATH": f"{installed}:{ROOT}"}, check=True)
    assert done.stdout == "butterflies\n"


def test_an_unknown_problem_is_refused() -> None:
    known = ", ".join((*PROBLEMS, "butterflies"))
    with pytest.raises(InvalidArgument, match=f"problem is 'paths': expected one of {known}"):
        registry.choose_engine("paths")


@settings(max_examples=100, deadline=None)
@given(matrix=graphs.matrices(max_left=7, max_right=7), fewest=st.integers(0, 1), data=st.data())
def test_engines_and_pieces_equal_the_specification(matrix: np.ndarray, fewest: int, data: st.DataObject) -> None:
    graph, query = graphs.from_matrix(matrix), EdgeQuery(fewest)
    for name in ("reference", "cpu"):
        assert found(graph, query, name) == wanted(graph, query)
        tasks = registry.get_engine("butterflies", name).tasks_of(graph, query, data.draw(st.integers(1, 5)))
        parts = [found(graph, query, name, tasks[start::2]) for start in (0, 1)]
        assert not parts[0].keys() & parts[1].keys()
        assert parts[0] | parts[1] == wanted(graph, query)


def test_a_closed_form() -> None:
    assert set(found(graphs.complete(5, 4), EdgeQuery(), "cpu").values()) == {4 * 3}


@pytest.mark.skipif(importlib.util.find_spec("greenlet") is None, reason="greenlet, of the group dev, is missing")
def test_the_cuda_engine_equals_the_specification() -> None:
    module = "tests.toys.butterflies.emulated"
    cases = [json.loads(line) for line in run_module(module).splitlines()]
    assert len(cases) == 4
    assert all(case["same"] for case in cases), cases


@pytest.mark.gpu
def test_the_cuda_engine_on_a_gpu() -> None:
    for seed in range(20):
        graph = graphs.from_matrix(graphs.random_matrix(seed, 30 + seed, 25, 0.3))
        assert found(graph, EdgeQuery(), "cuda") == found(graph, EdgeQuery(), "cpu")


def test_a_query_that_does_not_fit_the_graph_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="min_butterflies is 99: expected 0 to 9"):
        found(graphs.crown(3), EdgeQuery(99), "cpu")


class TooSmall:
    """CUDA engine stand-in."""

    @staticmethod
    def unavailable_reason() -> None:
        """Always available."""

    @staticmethod
    def compile_steps(_query: object, _detail: object) -> tuple[()]:
        return ()

    @staticmethod
    def run(*_: object) -> Iterator[None]:
        raise MemoryBudgetExceeded("too small a GPU")
        yield


def test_another_engine_takes_over_and_progress_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    load = registry._load
    monkeypatch.setattr(registry, "_load", lambda problem, name: TooSmall if name == "cuda" else load(problem, name))
    graph = graphs.from_matrix(graphs.random_matrix(1, 40, 20, 0.3))
    sink, told = EdgeSink(), list[Progress]()
    facts = stream(PROBLEM, sink, graph, EdgeQuery(), Execution(), on_progress=told.append)
    assert (facts.engine, facts.device) == ("cpu", engine_cpu.device(Execution()))
    assert "What cuda said, of its budget of device memory: too small a GPU" in facts.warnings[0]
    assert sink.found == reference.butterflies(graph)
    assert told[-1].n_found == graph.n_edges
    assert told[-1].work_done == 1.0


def test_a_time_limit_ends_it() -> None:
    execution = Execution(time_limit_seconds=1e-9)
    sink = EdgeSink()
    graph = graphs.from_matrix(graphs.random_matrix(1, 40, 20, 0.3))
    facts = stream(PROBLEM, sink, graph, EdgeQuery(), execution, "cpu")
    assert facts.truncated == "stopped at time_limit_seconds = 1e-09"
    assert 0 < len(sink.found) < graph.n_edges


def test_the_reported_time_limit_may_be_that_of_a_whole_run() -> None:
    execution = Execution(time_limit_seconds=1e-9, stated_seconds=60)
    graph = graphs.from_matrix(graphs.random_matrix(1, 40, 20, 0.3))
    facts = stream(PROBLEM, EdgeSink(), graph, EdgeQuery(), execution, "cpu")
    assert facts.truncated == "stopped at time_limit_seconds = 60"

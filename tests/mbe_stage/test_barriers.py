"""Barriers: the results before one and the remaining work are complete and disjoint."""

from __future__ import annotations

import importlib.util
import itertools
import json
import logging
import random
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mbe_stage import BicliqueBlock, BicliqueQuery, Detail, Execution, TableSink
from mbe_stage import run_limits as course_module
from mbe_stage.bicliques import engine_cpu, reference
from mbe_stage.bicliques.problem import PROBLEM
from mbe_stage.cliques import engine_cpu as cliques_cpu
from mbe_stage.cliques.query import CliqueQuery
from mbe_stage.cliques.reference import maximal_cliques
from mbe_stage.cliques.results import CliqueTableSink
from mbe_stage.cliques.results import Detail as CliqueDetail
from mbe_stage.run_limits import Checkpoints, LimitWatch, RunLimits
from mbe_stage.search.cpu import pool, quanta
from mbe_stage.search.cpu.pool import Barrier
from mbe_stage.search.cuda import barriers
from mbe_stage.search.cuda.barriers import begun_all_the_same, ranges_from, with_barriers
from mbe_stage.stream import NOTHING_KEPT, stream
from mbe_stage.tasks import Task
from tests.mbe_stage import graphs
from tests.mbe_stage.cliques import undirected_graphs
from tests.mbe_stage.processes import run_module

QUERY = BicliqueQuery()


@pytest.fixture(autouse=True, scope="module")
def small_quanta() -> Iterator[None]:
    """Make a quantum a few steps, so that barriers split subtrees."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(quanta, "_FIRST_WORK_LIMIT", 8)
        patch.setattr(pool, "_ALONE_SECONDS", 0.0)
        patch.setattr(quanta, "_REPORT_SECONDS", 0.0)
        # Quanta do not grow.
        patch.setattr(quanta, "_QUANTUM_SECONDS", 0.0)
        yield


@dataclass(frozen=True)
class Searching:
    engine: Any
    query: Any
    detail: Any
    sink: Any
    graph_of: Any
    specified: Any


OF_BICLIQUES = Searching(engine_cpu, QUERY, Detail.MEMBERS, TableSink, graphs.from_matrix, reference.maximal_bicliques)
OF_CLIQUES = Searching(
    cliques_cpu,
    CliqueQuery(),
    CliqueDetail.MEMBERS,
    CliqueTableSink,
    undirected_graphs.from_matrix,
    maximal_cliques,
)


def searched(of: Searching, graph: Any, tasks: tuple[Task, ...] | None = None) -> set:
    sink = of.sink()
    for block in of.engine.run(graph, of.query, Execution(threads=2), of.detail, tasks):
        sink.accept(block)
    assert len(sink.table()) == len(sink.table().as_set())
    return sink.table().as_set()


def markers_of(of: Searching, graph: Any, threads: int, seed: int) -> list[tuple[set, tuple[Task, ...]]]:
    """Return the results before each random barrier, the remaining tasks, and finally all."""
    dice, barrier, sink, markers = random.Random(seed), Barrier(), of.sink(), []
    barrier.ask()
    execution = Execution(threads=threads, block_bytes=400)
    for block in of.engine.run(graph, of.query, execution, of.detail, barrier=barrier):
        sink.accept(block)
        if block.remaining is not None:
            assert len(block) == 0
            markers.append((sink.table().as_set(), block.remaining))
        elif dice.random() < 0.3:
            barrier.ask()
    found = sink.table().as_set()
    assert len(found) == len(sink.table()), "something came twice"
    return [*markers, (found, ())]


def check(of: Searching, graph: Any, threads: int, seed: int) -> int:
    everything = searched(of, graph)
    markers = markers_of(of, graph, threads, seed)
    assert markers[-1][0] == everything
    for before, remaining in random.Random(seed).sample(markers, min(3, len(markers))):
        rest = searched(of, graph, remaining)
        assert not before & rest
        assert before | rest == everything
    return len(markers)


@given(matrix=graphs.matrices(), threads=st.integers(1, 4), seed=st.integers(0, 99))
@settings(max_examples=100, deadline=None)
def test_results_around_barriers_are_complete(matrix: np.ndarray, threads: int, seed: int) -> None:
    graph = graphs.from_matrix(matrix)
    assert searched(OF_BICLIQUES, graph) == reference.maximal_bicliques(graph)
    check(OF_BICLIQUES, graph, threads, seed)


@given(matrix=undirected_graphs.matrices(14), threads=st.integers(1, 4), seed=st.integers(0, 99))
@settings(max_examples=40, deadline=None)
def test_cliques_around_barriers_are_complete(matrix: np.ndarray, threads: int, seed: int) -> None:
    graph = undirected_graphs.from_matrix(matrix)
    assert searched(OF_CLIQUES, graph) == maximal_cliques(graph)
    check(OF_CLIQUES, graph, threads, seed)


@pytest.mark.parametrize("threads", [*(pytest.param(n, marks=pytest.mark.slow) for n in (1, 4)), 2])
def test_in_the_middle_of_large_subtrees(threads: int) -> None:
    crown = graphs.from_matrix(~np.eye(11, dtype=bool))
    dense = graphs.from_matrix(graphs.random_matrix(3, 40, 25, 0.5))
    assert sum(check(OF_BICLIQUES, graph, threads, seed) for graph in (crown, dense) for seed in range(2)) > 8


@pytest.mark.parametrize("threads", [*(pytest.param(n, marks=pytest.mark.slow) for n in (1, 2)), 4])
def test_in_the_middle_of_large_subtrees_of_cliques(threads: int) -> None:
    rng = np.random.default_rng(threads)
    # Nodes of few candidates, and nodes whose rows take several words.
    turan, _ = undirected_graphs.turan([3] * 7)
    many = (turan, undirected_graphs.random_graph(rng, 60, 0.6), undirected_graphs.nearly_complete(rng, 80, 40, 10))
    assert sum(check(OF_CLIQUES, graph, threads, seed) for graph in many for seed in range(2)) > 8


@pytest.mark.skipif(importlib.util.find_spec("greenlet") is None, reason="greenlet, of the group dev, is missing")
@pytest.mark.parametrize("which", ["few", pytest.param("many", marks=pytest.mark.slow)])
def test_the_kernels_in_lockstep_lanes_reach_barriers(which: str) -> None:
    cases = [json.loads(line) for line in run_module("emulated_barriers", which).splitlines()]
    assert len(cases) >= 2
    for case in cases:
        assert case["same"], case
    assert sum(case["markers"] for case in cases) > 6


@given(
    rows=st.sets(st.integers(0, 40), min_size=1).map(sorted),
    costs=st.lists(st.integers(1, 9), min_size=41, max_size=41),
    most=st.integers(1, 6),
    seed=st.integers(0, 9),
)
def test_held_back_roots_are_few_ranges(rows: list[int], costs: list[int], most: int, seed: int) -> None:
    shuffled = np.array(random.Random(seed).sample(rows, len(rows)))
    is_begun = begun_all_the_same(shuffled, np.array(costs)[shuffled], most)
    ranges, kept = ranges_from(shuffled), ranges_from(shuffled[~is_begun])
    assert [row for first, end in ranges for row in range(first, end)] == rows
    assert all(before[1] < after[0] for before, after in itertools.pairwise(ranges))
    # Whole ranges, as many as allowed, and the most expensive of them.
    assert set(kept) <= set(ranges)
    assert len(kept) == min(most, len(ranges))
    sums = [sum(costs[first:end]) for first, end in ranges]
    assert sorted(sum(costs[first:end]) for first, end in kept) == sorted(sums)[len(sums) - len(kept) :]


class Noting(TableSink):
    def __init__(self) -> None:
        super().__init__()
        self.checkpoints: list[tuple[int, tuple[Task, ...], float]] = []

    def accept(self, block: BicliqueBlock) -> None:
        super().accept(block)
        time.sleep(0.0005)

    def checkpoint(self, remaining: tuple[Task, ...], work_done: float) -> None:
        self.checkpoints.append((len(self.table()), remaining, work_done))


GRAPH = graphs.from_matrix(~np.eye(11, dtype=bool))
EXECUTION = Execution(threads=2, block_bytes=4000)


def test_the_stream_requests_checkpoints_regularly() -> None:
    sink = Noting()
    stream(PROBLEM, sink, GRAPH, QUERY, EXECUTION, "cpu", run_limits=RunLimits(checkpoint_seconds=0.001))
    assert sink.checkpoints
    assert len(sink.table()) == 2**11 - 2
    numbers = [n for n, _, _ in sink.checkpoints]
    assert numbers == sorted(numbers)
    n_found, remaining, work_done = sink.checkpoints[-1]
    rest = TableSink()
    stream(PROBLEM, rest, GRAPH, QUERY, EXECUTION, "cpu", tasks=remaining)
    assert n_found + len(rest.table()) == 2**11 - 2
    assert 0 <= work_done <= 1


@pytest.mark.parametrize(
    ("engine", "execution", "seconds"),
    [
        ("reference", EXECUTION, 0.001),
        ("cpu", EXECUTION, None),
        ("cpu", EXECUTION, 1e9),
    ],
)
def test_engines_and_settings_without_checkpoints(engine: str, execution: Execution, seconds: float | None) -> None:
    sink = Noting()
    stream(PROBLEM, sink, GRAPH, QUERY, execution, engine, run_limits=RunLimits(checkpoint_seconds=seconds))
    assert sink.checkpoints == []
    assert len(sink.table()) == 2**11 - 2


def test_a_sink_without_checkpoints_gets_none() -> None:
    sink = TableSink()
    stream(PROBLEM, sink, GRAPH, QUERY, EXECUTION, "cpu", run_limits=RunLimits(checkpoint_seconds=0.001))
    assert len(sink.table()) == 2**11 - 2


def test_a_time_limit_ends_at_a_barrier() -> None:
    sink = Noting()
    # Compiled code is loaded before, because the limit must end a running search.
    stream(PROBLEM, TableSink(), GRAPH, QUERY, EXECUTION, "cpu")
    execution = Execution(threads=2, block_bytes=4000, time_limit_seconds=0.02)
    facts = stream(PROBLEM, sink, GRAPH, QUERY, execution, "cpu", run_limits=RunLimits(checkpoint_seconds=1e6))
    assert facts.truncated == "stopped at time_limit_seconds = 0.02"
    n_found, remaining, _ = sink.checkpoints[-1]
    assert n_found == facts.n_found == len(sink.table())
    rest = TableSink()
    stream(PROBLEM, rest, GRAPH, QUERY, EXECUTION, "cpu", tasks=remaining)
    assert len(rest.table()) + n_found == 2**11 - 2


def test_there_is_a_checkpoint_near_a_result_limit() -> None:
    graph = graphs.from_matrix(graphs.random_matrix(3, 40, 25, 0.5))
    n = len(searched(OF_BICLIQUES, graph))
    sink, n_before = Noting(), 10 * n
    most = n_before + int(0.85 * n)
    # Earlier results count.
    run_limits = RunLimits(checkpoint_seconds=1e6, n_before=n_before)
    execution = Execution(threads=2, block_bytes=400, max_bicliques=most)
    facts = stream(PROBLEM, sink, graph, QUERY, execution, "cpu", run_limits=run_limits)
    assert facts.truncated == f"stopped at max_bicliques = {most}"
    assert facts.n_found == int(0.85 * n)
    assert sink.checkpoints


def test_there_are_several_checkpoints_before_a_result_limit() -> None:
    """The started roots may take longer than the remaining results, so the first is requested early."""
    run_limits = RunLimits(n_before=1000)
    limits = LimitWatch(PROBLEM, run_limits, 5000, None)
    # The caller's counts have the same shares.
    used = iter((0.2, 0.6, 1.1))
    of_caller = LimitWatch(PROBLEM, RunLimits(share=lambda: next(used)), None, None)
    assert [of_caller.n_shares(0, 9.0) for _ in range(3)] == [0, 2, 4]
    assert [limits.n_shares(n, 9.0) for n in (0, 999, 1000, 2000, 3000, 3599, 3600, 4000)] == [0, 0, 1, 2, 3, 3, 4, 4]
    # One is also requested shortly before a time limit.
    of_time = LimitWatch(PROBLEM, RunLimits(), None, 10.0)
    assert [of_time.n_shares(0, seconds) for seconds in (0.0, 8.9, 9.0, 9.9)] == [0, 0, 1, 1]
    checkpoints = Checkpoints(Noting(), 1e6)
    barrier = checkpoints.barrier_for(engine_cpu)
    asked = []
    for n_found in (0, 1000, 1500, 2000, 2500):
        checkpoints.note(BicliqueBlock.empty(Detail.MEMBERS, 0.5), 1.0, partial(limits.n_shares, n_found, 1.0))
        asked.append(barrier.is_requested)
        barrier.reached()
    assert asked == [False, True, False, True, False]


@pytest.mark.parametrize(
    ("run_limits", "is_told"),
    [
        (RunLimits(checkpoint_seconds=1e6), True),
        (RunLimits(checkpoint_seconds=1e6, n_before=5), False),
        (RunLimits(), False),
        (RunLimits(checkpoint_seconds=1e-6, ended=lambda: None), False),
    ],
    ids=["none came", "earlier ones have", "none was to come", "one came"],
)
def test_a_limit_reports_that_there_was_no_checkpoint(run_limits, is_told, caplog, monkeypatch) -> None:
    monkeypatch.setattr(course_module, "_TIMES_ITS_COST", 0.0)
    caplog.set_level(logging.INFO)
    most = run_limits.n_before + (1500 if run_limits.checkpoint_seconds == 1e-6 else 1)
    execution = Execution(threads=1, block_bytes=400, max_bicliques=most)
    facts = stream(PROBLEM, Noting(), GRAPH, QUERY, execution, "cpu", run_limits=run_limits)
    assert facts.truncated is not None
    assert (NOTHING_KEPT in caplog.messages) == is_told


def test_a_caller_can_end_a_search() -> None:
    sink = TableSink()
    run_limits = RunLimits(ended=lambda: "enough" if len(sink.table()) > 700 else None)
    facts = stream(PROBLEM, sink, GRAPH, QUERY, EXECUTION, "cpu", run_limits=run_limits)
    assert facts.truncated == "enough"
    assert 700 < facts.n_found == len(sink.table()) < 2**11 - 2


class Clock:
    """A clock that tests advance."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 0.0
        monkeypatch.setattr(barriers, "perf_counter", lambda: self.now)


class Counting:
    """A search whose quanta start and finish some roots each; a marker says what is left."""

    def __init__(self, n: int, at_once: int, clock: Clock, seconds: float = 0.0) -> None:
        self.order, self.ahead, self.restarts = list(range(n)), list(range(n)), 0
        self._at_once, self._seconds, self.clock = at_once, seconds, clock

    def quanta(self) -> Iterator[tuple[str, list[int]]]:
        while self.ahead:
            found, self.ahead = self.ahead[: self._at_once], self.ahead[self._at_once :]
            self.clock.now += self._seconds
            yield "found", found

    def roots_ahead(self) -> tuple[np.ndarray, np.ndarray] | None:
        return (np.array(self.ahead), np.ones(len(self.ahead))) if self.ahead else None

    def replace_roots(self, roots: np.ndarray) -> None:
        self.ahead = roots.tolist()

    def marker(self, roots: np.ndarray) -> tuple[str, list[int]]:
        return "marker", roots.tolist()

    def restart(self, roots: np.ndarray) -> None:
        assert not self.ahead
        self.ahead, self.restarts = roots.tolist(), self.restarts + 1


def taken(search: Counting, barrier: Barrier | None, seconds: float, *, in_parts: bool = True) -> list[list[int]]:
    """Return the results if taking each costs this many seconds; a barrier comes first and leaves the rest."""
    found: list[list[int]] = []
    if barrier is not None:
        barrier.ask()
    left: list[int] | None = None
    for kind, roots in with_barriers(search, barrier, in_parts=in_parts):
        if kind == "marker":
            assert left is None
            left = roots
            assert sorted(itertools.chain(*found, left)) == search.order
        else:
            found.append(roots)
            search.clock.now += seconds * len(roots)
    assert sorted(itertools.chain(*found)) == search.order
    assert (left is not None) == (barrier is not None)
    return found


def test_slowly_consumed_results_come_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """A device that starts all roots at once still has barriers if the caller waits for them."""
    search = Counting(1600, 5000, Clock(monkeypatch))
    found = taken(search, Barrier(), 0.025)
    assert len(found[0]) == 100, "a sixteenth first"
    assert min(found[0]) < 16, "from everywhere"
    assert max(found[0]) > 1584
    # Parts that take the wanted time keep their size, or nearly.
    assert all(95 <= len(part) <= 105 for part in found[1:-1])
    slower = taken(Counting(1600, 5000, Clock(monkeypatch)), Barrier(), 0.25)
    assert 24 <= len(slower[1]) <= 27, "a quarter of the part that took ten times too long"
    faster = taken(Counting(1600, 5000, Clock(monkeypatch)), Barrier(), 0.005)
    assert 390 <= len(faster[1]) <= 410, "four times the part that took a fifth of its time"


def test_quickly_consumed_results_come_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """There are no parts in short searches either, or the search would dominate."""
    short = taken(Counting(1600, 5000, Clock(monkeypatch)), Barrier(), 0.001)
    assert [len(each) for each in short] == [100, 1500]
    search = Counting(1600, 50, Clock(monkeypatch), seconds=2.0)
    taken(search, Barrier(), 0.05)
    assert search.restarts == 1
    # The first quantum's start is excluded, because code is loaded then.
    loading = Counting(1600, 5000, Clock(monkeypatch), seconds=2.0)
    assert len(taken(loading, Barrier(), 0.025)[1]) < 1500


@pytest.mark.parametrize("in_parts", [True, False])
def test_few_roots_start_together(in_parts: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    search = Counting(500 if in_parts else 1600, 400, clock)
    assert len(taken(search, Barrier(), 0.1, in_parts=in_parts)[0]) == 400
    assert taken(Counting(1600, 5000, clock), None, 0.1) == [list(range(1600))]

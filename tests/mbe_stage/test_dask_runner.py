"""A Dask cluster finds the same as this process, within limits and in parts.

Killed, hanging and late workers: `tests/pipeline/test_cluster_faults.py`.
"""

from __future__ import annotations

import functools
import pickle
import queue
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from mbe_stage import (
    BipartiteCSR,
    CliqueQuery,
    CliqueTableSink,
    CountSink,
    Execution,
    HistogramSink,
    InvalidArgument,
    MemoryBudgetExceeded,
    TableSink,
    UndirectedCSR,
    enumerate_cliques_into,
    enumerate_into,
)
from mbe_stage.bicliques import engine_cpu, reduction
from mbe_stage.bicliques.problem import PROBLEM
from mbe_stage.bicliques.query import BicliqueQuery
from mbe_stage.engines import get_engine
from mbe_stage.errors import ClusterLost, EngineUnavailable
from mbe_stage.pq_counts.count import count_pq_into
from mbe_stage.pq_counts.query import PqQuery
from mbe_stage.pq_counts.results import Detail, PqSink
from mbe_stage.run_limits import EmptyBlock, RunLimits
from mbe_stage.runners import dask_runner, lease_work
from mbe_stage.runners.clusters import dask_cluster
from mbe_stage.runners.dask_runner import DaskRunner
from mbe_stage.runners.fetching import Fetched, Fetching
from mbe_stage.runners.lease_work import HeldGraph
from mbe_stage.runners.leases import Ledger
from mbe_stage.runtime.compile_ahead import compile_ahead
from mbe_stage.stream import stream
from tests.mbe_stage import graphs
from tests.patience import PATIENCE

dask = pytest.importorskip("dask", reason="needs Dask: pip install 'mbe-stage[dask]'")
distributed = pytest.importorskip("distributed", reason="needs Dask: pip install 'mbe-stage[dask]'")

from tests.pipeline.forked_workers import workers_are_forked  # noqa: E402 - it needs Dask

# Long enough to lose workers in the middle, with leases of a tenth of a second.
LONG = (120, 600, 0.25)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    with workers_are_forked():
        made = distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address="127.0.0.1:0", silence_logs=50
        )
    with made:
        yield made


@pytest.fixture
def client(cluster: Any) -> Iterator[Any]:
    cluster.scale(2)
    with distributed.Client(cluster) as made:
        made.wait_for_workers(2, timeout=60)
        yield made


@pytest.fixture
def runner(client: Any) -> DaskRunner:
    return DaskRunner(client, shares_machine=True)


def random_graph(n_left: int, n_right: int, density: float, seed: int = 0) -> BipartiteCSR:
    return graphs.from_matrix(graphs.random_matrix(seed, n_left, n_right, density))


def sizes(graph: BipartiteCSR, execution: Execution) -> dict:
    sink = HistogramSink()
    facts = enumerate_into(sink, graph, None, execution, "cpu")
    assert facts.truncated is None
    return dict(sink.counts)


@functools.cache
def sizes_of_long() -> dict:
    """Return the results of the graph that most tests search, without a cluster."""
    return sizes(random_graph(*LONG), Execution())


def members(graph: BipartiteCSR, execution: Execution, engine: str, **asked: Any) -> set:
    sink = TableSink()
    enumerate_into(sink, graph, BicliqueQuery(**asked), execution, engine)
    found = sink.table().as_set()
    assert len(found) == len(sink.table())
    return found


@pytest.mark.parametrize("engine", ["cpu", "reference"])
def test_random_graphs_have_the_same_bicliques(runner: DaskRunner, engine: str) -> None:
    for seed in range(8):
        graph = random_graph(4 + 2 * seed, 20 - seed, 0.4, seed)
        asked = {"min_left": 1 + seed % 3, "min_right": 1 + seed % 2}
        assert members(graph, Execution(runner=runner), engine, **asked) == members(
            graph, Execution(), "reference", **asked
        )


def test_cliques_and_counts_too(runner: DaskRunner) -> None:
    graph = random_graph(40, 40, 0.3)
    undirected = UndirectedCSR.from_edges(*graph.edges(), 40)
    cliques, counts = [], []
    for execution in (Execution(), Execution(runner=runner)):
        sink = CliqueTableSink()
        enumerate_cliques_into(sink, undirected, CliqueQuery(), execution, "cpu")
        cliques.append(sink.table().as_set())
        assert len(cliques[-1]) == len(sink.table()) > 40
        numbers = PqSink(PqQuery(1, 4, 1, 4), Detail.VERTICES)
        count_pq_into(numbers, graph, execution, "cpu")
        local = {cell: each.left.tolist() for cell, each in numbers.local_counts().items()}
        counts.append((numbers.counts(), local))
    assert cliques[0] == cliques[1]
    assert counts[0] == counts[1]


def test_a_long_search_keeps_all_workers_busy(client: Any) -> None:
    graph = random_graph(*LONG)
    runner = DaskRunner(client, shares_machine=True, lease_seconds=0.2)
    assert sizes(graph, Execution(runner=runner)) == sizes_of_long()
    assert len(runner.ranks) == 2
    assert sum(rank.n_found for rank in runner.ranks) == sum(sizes_of_long().values())
    assert all(rank.n_leases > 1 and rank.busy_seconds > 0 for rank in runner.ranks)
    assert runner.device().startswith("2 Dask workers: cpu, ")


class Noting(TableSink):
    def __init__(self) -> None:
        super().__init__()
        self.kept: list[tuple[int, tuple[Any, ...]]] = []

    def checkpoint(self, remaining: tuple[Any, ...], _work_done: float) -> None:
        self.kept.append((len(self.table()), remaining))


@pytest.mark.parametrize(
    "ends_in_time",
    [True, pytest.param(False, marks=pytest.mark.slow)],
    ids=["leases end in time", "leases go on"],
)
def test_a_time_limit_holds_during_leases(client: Any, monkeypatch, ends_in_time: bool) -> None:
    """The leases take half a minute."""
    if not ends_in_time:
        monkeypatch.setattr(dask_runner, "_SHARE_OF_LIMIT", 1e6)
    graph, sink = random_graph(150, 1500, 0.25), Noting()
    runner = DaskRunner(client, shares_machine=True, lease_seconds=30.0)
    # Workers have loaded their code before the time counts.
    sizes(random_graph(8, 9, 0.5), Execution(runner=runner))
    execution = Execution(runner=runner, time_limit_seconds=4.0, block_bytes=1 << 24)
    facts = stream(
        PROBLEM, sink, graph, BicliqueQuery(), execution, "cpu", run_limits=RunLimits(checkpoint_seconds=1e6)
    )
    assert facts.truncated == "stopped at time_limit_seconds = 4"
    assert 4.0 < facts.seconds < 25.0
    if ends_in_time:
        # Results until shortly before have arrived and are kept.
        assert 0 < sink.kept[-1][0] <= facts.n_found
    # No worker is still searching.
    assert sizes(random_graph(8, 9, 0.5), Execution(runner=runner))


def test_tasks_and_their_rest_after_a_barrier(client: Any) -> None:
    graph = random_graph(*LONG)
    tasks = engine_cpu.tasks_of(graph, BicliqueQuery(), 8)
    whole, left = HistogramSink(), HistogramSink()
    stream(PROBLEM, whole, graph, BicliqueQuery(), Execution(), "cpu", tasks=tasks[3:])

    class Stopped(Exception):
        pass

    class Booked(HistogramSink):
        def __init__(self) -> None:
            super().__init__()
            self.remaining: tuple = ()
            self.counted: dict = {}

        def checkpoint(self, remaining: tuple, work_done: float) -> None:
            assert 0 < work_done < 1
            self.remaining, self.counted = remaining, dict(self.counts)
            raise Stopped

    sink, execution = Booked(), Execution(runner=DaskRunner(client, shares_machine=True, lease_seconds=0.05))
    with pytest.raises(Stopped):
        stream(
            PROBLEM,
            sink,
            graph,
            BicliqueQuery(),
            execution,
            "cpu",
            tasks=tasks[3:],
            run_limits=RunLimits(checkpoint_seconds=0.01),
        )
    assert sink.remaining
    stream(PROBLEM, left, graph, BicliqueQuery(), Execution(), "cpu", tasks=sink.remaining)
    both = {size: left.counts.get(size, 0) + sink.counted.get(size, 0) for size in {*left.counts, *sink.counted}}
    assert both == dict(whole.counts)


def test_a_limit_ends_the_search_and_the_workers_are_free(client: Any) -> None:
    graph = random_graph(*LONG)
    runner = DaskRunner(client, shares_machine=True, lease_seconds=0.1)
    sink = CountSink()
    facts = enumerate_into(sink, graph, None, Execution(runner=runner, max_bicliques=1000), "cpu")
    assert sink.n_bicliques == 1000
    assert facts.truncated == "stopped at max_bicliques = 1000"
    assert client.run(lambda: len(lease_work._JOBS)) == dict.fromkeys(client.nthreads(), 0)
    assert not any(client.processing().values())


def test_a_job_beyond_a_worker_s_memory_is_refused(client: Any) -> None:
    execution = Execution(
        runner=DaskRunner(client, shares_machine=True), memory_budget_bytes=1 << 20, block_bytes=1 << 16
    )
    with pytest.raises(MemoryBudgetExceeded, match="budget of 1,048,576; give it more memory"):
        enumerate_into(TableSink(), graphs.crown(16), None, execution, "cpu")


def test_other_versions_are_refused(runner: DaskRunner, monkeypatch: pytest.MonkeyPatch) -> None:
    # In this process only; the workers have the unchanged module.
    monkeypatch.setattr(lease_work, "version", lambda _: "0.1")
    with pytest.raises(EngineUnavailable, match=r"worker tcp://.* has mbe-stage .*, and this process 0\.1: expected"):
        enumerate_into(CountSink(), random_graph(5, 5, 0.5), None, Execution(runner=runner), "cpu")


class Proven:
    """Workers that answer with a certain word may make parts."""

    def proven(self, proofs: dict[str, Any]) -> set[str]:
        return {worker for worker, proof in proofs.items() if proof[0] == "proof"}


def a_run(parts: Any) -> Any:
    search = lease_work.JobFacts("bicliques", "cpu", None, None, parts)
    return dask_runner._Run("job", search, None, Execution(), lease_work.Terms(1.0, 1))


def test_a_worker_that_cannot_start_is_skipped(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    answers = {
        lease_work.software: dict.fromkeys("ab", lease_work.software()),
        lease_work.begin_job: {"a": OSError("disk"), "b": ("proof",)},
        lease_work.keep_graph: dict.fromkeys("ab", True),
    }

    def asked(_self: Any, function: Any, *_given: Any, workers: Any, seconds: float) -> dict[str, Any]:
        assert seconds > 0
        return {worker: answers[function][worker] for worker in workers}

    monkeypatch.setattr(DaskRunner, "asked", asked)
    monkeypatch.setattr(dask_runner.pickle, "dumps", lambda *_, **__: b"")
    run = a_run(Proven())
    assert DaskRunner(None)._begins(["a", "b"], run) == ["b"]
    assert run.proofs == {"b": ("proof",)}
    assert "worker a could not begin (OSError('disk'))" in caplog.text


def test_the_graph_leaves_this_process_once(runner: DaskRunner, monkeypatch: pytest.MonkeyPatch) -> None:
    asked, told = DaskRunner.asked, list[tuple[Any, str]]()

    def noted(self: DaskRunner, function: Any, *given: Any, workers: Any, seconds: float) -> dict[str, Any]:
        told.extend((function, worker) for worker in workers)
        return asked(self, function, *given, workers=workers, seconds=seconds)

    monkeypatch.setattr(DaskRunner, "asked", noted)
    graph = random_graph(30, 30, 0.3)
    assert members(graph, Execution(runner=runner), "cpu") == members(graph, Execution(), "cpu")
    (sent,) = (worker for function, worker in told if function is lease_work.keep_graph)
    (taken,) = (worker for function, worker in told if function is lease_work.take_graph)
    assert sorted([sent, taken]) == sorted(runner._client.nthreads())


@pytest.mark.parametrize(
    ("with_it", "unable", "sent", "rounds"),
    [
        ("", "", ["a"], [{"b": "a"}, {"c": "a", "d": "b"}, {"e": "a"}]),
        ("xy", "", [], [{"a": "x", "b": "y"}, {"c": "x", "d": "y", "e": "a"}]),
        # `a` hangs, so all get it from here.
        ("", "a", ["a", *"bcde"], []),
        # `c` cannot take it from `a`, which is not asked again.
        ("", "c", ["a", "c"], [{"b": "a"}, {"c": "a", "d": "b"}, {"e": "b"}]),
        # A giver that is gone.
        ("x", "a", ["a", *"bcde"], [{"a": "x"}]),
    ],
)
def test_which_worker_gets_the_graph_from_which(
    with_it: str, unable: str, sent: list[str], rounds: list[dict[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    told: dict[Any, list[Any]] = {lease_work.keep_graph: [], lease_work.take_graph: []}

    def asked(_self: Any, function: Any, _job: str, given: Any, *, workers: Any, seconds: float) -> dict[str, Any]:
        assert seconds > 0
        told[function] += [given] if function is lease_work.take_graph else workers
        return {worker: True for worker in workers if worker not in unable}

    monkeypatch.setattr(DaskRunner, "asked", asked)
    run = a_run(None)
    run.threads, run.send_seconds = dict.fromkeys(with_it, 1), 1.0
    assert sorted(DaskRunner(None)._give_graph(run, list("abcde"))) == [each for each in "abcde" if each not in unable]
    assert told == {lease_work.keep_graph: sent, lease_work.take_graph: rounds}


@pytest.mark.parametrize(
    ("with_it", "unable", "sent", "rounds", "having"),
    [
        # Its holder, `c`, keeps it, and gives it to the others.
        ("", "", [("c", "key")], [{"a": "c"}, {"b": "c", "d": "a"}], "abcd"),
        # `a` cannot take it from `c`: it is read here, for all that nobody gives it to.
        ("", "take a", [("c", "key"), ("abd", b"read")], [{"a": "c"}], "abcd"),
        ("x", "take a", [("a", b"read")], [{"c": "x"}, {"a": "x", "b": "c"}, {"d": "c"}], "abcd"),
        # The holder has lost it, and nobody else has it. The holder is asked again later.
        ("", "keep c", [("c", "key"), ("abd", b"read")], [], "abd"),
    ],
)
def test_who_gets_a_held_graph_from_whom(
    with_it: str, unable: str, sent: Any, rounds: Any, having: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: dict[Any, list[Any]] = {lease_work.keep_graph: [], lease_work.take_graph: []}

    def asked(_self: Any, function: Any, _job: str, *given: Any, workers: Any, seconds: float) -> dict[str, Any]:
        assert seconds >= 10
        is_kept = function is lease_work.keep_graph
        told[function] += [("".join(sorted(workers)), given[0]) if is_kept else given[0]] if workers else []
        fails = f"{'keep' if is_kept and given[0] == 'key' else 'take' if not is_kept else '-'} "
        return {worker: True for worker in workers if fails + worker not in unable}

    monkeypatch.setattr(DaskRunner, "asked", asked)
    monkeypatch.setattr(dask_runner.pickle, "dumps", lambda graph, **_: graph)
    run = replace(a_run(None), graph=held_graph(lambda _: b"read", "c"), threads=dict.fromkeys(with_it, 1))
    run.send_seconds = 10.0
    assert sorted(DaskRunner(None)._give_graph(run, list("abcd"))) == list(having)
    assert told == {lease_work.keep_graph: sent, lease_work.take_graph: rounds}
    assert (run.graph == b"read") == (sent[-1][1] == b"read")


def held_graph(read_here: Any, holder: str = "a") -> HeldGraph:
    return HeldGraph(3, 3, np.ones(3, np.int64), np.ones(3, np.int64), holder, "key", read_here)


@pytest.mark.parametrize(("silent", "order"), [("", "a"), ("a", "ab"), ("ab", "ababab")])
def test_who_cuts_the_work_on_a_held_graph(silent: str, order: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The third, `c`, was lost."""
    told: list[str] = []

    def asked(_self: Any, function: Any, *given: Any, workers: list[str], seconds: float) -> dict[str, Any]:
        assert (function, given) == (lease_work.tasks_of, ("job", 4))
        # Never beyond the time limit.
        assert 0 < seconds <= 10
        told.extend(workers)
        return {worker: ["a task"] for worker in workers if worker not in silent}

    monkeypatch.setattr(DaskRunner, "asked", asked)
    monkeypatch.setattr(DaskRunner, "_threads", lambda _: {"a": 1, "b": 1})
    graph, reasons = BipartiteCSR.from_edges([0, 1, 2], [0, 1, 2]), list[str]()
    run = a_run(None)
    held = held_graph(lambda reason: reasons.append(reason) or graph)
    limit = time.perf_counter() + 10
    run = replace(run, job="job", graph=held, threads=dict.fromkeys("acb", 1), limit=limit)
    run.search = replace(run.search, problem="bicliques", engine="cpu", query=BicliqueQuery())
    cutting = DaskRunner(None)._tasks_of(run, 4)
    for _ in range(len(order) - (silent != "ab")):
        # Between two workers the search may end.
        assert isinstance(next(cutting), EmptyBlock)
    with pytest.raises(StopIteration) as end:
        next(cutting)
    assert told == list(order)
    if silent == "ab":
        assert end.value.value == get_engine("bicliques", "cpu").tasks_of(graph, BicliqueQuery(), 4)
        why = "{'a': 'no answer', 'c': 'was lost', 'b': 'no answer'}"
        assert reasons == [f"no worker could cut the work: {why}"]
        assert run.graph is graph
    else:
        assert end.value.value == ["a task"]
        assert not reasons


def test_a_held_graph_is_searched_by_workers(client: Any, runner: DaskRunner) -> None:
    """Also again, when its holder has given it to a search, and this process has to read it."""
    graph = random_graph(30, 30, 0.3)
    holder = min(client.nthreads())
    client.run(lambda pickled: lease_work.HELD.update(key=pickled), pickle.dumps(graph), workers=[holder])
    reasons: list[str] = []
    degrees = graph.left_degrees, graph.right_degrees
    held = HeldGraph(30, 30, *degrees, holder, "key", lambda reason: reasons.append(reason) or graph)
    expected = members(graph, Execution(), "cpu")
    assert members(held, Execution(runner=runner), "cpu") == expected
    assert not reasons
    assert members(held, Execution(runner=runner), "cpu") == expected
    assert reasons == ["workers cannot take the graph from each other"]


def test_a_worker_without_the_graph_gives_none(client: Any) -> None:
    giver, taker = client.nthreads()
    assert client.run(lease_work.take_graph, "no job", {taker: giver}, workers=[taker]) == {taker: False}


def test_a_worker_that_fails_to_keep_a_part_sends_blocks_from_then_on(caplog: pytest.LogCaptureFixture) -> None:
    """Also if it starts again and could keep parts."""
    graph = random_graph(5, 5, 0.5)
    ledger = Ledger(engine_cpu.tasks_of(graph, BicliqueQuery(), 1))
    lease = ledger.lend("a", 2, 0.0)
    assert lease is not None
    assert not ledger.has_open
    run, both = a_run(Proven()), {"a": ("proof",), "b": ("proof",)}
    DaskRunner._let_make_parts(run, both)
    assert run.proofs == both
    not_kept = lease_work.NotKept("/tmp/x: No space left on device")
    run.futures[lease.number] = SimpleNamespace(status="finished")
    assert DaskRunner(None)._taken(run, ledger, lease.number, Fetched(not_kept)) == (None, None)
    assert ledger.has_open
    (said,) = caplog.messages
    assert said == "worker a: /tmp/x: No space left on device; what it finds is sent here from now on"
    DaskRunner._let_make_parts(run, both)
    assert run.proofs == {"b": ("proof",)}
    assert caplog.messages == [said]


def test_a_result_that_cannot_be_fetched_ends_the_search(
    client: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def result(_future: Any, timeout: float) -> Any:
        # As long as a worker's maximum takes.
        assert timeout > 100
        raise TimeoutError("it takes too long")

    monkeypatch.setattr(distributed.Future, "result", result)
    runner = DaskRunner(client)
    with pytest.raises(ClusterLost, match="each was lost, or what it had found"):
        sizes(random_graph(9, 9, 0.5), Execution(runner=runner))
    assert any("could not be fetched" in text for text in runner.warnings)
    assert "could not be fetched" in caplog.text


def test_a_worker_that_hangs_before_its_result_is_fetched_blocks_no_other(
    client: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its roots are lent again, as those of a worker that hangs in a search."""
    graph, hung, over = random_graph(*LONG), threading.Event(), threading.Event()
    real, hanging = distributed.Future.result, threading.Lock()

    def result(future: Any, timeout: float) -> Any:
        if hanging.acquire(blocking=False):
            hung.set()
            assert over.wait(PATIENCE)
        return real(future, timeout)

    monkeypatch.setattr(distributed.Future, "result", result)
    monkeypatch.setattr("mbe_stage.runners.fetching._SLOW_SECONDS", 0.05)
    try:
        enumerate_into(
            found := CountSink(), graph, None, Execution(runner=DaskRunner(client, lease_seconds=0.1)), "cpu"
        )
    finally:
        over.set()
    assert hung.is_set()
    enumerate_into(expected := CountSink(), graph, None, Execution(), "cpu")
    assert found.n_bicliques == expected.n_bicliques


def test_results_are_fetched_one_at_a_time_unless_one_is_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    fetching, may_come = Fetching(), [threading.Event() for _ in range(3)]
    futures = [SimpleNamespace(result=lambda timeout, each=each: each.wait(timeout)) for each in may_come]
    for number, future in enumerate(futures):
        fetching.ask(number, future, PATIENCE)
    may_come[1].set()
    assert fetching.next(0.2) is None
    monkeypatch.setattr("mbe_stage.runners.fetching._SLOW_SECONDS", 0.0)
    assert fetching.next(PATIENCE) == (1, Fetched(True))
    may_come[0].set()
    may_come[2].set()
    assert sorted(here[0] for _ in range(2) if (here := fetching.next(PATIENCE)) is not None) == [0, 2]
    fetching.close()
    fetching.ask(3, futures[0], PATIENCE)
    assert fetching.next(0.05) is None


def test_unprocessed_results_limit_further_fetches(monkeypatch: pytest.MonkeyPatch) -> None:
    """This process holds one of them; at most four are outstanding."""
    begun: queue.SimpleQueue[int] = queue.SimpleQueue()

    def a_future(number: int, come: threading.Event) -> Any:
        return SimpleNamespace(result=lambda timeout: (begun.put(number), come.wait(timeout)))

    monkeypatch.setattr("mbe_stage.runners.fetching._SLOW_SECONDS", 0.0)
    fetching, come, hangs = Fetching(), threading.Event(), threading.Event()
    come.set()
    fetching.ask(0, a_future(0, come), PATIENCE)
    # Once it has arrived, it is not slow.
    while fetching._here.empty():
        time.sleep(0.001)
    for number in (1, 2):
        fetching.ask(number, a_future(number, come), PATIENCE)
    assert begun.qsize() == 1
    for number in range(3):
        here = fetching.next(PATIENCE)
        assert here is not None
        assert here[0] == number
        assert begun.qsize() == number + 1
    for number in range(10, 20):
        fetching.ask(number, a_future(number, hangs), PATIENCE)
        assert fetching.next(0.01) is None
    assert begun.qsize() == 3 + 4
    hangs.set()
    assert sorted(here[0] for _ in range(10) if (here := fetching.next(PATIENCE)) is not None) == list(range(10, 20))
    assert begun.qsize() == 3 + 10


def test_a_cluster_without_workers_is_not_waited_for_forever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mbe_stage.runners.dask_runner._GRACE_SECONDS", 0.3)
    with (
        distributed.LocalCluster(n_workers=0, dashboard_address="127.0.0.1:0", silence_logs=50) as empty,
        distributed.Client(empty) as client,
        pytest.raises(ClusterLost, match="has had no worker"),
    ):
        enumerate_into(CountSink(), random_graph(5, 5, 0.5), None, Execution(runner=DaskRunner(client)), "cpu")


def test_a_scheduler_that_is_stopped_is_not_waited_for_forever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dask_runner, "_SILENT_SECONDS", 0.1)
    stopped = SimpleNamespace(status="running", nthreads=threading.Event().wait)
    with pytest.raises(ClusterLost, match=r"the scheduler does not answer \(for 0.1 s\): start it again"):
        DaskRunner(stopped).awaited_workers()
    run = replace(a_run(None), threads={"a": 1})
    DaskRunner(stopped)._end(run)


@pytest.mark.slow
def test_the_scheduler_is_lost() -> None:
    graph = random_graph(*LONG)
    made = distributed.LocalCluster(
        n_workers=1, threads_per_worker=1, processes=True, dashboard_address="127.0.0.1:0", silence_logs=50
    )
    client = distributed.Client(made, timeout=2)
    threading.Timer(0.7, made.close).start()
    with pytest.raises(ClusterLost, match="scheduler"):
        enumerate_into(
            CountSink(),
            graph,
            None,
            Execution(runner=DaskRunner(client, shares_machine=True, lease_seconds=0.1)),
            "cpu",
        )
    client.close()


def loaded_steps() -> tuple[int, int, Any, Any]:
    """Return a worker's numbers of loaded and kept engine steps, and Dask's setting."""
    steps = engine_cpu.compile_steps()
    told = (dask.config.get(f"distributed.{key}") for key in ("worker.profile.enabled", "admin.tick.interval"))
    return sum(step.is_loaded() for step in steps), sum(step.is_kept() for step in steps), *told


def test_a_local_cluster_loads_the_cached_code() -> None:
    # The rest is left.
    compile_ahead(reduction.compile_steps())
    before = dask.config.get("distributed.worker.profile.enabled")
    with dask_cluster(workers=1, threads=1, problem="bicliques") as runner:
        ((n_loaded, n_kept, *told),) = runner._client.run(loaded_steps).values()
    assert n_loaded == n_kept > 0
    assert told == [False, "1s"]
    assert dask.config.get("distributed.worker.profile.enabled") == before
    # An explicit setting holds; nothing is loaded unasked.
    with dask.config.set({"distributed.admin.tick.interval": "50ms"}), dask_cluster(workers=1, threads=1) as runner:
        ((n_loaded, _, *told),) = runner._client.run(loaded_steps).values()
    assert n_loaded == 0
    assert told == [False, "50ms"]


def test_a_worker_that_cannot_load_does_not_fail_the_start(
    client: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    runner, asked = DaskRunner(client), DaskRunner.asked
    refused = lambda *given, **terms: {worker: OSError("disk") for worker in asked(*given, **terms)}  # noqa: E731
    with monkeypatch.context() as patched:
        patched.setattr(DaskRunner, "asked", refused)
        runner.load("bicliques")
    assert sorted(caplog.messages) == sorted(
        f"worker {worker} could not load the engine (OSError('disk')): a search will" for worker in client.nthreads()
    )
    assert sizes(random_graph(5, 5, 0.5), Execution(runner=runner))
    with pytest.raises(InvalidArgument, match="nonsense"):
        runner.load("nonsense")


def test_clusters_are_opened_and_refused() -> None:
    with workers_are_forked(), dask_cluster(workers=1, threads=1) as runner:
        sink = CountSink()
        enumerate_into(sink, graphs.crown(5), None, Execution(runner=runner), "cpu")
        assert sink.n_bicliques == 30
    soon = dask.config.set({"distributed.comm.timeouts.connect": "1s"})
    with soon, pytest.raises(ClusterLost, match="no scheduler answers there"), dask_cluster("tcp://127.0.0.1:1"):
        pass
    with pytest.raises(InvalidArgument, match="workers is 2"), dask_cluster("tcp://127.0.0.1:1", workers=2):
        pass
    with pytest.raises(InvalidArgument, match="threads is 0"), dask_cluster(threads=0):
        pass
    with pytest.raises(InvalidArgument, match="nonsense"), dask_cluster(workers=1, threads=1, problem="nonsense"):
        pass
    with pytest.raises(InvalidArgument, match="lease_seconds is 0"):
        DaskRunner(None, lease_seconds=0)

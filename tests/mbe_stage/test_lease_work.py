"""State of a job that a cluster worker keeps between leases, tested in this process."""

from __future__ import annotations

import asyncio
import pickle
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from mbe_stage import (
    BipartiteCSR,
    CliqueQuery,
    CliqueTableSink,
    CountSink,
    Execution,
    TableSink,
    UndirectedCSR,
    enumerate_into,
)
from mbe_stage.bicliques import engine_cpu, reference
from mbe_stage.bicliques.query import BicliqueQuery
from mbe_stage.bicliques.results import Detail
from mbe_stage.cliques import engine_cpu as cliques_engine
from mbe_stage.pq_counts import engine_cpu as counts_engine
from mbe_stage.pq_counts.digits import integers
from mbe_stage.pq_counts.query import PqQuery
from mbe_stage.pq_counts.results import Detail as PqDetail
from mbe_stage.pq_counts.results import PqSink
from mbe_stage.runners import lease_work
from mbe_stage.runners.lease_work import JobFacts, NotKept, Terms, do_lease, end_job, keep_graph
from mbe_stage.runners.parts import PartFailed
from mbe_stage.runtime.compile_ahead import compile_ahead
from tests.mbe_stage import graphs
from tests.patience import PATIENCE

LONG = Terms(60.0, 1 << 30)
ALONE = Execution(threads=1)
PQ = PqQuery(2, 3, 2, 3)


def begin_job(job: str, search: JobFacts) -> Any:
    """Start a job as a worker's loop does."""
    return asyncio.run(lease_work.begin_job(job, search))


@pytest.fixture
def graph() -> BipartiteCSR:
    return graphs.from_matrix(graphs.random_matrix(5, 12, 15, 0.4))


@pytest.fixture
def job() -> Iterator[str]:
    name = uuid.uuid4().hex
    yield name
    end_job(name)


def test_preparation_is_done_once(graph: BipartiteCSR, job: str, monkeypatch: pytest.MonkeyPatch) -> None:
    prepared: list[BipartiteCSR] = []
    prepare = engine_cpu.prepare
    query = BicliqueQuery()
    tasks = engine_cpu.tasks_of(graph, query, 4)
    monkeypatch.setattr(engine_cpu, "prepare", lambda *asked, **k: (prepared.append(asked[0]), prepare(*asked, **k))[1])
    begin_job(job, JobFacts("bicliques", "cpu", query, Detail.COUNT))
    assert keep_graph(job, pickle.dumps(graph))
    found = 0
    for number, task in enumerate(tasks):
        finished = do_lease(job, number, [task], ALONE, LONG, proof=None)
        assert isinstance(finished, lease_work.Finished)
        assert not finished.remaining
        assert finished.n_found == sum(len(pickle.loads(text)) for text in finished.blocks)
        found += finished.n_found
    assert len(tasks) > 1
    assert len(prepared) == 1
    enumerate_into(sink := CountSink(), graph, None, Execution(), "reference")
    assert found == sink.n_bicliques


@pytest.mark.parametrize(
    ("engine", "query", "sink_of", "found"),
    [
        (engine_cpu, BicliqueQuery(min_left=2), TableSink, lambda sink: sink.table().as_set()),
        (cliques_engine, CliqueQuery(min_size=2), CliqueTableSink, lambda sink: sink.table().as_set()),
        (counts_engine, PQ, lambda: PqSink(PQ, PqDetail.COUNTS), lambda sink: sink.counts()),
    ],
)
def test_runs_with_shared_preparation_find_the_same(
    graph: BipartiteCSR, engine: Any, query: Any, sink_of: Callable[[], Any], found: Callable[[Any], Any]
) -> None:
    searched: Any = UndirectedCSR.from_edges(*graph.edges(), 15) if engine is cliques_engine else graph
    compile_ahead(engine.compile_steps(query, sink_of().detail))
    prepared = engine.prepare(searched, query)

    tasks = engine.tasks_of(searched, query, 3)
    assert len(tasks) > 1

    def together(**given: Any) -> Any:
        sink = sink_of()
        for task in tasks:
            for block in engine.run(searched, query, ALONE, sink.detail, [task], **given):
                sink.accept(block)
        return found(sink)

    assert together(prepared=prepared) == together() == together(prepared=prepared)
    assert together()


def test_ended_jobs_have_no_work(graph: BipartiteCSR, job: str) -> None:
    tasks = reference.tasks_of(graph, BicliqueQuery(), 2)
    search = JobFacts("bicliques", "reference", BicliqueQuery(), Detail.COUNT)
    assert do_lease(job, 1, tasks, ALONE, LONG, proof=None) is None
    begin_job(job, search)
    keep_graph(job, pickle.dumps(graph))
    lease_work.stop_job(job)
    assert do_lease(job, 2, tasks, ALONE, LONG, proof=None) is None
    begin_job(job, search)
    # The graph has not arrived, and will not.
    known = lease_work._JOBS[job]
    end_job(job)
    with pytest.raises(lease_work.CancelledError):
        known.ready()
    assert begin_job(job, search) is None
    assert job not in lease_work._JOBS


def test_a_worker_passes_the_graph_on_and_holds_it_once(graph: BipartiteCSR, job: str) -> None:
    begin_job(job, JobFacts("bicliques", "reference", BicliqueQuery(), Detail.COUNT))
    known = lease_work._JOBS[job]
    assert asyncio.run(lease_work.pickled_graph(job)) is None
    assert keep_graph(job, pickle.dumps(graph))
    until = time.monotonic() + PATIENCE
    while known._graph.done() and time.monotonic() < until:
        time.sleep(0.001)
    assert keep_graph(job, b"another")
    assert not known._graph.done()
    text = asyncio.run(lease_work.pickled_graph(job))
    assert text is not None
    assert pickle.loads(text).edges_checksum == graph.edges_checksum


def test_every_lease_reports_a_failed_preparation(job: str) -> None:
    begin_job(job, JobFacts("bicliques", "cpu", BicliqueQuery(), Detail.COUNT))
    keep_graph(job, b"no graph")
    for number in (1, 2):
        with pytest.raises(pickle.UnpicklingError):
            do_lease(job, number, [], ALONE, LONG, proof=None)


def test_a_running_lease_completes_when_others_replace_it(
    graph: BipartiteCSR, job: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    query, others = BicliqueQuery(), [uuid.uuid4().hex for _ in range(2)]
    search, tasks, run = (
        JobFacts("bicliques", "reference", query, Detail.COUNT),
        reference.tasks_of(graph, query, 1),
        reference.run,
    )

    def interrupted(*given: Any, **beside: Any) -> Iterator[Any]:
        for other in others:
            begin_job(other, search)
        yield from run(*given, **beside)

    begin_job(job, search)
    keep_graph(job, pickle.dumps(graph))
    whole = do_lease(job, 1, tasks, ALONE, LONG, proof=None)
    monkeypatch.setattr(reference, "run", interrupted)
    finished = do_lease(job, 2, tasks, ALONE, LONG, proof=None)
    for other in others:
        end_job(other)
    assert isinstance(whole, lease_work.Finished)
    assert isinstance(finished, lease_work.Finished)
    assert finished.n_found == whole.n_found > 0
    assert not finished.remaining
    # The next one must start again, and does not wait for a graph.
    assert do_lease(job, 3, tasks, ALONE, LONG, proof=None) is None


def test_two_runs_of_one_cluster_keep_their_preparation(
    graph: BipartiteCSR, job: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    query, prepared, prepare = BicliqueQuery(), [], engine_cpu.prepare
    search, tasks = JobFacts("bicliques", "cpu", query, Detail.COUNT), engine_cpu.tasks_of(graph, query, 1)
    monkeypatch.setattr(engine_cpu, "prepare", lambda *asked, **k: (prepared.append(asked), prepare(*asked, **k))[1])
    other, third = (uuid.uuid4().hex for _ in range(2))
    for each in (job, other):
        begin_job(each, search)
        keep_graph(each, pickle.dumps(graph))
    for number, each in enumerate((job, other, job, other, job)):
        assert do_lease(each, number, tasks, ALONE, LONG, proof=None) is not None
    assert len(prepared) == 2
    # The least recently used one is dropped.
    begin_job(third, search)
    assert do_lease(other, 5, tasks, ALONE, LONG, proof=None) is None
    assert do_lease(job, 6, tasks, ALONE, LONG, proof=None) is not None
    for each in (other, third):
        end_job(each)


class Kept:
    """A collector of numbers of bicliques, which proves itself with a word."""

    def prove(self) -> str:
        return "here"

    @contextmanager
    def open(self, name: str, execution: Execution, proof: str) -> Iterator[Any]:
        assert proof == "here"
        yield _Numbers(name, execution)


class _Numbers:
    is_full = False

    def __init__(self, name: str, execution: Execution) -> None:
        self.name, self.execution, self.sizes = name, execution, []

    def accept(self, block: Any) -> None:
        self.sizes.append(len(block))

    def part(self) -> tuple[Any, int]:
        return (self.name, self.execution, sum(self.sizes)), 7


def test_parts_replace_blocks(graph: BipartiteCSR, job: str) -> None:
    query = BicliqueQuery()
    assert begin_job(job, JobFacts("bicliques", "reference", query, Detail.MEMBERS, Kept())) == "here"
    keep_graph(job, pickle.dumps(graph))
    tasks = reference.tasks_of(graph, query, 1)
    made, sent = (do_lease(job, 3, tasks, ALONE, LONG, proof=proof) for proof in ("here", None))
    assert isinstance(made, lease_work.Finished)
    assert isinstance(sent, lease_work.Finished)
    assert made.part == (f"{job}-3", ALONE, sent.n_found)
    assert (made.blocks, made.n_bytes) == ([], 7)
    assert sent.part is None
    assert sent.n_bytes == sum(map(len, sent.blocks)) > 0


def test_a_worker_answers_others_during_its_proof(job: str) -> None:
    is_proving, goes_on = threading.Event(), threading.Event()

    class Waiting(Kept):
        def prove(self) -> str:
            is_proving.set()
            # Waiting for it on the loop would block.
            return "here" if goes_on.wait(5.0) else "nobody was answered"

    async def both() -> Any:
        search = JobFacts("bicliques", "reference", BicliqueQuery(), Detail.MEMBERS, Waiting())
        begun = asyncio.create_task(lease_work.begin_job(job, search))
        await asyncio.to_thread(is_proving.wait, PATIENCE)
        goes_on.set()
        return await begun

    assert asyncio.run(both()) == "here"


class Refusing(Kept):
    """Fails to keep a part when it is opened, at a block, or when it is closed."""

    def __init__(self, when: str) -> None:
        self.when = when

    @contextmanager
    def open(self, name: str, execution: Execution, proof: str) -> Iterator[Any]:
        numbers = _Numbers(name, execution)
        if self.when == "opened":
            raise PartFailed("no room")
        with super().open(name, execution, proof):
            yield self if self.when == "taking" else numbers
        raise PartFailed("no room")

    is_full = False

    def accept(self, _block: Any) -> None:
        raise PartFailed("no room")


@pytest.mark.parametrize("when", ["opened", "taking", "left"])
def test_a_failure_to_keep_a_part_is_returned(graph: BipartiteCSR, job: str, when: str) -> None:
    query = BicliqueQuery()
    begin_job(job, JobFacts("bicliques", "reference", query, Detail.MEMBERS, Refusing(when)))
    keep_graph(job, pickle.dumps(graph))
    tasks = reference.tasks_of(graph, query, 1)
    assert do_lease(job, 1, tasks, ALONE, LONG, proof="here") == NotKept("no room")
    # The same worker sends.
    assert isinstance(do_lease(job, 2, tasks, ALONE, LONG, proof=None), lease_work.Finished)


class Full(Kept):
    """Its disk is full at the first block."""

    @contextmanager
    def open(self, name: str, execution: Execution, proof: str) -> Iterator[Any]:  # noqa: ARG002 - the seam's signature
        numbers = _Numbers(name, execution)
        numbers.is_full = True
        yield numbers


def test_a_lease_ends_when_its_disk_is_full(job: str) -> None:
    graph, query = graphs.from_matrix(graphs.random_matrix(5, 40, 60, 0.4)), BicliqueQuery()
    tasks = engine_cpu.tasks_of(graph, query, 1)
    small = Execution(threads=1, block_bytes=1 << 12)
    remaining = {}
    for name, parts in (("full", Full()), ("kept", Kept())):
        begin_job(f"{job}-{name}", JobFacts("bicliques", "cpu", query, Detail.MEMBERS, parts))
        keep_graph(f"{job}-{name}", pickle.dumps(graph))
        finished = do_lease(f"{job}-{name}", 1, tasks, small, LONG, proof="here")
        end_job(f"{job}-{name}")
        assert isinstance(finished, lease_work.Finished)
        remaining[name] = finished.remaining
    assert remaining["full"]
    assert not remaining["kept"]


@pytest.mark.parametrize("detail", [PqDetail.COUNTS, PqDetail.EDGES])
def test_counts_are_added_up_before_they_are_sent(graph: BipartiteCSR, job: str, detail: PqDetail) -> None:
    tasks = counts_engine.tasks_of(graph, PQ, 2)
    begin_job(job, JobFacts("pq_counts", "cpu", PQ, detail))
    keep_graph(job, pickle.dumps(graph))
    alone, sent = PqSink(PQ, detail), PqSink(PQ, detail)
    n_blocks = 0
    for number, task in enumerate(tasks):
        for block in counts_engine.run(graph, PQ, ALONE, detail, [task]):
            alone.accept(block)
        finished = do_lease(job, number, [task], ALONE, LONG, proof=None)
        assert isinstance(finished, lease_work.Finished)
        blocks = [pickle.loads(text) for text in finished.blocks]
        assert finished.n_found == sum(map(len, blocks))
        for block in blocks:
            sent.accept(block)
        n_blocks += len(blocks)
    assert sent.counts() == alone.counts()
    assert sum(sent.counts().values()) > 40
    local = [
        {cell: [integers(side) for side in (of.left, of.right, of.edges)] for cell, of in sink.local_counts().items()}
        for sink in (sent, alone)
    ]
    assert local[0] == local[1]
    # Each lease has one result per cell, and few have leaves.
    assert len(tasks) <= n_blocks <= len(tasks) * (3 + len(local[0]))


def test_a_lease_of_counts_without_results_returns_a_block(job: str) -> None:
    graph = graphs.from_matrix(graphs.random_matrix(5, 3, 3, 0.0))
    begin_job(job, JobFacts("pq_counts", "cpu", PQ, PqDetail.COUNTS))
    keep_graph(job, pickle.dumps(graph))
    finished = do_lease(job, 1, counts_engine.tasks_of(graph, PQ, 1), ALONE, LONG, proof=None)
    assert isinstance(finished, lease_work.Finished)
    assert [len(pickle.loads(text)) for text in finished.blocks] == [0]

"""Faults of cluster workers at any moment: the published run equals an undisturbed one."""

from __future__ import annotations

import functools
import logging
import os
import random
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mbe_stage import BicliqueQuery, CountSink, Detail, Execution
from mbe_stage.bicliques.problem import PROBLEM
from mbe_stage.errors import ClusterLost
from mbe_stage.pipeline import Config, RunStore, read_manifest, run
from mbe_stage.pipeline.backends.arrow.worker_parts import WorkerParts
from mbe_stage.pipeline.errors import exit_code
from mbe_stage.pipeline.execution import ingest_by_workers
from mbe_stage.pipeline.execution.unfinished import list_unfinished
from mbe_stage.run_limits import EmptyBlock
from mbe_stage.runners import clusters, dask_runner
from mbe_stage.runners.dask_runner import DaskRunner
from mbe_stage.runners.leases import Lease, Ledger
from mbe_stage.search.cpu.pool import Barrier
from mbe_stage.stream import stream
from tests.mbe_stage.graphs import from_matrix, random_matrix
from tests.patience import PATIENCE, begun, output_of
from tests.pipeline.nursery_support import SchedulerNursery
from tests.pipeline.output_support import assert_nothing_staged
from tests.pipeline.resume_support import (
    IN_ROUNDS,
    assert_as_undisturbed,
    config_for,
    is_sorted,
    noted,
    output_of_run,
    random_pairs,
    undisturbed,
    whatever_they_cost,
)

__all__ = ["undisturbed", "whatever_they_cost"]

pytest.importorskip("dask", reason="needs Dask: pip install 'mbe-stage[dask]'")
distributed = pytest.importorskip("distributed", reason="needs Dask: pip install 'mbe-stage[dask]'")

from tests.pipeline.forked_workers import workers_are_forked  # noqa: E402 - it needs Dask
from tests.pipeline.slow_workers import SlowBlocks, takes_too_much  # noqa: E402 - it needs Dask

ROOT = Path(__file__).parents[2]
LEASE_SECONDS = 0.06
# For each of some hundred blocks, so two workers search for a second or more.
BLOCK_SECONDS = 0.002
LONGEST_DELAY = 0.8
# For a worker that hangs: its results must arrive while the others still search.
LONGEST_DELAY_OF_LATE = 0.4
# Seconds for nannies to restart workers; then, and after twice as long, others are started.
FIRST_PATIENCE = 3.0
# Extra rounds if the tested fault has not happened by then.
MOST_MORE = 10


@dataclass
class Workers:
    """The workers of a cluster (two between rounds) and the faults that happen to them.

    Attributes
    ----------
    lent_again : Event
        Set when roots of a late worker are lent to another.
    n_in_time : int
        Faults that came during the run.
    n_late : int
        Parts that came during the search, after another worker had finished their roots.
    n_shared : int
        Runs in which at least two workers had a part.
    lost : set of str
        Addresses of ended workers.
    """

    cluster: Any
    client: Any
    dice: random.Random = field(default_factory=random.Random)
    lent_again: threading.Event = field(default_factory=threading.Event)
    is_over: threading.Event = field(default_factory=threading.Event)
    n_in_time: int = 0
    n_late: int = 0
    n_shared: int = 0
    lost: set[str] = field(default_factory=set)

    def complete(self) -> dict[str, int]:
        """Wait for two workers that were not ended before; return their addresses and process ids."""
        self.cluster.scale(2)
        until = time.monotonic() + PATIENCE
        while len(there := set(self.client.nthreads())) != 2 or there & self.lost:
            assert time.monotonic() < until, f"there are {there}, and {self.lost} were ended"
            time.sleep(0.02)
        return self.client.run(os.getpid)

    def some(self, pids: dict[str, int], n: int) -> list[tuple[str, int]]:
        return self.dice.sample(sorted(pids.items()), n)

    def are_killed(self, pids: dict[str, int], n: int) -> None:
        for worker, pid in self.some(pids, n):
            self.lost.add(worker)
            os.kill(pid, signal.SIGKILL)
        # Sometimes a nanny gives up; if all have, the owner of the cluster has to start other workers.
        patience = FIRST_PATIENCE
        while not self.is_over.wait(patience) and not set(self.client.nthreads()) - self.lost:
            self.cluster.scale(0)
            self.cluster.scale(2)
            patience *= 2

    def hang(self, pids: dict[str, int]) -> None:
        """Stop one worker until others have its roots and somewhat longer, or until the run is over."""
        ((_, pid),) = self.some(pids, 1)
        os.kill(pid, signal.SIGSTOP)
        try:
            while not self.is_over.is_set() and not self.lent_again.wait(0.02):
                pass
            self.is_over.wait(self.dice.random() * 2 * LEASE_SECONDS)
        finally:
            os.kill(pid, signal.SIGCONT)

    def run_out_of_memory(self, pids: dict[str, int]) -> None:
        ((worker, _),) = self.some(pids, 1)
        self.lost.add(worker)
        with suppress(Exception):
            self.client.run(takes_too_much, workers=[worker])

    def come_late(self, _pids: dict[str, int]) -> None:
        self.cluster.scale(2)

    def only_one(self) -> dict[str, int]:
        self.cluster.scale(1)
        until = time.monotonic() + PATIENCE
        while len(self.client.nthreads()) != 1:
            assert time.monotonic() < until
            time.sleep(0.02)
        return {}


Fault = Callable[[Workers, dict[str, int]], None]
FAULTS: dict[str, Fault] = {
    "one is killed": lambda workers, pids: workers.are_killed(pids, 1),
    "all are killed": lambda workers, pids: workers.are_killed(pids, 2),
    "one hangs": Workers.hang,
    "one runs out of memory": Workers.run_out_of_memory,
    "one comes late": Workers.come_late,
}
# Like "all are killed", but for the reason or the number.
RARE = ("one is killed", "one runs out of memory")


@pytest.fixture(autouse=True)
def workers_read_small_inputs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ingest_by_workers, "QUICK_TWO_HOP_EDGES", 0)


@pytest.fixture(scope="module")
def edges(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """More than `resume_support` has, which workers read and keep."""
    path = tmp_path_factory.mktemp("input") / "edges.parquet"
    rows = [{"left": f"u{u}", "right": f"v{v}"} for u, v in random_pairs(50, 22)]
    pq.write_table(pa.Table.from_pylist(rows), path, row_group_size=99)
    return path


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with (
        workers_are_forked(),
        distributed.LocalCluster(
            n_workers=2,
            threads_per_worker=1,
            processes=True,
            dashboard_address="127.0.0.1:0",
            silence_logs=50,
            memory_limit="800MiB",
            local_directory=tmp_path_factory.mktemp("workers"),
        ) as made,
    ):
        yield made


@pytest.fixture(scope="module")
def client(cluster: Any) -> Iterator[Any]:
    with distributed.Client(cluster) as made:
        made.register_plugin(SlowBlocks(BLOCK_SECONDS))
        yield made


@pytest.fixture
def workers(cluster: Any, client: Any, monkeypatch: pytest.MonkeyPatch) -> Workers:
    """The workers, with short leases and little patience with those that hang."""
    made = Workers(cluster, client)
    lend_again, taken = Ledger.lend_again, DaskRunner._taken

    def noting_who_is_late(ledger: Ledger, worker: str, before: float, now: float) -> Lease | None:
        lease = lend_again(ledger, worker, before, now)
        if lease is not None:
            made.lent_again.set()
        return lease

    def noting_what_is_late(runner: DaskRunner, run: Any, ledger: Ledger, number: int, fetched: Any) -> Any:
        future = run.futures.get(number)
        is_late = all(lease.number != number for lease in ledger.leases)
        made.n_late += is_late and future is not None and future.status == "finished"
        return taken(runner, run, ledger, number, fetched)

    monkeypatch.setattr(Ledger, "lend_again", noting_who_is_late)
    monkeypatch.setattr(DaskRunner, "_taken", noting_what_is_late)
    hurry(monkeypatch)
    return made


def hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    short_leases = functools.partial(DaskRunner, lease_seconds=LEASE_SECONDS)
    monkeypatch.setattr(clusters, "DaskRunner", short_leases)
    for name in ("_GREETING_SECONDS", "_BEGIN_SECONDS", "_FETCH_SECONDS"):
        monkeypatch.setattr(dask_runner, name, 3.0)
    monkeypatch.setattr(dask_runner, "_STOP_SECONDS", 1.0)


def meanwhile(config: Config, happens: Callable[[], None], after: float, workers: Workers) -> Path:
    """Run, and call `happens` some seconds after the search has begun."""
    has_begun = threading.Event()

    def happen() -> None:
        has_begun.wait(PATIENCE)
        workers.n_in_time += not workers.is_over.wait(after)
        happens()

    thread = threading.Thread(target=happen, daemon=True)
    thread.start()
    try:
        return run(config, on_progress=lambda _: has_begun.set()).run_dir
    finally:
        workers.is_over.set()
        has_begun.set()
        thread.join(PATIENCE)


def disturb(workers: Workers, fault: str, out: Path, edges: Path, undisturbed: Path, monkeypatch: Any) -> None:
    """One round: workers write or send their parts, and the fault happens at some moment."""
    pids = workers.complete()
    if fault == "one comes late":
        pids = workers.only_one()
    workers.is_over.clear()
    workers.lent_again.clear()
    execution = {"runner": "dask", "cluster": workers.cluster.scheduler_address, "threads": 1}
    config = config_for(out, edges, output=output_of_run(undisturbed), execution=execution)
    with monkeypatch.context() as patched:
        if workers.dice.random() < 0.3:
            patched.setattr(WorkerParts, "proven", lambda *_: set())
        after = workers.dice.random() * (LONGEST_DELAY_OF_LATE if fault == "one hangs" else LONGEST_DELAY)
        run_dir = meanwhile(config, lambda: FAULTS[fault](workers, pids), after, workers)
    ranks = read_manifest(run_dir).ranks
    assert ranks is not None
    workers.n_shared += len(ranks.each) > 1
    assert_as_undisturbed(run_dir, undisturbed, edges, same_bytes=is_sorted(undisturbed))
    assert_nothing_staged(out)


def in_rounds(
    workers: Workers, fault: str, rounds: int, out: Path, edges: Path, undisturbed: Path, monkeypatch: Any
) -> None:
    seed = random.randrange(10**6)
    workers.dice, attempt = random.Random(seed), 0

    def has_happened() -> bool:
        return {"one hangs": workers.n_late, "one comes late": workers.n_shared}.get(fault, workers.n_in_time) > 0

    while attempt < rounds or (not has_happened() and attempt < rounds + MOST_MORE):
        with noted(attempt, seed):
            disturb(workers, fault, out / str(attempt), edges, undisturbed, monkeypatch)
        attempt += 1
    workers.complete()
    assert workers.n_in_time, f"runs were over before anything happened, seed {seed}"
    assert has_happened(), f"no part came late, or the late worker had none, seed {seed}"


# Faults do not affect the sorting that follows.
@pytest.mark.parametrize(
    ("undisturbed", "fault"),
    [pytest.param(False, fault, marks=pytest.mark.slow if fault in RARE else []) for fault in FAULTS]
    + [pytest.param(True, fault, marks=pytest.mark.slow) for fault in FAULTS],
    indirect=["undisturbed"],
)
@IN_ROUNDS
def test_workers_are_lost_at_random_moments(workers, fault, rounds, tmp_path, edges, undisturbed, monkeypatch) -> None:
    in_rounds(workers, fault, rounds, tmp_path, edges, undisturbed, monkeypatch)


def test_a_barrier_comes_while_all_leases_are_out(workers, monkeypatch) -> None:
    """Leases may outlast the time between checkpoints, and no results arrive in between."""
    workers.complete()
    monkeypatch.setattr(dask_runner, "_BLOCKS_OF_LEASE", 10**6)
    monkeypatch.setattr(dask_runner, "_LOOK_SECONDS", 0.02)
    graph, barrier, counted, n_since = from_matrix(random_matrix(0, 120, 600, 0.25)), Barrier(), 0, 0
    arrived = dask_runner.Fetching.next
    # On a fast machine, a lease could come back before the barrier.
    monkeypatch.setattr(dask_runner.Fetching, "next", lambda *given: None if barrier.is_requested else arrived(*given))
    runner = DaskRunner(workers.client, shares_machine=True, lease_seconds=0.6)
    execution = Execution(runner=runner, block_bytes=100_000)
    found = runner.run("bicliques", "cpu", graph, BicliqueQuery(), execution, Detail.SIZES, None, barrier)
    with closing(found) as blocks:
        for block in blocks:
            if not isinstance(block, EmptyBlock):
                if block.remaining is not None:
                    break
                counted += len(block)
            elif barrier.is_requested:
                n_since += 1
                assert n_since < 100, "no block marks the barrier"
            elif counted:
                barrier.ask()
        else:
            pytest.fail("no block marks the barrier")
    assert not barrier.is_requested
    whole, left = CountSink(), CountSink()
    for sink, tasks in ((whole, None), (left, block.remaining)):
        stream(PROBLEM, sink, graph, BicliqueQuery(), Execution(), "cpu", tasks=tasks)
    assert counted + left.n_bicliques == whole.n_bicliques


@pytest.fixture(scope="module")
def schedulers() -> Iterator[SchedulerNursery]:
    nursery = SchedulerNursery()
    yield nursery
    nursery.end()


def lose_the_scheduler(
    schedulers: SchedulerNursery, staging_dir: Path, edges: Path, undisturbed: Path, after: float, caplog: Any
) -> None:
    """Lose the scheduler some seconds after a checkpoint, and resume without a cluster."""
    staging_dir.mkdir()
    scheduler, address = schedulers.begin(staging_dir, BLOCK_SECONDS)
    out = staging_dir / "out"
    execution = {"runner": "dask", "cluster": str(address), "threads": 1}
    config = config_for(out, edges, output=output_of_run(undisturbed), execution=execution)

    def kill_it() -> None:
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until and not any(each.n_found for each in list_unfinished(out)):
            time.sleep(0.02)
        time.sleep(after)
        os.kill(scheduler, signal.SIGKILL)

    thread = threading.Thread(target=kill_it, daemon=True)
    thread.start()
    caplog.clear()
    with pytest.raises(ClusterLost, match="the scheduler") as caught:
        run(config)
    thread.join(PATIENCE)
    assert exit_code(caught.value) == 4
    assert [record for record in caplog.records if not record.name.startswith("mbe_stage")] == []
    assert RunStore(out).runs() == []
    (kept,) = list_unfinished(out)
    assert kept.n_found > 0
    execution = {"runner": "local", "threads": 1}
    config = config_for(out, edges, output=output_of_run(undisturbed), execution=execution)
    resumed = run(config, resume=True)
    assert any(f"{kept.n_found:,} results" in text for text in resumed.manifest.warnings)
    assert_as_undisturbed(resumed.run_dir, undisturbed, edges, same_bytes=is_sorted(undisturbed))


@pytest.fixture
def dask_log(caplog: pytest.LogCaptureFixture) -> Iterator[pytest.LogCaptureFixture]:
    """Capture what Dask would print; its loggers do not propagate."""
    names = ("distributed", "distributed.client", "tornado", "tornado.application", "asyncio")
    silent = [logging.getLogger(name) for name in names if not logging.getLogger(name).propagate]
    for logger in silent:
        logger.addHandler(caplog.handler)
    yield caplog
    for logger in silent:
        logger.removeHandler(caplog.handler)


@IN_ROUNDS
def test_the_scheduler_is_lost_and_the_run_resumed_without_a_cluster(
    rounds, schedulers, tmp_path, edges, undisturbed, monkeypatch, dask_log
) -> None:
    hurry(monkeypatch)
    seed = random.randrange(10**6)
    dice = random.Random(seed)
    for attempt in range(rounds):
        with noted(attempt, seed):
            after = 0.3 * dice.random()
            lose_the_scheduler(schedulers, tmp_path / str(attempt), edges, undisturbed, after, dask_log)


@pytest.mark.slow
def test_the_command_reports_a_lost_scheduler_in_one_line(schedulers, tmp_path, edges) -> None:
    """The line follows the progress, which is reported before the only lease has come back."""
    scheduler, address = schedulers.begin(tmp_path, PATIENCE)
    command = [
        sys.executable,
        "-c",
        "from mbe_stage.pipeline.cli.entry import main; main()",
        "enumerate",
        edges,
    ]
    options = ["--engine", "cpu", "--out", tmp_path / "out", "--cluster", address]
    process = begun([*command, *options], text=True, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)})
    assert process.stderr is not None
    said = list(until("enumerating", process.stderr))
    assert "0.0 % of the work, 0 bicliques" in said[-1]
    os.kill(scheduler, signal.SIGKILL)
    _, error = output_of(process)
    assert process.returncode == 4
    last = [line for line in error.splitlines() if "enumerating" not in line]
    assert len(last) == 1, error
    assert last[0].startswith("error: the scheduler")


def until(word: str, lines: Iterable[str]) -> Iterator[str]:
    """Yield the lines up to the first one that contains a word."""
    for line in lines:
        yield line
        if word in line:
            return

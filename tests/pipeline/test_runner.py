"""A run searched by a Dask cluster publishes the same as a run of one process."""

from __future__ import annotations

import logging
import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mbe_stage import run_limits
from mbe_stage.errors import ClusterLost, EngineUnavailable
from mbe_stage.pipeline.backends.arrow.worker_parts import WorkerParts
from mbe_stage.pipeline.cli.json_or_text import run_facts
from mbe_stage.pipeline.cli.options import QUERY, configuration, publishing
from mbe_stage.pipeline.config.model import Config
from mbe_stage.pipeline.errors import ConfigError, exit_code
from mbe_stage.pipeline.execution import ingest_by_workers
from mbe_stage.pipeline.execution.job import RunResult, count, run
from mbe_stage.pipeline.execution.journal import read_journal
from mbe_stage.pipeline.problems.groups.collector import GroupsCollector
from mbe_stage.pipeline.publish.manifest import read_manifest
from tests.mbe_stage import graphs
from tests.patience import PATIENCE
from tests.pipeline.groups_support import EDGES
from tests.pipeline.groups_support import settings as group_settings
from tests.pipeline.output_support import assert_nothing_staged
from tests.pipeline.resume_support import ended_after

dask = pytest.importorskip("dask", reason="needs Dask: pip install 'mbe-stage[dask]'")
distributed = pytest.importorskip("distributed", reason="needs Dask: pip install 'mbe-stage[dask]'")

from tests.pipeline.forked_workers import workers_are_forked  # noqa: E402 - it needs Dask


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    with (
        workers_are_forked(),
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address="127.0.0.1:0", silence_logs=50
        ) as made,
    ):
        yield made


def written(path: Path, n_left: int, n_right: int, density: float) -> Path:
    left, right = graphs.from_matrix(graphs.random_matrix(3, n_left, n_right, density)).edges()
    if path.suffix == ".parquet":
        pq.write_table(pa.table({"left": left, "right": right}), path, row_group_size=100)
    else:
        path.write_text("".join(f"{u},{v}\n" for u, v in zip(left.tolist(), right.tolist(), strict=True)))
    return path


@pytest.fixture(autouse=True)
def workers_read_small_inputs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ingest_by_workers, "QUICK_TWO_HOP_EDGES", 0)


@pytest.fixture(scope="module")
def edges(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Workers read them, and keep those of bicliques."""
    return written(tmp_path_factory.mktemp("edges") / "edges.parquet", 40, 60, 0.3)


PROBLEMS = ("bicliques", "cliques")


def settings(out: Path, edges: Path, *, problem: str = "bicliques", sort: bool = True, **execution: Any) -> Config:
    return Config.model_validate(
        {
            "problem": problem,
            "input": {"path": str(edges)},
            "execution": {"engine": "cpu", "threads": 1, **execution},
            "output": {"directory": str(out), "sort": sort, "members": problem == "bicliques", "two_hop_steps": 0},
        }
    )


def by_cluster(cluster: Any, out: Path, edges: Path, **asked: Any) -> RunResult:
    return run(settings(out, edges, runner="dask", cluster=cluster.scheduler_address, **asked))


def tables(run_dir: Path) -> dict[str, str]:
    return {file.path: file.sha256 for file in read_manifest(run_dir).files if file.path.endswith(".parquet")}


def rows(result: RunResult) -> pa.Table:
    found = pq.read_table(result.run_dir / result.manifest.problem)
    return found.sort_by(found.column_names[0])


@pytest.mark.parametrize("problem", PROBLEMS)
@pytest.mark.parametrize("writes", [True, False], ids=["workers write", "workers send"])
def test_the_published_tables_are_the_same(
    cluster: Any,
    tmp_path: Path,
    edges: Path,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    writes: bool,
    problem: str,
) -> None:
    if not writes:
        monkeypatch.setattr(WorkerParts, "proven", lambda *_: set())
    with caplog.at_level(logging.INFO):
        shared = by_cluster(cluster, tmp_path / "cluster", edges, problem=problem)
    alone = run(settings(tmp_path / "alone", edges, problem=problem))
    ours, theirs = read_manifest(alone.run_dir), read_manifest(shared.run_dir)
    assert theirs.content_fingerprint == ours.content_fingerprint
    assert theirs.counts == ours.counts
    assert tables(shared.run_dir) == tables(alone.run_dir)
    assert theirs.input == ours.input
    assert ("of the cluster, which keep the edges" in caplog.text) is (problem == "bicliques")
    assert "Dask worker" in theirs.device
    assert "results are sent" in caplog.text or writes
    ranks = theirs.ranks
    assert ranks is not None
    assert ours.ranks is None
    assert sum(rank.found for rank in ranks.each) == theirs.n_found
    assert all(rank.writes is writes and rank.bytes > 0 and rank.leases > 0 for rank in ranks.each)
    assert run_facts(shared)["ranks"]["each"][0]["name"] == ranks.each[0].name
    report = (shared.run_dir / "report.html").read_text()
    for name, did in ranks.lines():
        assert f"<dt>{name}</dt><dd>{did}</dd>" in report
        assert f"{name}: {did}" in caplog.text


@pytest.mark.slow
@pytest.mark.parametrize("problem", PROBLEMS)
def test_unsorted_rows_are_the_same_too(cluster: Any, tmp_path: Path, edges: Path, problem: str) -> None:
    shared = by_cluster(cluster, tmp_path / "cluster", edges, sort=False, problem=problem)
    alone = run(settings(tmp_path / "alone", edges, sort=False, problem=problem))
    assert rows(shared) == rows(alone)
    assert shared.manifest.content_fingerprint == alone.manifest.content_fingerprint
    assert shared.manifest.ranks is not None
    assert all(rank.writes for rank in shared.manifest.ranks.each)


@pytest.mark.parametrize("sort", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["as found", "sorted"])
def test_groups_are_made_of_workers_parts(cluster: Any, tmp_path: Path, sort: bool) -> None:
    def published(name: str, **execution: Any) -> RunResult:
        asked = {"engine": "cpu", "threads": 1, **execution}
        return run(group_settings(tmp_path / name, execution=asked, output={"sort": sort}), EDGES)

    alone = published("alone")
    shared = published("cluster", runner="dask", cluster=cluster.scheduler_address)
    assert shared.manifest.derived == alone.manifest.derived
    assert shared.manifest.derived["groups"]["groups"] > 0
    ours, theirs = tables(alone.run_dir), tables(shared.run_dir)
    for name in (name for name in ours if sort or "/" not in name):
        assert theirs[name] == ours[name], name
    assert shared.manifest.content_fingerprint == alone.manifest.content_fingerprint
    assert shared.manifest.ranks is not None
    assert all(rank.writes for rank in shared.manifest.ranks.each), "rows came through the client"


@pytest.mark.parametrize("sums", [True, pytest.param(False, marks=pytest.mark.slow)], ids=["summed up", "sent"])
def test_groups_alone_are_made_of_workers_sums(
    cluster: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sums: bool
) -> None:
    if not sums:
        # Like the output of a package that does not support workers.
        monkeypatch.delattr(GroupsCollector, "for_workers")
    without = {"bicliques": False}
    asked = {"engine": "cpu", "threads": 1, "runner": "dask", "cluster": cluster.scheduler_address}
    shared = run(group_settings(tmp_path / "cluster", execution=asked, output=without), EDGES)
    alone = run(group_settings(tmp_path / "alone", "cpu", output=without), EDGES)
    assert tables(shared.run_dir) == tables(alone.run_dir)
    assert shared.manifest.derived == alone.manifest.derived
    assert shared.manifest.derived["groups"]["groups"] > 0
    assert shared.manifest.ranks is not None
    assert all(rank.writes is sums for rank in shared.manifest.ranks.each), "rows came through the client"


@pytest.mark.parametrize("problem", PROBLEMS)
def test_a_limit_needs_no_files(cluster: Any, tmp_path: Path, edges: Path, problem: str) -> None:
    limited = by_cluster(cluster, tmp_path, edges, problem=problem, **{f"max_{problem}": 50})
    assert limited.manifest.n_found == 50
    assert limited.manifest.ranks is not None
    assert not any(rank.writes for rank in limited.manifest.ranks.each)


def lost_once(name: str) -> None:
    """In a worker: end its process when a function is called."""
    setattr(ingest_by_workers, name, lambda *_: os.kill(os.getpid(), signal.SIGKILL))


def test_a_worker_is_killed_while_it_reads(
    cluster: Any, tmp_path: Path, edges: Path, caplog: pytest.LogCaptureFixture
) -> None:
    expected = count(settings(tmp_path, edges)).n_found
    with distributed.Client(cluster) as client:
        client.wait_for_workers(2, timeout=PATIENCE)
        client.run(lost_once, "_share", workers=[max(client.nthreads())])
        assert count(settings(tmp_path, edges, runner="dask", cluster=cluster.scheduler_address)).n_found == expected
        client.wait_for_workers(2, timeout=PATIENCE)
    assert "this process reads the input, and not the workers: worker" in caplog.text


def test_a_count_needs_no_files(cluster: Any, tmp_path: Path, edges: Path) -> None:
    counted = count(settings(tmp_path, edges, runner="dask", cluster=cluster.scheduler_address))
    assert counted.ranks is not None
    assert sum(rank.found for rank in counted.ranks.each) == counted.n_found > 50


@pytest.mark.slow
@pytest.mark.parametrize(("problem", "graph"), [("bicliques", (120, 500, 0.2)), ("cliques", (200, 200, 0.3))])
def test_a_worker_is_killed_with_parts_half_written(
    cluster: Any, tmp_path: Path, problem: str, graph: tuple[int, int, float]
) -> None:
    long = written(tmp_path / "long.csv", *graph)
    alone = run(settings(tmp_path / "alone", long, sort=False, problem=problem))
    out = tmp_path / "cluster"
    with distributed.Client(cluster) as client:
        client.wait_for_workers(2, timeout=60)
        pids = client.run(os.getpid)
    killed: list[Path] = []

    def kill() -> None:
        while not killed:
            begun = [path for path in out.glob(f".staging/*/*.parts/*/{problem}/*.parquet") if path.stat().st_size]
            if begun:
                os.kill(sorted(pids.values())[0], signal.SIGKILL)
                killed.append(begun[0])
            time.sleep(0.02)

    thread = threading.Thread(target=kill, daemon=True)
    thread.start()
    shared = by_cluster(cluster, out, long, sort=False, problem=problem)
    assert killed
    assert shared.manifest.content_fingerprint == alone.manifest.content_fingerprint
    assert rows(shared) == rows(alone)
    assert [path.name for path in (out / ".staging").iterdir()] == [".lock"]
    assert {file.path.partition("/")[0] for file in shared.manifest.files} == {
        file.path.partition("/")[0] for file in alone.manifest.files
    }


def test_contradictory_settings_are_refused(tmp_path: Path, edges: Path) -> None:
    for execution, message in (
        ({"workers": 2}, "execution.workers needs execution.runner dask"),
        ({"cluster": "tcp://host:8786"}, "execution.cluster needs execution.runner dask"),
        ({"runner": "dask", "cluster": "tcp://host:1", "workers": 2}, "leave one of them out"),
        ({"runner": "dask", "engine": "rapids"}, "needs all of a run on local devices"),
    ):
        with pytest.raises((ConfigError, ValueError), match=message):
            settings(tmp_path, edges, **execution)


def test_without_a_scheduler_nothing_is_published(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    edges = written(tmp_path / "edges.csv", 3, 3, 0.5)
    soon = dask.config.set({"distributed.comm.timeouts.connect": "1s"})
    config = settings(tmp_path / "out", edges, runner="dask", cluster="tcp://127.0.0.1:1")
    with soon, pytest.raises(ClusterLost, match=r"tcp://127\.0\.0\.1:1: no scheduler answers there") as caught:
        run(config, on_progress=lambda progress: logging.getLogger(__name__).info("told of %d", progress.n_found))
    assert exit_code(caught.value) == 4
    # No progress of reading is reported while a scheduler is awaited.
    said = [text for text in caplog.messages if text.startswith(("told of", "connecting"))]
    assert said == ["told of 0", "connecting to the scheduler at tcp://127.0.0.1:1"]
    assert not (tmp_path / "out" / "latest").exists()


def test_without_dask_the_extra_is_named(tmp_path: Path, edges: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> None:
        raise ImportError("No module named 'distributed'")

    monkeypatch.setattr("mbe_stage.runners.clusters._distributed", missing)
    with pytest.raises(EngineUnavailable, match=r"pip install 'mbe-stage\[dask\]'"):
        run(settings(tmp_path, edges, runner="dask"))


def test_options_of_the_command_line_name_the_runner() -> None:
    table = publishing(QUERY, max_bicliques=True, members=True)
    for given, expected in (
        ({"cluster": "tcp://host:8786"}, ("dask", "tcp://host:8786", None)),
        ({"workers": 2}, ("dask", None, 2)),
        ({}, ("local", None, None)),
    ):
        execution = configuration(table, {"source": "edges.csv", **given}).execution
        assert (execution.runner, execution.cluster, execution.workers) == expected
    with pytest.raises(ConfigError, match="has its own workers: leave one of them out"):
        configuration(table, {"source": "edges.csv", "cluster": "tcp://host:1", "workers": 2})


@pytest.mark.slow
def test_workers_sums_are_resumed(cluster: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_limits, "_TIMES_ITS_COST", 0.0)
    monkeypatch.setattr(run_limits, "_SHARE_OF_TIME", 0.0)
    long = written(tmp_path / "long.csv", 90, 26, 0.6)

    def asked(out: str, **execution: Any) -> Config:
        return Config.model_validate(
            {
                "input": {"path": str(long)},
                "execution": {"engine": "cpu", "threads": 1, **execution},
                "output": {"directory": str(tmp_path / out), "bicliques": False, "checkpoint_seconds": 0.05},
                "groups": {},
            }
        )

    alone = run(asked("alone"))
    by_workers = asked("out", runner="dask", cluster=cluster.scheduler_address)
    _, records = read_journal(ended_after(1, by_workers))
    assert sum(record.n_found for record in records) > 0
    resumed = run(by_workers, resume=True)
    assert any("and resumed:" in text for text in resumed.manifest.warnings)
    assert resumed.manifest.content_fingerprint == alone.manifest.content_fingerprint
    assert tables(resumed.run_dir) == tables(alone.run_dir)
    assert_nothing_staged(tmp_path / "out")


@pytest.mark.parametrize("resumed_by", ["the cluster", pytest.param("this process", marks=pytest.mark.slow)])
@pytest.mark.parametrize(("problem", "graph"), [("bicliques", (90, 26, 0.6)), ("cliques", (120, 120, 0.4))])
def test_workers_parts_are_resumed(
    cluster: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    resumed_by: str,
    problem: str,
    graph: tuple[int, int, float],
) -> None:
    monkeypatch.setattr(run_limits, "_TIMES_ITS_COST", 0.0)
    monkeypatch.setattr(run_limits, "_SHARE_OF_TIME", 0.0)
    long = written(tmp_path / "long.parquet", *graph)
    alone = run(settings(tmp_path / "alone", long, problem=problem))
    asked = settings(tmp_path / "out", long, problem=problem, runner="dask", cluster=cluster.scheduler_address)
    asked = asked.model_copy(update={"output": asked.output.model_copy(update={"checkpoint_seconds": 0.05})})
    room = ended_after(1, asked)
    _, records = read_journal(room)
    assert sum(record.n_found for record in records) > 0
    if resumed_by == "this process":
        execution = asked.execution.model_copy(update={"runner": "local", "cluster": None})
        asked = asked.model_copy(update={"execution": execution})
    resumed = run(asked, resume=True)
    ranks = resumed.manifest.ranks
    assert (ranks is not None and all(rank.writes for rank in ranks.each)) is (resumed_by == "the cluster")
    assert any("and resumed:" in text for text in resumed.manifest.warnings)
    assert resumed.manifest.content_fingerprint == alone.manifest.content_fingerprint
    assert tables(resumed.run_dir) == tables(alone.run_dir)
    assert_nothing_staged(tmp_path / "out")

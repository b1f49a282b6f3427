"""Workers that do not see the run's directory upload their results to its object store themselves."""

from __future__ import annotations

import json
import logging
import os
import pickle
import random
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

pytest.importorskip("obstore", reason="the extra object-stores is not installed")
pytest.importorskip("moto", reason="the server for tests of object stores is not installed")
pytest.importorskip("distributed", reason="needs Dask: pip install 'mbe-stage[dask]'")

import dask
from dask import distributed

from mbe_stage import Execution, MemoryBudgetExceeded, run_limits
from mbe_stage.pipeline import Config, PublishError, RunResult, run
from mbe_stage.pipeline.backends.arrow import worker_parts
from mbe_stage.pipeline.backends.arrow.worker_parts import Proof, WorkerParts
from mbe_stage.pipeline.execution.ingest import ingest
from mbe_stage.pipeline.execution.journal import begun_journal, read_journal
from mbe_stage.pipeline.execution.steps import enumerate_to, finish
from mbe_stage.pipeline.execution.unfinished import list_unfinished
from mbe_stage.pipeline.publish.manifest import FileEntry, read_manifest
from mbe_stage.pipeline.publish.stored_parts import (
    StoredEntry,
    add_stored,
    forget_stored,
    stored_bytes,
    stored_entries,
    with_stored,
)
from mbe_stage.pipeline.stores import part_objects, transfers
from mbe_stage.pipeline.stores.failures import StoreFailure
from mbe_stage.pipeline.stores.objects import Objects
from mbe_stage.pipeline.stores.open_store import store_at
from mbe_stage.pipeline.stores.part_objects import StoredParts
from mbe_stage.pipeline.stores.remote_staging import RemoteStaging
from mbe_stage.pipeline.stores.remote_store import RemoteStore
from mbe_stage.pipeline.stores.transfers import StoredObject
from mbe_stage.runners import dask_runner
from mbe_stage.runners.lease_work import JobFacts
from mbe_stage.runners.parts import Part, PartFailed
from tests.mbe_stage import graphs
from tests.patience import PATIENCE, begun, output_of
from tests.pipeline import crash_child
from tests.pipeline.forked_workers import workers_are_forked
from tests.pipeline.groups_support import EDGES
from tests.pipeline.groups_support import settings as group_settings
from tests.pipeline.resume_support import Killed, assert_as_undisturbed, noted, values
from tests.pipeline.resume_support import edges as many
from tests.pipeline.slow_workers import SlowBlocks
from tests.pipeline.stores.far_workers import FarWorkers, allow_uploads, refuse_uploads, without_credentials
from tests.pipeline.stores.server import KEY_ID, SECRET, Bucket, Server
from tests.pipeline.test_cli import mbe
from tests.pipeline.test_cluster_faults import hurry
from tests.pipeline.test_worker_parts import bicliques, written

__all__ = ["many"]

PROBLEMS = ("bicliques", "cliques")


@contextmanager
def far_cluster(server: Server, temporary: Path, *plugins: Any) -> Iterator[Any]:
    environment = {
        "AWS_ACCESS_KEY_ID": KEY_ID,
        "AWS_SECRET_ACCESS_KEY": SECRET,
        "AWS_REGION": "us-east-1",
        "AWS_ENDPOINT_URL": server.url,
        "TMPDIR": str(temporary),
    }
    with (
        workers_are_forked(),
        dask.config.set({"temporary-directory": f"{temporary}-dask"}),
        distributed.LocalCluster(
            n_workers=2,
            threads_per_worker=1,
            processes=True,
            dashboard_address="127.0.0.1:0",
            silence_logs=50,
        ) as made,
        distributed.Client(made) as client,
    ):
        for plugin in (FarWorkers(environment), *plugins):
            client.register_plugin(plugin)
        yield made


@pytest.fixture(scope="module")
def cluster(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    temporary = tmp_path_factory.mktemp("of-workers")
    with far_cluster(server, temporary) as made:
        yield made
        # A worker that was given the same roots twice may still be searching.
        end = time.monotonic() + 60
        while (left := sorted(temporary.rglob("*"))) and time.monotonic() < end:
            time.sleep(0.1)
        assert left == []


@pytest.fixture(scope="module")
def edges(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("edges") / "edges.csv"
    left, right = graphs.from_matrix(graphs.random_matrix(3, 40, 60, 0.3)).edges()
    path.write_text("".join(f"{u},{v}\n" for u, v in zip(left.tolist(), right.tolist(), strict=True)))
    return path


@pytest.fixture
def moved(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[str]]:
    """Names of the row files that this process uploads and downloads."""
    names: dict[str, list[str]] = {"up": [], "down": []}
    upload, download = Objects._upload, Objects._download

    def noted_up(objects: Objects, path: Path, name: str, *given: Any) -> None:
        names["up"].append(name)
        upload(objects, path, name, *given)

    def noted_down(objects: Objects, name: str, *given: Any) -> None:
        names["down"].append(name)
        download(objects, name, *given)

    monkeypatch.setattr(Objects, "_upload", noted_up)
    monkeypatch.setattr(Objects, "_download", noted_down)
    return names


def settings(out: object, edges: Path, *, problem: str = "bicliques", output: Any = None, **execution: Any) -> Config:
    return Config.from_mapping(
        {
            "problem": problem,
            "input": {"path": str(edges)},
            "execution": {"engine": "cpu", "threads": 1, **execution},
            "output": {
                "directory": str(out),
                "report": problem == "bicliques",
                "members": problem == "bicliques",
                **(output or {}),
            },
        }
    )


def by_cluster(cluster: Any, out: object, edges: Path, **asked: Any) -> RunResult:
    return run(settings(out, edges, runner="dask", cluster=cluster.scheduler_address, **asked))


def rows(result: RunResult, name: str) -> pa.Table:
    found = pq.read_table(result.run_dir / name)
    return found.sort_by([(column, "ascending") for column in found.column_names if "key" in column or column == "id"])


def rows_of(names: list[str]) -> list[str]:
    return [name for name in names if {"bicliques", "members", "cliques"} & set(name.split("/"))]


def assert_published(bucket: Bucket, result: RunResult) -> None:
    """Assert that the bucket holds exactly the files of the manifests and that the run is sound."""
    of_runs = {key for key in bucket.listed("out/runs") if key.endswith("/manifest.json")}
    assert len(of_runs) >= 1
    below = f"out/runs/{result.manifest.run_id}"
    files = [f"{below}/{entry.path}" for entry in result.manifest.files]
    assert bucket.listed(below) == sorted([*files, f"{below}/manifest.json"])
    assert bucket.listed("out/.staging") == []
    shown = mbe("verify", result.address, "--input", result.manifest.input.source)
    assert shown.exit_code == 0, shown.output


@pytest.mark.parametrize("problem", PROBLEMS)
def test_parts_go_from_workers_to_the_run(
    cluster: Any, bucket: Bucket, edges: Path, tmp_path: Path, moved: dict[str, list[str]], problem: str
) -> None:
    shared = by_cluster(cluster, f"{bucket.url}/out", edges, problem=problem)
    assert rows_of(moved["up"]) == rows_of(moved["down"]) == [], "rows passed through this process"
    assert not (shared.place / problem).exists() or not list((shared.place / problem).iterdir())
    alone = run(settings(tmp_path / "alone", edges, problem=problem))
    assert shared.manifest.content_fingerprint == alone.manifest.content_fingerprint
    assert shared.manifest.counts == alone.manifest.counts
    assert shared.manifest.ranks is not None
    assert all(rank.writes and rank.bytes > 0 for rank in shared.manifest.ranks.each)
    assert_published(bucket, shared)
    # A reader of the run gets all rows.
    assert rows(shared, problem) == rows(alone, problem)
    assert rows_of(moved["down"])
    assert sorted(shared.tables) == sorted(alone.tables)
    assert read_manifest(shared.run_dir) == shared.manifest


@pytest.mark.parametrize("sort", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["as found", "sorted"])
def test_groups_are_made_of_fetched_parts(
    cluster: Any, bucket: Bucket, tmp_path: Path, moved: dict[str, list[str]], sort: bool
) -> None:
    def published(out: object, **execution: Any) -> RunResult:
        asked = {"engine": "cpu", "threads": 1, **execution}
        return run(group_settings(out, execution=asked, output={"sort": sort}), EDGES)  # type: ignore[arg-type]

    shared = published(f"{bucket.url}/out", runner="dask", cluster=cluster.scheduler_address)
    alone = published(tmp_path / "alone")
    assert shared.manifest.derived == alone.manifest.derived
    for name in ("groups", "group_members", "vertex_scores"):
        assert shared.tables[name].equals(alone.tables[name])
    assert rows(shared, "bicliques") == rows(alone, "bicliques")
    assert shared.manifest.ranks is not None
    assert all(rank.writes for rank in shared.manifest.ranks.each)
    fetched = [name for name in moved["down"] if ".staging" in name]
    assert fetched
    assert {Path(name).suffix for name in fetched} == {".arrow" if sort else ".parquet"}
    assert bucket.listed("out/.staging") == []


def test_parts_to_sort_are_fetched(
    cluster: Any, bucket: Bucket, edges: Path, tmp_path: Path, moved: dict[str, list[str]]
) -> None:
    shared = by_cluster(cluster, f"{bucket.url}/out", edges, output={"sort": True})
    assert [name for name in moved["down"] if name.endswith(".arrow")]
    alone = run(settings(tmp_path / "alone", edges, output={"sort": True}))
    assert {entry.path: entry.sha256 for entry in shared.manifest.files if "part-" in entry.path} == {
        entry.path: entry.sha256 for entry in alone.manifest.files if "part-" in entry.path
    }
    assert_published(bucket, shared)


def one_edge_less(edges: Path, tmp_path: Path) -> Path:
    """A copy of the edges without the last one: another input, the same query."""
    path = tmp_path / edges.name
    path.write_text("".join(edges.read_text().splitlines(keepends=True)[:-1]))
    return path


def test_each_run_is_compared_with_the_one_before(
    cluster: Any, bucket: Bucket, edges: Path, tmp_path: Path, moved: dict[str, list[str]], caplog: Any
) -> None:
    fewer = one_edge_less(edges, tmp_path)
    first = by_cluster(cluster, f"{bucket.url}/out", edges)
    second = by_cluster(cluster, f"{bucket.url}/out", edges)
    assert second.manifest.comparison is not None
    assert second.manifest.comparison.run_id == first.manifest.run_id
    assert second.manifest.comparison.n_same == second.manifest.n_found
    # No row is fetched, because the bicliques are the same.
    assert rows_of(moved["up"]) == rows_of(moved["down"]) == []
    assert_published(bucket, second)

    third = by_cluster(cluster, f"{bucket.url}/out", fewer)
    found = third.manifest.comparison
    assert found is not None
    assert found.run_id == second.manifest.run_id
    assert sum(found.counts.values()) > 0
    # Its own parts were downloaded for the comparison, but copied within the store.
    assert any(".staging" in name for name in rows_of(moved["down"]))
    assert rows_of(moved["up"]) == []
    assert_published(bucket, third)

    # A failed comparison does not fail the run.
    for given, where in ((edges, ".staging"), (fewer, "runs/")):
        caplog.clear()
        with store_that_fails_in(where):
            result = by_cluster(cluster, f"{bucket.url}/out", given)
        found = result.manifest.comparison
        assert found is not None
        assert "the two could not be compared: " in found.remarks[0]
        assert "the store does not answer" in found.remarks[0]
        assert "could not be compared with: " in caplog.text
        assert_published(bucket, result)


@contextmanager
def store_that_fails_in(where: str) -> Iterator[None]:
    """Download only half of each Parquet file below a place; a run must ignore it."""
    download = Objects._download

    def ends_early(objects: Objects, name: str, path: Path, *given: Any) -> None:
        download(objects, name, path, *given)
        if name.startswith(where) and name.endswith(".parquet"):
            path.write_bytes(path.read_bytes()[:9])
            raise StoreFailure(5, "the store does not answer", f"{objects.address}/{name}", "try again")

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Objects, "_download", ends_early)
        yield


def test_workers_without_credentials_send_their_results(
    cluster: Any, bucket: Bucket, edges: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with distributed.Client(cluster) as client:
        client.wait_for_workers(2, timeout=PATIENCE)
        one = sorted(client.nthreads())[0]
        environment = client.run(lambda: dict(os.environ), workers=[one])[one]
        client.run(without_credentials, workers=[one])
        try:
            with caplog.at_level(logging.WARNING):
                shared = by_cluster(cluster, f"{bucket.url}/out", edges)
        finally:
            client.run(os.environ.update, environment, workers=[one])
    assert f"worker {one}: {bucket.url}/out: cannot be written from" in caplog.text
    assert "give it the store's credentials and the extra that reads it to avoid that" in caplog.text
    assert shared.manifest.ranks is not None
    assert {rank.name: rank.writes for rank in shared.manifest.ranks.each if rank.found} == {
        rank.name: rank.name != one for rank in shared.manifest.ranks.each if rank.found
    }
    alone = run(settings(tmp_path / "alone", edges))
    assert shared.manifest.content_fingerprint == alone.manifest.content_fingerprint
    assert rows(shared, "members").num_rows == rows(alone, "members").num_rows
    assert_published(bucket, shared)


def test_credentials_are_not_sent(
    cluster: Any, bucket: Bucket, edges: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    sent: list[bytes] = []

    def noted(*given: Any) -> JobFacts:
        sent.append(pickle.dumps(JobFacts(*given), protocol=5))
        return JobFacts(*given)

    monkeypatch.setattr(dask_runner, "JobFacts", noted)
    with caplog.at_level(logging.DEBUG):
        shared = by_cluster(cluster, f"{bucket.url}/out", edges)
    everything = b"".join([*sent, *map(bucket.get, bucket.listed()), caplog.text.encode()])
    assert b"StoredParts" in sent[0]
    assert f"{bucket.url}/out".encode() in sent[0]
    for secret in (SECRET, KEY_ID):
        assert secret.encode() not in everything
    assert shared.manifest.ranks is not None
    assert all(rank.writes for rank in shared.manifest.ranks.each)


# --- failures ------------------------------------------------------------------------------------------------------


def at_publication(monkeypatch: pytest.MonkeyPatch, happens: Any) -> None:
    """Call `happens` once all results are found and none is published."""
    claim = RemoteStaging._claim

    def and_then(staging: RemoteStaging, before: Any) -> str:
        happens(staging)
        return claim(staging, before)

    monkeypatch.setattr(RemoteStaging, "_claim", and_then)


@pytest.mark.parametrize(
    ("change", "said"), [("lost", "is missing"), pytest.param("cut", "has 4 bytes", marks=pytest.mark.slow)]
)
def test_a_part_that_is_not_there_is_refused(
    cluster: Any, bucket: Bucket, edges: Path, monkeypatch: pytest.MonkeyPatch, change: str, said: str
) -> None:
    def damage(staging: RemoteStaging) -> None:
        name = next(iter(stored_entries(staging.path).values())).name
        staging._remote.objects.delete([name])
        if change == "cut":
            bucket.put(f"out/{name}", b"PAR1")

    at_publication(monkeypatch, damage)
    with pytest.raises(PublishError, match=rf"part-\d+\.parquet: {said}; expected .* as stored by a worker"):
        by_cluster(cluster, f"{bucket.url}/out", edges)
    assert bucket.listed() == []


@pytest.mark.slow
def test_of_two_runs_at_once_one_wins(
    cluster: Any, bucket: Bucket, edges: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    results: list[RunResult] = []
    send = RemoteStaging._send

    def behind_another(staging: RemoteStaging, before: Any) -> None:
        monkeypatch.setattr(RemoteStaging, "_send", send)
        results.append(by_cluster(cluster, f"{bucket.url}/out", edges))
        send(staging, before)

    monkeypatch.setattr(RemoteStaging, "_send", behind_another)
    with pytest.raises(PublishError, match="another run was published while this one was uploaded"):
        by_cluster(cluster, f"{bucket.url}/out", edges)
    assert_published(bucket, results.pop())


def test_late_and_duplicate_parts_count_once(bucket: Bucket, tmp_path: Path) -> None:
    found, below = bicliques(), ".staging/run.parts/attempt"
    (tmp_path / "run").mkdir()
    parts = WorkerParts(tmp_path / "run.parts", found.sink, tmp_path / "run", StoredParts(f"{bucket.url}/out", below))
    there = Proof("worker", "text", is_stored=True)
    with found.sink(tmp_path / "run", parts=parts) as sink:
        taken = [written(parts, f"lease-{i}", blocks, there) for i, blocks in enumerate(found.leases)]
        again = written(parts, "lease-0-again", found.leases[0], there)
        for part in [*taken, Part(0, None)]:
            sink.take_part(part)
        assert again.made.n_bytes > 0
        assert len(bucket.listed("out/.staging")) == 1 + sum(len(part.made.stored) for part in [*taken, again])
    assert sink.summary.fingerprint.n_items == sum(part.n for part in taken)
    booked = stored_entries(tmp_path / "run")
    assert bucket.listed() == sorted(f"out/{entry.name}" for entry in booked.values())
    with pytest.raises(PartFailed, match="no process accepts parts any more"):
        written(parts, "late", found.leases[0], there)
    assert len(bucket.listed()) == len(booked)
    part_objects.fetch_missing(tmp_path / "run")
    (tmp_path / "alone").mkdir()
    with found.sink(tmp_path / "alone") as alone:
        for block in (block for blocks in found.leases for block in blocks):
            alone.accept(block)
    assert found.keys(tmp_path / "run") == found.keys(tmp_path / "alone")
    assert found.sums(sink) == found.sums(alone)
    name = next(iter(booked.values())).name
    bucket.put(f"out/{name}", bytes(10))
    with pytest.raises(PublishError, match="has changed since a worker wrote it"):
        parts.fetched(replace(taken[0].made, stored=[each for each in booked.values() if each.name == name]))
    assert not [path for path in parts.directory.rglob("*") if path.is_file()], "what has changed is nowhere here"


def far_parts(bucket: Bucket, tmp_path: Path) -> WorkerParts:
    """Parts of a run whose directory a worker does not see."""
    (tmp_path / "run").mkdir(exist_ok=True)
    store = StoredParts(f"{bucket.url}/out", ".staging/run.parts/attempt")
    return WorkerParts(tmp_path / "run.parts", bicliques().sink, tmp_path / "run", store)


def proven(parts: WorkerParts, proof: Proof | None) -> bool:
    return "worker" in parts.proven({"worker": proof})


def test_reasons_why_a_worker_sends_its_results(bucket: Bucket, tmp_path: Path, monkeypatch: Any) -> None:
    here = far_parts(bucket, tmp_path)
    parts = replace(here, directory=tmp_path / "elsewhere")
    with here.opened():
        proof = parts.prove()
        assert proof.is_stored
        assert proven(parts, proof)
        assert not proven(parts, replace(proof, name="another"))
        assert not here.prove().is_stored, "a worker that sees the directory writes there"
        assert "objects written there cannot be read here; its results are sent" in parts.what_is_sent(proof)
        monkeypatch.setitem(sys.modules, "obstore.store", None)
        missing = parts.prove()
        assert "needs a package that is not installed" in missing.why_not
        assert str(missing.why_not) in parts.what_is_sent(missing)


def test_failed_proofs_are_explained(bucket: Bucket, tmp_path: Path, monkeypatch: Any) -> None:
    parts = replace(here := far_parts(bucket, tmp_path), directory=tmp_path / "elsewhere")
    goes_on = threading.Event()
    create = Objects.create

    def raising(*_: Any) -> None:
        raise RuntimeError("the token is 12345")

    def hanging(*given: Any) -> Any:
        goes_on.wait(PATIENCE)
        return create(*given)

    with here.opened():
        monkeypatch.setattr(Objects, "create", raising)
        assert parts.prove().why_not.endswith("(RuntimeError)")
        monkeypatch.setattr(worker_parts, "_PROVE_SECONDS", 0.05)
        monkeypatch.setattr(Objects, "create", hanging)
        slow = parts.prove()
        assert not proven(parts, slow)
        assert "(no answer within 0 s); its results are sent" in parts.what_is_sent(slow)
    # The request is answered after the run.
    (thread,) = [each for each in threading.enumerate() if each.name == "prove"]
    goes_on.set()
    thread.join(PATIENCE)
    assert bucket.listed() == []


def test_the_store_is_asked_once_for_all_proofs(bucket: Bucket, tmp_path: Path, monkeypatch: Any) -> None:
    parts = replace(here := far_parts(bucket, tmp_path), directory=tmp_path / "elsewhere")
    asked, listed = [], Objects.listed

    def noted_listed(objects: Objects, below: str = "") -> Any:
        asked.append(below)
        return listed(objects, below)

    with here.opened():
        proofs = {f"worker {n}": parts.prove() for n in range(3)} | {"none": None, "here": here.prove()}
        with monkeypatch.context() as patched:
            patched.setattr(Objects, "listed", noted_listed)
            patched.delattr(Objects, "_download")
            assert parts.proven(proofs) == {"worker 0", "worker 1", "worker 2"}
    assert len(asked) == 1


def test_uploads_during_the_end_of_a_run_are_removed(bucket: Bucket, tmp_path: Path, monkeypatch: Any) -> None:
    parts, leases, there = far_parts(bucket, tmp_path), bicliques().leases, Proof("worker", "", is_stored=True)
    upload = Objects.upload
    with ExitStack() as run_of_parts:
        run_of_parts.enter_context(parts.opened())

        def while_it_ends(*given: Any) -> None:
            # The run had nothing to remove.
            run_of_parts.close()
            assert bucket.listed() == []
            upload(*given)

        monkeypatch.setattr(Objects, "upload", while_it_ends)
        with pytest.raises(PartFailed, match="no process accepts parts any more"):
            written(parts, "lease", leases[0], there)
    assert bucket.listed() == []


def test_uploads_during_the_removal_of_parts_are_removed(bucket: Bucket, tmp_path: Path, monkeypatch: Any) -> None:
    """The part is not recorded, and its worker fails."""
    parts, delete = far_parts(bucket, tmp_path), Objects.delete
    late = iter(["late"])

    def and_one_comes(objects: Objects, names: list[str]) -> None:
        delete(objects, names)
        if not any(name.endswith(part_objects.OPEN) for name in names):
            for name in late:
                bucket.put(f"out/.staging/run.parts/attempt/{name}", b"PAR1")

    with parts.opened():
        written(parts, "lease", bicliques().leases[0], Proof("worker", "", is_stored=True))
        assert len(bucket.listed()) > 1
        monkeypatch.setattr(Objects, "delete", and_one_comes)
    assert list(late) == [], "one came"
    assert bucket.listed() == []


def test_a_failed_upload_fails_the_lease(bucket: Bucket, tmp_path: Path, monkeypatch: Any) -> None:
    parts, leases, there = far_parts(bucket, tmp_path), bicliques().leases, Proof("worker", "", is_stored=True)
    upload, uploaded = Objects._upload, []

    def refused(objects: Objects, path: Path, name: str, *given: Any) -> None:
        if uploaded:
            raise StoreFailure(13, "access denied (403)", f"{objects.address}/{name}", "check the credentials")
        uploaded.append(name)
        upload(objects, path, name, *given)

    with parts.opened():
        with monkeypatch.context() as patched:
            patched.setattr(transfers, "AT_ONCE", 1)
            patched.setattr(Objects, "_upload", refused)
            with pytest.raises(PartFailed, match=r"\.parquet: access denied \(403\)$"):
                written(parts, "refused", leases[0], there)
        assert uploaded
        assert len(bucket.listed()) == 1, "its uploaded parts are removed at once"
        with monkeypatch.context() as patched:
            patched.setattr(tempfile, "tempdir", str(tmp_path / "full"))
            with pytest.raises(PartFailed, match=r"full.*: No such file or directory$"):
                written(parts, "no room", leases[0], there)
        # An error of the search itself ends it.
        with (
            pytest.raises(MemoryBudgetExceeded),
            parts.open("too much", Execution(), there),
        ):
            raise MemoryBudgetExceeded("too much", needed_bytes=1)


def test_a_lease_ends_when_the_disk_of_its_host_holds_enough(bucket: Bucket, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(worker_parts, "MOST_HELD_BYTES", 100)
    parts = far_parts(bucket, tmp_path)
    with parts.opened():
        for proof, is_bounded in ((Proof("worker", "", is_stored=True), True), (Proof("worker", ""), False)):
            with parts.open(f"lease {is_bounded}", Execution(), proof) as sink:
                assert not sink.is_full
                assert sink._directory.is_dir()
                (sink._directory / "part").write_bytes(bytes(101))
                assert sink.is_full is is_bounded
                (sink._directory / "part").unlink()


def test_fetched_parts_that_cannot_be_removed_do_not_fail_the_run(
    bucket: Bucket, tmp_path: Path, monkeypatch: Any, caplog: pytest.LogCaptureFixture
) -> None:
    parts = far_parts(bucket, tmp_path)

    def refused(objects: Objects, names: list[str]) -> None:
        raise StoreFailure(13, f"access denied to {len(names)}", str(objects.address), "check the credentials")

    with parts.opened():
        part = written(parts, "lease", bicliques().leases[0], Proof("worker", "", is_stored=True))
        with monkeypatch.context() as patched, caplog.at_level(logging.INFO):
            patched.setattr(Objects, "delete", refused)
            fetched = parts.fetched(part.made)
        fetched.check_arrived()
        assert fetched.n_bytes == part.made.n_bytes
        assert "could not be removed yet (access denied to" in caplog.text
    assert bucket.listed() == []


@pytest.mark.parametrize(("output", "is_there"), [("s3://bucket/out", True), ("out", False)])
def test_parts_go_to_object_stores(tmp_path: Path, output: str, is_there: bool) -> None:
    config = settings(output, tmp_path / "edges.csv", runner="dask", cluster="tcp://host:1")
    collecting: Any = SimpleNamespace(config=config, run_path=tmp_path / "run", derived=())
    parts = worker_parts.parts_of(collecting, bicliques().sink)
    assert isinstance(parts, WorkerParts)
    assert (parts.store is not None) is is_there


def test_workers_whose_uploads_fail_send_their_results(
    cluster: Any, bucket: Bucket, edges: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Uploads fail although the workers have proven that they can upload."""
    with distributed.Client(cluster) as client:
        client.wait_for_workers(2, timeout=PATIENCE)
        client.run(refuse_uploads)
        try:
            with caplog.at_level(logging.WARNING):
                shared = by_cluster(cluster, f"{bucket.url}/out", edges)
        finally:
            client.run(allow_uploads)
    said = [text for text in caplog.messages if text.endswith("what it finds is sent here from now on")]
    assert 1 <= len(said) <= 2
    assert all("access denied (403)" in text for text in said)
    assert "nothing was published" not in caplog.text
    assert shared.manifest.ranks is not None
    assert not any(rank.writes for rank in shared.manifest.ranks.each)
    alone = run(settings(tmp_path / "alone", edges))
    assert shared.manifest.content_fingerprint == alone.manifest.content_fingerprint
    assert_published(bucket, shared)


def test_records_of_an_earlier_attempt_are_forgotten(bucket: Bucket, edges: Path, tmp_path: Path) -> None:
    """The next attempt may use no store."""
    config = settings(tmp_path / "out", edges)
    run_path = tmp_path / "room" / "run"
    run_path.mkdir(parents=True)
    entry = StoredEntry(path="run/bicliques/part-00007.parquet", bytes=1, sha256="", store=bucket.url, name="y")
    add_stored(run_path, entry)
    assert stored_bytes(run_path) == 1
    facts = enumerate_to(ingest(config.input), config, run_path)
    assert stored_entries(run_path) == {}
    manifest = finish(run_path, ingest(config.input).facts, config, facts)
    assert manifest.n_found > 0
    assert not any("00007" in each.path for each in manifest.files)


def test_fetched_parts_keep_their_checksum(tmp_path: Path) -> None:
    """Its checksum is that of the object in the store, which publication copies."""
    entry = StoredEntry(path="run/part-1", bytes=3, sha256="theirs", store="s3://bucket", name="y")
    add_stored(tmp_path / "run", entry)
    here = [FileEntry(path=path, bytes=3, sha256="ours") for path in ("part-0", "part-1")]
    assert [(each.path, each.sha256) for each in with_stored(tmp_path / "run", here)] == [
        ("part-0", "ours"),
        ("part-1", "theirs"),
    ]
    forget_stored(tmp_path / "run")
    assert list(with_stored(tmp_path / "run", here)) == here


def test_a_run_that_is_over_has_nothing_in_memory(bucket: Bucket) -> None:
    entry = StoredEntry(path="part", bytes=3, sha256="", store=bucket.url, name="y")
    store = store_at(f"{bucket.url}/out")
    with store.begin() as staging:
        for _ in range(2):
            add_stored(staging.path, entry)
        assert stored_bytes(staging.path) == 3
    assert stored_entries(staging.path) == {}
    store.close()


@pytest.mark.slow
def test_a_store_that_cannot_copy(cluster: Any, bucket: Bucket, edges: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(Objects, "copy")
    assert_published(bucket, by_cluster(cluster, f"{bucket.url}/out", edges))


def test_leftovers_of_workers_go_together(bucket: Bucket) -> None:
    below = ".staging/20200101T000000Z-00000"
    assert part_objects.group_of(f"{below}1.parts/attempt/lease/part-0.parquet") == f"{below}1.parts"
    assert part_objects.group_of(f"{below}1") == f"{below}1"
    for n in (1, 2):
        bucket.put(f"out/{below}{n}.parts/attempt/lease/bicliques/part-00000.parquet", b"PAR1")
    store = store_at(f"{bucket.url}/out")
    assert isinstance(store, RemoteStore)
    assert store.clean() == []
    listed = store.objects.listed

    def one_is_old(name: str) -> list[StoredObject]:
        """One of two objects of the first run is old, and the only one of the second."""
        past = datetime(2020, 1, 1, tzinfo=UTC)
        old = [replace(each, modified=past) if each.name.endswith(".parquet") else each for each in listed(name)]
        return [*old, replace(old[0], name=f"{below}1.parts/new", modified=datetime.now(UTC))] if old else old

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(store.objects, "listed", one_is_old)
        assert [name.split("/")[1] for name in store.remove_leftovers()] == ["20200101T000000Z-000002.parts"]
    assert len(bucket.listed()) == 1
    store.close()


# --- ended, killed and resumed runs --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def slow_cluster(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A cluster on which a search takes a second or more."""
    with far_cluster(server, tmp_path_factory.mktemp("of-slow-workers"), SlowBlocks(0.003)) as made:
        yield made


@pytest.fixture
def out(bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> str:
    """Output address, with short leases and as many checkpoints as possible."""
    monkeypatch.setattr(run_limits, "_TIMES_ITS_COST", 0.0)
    monkeypatch.setattr(run_limits, "_SHARE_OF_TIME", 0.0)
    hurry(monkeypatch)
    return f"{bucket.url}/out"


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory, many: Path) -> Path:
    return run(Config.from_mapping(values(tmp_path_factory.mktemp("alone"), many, output=UNSORTED))).run_dir


UNSORTED = {"members": True, "checkpoint_seconds": 0.05}


def of_many(of_workers: Any, out: str, many: Path, **execution: Any) -> Config:
    asked = {"runner": "dask", "cluster": of_workers.scheduler_address, "threads": 1, **execution}
    return Config.from_mapping(values(out, many, output=UNSORTED, execution=asked))


def assert_whole(bucket: Bucket, result: RunResult, undisturbed: Path, many: Path) -> None:
    assert_as_undisturbed(result.run_dir, undisturbed, many)
    assert bucket.listed("out/.staging") == []
    assert list_unfinished(f"{bucket.url}/out") == []


@pytest.mark.parametrize("rounds", [1, pytest.param(20, marks=pytest.mark.slow)])
def test_workers_are_killed_at_random_moments(
    slow_cluster: Any, bucket: Bucket, out: str, many: Path, undisturbed: Path, rounds: int
) -> None:
    seed = random.randrange(10**6)
    dice = random.Random(seed)
    for attempt in range(rounds):
        with noted(attempt, seed), distributed.Client(slow_cluster) as client:
            client.wait_for_workers(2, timeout=PATIENCE)
            pid = dice.choice(sorted(client.run(os.getpid).values()))
            has_begun = threading.Event()

            def kill(pid: int = pid, has_begun: threading.Event = has_begun, after: float = dice.random()) -> None:
                has_begun.wait(PATIENCE)
                time.sleep(after)
                os.kill(pid, signal.SIGKILL)

            thread = threading.Thread(target=kill, daemon=True)
            thread.start()
            result = run(of_many(slow_cluster, out, many), on_progress=lambda _, begun=has_begun: begun.set())
            thread.join(PATIENCE)
            assert_whole(bucket, result, undisturbed, many)


def ended(config: Config) -> tuple[Path, list[StoredEntry]]:
    """End a run once it has two checkpoints; return its staging directory and its recorded parts."""
    place = str(config.output.directory)

    def on_progress(_: object) -> None:
        if any(len(each.records) > 1 for each in list_unfinished(place)):
            raise Killed

    with pytest.raises(Killed):
        run(config, on_progress=on_progress)
    (kept,) = list_unfinished(place)
    booked = [entry for record in kept.records for entry in record.files]
    assert all(isinstance(entry, StoredEntry) for entry in booked)
    return kept.staging_dir, booked  # type: ignore[return-value]


@pytest.mark.parametrize(
    "damage", [pytest.param("none", marks=pytest.mark.slow), "lost", pytest.param("changed", marks=pytest.mark.slow)]
)
def test_parts_in_the_store_are_resumed(
    slow_cluster: Any, bucket: Bucket, out: str, many: Path, undisturbed: Path, damage: str, caplog: Any
) -> None:
    staging_dir, booked = ended(of_many(slow_cluster, out, many))
    # Recorded parts stay, and no worker may add to them.
    assert {f"out/{entry.name}" for entry in booked} <= set(bucket.listed())
    assert not any(name.endswith(part_objects.OPEN) for name in bucket.listed())
    assert not any((staging_dir / entry.path).exists() for entry in booked)
    if damage == "lost":
        store_at(out).objects.delete([booked[0].name])  # type: ignore[attr-defined]
    elif damage == "changed":
        content = bucket.get(f"out/{booked[0].name}")
        bucket.put(f"out/{booked[0].name}", content[:9] + bytes([content[9] ^ 1]) + content[10:])
    caplog.clear()
    result = run(of_many(slow_cluster, out, many), resume=True)
    assert any("and resumed:" in text for text in result.manifest.warnings)
    said = {"lost": "is missing: ", "changed": "has changed since it was written: "}.get(damage, "")
    assert ("results are searched again" in caplog.text) is (damage != "none")
    assert said in caplog.text
    assert_whole(bucket, result, undisturbed, many)


def test_resuming_moves_parts_out_of_the_store(slow_cluster: Any, bucket: Bucket, out: str, many: Path) -> None:
    """Later uploads for the ended run are refused."""
    staging_dir, booked = ended(of_many(slow_cluster, out, many))
    attempt = booked[0].name.rsplit("/", 3)[0]
    bucket.put(f"out/{attempt}/{part_objects.OPEN}", b"as a killed process leaves it")
    header, records = read_journal(staging_dir)
    journal = begun_journal(staging_dir, header)
    assert bucket.listed("out/.staging") == []
    assert journal.n_found == sum(record.n_found for record in records) > 0
    assert all((staging_dir / entry.path).is_file() for entry in booked)
    _, again = read_journal(staging_dir)
    assert not any(isinstance(entry, StoredEntry) for record in again for entry in record.files)
    assert mbe("clean", out).exit_code == 0


@pytest.mark.slow
def test_this_process_resumes_a_cluster_run(
    slow_cluster: Any, bucket: Bucket, out: str, many: Path, undisturbed: Path
) -> None:
    ended(of_many(slow_cluster, out, many))
    result = run(of_many(slow_cluster, out, many, runner="local", cluster=None), resume=True)
    assert result.manifest.ranks is None
    assert_whole(bucket, result, undisturbed, many)


def test_mbe_clean_removes_the_parts(slow_cluster: Any, bucket: Bucket, out: str, many: Path) -> None:
    staging_dir, booked = ended(of_many(slow_cluster, out, many))
    removed = json.loads(mbe("clean", out, "--json").stdout)["removed"]
    assert {str(staging_dir), *(f"{out}/{entry.name}" for entry in booked)} <= set(removed)
    assert bucket.listed() == []


@pytest.mark.slow
def test_a_run_ended_by_a_limit_of_bytes_is_resumed(
    slow_cluster: Any, bucket: Bucket, out: str, many: Path, undisturbed: Path
) -> None:
    cut = run(of_many(slow_cluster, out, many, max_output_bytes=100_000))
    assert cut.manifest.truncated == "stopped at max_output_bytes = 100000"
    assert sum(entry.bytes for entry in cut.manifest.files if "part-" in entry.path) >= 100_000
    assert bucket.listed("out/.staging"), "the resumable parts"
    result = run(of_many(slow_cluster, out, many), resume=True)
    assert_whole(bucket, result, undisturbed, many)
    assert sorted(cut.tables) == sorted(result.tables), "the earlier run is unchanged"


@pytest.mark.slow
def test_this_process_is_killed_at_random_moments_and_the_run_resumed(
    slow_cluster: Any, bucket: Bucket, out: str, many: Path, undisturbed: Path
) -> None:
    config = of_many(slow_cluster, out, many)
    asked = json.dumps(config.model_dump(mode="json", exclude_defaults=True))
    environment = {**os.environ, "PYTHONPATH": str(Path(crash_child.__file__).parents[2])}
    seed = random.randrange(10**6)
    dice = random.Random(seed)
    for attempt in range(5):
        with noted(attempt, seed):
            child = begun([sys.executable, crash_child.__file__, asked, many], stdin=-1, text=True, env=environment)
            assert child.stdin is not None
            child.stdin.write("go\n")
            child.stdin.flush()
            end = time.monotonic() + PATIENCE
            while not (found := list_unfinished(out)) or not found[0].records:
                assert time.monotonic() < end
                time.sleep(0.01)
            time.sleep(0.5 * dice.random())
            os.kill(child.pid, signal.SIGKILL)
            output_of(child)
            (kept,) = list_unfinished(out)
            assert not kept.is_running
            assert bucket.listed("out/.staging")
            result = run(config, resume=True)
            assert any("and resumed:" in text for text in result.manifest.warnings)
            assert_whole(bucket, result, undisturbed, many)


@pytest.mark.slow
@pytest.mark.usefixtures("bucket")
def test_the_store_is_lost_during_a_run(
    tmp_path: Path, many: Path, undisturbed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_limits, "_TIMES_ITS_COST", 0.0)
    monkeypatch.setattr(run_limits, "_SHARE_OF_TIME", 0.0)
    hurry(monkeypatch)
    own = Server()
    monkeypatch.setenv("AWS_ENDPOINT_URL", own.url)
    own.post("/own", method="PUT")
    (tmp_path / "of-workers").mkdir()
    with far_cluster(own, tmp_path / "of-workers", SlowBlocks(0.003)) as cluster:
        config = of_many(cluster, "s3://own/out", many)

        def kill(_: object) -> None:
            if any(each.n_found for each in list_unfinished("s3://own/out")):
                own.kill()

        with pytest.raises(PublishError, match=r"does not answer; nothing was published; .*try again") as error:
            run(config, on_progress=kill)
        assert SECRET not in str(error.value)
        own.start()
        own.post("/own", method="PUT")
        # The server has lost everything, so everything is searched again.
        result = run(config, resume=True)
        assert_as_undisturbed(result.run_dir, undisturbed, many)

"""Runs published in an object store: the same content as on disk, one writer at a time, nothing of failed runs."""

from __future__ import annotations

import errno
import json
import os
import threading
from datetime import datetime, timedelta, tzinfo
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("obstore", reason="the extra object-stores is not installed")
pytest.importorskip("moto", reason="the server for tests of object stores is not installed")

from mbe_stage import pipeline
from mbe_stage.pipeline import PublishError
from mbe_stage.pipeline.stores import latest_pointer as pointer_module
from mbe_stage.pipeline.stores import objects, remote_store, transfers
from mbe_stage.pipeline.stores.failures import StoreFailure
from mbe_stage.pipeline.stores.latest_pointer import ConditionalObject
from mbe_stage.pipeline.stores.objects import Objects
from mbe_stage.pipeline.stores.open_store import holds_runs, opened_run, store_at
from mbe_stage.pipeline.stores.remote_staging import RemoteStaging
from tests.pipeline.stores.server import KEY_ID, SECRET, Bucket, Server
from tests.pipeline.stores.writers import (
    FEWER,
    at_once,
    come_before,
    interrupt_an_upload,
    publish,
    published,
)
from tests.pipeline.test_cli import EDGES, answer, mbe


def pointer(bucket: Bucket, prefix: str = "out") -> dict:
    return json.loads(bucket.get(f"{prefix}/latest"))


# --- published content ---------------------------------------------------------------------------------------------


def test_runs_equal_those_on_disk(bucket: Bucket, tmp_path: Path) -> None:
    options = {"report": True, "members": True, "sort": True}
    here, there = publish(tmp_path / "out", **options), publish(f"{bucket.url}/out", **options)
    assert there.address == f"{bucket.url}/out/runs/{there.manifest.run_id}"
    assert there.manifest.content_fingerprint == here.manifest.content_fingerprint
    assert list(there.tables) == list(here.tables)
    assert all(there.tables[name].equals(here.tables[name]) for name in here.tables)
    # The bucket holds exactly the files of the manifest.
    below = f"out/runs/{there.manifest.run_id}"
    files = {entry.path: entry.sha256 for entry in there.manifest.files}
    assert bucket.listed() == sorted(["out/latest", *(f"{below}/{name}" for name in [*files, "manifest.json"])])
    assert pointer(bucket)["run_id"] == there.manifest.run_id
    assert pointer(bucket)["sequence"] == 1
    with opened_run(f"{bucket.url}/out") as run:
        assert pipeline.read_manifest(run) == there.manifest


def test_the_command_prints_addresses_and_writes_no_secret(bucket: Bucket, tmp_path: Path) -> None:
    (tmp_path / "edges.csv").write_text(EDGES, encoding="utf-8")
    out = f"{bucket.url}/a/out"
    shown = mbe("enumerate", tmp_path / "edges.csv", "--out", out, "--engine", "reference", "--verbose")
    assert shown.exit_code == 0, shown.stderr
    (run_id,) = published(bucket)
    assert f"run        {out}/runs/{run_id}\n" in shown.stdout
    assert f"report     {out}/runs/{run_id}/report.html\n" in shown.stdout
    assert f"next       mbe top {out}" in shown.stdout
    assert "temporary" not in shown.stdout
    again = mbe("enumerate", tmp_path / "edges.csv", "--out", out, "--engine", "reference", "--if-changed", "--json")
    assert answer(again, 5)["run"] == f"{out}/runs/{run_id}"
    assert published(bucket) == [run_id]
    everything = b"".join(map(bucket.get, bucket.listed())) + (shown.output + again.output).encode()
    assert SECRET.encode() not in everything
    assert KEY_ID.encode() not in everything


def test_runs_are_numbered_compared_and_kept(bucket: Bucket) -> None:
    out = f"{bucket.url}/out"
    first, second = publish(out), publish(out, FEWER)
    assert first.manifest.comparison.run_id is None
    assert second.manifest.comparison.run_id == first.manifest.run_id
    assert second.manifest.comparison.counts
    third = publish(out, keep_runs=2)
    assert published(bucket) == [second.manifest.run_id, third.manifest.run_id]
    assert pointer(bucket)["sequence"] == 3
    assert not any(first.manifest.run_id in key for key in bucket.listed())


def test_large_files_go_up_in_parts(bucket: Bucket, tmp_path: Path) -> None:
    content = bytes(range(256)) * (80 << 10)
    (tmp_path / "large").write_bytes(content)
    store = store_at(bucket.url)
    store.objects.upload(tmp_path, ["large"], "below")
    assert bucket.get("below/large") == content
    store.objects.download({"below/large": tmp_path / "back"})
    assert (tmp_path / "back").read_bytes() == content


def test_an_upload_that_is_stopped_leaves_no_parts(bucket: Bucket, tmp_path: Path) -> None:
    (tmp_path / "large").write_bytes(bytes(40 << 20))
    stop = threading.Event()
    with pytest.raises(transfers.Stopped):
        store_at(bucket.url).objects._upload(tmp_path / "large", "large", stop, lambda _: stop.set())
    assert bucket.listed() == []
    assert bucket.unfinished_uploads() == 0


def test_no_object_is_written_outside_its_directory(bucket: Bucket, tmp_path: Path) -> None:
    with pytest.raises(StoreFailure, match="leads out of its directory"):
        store_at(bucket.url).objects.download({"runs/../../evil": tmp_path / "evil"})
    assert not (tmp_path / "evil").exists()


# --- other writers -------------------------------------------------------------------------------------------------


def test_of_two_writers_at_once_one_wins(bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    for won in at_once(f"{bucket.url}/out", 2, monkeypatch):
        assert pointer(bucket)["run_id"] == won
        assert published(bucket)[-1] == won
    assert len(published(bucket)) == pointer(bucket)["sequence"] == 2
    assert all("/runs/" in key or key == "out/latest" for key in bucket.listed())


def test_the_losing_writer_exits_with_code_3(bucket: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "edges.csv").write_text(EDGES, encoding="utf-8")
    come_before(f"{bucket.url}/out", monkeypatch)
    result = mbe("enumerate", tmp_path / "edges.csv", "--out", f"{bucket.url}/out", "--engine", "reference")
    assert result.exit_code == 3
    assert len(published(bucket)) == 1


def test_a_lost_response_does_not_lose_the_run(bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    """The pointer is written, the response is lost, and the retry is refused."""
    create = Objects.create

    def twice(self: Objects, name: str, content: bytes) -> object:
        if name == "latest":
            create(self, name, content)
        return create(self, name, content)

    monkeypatch.setattr(Objects, "create", twice)
    run = publish(f"{bucket.url}/out")
    assert published(bucket) == [run.manifest.run_id]


@pytest.mark.parametrize("n_known", [20, 1])
def test_a_lost_response_after_which_others_published(
    n_known: int, bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Later runs were compared with this one, so it stays, and counts as published while the pointer names it."""
    monkeypatch.setattr(pointer_module, "_PREVIOUS", n_known)
    write, followers = ConditionalObject.write, []

    def followed(self: ConditionalObject, content: bytes, before: object) -> None:
        write(self, content, before)
        if not followers:
            followers.append(None)
            followers[:] = [publish(f"{bucket.url}/out", FEWER).manifest.run_id for _ in range(2)]
            raise StoreFailure(errno.EIO, "does not answer", "there", "try again")

    monkeypatch.setattr(ConditionalObject, "write", followed)
    if n_known == 1:
        with pytest.raises(PublishError, match="the run is complete, but may not be published: check with mbe runs"):
            publish(f"{bucket.url}/out")
    else:
        assert publish(f"{bucket.url}/out").manifest.run_id == published(bucket)[0]
    assert published(bucket)[1:] == followers
    assert pointer(bucket)["run_id"] == followers[-1]


def test_a_lost_response_without_a_write(bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    """Others have published, and the pointer shows that this run is not among them."""
    write, followers = ConditionalObject.write, []

    def lost(self: ConditionalObject, content: bytes, before: object) -> None:
        if followers:
            write(self, content, before)
            return
        followers.append(None)
        followers[:] = [publish(f"{bucket.url}/out", FEWER).manifest.run_id for _ in range(2)]
        raise StoreFailure(errno.EIO, "does not answer", "there", "try again")

    monkeypatch.setattr(ConditionalObject, "write", lost)
    with pytest.raises(PublishError, match="does not answer; nothing was published"):
        publish(f"{bucket.url}/out")
    assert published(bucket) == followers
    assert not any("/.staging/" in name for name in bucket.listed())


def test_a_run_whose_upload_did_nothing_is_not_published(bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    upload = Objects._upload

    def skipping(self: Objects, path: Path, name: str, *others: Any) -> None:
        if "/bicliques/" not in name:
            upload(self, path, name, *others)

    monkeypatch.setattr(Objects, "_upload", skipping)
    with pytest.raises(PublishError, match=r"part-.*\.parquet: is not listed after .*; nothing was published"):
        publish(f"{bucket.url}/out")
    assert bucket.listed() == []


def test_leftovers_are_removed_when_they_are_old(bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    bucket.put("out/runs/20200101T000000Z-000000/bicliques/part-00000.parquet", b"half a run")
    bucket.put("out/.staging/20200101T000000Z-000000", b"")
    publish(f"{bucket.url}/out")
    assert any("20200101" in key for key in bucket.listed())
    monkeypatch.setattr(RemoteStaging, "leftovers_after", timedelta(seconds=-60))
    run = publish(f"{bucket.url}/out")
    assert not any("20200101" in key for key in bucket.listed())
    assert published(bucket)[-1] == run.manifest.run_id


def test_a_fast_clock_removes_nothing_of_a_running_upload(bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    """A second writer cleans up while the first one uploads; the store's clock decides the age of objects."""
    upload = Objects.upload

    class Ahead(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> datetime:
            return datetime.now(tz) + timedelta(days=2)

    def tidied(self: Objects, *given: Any) -> None:
        upload(self, *given)
        with monkeypatch.context() as patch:
            patch.setattr(remote_store, "datetime", Ahead)
            assert store_at(f"{bucket.url}/out").clean() == []

    monkeypatch.setattr(Objects, "upload", tidied)
    run = publish(f"{bucket.url}/out")
    assert mbe("verify", f"{bucket.url}/out", "--quiet").exit_code == 0
    assert published(bucket) == [run.manifest.run_id]


def test_mbe_clean_removes_leftovers_and_no_run(bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    run = publish(f"{bucket.url}/out")
    before = set(bucket.listed())
    left = "out/runs/20200101T000000Z-000000/bicliques/part-00000.parquet"
    bucket.put(left, b"half a run")
    # Its writer may still be running.
    assert "nothing to remove" in mbe("clean", f"{bucket.url}/out").stdout
    monkeypatch.setattr(remote_store, "ABANDONED_AFTER", timedelta(seconds=-60))
    assert answer(mbe("clean", f"{bucket.url}/out", "--json"))["removed"] == [f"{bucket.url}/{left}"]
    assert set(bucket.listed()) == before
    assert published(bucket) == [run.manifest.run_id]


# --- failures ------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("bucket")
def test_a_server_that_dies_in_the_middle_and_comes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    own = Server()
    monkeypatch.setenv("AWS_ENDPOINT_URL", own.url)
    monkeypatch.setitem(objects._RETRIES, "max_retries", 1)
    own.post("/own", method="PUT")
    upload, sent = Objects._upload, []

    def upload_until(self: Objects, path: Path, name: str, *rest: object) -> None:
        sent.append(name)
        if len(sent) == 3:
            own.kill()
        upload(self, path, name, *rest)

    monkeypatch.setattr(Objects, "_upload", upload_until)
    with pytest.raises(PublishError, match=r"does not answer; nothing was published; .*try again") as error:
        publish("s3://own/out")
    assert SECRET not in str(error.value)
    monkeypatch.setattr(Objects, "_upload", upload)
    own.start()
    own.post("/own", method="PUT")
    run = publish("s3://own/out")
    with opened_run("s3://own/out") as copy:
        assert pipeline.read_manifest(copy) == run.manifest


def test_a_publication_that_failed_can_be_tried_again(bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    """A flow's task retries in this way."""
    publish_once, upload = RemoteStaging.publish, Objects.upload

    def fail(*_: object) -> None:
        monkeypatch.setattr(Objects, "upload", upload)
        raise StoreFailure(errno.EIO, "the store does not answer", "s3://x", "try again")

    def again(self: RemoteStaging, keep_runs: int | None = None) -> Path:
        monkeypatch.setattr(Objects, "upload", fail)
        with pytest.raises(PublishError):
            publish_once(self, keep_runs)
        assert bucket.listed() == []
        return publish_once(self, keep_runs)

    monkeypatch.setattr(RemoteStaging, "publish", again)
    run = publish(f"{bucket.url}/out")
    assert published(bucket) == [run.manifest.run_id]


def test_ctrl_c_during_the_upload(bucket: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "edges.csv").write_text(EDGES, encoding="utf-8")
    interrupt_an_upload(Objects, monkeypatch)
    result = mbe("enumerate", tmp_path / "edges.csv", "--out", f"{bucket.url}/out", "--engine", "reference")
    assert result.exit_code == 130, result.output
    assert "nothing was published" in result.stderr
    assert bucket.listed() == []
    assert bucket.unfinished_uploads() == 0


def test_wrong_credentials_and_missing_buckets_are_refused_before_any_work(bucket: Bucket, tmp_path: Path) -> None:
    missing = mbe("enumerate", tmp_path / "no-input", "--out", "s3://no-bucket/out")
    assert missing.exit_code == 3
    assert "s3://no-bucket/out/latest: no such bucket; nothing was published" in missing.stderr
    bucket.server.ask_for_credentials(anybodys=False)
    try:
        denied = mbe("enumerate", tmp_path / "no-input", "--out", f"{bucket.url}/out")
    finally:
        bucket.server.ask_for_credentials(anybodys=True)
    assert denied.exit_code == 3
    assert "access denied (403" in denied.stderr
    assert len(denied.stderr.splitlines()) == 1
    assert SECRET not in denied.output
    assert KEY_ID not in denied.output


def test_a_store_without_conditional_writes_is_refused(bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some stores ignore the header, so the second `create` succeeds."""
    put = Objects._put
    monkeypatch.setattr(Objects, "_put", lambda *given: put(*given[:3], "overwrite"))
    with pytest.raises(PublishError, match="ignores the conditions of writes"):
        publish(f"{bucket.url}/out")
    assert bucket.listed() == []


def test_places_that_are_refused(bucket: Bucket) -> None:
    out = f"{bucket.url}/out"
    run = publish(out)
    with pytest.raises(PublishError, match=r"lies in .*/out/runs, the directory of published runs"):
        publish(f"{run.address}/more")
    bucket.put("other/latest", b"no pointer")
    with pytest.raises(PublishError, match="is not a pointer to a run"):
        publish(f"{bucket.url}/other")
    with pytest.raises(PublishError, match="is an address"):
        pipeline.resolve_run(out)


def test_the_probe_leaves_nothing(bucket: Bucket) -> None:
    store = store_at(f"{bucket.url}/out")
    store.check_writable()
    assert bucket.listed() == []
    assert isinstance(store, remote_store.RemoteStore)


# --- reading -------------------------------------------------------------------------------------------------------


def test_commands_that_read(bucket: Bucket, tmp_path: Path) -> None:
    (tmp_path / "edges.csv").write_text(EDGES, encoding="utf-8")
    (tmp_path / "fewer.csv").write_text("".join(EDGES.splitlines(True)[:6]), encoding="utf-8")
    out, here = f"{bucket.url}/out", tmp_path / "out"
    for place in (out, here):
        for name in ("fewer", "edges"):
            shown = mbe("enumerate", tmp_path / f"{name}.csv", "--out", place, "--engine", "reference", "--quiet")
            assert shown.exit_code == 0, shown.stderr
    first, second = published(bucket)
    listed = answer(mbe("runs", out, "--json"))["runs"]
    assert [run["run"] for run in listed] == [f"{out}/runs/{run_id}" for run_id in (first, second)]
    assert [run["latest"] for run in listed] == [False, True]
    assert [run["damaged"] for run in listed] == [None, None]
    assert mbe("top", out, "--csv").stdout == mbe("top", here, "--csv").stdout
    assert answer(mbe("top", out, "--json"))["run"] == f"{out}/runs/{second}"
    assert mbe("export", f"{out}/latest", "--csv").stdout == mbe("export", here, "--csv").stdout
    assert answer(mbe("verify", f"{out}/runs/{first}", "--json"))["run"] == f"{out}/runs/{first}"
    compared = answer(mbe("diff", f"{out}/runs/{first}", "latest", "--json"))
    assert (compared["old"], compared["new"]) == (f"{out}/runs/{first}", f"{out}/runs/{second}")
    mixed = answer(mbe("diff", here, out, "--json"))
    assert mixed["bicliques"]["same"] == 4
    grouped = answer(mbe("groups", f"{out}/runs/{second}", "--json"))
    assert grouped["run"].startswith(f"{out}/runs/")
    assert len(published(bucket)) == 3


def test_a_prefix_may_be_called_runs(bucket: Bucket) -> None:
    for out in (f"{bucket.url}/runs", f"{bucket.url}/more/runs/out"):
        run_id = publish(out).manifest.run_id
        for place in (out, f"{out}/latest", f"{out}/latest/", f"{out}/runs/{run_id}"):
            assert answer(mbe("top", place, "--json"))["run"] == f"{out}/runs/{run_id}"
            assert holds_runs(place)
    # A directory of edges may be named like the pointer.
    bucket.put("edges/latest/a.csv", EDGES.encode())
    assert not holds_runs(f"{bucket.url}/edges/latest")


def test_other_problems_and_groups(bucket: Bucket) -> None:
    edges, out = bucket.put("edges.csv", EDGES.encode()), f"{bucket.url}/counts"
    counting = ("count-pq", edges, "-p", 2, "-q", 2, "--engine", "reference", "--out", out)
    counted = answer(mbe(*counting, "--json"))
    again = answer(mbe(*counting, "--if-changed", "--json"), 5)
    assert [again[key] for key in ("run", "content_fingerprint")] == [
        counted[key] for key in ("run", "content_fingerprint")
    ]
    assert mbe("verify", out, "--quiet").exit_code == 0
    for _ in range(2):
        grouped = mbe("groups", edges, "--engine", "reference", "--out", f"{bucket.url}/groups")
        assert grouped.exit_code == 0, grouped.stderr
        assert os.environ["TMPDIR"] not in grouped.output
    of_run = mbe("groups", f"{bucket.url}/groups")
    assert of_run.exit_code == 0, of_run.stderr
    assert os.environ["TMPDIR"] not in of_run.output
    assert mbe("verify", f"{bucket.url}/groups", "--quiet").exit_code == 0


def test_damage_is_found_and_named_by_address(bucket: Bucket) -> None:
    out = f"{bucket.url}/out"
    run = publish(out)
    table = f"out/runs/{run.manifest.run_id}/size_histogram.parquet"
    content = bucket.get(table)
    bucket.put(table, content[:-1] + b"?")
    result = mbe("verify", out, "--quiet")
    assert result.exit_code == 1
    assert f"error: {bucket.url}/{table}" in result.stderr
    bucket.put(table, content[:-1])
    assert "bytes, not" in answer(mbe("runs", out, "--json"))["runs"][0]["damaged"]


def test_missing_runs_are_refused_in_one_line(bucket: Bucket) -> None:
    for command in (("top",), ("verify",), ("export", "--csv"), ("runs",)):
        result = mbe(*command, f"{bucket.url}/nothing")
        assert result.exit_code == 3
        assert result.stderr.startswith(f"error: {bucket.url}/nothing: ")
        assert len(result.stderr.splitlines()) == 1
    publish(f"{bucket.url}/out")
    missing = mbe("top", f"{bucket.url}/out/runs/20200101T000000Z-000000")
    assert missing.exit_code == 3
    assert "no such run" in missing.stderr

"""A store that others may write, or a dishonest server: names are checked before they become paths or keys."""

from __future__ import annotations

import hashlib
import json
import logging
from datetime import timedelta
from pathlib import Path

import pytest

pytest.importorskip("obstore", reason="the extra object-stores is not installed")
pytest.importorskip("moto", reason="the server for tests of object stores is not installed")

from mbe_stage.pipeline import PublishError
from mbe_stage.pipeline.stores import remote_store
from mbe_stage.pipeline.stores.address import Address
from mbe_stage.pipeline.stores.failures import StoreFailure
from mbe_stage.pipeline.stores.fsspec_files import files_below
from mbe_stage.pipeline.stores.latest_pointer import ConditionalObject, Pointer
from mbe_stage.pipeline.stores.objects import Objects
from mbe_stage.pipeline.stores.open_store import opened_run, store_at
from mbe_stage.pipeline.stores.remote_staging import RemoteStaging
from mbe_stage.pipeline.stores.transfers import StoredObject, check_names
from tests.pipeline.stores.server import KEY_ID, SECRET, Bucket
from tests.pipeline.stores.writers import publish, published
from tests.pipeline.test_cli import answer, mbe
from tests.pipeline.test_safe_paths import BAD_NAMES

RUN = "20200101T000000Z-aaaaaa"
OUTSIDE = ["../../../../evil", "/evil", "..", "", "x/../../evil", f"{RUN}/..", f"../{RUN}", "latest", "runs", 7, None]


def files_of(place: Path) -> list[Path]:
    """List files outside the directory for temporary files."""
    return sorted(path for path in place.rglob("*") if path.is_file() and "temporary" not in path.parts)


def pointing(run_id: object, **values: object) -> bytes:
    return json.dumps({"run_id": run_id, "sequence": 3, "manifest_sha256": "0" * 64, **values}).encode()


# --- the pointer ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("run_id", OUTSIDE)
def test_a_pointer_without_a_run_id_is_refused(bucket: Bucket, tmp_path: Path, run_id: object) -> None:
    publish(f"{bucket.url}/out")
    bucket.put("out/latest", pointing(run_id))
    before = files_of(tmp_path)
    for command in (("top",), ("verify",), ("runs",), ("export", "--csv")):
        result = mbe(*command, f"{bucket.url}/out")
        assert result.exit_code == 3, command
        assert "is not a pointer to a run" in " ".join(result.stderr.split())
    with pytest.raises(PublishError, match="is not a pointer to a run"):
        publish(f"{bucket.url}/out")
    assert files_of(tmp_path) == before


def test_a_server_that_serves_any_key_writes_nothing_outside(
    bucket: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server returns its manifest for any key, with the checksum in the pointer."""
    content = b'{"of": "a server"}'
    monkeypatch.setattr(Objects, "read", lambda *_: content)
    found = pointing("../../evil", manifest_sha256=hashlib.sha256(content).hexdigest()), None
    monkeypatch.setattr(ConditionalObject, "read", lambda _: found)
    store = store_at(f"{bucket.url}/out")
    with pytest.raises(PublishError, match="is not a pointer to a run"):
        store.latest()
    store.close()
    assert not list(tmp_path.rglob("evil"))


@pytest.mark.parametrize(
    "content",
    [
        pointing(RUN, sequence=0),
        pointing(RUN, sequence=True),
        pointing(RUN, sequence="1"),
        pointing(RUN, previous=["../x"]),
        pointing(RUN, previous=RUN),
        pointing(RUN).replace(b"3,", b"1e999,"),
        b"[" * 200_000,
        b"\xff",
    ],
)
def test_pointers_of_another_shape(content: bytes) -> None:
    assert Pointer.read(pointing(RUN, previous=[RUN]), None, "s3://b/latest").previous == (RUN,)
    with pytest.raises(PublishError, match="is not a pointer to a run"):
        Pointer.read(content, None, "s3://b/latest")


# --- the listing ---------------------------------------------------------------------------------------------------


def test_a_key_that_is_not_a_path_is_named(bucket: Bucket) -> None:
    """The library cannot list the other keys, but the store does answer."""
    run = publish(f"{bucket.url}/out")
    # obstore refuses such a key; boto3 comes with moto.
    client = pytest.importorskip("boto3").client(
        "s3",
        endpoint_url=bucket.server.url,
        aws_access_key_id=KEY_ID,
        aws_secret_access_key=SECRET,
        region_name="us-east-1",
    )
    for key in ("../evil", "elsewhere/../../evil"):
        client.put_object(Bucket=bucket.name, Key=key, Body=b"evil")
    assert mbe("verify", f"{bucket.url}/out").exit_code == 0, "it lies elsewhere"
    for key in ("out/runs/../evil", f"out/runs/{run.manifest.run_id}/../../../evil"):
        client.put_object(Bucket=bucket.name, Key=key, Body=b"evil")
        for command in (("runs",), ("top",), ("clean",)):
            result = mbe(*command, f"{bucket.url}/out")
            said = " ".join(result.stderr.split())
            assert result.exit_code == 3, command
            assert f'the key "{key}" is not a valid path' in said
            assert "does not answer" not in said
            assert "remove that object" in said
        client.delete_object(Bucket=bucket.name, Key=key)
    assert mbe("verify", f"{bucket.url}/out").exit_code == 0


@pytest.mark.parametrize(
    "name", ["../../evil", "../evil/manifest.json", "a\\b/c", "/evil", "x/./manifest.json", "a\nb/c"]
)
def test_names_that_a_server_lists_are_left_out(
    bucket: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, name: str
) -> None:
    run = publish(f"{bucket.url}/out")
    listed = Objects.listed

    def lying(self: Objects, below: str = "") -> list[StoredObject]:
        return [StoredObject(f"runs/{name}", 4), *listed(self, below)]

    monkeypatch.setattr(Objects, "listed", lying)
    before = files_of(tmp_path)
    with caplog.at_level(logging.WARNING):
        assert [each["run"] for each in answer(mbe("runs", f"{bucket.url}/out", "--json"))["runs"]] == [
            f"{bucket.url}/out/runs/{run.manifest.run_id}"
        ]
    assert any(repr(f"runs/{name}") in text and "left out" in text for text in caplog.messages)
    assert files_of(tmp_path) == before


def test_a_run_that_a_server_lists_outside_is_not_copied(
    bucket: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = publish(f"{bucket.url}/out")
    listed = Objects.listed
    below = f"runs/{run.manifest.run_id}"
    monkeypatch.setattr(
        Objects, "listed", lambda self, name="": [*listed(self, name), StoredObject(f"{below}/../../../../evil", 4)]
    )
    with pytest.raises(PublishError, match="leads out of its directory"), opened_run(f"{bucket.url}/out"):
        pass
    assert not list(tmp_path.rglob("evil"))


@pytest.mark.parametrize("name", [each for each in BAD_NAMES if each])
def test_downloads_outside_the_directory_are_refused(name: str) -> None:
    with pytest.raises(StoreFailure, match="leads out of its directory"):
        check_names(Address("s3://b", "out"), ["runs/x/manifest.json", name])
    check_names(Address("s3://b", "out"), ["", "runs/x/manifest.json"])


def test_listed_names_cannot_leave_the_directory() -> None:
    asked = []

    class Driver:
        def ls(self, directory: str, *, detail: bool) -> list[dict[str, str]]:
            assert detail
            asked.append(directory)
            up = [{"name": f"{directory}/{name}", "type": "directory"} for name in (".", "..")]
            files = [{"name": f"{directory}/{name}", "type": "file"} for name in ("part", "../evil")]
            return [*up, *files]

    assert list(files_below(Driver(), Address("sftp://host", "out"), "/out")) == ["/out/part"]
    assert asked == ["/out"]


# --- removal -------------------------------------------------------------------------------------------------------


def test_only_our_own_names_are_removed(bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    run = publish(f"{bucket.url}/out")
    foreign = [
        "out/.staging/Documents/thesis.tex",
        "out/.staging/notes.txt",
        f"out/.staging/{RUN}.bak",
        f"out/.staging/{RUN}/x",
        f"out/.staging/x{RUN}",
        "out/.staging/job.part",
        "out/.staging/0123456789abcdef.part",
        "out/runs/mine/notes.txt",
        f"out/runs/{RUN}-mine/notes.txt",
    ]
    ours = [
        f"out/.staging/{RUN}",
        f"out/.staging/{RUN}-probe",
        f"out/.staging/{RUN}-01234567-clock",
        f"out/.staging/{RUN}.parts/attempt/open",
        f"out/runs/{RUN}/bicliques/part-00000.parquet",
    ]
    before = set(bucket.listed())
    for name in (*foreign, *ours):
        bucket.put(name, b"content")
    monkeypatch.setattr(remote_store, "ABANDONED_AFTER", timedelta(seconds=-60))
    removed = answer(mbe("clean", f"{bucket.url}/out", "--json"))["removed"]
    assert sorted(removed) == sorted(f"{bucket.url}/{name}" for name in ours)
    assert set(bucket.listed()) == before | set(foreign)
    monkeypatch.setattr(RemoteStaging, "leftovers_after", timedelta(seconds=-60))
    publish(f"{bucket.url}/out", keep_runs=1)
    assert set(foreign) <= set(bucket.listed())
    assert run.manifest.run_id not in published(bucket)

"""Input from an object store: the same edges as from disk, named by their address; one-line refusals."""

from __future__ import annotations

import gzip
import os
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

pytest.importorskip("obstore", reason="the extra object-stores is not installed")
pytest.importorskip("moto", reason="the server for tests of object stores is not installed")

from mbe_stage import pipeline
from mbe_stage.pipeline import ConfigError, InputError
from mbe_stage.pipeline.config.model import InputConfig
from mbe_stage.pipeline.execution.ingest import ingest
from mbe_stage.pipeline.stores import objects, transfers
from tests.pipeline.stores.server import KEY_ID, SECRET, Bucket
from tests.pipeline.test_cli import EDGES, answer, mbe

LEFT, RIGHT = (
    ["ann", "ann", "bob", "bob", "bob", "cid", "cid"],
    ["bakery", "kiosk", "bakery", "kiosk", "zoo", "zoo", "kiosk"],
)


def parquet(path: Path, rows: slice = slice(None)) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({"left": LEFT[rows], "right": RIGHT[rows]}), path)
    return path


@pytest.mark.parametrize("name", ["edges.csv", "edges.csv.gz", "edges.parquet", "deep/er/a b=c.parquet"])
def test_an_object_reads_like_a_file(bucket: Bucket, tmp_path: Path, name: str) -> None:
    file = tmp_path / "here" / name
    file.parent.mkdir(parents=True)
    if name.endswith("parquet"):
        parquet(file)
    else:
        file.write_bytes(gzip.compress(EDGES.encode()) if name.endswith("gz") else EDGES.encode())
    address = bucket.put(name, file)
    here, there = ingest(InputConfig(path=str(file))), ingest(InputConfig(path=address))
    assert there.facts.source == address
    assert there.facts.fingerprint == here.facts.fingerprint
    assert there.facts.format == here.facts.format


def test_a_prefix_of_parquet_files_is_a_directory(bucket: Bucket, tmp_path: Path) -> None:
    bucket.put("set/part=1/a.parquet", parquet(tmp_path / "a", slice(0, 3)))
    bucket.put("set/part=2/b.parquet", parquet(tmp_path / "b", slice(3, 7)))
    bucket.put("set/_SUCCESS", b"")
    edges = ingest(InputConfig(path=f"{bucket.url}/set/", left="left", right="right"))
    assert (edges.facts.n_edges, edges.facts.source) == (7, f"{bucket.url}/set")
    # A bucket is a prefix too.
    assert ingest(InputConfig(path=bucket.url, left="left", right="right")).facts.n_edges == 7


def test_a_prefix_of_text_files_is_one_table(bucket: Bucket) -> None:
    first, second = bucket.put("parts/a.csv", b"left,right\nann,1\n"), bucket.put("parts/b.csv", b"left,right\nbob,1\n")
    bucket.put("parts/_SUCCESS", b"")
    edges = ingest(InputConfig(path=f"{bucket.url}/parts/"))
    assert (edges.facts.n_edges, edges.facts.source) == (2, f"{bucket.url}/parts")
    several = ingest(InputConfig(path=(first, second)))
    assert (several.facts.n_edges, several.facts.source) == (2, f"{first}, {second}")
    bucket.put("parts/b.csv", b"left,right\nbob,\n")
    with pytest.raises(InputError, match=rf"^{second}, line 2, column 'right'"):
        ingest(InputConfig(path=f"{bucket.url}/parts"))
    bucket.put("parts/deeper/c.csv", b"left,right\nbob,1\n")
    with pytest.raises(InputError, match=r"a prefix of .*'deeper/c.csv'"):
        ingest(InputConfig(path=f"{bucket.url}/parts"))


def test_konect_below_a_prefix(bucket: Bucket) -> None:
    bucket.put("graph/out.graph", b"% bip unweighted\n1 1\n1 2\n2 2\n")
    bucket.put("graph/README", b"what it is")
    assert ingest(InputConfig(path=f"{bucket.url}/graph")).facts.format == "konect"


def test_large_objects_come_in_chunks(bucket: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transfers, "CHUNK", 1 << 16)
    edges = np.random.default_rng(0).integers(0, 1 << 40, (100_000, 2))
    pq.write_table(pa.table({"left": edges[:, 0], "right": edges[:, 1]}), tmp_path / "large.parquet")
    address = bucket.put("large.parquet", tmp_path / "large.parquet")
    assert ingest(InputConfig(path=address)).facts.n_edges == 100_000


def test_the_command_and_its_manifest_name_the_address(bucket: Bucket, tmp_path: Path) -> None:
    address = bucket.put("edges.csv", EDGES.encode())
    shown = mbe("enumerate", address, "--out", tmp_path / "out", "--engine", "reference", "--json")
    assert answer(shown)["bicliques"] == 4
    run = pipeline.resolve_run(tmp_path / "out")
    manifest = pipeline.read_manifest(run)
    assert manifest.input.source == manifest.config.input.path == address
    assert "temporary" not in shown.stderr
    assert f"read {address}" in shown.stderr
    # `mbe verify` finds the input at its address.
    assert any(address in passed for passed in answer(mbe("verify", run, "--json"))["checks"].values())
    everything = b"".join(path.read_bytes() for path in run.rglob("*") if path.is_file()) + shown.output.encode()
    assert SECRET.encode() not in everything
    assert KEY_ID.encode() not in everything


def test_errors_in_an_object_name_its_address(bucket: Bucket) -> None:
    address = bucket.put("edges.csv", b"left,right\nann,\n")
    with pytest.raises(InputError, match=rf"^{address}, line 2") as error:
        ingest(InputConfig(path=address))
    assert os.environ["TMPDIR"] not in str(error.value)


def test_missing_objects_are_refused_in_one_line(bucket: Bucket) -> None:
    with pytest.raises(InputError, match=rf"^{bucket.url}/edges.csv: no such object, and none below it; expected "):
        ingest(InputConfig(path=f"{bucket.url}/edges.csv"))
    with pytest.raises(InputError, match=r"^s3://no-bucket/edges.csv: no such bucket; .*create the bucket$"):
        ingest(InputConfig(path="s3://no-bucket/edges.csv"))
    bucket.put("notes/a.txt", b"a")
    bucket.put("notes/b.csv", b"a")
    with pytest.raises(InputError, match=r"a prefix of 'a.txt', 'b.csv'; expected a prefix of .parquet files"):
        ingest(InputConfig(path=f"{bucket.url}/notes"))


def test_wrong_credentials_are_refused_and_not_repeated(bucket: Bucket) -> None:
    address = bucket.put("edges.csv", EDGES.encode())
    bucket.server.ask_for_credentials(anybodys=False)
    try:
        result = mbe("enumerate", address, "--count-only")
    finally:
        bucket.server.ask_for_credentials(anybodys=True)
    assert result.exit_code == 2
    assert f"error: {address}: access denied (403)" in result.stderr
    assert "Traceback" not in result.output
    assert SECRET not in result.output
    assert KEY_ID not in result.output


def test_a_store_that_does_not_answer(bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    monkeypatch.setitem(objects._RETRIES, "max_retries", 1)
    with pytest.raises(InputError, match=r"the store at 127.0.0.1:1 does not answer; .*try again$"):
        ingest(InputConfig(path=f"{bucket.url}/edges.csv"))


def test_an_address_with_a_password_is_refused_first(tmp_path: Path) -> None:
    for address in (f"s3://user:{SECRET}@bucket/edges.csv", f"s3://bucket/edges.csv?secret={SECRET}"):
        result = mbe("enumerate", address, "--out", tmp_path / "out")
        assert result.exit_code == 2
        assert SECRET not in result.output
    assert not (tmp_path / "out").exists()
    with pytest.raises(ConfigError, match="has a user or a password"):
        ingest(InputConfig(path=f"s3://user:{SECRET}@bucket/edges.csv"))


def test_without_the_library_an_address_is_refused_with_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("obstore", "obstore.store", "obstore.exceptions"):
        monkeypatch.setitem(sys.modules, name, None)
    result = mbe("enumerate", "s3://bucket/edges.csv", "--count-only")
    assert result.exit_code == 2
    assert "pip install 'mbe-stage[object-stores]'" in result.stderr
    assert len(result.stderr.splitlines()) == 1

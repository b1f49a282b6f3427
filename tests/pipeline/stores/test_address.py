"""Parsing of addresses, without the library of object stores."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from mbe_stage.pipeline import ConfigError
from mbe_stage.pipeline.config.model import InputConfig, OutputConfig
from mbe_stage.pipeline.stores.address import SCHEMES, Address, absolute_place, is_address, parse_address, place_of
from tests.patience import completed


def test_paths_are_no_addresses() -> None:
    for path in ("edges.csv", "/data/edges.csv", "s3:bucket", "data://"[:5], "C:\\edges.csv", None, 3):
        assert not is_address(path)
    assert all(is_address(f"{scheme}://bucket/key") for scheme in (*SCHEMES, "https", "file"))


@pytest.mark.parametrize(
    ("text", "root", "key"),
    [
        ("s3://b", "s3://b", ""),
        ("s3://b/", "s3://b", ""),
        ("S3://b//a//c/", "s3://b", "a/c"),
        ("abfss://container@account.dfs.core.windows.net/a", "abfss://container@account.dfs.core.windows.net", "a"),
        ("gcs://b/a", "gs://b", "a"),
        ("http://[::1]:8000/a", "http://[::1]:8000", "a"),
        ("sftp://user@host:22/a", "sftp://user@host:22", "a"),
        ("hdfs:///a/b", "hdfs://", "a/b"),
        ("memory://a/b", "memory:/", "a/b"),
        ("gs://b/day=1/a b.parquet", "gs://b", "day=1/a b.parquet"),
    ],
)
def test_the_parts_of_an_address(text: str, root: str, key: str) -> None:
    address = parse_address(text)
    assert address == Address(root, key)
    assert parse_address(str(address)) == address


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("s3://user:secret@b/a", "has a user or a password"),
        ("https://user:secret@b/a", "has a user or a password"),
        ("s3://user@b/a", "has a user or a password"),
        ("abfs://container:secret@account/a", "has a user or a password"),
        ("sftp://user:secret@host/a", "sftp://...@host: has a user or a password"),
        ("ftp://secret@host/a", "has a user or a password"),
        ("http:///user:secret@host/a", "has a user or a password"),
        ("ftp://user:se/cret@host/secret", "has a user or a password"),
        ("s3:/user:secret@b/a", "has a user or a password"),
        ("simplecache::http://user:secret@host/a", "a chained address"),
        ("zip://a.csv::http://user:secret@host/a", "a chained address"),
        ("zip://a.csv::/data/secret.zip", "a chained address"),
        ("http://host?secret", "settings after its key"),
        ("s3://b/a?key=secret", "settings after its key"),
        ("s3://b/a#secret", "settings after its key"),
        ("s3:/b/a", "an address with one slash"),
        ("s3:///a", "does not name a place in a store"),
        ("s3://b/../a", "does not name a place in a store"),
    ],
)
def test_refusals_do_not_repeat_secrets(text: str, said: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(said)) as error:
        parse_address(text)
    assert "secret" not in str(error.value)


def test_file_urls_become_local_paths(tmp_path: Path) -> None:
    path = tmp_path / "a b#1?.csv"
    assert place_of(path.as_uri()) == str(path)
    for text in ("file:/data/x", "FILE://localhost/data/x", "file:///data/x"):
        assert absolute_place(text) == place_of(text) == "/data/x"
        assert InputConfig(path=text).path == OutputConfig(directory=text).directory == "/data/x"
    for other in ("file:x/y", "file", None, 3, tmp_path):
        assert place_of(other) == other
    for text in ("file://host/data", "file://", "file:///data/x?secret"):
        with pytest.raises(ConfigError, match=r"^file://...: is not a file of this machine") as error:
            place_of(text)
        assert "secret" not in str(error.value)


def test_absolute_places() -> None:
    assert absolute_place("s3://b/a/") == "s3://b/a"
    assert absolute_place("/data/x") == "/data/x"
    with pytest.raises(ConfigError):
        absolute_place("s3://user:secret@b")


def test_the_library_is_not_imported_for_paths(tmp_path: Path) -> None:
    edges = tmp_path / "edges.csv"
    edges.write_text("left,right\nann,bakery\n", encoding="utf-8")
    code = (
        "import sys; from mbe_stage.pipeline import InputConfig; "
        "from mbe_stage.pipeline.execution.ingest import ingest; "
        "from mbe_stage.pipeline.stores.open_store import store_at; assert store_at('nowhere').latest() is None; "
        f"ingest(InputConfig(path={str(edges)!r})); "
        "assert not [name for name in sys.modules "
        "if name.startswith(('obstore', 'fsspec', 'mbe_stage.pipeline.stores.objects'))]"
    )
    result = completed([sys.executable, "-c", code])
    assert result.returncode == 0, result.stderr

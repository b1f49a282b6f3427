"""Untrusted names: a path made of one stays below its directory, or is refused."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from mbe_stage.pipeline.publish.manifest import FileEntry
from mbe_stage.pipeline.publish.run_files import is_run_id, next_run_id, provisional_id
from mbe_stage.pipeline.publish.stored_parts import StoredEntry
from mbe_stage.pipeline.safe_paths import (
    entries_below,
    is_directory,
    is_file_within,
    is_path_within,
    odd_entry,
    opened_directory,
)

BAD_NAMES = [
    "",
    ".",
    "..",
    "/",
    "/etc/passwd",
    "../x",
    "a/../../x",
    "a/..",
    "a/./b",
    "a//b",
    "a/",
    "a\0b",
    "a\\..\\b",
    "a\nb",
    "a\x7fb",
    "\ud800",
    "a" * 256,
    "é" * 128,
    "a/" * 512 + "a",
]


@pytest.mark.parametrize("name", BAD_NAMES)
def test_names_that_are_refused(name: str) -> None:
    assert not is_path_within(name)
    with pytest.raises(ValidationError, match="stays within its directory"):
        FileEntry(path=name, bytes=0, sha256="")
    with pytest.raises(ValidationError, match="stays within its directory"):
        StoredEntry(path="a", bytes=0, sha256="", store="s3://b", name=name)


@pytest.mark.parametrize("name", ["a", "...", "..a", "a b", "ünï/part-0.parquet", "a" * 255, ".lock", "%2e%2e/x"])
def test_names_that_are_accepted(name: str) -> None:
    assert is_path_within(name)


@given(st.lists(st.sampled_from(["..", ".", "", "a", "b/..", "..a", "/", "\0"]), max_size=6).map("/".join))
def test_an_accepted_name_stays_inside(name: str) -> None:
    inside = "\0" not in name and os.path.normpath(f"/top/{name}") == f"/top/{name}"
    assert is_path_within(name) == (inside and name != "")


def test_links_and_irregular_files(tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/file").write_text("theirs")
    top = tmp_path / "top"
    (top / "real").mkdir(parents=True)
    (top / "real/file").write_text("ours")
    (top / "empty").mkdir()
    (top / "link").symlink_to(tmp_path / "outside")
    (top / "real/link").symlink_to(top / "real/file")
    os.mkfifo(top / "pipe")
    assert is_file_within(top, "real/file")
    for name in ("link/file", "real/link", "pipe", "real", "missing", "../outside/file", "real/../real/file"):
        assert not is_file_within(top, name), name
    assert dict(entries_below(top)) == {
        "empty": "is an empty directory",
        "link": "is a symbolic link",
        "pipe": "is not a regular file",
        "real/file": "",
        "real/link": "is a symbolic link",
    }
    assert odd_entry(top) == "link is a symbolic link"
    assert odd_entry(top / "real") == "link is a symbolic link"
    assert odd_entry(top / "empty") is None
    assert [is_directory(top / name) for name in ("real", "link", "pipe", "missing")] == [True, False, False, False]
    for name in ("link", "real/file", "missing"):
        with pytest.raises(OSError), opened_directory(top / name):  # noqa: PT011 - which of several errors it is, the system says
            pass


def test_unreadable_and_too_deep_directories(tmp_path: Path) -> None:
    assert dict(entries_below(tmp_path / "missing")) == {".": "cannot be read (No such file or directory)"}
    deep = tmp_path
    for _ in range(600):
        deep = deep / "a"
        deep.mkdir()
    (entry,) = entries_below(tmp_path)
    assert entry[1] == "is not a regular file"
    assert odd_entry(tmp_path) is not None


def test_a_run_id_has_one_form() -> None:
    assert is_run_id("20261120T060001Z-0a1b2c")
    assert is_run_id(provisional_id(datetime.now(UTC)))
    for name in (
        "20261120T060001Z-0A1B2C",
        "20261120T060001Z-0a1b2c ",
        "20261120T060001Z-0a1b2c\n",
        "20261320T060001Z-0a1b2c",
        "99991231T235959Z-ffffff",
        "٢٠٢٦١١٢٠T060001Z-0a1b2c",
        "../20261120T060001Z-0a1b2c",
    ):
        assert not is_run_id(name), name


def test_foreign_names_do_not_block_new_run_ids() -> None:
    now = datetime(2026, 11, 20, 6, tzinfo=UTC)
    for name in ("99991231T235959Z-ffffff", "20261399T999999Z-ffffff", "latest"):
        assert next_run_id([name], now).startswith("20261120T060000Z-")
    assert next_run_id(["99981231T235959Z-ffffff"], now) > "99981231T235959Z-ffffff"

"""Paths for cuDF; no GPU is needed."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from mbe_stage.pipeline.backends.cudf.files import opened


def test_names_are_passed_as_absolute_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert opened([Path("a b.parquet"), tmp_path / "é.parquet"]) == [
        str(tmp_path / "a b.parquet"),
        str(tmp_path / "é.parquet"),
    ]


@pytest.mark.parametrize("name", ["a*.csv", "a?.csv", "a[1].csv", "memory:a.csv", "~a.csv"])
def test_names_that_look_like_patterns_are_passed_as_bytes(tmp_path: Path, name: str) -> None:
    for number, path in enumerate((tmp_path / name, tmp_path / "plain.csv")):
        path.write_bytes(b"%d" % number)
    given = opened([tmp_path / name, tmp_path / "plain.csv"])
    # All as bytes: cuDF takes no mixture.
    assert all(isinstance(source, io.BytesIO) for source in given)
    assert [source.getvalue() for source in given if isinstance(source, io.BytesIO)] == [b"0", b"1"]

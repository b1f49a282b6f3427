"""Comparison of two tiers on the host: equal results, differences, and an unavailable tier."""

from __future__ import annotations

import re
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from benchmarks import compare_tiers
from benchmarks.tier_tables import TABLES, differences, publish_with

PAIRS = [("a", 1), ("a", 2), ("b", 1), ("b", 2), ("b", 3), ("c", 3)]


def written(pairs: list[tuple[str, int]], path: Path) -> Path:
    left, right = zip(*pairs, strict=True)
    pq.write_table(pa.table({"left": left, "right": right}), path)
    return path


@pytest.fixture
def edges(tmp_path: Path) -> Path:
    return written(PAIRS, tmp_path / "edges.parquet")


def test_equal_graphs_are_told(edges: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert compare_tiers.main([str(edges), "--tiers", "reference", "reference", "--commit", "abc"]) == 0
    printed = capsys.readouterr().out
    lines = printed.splitlines()
    assert "commit abc" in lines[0]
    assert [line.split()[1] for line in lines if "parquet" in line] == ["3"]
    equal = re.findall(rf"fingerprint and {len(TABLES)} tables equal, (\d+) checks of verify passed", printed)
    assert len(equal) == 1
    assert min(map(int, equal)) >= 15
    assert lines[-1].endswith(": all equal")


def test_an_unavailable_tier_is_reported(edges: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert compare_tiers.main([str(edges), "--tiers", "cpu", "abacus"]) == 2
    assert capsys.readouterr().err.startswith("error: ")


def test_differences_are_named(edges: Path, tmp_path: Path) -> None:
    one = publish_with("reference", edges, tmp_path / "one")
    other = publish_with("reference", written(PAIRS[:-1], tmp_path / "fewer.parquet"), tmp_path / "other")
    assert differences(one, one) == []
    assert differences(one, other) == [
        *("content fingerprints differ", "input fingerprints differ", "counts differ"),
        *(f"{table}: rows differ" for table in TABLES),
    ]


def test_a_damaged_run_is_not_equal(edges: Path, tmp_path: Path) -> None:
    one, other = (publish_with("reference", edges, tmp_path / name) for name in ("one", "other"))
    histogram = other.run_dir / "size_histogram.parquet"
    table = pq.read_table(histogram)
    pq.write_table(table.slice(1), histogram)
    comparison = compare_tiers.compare("edges", one, other)
    assert comparison.n_bicliques == 3
    assert comparison.different[0] == "size_histogram: rows differ"
    assert comparison.different[1].startswith("verify: ")
    assert comparison.n_checks == 0


def test_a_refused_run_is_not_equal(edges: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A GPU that is too small is reported, and the other graphs are still compared."""
    fine = publish_with("reference", edges, tmp_path / "one")
    comparison = compare_tiers.compare("edges", fine, "device memory: the GPU is full")
    assert comparison.different == ("refused: device memory: the GPU is full",)
    blank = written([("a", 1)], tmp_path / "blank.parquet")
    pq.write_table(pq.read_table(blank).slice(1), blank)
    assert compare_tiers.main([str(blank), str(edges), "--tiers", "reference", "reference"]) == 1
    printed = capsys.readouterr().out
    assert printed.count("refused: ") == 2
    assert "tables equal" in printed
    assert printed.splitlines()[-1].endswith(": 1 not equal")

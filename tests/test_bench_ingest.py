"""Ingest benchmark: its input and its table."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from benchmarks import ingest


def test_chunks_are_one_stream_of_random_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    n, random = 4000, np.random.default_rng(5)
    monkeypatch.setattr(ingest, "_CHUNK", 1024)
    left, right, times = (np.concatenate(column) for column in zip(*ingest.edge_chunks(n), strict=True))
    assert left[:n].tolist() == np.minimum((n // 8 * random.random(n) ** 1.6).astype(int), n // 8 - 1).tolist()
    assert right[:n].tolist() == np.minimum((n // 40 * random.random(n) ** 2.2).astype(int), n // 40 - 1).tolist()
    # The first ring: 15 new accounts and 12 items of the less popular half.
    items, members = random.integers(n // 80, n // 40, 12), random.random((15, 12)) < 0.8
    assert left[n:].min() == n // 8
    assert left[n : n + members.sum()].tolist() == (n // 8 + np.nonzero(members)[0]).tolist()
    assert right[n : n + members.sum()].tolist() == items[np.nonzero(members)[1]].tolist()
    assert left.size == right.size == times.size


@pytest.mark.parametrize("case", ["scattered", "text36", "bucket", "csv-zstd"])
def test_all_programs_read_the_same_edges(case: str, tmp_path: Path) -> None:
    path = ingest.write_edges(case, 4000, tmp_path)
    counts = {program: ingest._JOBS[program](path, case, ingest._Stages())[0] for program in ("duckdb", "polars")}
    assert len(set(counts.values())) == 1
    assert 4000 < counts["polars"] < 14_000


@pytest.mark.parametrize(("case", "most"), [pytest.param("int", 56, marks=pytest.mark.slow), ("text10", 66)])
def test_reading_holds_few_bytes_an_edge(case: str, most: int, tmp_path: Path) -> None:
    """Two million edges in a new process; memory is measured against a small input."""
    n = 2_000_000
    small, path = (ingest.write_edges(case, size, tmp_path) for size in (20_000, n))
    found = ingest._in_a_process("ours", case, small, path)
    held = {stage: (peak - found["key_bytes"]) / n for stage, peak in found["peaks"].items()}
    # The graph in both directions alone takes 9.
    assert 9 < max(held.values()) < most, held


@pytest.mark.slow
def test_one_command_prints_the_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--cases", "csv", "--sizes", "30000", "--repeats", "1", "--directory", str(tmp_path)]
    assert ingest.main(options) == 0
    *head, ours, duckdb, polars = capsys.readouterr().out.splitlines()
    assert head[-1].split()[-len(ingest.STAGES) :] == list(ingest.STAGES)
    assert [line.split()[:3] for line in (ours, duckdb, polars)] == [
        ["csv", "30,000", program] for program in ingest.PROGRAMS
    ]
    assert all(float(ours.split()[at]) > 0 for at in (3, 4, 5, 6))

"""What workers write of a run: the same rows, sums and bytes, whoever is late or lost."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from mbe_stage import Execution
from mbe_stage.bicliques import engine_cpu
from mbe_stage.bicliques.query import BicliqueQuery
from mbe_stage.bicliques.results import BicliqueBlock, Detail
from mbe_stage.runners.parts import Part
from pipeline.errors import PublishError
from pipeline.outputs.bicliques.arrow.sink import ParquetSink
from pipeline.outputs.bicliques.arrow.worker_parts import WorkerParts
from tests.mbe_stage import graphs

HASHES = tuple(np.random.default_rng(n).integers(0, 1 << 64, n, np.uint64) for n in (14, 17))


def blocks_of(density: float = 0.4) -> list[list[BicliqueBlock]]:
    """Those of some leases, of which one finds nothing."""
    graph, query = graphs.from_matrix(graphs.random_matrix(2, 14, 17, density)), BicliqueQuery()
    tasks = engine_cpu.tasks_of(graph, query, 3)
    assert len(tasks) == 3
    found = [list(engine_cpu.run(graph, query, Execution(threads=1), Detail.MEMBERS, [task])) for task in tasks]
    return [*found, []]


def parts_of(directory: Path, **asked: Any) -> WorkerParts:
    given = {"compression": "zstd", "bicliques": True, "members": True, "sort": False} | asked
    # As a worker gets it.
    return pickle.loads(pickle.dumps(WorkerParts(directory, *HASHES, **given)))


def written(parts: WorkerParts, name: str, blocks: list[BicliqueBlock]) -> Part:
    with parts.open(name, Execution()) as sink:
        for block in blocks:
            sink.accept(block)
    made, n_bytes = sink.part()
    assert (n_bytes > 0) == any(map(len, blocks))
    return pickle.loads(pickle.dumps(Part(sum(map(len, blocks)), made)))


def files_of(run_path: Path) -> dict[str, bytes]:
    return {path.relative_to(run_path).as_posix(): path.read_bytes() for path in run_path.rglob("*") if path.is_file()}


def keys_of(run_path: Path) -> list[int]:
    tables = [pq.read_table(part) for part in run_path.glob("bicliques/*")]
    return sorted(key for table in tables for key in table["biclique_key"].to_pylist())


def sums(sink: ParquetSink) -> list[Any]:
    summary = sink.summary
    sides = [each.tolist() for side in (summary.left, summary.right) for each in (side.n_bicliques, side.largest_edges)]
    return [str(summary.fingerprint), [each.tolist() for each in summary.sizes.sorted_rows()], *sides]


@pytest.fixture(params=[False, True], ids=["as found", "sorted"])
def sort(request: pytest.FixtureRequest) -> Iterator[bool]:
    return request.param


def test_what_workers_wrote_is_what_one_process_writes(tmp_path: Path, sort: bool) -> None:
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    ours.mkdir()
    theirs.mkdir()
    leases = blocks_of()
    with ParquetSink(ours, *HASHES, members=True, sort=sort) as alone:
        for block in (block for blocks in leases for block in blocks):
            alone.accept(block)
    parts = parts_of(tmp_path / "theirs.parts", sort=sort)
    with ParquetSink(theirs, *HASHES, members=True, sort=sort, parts=parts) as sink:
        # One worker sends what it finds, and one finds what nobody waits for any more.
        for block in leases[0]:
            sink.accept(block)
        for i, blocks in enumerate(leases[1:]):
            sink.take_part(written(parts, f"lease-{i}", blocks))
        sink.take_part(Part(0, None))
        written(parts, "late", leases[1])
        (parts.directory / "late" / "torn.parquet").write_bytes(b"PAR1")
    assert sums(sink) == sums(alone)
    assert keys_of(theirs) == keys_of(ours)
    assert len(keys_of(ours)) == alone.summary.fingerprint.n_items > 40
    if sort:
        assert files_of(theirs) == files_of(ours)
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith("theirs")] == ["theirs"]


def test_a_lease_that_comes_after_the_end_writes_nothing(tmp_path: Path) -> None:
    parts = parts_of(tmp_path / "run.parts")
    with parts.directory_made(), parts.open("early", Execution()):
        pass
    with pytest.raises(PublishError, match=r"run\.parts/late: cannot be written"), parts.open("late", Execution()):
        pass
    assert not list(tmp_path.iterdir())


def test_without_bicliques_sums_travel_alone(tmp_path: Path, sort: bool) -> None:
    parts = parts_of(tmp_path / "run.parts", bicliques=False, members=False, sort=sort)
    (tmp_path / "run").mkdir()
    with ParquetSink(tmp_path / "run", *HASHES, bicliques=False, parts=parts) as sink:
        for i, blocks in enumerate(blocks_of()):
            with parts.open(str(i), Execution()) as lease:
                for block in blocks:
                    lease.accept(block)
            made, n_bytes = lease.part()
            assert (made.files, made.spills, n_bytes) == ({}, (), 0)
            sink.take_part(Part(0, made))
    assert sink.summary.fingerprint.n_items > 40
    assert not list((tmp_path / "run").iterdir())


def test_only_who_shares_the_directory_writes(tmp_path: Path) -> None:
    parts, elsewhere = parts_of(tmp_path / "here"), parts_of(tmp_path / "there")
    with parts.directory_made():
        assert parts.is_proven(parts.prove())
        assert not parts.is_proven(None)
        name, text, _ = parts.prove()
        # What is in it cannot be read as text.
        (parts.directory / name).write_bytes(b"\xff")
        assert not parts.is_proven((name, text, ""))
        name, text, _ = parts.prove()
        assert not parts.is_proven((name, f"{text} ", ""))
        proof = elsewhere.prove()
        assert not parts.is_proven(proof)
        assert "there: cannot be written on" in parts.what_is_sent(proof)
        with elsewhere.directory_made():
            # A directory by the same name, on another disk.
            proof = elsewhere.prove()
            assert not parts.is_proven(proof)
            assert "here: is another directory there" in parts.what_is_sent(proof)


@pytest.mark.parametrize(("change", "said"), [("cut", "has 4 bytes"), ("removed", "is missing")])
def test_a_part_that_has_not_arrived_is_refused(tmp_path: Path, change: str, said: str) -> None:
    (tmp_path / "run").mkdir()
    parts = parts_of(tmp_path / "run.parts")
    with ParquetSink(tmp_path / "run", *HASHES, members=True, parts=parts) as sink:
        part = written(parts, "lease", blocks_of()[0])
        path, _ = part.made.files["bicliques"][0]
        path.unlink()
        if change == "cut":
            path.write_bytes(b"PAR1")
        with pytest.raises(PublishError, match=f"{said}; expected"):
            sink.take_part(part)


def test_a_spill_that_has_not_arrived_is_refused(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    parts = parts_of(tmp_path / "run.parts", sort=True)
    with ParquetSink(tmp_path / "run", *HASHES, members=True, sort=True, parts=parts) as sink:
        part = written(parts, "lease", blocks_of()[0])
        part.made.spills[0].path.write_bytes(b"ARRO")
        with pytest.raises(PublishError, match="has 4 bytes; expected"):
            sink.take_part(part)


def test_nothing_of_a_part_is_taken_over_by_nobody() -> None:
    for n in (0, 3):
        assert Part(n, "made", 0.5).first(0) == Part(0, None, 0.5)
    assert Part(3, "made").first(3) == Part(3, "made")

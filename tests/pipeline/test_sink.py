"""The writer thread runs beside the caller and ends with it, and its failures are raised."""

from __future__ import annotations

import itertools
import os
import threading
import time

import numpy as np
import pyarrow.parquet as pq
import pytest

from mbe_stage.bicliques.results import BicliqueBlock
from mbe_stage.pipeline import PublishError
from mbe_stage.pipeline.backends.arrow import block_writer
from mbe_stage.pipeline.backends.arrow.parts import PartWriter
from mbe_stage.pipeline.problems.bicliques.arrow import ParquetSink
from tests.patience import PATIENCE
from tests.pipeline.output_support import published_rows

HASHES = np.arange(1, 11, dtype=np.uint64), np.arange(1, 11, dtype=np.uint64)


def block(first: int = 0) -> BicliqueBlock:
    ones = np.ones(2, np.int32)
    members = np.array([first, first + 1], np.int32)
    return BicliqueBlock(2, ones, ones, members, members)


def feed(sink: ParquetSink) -> None:
    """Feed endless blocks; a sink whose writer has failed has to stop this."""
    deadline = time.monotonic() + PATIENCE
    with sink:
        while time.monotonic() < deadline:
            sink.accept(block())
            time.sleep(0.001)
    pytest.fail("the sink went on accepting")


def writer_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "parquet-writer"]


@pytest.fixture(autouse=True)
def no_thread_stays():
    yield
    assert writer_threads() == []


def test_blocks_without_bicliques_only_report_progress(tmp_path):
    with ParquetSink(tmp_path, *HASHES) as sink:
        sink.accept(BicliqueBlock(0))
        sink.accept(block())
        sink.accept(BicliqueBlock(0))
    assert len(published_rows(tmp_path)) == 2
    assert sink.summary.fingerprint.n_items == 2


def test_accept_does_not_wait_for_the_files(tmp_path, monkeypatch):
    gate = threading.Event()
    real_write = PartWriter.write

    def slow_write(self, batch):
        assert gate.wait(PATIENCE)
        real_write(self, batch)

    monkeypatch.setattr(PartWriter, "write", slow_write)
    with ParquetSink(tmp_path, *HASHES) as sink:
        sink.accept(block())
        sink.accept(block(2))
        gate.set()
    assert len(published_rows(tmp_path)) == 4


@pytest.mark.parametrize("kind", [OSError, ValueError])
def test_a_failure_of_the_writer_is_raised_by_a_later_block(tmp_path, monkeypatch, kind):
    def fail(*_):
        raise kind("out of order")

    monkeypatch.setattr(PartWriter, "write", fail)
    expected = PublishError if kind is OSError else kind
    with pytest.raises(expected, match="out of order"):
        feed(ParquetSink(tmp_path, *HASHES))


@pytest.mark.parametrize("sort", [False, True])
def test_a_failure_at_the_end_is_raised_on_leaving(tmp_path, monkeypatch, sort):
    def fail(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(PartWriter, "close", fail)
    sink = ParquetSink(tmp_path, *HASHES, sort=sort)
    sink.accept(block())
    with pytest.raises(PublishError, match=r"No space left on device.*free some space"), sink:
        pass


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="needs /proc to see which files are open")
def test_a_failure_leaves_no_file_open(tmp_path, monkeypatch):
    def fail(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(pq.ParquetWriter, "close", fail)
    sink = ParquetSink(tmp_path, *HASHES)
    sink.accept(block())
    with pytest.raises(PublishError) as kept, sink:
        pass
    opened = {os.path.realpath(f"/proc/self/fd/{name}") for name in os.listdir("/proc/self/fd")}
    assert not [path for path in opened if path.startswith(str(tmp_path))]
    assert kept.value.__cause__ is not None


def test_an_error_of_the_caller_stops_the_writer_and_stays_the_error(tmp_path, monkeypatch):
    finished = []
    monkeypatch.setattr(PartWriter, "close", lambda self: finished.append(self))
    sink = ParquetSink(tmp_path, *HASHES)
    with pytest.raises(ZeroDivisionError), sink:
        sink.accept(BicliqueBlock(1 // 0))
    assert finished == []


@pytest.fixture
def eager_encoders(monkeypatch):
    """Start another encoder for every block that has to wait, as on eight cores."""
    monkeypatch.setattr(block_writer, "ROW_GROUP_BYTES", 1)
    monkeypatch.setattr(block_writer.Execution, "worker_count", 8)


@pytest.mark.usefixtures("eager_encoders")
def test_encoders_write_parts_of_their_own(tmp_path, monkeypatch):
    real_write, encoders, several = PartWriter.write, set(), threading.Event()

    def write_when_there_are_three(self, batch):
        encoders.add(threading.get_ident())
        if len(encoders) == 3:
            several.set()
        assert several.wait(PATIENCE)
        real_write(self, batch)

    monkeypatch.setattr(PartWriter, "write", write_when_there_are_three)
    with ParquetSink(tmp_path, *HASHES, members=True) as sink:
        for first in range(6):
            sink.accept(block(first))
    rows = published_rows(tmp_path)
    assert sorted(row["left"][0] for row in rows) == sorted(vertex for k in range(6) for vertex in (k, k + 1))
    assert sink.summary.fingerprint.n_items == 12
    assert len(list((tmp_path / "bicliques").iterdir())) >= 3
    assert sum(pq.read_metadata(part).num_rows for part in (tmp_path / "members").iterdir()) == 24


@pytest.mark.usefixtures("eager_encoders")
@pytest.mark.parametrize(("memory_budget", "n_encoders"), [(1 << 20, 1), (384 << 20, 3), (1 << 40, 8)])
def test_there_are_as_many_encoders_as_memory_and_cores_allow(tmp_path, monkeypatch, memory_budget, n_encoders):
    real_write, released = PartWriter.write, threading.Event()

    def write_once_released(self, batch):
        assert released.wait(PATIENCE)
        real_write(self, batch)

    monkeypatch.setattr(PartWriter, "write", write_once_released)
    # With blocks of 4 MiB, sixteen may wait.
    with ParquetSink(tmp_path, *HASHES, memory_budget=memory_budget, block_bytes=4 << 20) as sink:
        for k in range(15):
            sink.accept(block(k % 6))
            # Give an idle encoder time to take it.
            time.sleep(0.01)
        assert len(writer_threads()) == n_encoders
        released.set()
    assert sink.summary.fingerprint.n_items == 30


@pytest.mark.parametrize(("block_bytes", "n_waiting"), [(1, 64), (4 << 20, 32), (16 << 20, 8), (1 << 30, 1)])
def test_a_block_may_wait_for_each_encoder(tmp_path, monkeypatch, block_bytes, n_waiting):
    monkeypatch.setattr(block_writer.Execution, "worker_count", 8)
    sink = ParquetSink(tmp_path, *HASHES, memory_budget=1 << 30, block_bytes=block_bytes)
    assert sink._writer._slots._value == n_waiting


@pytest.mark.parametrize(
    ("free", "container", "n_encoders"), [(64 << 30, "max", 64), (64 << 30, str(8 << 30), 16), (2 << 30, "max", 8)]
)
def test_without_a_budget_the_free_memory_decides(tmp_path, monkeypatch, free, container, n_encoders):
    monkeypatch.setattr(block_writer.Execution, "worker_count", 64)
    (tmp_path / "memory.max").write_text(f"{container}\n")
    (tmp_path / "meminfo").write_text(f"MemTotal: 999 kB\nMemAvailable: {free >> 10} kB\nBuffers: 1 kB\n")
    monkeypatch.setattr(block_writer, "_CONTAINER_LIMITS", (tmp_path / "missing", tmp_path / "memory.max"))
    monkeypatch.setattr(block_writer, "_MEMORY_FACTS", tmp_path / "meminfo")
    monkeypatch.setattr(block_writer.os, "sysconf", lambda _: 1 << 20)
    assert block_writer.most_encoders(block_writer.writing_budget(None)) == n_encoders
    assert block_writer.most_encoders(block_writer.writing_budget(256 << 20)) == 2


def test_few_rows_have_one_encoder_and_one_part(tmp_path):
    with ParquetSink(tmp_path, *HASHES) as sink:
        for _ in range(50):
            sink.accept(block())
        assert len(writer_threads()) == 1
    assert [part.name for part in (tmp_path / "bicliques").iterdir()] == ["part-00000.parquet"]


@pytest.mark.usefixtures("eager_encoders")
def test_a_failure_of_one_encoder_ends_them_all(tmp_path, monkeypatch):
    real_write, n_written = PartWriter.write, itertools.count()

    def fail_once(self, batch):
        time.sleep(0.01)
        if next(n_written) == 5:
            raise OSError(28, "No space left on device")
        real_write(self, batch)

    monkeypatch.setattr(PartWriter, "write", fail_once)
    with pytest.raises(PublishError, match="No space left on device"):
        feed(ParquetSink(tmp_path, *HASHES))

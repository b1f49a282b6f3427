"""Rows read back from disk keep their order with any number of readers, and errors are raised."""

from __future__ import annotations

import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mbe_stage.pipeline.backends.arrow.kept_rows import KeptRows

N_FILES, N_ROWS, N_GROUP = 5, 1000, 64


@pytest.fixture
def kept(tmp_path: Path) -> KeptRows:
    """Parts of two data sets, each with several row groups."""
    files = []
    for k in range(N_FILES):
        for name in ("rows", "others"):
            path = tmp_path / name / f"part-{k}.parquet"
            path.parent.mkdir(exist_ok=True)
            table = pa.table({"n": np.arange(k * N_ROWS, (k + 1) * N_ROWS)})
            pq.write_table(table if name == "rows" else table.slice(0, 1), path, row_group_size=N_GROUP)
            files.append(path)
    journal: Any = SimpleNamespace(files=files, n_found=0, staging_dir=tmp_path)
    return KeptRows(journal, tmp_path, "rows", {})


@pytest.mark.parametrize("n_threads", [1, 2, 7])
def test_all_rows_come_once_and_in_order(kept: KeptRows, n_threads: int) -> None:
    taken_by = set()

    def take(batch: pa.RecordBatch) -> np.ndarray:
        taken_by.add(threading.current_thread())
        return batch["n"].to_numpy()

    numbers = np.concatenate(list(kept.taken_back(None, n_threads, take)))
    assert numbers.tolist() == list(range(N_FILES * N_ROWS))
    assert threading.main_thread() not in taken_by
    assert len(taken_by) <= n_threads


def test_errors_are_raised_and_no_thread_stays(kept: KeptRows) -> None:
    before = threading.active_count()

    def take(batch: pa.RecordBatch) -> None:
        if batch["n"][0].as_py() >= 2 * N_ROWS:
            raise OSError("the disk is gone")

    with pytest.raises(OSError, match="the disk is gone"):
        list(kept.taken_back(None, 3, take))
    assert threading.active_count() == before


def test_no_more_is_read_than_is_taken(kept: KeptRows) -> None:
    seen: list[int] = []
    rows = kept.taken_back(None, 2, lambda batch: seen.append(len(batch)))
    next(rows)
    rows.close()  # type: ignore[attr-defined]
    assert len(seen) <= 4

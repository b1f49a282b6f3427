"""A too small address space is reported as lack of memory, whichever library allocates."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest

from tests.patience import completed

ROOT = Path(__file__).parents[2]
N_ROWS = 12_000_000
MOST_ABORTED = 3

# The limit is set after everything is loaded: 64 MiB more are allowed, and a column takes 96.
LIMITED = """
import resource
from pathlib import Path
from mbe_stage.pipeline.cli import app, console
from mbe_stage.pipeline.cli import json_or_text as show
from mbe_stage.pipeline.execution import job
from mbe_stage.pipeline.execution.tiers import load_host_modules
load_host_modules()
pages = int(Path("/proc/self/statm").read_text().split()[0])
limit = pages * resource.getpagesize() + (64 << 20)
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
app.main()
"""


def write_parquet(path: Path) -> None:
    column = pa.array(np.ones(N_ROWS, np.int64))
    pq.write_table(pa.table({"left": column, "right": column}), path)


def write_csv(path: Path) -> None:
    column = pa.array(np.ones(N_ROWS, np.int64))
    pa_csv.write_csv(pa.table({"left": column, "right": column}), path)


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="asks Linux how large the process is")
@pytest.mark.parametrize(
    ("name", "write"), [pytest.param("edges.parquet", write_parquet, marks=pytest.mark.slow), ("edges.csv", write_csv)]
)
def test_a_small_address_space_is_not_called_a_damaged_file(tmp_path: Path, name: str, write) -> None:
    path = tmp_path / name
    write(path)
    for _ in range(MOST_ABORTED):
        done = completed(
            [sys.executable, "-c", LIMITED, "enumerate", path, "--count-only", "--engine", "reference", "--quiet"],
            cwd=ROOT,
            # Arrow's own allocators have reserved memory that the limit does not see.
            env={**os.environ, "ARROW_DEFAULT_MEMORY_POOL": "system"},
        )
        # About once in a hundred times, Arrow aborts the process in a thread of its CSV reader.
        if done.returncode != -signal.SIGABRT or "ValueOrDie called on an error: Out of memory" not in done.stderr:
            break
    assert done.returncode == 4, done.stderr
    assert done.stderr.startswith("error: out of memory: raise the limit of the address space (ulimit -v), ")
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize("kilobytes", [100_000, 600_000])
def test_an_address_space_too_small_for_libraries_is_refused_at_once(kilobytes: int) -> None:
    """Within some of these limits, OpenBLAS would ask for memory forever."""
    done = completed(
        [
            "sh",
            "-c",
            f"ulimit -v {kilobytes}; "
            f"exec {sys.executable} -m mbe_stage.pipeline.cli.entry enumerate none.csv --count-only",
        ],
        cwd=ROOT,
    )
    assert done.returncode == 4, done.stderr
    said = f"error: out of memory: the address space is limited to {1024 * kilobytes:,} bytes (ulimit -v); expected "
    assert done.stderr.startswith(said)
    assert len(done.stderr.splitlines()) == 1

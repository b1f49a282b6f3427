"""Time of reading published runs: ``python -m benchmarks.read_runs``; every line in a separate process.

- `mbe verify` of a run whose keys have ten megabytes each (the input is read before, and not in the figure), which
  includes compiling if it is not cached;
- `mbe export --csv` of a crown of 2**18 - 2 bicliques: rows and megabytes per second, and the growth of memory;
- `mbe runs` of a directory with a thousand runs.
"""

from __future__ import annotations

import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

if __name__ == "__main__" and not __package__:
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks import machine
from mbe_stage.pipeline import Config, RunStore, read_manifest, run
from mbe_stage.pipeline.execution.ingest import ingest
from mbe_stage.pipeline.problems.installed import reading_of
from mbe_stage.pipeline.publish.listing import list_runs
from mbe_stage.pipeline.verify import verify_run
from mbe_stage.pipeline.views.export import export_run

__all__ = ["main"]

_ROOT = Path(__file__).resolve().parents[1]
_N_KEYS, _KEY_BYTES = 8, 10_000_000
_CROWN = 18
_N_RUNS = 1_000


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the figures; with the name of one, measure it here."""
    names = list(sys.argv[1:] if arguments is None else arguments)
    if names:
        with tempfile.TemporaryDirectory(prefix="mbe-read-runs-") as directory:
            print(_MEASUREMENTS[names[0]](Path(directory)), flush=True)
        return 0
    about = machine.describe()
    print(f"{about['processor']}, {about['date']}, commit {about['commit']}", flush=True)
    commands = [[sys.executable, "-m", "benchmarks.read_runs", name] for name in _MEASUREMENTS]
    return max(subprocess.run(command, cwd=_ROOT, check=False).returncode for command in commands)


def verify_long_keys(directory: Path) -> str:
    """Time it with the input and without."""
    names = [chr(ord("a") + i) * _KEY_BYTES for i in range(_N_KEYS)]
    pairs = [(i, j) for i in range(_N_KEYS) for j in range(_N_KEYS) if i != j]
    left = pa.array([names[i] for i, _ in pairs], pa.large_string())
    pq.write_table(pa.table({"left": left, "right": [j for _, j in pairs]}), directory / "edges.parquet")
    published = _published(directory, path=str(directory / "edges.parquet"))
    edges = ingest(reading_of(read_manifest(published).config))
    with_input = _seconds(lambda: verify_run(published, edges))
    without = _seconds(lambda: verify_run(published))
    return f"verify, {_N_KEYS} keys of {_KEY_BYTES:,} bytes: {with_input:.2f} s; without the input {without:.2f} s"


def export_rate(directory: Path) -> str:
    """Export into a file, as `mbe export --out` does."""
    pairs = [(f"left {i}", j) for i in range(_CROWN) for j in range(_CROWN) if i != j]
    path = directory / "edges.parquet"
    pq.write_table(pa.table({"left": [u for u, _ in pairs], "right": [v for _, v in pairs]}), path)
    published = _published(directory, path=str(path))
    counts = read_manifest(published).counts
    before, target = _resident(), directory / "members.csv"
    with open(target, "wb") as file:
        seconds = _seconds(lambda: export_run(published, file))
    n_rows, n_bytes = counts.left_members + counts.right_members, target.stat().st_size
    return (
        f"export, {n_rows:,} rows: {seconds:.2f} s, {n_rows / seconds / 1e6:.2f} million rows/s, "
        f"{n_bytes / seconds / 1e6:.0f} MB/s; memory grew by {(_resident() - before) / 1e6:.0f} MB"
    )


def list_many_runs(directory: Path) -> str:
    """List copies of one run under other names."""
    path = directory / "edges.parquet"
    pq.write_table(pa.table({"left": [1, 1, 2], "right": [1, 2, 2]}), path)
    published = _published(directory, path=str(path))
    for number in range(_N_RUNS - 1):
        shutil.copytree(published, published.with_name(f"20200101T000000Z-{number:06x}"))
    seconds = _seconds(lambda: list_runs(directory / "out"))
    return f"runs, {len(RunStore(directory / 'out').runs()):,} listed: {seconds:.2f} s"


def _published(directory: Path, **input_section: str) -> Path:
    output = {"directory": str(directory / "out"), "report": False}
    return run(Config.from_mapping({"input": input_section, "output": output})).run_dir


def _seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def _resident() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


_MEASUREMENTS = {"verify": verify_long_keys, "export": export_rate, "runs": list_many_runs}


if __name__ == "__main__":
    sys.exit(main())

"""``make bench-rapids``: a Parquet file of edges to a published run, everything on one GPU, step by step.

Times cover the whole of `pipeline.run`, including report and syncing to disk, excluding the start of the process: one
process measures every graph, after a small graph has gone through every step. Best and median of the repeats. ``python
-m benchmarks.bench_rapids --help`` lists the options.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

if __name__ == "__main__" and not __package__:
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.edge_table import edges_as_parquet
from benchmarks.graphs import BY_NAME
from mbe_stage.errors import MemoryBudgetExceeded
from mbe_stage.pipeline import Config, run
from mbe_stage.pipeline.errors import StageError, exit_code

__all__ = ["JOBS", "Job", "disk_speed", "main", "measure"]


@dataclass(frozen=True, slots=True)
class Job:
    """A graph, the query, and the target seconds."""

    graph: str
    seconds: float | None = None
    query: dict[str, int] = field(default_factory=dict)


JOBS = (
    Job("youtube", 2.0),
    Job("EuAll", 6.0),
    Job("bookcrossing", 30.0),
    Job("kddcup99_onehot", None, {"min_left": 10, "min_right": 36}),
)
_DISK_BYTES = 2 << 30


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; return 1 if a count is wrong or a graph is refused."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("graphs", nargs="*", help="of the table; all of them by default")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--commit", help="what to call the commit where there is no repository")
    parser.add_argument("--engine", default="rapids", help="another tier, to compare with")
    parser.add_argument("--set", dest="output", action="append", default=[], metavar="KEY=VALUE", help="of output")
    parser.add_argument("--directory", type=Path, help="where runs are published; the temporary directory by default")
    parser.add_argument("--json", type=Path, help="where to write the figures too")
    options = parser.parse_args(arguments)
    output = dict(text.partition("=")[::2] for text in options.output)
    with tempfile.TemporaryDirectory(prefix="mbe-rapids-", dir=options.directory) as directory:
        try:
            rows = list(_rows(options, output, Path(directory)))
        except StageError as error:
            print(f"error: {error}", file=sys.stderr)
            return exit_code(error)
    if options.json:
        options.json.write_text(json.dumps({"commit": _commit(options.commit), "runs": rows}, indent=2) + "\n")
    return 1 if any(row["wrong"] for row in rows) else 0


def _rows(options: argparse.Namespace, output: dict[str, Any], directory: Path):
    start = time.perf_counter()
    warm = measure(Job("southern_women"), options.engine, output, directory, repeats=1)
    date = datetime.now(UTC).strftime("%Y-%m-%d")
    print(f"{warm['device']}, {date}, commit {_commit(options.commit)}; {warm['versions']}")
    print(f"the first, small run of the process, imports and compilation included: {time.perf_counter() - start:.1f} s")
    rates = disk_speed(directory)
    print(f"disk: {rates['written']:.2f} GiB/s written, {rates['synced']:.2f} GiB/s with syncing\n")
    yield warm | {"disk": rates}
    for job in JOBS:
        if options.graphs and job.graph not in options.graphs:
            continue
        try:
            row = measure(job, options.engine, output, directory, options.repeats)
        except MemoryBudgetExceeded as error:
            print(f"{_asked(job)}: refused: {error}\n", flush=True)
            yield {"graph": job.graph, "query": job.query, "wrong": True, "refused": str(error)}
            continue
        _print(job, row)
        yield row


def measure(job: Job, engine: str, output: dict[str, Any], directory: Path, repeats: int) -> dict[str, Any]:
    """Publish a graph repeatedly; return the seconds of each, and the steps of the median one."""
    edges = edges_as_parquet(job.graph, directory)
    config = Config.from_mapping(
        {
            "input": {"path": str(edges)},
            "query": job.query,
            "execution": {"engine": engine},
            "output": {"directory": str(directory / "out"), "keep_runs": 1, **output},
        }
    )
    walls, manifests = [], []
    for _ in range(repeats):
        start = time.perf_counter()
        manifests.append(run(config).manifest)
        walls.append(time.perf_counter() - start)
    middle = manifests[walls.index(statistics.median_low(walls))]
    expected = None if job.query or job.graph not in BY_NAME else BY_NAME[job.graph].expected
    return {
        "graph": job.graph,
        "query": job.query,
        "bicliques": middle.counts.bicliques,
        "wrong": expected is not None and middle.counts.bicliques != expected,
        "seconds": walls,
        "at_most": job.seconds,
        "steps": middle.seconds,
        "bytes": sum(entry.bytes for entry in middle.files),
        "members": middle.counts.left_members + middle.counts.right_members,
        "peak_device_memory_bytes": middle.peak_device_memory_bytes,
        "peak_memory_bytes": middle.peak_memory_bytes,
        "device": middle.device,
        "versions": ", ".join(f"{name} {number}" for name, number in middle.versions.items()),
    }


def disk_speed(directory: Path) -> dict[str, float]:
    """Return GiB per second of this disk, to the page cache and with syncing: the limit of any writer."""
    path = directory / "disk-speed"
    data = os.urandom(64 << 20)
    start = time.perf_counter()
    with open(path, "wb", buffering=0) as file:
        for _ in range(_DISK_BYTES // len(data)):
            file.write(data)
        written = time.perf_counter() - start
        os.fsync(file.fileno())
        synced = time.perf_counter() - start
    path.unlink()
    return {"written": _DISK_BYTES / 2**30 / written, "synced": _DISK_BYTES / 2**30 / synced}


def _print(job: Job, row: dict[str, Any]) -> None:
    at_most = "" if job.seconds is None else f" (at most {job.seconds:g})"
    wrong = "  WRONG COUNT" if row["wrong"] else ""
    device = row["peak_device_memory_bytes"]
    print(
        f"{_asked(job)}: {row['bicliques']:,} bicliques, {row['members']:,} members, "
        f"{row['bytes'] / 2**30:.2f} GiB published{wrong}\n"
        f"  median {statistics.median(row['seconds']):.2f} s, best {min(row['seconds']):.2f} s{at_most}; "
        f"peak memory {row['peak_memory_bytes'] / 2**30:.1f} GiB"
        + ("" if device is None else f", of the device {device / 2**30:.1f} GiB")
    )
    wall = statistics.median_low(row["seconds"])
    steps = {**row["steps"], "publish": wall - row["steps"]["total"]}
    shares = ", ".join(f"{step} {s:.2f} ({s / wall:.0%})" for step, s in steps.items() if step != "total")
    print(f"  {shares}\n", flush=True)


def _asked(job: Job) -> str:
    return job.graph + "".join(f" {key}={value}" for key, value in job.query.items())


def _commit(given: str | None) -> str:
    if given is not None:
        return given
    asked = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
    return asked.stdout.strip() or "unknown"


if __name__ == "__main__":
    sys.exit(main())

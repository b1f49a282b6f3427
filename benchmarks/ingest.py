"""Reading, stage by stage, compared with DuckDB and Polars: ``python -m benchmarks.ingest``; ``--help`` lists options.

The input has heavy-tailed degrees and 50 planted rings. It is made in chunks, in less than 1 GB. Each measurement has a
separate process, which has read a small input before. Peers and ours alternate on one job: distinct edges between dense
ids that are the ranks of the keys. Ours then also orders the edges and builds the graph in both directions.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from importlib.metadata import version
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as csv
import pyarrow.parquet as pq

__all__ = ["CASES", "edge_chunks", "main", "write_edges"]

_CHUNK = 1 << 20
_SMALL = 20_000
_RINGS, _RING_LEFT, _RING_RIGHT = 50, 15, 12
_DAY = 86_400
_FIRST_TIME, _DAYS = 1_764_000_000, 30
CASES = ("int", "scattered", "text10", "text36", "bucket", "csv", "csv-text10", "csv-zstd")
"""Kinds of keys in Parquet, and text files: ``scattered`` integers fill no range."""
PROGRAMS = ("ours", "duckdb", "polars")
STAGES = ("decode", "factorise", "distinct", "other", "csr", "facts")


def edge_chunks(n: int, seed: int = 5) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Yield account numbers, item numbers and times of `n` edges, and then of the rings, in chunks.

    One stream of random numbers gives all accounts, then all items, the rings and the times; each has its own position.
    """
    n_accounts, n_items = n // 8, n // 40
    streams = [np.random.Generator(np.random.PCG64(seed)) for _ in range(3)]
    for at, stream in enumerate(streams):
        stream.bit_generator.advance(at * n)  # type: ignore[attr-defined]  # PCG64 has it
    accounts, items, rest = streams
    rings = list(_rings(n_accounts, n_items, rest))
    for start in range(0, n, _CHUNK):
        size = min(_CHUNK, n - start)
        yield (
            np.minimum((n_accounts * accounts.random(size) ** 1.6).astype(np.int64), n_accounts - 1),
            np.minimum((n_items * items.random(size) ** 2.2).astype(np.int64), n_items - 1),
            _times(rest, size),
        )
    left, right = (np.concatenate(side) for side in zip(*rings, strict=True))
    yield left, right, _times(rest, left.size)


def _rings(n_accounts: int, n_items: int, random: np.random.Generator) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    for ring in range(_RINGS):
        accounts = n_accounts + ring * _RING_LEFT + np.arange(_RING_LEFT)
        items = random.integers(n_items // 2, n_items, _RING_RIGHT)
        left, right = np.nonzero(random.random((_RING_LEFT, _RING_RIGHT)) < 0.8)
        yield accounts[left], items[right]


def _times(random: np.random.Generator, size: int) -> np.ndarray:
    return random.integers(_FIRST_TIME, _FIRST_TIME + _DAYS * _DAY, size)


def write_edges(case: str, n: int, directory: Path) -> Path:
    """Write the edges of a case, once; return the file."""
    suffix = {"csv": "csv", "csv-text10": "csv", "csv-zstd": "csv.zst"}.get(case, "parquet")
    path = directory / f"{case}_{n}.{suffix}"
    if path.exists():
        return path
    schema = pa.schema([("account", _accounts(case, np.zeros(1, np.int64)).type), ("item", "int64")])
    schema = schema.append(pa.field("ts", pa.timestamp("s")))
    part = path.with_name(f"part-{path.name}")
    opened = pa.CompressedOutputStream(str(part), "zstd") if suffix.endswith("zst") else pa.OSFile(str(part), "wb")
    with opened as sink, (pq.ParquetWriter if suffix == "parquet" else csv.CSVWriter)(sink, schema) as writer:
        for left, right, times in edge_chunks(n):
            columns = [_accounts(case, left), pa.array(right), pa.array(times, pa.timestamp("s"))]
            writer.write_table(pa.table(columns, schema=schema))
    return part.rename(path)


def _accounts(case: str, numbers: np.ndarray) -> pa.Array:
    if case == "scattered":
        return pa.array((numbers.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15) >> np.uint64(1)).astype(np.int64))
    if case.endswith("text10"):
        return pc.binary_join_element_wise("c", _padded(numbers, 9), "")
    if case.endswith("text36"):
        first = _padded(numbers * 7919 % 10**8, 8)
        return pc.binary_join_element_wise(first, "4a5b-8c6d-9e7f", _padded(numbers, 12), "-")
    return pa.array(numbers * 7 + 10**10)


def _padded(numbers: np.ndarray, width: int) -> pa.Array:
    return pc.utf8_lpad(pa.array(numbers).cast(pa.string()), width, "0")


class _Stages:
    """Processor seconds and peak resident bytes of each stage; nested stages count separately."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self.peaks: dict[str, int] = {}
        self._stage, self._last = "", time.process_time()
        self.base = _status("VmRSS")

    @contextmanager
    def at(self, stage: str) -> Iterator[None]:
        """Count the context for this stage."""
        before = self._enter(stage)
        try:
            yield
        finally:
            self._enter(before)

    def wrap(self, owner: Any, name: str, stage: str) -> None:
        """Make a function a stage for the rest of this process."""
        function = getattr(owner, name)

        def staged(*arguments: Any, **named: Any) -> Any:
            with self.at(stage):
                return function(*arguments, **named)

        setattr(owner, name, staged)

    def _enter(self, stage: str) -> str:
        now, before = time.process_time(), self._stage
        if before:
            self.seconds[before] = self.seconds.get(before, 0.0) + now - self._last
            self.peaks[before] = max(self.peaks.get(before, 0), _status("VmHWM") - self.base)
        Path("/proc/self/clear_refs").write_text("5")  # reset the peak
        self._stage, self._last = stage, time.process_time()
        return before


def _status(name: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * int(next(line for line in lines if line.startswith(name)).split()[1])


def _ours(path: Path, case: str, stages: _Stages) -> tuple[int, int]:
    from mbe_stage.options import Execution
    from mbe_stage.pipeline.backends.arrow import backend
    from mbe_stage.pipeline.clean import cleaning
    from mbe_stage.pipeline.config.model import InputConfig, OutputConfig
    from mbe_stage.pipeline.execution import ingest

    fields = {"timestamp": "ts", "time_bucket": "1d"} if case == "bucket" else {}
    config = InputConfig(path=str(path), left="account", right="item", **fields)
    if not stages.peaks:
        stages.wrap(backend, "read_edges", "decode")
        stages.wrap(backend.ARROW, "column", "decode")
        stages.wrap(cleaning, "number_keys", "factorise")
        stages.wrap(cleaning, "_number_right", "factorise")
        stages.wrap(backend.ARROW, "distinct_pairs", "distinct")
    with stages.at("other"):
        edges = ingest.ingest(config)
    with stages.at("csr"):
        graph = edges.graph()
    most_steps = edges.facts.most_two_hop_steps(OutputConfig().two_hop_steps)
    with stages.at("facts"), backend.ARROW.graph_facts(graph, most_steps, Execution()) as facts:
        facts()
    return edges.facts.n_edges, edges.left_keys.nbytes + edges.right_keys.nbytes


def _duckdb(path: Path, case: str, stages: _Stages) -> tuple[int, int]:
    import duckdb

    right = "item, ts // 86400 AS day" if "csv" in case else "item, epoch(ts)::BIGINT // 86400 AS day"
    right, key = (right, "item, day") if case == "bucket" else ("item", "item")
    with stages.at("distinct"):
        connection = duckdb.connect()
        connection.execute(f"CREATE TABLE edges AS SELECT DISTINCT account, {right} FROM '{path}'")
    with stages.at("factorise"):
        for name, columns in (("accounts", "account"), ("items", key)):
            rank = f"(row_number() OVER (ORDER BY {columns}) - 1)::INTEGER AS {name}_id"
            distinct = f"SELECT DISTINCT {columns} FROM edges"
            connection.execute(f"CREATE TABLE {name} AS SELECT {columns}, {rank} FROM ({distinct})")
        ids = connection.execute(
            f"SELECT accounts_id, items_id FROM edges JOIN accounts USING (account) JOIN items USING ({key})"
        ).fetchnumpy()
    return len(ids["items_id"]), 0


def _polars(path: Path, case: str, stages: _Stages) -> tuple[int, int]:
    import polars as pl

    key = ["item", "day"] if case == "bucket" else ["item"]
    with stages.at("distinct"):
        rows = pl.scan_parquet(path) if path.suffix == ".parquet" else pl.scan_csv(path)
        day = (pl.col("ts").dt.epoch("s") // _DAY).alias("day")
        edges = (rows.with_columns(day) if case == "bucket" else rows).select("account", *key).unique().collect()
    with stages.at("factorise"):
        for columns in (["account"], key):
            ranked = edges.select(columns).unique().sort(columns).with_row_index(f"{columns[0]}_id")
            edges = edges.join(ranked, on=columns).drop(columns)
        ids = edges.to_numpy()
    return len(ids), 0


_Job = Callable[[Path, str, _Stages], tuple[int, int]]
_JOBS: dict[str, _Job] = {"ours": _ours, "duckdb": _duckdb, "polars": _polars}


def _measure(program: str, case: str, small: Path, path: Path) -> dict[str, Any]:
    """Measure one program in this process, after a small input that loads and compiles its code."""
    stages = _Stages()
    job = _JOBS[program]
    job(small, case, stages)
    stages.seconds.clear()
    stages.peaks = dict.fromkeys(stages.peaks, 0)
    stages.base = _status("VmRSS")
    start = time.perf_counter()
    n_edges, key_bytes = job(path, case, stages)
    wall = time.perf_counter() - start
    return {"n_edges": n_edges, "key_bytes": key_bytes, "wall": wall, "seconds": stages.seconds, "peaks": stages.peaks}


def _in_a_process(program: str, case: str, small: Path, path: Path) -> dict[str, Any]:
    command = [sys.executable, "-m", "benchmarks.ingest", "--alone", program, case, str(small), str(path)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(done.stdout.splitlines()[-1])


def _print_case(case: str, n: int, found: dict[str, list[dict[str, Any]]]) -> None:
    """Print a line for each program: the whole reading, and each of its stages."""
    if len({each["n_edges"] for runs in found.values() for each in runs}) > 1:
        raise SystemExit(f"{case}: the programs disagree on the number of edges")
    keys = max(each["key_bytes"] for runs in found.values() for each in runs) / n
    for program, runs in found.items():
        # Other work on the machine only adds to the time.
        least = min(runs, key=_read_seconds)
        stages = {stage: least["seconds"].get(stage, 0.0) for stage in STAGES}
        peaks = {stage: max(run["peaks"].get(stage, 0) for run in runs) / n for stage in STAGES}
        read, wall = _read_seconds(least), min(run["wall"] for run in runs)
        cells = "".join(f"{f'{stages[stage]:.2f} / {peaks[stage]:.0f}':>13}" for stage in STAGES)
        numbers = f"{read:8.2f}{wall:8.2f}{n / read / 1e6:8.1f}{max(peaks.values()) - keys:8.1f}"
        print(f"{case:<11}{n:>12,} {program:<7}{numbers}{cells}", flush=True)


def _read_seconds(run: dict[str, Any]) -> float:
    return sum(run["seconds"].values()) - run["seconds"].get("facts", 0.0)


def _print_head(options: argparse.Namespace) -> None:
    command = ["git", "describe", "--always", "--dirty"]
    commit = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False).stdout.strip()
    peers = ", ".join(f"{name} {version(name)}" for name in options.programs if name != "ours")
    print(f"{datetime.now(UTC):%Y-%m-%d}, commit {commit}; {peers or 'no peers'}; least of {options.repeats}")
    print(
        "read: processor seconds from the file to the graph in both directions (peers: to the ids). M/s: million edges"
    )
    print("per second of it. bytes: peak above the base and the keys, per edge. Stages: seconds / peak bytes per edge.")
    stages = "".join(f"{stage:>13}" for stage in STAGES)
    print(f"{'case':<11}{'edges':>12} {'program':<7}{'read':>8}{'wall':>8}{'M/s':>8}{'bytes':>8}{stages}")


def main(arguments: list[str] | None = None) -> int:
    """Print the table: one line for each case, size and program."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", nargs="+", choices=CASES, default=CASES)
    parser.add_argument("--sizes", nargs="+", type=float, default=[2e6, 2e7, 1e8])
    parser.add_argument("--programs", nargs="+", choices=PROGRAMS, default=PROGRAMS)
    parser.add_argument("--repeats", type=int, default=3, help="the least counts; programs take turns")
    parser.add_argument("--directory", type=Path, help="where inputs are kept, instead of a temporary one")
    parser.add_argument("--alone", nargs=4, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.alone:
        program, case, *paths = options.alone
        print(json.dumps(_measure(program, case, *map(Path, paths))))
        return 0
    _print_head(options)
    with tempfile.TemporaryDirectory(prefix="mbe-bench-") as temporary:
        directory = options.directory or Path(temporary)
        directory.mkdir(parents=True, exist_ok=True)
        for size, case in product(map(int, options.sizes), options.cases):
            small, path = (write_edges(case, n, directory) for n in (_SMALL, size))
            found: dict[str, list[dict[str, Any]]] = {program: [] for program in options.programs}
            for _, program in product(range(options.repeats), options.programs):
                found[program].append(_in_a_process(program, case, small, path))
            _print_case(case, size, found)
            if options.directory is None and path != small:
                path.unlink()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

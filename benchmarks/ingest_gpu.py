"""Reading on one GPU, stage by stage, compared with plain cuDF: ``python -m benchmarks.ingest_gpu``; see ``--help``.

The input has the shape of `benchmarks.ingest`: heavy-tailed degrees. CuPy makes it, in chunks. Each case has a separate
process, which reads the file once before it is measured: then the file is in the page cache, and all is compiled. Plain
cuDF drops duplicates and factorises both columns, without an order of the keys and without a graph.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

if __name__ == "__main__" and not __package__:
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.ingest import STAGES
from benchmarks.machine import describe

__all__ = ["main"]

CASES = ("int", "scattered", "text10")
_CHUNK = 100_000_000


def main(arguments: Sequence[str] | None = None) -> int:
    """Print a line for each case and number of edges."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("edges", nargs="*", type=float, default=[1e8], help="numbers of edges")
    parser.add_argument("--cases", nargs="+", choices=CASES, default=["int"])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--device-memory", type=float, help="limit, in GB")
    parser.add_argument("--plain", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--measure", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.measure:
        limit = None if options.device_memory is None else int(options.device_memory * 1e9)
        ours = partial(_ours, limit=limit)
        print(json.dumps((_plain if options.plain else ours)(options.measure, options.repeats)))
        return 0
    for name, value in describe().items():
        print(f"{name}: {value}")
    print(f"{'case':<22}{'seconds':>9}{'M edges/s':>11}{'GB peak':>9}{'plain cuDF s':>14}  stages")
    for n in map(int, options.edges):
        for case in options.cases:
            with tempfile.TemporaryDirectory(prefix="mbe-ingest-") as directory:
                path = Path(directory, "edges.parquet")
                _write(case, n, path)
                of_ours = ["--device-memory", str(options.device_memory)] if options.device_memory else []
                ours, plain = (_process(path, options.repeats, more) for more in (of_ours, ["--plain"]))
            stages = ", ".join(f"{name} {ours['stages'][name]:.2f}" for name in STAGES if name in ours["stages"])
            print(
                f"{f'{case} {n:.0e}':<22}{ours['seconds']:>9.2f}{n / ours['seconds'] / 1e6:>11.0f}"
                f"{ours['peak_bytes'] / 1e9:>9.1f}{plain['seconds']:>14.2f}  {stages}",
                flush=True,
            )
    return 0


def _process(path: Path, repeats: int, more: list[str]) -> dict[str, Any]:
    command = [sys.executable, "-m", "benchmarks.ingest_gpu", "--measure", str(path), "--repeats", str(repeats), *more]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        last = done.stderr.strip().splitlines()[-1:] or [f"code {done.returncode}"]
        print(f"{'plain cuDF' if '--plain' in more else 'ours'}: {last[0]}", flush=True)
        return {"seconds": float("nan"), "peak_bytes": 0, "stages": {}}
    return json.loads(done.stdout.splitlines()[-1])


def _write(case: str, n: int, path: Path) -> None:
    """Write the edges in a separate process, which releases the device."""
    subprocess.run(
        [sys.executable, "-c", f"from benchmarks.ingest_gpu import made; made({case!r}, {n}, {str(path)!r})"],
        check=True,
    )


def made(case: str, n: int, path: str) -> None:
    import cudf
    import cupy as cp
    from cudf.io.parquet import ParquetWriter

    n_accounts, n_items = n // 8, n // 40
    random = cp.random.default_rng(5)
    with ParquetWriter(path) as writer:
        for start in range(0, n, _CHUNK):
            size = min(_CHUNK, n - start)
            accounts = cp.minimum((n_accounts * random.random(size) ** 1.6).astype(cp.int64), n_accounts - 1)
            items = cp.minimum((n_items * random.random(size) ** 2.2).astype(cp.int64), n_items - 1)
            keys = cudf.Series(accounts)
            if case == "text10":
                keys = "c" + keys.astype("str").str.zfill(9)
            elif case == "scattered":
                keys = cudf.Series(
                    (accounts.astype(cp.uint64) * cp.uint64(0x9E3779B97F4A7C15) >> cp.uint64(1)).astype(cp.int64)
                )
            else:
                keys = keys * 7 + 10**10
            writer.write_table(cudf.DataFrame({"account": keys, "item": items}))


def _timed(job: Callable[[], object], repeats: int) -> float:
    import cupy as cp

    def once() -> float:
        begun = time.perf_counter()
        kept = job()
        cp.cuda.Device().synchronize()
        seconds = time.perf_counter() - begun
        del kept
        return seconds

    once()
    return median(once() for _ in range(repeats))


def _ours(path: Path, repeats: int, limit: int | None) -> dict[str, Any]:
    import cupy as cp

    from mbe_stage.pipeline.backends.cudf import edges, encoded, read
    from mbe_stage.pipeline.backends.cudf.backend import CudfBackend
    from mbe_stage.pipeline.backends.cudf.memory import device_pool
    from mbe_stage.pipeline.config.model import InputConfig
    from mbe_stage.pipeline.execution.ingest import ingest

    config = InputConfig(left="account", right="item")
    with device_pool(limit) as pool:
        backend = CudfBackend(pool)

        def job() -> object:
            found = ingest(config, path, backend)
            return found, found.graph()

        seconds = _timed(job, repeats)
        stages = dict.fromkeys(STAGES, 0.0)

        @contextmanager
        def at(stage: str):  # type: ignore[no-untyped-def]
            cp.cuda.Device().synchronize()
            begun = time.perf_counter()
            yield
            cp.cuda.Device().synchronize()
            stages[stage] += time.perf_counter() - begun

        def wrap(owner: Any, name: str, stage: str) -> None:
            function = getattr(owner, name)

            def staged(*arguments: Any, **named: Any) -> Any:
                with at(stage):
                    return function(*arguments, **named)

            setattr(owner, name, staged)

        wrap(read, "_columns", "decode")
        wrap(CudfBackend, "factorised", "factorise")
        wrap(encoded, "factorised", "factorise")
        wrap(CudfBackend, "distinct_pairs", "distinct")
        wrap(edges, "graph_from_edges", "csr")
        begun = time.perf_counter()
        job()
        cp.cuda.Device().synchronize()
        stages["other"] = time.perf_counter() - begun - sum(stages.values())
        return {"seconds": seconds, "stages": stages, "peak_bytes": pool.peak_bytes()}


def _plain(path: Path, repeats: int) -> dict[str, Any]:
    import cudf

    def job() -> object:
        frame = cudf.read_parquet(path, columns=["account", "item"]).drop_duplicates()
        return frame["account"].factorize(), frame["item"].factorize()

    return {"seconds": _timed(job, repeats), "stages": {}, "peak_bytes": 0}


if __name__ == "__main__":
    sys.exit(main())

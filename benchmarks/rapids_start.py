"""Time of a new process on the tier `rapids` from start to end: ``python -m benchmarks.rapids_start``.

The first run with nothing compiled, the first with minimum sizes after it, and runs that find everything compiled. It
prints the wall time of the process and the sum of its reported steps; the rest is the interpreter, imports and
publishing. Packages without bytecode take seconds more to import: pip compiles it when it installs.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

if __name__ == "__main__" and not __package__:
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.edge_table import edges_as_parquet

__all__ = ["main"]

_ROOT = Path(__file__).resolve().parents[1]
_SIZES = ("--min-left", "3", "--min-right", "3")


def main(arguments: Sequence[str] | None = None) -> int:
    """Print a line for each kind of run."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("graph", nargs="?", default="youtube")
    parser.add_argument("--engine", default="rapids", help="another tier, to compare with")
    parser.add_argument("--repeats", type=int, default=5, help="of the runs that find everything compiled")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="mbe-start-") as directory:
        edges = edges_as_parquet(options.graph, Path(directory))
        command = [
            sys.executable,
            "-m",
            "mbe_stage.pipeline.cli.entry",
            "enumerate",
            str(edges),
            "--engine",
            options.engine,
        ]
        command += ["--out", str(Path(directory, "out")), "--quiet", "--json"]
        cache = Path(directory, "cache")
        print(f"{'process':<44}{'wall s':>8}{'steps':>8}  steps")
        _print("nothing compiled", [_run(command, cache)], 30)
        _print("the first with minimum sizes after it", [_run([*command, *_SIZES], cache)], 10)
        _print("minimum sizes, compiled", [_run([*command, *_SIZES], cache)], None)
        _print(f"compiled, median of {options.repeats}", [_run(command, cache) for _ in range(options.repeats)], 5)
    return 0


def _run(command: Sequence[str], cache: Path) -> tuple[float, dict[str, float]]:
    environment = os.environ | {"NUMBA_CACHE_DIR": str(cache)}
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, (str(_ROOT), os.environ.get("PYTHONPATH"))))
    start = time.perf_counter()
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    return time.perf_counter() - start, json.loads(done.stdout.splitlines()[-1])["seconds"]


def _print(what: str, runs: list[tuple[float, dict[str, float]]], at_most: float | None) -> None:
    wall, seconds = sorted(runs, key=lambda run: run[0])[(len(runs) - 1) // 2]
    steps = ", ".join(f"{step} {value:.2f}" for step, value in seconds.items() if step != "total" and value >= 0.005)
    wanted = "" if at_most is None else f" (at most {at_most:g})"
    spread = "" if len(runs) == 1 else f"; wall {min(run[0] for run in runs):.2f} to {max(run[0] for run in runs):.2f}"
    print(f"{what + wanted:<44}{wall:>8.2f}{seconds['total']:>8.2f}  {steps}{spread}", flush=True)


if __name__ == "__main__":
    sys.exit(main())

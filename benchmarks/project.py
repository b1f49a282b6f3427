"""Peak memory of `mbe project` on a large generated graph: it reads, finds the pairs, and publishes a run.

    python -m benchmarks.project [--side-size 1000000] [--edges 8000000] [--min-shared 3] [--top 100]

Right vertices are chosen by popularity, 1 / (rank + 1000). The command is a separate process; its peak is that of the
resident memory. The exit code is 1 above 4 GiB.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.machine import describe

__all__ = ["main"]

_MOST_BYTES = 4 << 30
_COMMAND = "from mbe_stage.pipeline.cli.entry import main; main()"


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the result; return 1 if the memory is exceeded."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--side-size", type=int, default=1_000_000, help="vertices of each side")
    parser.add_argument("--edges", type=int, default=8_000_000)
    parser.add_argument("--min-shared", type=int, default=3)
    parser.add_argument("--top", type=int, help="only so many pairs; all by default")
    options = parser.parse_args(arguments)
    print("\n".join(f"{name}: {value}" for name, value in describe().items()))
    dice, popularity = np.random.default_rng(1), np.cumsum(1 / np.arange(1000.0, options.side_size + 1000))
    left = dice.integers(0, options.side_size, options.edges)
    right = np.searchsorted(popularity, dice.random(options.edges) * popularity[-1])
    with tempfile.TemporaryDirectory() as directory:
        path, out = Path(directory) / "edges.parquet", Path(directory) / "out"
        pq.write_table(pa.table({"u": left, "v": right}), path)
        command = [sys.executable, "-c", _COMMAND, "project", str(path), "--out", str(out), "--quiet"]
        command += ["--min-shared", str(options.min_shared)]
        command += [] if options.top is None else ["--top", str(options.top)]
        began = time.perf_counter()
        said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        seconds = time.perf_counter() - began
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss << 10
    what = "all pairs" if options.top is None else f"the best {options.top:,}"
    print(f"{what}: {said.splitlines()[0]}, {seconds:.0f} s, peak {peak / 2**30:.2f} GiB")
    return 0 if peak <= _MOST_BYTES else 1


if __name__ == "__main__":
    sys.exit(main())

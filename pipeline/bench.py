"""Counting and writing, timed: each graph in a process of its own, so that its peak memory is its own.

``python -m pipeline.bench FILE`` measures one graph in this process and prints one JSON object.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from mbe_stage.errors import EngineUnavailable, StageError
from pipeline.config import Config
from pipeline.errors import InputError, PipelineError, PublishError, exit_code

__all__ = ["Measurement", "bench_graph", "measure", "sample_graph"]

_BY_EXIT_CODE: dict[int, type[StageError]] = {2: InputError, 3: PublishError, 4: EngineUnavailable}


@dataclass(frozen=True, slots=True)
class Measurement:
    """One graph's figures.

    Attributes
    ----------
    count_seconds : float
        Enumeration alone, storing nothing; the best of the repeats.
    write_seconds : float
        Enumeration with every biclique written to Parquet, and the tables; the best of the repeats.
    count_memory_bytes, write_memory_bytes : int
        Peak of the process up to then, the interpreter and its libraries included.
    written_bytes : int
        Of the published run.
    """

    graph: str
    n_edges: int
    n_bicliques: int
    engine: str
    device: str
    count_seconds: float
    write_seconds: float
    count_memory_bytes: int
    write_memory_bytes: int
    written_bytes: int


def bench_graph(path: str | Path, threads: int = 0, repeats: int = 3, engine: str = "auto") -> Measurement:
    """Measure one graph in a fresh process.

    Raises
    ------
    StageError
        The measurement failed; the message is the process's own.
    """
    command = [sys.executable, "-m", "pipeline.bench", str(path), str(threads), str(repeats), engine]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        message = (done.stderr.strip().splitlines() or [f"{path}: the measurement ended with {done.returncode}"])[-1]
        raise _BY_EXIT_CODE.get(done.returncode, PipelineError)(message)
    return Measurement(**json.loads(done.stdout.splitlines()[-1]))


def measure(path: str | Path, threads: int = 0, repeats: int = 3, engine: str = "auto") -> Measurement:
    """Measure one graph in this process."""
    from pipeline.run import count, run

    execution = {"threads": threads, "engine": engine}
    config = Config.from_mapping({"input": {"path": str(path)}, "execution": execution})
    # The first call compiles, or loads what was compiled before.
    count(config, (np.array([0, 0, 1]), np.array([0, 1, 1])))
    counts = [count(config) for _ in range(repeats)]
    count_memory = counts[-1].peak_memory_bytes
    writes = []
    for _ in range(repeats):
        with tempfile.TemporaryDirectory(prefix="mbe-bench-") as directory:
            output = {"directory": directory, "report": False}
            writes.append(
                run(Config.from_mapping({"input": {"path": str(path)}, "execution": execution, "output": output}))
            )
    last = writes[-1].manifest
    return Measurement(
        graph=Path(path).stem,
        n_edges=last.input.n_edges,
        n_bicliques=last.counts.bicliques,
        engine=last.engine,
        device=last.device,
        count_seconds=min(result.seconds["enumerate"] for result in counts),
        write_seconds=min(
            sum(result.manifest.seconds.get(step, 0.0) for step in ("enumerate", "write", "tables"))
            for result in writes
        ),
        count_memory_bytes=count_memory,
        write_memory_bytes=last.peak_memory_bytes,
        written_bytes=sum(entry.bytes for entry in last.files),
    )


def sample_graph(directory: str | Path) -> Path:
    """Write the graph that is measured where none is named: random with hubs, the same everywhere."""
    rng = np.random.default_rng(2026)
    left = (3000 * rng.random(24_000) ** 2).astype(np.int64)
    right = (2000 * rng.random(24_000) ** 2).astype(np.int64)
    path = Path(directory) / "random_hubs.npz"
    np.savez(path, u=left, v=right)
    return path


def _main(path: str, threads: str = "0", repeats: str = "1", engine: str = "auto") -> None:
    try:
        print(json.dumps(asdict(measure(path, int(threads), int(repeats), engine))))
    except StageError as error:
        print(error, file=sys.stderr)
        sys.exit(exit_code(error))


if __name__ == "__main__":
    _main(*sys.argv[1:])

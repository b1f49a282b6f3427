"""Time counting and writing; each graph has a separate process, and so its own peak memory.

``python -m benchmarks.count_and_write count|write FILE THREADS REPEATS ENGINE SPEND_SECONDS`` measures one graph in
this process and prints one JSON object.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from mbe_stage.errors import EngineUnavailable, StageError
from mbe_stage.pipeline.config.model import Config
from mbe_stage.pipeline.errors import InputError, PipelineError, PublishError, exit_code

__all__ = [
    "CountTimes",
    "WriteTimes",
    "bench_count",
    "bench_write",
    "measure_count",
    "measure_write",
]

_T = TypeVar("_T")
_BY_EXIT_CODE: dict[int, type[StageError]] = {2: InputError, 3: PublishError, 4: EngineUnavailable}


@dataclass(frozen=True, slots=True)
class CountTimes:
    """Counting alone, storing nothing.

    Attributes
    ----------
    seconds : tuple of float
        From the graph in memory to the count, one figure per repeat, in order.
    cpu_seconds : tuple of float
        Processor time of all threads per repeat; divided by `seconds` times threads it is their busy share.
    read_seconds : float
        Reading the edges and building the graph, once before.
    peak_memory_bytes : int
        Peak of the process, including interpreter, libraries and reading.
    """

    graph: str
    n_edges: int
    n_bicliques: int
    engine: str
    device: str
    seconds: tuple[float, ...]
    cpu_seconds: tuple[float, ...]
    read_seconds: float
    peak_memory_bytes: int


@dataclass(frozen=True, slots=True)
class WriteTimes:
    """The whole job without a report: every biclique and vertex in a published run.

    Attributes
    ----------
    seconds : tuple of float
        From the graph in memory to the run published: enumeration, Parquet, tables, checksums, syncing. One figure a
        repeat, in the order they were run.
    steps : dict
        Seconds of each step of the last repeat, as in its manifest.
    peak_memory_bytes : int
        As in `CountTimes`.
    written_bytes : int
        Of the published run.
    """

    graph: str
    n_edges: int
    n_bicliques: int
    engine: str
    device: str
    seconds: tuple[float, ...]
    steps: dict[str, float]
    peak_memory_bytes: int
    written_bytes: int


def bench_count(
    path: str | Path,
    threads: int = 0,
    repeats: int = 3,
    engine: str = "auto",
    spend_seconds: float = math.inf,
    environment: Mapping[str, str] | None = None,
) -> CountTimes:
    """Measure counting in a fresh process.

    Parameters
    ----------
    spend_seconds : float
        No further repeat starts after this time.
    environment : mapping, optional
        Additional variables of the process.

    Raises
    ------
    StageError
        The measurement failed; the message is the process's own.
    """
    found = _in_fresh_process("count", path, threads, repeats, engine, spend_seconds, environment or {})
    return CountTimes(
        **{**found, "seconds": tuple(found["seconds"]), "cpu_seconds": tuple(found["cpu_seconds"])},
    )


def bench_write(
    path: str | Path,
    threads: int = 0,
    repeats: int = 3,
    engine: str = "auto",
    spend_seconds: float = math.inf,
    environment: Mapping[str, str] | None = None,
) -> WriteTimes:
    """Measure writing in a fresh process; parameters and errors as `bench_count`."""
    found = _in_fresh_process("write", path, threads, repeats, engine, spend_seconds, environment or {})
    return WriteTimes(**{**found, "seconds": tuple(found["seconds"])})


def measure_count(
    path: str | Path, threads: int = 0, repeats: int = 3, engine: str = "auto", spend_seconds: float = math.inf
) -> CountTimes:
    """Count the maximal bicliques of one graph in this process, several times.

    Parameters
    ----------
    path : path
        Any input `mbe enumerate` reads.
    threads : int
        0 is every core.
    repeats : int
        At least 1.
    spend_seconds : float
        No further repeat starts after this time.
    """
    from mbe_stage.bicliques.enumerate import RunFacts, enumerate_into
    from mbe_stage.bicliques.results import CountSink
    from mbe_stage.pipeline.execution.ingest import ingest
    from mbe_stage.pipeline.execution.job import count
    from mbe_stage.pipeline.publish.manifest import peak_memory_bytes

    config = _config(path, threads, engine)
    count(config, _warm_up_edges())
    start = time.perf_counter()
    edges = ingest(config.input)
    graph = edges.graph()
    read_seconds = time.perf_counter() - start

    def once() -> tuple[float, float, RunFacts]:
        began, cpu_began = time.perf_counter(), time.process_time()
        facts = enumerate_into(CountSink(), graph, None, config.execution.to_execution(), engine)
        return time.perf_counter() - began, time.process_time() - cpu_began, facts

    results = _repeated(once, repeats, spend_seconds)
    facts = results[-1][-1]
    return CountTimes(
        graph=Path(path).stem,
        n_edges=edges.facts.n_edges,
        n_bicliques=facts.n_bicliques,
        engine=facts.engine,
        device=facts.device,
        seconds=tuple(seconds for seconds, _, _ in results),
        cpu_seconds=tuple(cpu_seconds for _, cpu_seconds, _ in results),
        read_seconds=read_seconds,
        peak_memory_bytes=peak_memory_bytes(),
    )


def measure_write(
    path: str | Path, threads: int = 0, repeats: int = 3, engine: str = "auto", spend_seconds: float = math.inf
) -> WriteTimes:
    """Publish every maximal biclique of one graph from this process, several times; parameters as `measure_count`."""
    from mbe_stage.pipeline.execution.job import run
    from mbe_stage.pipeline.publish.manifest import Manifest

    def once(source: Any = None) -> tuple[float, Manifest]:
        with tempfile.TemporaryDirectory(prefix="mbe-bench-") as directory:
            config = _config(path, threads, engine, {"directory": directory, "report": False})
            began = time.perf_counter()
            manifest = run(config, source).manifest
            seconds = time.perf_counter() - began
        return seconds - manifest.seconds["read"] - manifest.seconds["graph"], manifest

    once(_warm_up_edges())
    results = _repeated(once, repeats, spend_seconds)
    last = results[-1][1]
    return WriteTimes(
        graph=Path(path).stem,
        n_edges=last.input.n_edges,
        n_bicliques=last.counts.bicliques,
        engine=last.engine,
        device=last.device,
        seconds=tuple(seconds for seconds, _ in results),
        steps=last.seconds,
        peak_memory_bytes=last.peak_memory_bytes,
        written_bytes=sum(entry.bytes for entry in last.files),
    )


def _config(path: str | Path, threads: int, engine: str, output: Mapping[str, Any] | None = None) -> Config:
    return Config.from_mapping(
        {
            "input": {"path": str(path)},
            "execution": {"threads": threads, "engine": engine},
            "output": dict(output or {}),
        }
    )


def _warm_up_edges() -> tuple[np.ndarray, np.ndarray]:
    """Return a small graph that uses every part of an engine, so that all code is compiled or loaded.

    It has a vertex of more than 64 neighbours, for the part for large neighbourhoods.
    """
    rng = np.random.default_rng(7)
    left, right = rng.integers(0, 120, 600), rng.integers(0, 40, 600)
    return np.concatenate([left, np.arange(120)]), np.concatenate([right, np.zeros(120, np.int64)])


def _repeated(once: Callable[[], _T], repeats: int, spend_seconds: float) -> list[_T]:
    began = time.perf_counter()
    results = [once()]
    while len(results) < repeats and time.perf_counter() - began < spend_seconds:
        results.append(once())
    return results


def _in_fresh_process(
    what: str,
    path: str | Path,
    threads: int,
    repeats: int,
    engine: str,
    spend_seconds: float,
    environment: Mapping[str, str],
) -> dict[str, Any]:
    """Measure in a new process; return its output.

    Parameters
    ----------
    what : str
        First argument of `_main`.
    path, threads, repeats, engine, spend_seconds
        As `bench_count`.
    environment : mapping of str to str
        Added to this process's.
    """
    paths = [str(Path(__file__).resolve().parents[1]), environment.get("PYTHONPATH") or os.environ.get("PYTHONPATH")]
    arguments = [what, str(path), str(threads), str(repeats), engine, str(spend_seconds)]
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.count_and_write", *arguments],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **environment, "PYTHONPATH": os.pathsep.join(filter(None, paths))},
    )
    if done.returncode != 0:
        message = (done.stderr.strip().splitlines() or [f"{path}: the measurement ended with {done.returncode}"])[-1]
        raise _BY_EXIT_CODE.get(done.returncode, PipelineError)(message)
    return dict(json.loads(done.stdout.splitlines()[-1]))


def _main(what: str, path: str, threads: str, repeats: str, engine: str, spend_seconds: str) -> None:
    """Measure in this process and print the result as a JSON line.

    Parameters
    ----------
    what : str
        ``count`` or ``write``.
    path : str
        Input file.
    spend_seconds : str
        No further repeat starts after this time.
    """
    measure = {"count": measure_count, "write": measure_write}[what]
    try:
        found = measure(path, int(threads), int(repeats), engine, float(spend_seconds))
    except StageError as error:
        print(error, file=sys.stderr)
        sys.exit(exit_code(error))
    print(json.dumps(asdict(found)))


if __name__ == "__main__":
    _main(*sys.argv[1:])
    sys.stdout.flush()
    # Threads of Arrow may still release arrays. After Python has ended, that aborts the process: "terminate called".
    os._exit(0)

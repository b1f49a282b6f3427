"""Counting (p, q)-bicliques on one CPU thread, as a multiple of the time for enumerating the maximal ones.

    python -m benchmarks.pq_counts [--graph youtube] [--repeats 5] [--beside CHECKOUT]

So machines cancel out: the enumeration and every count alternate, and the best of each counts, in processor time of the
thread, which other processes disturb least. `--beside` uses the enumeration of another checkout of this project.
BCList++ and EPivoter are the fastest published programs on a CPU; their multiples were measured with commit 812fb19
(`../shared/data/INDEX.md`). EPivoter's table is in floating point, inexact above 2^53. Two threads are timed by the
clock.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.machine import describe
from mbe_stage import BipartiteCSR, Execution
from mbe_stage.pq_counts import engine_cpu
from mbe_stage.pq_counts.count import count_pq_into
from mbe_stage.pq_counts.query import PqQuery
from mbe_stage.pq_counts.results import PqSink
from mbe_stage.runtime.compile_ahead import compile_ahead

__all__ = ["CASES", "Case", "main"]


@dataclass(frozen=True, slots=True)
class Case:
    """A query, its target multiple, and the best published program's."""

    name: str
    query: PqQuery
    at_most: float | None = None
    published: str = ""


CASES = (
    Case("(2,2)", PqQuery.of(2, 2)),
    Case("(3,3)", PqQuery.of(3, 3)),
    Case("(4,4)", PqQuery.of(4, 4), 3, "8 BCList++"),
    Case("(6,6)", PqQuery.of(6, 6)),
    Case("(8,8)", PqQuery.of(8, 8), 4, "40 BCList++"),
    Case("table up to 10 x 10", PqQuery(1, 10, 1, 10), 8, "35 EPivoter"),
)
_SPEED_UP = 1.8
_ENUMERATING = """
import sys, time
import numpy as np
from mbe_stage import BipartiteCSR, CountSink, Execution, enumerate_into
with np.load(sys.argv[1]) as arrays:
    graph = BipartiteCSR.from_edges(arrays["u"], arrays["v"])
for line in sys.stdin:
    began = time.process_time()
    sink = CountSink()
    enumerate_into(sink, graph, execution=Execution(threads=1), engine="cpu")
    print(time.process_time() - began, flush=True)
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table; return 1 if a multiple is above its target."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--graph", default="youtube")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--beside", type=Path, help="a checkout whose enumeration is the unit")
    options = parser.parse_args(arguments)
    path = Path(os.environ.get("MBE_DATA", Path(__file__).parents[2] / "shared" / "data")) / f"{options.graph}.npz"
    with np.load(path) as arrays:
        graph = BipartiteCSR.from_edges(arrays["u"], arrays["v"])
    compile_ahead(engine_cpu.compile_steps())
    print("\n".join(f"{name}: {value}" for name, value in describe().items()))
    with subprocess.Popen(
        [sys.executable, "-c", _ENUMERATING, str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(options.beside or Path(__file__).parents[1])},
    ) as other:
        _ask(other)
        rounds = [(_ask(other), *(_seconds(graph, case.query) for case in CASES)) for _ in range(options.repeats)]
    unit, *times = (min(column) for column in zip(*rounds, strict=True))
    print(f"\n{options.graph}: one thread, best of {options.repeats}; the maximal bicliques take {unit:.3f} s")
    print(f"{'case':22}{'seconds':>9}{'multiple':>10}{'at most':>9}  published")
    is_met = True
    for case, seconds in zip(CASES, times, strict=True):
        multiple = seconds / unit
        is_met &= case.at_most is None or multiple <= case.at_most
        print(f"{case.name:22}{seconds:9.3f}{multiple:10.2f}{case.at_most or '':>9}  {case.published}")
    for case in CASES[2:]:
        one, two = (min(_clock(graph, case.query, n) for _ in range(options.repeats)) for n in (1, 2))
        print(f"{case.name}: two threads {one / two:.2f} times one (asked {_SPEED_UP}), by the clock {two:.3f} s")
    return 0 if is_met else 1


def _ask(other: subprocess.Popen[str]) -> float:
    assert other.stdin is not None
    assert other.stdout is not None
    other.stdin.write("\n")
    other.stdin.flush()
    return float(other.stdout.readline())


def _seconds(graph: BipartiteCSR, query: PqQuery) -> float:
    return _timed(graph, query, 1, time.process_time)


def _clock(graph: BipartiteCSR, query: PqQuery, threads: int) -> float:
    return _timed(graph, query, threads, time.perf_counter)


def _timed(graph: BipartiteCSR, query: PqQuery, threads: int, clock: Callable[[], float]) -> float:
    """Return the time from the graph in memory to the integers."""
    began = clock()
    sink = PqSink(query)
    count_pq_into(sink, graph, Execution(threads=threads), "cpu")
    sink.counts()
    return clock() - began


if __name__ == "__main__":
    sys.exit(main())

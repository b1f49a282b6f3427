"""Do the intervals of estimates hold? ``python -m benchmarks.estimates [--seeds N] [--seconds S] [GRAPH ...]``.

For each graph: how many of the seeds' intervals hold the truth, how many are open, how wide the others are, how far
their middles are off, and the longest wall time. Graphs are those of `benchmarks.graphs` with a known count, and by
rule crowns (``crown34``), unions of two (``crowns30``) and half graphs (``staircase300``).
"""

from __future__ import annotations

import argparse
import time

import numpy as np

from benchmarks.graphs import GRAPHS, find_graph
from mbe_stage import BipartiteCSR
from mbe_stage.estimation import Effort, Interval, estimate_bicliques
from pipeline.config import InputConfig
from pipeline.ingest import ingest

_MADE = ("crown12", "crown34", "crown60", "crowns30", "staircase300")


def _graph(name: str) -> tuple[BipartiteCSR, int]:
    kind, n = name.rstrip("0123456789"), int(name[len(name.rstrip("0123456789")) :] or 0)
    if kind in {"crown", "crowns", "staircase"}:
        block = np.tri(n, dtype=bool) if kind == "staircase" else ~np.eye(n, dtype=bool)
        matrix = np.kron(np.eye(2, dtype=bool), block) if kind == "crowns" else block
        truth = n if kind == "staircase" else (2 if kind == "crowns" else 1) * (2**n - 2)
        return BipartiteCSR.from_edges(*np.nonzero(matrix), *matrix.shape), truth
    path, known = find_graph(name)
    if known is None or known.expected is None:
        raise SystemExit(f"{name}: no count is known of it")
    return ingest(InputConfig(path=str(path))).graph(), known.expected


def _line(name: str, truth: int, found: list[Interval], wall: float) -> str:
    holds = sum(i.low <= truth and (i.high is None or truth <= i.high) for i in found)
    wide = [i.high / max(1, i.low) for i in found if i.high is not None]
    middles = [i.middle / truth for i in found]
    width = f"{np.median(wide):8.2f}{max(wide):8.2f}" if wide else f"{'-':>8}{'-':>8}"
    return (
        f"{name:22}{truth:>22,}{holds:>6}/{len(found):<4}{len(found) - len(wide):>5}{width}"
        f"{min(middles):9.2f}{max(middles):7.2f}{wall:8.2f}"
    )


def _main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("graphs", nargs="*")
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=1.4, help="what inspect leaves of its two seconds")
    options = parser.parse_args()
    names = options.graphs or [*_MADE, *(graph.name for graph in GRAPHS if graph.expected is not None)]
    print(
        f"{'graph':22}{'truth':>22}{'holds':>11}{'open':>5}{'width':>8}{'most':>8}{'middle / truth':>16}{'wall, s':>8}"
    )
    estimate_bicliques(_graph("crown12")[0])
    for name in names:
        graph, truth = _graph(name)
        found, wall = [], 0.0
        for seed in range(options.seeds):
            start = time.perf_counter()
            found.append(estimate_bicliques(graph, effort=Effort(seconds=options.seconds), seed=seed).bicliques)
            wall = max(wall, time.perf_counter() - start)
        print(_line(name, truth, found, wall), flush=True)


if __name__ == "__main__":
    _main()

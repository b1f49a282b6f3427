"""Coverage of estimated intervals: ``python -m benchmarks.estimates [--seeds N] [--seconds S] [GRAPH ...]``.

For each graph: how many of the seeds' intervals contain the truth, how many are open, the width of the others, the
error of their centres, and the longest wall time. Graphs are those of `benchmarks.graphs` with a known count, and
generated crowns (``crown34``), crowns with a twentieth of their edges removed (``cutcrown30``), unions of two
(``crowns30``), half graphs (``half_graph300``) and random ones of 60 x 60 (``random70``: percent of the edges). Cut and
random graphs are counted first, by the engine of ``auto``.

``--inspect`` looks at each graph as ``mbe inspect`` does, without a trial and with one of two seconds, and prints the
wall times and the cost of the trial; everything is compiled before.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence

import numpy as np

from benchmarks.graphs import GRAPHS, data_directory, find_graph
from mbe_stage import BipartiteCSR, CountSink, Execution, enumerate_into
from mbe_stage.bicliques.estimation import Effort, Interval, estimate_bicliques
from mbe_stage.pipeline.config.model import Config, InputConfig
from mbe_stage.pipeline.edges import EdgeData
from mbe_stage.pipeline.execution.ingest import ingest
from mbe_stage.pipeline.views.inspect import compile_steps, inspect_edges
from mbe_stage.runtime.compile_ahead import compile_ahead

__all__ = ["graph_and_truth", "main"]

_MADE = ("crown12", "crown34", "crown60", "crown200", "crowns20", "crowns30", "half_graph300")
_MADE += ("cutcrown20", "cutcrown30", "cutcrown34", "random50", "random60", "random70", "random80", "random90")
_OTHERS = {"retail": 2_183_307, "dir_soc_Epinions1": 1_479_359_566}
"""Graphs of a known count that are not timed."""
_TRIAL = 2.0


def graph_and_truth(name: str) -> tuple[BipartiteCSR, int]:
    """Return a graph by name and its number of bicliques."""
    kind, n = name.rstrip("0123456789"), int(name[len(name.rstrip("0123456789")) :] or 0)
    if kind in _RULES:
        matrix, truth = _RULES[kind](n)
        graph = BipartiteCSR.from_edges(*np.nonzero(matrix), *matrix.shape)
        truth = _COUNTED.get(name, truth)
        return graph, _count(graph) if truth is None else truth
    if name in _OTHERS:
        path, truth = data_directory() / f"{name}.npz", _OTHERS[name]
    else:
        path, known = find_graph(name)
        truth = None if known is None else known.expected
    if truth is None:
        raise SystemExit(f"{name}: no count is known of it")
    return ingest(InputConfig(path=str(path))).graph(), truth


def _crown(n: int) -> np.ndarray:
    return ~np.eye(n, dtype=bool)


def _cut(matrix: np.ndarray) -> np.ndarray:
    return matrix & (np.random.default_rng(5).random(matrix.shape) >= 0.05)


_RULES = {
    "crown": lambda n: (_crown(n), 2**n - 2),
    "crowns": lambda n: (np.kron(np.eye(2, dtype=bool), _crown(n)), 2 * (2**n - 2)),
    "cutcrown": lambda n: (_cut(_crown(n)), None),
    "half_graph": lambda n: (np.tri(n, dtype=bool), n),
    "random": lambda percent: (np.random.default_rng(percent).random((60, 60)) < percent / 100, None),
}
"""The matrix, and its number of bicliques if known."""
_COUNTED = {"random80": 1_551_114_992, "random90": 95_798_805_157}
"""Counted by the engine `cuda`; a processor would take too long."""


def _count(graph: BipartiteCSR) -> int:
    facts = enumerate_into(CountSink(), graph, None, Execution(time_limit_seconds=600))
    if facts.truncated is not None:
        raise SystemExit("counting it takes more than ten minutes")
    return facts.n_bicliques


def _line(name: str, truth: int, found: list[Interval], wall: float) -> str:
    holds = sum(i.low <= truth and (i.high is None or truth <= i.high) for i in found)
    wide = [i.high / max(1, i.low) for i in found if i.high is not None]
    middles = [i.middle / truth for i in found]
    width = f"{np.median(wide):8.2f}{max(wide):8.2f}" if wide else f"{'-':>8}{'-':>8}"
    return (
        f"{name:22}{truth:>22,}{holds:>6}/{len(found):<4}{len(found) - len(wide):>5}{width}"
        f"{min(middles):9.2f}{max(middles):7.2f}{wall:8.2f}"
    )


def _edges(name: str) -> EdgeData:
    """Return the edges of a graph by name, as they are read."""
    kind, n = name.rstrip("0123456789"), int(name[len(name.rstrip("0123456789")) :] or 0)
    if kind in _RULES:
        left, right = np.nonzero(_RULES[kind](n)[0])
        return ingest(InputConfig(), (left, right))
    path = data_directory() / f"{name}.npz" if name in _OTHERS else find_graph(name)[0]
    return ingest(InputConfig(path=str(path)))


def _inspected(names: Sequence[str]) -> None:
    """Print the cost of a trial of two seconds in a first look at each graph."""
    compile_ahead(compile_steps(Config()))
    print(f"{'graph':22}{'without, s':>12}{'with, s':>12}{'trial adds, s':>15}")
    for name in names:
        edges, walls = _edges(name), []
        for trial in (0.0, _TRIAL):
            start = time.perf_counter()
            inspect_edges(edges, Config(), trial)
            walls.append(time.perf_counter() - start)
        print(f"{name:22}{walls[0]:12.2f}{walls[1]:12.2f}{walls[1] - walls[0]:15.2f}", flush=True)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("graphs", nargs="*")
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=1.4, help="what inspect leaves of its two seconds")
    parser.add_argument("--inspect", action="store_true", help="what a trial adds to the wall time of a first look")
    options = parser.parse_args(arguments)
    names = options.graphs or [*_MADE, *(graph.name for graph in GRAPHS if graph.expected is not None), *_OTHERS]
    if options.inspect:
        _inspected(names)
        return
    print(
        f"{'graph':22}{'truth':>22}{'holds':>11}{'open':>5}{'width':>8}{'most':>8}{'middle / truth':>16}{'wall, s':>8}"
    )
    estimate_bicliques(graph_and_truth("crown12")[0])
    for name in names:
        graph, truth = graph_and_truth(name)
        found, wall = [], 0.0
        for seed in range(options.seeds):
            start = time.perf_counter()
            found.append(estimate_bicliques(graph, effort=Effort(seconds=options.seconds), seed=seed).bicliques)
            wall = max(wall, time.perf_counter() - start)
        print(_line(name, truth, found, wall), flush=True)


if __name__ == "__main__":
    main()

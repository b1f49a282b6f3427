"""Maximal cliques of a projection on one GPU, within a time limit: all of them, or the progress so far.

If many vertices of a side share a neighbour, its projection is dense and may have too many cliques to count. Time runs
from the projection's CSR on the device; the projection itself is made on the host. ``python -m
benchmarks.projection_gpu --help`` lists the options.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

if __name__ == "__main__" and not __package__:
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.bench_gpu import device_facts, read_graph
from mbe_stage import BipartiteCSR, CliqueQuery, Execution, UndirectedCSR
from mbe_stage.cliques import engine_cuda
from mbe_stage.cliques.results import Detail
from mbe_stage.shared_neighbours.projection import projected

__all__ = ["counted_within", "main"]

_MOST_BYTES = 8 << 30
_TOLD_EVERY = 5.0


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; return 4 without a GPU."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("graph", nargs="?", default="actor_movies", help="of MBE_DATA")
    parser.add_argument("--side", choices=("left", "right"), default="left")
    parser.add_argument("--min-shared", type=int, default=1, help="neighbours that joined vertices share")
    parser.add_argument("--seconds", type=float, default=60.0, help="after which the count is given up")
    parser.add_argument("--commit", help="what to call the commit where there is no repository")
    options = parser.parse_args(arguments)
    reason = engine_cuda.unavailable_reason()
    if reason:
        print(f"error: no CUDA engine here: {reason}", file=sys.stderr)
        return 4
    print(json.dumps(device_facts(options.commit)))
    bipartite = read_graph(options.graph)
    began = time.perf_counter()
    graph = _projection(bipartite, options.side, options.min_shared)
    seconds = time.perf_counter() - began
    print(
        f"{options.graph}, {options.side}, {options.min_shared} shared: {graph.n:,} vertices, {graph.n_edges:,} edges"
    )
    print(f"projected on the host in {seconds:.1f} s", flush=True)
    for line in counted_within(_on_device(graph), options.seconds):
        print(line, flush=True)
    return 0


def counted_within(graph: UndirectedCSR, limit: float) -> Iterator[str]:
    """Count until the end or the time limit; yield a line now and then, and one for the end.

    A root is done when no work below it remains.
    """
    # The first search compiles, if necessary.
    triangle = UndirectedCSR.from_edges([0, 1, 2], [1, 2, 0])
    assert sum(block.n_cliques for block in engine_cuda.run(triangle, CliqueQuery(), Execution(), Detail.COUNT)) == 1
    n, seconds, told = 0, 0.0, 0.0
    statistics: dict[str, int] = {}
    began = time.perf_counter()
    with closing(engine_cuda.run(graph, CliqueQuery(), Execution(), Detail.COUNT, statistics=statistics)) as blocks:
        for block in blocks:
            n += block.n_cliques
            seconds = time.perf_counter() - began
            if block.work_done == 1.0:
                yield f"all {n:,} maximal cliques in {seconds:.3f} s, {_shown(statistics)}"
                return
            if seconds >= limit:
                break
            if seconds >= told + _TOLD_EVERY:
                told = seconds
                yield f"{seconds:.1f} s: {n:,} cliques, {_roots(statistics)}"
    yield f"given up after {seconds:.1f} s: {n:,} cliques, {n / seconds:,.0f} a second, {_roots(statistics)}"


def _projection(bipartite: BipartiteCSR, side: str, min_shared: int) -> UndirectedCSR:
    return projected(bipartite if side == "left" else bipartite.swapped(), min_shared, _MOST_BYTES)


def _on_device(graph: UndirectedCSR) -> UndirectedCSR:
    import cupy as cp

    return UndirectedCSR(graph.n, cp.asarray(graph.offsets), cp.asarray(graph.members))


def _roots(statistics: dict[str, int]) -> str:
    """Return the number of finished roots, and of those with the remaining cliques."""
    n, n_done = statistics["roots"], statistics["roots_done"]
    return f"{n_done / n:.4%} of the roots done, {n - n_done:,} left"


def _shown(statistics: dict[str, Any]) -> str:
    return ", ".join(f"{name} {value:,}" for name, value in statistics.items())


if __name__ == "__main__":
    sys.exit(main())

"""Times of calls on small graphs on a GPU, from the user's call to the result; graphs from fixed seeds.

``python -m benchmarks.small_gpu [REPEATS]``: best and median microseconds.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from mbe_stage import (
    BipartiteCSR,
    CountSink,
    UndirectedCSR,
    count_maximal_cliques,
    count_pq_bicliques,
    enumerate_bicliques,
    enumerate_into,
)

__all__ = ["main"]


def _bipartite(n_left: int, n_right: int, n_edges: int) -> BipartiteCSR:
    chance = np.random.default_rng(1)
    left, right = (chance.integers(0, n, n_edges) for n in (n_left, n_right))
    return BipartiteCSR.from_edges(left, right, n_left, n_right)


def _counted(graph: BipartiteCSR) -> None:
    enumerate_into(CountSink(), graph, engine="cuda")


def _cases() -> dict[str, Callable[[], Any]]:
    small, some = _bipartite(200, 200, 500), _bipartite(60, 60, 900)
    large, wide = _bipartite(5000, 5000, 30_000), _bipartite(20_000, 10_000, 30_000)
    is_edge = np.triu(np.random.default_rng(2).random((60, 60)) < 0.3, 1)
    cliques = UndirectedCSR.from_edges(*np.nonzero(is_edge), n=60)
    return {
        "count, 500 edges": lambda: _counted(small),
        "table, 500 edges": lambda: enumerate_bicliques(small, engine="cuda"),
        "count, 5,000 x 5,000, 30,000 edges": lambda: _counted(large),
        "count, 20,000 x 10,000, 30,000 edges": lambda: _counted(wide),
        "cliques of 60 vertices": lambda: count_maximal_cliques(cliques, engine="cuda"),
        "(4, 4) of 900 edges": lambda: count_pq_bicliques(some, 4, 4, engine="cuda"),
    }


def main(repeats: int) -> int:
    for name, call in _cases().items():
        for _ in range(10):
            call()
        times = []
        for _ in range(repeats):
            began = time.perf_counter()
            call()
            times.append(1e6 * (time.perf_counter() - began))
        print(f"{name:<40}{min(times):>8.0f}{statistics.median(times):>8.0f}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 200))

"""Local counts of (p, q)-bicliques on one GPU, compared with counts only: ``python -m benchmarks.pq_gpu --local``.

Times run from the graph's two CSR directions on the device to digits of all vertices (and edges) on the host. Sums are
checked against the counts: left vertices sum to p times the count, right ones to q times, edges to p q times.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from mbe_stage import BipartiteCSR, Execution
from mbe_stage.errors import MemoryBudgetExceeded
from mbe_stage.pq_counts import engine_cuda
from mbe_stage.pq_counts.digits import BITS
from mbe_stage.pq_counts.query import PqQuery
from mbe_stage.pq_counts.results import Detail, PqSink

__all__ = ["GRAPHS", "local_rows"]

GRAPHS = ("youtube", "lastfm_tag_artist", "bookcrossing")
_SIZES = (2, 3, 4)
_SLOW_SECONDS = 2.0


def local_rows(graphs: dict[str, BipartiteCSR], sizes: Sequence[int], repeats: int) -> Iterator[dict[str, Any]]:
    """Yield a row for each graph, size and detail.

    Parameters
    ----------
    graphs : dict of BipartiteCSR
    sizes : sequence of int
        By default (2, 2), (3, 3) and (4, 4).
    repeats : int
        For work of less than two seconds; the best counts.
    """
    for name, graph in graphs.items():
        for size in sizes or _SIZES:
            query = PqQuery.of(size, size)
            # The first may compile.
            _timed(graph, query, Detail.COUNTS)
            alone = min(_timed(graph, query, Detail.COUNTS)[1] for _ in range(repeats))
            for detail in (Detail.VERTICES, Detail.EDGES):
                yield {"graph": name, "cell": f"({size},{size})", "detail": detail.name.lower()} | _row(
                    graph, query, detail, alone, repeats
                )


def _row(graph: BipartiteCSR, query: PqQuery, detail: Detail, alone: float, repeats: int) -> dict[str, Any]:
    try:
        sink, first = _timed(graph, query, detail)
    except MemoryBudgetExceeded as refusal:
        return {"refused": str(refusal), "right": None}
    best = first
    for _ in range(repeats if first < _SLOW_SECONDS else 1):
        best = min(best, _timed(graph, query, detail)[1])
    facts: dict[str, int] = {}
    # Figures of the warps come from a separate run, because reading them takes time.
    _timed(graph, query, detail, facts)
    return {
        "right": _adds_up(sink),
        "seconds": best,
        "first": first,
        "counts alone": alone,
        "times": best / alone,
        **{name: facts[name] / 1e6 for name in sorted(facts) if name.startswith("local_") and name.endswith("_us")},
        **{name: facts.get(f"local_{name}") for name in ("visited", "pieces", "quanta", "warps")},
    }


def _timed(
    graph: BipartiteCSR, query: PqQuery, detail: Detail, facts: dict[str, int] | None = None
) -> tuple[PqSink, float]:
    sink = PqSink(query, detail)
    start = time.perf_counter()
    for block in engine_cuda.run(graph, query, Execution(), detail, statistics=facts):
        sink.accept(block)
    return sink, time.perf_counter() - start


def _adds_up(sink: PqSink) -> bool:
    counts = sink.counts()
    for (p, q), local in sink.local_counts().items():
        wanted = [p * counts[p, q], q * counts[p, q]]
        if local.edges is not None:
            wanted.append(p * q * counts[p, q])
        sides = [side for side in (local.left, local.right, local.edges) if side is not None]
        if [_total(side) for side in sides] != wanted:
            return False
    return True


def _total(digits: np.ndarray) -> int:
    """Return the sum of numbers; of fewer than 2^32 whose digits are below 2^32."""
    return sum(int(place) << (BITS * k) for k, place in enumerate(digits.sum(axis=0, dtype=np.uint64).tolist()))

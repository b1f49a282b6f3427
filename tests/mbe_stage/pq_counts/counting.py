"""Counts by an engine, and by closed forms."""

from __future__ import annotations

from math import comb
from typing import Any

import numpy as np

from mbe_stage import BipartiteCSR, Execution
from mbe_stage.pq_counts.query import PqQuery
from mbe_stage.pq_counts.results import Detail, PqSink

Counts = dict[tuple[int, int], int]


def counted(engine: Any, graph: BipartiteCSR, query: PqQuery, tasks: Any = None, threads: int = 1) -> Counts:
    """What an engine finds of some tasks, or of all."""
    sink = PqSink(query)
    for block in engine.run(graph, query, Execution(threads=threads), Detail.COUNTS, tasks):
        sink.accept(block)
    return sink.counts()


def of_complete(n_left: int, n_right: int, query: PqQuery) -> Counts:
    return {(p, q): comb(n_left, p) * comb(n_right, q) for p, q in query.cells}


def of_crown(n: int, query: PqQuery) -> Counts:
    """Left and right members have different numbers."""
    return {(p, q): comb(n, p) * comb(n - p, q) if p <= n else 0 for p, q in query.cells}


def random_query(rng: np.random.Generator, graph: BipartiteCSR, *, containing: bool) -> PqQuery:
    """Some range of sizes up to 6, and vertices that must be members."""
    (min_p, min_q), (more_p, more_q) = rng.integers(1, 5, 2).tolist(), rng.integers(0, 3, 2).tolist()
    members = [
        tuple(rng.integers(0, n, rng.integers(0, 3)).tolist()) if containing else ()
        for n in (graph.n_left, graph.n_right)
    ]
    return PqQuery(min_p, min_p + more_p, min_q, min_q + more_q, *members)

"""Counts by an engine and by closed forms."""

from __future__ import annotations

import itertools
from collections import Counter
from math import comb
from typing import Any

import numpy as np

from mbe_stage import BipartiteCSR, Execution
from mbe_stage.pq_counts.query import PqQuery
from mbe_stage.pq_counts.results import Detail, PqSink

Counts = dict[tuple[int, int], int]
# The limit of `by_subsets`.
MOST_OF_THE_SMALLER_SIDE = 16


def counted(engine: Any, graph: BipartiteCSR, query: PqQuery, tasks: Any = None, threads: int = 1) -> Counts:
    """Return an engine's counts of some tasks, or of all."""
    sink = PqSink(query)
    for block in engine.run(graph, query, Execution(threads=threads), Detail.COUNTS, tasks):
        sink.accept(block)
    return sink.counts()


def by_subsets(graph: BipartiteCSR, query: PqQuery) -> Counts:
    """Count by the subsets of a small side: the number of vertices adjacent to all of each.

    As plain as the reference, which takes the left side's subsets, and fast if that side is large.
    """
    if graph.n_left > graph.n_right:
        return {(p, q): n for (q, p), n in by_subsets(graph.swapped(), query.swapped()).items()}
    assert graph.n_left <= MOST_OF_THE_SMALLER_SIDE
    assert not (query.containing_left + query.containing_right)
    offsets, members = graph.left_offsets.tolist(), graph.left_members.tolist()
    neighbours = [sum(1 << v for v in members[a:b]) for a, b in itertools.pairwise(offsets)]
    common = [(1 << graph.n_right) - 1]
    for of_one in neighbours:
        common += [of_others & of_one for of_others in common]
    kinds = Counter((subset.bit_count(), adjacent.bit_count()) for subset, adjacent in enumerate(common))
    return {
        (p, q): sum(n * comb(adjacent, q) for (size, adjacent), n in kinds.items() if size == p) for p, q in query.cells
    }


def of_complete(n_left: int, n_right: int, query: PqQuery) -> Counts:
    return {(p, q): comb(n_left, p) * comb(n_right, q) for p, q in query.cells}


def of_crown(n: int, query: PqQuery) -> Counts:
    """Left and right members have different numbers."""
    return {(p, q): comb(n, p) * comb(n - p, q) if p <= n else 0 for p, q in query.cells}


def random_query(rng: np.random.Generator, graph: BipartiteCSR, *, containing: bool) -> PqQuery:
    """Return a random size range up to 6 and required members."""
    (min_p, min_q), (more_p, more_q) = rng.integers(1, 5, 2).tolist(), rng.integers(0, 3, 2).tolist()
    members = [
        tuple(rng.integers(0, n, rng.integers(0, 3)).tolist()) if containing else ()
        for n in (graph.n_left, graph.n_right)
    ]
    return PqQuery(min_p, min_p + more_p, min_q, min_q + more_q, *members)

"""Local counts of an engine in plain integers, and their sum rules."""

from __future__ import annotations

from typing import Any

import numpy as np

from mbe_stage import BipartiteCSR, Execution
from mbe_stage.pq_counts.digits import integers
from mbe_stage.pq_counts.query import PqQuery
from mbe_stage.pq_counts.results import Detail, LocalCounts, PqSink

Plain = dict[tuple[int, int], tuple[list[int], ...]]
Local = tuple[dict[tuple[int, int], int], Plain]


def counted(
    engine: Any, graph: BipartiteCSR, query: PqQuery, detail: Detail, execution: Execution, **options: Any
) -> Local:
    sink = PqSink(query, detail)
    for block in engine.run(graph, query, execution, detail, **options):
        sink.accept(block)
    return sink.counts(), plain(sink.local_counts())


def plain(local: dict[tuple[int, int], LocalCounts]) -> Plain:
    """Return left vertices, right ones and edges, if present."""
    return {
        cell: tuple(integers(side) for side in (one.left, one.right, one.edges) if side is not None)
        for cell, one in local.items()
    }


def sums_hold(graph: BipartiteCSR, counts: dict[tuple[int, int], int], local: Plain) -> bool:
    """Check that a biclique has p left vertices, q right ones and p q edges; a vertex' edges are its multiples."""
    of_left, of_right = graph.edges()
    for (p, q), (left, right, *edges) in local.items():
        total = counts[p, q]
        if (sum(left), sum(right)) != (p * total, q * total):
            return False
        for of_edges in edges:
            of_each = np.zeros(graph.n_left, object), np.zeros(graph.n_right, object)
            np.add.at(of_each[0], of_left, np.array(of_edges, object))
            np.add.at(of_each[1], of_right, np.array(of_edges, object))
            if of_each[0].tolist() != [q * n for n in left] or of_each[1].tolist() != [p * n for n in right]:
                return False
    return True

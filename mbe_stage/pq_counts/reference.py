"""The specification of counting (p, q)-bicliques: all sets of p left vertices, and their common neighbours."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import combinations
from math import comb

import numpy as np

from mbe_stage.graphs.bipartite import BipartiteCSR
from mbe_stage.options import Execution
from mbe_stage.plain_engine import compile_steps, device, unavailable_reason
from mbe_stage.pq_counts.digits import digits_of, n_digits
from mbe_stage.pq_counts.query import PqQuery
from mbe_stage.pq_counts.results import Detail, Leaves, LocalCounts, PqBlock
from mbe_stage.tasks import Roots, Task, cut, positions, ranges_of

__all__ = ["compile_steps", "device", "left_sets", "run", "tasks_of", "unavailable_reason"]


def left_sets(graph: BipartiteCSR, query: PqQuery, p: int) -> Iterator[tuple[tuple[int, ...], list[int]]]:
    """Yield every set of p left vertices that `query` admits, and its common right vertices; both ascending."""
    neighbours = [set(graph.neighbours_of_left(u).tolist()) for u in range(graph.n_left)]
    wanted_left, wanted_right = set(query.containing_left), set(query.containing_right)
    for members in combinations(range(graph.n_left), p):
        common = set.intersection(*(neighbours[u] for u in members))
        if wanted_left <= set(members) and wanted_right <= common:
            yield members, sorted(common)


def tasks_of(graph: BipartiteCSR, query: PqQuery, n: int) -> list[Task]:
    """Divide the whole work into at most `n` tasks; a biclique belongs to its first left vertex."""
    return cut(_roots(graph, query), np.diff(graph.left_offsets) + 1.0, n)


def run(
    graph: BipartiteCSR,
    query: PqQuery,
    execution: Execution,  # noqa: ARG001 - the seam's signature
    detail: Detail,
    tasks: Iterable[Task] | None = None,
) -> Iterator[PqBlock]:
    """Run the specification as an engine, for small graphs and tests."""
    first = set(range(graph.n_left))
    if tasks is not None:
        first = set(positions(ranges_of(tasks, _roots(graph, query))).tolist())
    n_held = len(set(query.containing_right))
    for p in range(query.min_p, query.max_p + 1):
        sets = [(left, right) for left, right in left_sets(graph, query, p) if left[0] in first]
        sizes = Counter(len(right) for _, right in sets)
        n = np.array(list(sizes), np.int64)
        yield PqBlock(
            Leaves(
                held_left=np.full(n.size, p, np.int64),
                optional_left=np.zeros(n.size, np.int64),
                held_right=np.full(n.size, n_held, np.int64),
                optional_right=n - n_held,
                times=np.array(list(sizes.values()), np.int64),
            )
        )
        if detail > Detail.COUNTS:
            for q in range(query.min_q, query.max_q + 1):
                yield PqBlock(Leaves.none(), _local(graph, query, sets, p, q, detail))
    yield PqBlock(Leaves.none(), work_done=1.0)


def _roots(graph: BipartiteCSR, query: PqQuery) -> Roots:
    return Roots.of("pq_counts", np.arange(graph.n_left), True, *query.identity, graph.n_right, graph.edges_checksum)


def _local(
    graph: BipartiteCSR, query: PqQuery, sets: list[tuple[tuple[int, ...], list[int]]], p: int, q: int, detail: Detail
) -> LocalCounts:
    """Count for each vertex and edge, over the bicliques with one of these sets as left side.

    Parameters
    ----------
    sets : list of (left members, common right vertices)
    """
    left, right, edges = [0] * graph.n_left, [0] * graph.n_right, [0] * graph.n_edges
    wanted = set(query.containing_right)
    place = {pair: k for k, pair in enumerate(zip(*(ids.tolist() for ids in graph.edges()), strict=True))}
    for members, common in sets:
        free, wished = len(common) - len(wanted), q - len(wanted)
        total = comb(free, wished) if wished >= 0 else 0
        others = comb(free - 1, wished - 1) if wished >= 1 and free >= 1 else 0
        for u in members:
            left[u] += total
        for v in common:
            with_v = total if v in wanted else others
            right[v] += with_v
            for u in members:
                edges[place[u, v]] += with_v
    n = n_digits(max([0, *left, *right]))
    of_edges = digits_of(edges, n) if detail >= Detail.EDGES else None
    return LocalCounts(p, q, digits_of(left, n), digits_of(right, n), of_edges)

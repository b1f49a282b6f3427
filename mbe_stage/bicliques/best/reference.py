"""The specification: score and sort all maximal bicliques, and take them by rank, in plain Python."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from itertools import combinations, product

import numpy as np

from mbe_stage.bicliques.best.problem import BestQuery
from mbe_stage.bicliques.best.results import Ranked, Standing
from mbe_stage.bicliques.keys import biclique_keys, hash_integers, vertex_hashes
from mbe_stage.bicliques.reference import block_of, maximal_bicliques
from mbe_stage.bicliques.results import Detail
from mbe_stage.graphs.bipartite import BipartiteCSR
from mbe_stage.groups import UNIT, GroupMembers, NullModel, surprise_of
from mbe_stage.options import Execution
from mbe_stage.plain_engine import compile_steps, device, unavailable_reason
from mbe_stage.tasks import Roots, Task, cut, ranges_of

__all__ = ["best", "compile_steps", "device", "run", "tasks_of", "unavailable_reason"]

Pair = tuple[tuple[int, ...], tuple[int, ...]]
Row = tuple[float, int, tuple[int, ...], tuple[int, ...]]


def best(graph: BipartiteCSR, query: BestQuery) -> list[Row]:
    """Return score, key, left and right members of the best bicliques, by rank."""
    edges = set(zip(*(ids.tolist() for ids in graph.edges()), strict=True))
    found = sorted(maximal_bicliques(graph))
    if query.missing:
        found = sorted(filter(None, {_completed(graph, edges, pair, query) for pair in found}))
    found = [pair for pair in found if len(pair[0]) >= query.min_left and len(pair[1]) >= query.min_right]
    n_edges = [sum(edge in edges for edge in product(*pair)) for pair in found]
    if query.by == "surprise":
        scores = (surprise_of(GroupMembers.of(found), NullModel.of(graph)) / UNIT).tolist()
    else:
        order, weights = sorted(edges), query.weights
        weight = {} if weights is None else dict(zip(order, weights.tolist(), strict=True))
        scores = [
            {
                "edges": n,
                "vertices": len(left) + len(right),
                "balance": min(len(left), len(right)),
                "weight": math.fsum(weight.get(edge, 0.0) for edge in product(left, right)),
            }[query.by]
            for n, (left, right) in zip(n_edges, found, strict=True)
        ]
    keys = biclique_keys(block_of(found, Detail.MEMBERS, 1.0), *(query.hashes or hashes_of_ids(graph))).tolist()
    taken: list[Row] = []
    for score, _, key, pair in sorted(zip(scores, n_edges, keys, found, strict=True), key=_rank):
        row, allowed = (score, key, *pair), query.overlap * len(pair[0]) * len(pair[1])
        shared = (len({*row[2]} & {*other[2]}) * len({*row[3]} & {*other[3]}) for other in taken)
        if len(taken) < query.k and all(n <= allowed for n in shared):
            taken.append(row)
    return taken


def _rank(row: tuple[float, int, int, Pair]) -> tuple[float, int, int]:
    return -row[0], -row[1], row[2]


def _completed(graph: BipartiteCSR, edges: set[tuple[int, int]], pair: Pair, query: BestQuery) -> Pair | None:
    """Return the best completion of a maximal biclique; the first one in a tie, in the order of the search."""
    left, right = pair
    others = {v: sum((u, v) not in edges for u in left) for v in range(graph.n_right) if v not in right}
    order = sorted(
        (v for v in others if len(left) - others[v] >= query.min_left - query.missing), key=others.__getitem__
    )
    best: tuple[tuple[int, int], Pair] | None = None
    for places in sorted(p for n in range(query.missing + 1) for p in combinations(range(len(order)), n)):
        added, kept, n_missing = [order[place] for place in places], list[int](), 0
        for n, u in sorted((sum((u, v) not in edges for v in added), u) for u in left):
            if n_missing + n <= query.missing:
                kept, n_missing = [*kept, u], n_missing + n
        sizes = len(kept), len(right) + len(added)
        score = {"edges": 0, "vertices": sum(sizes), "balance": min(sizes)}[query.by], sizes[0] * sizes[1] - n_missing
        if sizes[0] >= query.min_left and sizes[1] >= query.min_right and (best is None or score > best[0]):
            best = score, (tuple(sorted(kept)), tuple(sorted([*right, *added])))
    return None if best is None else best[1]


def roots_of(graph: BipartiteCSR, query: BestQuery) -> Roots:
    """Return a single root: the search is not divided."""
    return Roots.of("best", np.arange(1), query, graph.n_right, graph.edges_checksum)


def tasks_of(graph: BipartiteCSR, query: BestQuery, n: int) -> list[Task]:
    """Return the whole work as one task."""
    return cut(roots_of(graph, query), np.ones(1), n)


def run(
    graph: BipartiteCSR,
    query: BestQuery,
    execution: Execution,  # noqa: ARG001 - the seam's signature
    detail: None,  # noqa: ARG001 - the seam's signature
    tasks: Iterable[Task] | None = None,
) -> Iterator[Standing]:
    """Yield the best bicliques in one standing."""
    if ranges_of(tasks, roots_of(graph, query)):
        rows = best(graph, query)
        scores, keys = np.array([row[0] for row in rows]), np.array([row[1] for row in rows], np.int64)
        edges = set(zip(*(ids.tolist() for ids in graph.edges()), strict=True))
        n_edges = np.array([len(edges & {*product(*row[2:])}) for row in rows], np.int64)
        ranked = Ranked(scores, n_edges, keys, GroupMembers.of(row[2:] for row in rows))
        yield Standing(query, ranked, rows[-1][0] if rows else 0.0, is_complete=True, n_new=len(rows))


def hashes_of_ids(graph: BipartiteCSR) -> tuple[np.ndarray, np.ndarray]:
    """Return the salted hashes of the vertex ids of both sides."""
    left, right = (hash_integers(np.arange(n)) for n in (graph.n_left, graph.n_right))
    return vertex_hashes(left, "left"), vertex_hashes(right, "right")

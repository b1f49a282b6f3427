"""The specification: all maximal bicliques, scored one by one, sorted, and taken by rank, in plain Python."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

import numpy as np

from mbe_stage.bicliques.best.problem import BestQuery
from mbe_stage.bicliques.best.results import Ranked, Standing
from mbe_stage.bicliques.keys import biclique_keys, hash_integers, vertex_hashes
from mbe_stage.bicliques.reference import block_of, device, maximal_bicliques, unavailable_reason
from mbe_stage.bicliques.results import Detail
from mbe_stage.graphs.bipartite import BipartiteCSR
from mbe_stage.groups import UNIT, GroupMembers, NullModel, surprise_of
from mbe_stage.options import Execution
from mbe_stage.tasks import Roots, Task, cut, ranges_of

__all__ = ["best", "compile_steps", "device", "run", "tasks_of", "unavailable_reason"]

Row = tuple[float, int, tuple[int, ...], tuple[int, ...]]


def best(graph: BipartiteCSR, query: BestQuery) -> list[Row]:
    """Return score, key, left and right members of the best, by rank."""
    least = query.min_left, query.min_right
    found = [pair for pair in sorted(maximal_bicliques(graph)) if all(map(int.__ge__, map(len, pair), least))]
    if query.by == "surprise":
        scores = (surprise_of(GroupMembers.of(found), NullModel.of(graph)) / UNIT).tolist()
    else:
        edges = zip(*(ids.tolist() for ids in graph.edges()), strict=True)
        weight = {} if query.weights is None else dict(zip(edges, query.weights.tolist(), strict=True))
        scores = [
            {
                "edges": len(left) * len(right),
                "vertices": len(left) + len(right),
                "balance": min(len(left), len(right)),
                "weight": math.fsum(weight.get((u, v), 0.0) for u in left for v in right),
            }[query.by]
            for left, right in found
        ]
    keys = biclique_keys(block_of(found, Detail.MEMBERS, 1.0), *(query.hashes or hashes_of_ids(graph))).tolist()
    rows = [(score, key, *pair) for score, key, pair in zip(scores, keys, found, strict=True)]
    taken: list[Row] = []
    for row in sorted(rows, key=lambda row: (-row[0], -len(row[2]) * len(row[3]), row[1])):
        allowed = query.overlap * len(row[2]) * len(row[3])
        shared = (len({*row[2]} & {*other[2]}) * len({*row[3]} & {*other[3]}) for other in taken)
        if len(taken) < query.k and all(n <= allowed for n in shared):
            taken.append(row)
    return taken


def compile_steps(query: object = None, detail: object = None) -> tuple[()]:  # noqa: ARG001 - the seam's signature
    """Nothing is compiled."""
    return ()


def roots_of(graph: BipartiteCSR, query: BestQuery) -> Roots:
    """Return the only root: the search is not divided."""
    return Roots.of("best", np.arange(1), query, graph.n_right, graph.edges_checksum)


def tasks_of(graph: BipartiteCSR, query: BestQuery, n: int) -> list[Task]:
    """Return all of the work as one task."""
    return cut(roots_of(graph, query), np.ones(1), n)


def run(
    graph: BipartiteCSR,
    query: BestQuery,
    execution: Execution,  # noqa: ARG001 - the seam's signature
    detail: None,  # noqa: ARG001 - the seam's signature
    tasks: Iterable[Task] | None = None,
) -> Iterator[Standing]:
    """Yield the best in one standing."""
    if tasks is None or ranges_of(tasks, roots_of(graph, query)):
        rows = best(graph, query)
        scores, keys = np.array([row[0] for row in rows]), np.array([row[1] for row in rows], np.int64)
        ranked = Ranked(scores, scores, keys, block_of([row[2:] for row in rows], Detail.MEMBERS, 1.0))
        yield Standing(query, ranked, rows[-1][0] if rows else 0.0, is_complete=True, n_new=len(rows))


def hashes_of_ids(graph: BipartiteCSR) -> tuple[np.ndarray, np.ndarray]:
    """Return the salted hashes of the ids of both sides."""
    left, right = (hash_integers(np.arange(n)) for n in (graph.n_left, graph.n_right))
    return vertex_hashes(left, "left"), vertex_hashes(right, "right")

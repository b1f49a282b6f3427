"""The specification: every pair of left vertices and its shared neighbours, in plain Python."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import combinations

import numpy as np

from mbe_stage.graphs.bipartite import BipartiteCSR
from mbe_stage.options import Execution
from mbe_stage.plain_engine import compile_steps, device, unavailable_reason
from mbe_stage.shared_neighbours.problem import SharedQuery
from mbe_stage.shared_neighbours.results import PairBlock, roots_of
from mbe_stage.tasks import Task, cut, positions, ranges_of

__all__ = ["compile_steps", "device", "pairs", "run", "tasks_of", "unavailable_reason"]


def pairs(graph: BipartiteCSR, min_shared: int = 1) -> dict[tuple[int, int], int]:
    """Return the number of shared neighbours of each pair that has enough."""
    neighbours = [set(graph.neighbours_of_left(vertex).tolist()) for vertex in range(graph.n_left)]
    shared = {(u, v): len(neighbours[u] & neighbours[v]) for u, v in combinations(range(graph.n_left), 2)}
    return {pair: n for pair, n in shared.items() if n >= min_shared}


def tasks_of(graph: BipartiteCSR, query: SharedQuery, n: int) -> list[Task]:
    """Divide the whole work into at most `n` tasks; a pair belongs to its first vertex."""
    return cut(roots_of(graph, query), np.ones(graph.n_left), n)


def run(
    graph: BipartiteCSR,
    query: SharedQuery,
    execution: Execution,  # noqa: ARG001 - the seam's signature
    detail: None,  # noqa: ARG001 - the seam's signature
    tasks: Iterable[Task] | None = None,
) -> Iterator[PairBlock]:
    """Yield all pairs, or those of the given tasks, in one block."""
    ranges = ranges_of(tasks, roots_of(graph, query))
    wanted = set(positions(ranges).tolist())
    rows = [(u, v, n) for (u, v), n in pairs(graph, query.min_shared).items() if u in wanted]
    first, second, shared = np.array(rows, np.int32).reshape(-1, 3).T.copy()
    yield PairBlock(first, second, shared, 1.0)

"""The specification: for each edge, the pairs of another left and right vertex that complete a butterfly."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from mbe_stage.graphs.bipartite import BipartiteCSR
from mbe_stage.options import Execution
from mbe_stage.tasks import Task, positions, ranges_of
from tests.toys.butterflies.problem import EdgeQuery
from tests.toys.butterflies.results import EdgeBlock, roots_of, tasks_of

__all__ = ["butterflies", "compile_steps", "device", "run", "tasks_of", "unavailable_reason"]


def butterflies(graph: BipartiteCSR) -> dict[tuple[int, int], int]:
    """Return the butterflies of every edge ``(left, right)``."""
    edges = set(zip(*(ids.tolist() for ids in graph.edges()), strict=True))
    return {
        (u, v): sum({(u, y), (x, v), (x, y)} <= edges for x in range(graph.n_left) if x != u
                    for y in range(graph.n_right) if y != v)
        for u, v in edges
    }  # fmt: skip


def unavailable_reason() -> None:
    """Plain Python runs everywhere."""


def device(execution: Execution) -> str:  # noqa: ARG001 - the seam's signature
    return "cpu, plain Python"


def compile_steps(query: object = None, detail: object = None) -> tuple[()]:  # noqa: ARG001 - the seam's signature
    return ()


def run(
    graph: BipartiteCSR,
    query: EdgeQuery,
    execution: Execution,  # noqa: ARG001 - the seam's signature
    detail: None,  # noqa: ARG001 - the seam's signature
    tasks: Iterable[Task] | None = None,
) -> Iterator[EdgeBlock]:
    wanted = range(graph.n_left)
    if tasks is not None:
        wanted = set(positions(ranges_of(tasks, roots_of(graph, query))).tolist())
    degrees = graph.left_degrees.tolist(), graph.right_degrees.tolist()
    rows = [
        (left, right, n)
        for (left, right), n in butterflies(graph).items()
        if left in wanted and query.accepts(n, (degrees[0][left] - 1) * (degrees[1][right] - 1))
    ]
    columns = np.array(rows, np.int64).reshape(-1, 3).T
    yield EdgeBlock(columns[0].astype(np.int32), columns[1].astype(np.int32), columns[2], work_done=1.0)

"""The CUDA engine: a thread for each edge."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from mbe_stage.device.available import unavailable_reason
from mbe_stage.graphs.bipartite import BipartiteCSR
from mbe_stage.tasks import Task, ranges_of
from tests.toys.butterflies.results import EdgeBlock, possible_butterflies, roots_of, tasks_of

if TYPE_CHECKING:
    from mbe_stage.options import Execution
    from mbe_stage.runtime.compile_ahead import CompileStep
    from tests.toys.butterflies.problem import EdgeQuery

__all__ = ["compile_steps", "device", "run", "tasks_of", "unavailable_reason"]


def device(execution: Execution) -> str:  # noqa: ARG001 - the seam's signature
    return "cuda"


def compile_steps(query: object = None, detail: object = None) -> Sequence[CompileStep]:  # noqa: ARG001 - as above
    from mbe_stage.device.jit import compile_steps_of
    from tests.toys.butterflies.kernels import count_thread_per_edge

    return compile_steps_of(count_thread_per_edge)


def run(
    graph: BipartiteCSR,
    query: EdgeQuery,
    execution: Execution,  # noqa: ARG001 - the seam's signature
    detail: None,  # noqa: ARG001 - the seam's signature
    tasks: Iterable[Task] | None = None,
) -> Iterator[EdgeBlock]:
    import cupy as cp

    from mbe_stage.device.launch import launch_threads
    from tests.toys.butterflies.kernels import count_thread_per_edge

    ranges = ranges_of(tasks, roots_of(graph, query))
    left, right = graph.edges()
    possible = possible_butterflies(graph)
    lists = [
        cp.asarray(array)
        for array in (graph.left_offsets, graph.left_members, graph.right_offsets, graph.right_members, left)
    ]
    n_all = max(1, sum(end - first for first, end in ranges))
    n_done = 0
    for first, end in ranges:
        part = slice(int(graph.left_offsets[first]), int(graph.left_offsets[end]))
        counts = cp.zeros(part.stop - part.start, cp.int64)
        launch_threads(count_thread_per_edge, counts.size, *lists, part.start, counts)
        found = cp.asnumpy(counts)
        kept = query.accepts(found, possible[part])
        n_done += end - first
        yield EdgeBlock(left[part][kept], right[part][kept], found[kept].astype(np.int64), n_done / n_all)

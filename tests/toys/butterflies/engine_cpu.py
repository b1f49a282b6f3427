"""The CPU engine: one compiled loop over the edges of a range of left vertices."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
from numba import int64

from mbe_stage.graphs.bipartite import BipartiteCSR
from mbe_stage.options import Execution
from mbe_stage.runtime.compile_ahead import CompileStep
from mbe_stage.runtime.jit import INTS, LONGS, compiled, steps_of
from mbe_stage.tasks import Task, ranges_of, split
from tests.toys.butterflies.problem import EdgeQuery
from tests.toys.butterflies.results import EdgeBlock, possible_butterflies, roots_of, tasks_of

__all__ = ["compile_steps", "device", "run", "tasks_of", "unavailable_reason"]

_BLOCKS = 16


def unavailable_reason() -> None:
    """Numba compiles for every processor."""


def device(execution: Execution) -> str:  # noqa: ARG001 - the seam's signature
    return "cpu, 1 thread"


def compile_steps(query: object = None, detail: object = None) -> Sequence[CompileStep]:  # noqa: ARG001 - as above
    return steps_of(_count)


def run(
    graph: BipartiteCSR,
    query: EdgeQuery,
    execution: Execution,  # noqa: ARG001 - the seam's signature
    detail: None,  # noqa: ARG001 - the seam's signature
    tasks: Iterable[Task] | None = None,
) -> Iterator[EdgeBlock]:
    ranges = ranges_of(tasks, roots_of(graph, query))
    left, right = graph.edges()
    possible = possible_butterflies(graph)
    n_all = max(1, sum(end - first for first, end in ranges))
    n_done = 0
    for first, end in ranges:
        for start, stop in split(np.ones(end - first), _BLOCKS):
            part = slice(graph.left_offsets[first + start], graph.left_offsets[first + stop])
            counts = np.zeros(part.stop - part.start, np.int64)
            lists = graph.left_offsets, graph.left_members, graph.right_offsets, graph.right_members
            _count(*lists, first + start, first + stop, counts)
            kept = query.accepts(counts, possible[part])
            n_done += stop - start
            yield EdgeBlock(left[part][kept], right[part][kept], counts[kept], n_done / n_all)


@compiled(LONGS, INTS, LONGS, INTS, int64, int64, LONGS)
def _count(left_offsets, left_members, right_offsets, right_members, first, end, counts):
    begin = left_offsets[first]
    for u in range(first, end):
        for k in range(left_offsets[u], left_offsets[u + 1]):
            v = left_members[k]
            for j in range(right_offsets[v], right_offsets[v + 1]):
                x = right_members[j]
                if x != u:
                    counts[k - begin] += _in_common(left_offsets, left_members, u, x) - 1


@compiled()
def _in_common(offsets, members, one, other):
    i, i_end = offsets[one], offsets[one + 1]
    j, j_end = offsets[other], offsets[other + 1]
    n = 0
    while i < i_end and j < j_end:
        a, b = members[i], members[j]
        n += a == b
        i += a <= b
        j += b <= a
    return n

"""The CUDA engine: rows of the product of the adjacency matrix with its transpose, by sorting two-step paths.

The paths from a range of vertices to later vertices are written as numbers, sorted and counted. So pairs come in order.
Ranges are cut so that their paths fit the memory budget.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import numpy as np

from mbe_stage.device.available import device, unavailable_reason
from mbe_stage.errors import MemoryBudgetExceeded
from mbe_stage.graphs.bipartite import BipartiteCSR
from mbe_stage.options import Execution
from mbe_stage.plain_engine import compile_steps
from mbe_stage.shared_neighbours.engine_cpu import pieces, tasks_of
from mbe_stage.shared_neighbours.problem import SharedQuery
from mbe_stage.shared_neighbours.results import PairBlock, roots_of
from mbe_stage.tasks import Task, ranges_of

if TYPE_CHECKING:
    import cupy as cp

__all__ = ["compile_steps", "device", "run", "tasks_of", "unavailable_reason"]

# Bytes per path: its number before and after sorting, counters, and its edge.
_PATH_BYTES = 48
# Bytes per edge while paths are counted.
_EDGE_BYTES = 64
# Most paths per range: enough to keep a device busy.
_MOST_PATHS = 1 << 28


def run(
    graph: BipartiteCSR,
    query: SharedQuery,
    execution: Execution,
    detail: None,  # noqa: ARG001 - the seam's signature
    tasks: Iterable[Task] | None = None,
) -> Iterator[PairBlock]:
    """Yield all pairs of left vertices with enough shared neighbours, or those of the given tasks, ascending.

    Raises
    ------
    InvalidArgument
        Tasks belong to another graph or query, or overlap.
    MemoryBudgetExceeded
        The graph, or the two-step paths of one vertex, exceed the budget of the device.
    """
    from mbe_stage.device.graph import copy_bytes, on_device
    from mbe_stage.device.memory_budget import device_budget, device_work

    ranges = ranges_of(tasks, roots_of(graph, query))
    budget = device_budget(execution)
    if (needed := copy_bytes(graph) + _EDGE_BYTES * graph.n_edges) > budget:
        raise MemoryBudgetExceeded(
            f"{graph.n_edges:,} edges need {needed:,} bytes: expected at most {budget:,}, the memory budget of the "
            "device; give more, or use the engine cpu"
        )
    with device_work(budget):
        paths = _Paths(on_device(graph))
    steps, most = paths.steps, (budget - 2 * copy_bytes(graph) - 8 * graph.n_edges) // _PATH_BYTES
    if (largest := int(steps.max(initial=0))) > most:
        raise MemoryBudgetExceeded(
            f"a vertex has {largest:,} two-step paths, which need {_PATH_BYTES * largest:,} bytes beside the graph: "
            f"expected at most {budget:,}, the memory budget of the device; give more, or use the engine cpu"
        )
    done, total = 0, max(1, sum(int(steps[first:end].sum()) for first, end in ranges))
    for first, end in pieces(steps, ranges, min(most, _MOST_PATHS)):
        with device_work(budget):
            u, v, shared = paths.counted(first, end, query.min_shared)
        done += int(steps[first:end].sum())
        yield PairBlock(u, v, shared, done / total)
    yield PairBlock.of([], 1.0)


class _Paths:
    """The paths from left vertices to later left vertices, edge by edge, in a graph with CuPy arrays.

    Attributes
    ----------
    steps : (n_left,) int64
        Number of paths from each vertex, on the host.
    """

    def __init__(self, graph: BipartiteCSR) -> None:
        import cupy as cp

        self._cp, self._graph = cp, graph
        edges = cp.arange(graph.n_edges)
        left, right = self._left_of(edges), cp.searchsorted(graph.right_offsets, edges, side="right") - 1
        # For each edge: the offset, in the list of its right vertex, of the vertices after its left vertex.
        own = graph.left_members.astype(cp.int64) << 32 | left
        begins = cp.searchsorted(right << 32 | graph.right_members, own, side="right")
        self._ends = cp.cumsum(graph.right_offsets[graph.left_members + 1] - begins)
        sums = cp.concatenate([cp.zeros(1, np.int64), self._ends])
        self.steps: np.ndarray = cp.asnumpy(cp.diff(sums[graph.left_offsets]))

    def counted(self, first: int, end: int, least: int) -> list[np.ndarray]:
        """Return the pairs whose first vertex is in a range: both vertices and the number of paths, on the host."""
        cp, graph = self._cp, self._graph
        begin, stop = (int(graph.left_offsets[vertex]) for vertex in (first, end))
        ends = self._ends[begin:stop] - (self._ends[begin - 1] if begin else 0)
        places = cp.arange(int(ends[-1]) if stop > begin else 0)
        edge = cp.searchsorted(ends, places, side="right")
        # The last path of an edge ends at the end of its list.
        places += (graph.right_offsets[graph.left_members[begin:stop] + 1] - ends)[edge]
        pairs = cp.sort(self._left_of(edge + begin) << 32 | graph.right_members[places])
        del edge, places
        starts = cp.flatnonzero(cp.concatenate([pairs[:1] >= 0, pairs[1:] != pairs[:-1]]))
        shared = cp.diff(cp.concatenate([starts, cp.array([pairs.size])]))
        starts, shared = starts[shared >= least], shared[shared >= least]
        return [cp.asnumpy(each.astype(cp.int32)) for each in (pairs[starts] >> 32, pairs[starts], shared)]

    def _left_of(self, edges: cp.ndarray) -> cp.ndarray:
        return self._cp.searchsorted(self._graph.left_offsets, edges, side="right") - 1

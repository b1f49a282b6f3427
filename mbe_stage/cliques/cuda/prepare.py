"""Prepare the graph: later neighbours first in each list, heaviest roots first. Small graphs are prepared on the host.

The order is by ascending degree, then by id. It needs no sorting: the degrees show which of two vertices is later. The
numbers of later neighbours are hardly larger than in a degeneracy order, whose rounds cost more than they save.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import cupy as cp
import numpy as np
from numba import cuda

from mbe_stage.cliques.cuda import layout
from mbe_stage.cliques.cuda.layout import Graph
from mbe_stage.device.arrays import sent
from mbe_stage.device.grid import BLOCKS_PER_MULTIPROCESSOR, THREADS, n_warps, this_warp
from mbe_stage.device.jit import I32, I64, kernel
from mbe_stage.device.launch import launch_blocks
from mbe_stage.device.warp import ballot, count_bits, rank
from mbe_stage.errors import MemoryBudgetExceeded
from mbe_stage.graphs.undirected import UndirectedCSR

_BYTES_PER_EDGE, _BYTES_PER_VERTEX = 8, 56
SMALL = 1 << 12
"""Most list entries of a graph that is prepared on the host; a launch, a sort and a wait would take longer."""
_MOST_MEMBERS = 1 << 31
# Indices into `facts`.
_MOST_LATER, _MOST_NEIGHBOURS, _N_SMALL = range(3)


@dataclass(frozen=True, slots=True, eq=False)
class DeviceGraph:
    """The graph in the form that the search reads.

    Attributes
    ----------
    lists : Graph
        The lists, with all vertices as roots.
    n_roots : int
    n_small : int
        Number of small roots, which are last in the order.
    most_later : int
        Most later neighbours of a vertex.
    most_neighbours : int
        Most neighbours of a vertex with later neighbours.
    """

    lists: Graph
    n_roots: int
    n_small: int
    most_later: int
    most_neighbours: int

    def with_roots(self, wanted: np.ndarray) -> DeviceGraph:
        """Return the graph with only some vertices as roots."""
        is_wanted = cp.zeros(self.lists.later_ends.size, cp.bool_)
        is_wanted[cp.asarray(wanted)] = True
        order = self.lists.order
        n_small = int(is_wanted[order[order.size - self.n_small :]].sum())
        lists = self.lists._replace(order=cp.ascontiguousarray(order[is_wanted[order]]))
        return DeviceGraph(lists, int(wanted.size), n_small, self.most_later, self.most_neighbours)


def preparation_bytes(graph: UndirectedCSR) -> int:
    """Return the most device memory that `prepare` takes, besides the graph itself."""
    return _BYTES_PER_EDGE * graph.n_edges + _BYTES_PER_VERTEX * graph.n


def prepare(graph: UndirectedCSR, n_blocks: int, budget: int) -> DeviceGraph:
    """Split the neighbours of each vertex into later and earlier ones, and order the roots.

    Parameters
    ----------
    graph : UndirectedCSR
        The arrays may be CuPy's.
    n_blocks : int
        Number of resident blocks.
    budget : int
        Bytes of device memory.

    Raises
    ------
    MemoryBudgetExceeded
        The graph does not fit the budget.
    """
    needed = preparation_bytes(graph)
    if needed > budget or graph.members.size >= _MOST_MEMBERS:
        raise MemoryBudgetExceeded(
            f"to prepare a graph of {graph.n_edges:,} edges needs {needed:,} bytes of device memory, and fewer than "
            f"{_MOST_MEMBERS // 2:,} edges; its budget is {budget:,}: raise it (device_memory_bytes), or use the "
            "engine cpu",
            needed_bytes=needed,
        )
    if graph.is_on_host:
        graph = replace(graph, offsets=graph.offsets.astype(np.int64, copy=False))
        if graph.members.size <= SMALL:
            return _prepared_on_the_host(graph)
        graph = UndirectedCSR(graph.n, *sent(graph.offsets, graph.members.astype(np.int32, copy=False)))
    later_ends = cp.empty(graph.n, cp.int64)
    members = cp.empty(graph.members.size, cp.int32)
    weights = cp.empty(graph.n, cp.int64)
    facts = cp.zeros(3, cp.int64)
    part = part_lists_warp_per_vertex
    launch_blocks(part, n_blocks, THREADS, graph.offsets, graph.members, later_ends, members, weights, facts)
    order = cp.argsort(weights).astype(cp.int32)
    most = cp.asnumpy(facts)
    lists = Graph(graph.offsets, later_ends, members, order)
    return DeviceGraph(lists, graph.n, int(most[_N_SMALL]), int(most[_MOST_LATER]), int(most[_MOST_NEIGHBOURS]))


def _prepared_on_the_host(graph: UndirectedCSR) -> DeviceGraph:
    degrees, members = graph.degrees, graph.members
    sources = np.repeat(np.arange(graph.n), degrees)
    of_sources, of_members = degrees[sources], degrees[members]
    is_earlier = (of_members < of_sources) | ((of_members == of_sources) & (members < sources))
    n_later = degrees - np.bincount(sources[is_earlier], minlength=graph.n)
    by_part = members[np.argsort(2 * sources + is_earlier, kind="stable")].astype(np.int32, copy=False)
    is_small = (n_later <= layout.SMALL_ROOT) & (degrees <= layout.SMALL_DEGREE)
    weights = np.where(is_small, layout.SMALL_DEGREE - degrees, -(n_later << 32 | degrees))
    order = np.argsort(weights, kind="stable").astype(np.int32)
    lists = Graph(*sent(graph.offsets, graph.offsets[:-1] + n_later, by_part, order))
    most_neighbours = int(degrees[n_later > 0].max(initial=0))
    return DeviceGraph(lists, graph.n, int(is_small.sum()), int(n_later.max()), most_neighbours)


@kernel(I64, I32, I64, I32, I64, I64, launch_bounds=(THREADS, BLOCKS_PER_MULTIPROCESSOR))
def part_lists_warp_per_vertex(offsets, neighbours, later_ends, members, weights, facts):
    """Write each vertex's later neighbours before its earlier ones.

    Parameters
    ----------
    offsets : (n + 1,) int64
    neighbours : (2 n_edges,) int32
        Neighbours, ascending for each vertex.
    later_ends : (n,) int64
        Receives the end of the later neighbours.
    members : (2 n_edges,) int32
    weights : (n,) int64
        Sort key of each root; smaller means more work. It combines minus the number of later neighbours and minus the
        number of all neighbours, and is not negative only for small roots.
    facts : (3,) int64
        Receives the most later neighbours, the most neighbours of a vertex with later ones, and the number of small
        roots; initially zero.
    """
    lane = cuda.laneid
    most_later, most_neighbours, n_small = np.int64(0), np.int64(0), np.int64(0)
    for vertex in range(this_warp(), later_ends.size, n_warps()):
        first, end = offsets[vertex], offsets[vertex + 1]
        degree = end - first
        place = first
        for turn in range(2):
            for tile in range(first, end, 32):
                is_here = tile + lane < end
                other = np.int32(0)
                if is_here:
                    other = neighbours[tile + lane]
                    others_degree = offsets[other + 1] - offsets[other]
                    is_later = others_degree > degree or (others_degree == degree and other > vertex)
                    is_here = is_later == (turn == 0)
                mask = ballot(is_here)
                if is_here:
                    members[place + rank(mask)] = other
                place += count_bits(mask)
            if turn == 0:
                n_later = place - first
                most_later = max(most_later, n_later)
                if n_later > 0:
                    most_neighbours = max(most_neighbours, degree)
                weight = -((n_later << 32) | degree)
                if n_later <= layout.SMALL_ROOT and degree <= layout.SMALL_DEGREE:
                    weight = layout.SMALL_DEGREE - degree
                    n_small += 1
                if lane == 0:
                    later_ends[vertex] = place
                    weights[vertex] = weight
    if lane == 0:
        cuda.atomic.add(facts, 2, n_small)
        cuda.atomic.max(facts, 0, most_later)
        cuda.atomic.max(facts, 1, most_neighbours)

"""The order of the roots: a degeneracy order, with each edge stored at its earlier end."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mbe_stage.graphs.undirected import UndirectedCSR
from mbe_stage.runtime.compile_ahead import CompileStep
from mbe_stage.runtime.jit import INTS, LONGS, compiled, steps_of


class OrderedGraph(NamedTuple):
    """A graph with its vertices numbered in the order of the roots.

    Attributes
    ----------
    vertices : (n,) int32
        The graph's vertex for each root.
    cores : (n,) int32
        Ascending upper bounds on the core numbers. A clique has at most the last one plus one members.
    later_offsets : (n + 1,) int64
    later : (n_edges,) int32
        Later neighbours of each root, in the order of their ids in the graph.
    earlier_offsets : (n + 1,) int64
    earlier : (n_edges,) int32
        Earlier neighbours of each root.
    """

    vertices: np.ndarray
    cores: np.ndarray
    later_offsets: np.ndarray
    later: np.ndarray
    earlier_offsets: np.ndarray
    earlier: np.ndarray


def degeneracy_order(graph: UndirectedCSR) -> tuple[np.ndarray, np.ndarray]:
    """Return an order in which each vertex has the fewest neighbours among the rest, and the core numbers.

    Linear: vertices are in buckets by their remaining degrees (Batagelj and Zaveršnik, "An O(m) algorithm for cores
    decomposition of networks", 2003; smallest-last order: Matula and Beck, JACM 30(3), 1983).

    Returns
    -------
    order : (n,) int32
        Vertices in order; each has at most as many later neighbours as its core number.
    cores : (n,) int32
        Core number of each vertex, by its id.
    """
    return _peeled(graph.offsets, graph.members)


def ordered(graph: UndirectedCSR) -> OrderedGraph:
    """Return the graph with its vertices numbered by `degeneracy_order`."""
    order, cores = degeneracy_order(graph)
    return OrderedGraph(order, cores[order], *_oriented(graph.offsets, graph.members, order))


def numbered(graph: UndirectedCSR) -> OrderedGraph:
    """Return the graph with its vertices in the order of ids, for comparison with `ordered`."""
    _, cores = degeneracy_order(graph)
    order = np.arange(graph.n, dtype=np.int32)
    return OrderedGraph(order, np.full(graph.n, cores.max(initial=0)), *_oriented(graph.offsets, graph.members, order))


def compile_steps() -> tuple[CompileStep, ...]:
    """Return the steps to compile the functions of this module."""
    return steps_of(_peeled, _oriented)


@compiled(LONGS, INTS, seconds=1.0)
def _peeled(offsets, members):
    """Compute the order and the core numbers.

    `order` stays sorted by remaining degree; ``starts[d]`` is the first position of degree d.
    """
    n = offsets.size - 1
    degrees = np.empty(n, np.int32)
    most = 0
    for v in range(n):
        degrees[v] = offsets[v + 1] - offsets[v]
        most = max(most, degrees[v])
    starts = np.zeros(most + 2, np.int32)
    for v in range(n):
        starts[degrees[v] + 1] += 1
    for d in range(most + 1):
        starts[d + 1] += starts[d]
    order = np.empty(n, np.int32)
    place = np.empty(n, np.int32)
    ends = starts.copy()
    for v in range(n):
        place[v] = ends[degrees[v]]
        order[place[v]] = v
        ends[degrees[v]] += 1
    for k in range(n):
        v = order[k]
        degree = degrees[v]
        for j in range(offsets[v], offsets[v + 1]):
            u = members[j]
            others = degrees[u]
            if others > degree:
                # Move it to the front of its bucket, and the bucket's start past it.
                front = starts[others]
                w = order[front]
                order[place[u]] = w
                place[w] = place[u]
                order[front] = u
                place[u] = front
                starts[others] = front + 1
                degrees[u] = others - 1
    return order, degrees


@compiled(LONGS, INTS, INTS, seconds=1.0)
def _oriented(offsets, members, order):
    """Return later and earlier neighbours of each position in the order, with their offsets."""
    n = order.size
    place = np.empty(n, np.int32)
    for k in range(n):
        place[order[k]] = k
    later_offsets = np.zeros(n + 1, np.int64)
    earlier_offsets = np.zeros(n + 1, np.int64)
    for v in range(n):
        own = place[v]
        for j in range(offsets[v], offsets[v + 1]):
            later_offsets[own + 1] += place[members[j]] > own
        earlier_offsets[own + 1] = offsets[v + 1] - offsets[v] - later_offsets[own + 1]
    for k in range(n):
        later_offsets[k + 1] += later_offsets[k]
        earlier_offsets[k + 1] += earlier_offsets[k]
    later = np.empty(members.size // 2, np.int32)
    earlier = np.empty(members.size // 2, np.int32)
    for v in range(n):
        own = place[v]
        to_later, to_earlier = later_offsets[own], earlier_offsets[own]
        # Neighbours ascend, so the vertices of both lists ascend too.
        for j in range(offsets[v], offsets[v + 1]):
            other = place[members[j]]
            if other > own:
                later[to_later] = other
                to_later += 1
            else:
                earlier[to_earlier] = other
                to_earlier += 1
    return later_offsets, later, earlier_offsets, earlier

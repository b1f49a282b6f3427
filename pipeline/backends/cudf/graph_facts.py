"""Degrees and two-hop degrees of a graph on the device, by cuGraph as far as memory allows.

It is called through pylibcugraph, the thin layer over its C interface: importing `cugraph` itself loads Dask and takes
seconds. cuGraph materialises every pair of vertices that are two hops apart. So two-hop degrees are computed in batches
of start vertices, each within a byte budget that follows from the degrees. If that would be too much, for one vertex or
in total, `mbe_stage.device.two_hop` counts without a table. Both give the same numbers.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any

import cupy as cp
import numpy as np
import pylibcugraph as plcg

from mbe_stage.device.two_hop import two_hop_degrees, two_hop_steps
from mbe_stage.graphs.bipartite import BipartiteCSR
from mbe_stage.pipeline.backends.backend import GraphFacts

__all__ = ["GraphFacts", "Network", "graph_facts", "network_of", "two_hop_by_cugraph"]

log = logging.getLogger(__name__)

# cuGraph's bytes for each two-step path from the start vertices, before duplicates are dropped: 28.5 on an H200.
_BYTES_PER_PATH = 32
# An estimate of cuGraph's bytes for each edge while it makes its form of a graph.
_BYTES_PER_EDGE = 128
# About 0.15 s on an H200. Beyond this the device code is faster and its lead grows, because it writes no pairs.
_MOST_PATHS = 1 << 28


def graph_facts(graph: BipartiteCSR, most_steps: int, memory_bytes: int) -> GraphFacts:
    """Return degrees, and two-hop degrees if wanted.

    Parameters
    ----------
    graph : BipartiteCSR
        A graph of CuPy arrays without isolated vertices.
    most_steps : int
        A side that takes more has no two-hop degrees; with 0 neither has.
    memory_bytes : int
        Device memory that may be used.
    """
    if graph.n_edges * _BYTES_PER_EDGE <= memory_bytes:
        network = network_of(graph)
        degrees, methods = _degrees(network, graph), {"degrees": "cugraph"}
    else:
        network, degrees = None, (cp.diff(graph.left_offsets), cp.diff(graph.right_offsets))
        methods = {"degrees": "device code (the graph is too large for cugraph)"}
    wanted = _sides_within(graph, most_steps)
    two_hop = {}
    for side, first, oriented in (("left", 0, graph), ("right", graph.n_left, graph.swapped())):
        method, counts = _two_hop(network, oriented, first, memory_bytes) if wanted[side] else ("not counted", None)
        methods[f"{side}_two_hop"], two_hop[side] = method, counts
        log.info("two-hop degrees of the %s side: %s", side, method)
    return GraphFacts(*degrees, two_hop["left"], two_hop["right"], methods)


@dataclass(frozen=True, slots=True, eq=False)
class Network:
    """A graph in cuGraph's form, and the handle that its functions need."""

    handle: Any
    graph: Any


def network_of(graph: BipartiteCSR) -> Network:
    """Return both sides in one undirected graph: left ids unchanged, right ids after them."""
    left = cp.searchsorted(graph.left_offsets, cp.arange(graph.n_edges), side="right").astype(np.int32) - np.int32(1)
    right = graph.left_members + np.int32(graph.n_left)
    handle = plcg.ResourceHandle()
    # Both directions of every edge, which cuGraph would otherwise have to make itself.
    undirected = plcg.SGGraph(
        handle,
        plcg.GraphProperties(is_symmetric=True, is_multigraph=False),
        cp.concatenate([left, right]),
        cp.concatenate([right, left]),
        store_transposed=False,
        renumber=True,
        do_expensive_check=False,
    )
    return Network(handle, undirected)


def two_hop_by_cugraph(network: Network, first: int, paths: cp.ndarray, paths_at_once: int) -> tuple[cp.ndarray, int]:
    """Count, for each vertex of a side, the other vertices of the side that are two hops away.

    Parameters
    ----------
    network : Network
        The result of `network_of`.
    first : int
        Id of the side's first vertex in `network`.
    paths : (n,) int64
        Number of two-step paths from each vertex of the side.
    paths_at_once : int
        Maximum paths per call; at least ``paths.max()``.

    Returns
    -------
    counts : (n,) int64
    """
    counts = cp.zeros(paths.size, np.int64)
    ends = cp.asnumpy(cp.cumsum(paths))
    start = n_batches = 0
    while start < ends.size:
        before = ends[start - 1] if start else 0
        stop = max(start + 1, int(np.searchsorted(ends, before + paths_at_once, side="right")))
        counts += _others_met(network, first, start, stop, paths.size)
        start, n_batches = stop, n_batches + 1
    return counts, n_batches


def _others_met(network: Network, first: int, start: int, stop: int, n: int) -> cp.ndarray:
    """Count the pairs from the vertices `start` to `stop` of a side, by first vertex; the table is freed on return."""
    # Start vertices must have the graph's own type: others are read as garbage.
    vertices = cp.arange(first + start, first + stop, dtype=np.int32)
    begin, end = plcg.get_two_hop_neighbors(network.handle, network.graph, vertices, False)
    # Every vertex is its own neighbour's neighbour.
    met = begin[begin != end] - np.int32(first)
    return cp.bincount(met, minlength=n) if met.size else cp.zeros(n, np.int64)


def _degrees(network: Network, graph: BipartiteCSR) -> tuple[cp.ndarray, cp.ndarray]:
    # Degrees of both directions would count every undirected edge twice.
    vertices, found = plcg.out_degrees(network.handle, network.graph, None, False)
    degrees = cp.zeros(graph.n_left + graph.n_right, np.int64)
    degrees[vertices] = found
    return degrees[: graph.n_left], degrees[graph.n_left :]


def _sides_within(graph: BipartiteCSR, most_steps: int) -> dict[str, bool]:
    # With 0 nothing is counted, however few steps it takes.
    if most_steps == 0:
        return {"left": False, "right": False}
    return {side: n_steps <= most_steps for side, n_steps in zip(("left", "right"), two_hop_steps(graph), strict=True)}


def _two_hop(network: Network | None, graph: BipartiteCSR, first: int, memory_bytes: int) -> tuple[str, cp.ndarray]:
    paths = _paths(graph)
    total, most, at_once = int(paths.sum()), int(paths.max()), memory_bytes // _BYTES_PER_PATH
    if network is None or total > _MOST_PATHS or most > at_once:
        return f"device code ({total} two-step paths)", two_hop_degrees(graph, memory_bytes)
    counts, n_batches = two_hop_by_cugraph(network, first, paths, at_once)
    return f"cugraph ({total} two-step paths, {n_batches} batches)", counts


def _paths(graph: BipartiteCSR) -> cp.ndarray:
    """Return the number of two-step paths from each left vertex, including those back to itself."""
    sums = cp.zeros(graph.n_edges + 1, np.int64)
    cp.cumsum(cp.diff(graph.right_offsets)[graph.left_members], out=sums[1:])
    return sums[graph.left_offsets[1:]] - sums[graph.left_offsets[:-1]]

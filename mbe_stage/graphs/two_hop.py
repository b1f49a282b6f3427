"""Two-hop degrees: the number of other vertices on the same side that share a neighbour with a vertex.

Counting walks from a vertex to its neighbours and on to their neighbours, and counts each vertex once. Two shortcuts
keep that fast without changing the result:

- Vertices are grouped by their *hub*, the neighbour with the highest degree (the smallest id in a tie). The vertices
  that the hub reaches are marked once for the whole group, and not walked again.
- If the hub reaches nearly all vertices, each vertex outside its reach checks whether it shares a neighbour with the
  vertex, and stops at the first one. This matters if nearly all records share attributes: kddcup99_onehot has 7.8e12
  two-step paths, and takes 2.1e7 steps.

Each group uses the method with the lower upper bound on steps. So `two_hop_steps` knows the cost in advance, and the
cost depends on the graph alone.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from typing import cast

import numpy as np
from numba.types import Tuple

from mbe_stage.graphs.bipartite import BipartiteCSR
from mbe_stage.options import Execution
from mbe_stage.runtime.jit import FLAGS, INTS, LONGS, compiled, steps_in

compile_steps = steps_in(__name__)
# Parts per thread: enough for threads to end together, few enough for their marks to be cheap.
_PARTS_PER_THREAD = 16
# Most steps of one part: a fraction of a second.
_MOST_STEPS = 100_000_000

# Neighbours of the counted side, and of the other side: offsets and members of each.
_LISTS = Tuple((LONGS, INTS, LONGS, INTS))


def two_hop_steps(graph: BipartiteCSR) -> tuple[int, int]:
    """Return the most steps of `two_hop_degrees` for the left and the right side; takes time linear in the edges."""
    return _plan(_lists(graph))[-1], _plan(_lists(graph.swapped()))[-1]


def two_hop_degrees(graph: BipartiteCSR, threads: int = 0) -> np.ndarray:
    """Count, for each left vertex, the other left vertices with which it shares a neighbour.

    Parameters
    ----------
    graph : BipartiteCSR
        ``graph.swapped()`` for the right side.
    threads : int
        0 means every core. Each thread takes four bytes per vertex.

    Returns
    -------
    (n_left,) int64

    Examples
    --------
    >>> two_hop_degrees(BipartiteCSR.from_edges([0, 0, 1, 2], [0, 1, 1, 2])).tolist()
    [1, 1, 0]
    """
    n_threads = Execution(threads=threads).worker_count
    with ThreadPoolExecutor(n_threads) as pool:
        return cast(np.ndarray, begin_two_hop_degrees(graph, pool, n_threads, sys.maxsize)())


def begin_two_hop_degrees(
    graph: BipartiteCSR, pool: Executor, n_threads: int, most_steps: int
) -> Callable[[], np.ndarray | None]:
    """Start counting two-hop degrees in the background; return a function that waits for the result and returns it.

    Parameters
    ----------
    pool : Executor
        Its threads count in pieces of a fraction of a second. Shutting it down with `cancel_futures` stops them soon.
    most_steps : int
        If more steps are needed (`two_hop_steps`), nothing is counted, and the result is None.
    """
    lists = _lists(graph)
    order, order_hubs, asks, work, n_steps = _plan(lists)
    if n_steps > most_steps:
        return lambda: None
    result = np.zeros(graph.n_left, np.int64)
    # Parts with equal shares of the work.
    n_parts = max(n_threads * _PARTS_PER_THREAD, int(work[-1]) // _MOST_STEPS + 1)
    shares = np.linspace(0, work[-1], n_parts + 1)
    bounds = np.unique(np.concatenate([[0], np.searchsorted(work, shares[1:-1]), [order.size]]))

    def count(start: int, stop: int) -> None:
        _count(order[start:stop], order_hubs[start:stop], asks, lists, result)

    pieces = pool.map(count, bounds[:-1].tolist(), bounds[1:].tolist())

    def finished() -> np.ndarray:
        for _ in pieces:
            pass
        return result

    return finished


def sampled_two_hop_degrees(graph: BipartiteCSR, n: int, seed: int = 0) -> np.ndarray:
    """Count the two-hop degrees of `n` random left vertices, ``(n,) int64``, by walking all their two-step paths."""
    vertices = np.random.default_rng(seed).choice(graph.n_left, n, replace=False)
    return _count_few(vertices.astype(np.int32), _lists(graph))


def _lists(graph: BipartiteCSR) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    return graph.left_offsets, graph.left_members, graph.right_offsets, graph.right_members


@compiled()
def _hub(vertex, lists):
    """Return the hub of a vertex, and the number of two-step paths through its other neighbours."""
    offsets, members, other_offsets, _ = lists
    best, most, total = -1, 0, 0
    for i in range(offsets[vertex], offsets[vertex + 1]):
        neighbour = members[i]
        degree = other_offsets[neighbour + 1] - other_offsets[neighbour]
        total += degree
        if degree > most:
            best, most = neighbour, degree
    return best, total - most


@compiled(_LISTS, seconds=1.0)
def _plan(lists):
    """Group the vertices with edges by their hubs, and choose each group's method.

    Returns
    -------
    order, order_hubs : int32
        The vertices in order, and the hub of each.
    asks : (n_other,) bool
        For each hub, True if its group does not walk. Each vertex outside the hub's reach is checked for a shared
        neighbour instead (`_ask`).
    work : int64
        Running sum over `order` of the steps of each vertex, at least one.
    """
    offsets, members, other_offsets, other_members = lists
    n, n_other = offsets.size - 1, other_offsets.size - 1
    hubs, walks = np.empty(n, np.int32), np.empty(n, np.int64)
    # For each hub: the start of its group, stored one place later; and the steps of walking and of the group's lists.
    starts, walk, own = np.zeros(n_other + 1, np.int64), np.zeros(n_other, np.int64), np.zeros(n_other, np.int64)
    for vertex in range(n):
        hubs[vertex], walks[vertex] = _hub(vertex, lists)
        if hubs[vertex] >= 0:
            starts[hubs[vertex] + 1] += 1
            walk[hubs[vertex]] += walks[vertex]
            own[hubs[vertex]] += offsets[vertex + 1] - offsets[vertex]
    asks, outside, n_steps = np.zeros(n_other, np.bool_), np.zeros(n_other, np.int64), 0
    for hub in range(n_other):
        size = starts[hub + 1]
        if size > 0:
            outside[hub] = members.size
            for i in range(other_offsets[hub], other_offsets[hub + 1]):
                outside[hub] -= offsets[other_members[i] + 1] - offsets[other_members[i]]
            ask = n + own[hub] + size * outside[hub]
            asks[hub] = ask < walk[hub]
            n_steps += min(ask, walk[hub])
        starts[hub + 1] += starts[hub]
    order = np.empty(starts[n_other], np.int32)
    for vertex in range(n):
        if hubs[vertex] >= 0:
            order[starts[hubs[vertex]]] = vertex
            starts[hubs[vertex]] += 1
    work, total = np.empty(order.size + 1, np.int64), 0
    work[0] = 0
    for i in range(order.size):
        hub = hubs[order[i]]
        total += 1 + (outside[hub] if asks[hub] else walks[order[i]])
        work[i + 1] = total
    return order, hubs[order], asks, work, n_steps


@compiled(INTS, INTS, FLAGS, _LISTS, LONGS, seconds=1.0)
def _count(order, order_hubs, asks, lists, result):
    """Write the two-hop degrees of the vertices of `order` into `result`.

    `marks` holds, for each vertex, the number of the last vertex that met it. Vertices that the hub reaches are marked
    with the largest number, so they are never met. `order`, `order_hubs` and `asks` are those of `_plan`.
    """
    offsets, _, other_offsets, other_members = lists
    n = offsets.size - 1
    reached = np.int32(2**31 - 1)
    marks, wanted = np.zeros(n, np.int32), np.zeros(other_offsets.size - 1, np.int32)
    outside, n_outside = np.empty(0, np.int32), 0
    hub = np.int32(-1)
    for i in range(order.size):
        if order_hubs[i] != hub:
            if hub >= 0:
                marks[other_members[other_offsets[hub] : other_offsets[hub + 1]]] = 0
            hub = order_hubs[i]
            marks[other_members[other_offsets[hub] : other_offsets[hub + 1]]] = reached
            if asks[hub]:
                if outside.size == 0:
                    outside = np.empty(n, np.int32)
                n_outside = _not_reached(marks, reached, outside)
        number, vertex = np.int32(i + 1), order[i]
        if asks[hub]:
            met = _ask(vertex, number, wanted, outside[:n_outside], lists)
        else:
            met = _walk(vertex, number, hub, marks, lists)
        # The hub reaches the vertex itself.
        result[vertex] = other_offsets[hub + 1] - other_offsets[hub] - 1 + met


@compiled(INTS, _LISTS)
def _count_few(vertices, lists):
    offsets, members, other_offsets, other_members = lists
    # One-byte numbers keep the marks in the cache.
    degrees, marks = np.zeros(vertices.size, np.int64), np.zeros(offsets.size - 1, np.uint8)
    for i in range(vertices.size):
        number, met = np.uint8(i % 255 + 1), 0
        if number == 1:
            marks[:] = 0
        # A vertex is not its own two-hop neighbour.
        marks[vertices[i]] = number
        for k in range(offsets[vertices[i]], offsets[vertices[i] + 1]):
            for j in range(other_offsets[members[k]], other_offsets[members[k] + 1]):
                met += marks[other_members[j]] != number
                marks[other_members[j]] = number
        degrees[i] = met
    return degrees


@compiled()
def _not_reached(marks, reached, outside):
    n = 0
    for vertex in range(marks.size):
        if marks[vertex] != reached:
            outside[n] = vertex
            n += 1
    return n


@compiled()
def _walk(vertex, number, hub, marks, lists):
    """Count the vertices met through neighbours other than the hub; mark them with the vertex's number in the order."""
    offsets, members, other_offsets, other_members = lists
    met = 0
    for i in range(offsets[vertex], offsets[vertex + 1]):
        neighbour = members[i]
        if neighbour == hub:
            continue
        for k in range(other_offsets[neighbour], other_offsets[neighbour + 1]):
            other = other_members[k]
            # No branch: it would be unpredictable.
            mark = marks[other]
            met += mark < number
            marks[other] = max(mark, number)
    return met


@compiled()
def _ask(vertex, number, wanted, outside, lists):
    """Count the vertices outside the hub's reach that share a neighbour with a vertex.

    `wanted` is scratch space: for each vertex of the other side, the number of the last one that has it as neighbour.
    """
    offsets, members, _, _ = lists
    for i in range(offsets[vertex], offsets[vertex + 1]):
        wanted[members[i]] = number
    met = 0
    for i in range(outside.size):
        for k in range(offsets[outside[i]], offsets[outside[i] + 1]):
            if wanted[members[k]] == number:
                met += 1
                break
    return met

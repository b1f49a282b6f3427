"""Project a bipartite graph onto a side: its vertices, joined if they share enough neighbours.

Two walks over all two-step paths, one row of the projection at a time: the first counts the edges, so that their memory
is known in advance; the second writes them. No path is stored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from numba import int32, int64

from mbe_stage.errors import InvalidArgument, MemoryBudgetExceeded
from mbe_stage.graphs.bipartite import BipartiteCSR
from mbe_stage.graphs.undirected import UndirectedCSR
from mbe_stage.runtime.compile_ahead import CompileStep
from mbe_stage.runtime.jit import INTS, LONGS, compiled, steps_of

# Steps of one call of compiled code, a fraction of a second; Ctrl-C takes effect after it.
_MOST_STEPS = 100_000_000
# Bytes per vertex: offsets, fill positions of each row (twice), degrees, numbers of shared neighbours, and their
# vertices.
_VERTEX_BYTES, _END_BYTES = 8 + 8 + 8 + 4 + 4 + 4, 4


def projected(graph: BipartiteCSR, min_shared: int = 1, memory_budget: int = 1 << 30) -> UndirectedCSR:
    """Join the left vertices of a graph that share neighbours; use `swapped` for the right ones.

    Parameters
    ----------
    min_shared : int
        Fewest neighbours that two joined vertices share.
    memory_budget : int
        Limit for the projection and its working memory, in bytes.

    Returns
    -------
    UndirectedCSR
        The graph on ``n_left`` vertices, including those without an edge.

    Raises
    ------
    InvalidArgument
        `min_shared` is below 1.
    MemoryBudgetExceeded
        The projection does not fit; the message names the bytes. Nothing of its size was allocated then.

    Examples
    --------
    >>> graph = BipartiteCSR.from_edges([0, 0, 1, 1, 2], [0, 1, 0, 1, 1])
    >>> projected(graph).n_edges, projected(graph, min_shared=2).n_edges
    (3, 1)
    """
    if min_shared < 1:
        raise InvalidArgument(f"min_shared is {min_shared}: expected 1 or more shared neighbours")
    # No vertex has more neighbours than an int32 counts.
    n, min_shared = graph.n_left, min(min_shared, 2**31 - 1)
    _refuse_beyond(memory_budget, n, 0, at_least=True)
    arrays = graph.left_offsets, graph.left_members, graph.right_offsets, graph.right_members
    scratch, degrees = np.zeros((2, n), np.int32), np.zeros(n, np.int32)

    def count(first: int, end: int) -> int:
        return int(_count_rows(*arrays, first, end, min_shared, scratch, degrees))

    _counted_within(graph, count, memory_budget)
    offsets = np.zeros(n + 1, np.int64)
    np.cumsum(degrees, out=offsets[1:])
    members, ends = np.empty(int(offsets[-1]), np.int32), offsets[:-1].copy()
    for first, end in _parts(graph):
        _write_earlier(*arrays, first, end, min_shared, scratch, members, ends)
    _write_later(offsets, ends, members)
    return UndirectedCSR(n, offsets, members)


def compile_steps() -> tuple[CompileStep, ...]:
    """Compile the functions of this module."""
    return steps_of(_end_of_part, _count_rows, _write_earlier, _write_later)


def _counted_within(graph: BipartiteCSR, count: Callable[[int, int], int], budget: int) -> None:
    """Count the edges part by part; raise as soon as they are too many."""
    n_edges = 0
    for first, end in _parts(graph):
        n_edges += count(first, end)
        _refuse_beyond(budget, graph.n_left, n_edges, at_least=end < graph.n_left)


def _refuse_beyond(budget: int, n: int, n_edges: int, *, at_least: bool) -> None:
    needed = _VERTEX_BYTES * n + 2 * _END_BYTES * n_edges
    if needed > budget:
        fewest = "at least " if at_least else ""
        raise MemoryBudgetExceeded(
            f"the projection has {fewest}{n_edges:,} edges between {n:,} vertices and needs {fewest}{needed:,} bytes: "
            f"expected at most {budget:,}, the memory budget; give more, or ask for more shared neighbours"
        )


def _parts(graph: BipartiteCSR) -> Iterator[tuple[int, int]]:
    """Return ranges of left vertices with at most `most` two-step paths each, or of one vertex."""
    first = 0
    while first < graph.n_left:
        end = int(_end_of_part(graph.left_offsets, graph.left_members, graph.right_offsets, first, _MOST_STEPS))
        yield first, end
        first = end


@compiled(LONGS, INTS, LONGS, int64, int64)
def _end_of_part(left_offsets, left, right_offsets, first, most):
    """Return the vertex before which `most` two-step paths from `first` on are reached; at least the next."""
    n_paths = 0
    for u in range(first, left_offsets.size - 1):
        for i in range(left_offsets[u], left_offsets[u + 1]):
            n_paths += right_offsets[left[i] + 1] - right_offsets[left[i]]
        if n_paths > most and u > first:
            return u
    return left_offsets.size - 1


@compiled(LONGS, INTS, LONGS, INTS, int64, int64, int64, int32[:, ::1], INTS)
def _count_rows(left_offsets, left, right_offsets, right, first, end, min_shared, scratch, degrees):
    """Count the edges from a range of vertices to later ones.

    Parameters
    ----------
    left_offsets, left, right_offsets, right : int64, int32, int64, int32
        The graph in both directions.
    scratch : (2, n) int32
        Counters, zero before and after; and the vertices whose counter is not zero.
    degrees : (n,) int32
        Changed in place, at both ends.

    Returns
    -------
    int
        Edges.
    """
    counters, touched, n_edges = scratch[0], scratch[1], 0
    for u in range(first, end):
        n_touched = 0
        for i in range(left_offsets[u], left_offsets[u + 1]):
            start = right_offsets[left[i]]
            j = right_offsets[left[i] + 1] - 1
            while j >= start and right[j] > u:
                v = right[j]
                if counters[v] == 0:
                    touched[n_touched] = v
                    n_touched += 1
                counters[v] += 1
                j -= 1
        for k in range(n_touched):
            v = touched[k]
            if counters[v] >= min_shared:
                degrees[u] += 1
                degrees[v] += 1
                n_edges += 1
            counters[v] = 0
    return n_edges


@compiled(LONGS, INTS, LONGS, INTS, int64, int64, int64, int32[:, ::1], INTS, LONGS)
def _write_earlier(left_offsets, left, right_offsets, right, first, end, min_shared, scratch, members, ends):
    """Write each vertex of a range into the rows of its later neighbours, where they arrive in ascending order.

    Parameters
    ----------
    left_offsets, left, right_offsets, right, first, end, min_shared, scratch
        As in `_count_rows`.
    members : int32
        Neighbours of all vertices, written in place.
    ends : (n,) int64
        End of the filled part of each row; changed in place.
    """
    counters, touched = scratch[0], scratch[1]
    for u in range(first, end):
        n_touched = 0
        for i in range(left_offsets[u], left_offsets[u + 1]):
            start = right_offsets[left[i]]
            j = right_offsets[left[i] + 1] - 1
            while j >= start and right[j] > u:
                v = right[j]
                if counters[v] == 0:
                    touched[n_touched] = v
                    n_touched += 1
                counters[v] += 1
                j -= 1
        for k in range(n_touched):
            v = touched[k]
            if counters[v] >= min_shared:
                members[ends[v]] = u
                ends[v] += 1
            counters[v] = 0


@compiled(LONGS, LONGS, INTS)
def _write_later(offsets, ends, members):
    """Add the later neighbours to each row, which has the earlier ones up to `ends`; later rows know them."""
    later = ends.copy()
    for v in range(ends.size):
        for j in range(offsets[v], ends[v]):
            u = members[j]
            members[later[u]] = v
            later[u] += 1

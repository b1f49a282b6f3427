"""The CPU engine: rows of the product of the adjacency matrix with its transpose, computed by threads, in order.

If two vertices share `k` neighbours, at least one of these is not among the second vertex's `k - 1` most frequent
neighbours. So the list of a right vertex omits the left vertices for which it is one of those, which shortens the lists
of hubs most. Omitted neighbours are looked up for each pair that was met (prefix filtering: Chaudhuri, Ganti and
Kaushik, "A primitive operator for similarity joins in data cleaning", ICDE 2006).
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice
from queue import SimpleQueue
from typing import NamedTuple

import numpy as np
from numba import int32, int64

from mbe_stage.bits import lowest_bit_index
from mbe_stage.errors import MemoryBudgetExceeded
from mbe_stage.graphs.bipartite import BipartiteCSR
from mbe_stage.options import Execution
from mbe_stage.runtime.compile_ahead import CompileStep, compile_ahead
from mbe_stage.runtime.jit import INTS, LONGS, WORDS, compiled, steps_of
from mbe_stage.search.cpu.pool import device, unavailable_reason
from mbe_stage.shared_neighbours.problem import SharedQuery
from mbe_stage.shared_neighbours.results import PairBlock, roots_of
from mbe_stage.tasks import Task, cut, ranges_of

__all__ = ["compile_steps", "device", "run", "tasks_of", "unavailable_reason"]

_PAIR_BYTES = 12
_ONE = np.uint64(1)
# Number of pieces that each thread may be ahead of the consumer.
_PIECES_AHEAD = 2
# Blocks waiting, being joined, and with the consumer; each may hold nearly two pieces.
_BLOCKS_UNDER_WAY = 6
_REPORT_SECONDS = 0.1


class _Lists(NamedTuple):
    """The graph prepared for a minimum of shared neighbours; right vertices have new ids, ascending by degree.

    Attributes
    ----------
    offsets, members : (n_left + 1,) int64, (n_edges,) int32
        Neighbours of the left vertices, ascending.
    other_offsets, other_members : (n_right + 1,) int64, int32
        For each right vertex, the left vertices for which it is not among the omitted neighbours, ascending.
    steps : (n_left,) int64
        Upper bound on steps, and on pairs, for each left vertex.
    """

    offsets: np.ndarray
    members: np.ndarray
    other_offsets: np.ndarray
    other_members: np.ndarray
    steps: np.ndarray


def compile_steps(query: SharedQuery | None = None, detail: None = None) -> tuple[CompileStep, ...]:  # noqa: ARG001
    """Return the steps to compile the functions of this module."""
    return steps_of(_arrange, _pairs_of)


def tasks_of(graph: BipartiteCSR, query: SharedQuery, n: int) -> list[Task]:
    """Divide the whole work into at most `n` tasks of similar cost; a pair belongs to its first vertex."""
    compile_ahead(compile_steps())
    return cut(roots_of(graph, query), 1.0 + _lists_of(graph, query.min_shared).steps, n)


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
        Working memory does not fit the budget.
    """
    ranges = ranges_of(tasks, roots_of(graph, query))
    n_pairs = max(1, execution.block_bytes // _PAIR_BYTES)
    n_threads = _threads_within(graph, execution)
    # No degree exceeds an int32.
    min_shared = min(query.min_shared, 2**31 - 1)
    lists = _lists_of(graph, min_shared)
    scratch: SimpleQueue[tuple[np.ndarray, ...]] = SimpleQueue()
    for _ in range(n_threads):
        marks, words = np.zeros(2 * graph.n_left + graph.n_right, np.int32), np.zeros(graph.n_left // 63 + 3, np.uint64)
        scratch.put((marks, words, np.empty((3, max(n_pairs, graph.n_left)), np.int32)))

    def pairs(first: int, end: int) -> PairBlock:
        own = scratch.get()
        n = _pairs_of(*lists[:4], first, end, min_shared, *own)
        block = PairBlock(*own[-1][:, :n].copy())
        scratch.put(own)
        return block

    done, total = 0, max(1, sum(end - first + int(lists.steps[first:end].sum()) for first, end in ranges))
    waiting: list[PairBlock] = []
    reported = time.perf_counter()
    for first, end, block in _in_order(pairs, pieces(lists.steps, ranges, n_pairs), n_threads):
        done += end - first + int(lists.steps[first:end].sum())
        waiting.append(block)
        is_due = time.perf_counter() - reported > _REPORT_SECONDS
        if is_due or sum(map(len, waiting)) >= n_pairs:
            yield PairBlock.of(waiting, done / total)
            waiting, reported = [], time.perf_counter()
    yield PairBlock.of(waiting, 1.0)


def working_bytes(graph: BipartiteCSR, block_bytes: int) -> tuple[int, int]:
    """Return the bytes of lists and blocks, and the bytes that each thread needs in addition."""
    room = max(block_bytes, graph.n_left * _PAIR_BYTES)
    lists = 8 * (3 * graph.n_left + 2 * graph.n_right) + 2 * 4 * graph.n_edges + _BLOCKS_UNDER_WAY * room
    return lists, 4 * (2 * graph.n_left + graph.n_right) + graph.n_left // 7 + (2 * _PIECES_AHEAD + 1) * room


def _threads_within(graph: BipartiteCSR, execution: Execution) -> int:
    """Return the number of threads that the memory budget allows."""
    lists, each = working_bytes(graph, execution.block_bytes)
    if lists + each > execution.memory_budget_bytes:
        raise MemoryBudgetExceeded(
            f"the projection of {graph.n_left:,} vertices needs {lists + each:,} bytes of working memory: expected at "
            f"most {execution.memory_budget_bytes:,}, the memory budget; give more, or ask for smaller blocks"
        )
    return min(execution.worker_count, (execution.memory_budget_bytes - lists) // each)


def pieces(steps: np.ndarray, ranges: Iterable[tuple[int, int]], most: int) -> Iterator[tuple[int, int]]:
    """Yield ranges of vertices with at most `most` steps; a vertex with more gets a range of its own."""
    sums = np.cumsum(steps)
    for first, end in ranges:
        while first < end:
            before = sums[first - 1] if first else 0
            stop = int(np.searchsorted(sums[first:end], before + most, side="right")) + first
            yield first, max(first + 1, stop)
            first = max(first + 1, stop)


def _in_order(
    work: Callable[[int, int], PairBlock], pieces: Iterator[tuple[int, int]], n_threads: int
) -> Iterator[tuple[int, int, PairBlock]]:
    """Process pieces in threads, and yield each with its result, in order; closing cancels the rest."""
    pool, more = ThreadPoolExecutor(n_threads, "pairs"), iter(pieces)
    futures: deque[tuple[int, int, Future[PairBlock]]] = deque()
    try:
        while True:
            for first, end in islice(more, _PIECES_AHEAD * n_threads + 1 - len(futures)):
                futures.append((first, end, pool.submit(work, first, end)))
            if not futures:
                return
            first, end, future = futures.popleft()
            yield first, end, future.result()
    finally:
        pool.shutdown(cancel_futures=True)


def _lists_of(graph: BipartiteCSR, min_shared: int) -> _Lists:
    order = np.argsort(graph.right_degrees, kind="stable").astype(np.int32)
    return _Lists(*_arrange(graph.left_offsets, graph.right_offsets, graph.right_members, order, min_shared))


@compiled(LONGS, LONGS, INTS, INTS, int64, seconds=1.0)
def _arrange(offsets, right_offsets, right_members, order, min_shared):
    """Build `_Lists` for the right vertices in this order."""
    n, m = offsets.size - 1, order.size
    ends, members = offsets[:-1].copy(), np.empty(right_members.size, np.int32)
    for item in range(m):
        for i in range(right_offsets[order[item]], right_offsets[order[item] + 1]):
            members[ends[right_members[i]]] = item
            ends[right_members[i]] += 1
    other_offsets = np.zeros(m + 1, np.int64)
    for u in range(n):
        for i in range(offsets[u], offsets[u + 1] - min_shared + 1):
            other_offsets[members[i] + 1] += 1
    for item in range(m):
        other_offsets[item + 1] += other_offsets[item]
    other_members, other_ends = np.empty(other_offsets[m], np.int32), other_offsets[:-1].copy()
    steps = np.zeros(n, np.int64)
    for u in range(n):
        for i in range(offsets[u], offsets[u + 1] - min_shared + 1):
            other_members[other_ends[members[i]]] = u
            other_ends[members[i]] += 1
        if offsets[u + 1] - offsets[u] >= min_shared:
            for i in range(offsets[u], offsets[u + 1]):
                steps[u] += other_offsets[members[i] + 1] - other_offsets[members[i]]
    return offsets, members, other_offsets, other_members, steps


@compiled(LONGS, INTS, LONGS, INTS, int64, int64, int64, INTS, WORDS, int32[:, ::1])
def _pairs_of(offsets, members, other_offsets, other_members, first, end, min_shared, scratch, bits, found):
    """Find the pairs of a range of first vertices, ascending.

    Parameters
    ----------
    offsets, members, other_offsets, other_members
        Arrays of `_Lists`.
    scratch : (2 * n_left + n_right,) int32
        Counters, zero before and after; the vertices met; for each right vertex, 1 + the last vertex that marked it.
    bits : (n_left // 63 + 3,) uint64
        Zero before and after. The first part has a bit for each word of the second part, which has a bit for each
        vertex.
    found : (3, room) int32
        First and second vertex and shared neighbours, written in place.

    Returns
    -------
    int
        Number of pairs.
    """
    n, n_found = offsets.size - 1, 0
    counters, met, marks = scratch[:n], scratch[n : 2 * n], scratch[2 * n :]
    n_groups = (n >> 12) + 1
    groups, words = bits[:n_groups], bits[n_groups:]
    for u in range(first, end):
        if offsets[u + 1] - offsets[u] < min_shared:
            continue
        n_met, lowest, highest = 0, n_groups, -1
        for i in range(offsets[u], offsets[u + 1]):
            item = members[i]
            marks[item] = u + 1
            start, j = other_offsets[item], other_offsets[item + 1] - 1
            while j >= start and other_members[j] > u:
                v = other_members[j]
                if counters[v] == 0:
                    met[n_met] = v
                    n_met += 1
                counters[v] += 1
                j -= 1
        for k in range(n_met):
            v = met[k]
            for i in range(offsets[v + 1] - min_shared + 1, offsets[v + 1]):
                counters[v] += marks[members[i]] == u + 1
            if counters[v] >= min_shared:
                words[v >> 6] |= _ONE << np.uint64(v & 63)
                groups[v >> 12] |= _ONE << np.uint64(v >> 6 & 63)
                lowest, highest = min(lowest, v >> 12), max(highest, v >> 12)
            else:
                counters[v] = 0
        for group in range(lowest, highest + 1):
            while groups[group]:
                at = 64 * group + lowest_bit_index(groups[group])
                groups[group] &= groups[group] - _ONE
                while words[at]:
                    v = 64 * at + lowest_bit_index(words[at])
                    words[at] &= words[at] - _ONE
                    found[0, n_found] = u
                    found[1, n_found] = v
                    found[2, n_found] = counters[v]
                    counters[v] = 0
                    n_found += 1
    return n_found

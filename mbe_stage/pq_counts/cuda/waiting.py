"""Nodes and tasks that wait on the host, because the pool is too small for all begun work.

Begun work has to end before new work begins, so few nodes are enough. A task of a node needs room for a child beside
the node, a root for its matrix and its node. A pool has room for either (`memory_plan`), so each quantum finishes at
least one of them.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count

import cupy as cp
import numpy as np

from mbe_stage.device import whole_lines
from mbe_stage.device.arrays import upload
from mbe_stage.device.copying import copy_pieces
from mbe_stage.pq_counts.cuda import layout
from mbe_stage.pq_counts.cuda.layout import Device
from mbe_stage.pq_counts.cuda.memory_plan import MemoryPlan


@dataclass(slots=True, eq=False)
class _PendingNode:
    """A node, and its children that a warp took and could not finish."""

    fields: np.ndarray
    words: np.ndarray
    children: list[int]


@dataclass(slots=True, eq=False)
class PendingTasks:
    """The waiting nodes and roots; false if there are none."""

    # The node with the fewest words comes first; of equal ones the earliest.
    _nodes: list[tuple[int, int, _PendingNode]] = field(default_factory=list)
    _roots: list[int] = field(default_factory=list)
    _order: Iterator[int] = field(default_factory=count)
    n_words: int = field(default=0, init=False)
    """Words of the waiting nodes in a pool."""

    def __len__(self) -> int:
        """Number of waiting nodes and roots."""
        return len(self._nodes) + len(self._roots)

    @property
    def n_nodes(self) -> int:
        """Number of waiting nodes."""
        return len(self._nodes)

    def fetch(self, device: Device, plan: MemoryPlan, live: np.ndarray, state: np.ndarray) -> None:
        """Take all nodes and tasks from the device.

        Parameters
        ----------
        plan : MemoryPlan
            The plan of the device's memory.
        live : (n,) integers
            The nodes with children left or a task.
        state : (n_warps, STATE_FIELDS) int64, on the host
            State of the warps; no warp has a task afterwards.
        """
        # Half of the nodes can exist twice in the plan.
        some = max(1, plan.n_nodes // 2)
        found = {}
        for first in range(0, live.size, some):
            numbers = live[first : first + some]
            fields = cp.asnumpy(device.nodes[cp.asarray(numbers)])
            words = _words_of(device.words, fields[:, layout.OFFSET], fields[:, layout.WORDS], plan.moved_words)
            for number, of_one, its_words in zip(numbers.tolist(), fields, words, strict=True):
                found[number] = _PendingNode(of_one.copy(), its_words, [])
        for node, child in state[:, [layout.PENDING_NODE, layout.PENDING_CHILD]].tolist():
            if node == layout.ROOT:
                self._roots.append(child)
            elif node >= 0:
                found[node].children.append(child)
        state[:, layout.PENDING_NODE] = layout.NOTHING
        for one in found.values():
            self.n_words += whole_lines(one.words.size)
            heapq.heappush(self._nodes, (one.words.size, next(self._order), one))

    def take_roots(self, roots: np.ndarray) -> None:
        """Take roots that wait as well."""
        self._roots += roots.tolist()

    def load(self, device: Device, plan: MemoryPlan, state: np.ndarray, control: np.ndarray) -> None:
        """Put as many on the device as leave half of it free: the smallest nodes, which end first; else some roots.

        Parameters
        ----------
        device : Device
            Its contents are overwritten.
        state : (n_warps, STATE_FIELDS) int64, on the host
            Changed: the first task of each warp.
        control : (CONTROL_WORDS,) int64, on the host
            Changed.
        """
        chosen, n_words = self._smallest(plan)
        tasks = [(number, child) for number, node in enumerate(chosen) for child in node.children]
        if not chosen:
            n_roots = min(plan.n_warps, plan.n_roots_at_once)
            tasks, self._roots = [(layout.ROOT, root) for root in self._roots[:n_roots]], self._roots[n_roots:]
        for warp, task in enumerate(tasks):
            state[warp, [layout.PENDING_NODE, layout.PENDING_CHILD]] = task
        table, words = np.zeros((len(chosen), layout.NODE_FIELDS), np.int64), np.zeros(n_words, np.uint32)
        place = 0
        for number, node in enumerate(chosen):
            table[number] = node.fields
            table[number, [layout.OFFSET, layout.LINK]] = place, layout.ANYBODYS
            words[place : place + node.words.size] = node.words
            place += whole_lines(node.words.size)
        device.nodes.fill(0)
        if chosen:
            upload(table, device.nodes[: len(chosen)])
            upload(words, device.words[:n_words])
        control[layout.N_NODES], control[layout.POOL_TOP] = len(chosen), n_words
        control[layout.N_OPEN] = int((table[:, layout.CURSOR] < table[:, layout.END]).sum())

    def _smallest(self, plan: MemoryPlan) -> tuple[list[_PendingNode], int]:
        """Take the nodes to load, and the number of their words in the pool."""
        chosen: list[_PendingNode] = []
        n_words = n_tasks = 0
        while self._nodes:
            node = self._nodes[0][2]
            more_words, more_tasks = n_words + whole_lines(node.words.size), n_tasks + len(node.children)
            is_full = 2 * more_words > plan.pool_words or more_tasks > plan.n_warps or 2 * len(chosen) >= plan.n_nodes
            # A warp has one task, so a node never has more tasks than there are warps.
            if is_full and chosen:
                break
            n_words, n_tasks = more_words, more_tasks
            chosen.append(heapq.heappop(self._nodes)[2])
        self.n_words -= n_words
        return chosen, n_words


def _words_of(pool: cp.ndarray, starts: np.ndarray, sizes: np.ndarray, room: int) -> Iterator[np.ndarray]:
    """Copy the words of each node from the pool to the host.

    Parameters
    ----------
    pool : uint32
    starts, sizes : (n,) int64
        Position and number of each node's words.
    room : int
        Words of device memory available to put them together.
    """
    ends = np.cumsum(sizes)
    first = 0
    while first < sizes.size:
        n_before = int(ends[first] - sizes[first])
        stop = int(np.searchsorted(ends, n_before + room, side="right"))
        if stop <= first:
            # A node that does not fit is contiguous already.
            start = int(starts[first])
            yield cp.asnumpy(pool[start : start + int(sizes[first])]).copy()
            first += 1
            continue
        places = ends[first:stop] - sizes[first:stop] - n_before
        together = cp.empty(int(ends[stop - 1]) - n_before, cp.int32)
        copy_pieces(pool.view(cp.int32), starts[first:stop], sizes[first:stop], together, places)
        words = cp.asnumpy(together).view(np.uint32)
        for place, size in zip(places.tolist(), sizes[first:stop].tolist(), strict=True):
            yield words[place : place + size].copy()
        first = stop

"""Nodes and tasks that wait on the host, where the pool is too small for all that has been begun.

What is begun has to be ended before anything new is: then few nodes are enough. A task of a node needs room for a child
beside it, a root for its matrix and its node, and a pool has room for either (`memory_plan`), so each quantum brings
one of them to an end at least.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import cupy as cp
import numpy as np

from mbe_stage.device.arrays import upload
from mbe_stage.pq_counts.cuda import layout as at
from mbe_stage.pq_counts.cuda.layout import Device
from mbe_stage.pq_counts.cuda.memory_plan import MemoryPlan

__all__ = ["Waiting"]


@dataclass(slots=True, eq=False)
class _Node:
    """A node, and those of its children that a warp has taken and could not do."""

    fields: np.ndarray
    words: np.ndarray
    children: list[int]


@dataclass(slots=True, eq=False)
class Waiting:
    """What waits; false where nothing does."""

    _nodes: list[_Node] = field(default_factory=list)
    _roots: list[int] = field(default_factory=list)

    def __bool__(self) -> bool:
        """Whether anything waits."""
        return bool(self._nodes or self._roots)

    @property
    def n_nodes(self) -> int:
        """How many nodes wait."""
        return len(self._nodes)

    @property
    def n_words(self) -> int:
        """What they take of a pool."""
        return sum(_whole_lines(node.words.size) for node in self._nodes)

    def fetch(self, device: Device, live: np.ndarray, state: np.ndarray) -> None:
        """Take all nodes and tasks from the device.

        Parameters
        ----------
        device : Device
        live : (n,) integers
            The nodes that have children left or a task.
        state : (n_warps, STATE_FIELDS) int64, on the host
            Of the warps; no warp has a task afterwards.
        """
        fields, words = cp.asnumpy(device.nodes), cp.asnumpy(device.words)
        found = {}
        for number in live.tolist():
            start, n_words = fields[number, [at.OFFSET, at.WORDS]].tolist()
            found[number] = _Node(fields[number].copy(), words[start : start + n_words].copy(), [])
        self._nodes += found.values()
        for node, child in state[:, [at.PENDING_NODE, at.PENDING_CHILD]].tolist():
            if node == at.ROOT:
                self._roots.append(child)
            elif node >= 0:
                found[node].children.append(child)
        state[:, at.PENDING_NODE] = at.NOTHING

    def load(self, device: Device, plan: MemoryPlan, state: np.ndarray, control: np.ndarray) -> None:
        """Put as many on the device as leave half of it free: the smallest nodes, which end first; else some roots.

        Parameters
        ----------
        device : Device
            Nothing on it is kept.
        plan : MemoryPlan
        state : (n_warps, STATE_FIELDS) int64, on the host
            Changed: which warp begins with what.
        control : (CONTROL_WORDS,) int64, on the host
            Changed.
        """
        chosen, n_words = self._smallest(plan)
        tasks = [(number, child) for number, node in enumerate(chosen) for child in node.children]
        if not chosen:
            n_roots = min(plan.n_warps, plan.n_roots_at_once)
            tasks, self._roots = [(at.ROOT, root) for root in self._roots[:n_roots]], self._roots[n_roots:]
        for warp, task in enumerate(tasks):
            state[warp, [at.PENDING_NODE, at.PENDING_CHILD]] = task
        table, words = np.zeros((len(chosen), at.NODE_FIELDS), np.int64), np.zeros(n_words, np.uint32)
        place = 0
        for number, node in enumerate(chosen):
            table[number] = node.fields
            table[number, [at.OFFSET, at.LINK]] = place, at.ANYBODYS
            words[place : place + node.words.size] = node.words
            place += _whole_lines(node.words.size)
        device.nodes.fill(0)
        if chosen:
            upload(table, device.nodes[: len(chosen)])
            upload(words, device.words[:n_words])
        control[at.N_NODES], control[at.POOL_TOP] = len(chosen), n_words
        control[at.N_OPEN] = int((table[:, at.CURSOR] < table[:, at.END]).sum())

    def _smallest(self, plan: MemoryPlan) -> tuple[list[_Node], int]:
        """The nodes that are to be loaded, which wait no longer, and how many words of the pool they take."""
        self._nodes.sort(key=lambda node: node.words.size)
        n_words = n_tasks = n_chosen = 0
        for node in self._nodes:
            more_words, more_tasks = n_words + _whole_lines(node.words.size), n_tasks + len(node.children)
            is_full = 2 * more_words > plan.pool_words or more_tasks > plan.n_warps or 2 * n_chosen >= plan.n_nodes
            # A warp has one task, so those of one node are never more than there are warps.
            if is_full and n_chosen > 0:
                break
            n_words, n_tasks, n_chosen = more_words, more_tasks, n_chosen + 1
        chosen, self._nodes = self._nodes[:n_chosen], self._nodes[n_chosen:]
        return chosen, n_words


def _whole_lines(n: int) -> int:
    return -(-n // 32) * 32

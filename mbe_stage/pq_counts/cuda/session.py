"""One search on the device: its memory, its quanta, and the nodes and tasks that wait on the host between them.

Nodes and tasks wait on the host if the pool is too small for all begun work.

Begun work has to end before new work begins, so few nodes are enough. A task of a node needs room for the node and a
child, a root needs room for its matrix and its node. A pool has room for either (`memory_plan`), so each quantum
finishes at least one task.
"""

from __future__ import annotations

import heapq
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count

import cupy as cp
import numpy as np

from mbe_stage.device import whole_lines
from mbe_stage.device.arrays import upload
from mbe_stage.device.copying import copy_pieces
from mbe_stage.pq_counts.cuda import layout
from mbe_stage.pq_counts.cuda.kernels import kernel_for
from mbe_stage.pq_counts.cuda.layout import Device, Graph, Warps
from mbe_stage.pq_counts.cuda.leaf_table import leaves_in
from mbe_stage.pq_counts.cuda.memory_plan import KeyLayout, MemoryPlan
from mbe_stage.pq_counts.cuda.techniques import ALL_TECHNIQUES
from mbe_stage.search.cuda.saved_work import Arrays, nodes_of
from mbe_stage.search.cuda.session import KeptNodes, PoolSession


@dataclass(slots=True, eq=False)
class _PendingNode:
    """A node, and its children that warps took and could not finish."""

    fields: np.ndarray
    words: np.ndarray
    children: list[int]


@dataclass(slots=True, eq=False)
class PendingTasks:
    """The waiting nodes and roots; false if none wait."""

    # Heap: the node with the fewest words comes first; among equal nodes the earliest.
    _nodes: list[tuple[int, int, _PendingNode]] = field(default_factory=list)
    _roots: list[int] = field(default_factory=list)
    _order: Iterator[int] = field(default_factory=count)
    n_words: int = field(default=0, init=False)
    """Number of words of the waiting nodes in a pool."""

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
            The nodes with remaining children or a task.
        state : (n_warps, STATE_FIELDS) int64, on the host
            State of the warps; no warp has a task afterwards.
        """
        # The plan has room for half of the nodes twice.
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
            self._add(one)

    def take_roots(self, roots: np.ndarray) -> None:
        """Add waiting roots."""
        self._roots += roots.tolist()

    def take_saved(self, work: Arrays) -> None:
        """Add the nodes of saved work."""
        for fields in work["nodes"]:
            words = work["words"][fields[layout.OFFSET] :][: fields[layout.WORDS]]
            self._add(_PendingNode(fields, words, []))

    def _add(self, node: _PendingNode) -> None:
        self.n_words += whole_lines(node.words.size)
        heapq.heappush(self._nodes, (node.words.size, next(self._order), node))

    def load(self, device: Device, plan: MemoryPlan, state: np.ndarray, control: np.ndarray) -> None:
        """Load the smallest nodes, which end first, or else roots, so that half of the device's memory stays free.

        Parameters
        ----------
        device : Device
            Its contents are overwritten.
        state : (n_warps, STATE_FIELDS) int64, on the host
            State of the warps; the first task of each warp is changed.
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
        """Take the nodes to load from the heap; return them with the number of their words in the pool."""
        chosen: list[_PendingNode] = []
        n_words = n_tasks = 0
        while self._nodes:
            node = self._nodes[0][2]
            more_words, more_tasks = n_words + whole_lines(node.words.size), n_tasks + len(node.children)
            is_full = 2 * more_words > plan.pool_words or more_tasks > plan.n_warps or 2 * len(chosen) >= plan.n_nodes
            # Each warp has one task, so a node never has more tasks than there are warps.
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
        Position of each node's words, and their number.
    room : int
        Words of device memory available for copies.
    """
    ends = np.cumsum(sizes)
    first = 0
    while first < sizes.size:
        n_before = int(ends[first] - sizes[first])
        stop = int(np.searchsorted(ends, n_before + room, side="right"))
        if stop <= first:
            # A node that does not fit is copied alone, from its contiguous words.
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


@dataclass(frozen=True, slots=True, eq=False)
class Counted:
    """Numbers of leaves by signature, on the host; all (n,) int64."""

    held_rows: np.ndarray
    optional_rows: np.ndarray
    held_columns: np.ndarray
    optional_columns: np.ndarray
    times: np.ndarray


class Session(PoolSession):
    """Device memory of one search, and the quanta that work on it.

    Parameters
    ----------
    graph : Graph
        The graph with the wanted roots.
    size_bounds : tuple of int
        Fewest and most rows, fewest and most columns.
    keys : KeyLayout
    plan : MemoryPlan
    budget_bytes : int
        Limit for enlarging the pool; beyond it, nodes wait on the host.
    techniques : int
        `Techniques.kernel_mask`.
    """

    def __init__(
        self,
        graph: Graph,
        size_bounds: tuple[int, int, int, int],
        keys: KeyLayout,
        plan: MemoryPlan,
        budget_bytes: int,
        techniques: int = ALL_TECHNIQUES,
    ) -> None:
        super().__init__(graph, plan, budget_bytes, kernel_for(techniques), layout.CONTROL_WORDS)
        self._n_signatures = self._n_undone = self._n_done = self._n_waits = self._n_drains = 0
        self._waiting_seconds = 0.0
        self._n_fruitless, self._left = 0, (-1, -1, -1, -1)
        self._size_bounds, self._keys = size_bounds, keys
        self._form = keys
        n_warps, table = plan.n_warps, ((plan.n_slots,), np.int64)
        state, keys, times, counts = self._new_state(table, table, ((n_warps, plan.scratch_rows), np.int32))
        self._warps = Warps(
            counts,
            cp.empty((n_warps, plan.matrix_rows), cp.int32),
            cp.empty((n_warps, plan.scratch_words), cp.uint32),
            state,
        )
        self._device = Device(*self._new_pool(), keys, times, *self._new_words())
        self._drop_waiting()

    @property
    def statistics(self) -> dict[str, int]:
        """Statistics of the quanta, for benchmarks and tests."""
        return super().statistics | {
            "kinds": self._n_signatures,
            "drains": self._n_drains,
            "waits": self._n_waits,
            "waiting_us": round(1e6 * self._waiting_seconds),
        }

    def _settings(self) -> np.ndarray:
        settings, keys = self._plan.settings(layout.N_SETTINGS), self._keys
        settings[layout.FEWEST_ROWS : layout.MOST_COLUMNS + 1] = self._size_bounds
        numbers = keys.optional_rows, keys.held_columns, keys.optional_columns
        settings[layout.OPTIONAL_ROWS_AT : layout.OPTIONAL_COLUMNS_AT + 1] = numbers
        settings[layout.SLOT_LIMIT] = self._plan.slot_limit
        return settings

    def restart(self, roots: np.ndarray) -> None:
        """Restart as in `SearchSession.restart`."""
        super().restart(roots)
        # The last quantum's leaves are still in the table.
        self._device.keys.fill(0)
        self._device.times.fill(0)
        self._n_fruitless = 0
        self._drop_waiting()

    def saved(self, most_bytes: int) -> Arrays | None:
        """Copy the work in progress and the roots ahead to the host; None if it is too large, or if nodes wait there.

        Called between two quanta, after the leaves have been taken. The work continues here.
        """
        pending, children = cp.asnumpy(self._warps.state[:, [layout.PENDING_NODE, layout.PENDING_CHILD]]).T
        kept, ahead = KeptNodes(self._device.nodes, pending, self._plan.all_words), self.roots_ahead()
        n_bytes = 4 * (kept.n_words + ahead.size) + 8 * layout.NODE_FIELDS * (kept.n + pending.size)
        if self._waiting or n_bytes > most_bytes:
            return None
        is_child = pending >= 0
        tasks = np.stack([kept.numbers(pending[is_child]), children[is_child]], axis=1)
        roots = children[pending == layout.ROOT], self._undone_roots, ahead
        return {
            "order": np.concatenate(roots).astype(np.int32),
            "nodes": nodes_of(cp.asnumpy(kept.placed()), tasks),
            "words": kept.to_host(self._device.words, self._plan.moved_words),
        }

    def load(self, work: Arrays) -> None:
        """Begin with saved work, checked to fit this core; this session must have none in progress.

        Nodes without room on the device wait on the host.
        """
        self.restart(work["order"])
        # Kernels need a non-empty order, so one taken root stands for none.
        self._n_roots_before = self._n_wanted - max(1, work["order"].size)
        self._waiting.take_saved(work)
        plan = self._grown(self._waiting.n_words, self._waiting.n_nodes)
        self._replace_pool(plan)
        # A saved node has no task of a warp, so the state of the warps stays.
        self._waiting.load(self._device, plan, np.empty((0, layout.STATE_FIELDS)), self._control)

    def _drop_waiting(self) -> None:
        """Drop the nodes and roots that wait on the host."""
        self._waiting = PendingTasks()
        # While much of the pool is in use, no root begins; then roots that did not fit come first.
        self._is_draining, self._undone_roots = False, np.empty(0, np.int64)

    def quantum(self) -> Counted:
        """Run one quantum, and make room for the next; return the leaves."""
        n_roots = self._graph.order.size
        takes_roots = not self._waiting and not self._is_draining
        self._control[layout.NEXT_ROOT] = self.n_roots_taken if takes_roots else n_roots
        self._run(layout.RESERVED_SLOTS)
        if takes_roots:
            self.n_roots_taken = min(n_roots, int(self._control[layout.NEXT_ROOT]))
        is_short = int(self._control[layout.STATUS]) != 0
        goes_on = (is_short or not takes_roots or self._undone_roots.size > 0) and self._move_nodes()
        self.is_over = not goes_on
        return self._take_leaves(goes_on)

    def _take_leaves(self, goes_on: bool) -> Counted:
        """Return the contents of the table, and empty it if the search continues."""
        keys, times = leaves_in(self._device.keys, self._device.times)
        self._n_signatures += keys.size
        if goes_on:
            self._device.keys.fill(0)
            self._device.times.fill(0)
        return Counted(*self._keys.numbers(keys), times)

    def _move_nodes(self) -> bool:
        """Move open nodes together, in a larger pool if possible; otherwise let some wait on the host.

        Return False if no work remains, since the search ended together with the quantum.
        """
        state = cp.asnumpy(self._warps.state).copy()
        pending = state[:, layout.PENDING_NODE]
        kept = KeptNodes(self._device.nodes, pending, self._plan.all_words)
        n_pending = int((pending != layout.NOTHING).sum())
        n_left = kept.n + n_pending + self._undone_roots.size + len(self._waiting)
        if n_left == 0 and self.n_roots_taken == self._graph.order.size:
            return False
        self._check_progress(kept, n_pending)
        plan = self._grown(kept.n_words + self._waiting.n_words, kept.n + self._waiting.n_nodes)
        # Warps count an unfinished task each time they begin it.
        self._n_undone += n_pending
        n_done = int(state[:, [layout.N_WIDE_NODES, layout.N_VISITED]].sum()) - self._n_undone
        is_stuck = plan is self._plan and n_done <= self._n_done
        self._n_done = n_done
        # The first task of each warp needs room for two nodes.
        is_full = kept.n_words + 2 * plan.node_words > plan.pool_words or 2 * kept.n > plan.n_nodes
        if self._waiting or is_stuck or is_full:
            began = time.perf_counter()
            self._hand_back_roots(state, are_wanted=False)
            self._waiting.fetch(self._device, self._plan, cp.asnumpy(kept.live), state)
            self._waiting.take_roots(self._undone_roots)
            self._undone_roots, self._is_draining = self._undone_roots[:0], False
            self._replace_pool(plan)
            self._waiting.load(self._device, plan, state, self._control)
            self._n_waits += bool(self._waiting)
            self._waiting_seconds += time.perf_counter() - began
        else:
            self._move_together(kept, plan, plan.moved_words)
            state[:, layout.PENDING_NODE] = kept.numbers(pending)
            self._is_draining = 2 * kept.n_words > plan.pool_words
            self._n_drains += self._is_draining
            self._hand_back_roots(state, are_wanted=not self._is_draining)
        upload(state, self._warps.state)
        return True

    def _hand_back_roots(self, state: np.ndarray, *, are_wanted: bool) -> None:
        """Give warps the roots that did not fit, or take back the roots that could not begin.

        Parameters
        ----------
        state : (n_warps, STATE_FIELDS) int64, on the host
            Changed.
        are_wanted : bool
        """
        if are_wanted:
            free = np.flatnonzero(state[:, layout.PENDING_NODE] == layout.NOTHING)[: self._undone_roots.size]
            state[free, layout.PENDING_NODE] = layout.ROOT
            state[free, layout.PENDING_CHILD] = self._undone_roots[: free.size]
            self._undone_roots = self._undone_roots[free.size :]
            return
        begun = state[:, layout.PENDING_NODE] == layout.ROOT
        self._undone_roots = np.concatenate([self._undone_roots, state[begun, layout.PENDING_CHILD]])
        state[begun, layout.PENDING_NODE] = layout.NOTHING

    def _check_progress(self, kept: KeptNodes, n_pending: int) -> None:
        """Guarantee progress when a quantum ends because the leaf table is full.

        Parameters
        ----------
        kept : KeptNodes
        n_pending : int
            Number of tasks that warps began and could not finish.

        Raises
        ------
        RuntimeError
            Two such quanta in succession found no leaf and finished no task: the planned table is too small.
        """
        # The time may also be over; then idle warps end the quantum.
        if not int(self._control[layout.STATUS]) & layout.SLOTS_SHORT or bool(self._device.keys.any()):
            self._n_fruitless = 0
            return
        n_children = int((kept.fields[:, layout.END] - kept.fields[:, layout.CURSOR]).sum())
        left = self.n_roots_taken, n_pending, n_children, len(self._waiting) + self._undone_roots.size
        self._n_fruitless = self._n_fruitless + 1 if left == self._left else 1
        self._left = left
        if self._n_fruitless > 1:
            raise RuntimeError(
                f"two quanta in turn found no leaf and did no task: the leaf table has {self._plan.n_slots:,} "
                f"places for {self._plan.n_warps:,} warps, and some task needs more. The plan of the memory is wrong: "
                "please report this, with the graph's sizes; the engine cpu counts the same"
            )

    def _grown(self, n_words: int, n_nodes: int) -> MemoryPlan:
        """Return the plan, enlarged within the budget if live nodes and requests would take more than half.

        Parameters
        ----------
        n_words, n_nodes : int
            Number of words, and of nodes with remaining children.
        """
        n_wanted = n_words + int(self._control[layout.NEEDED]) + self._plan.node_words
        plan: MemoryPlan = self._plan.with_room(n_wanted, n_nodes, self._control)
        # The words of all nodes are copied while both pools exist.
        taken = plan.total_bytes + 4 * max(0, n_words - plan.moved_words)
        return plan if taken <= self._budget else self._plan

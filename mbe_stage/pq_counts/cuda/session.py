"""One search on the device: its memory, its time quanta, and room made between them."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

import cupy as cp
import numpy as np

from mbe_stage.device.arrays import kernel_bundles, upload
from mbe_stage.device.copying import copy_pieces
from mbe_stage.device.grid import THREADS, on_grid
from mbe_stage.errors import MemoryBudgetExceeded
from mbe_stage.pq_counts.cuda import layout as at
from mbe_stage.pq_counts.cuda.kernels import kernel_for
from mbe_stage.pq_counts.cuda.layout import Device, Graph, Warps
from mbe_stage.pq_counts.cuda.memory_plan import KeyLayout, MemoryPlan
from mbe_stage.pq_counts.cuda.techniques import ALL_TECHNIQUES

__all__ = ["Counted", "Session"]


@dataclass(frozen=True, slots=True, eq=False)
class Counted:
    """Leaves by kind, on the host; all (n,) int64."""

    held_rows: np.ndarray
    optional_rows: np.ndarray
    held_columns: np.ndarray
    optional_columns: np.ndarray
    times: np.ndarray


class Session:
    """Device memory of one search, and the quanta that work on it.

    Parameters
    ----------
    graph : Graph
        With the roots that are wanted.
    asked : tuple of int
        Fewest and most rows, fewest and most columns.
    keys : KeyLayout
    plan : MemoryPlan
    budget_bytes : int
        What growing may not exceed.
    techniques : int
        `Techniques.kernel_mask`.

    Attributes
    ----------
    n_quanta : int
    n_roots_taken : int
    """

    def __init__(
        self,
        graph: Graph,
        asked: tuple[int, int, int, int],
        keys: KeyLayout,
        plan: MemoryPlan,
        budget_bytes: int,
        techniques: int = ALL_TECHNIQUES,
    ) -> None:
        self.n_quanta = self.n_roots_taken = self._n_kinds = 0
        self._seconds = 0.0
        self._graph, self._asked, self._keys, self._plan, self._budget = graph, asked, keys, plan, budget_bytes
        self._kernel = kernel_for(techniques)
        n_warps = plan.n_warps
        state = cp.zeros((n_warps, at.STATE_FIELDS), cp.int64)
        state[:, at.PENDING_NODE] = at.NOTHING
        self._warps = Warps(
            cp.zeros((n_warps, plan.scratch_rows), cp.int32),
            cp.empty((n_warps, plan.scratch_rows), cp.int32),
            cp.empty((n_warps, plan.scratch_words), cp.uint32),
            state,
        )
        self._device = Device(
            cp.empty(self._all_words(plan), cp.uint32),
            cp.zeros((self._all_nodes(plan), at.NODE_FIELDS), cp.int64),
            cp.zeros(plan.n_kinds, cp.int64),
            cp.zeros(plan.n_kinds, cp.int64),
            cp.zeros(at.CONTROL_WORDS, cp.int64),
            cp.asarray(self._settings()),
        )
        self._control = np.zeros(at.CONTROL_WORDS, np.int64)

    @property
    def statistics(self) -> dict[str, int]:
        """What the quanta did, for benchmarks and tests."""
        control = self._control
        totals = cp.asnumpy(self._warps.state.sum(axis=0))
        return {
            "visited": int(totals[at.N_VISITED]),
            "pieces": int(totals[at.N_PIECES]),
            "idle_ns": int(totals[at.IDLE_NS]),
            "piece_ns": int(totals[at.PIECE_NS]),
            "kernel_us": round(1e6 * self._seconds),
            "kinds": self._n_kinds,
            "quanta": self.n_quanta,
            "nodes": int(control[at.N_NODES]),
            "pool_words": int(control[at.POOL_TOP]),
            "warps": self._plan.n_warps,
            "plan_bytes": self._plan.total_bytes,
        }

    def quantum(self) -> tuple[bool, Counted]:
        """Work for a while; whether the search is over, and the leaves found."""
        kernel, device = self._kernel, self._device
        for word in (at.STATUS, at.LOW_NODE, at.N_IDLE, at.CREDITS, at.NEEDED):
            self._control[word] = 0
        upload(self._control, device.control)
        began = time.perf_counter()
        on_grid(kernel, self._plan.n_blocks, THREADS)(*kernel_bundles(kernel, self._graph, self._warps, device))
        self._control = cp.asnumpy(device.control).copy()
        self._seconds += time.perf_counter() - began
        self.n_quanta += 1
        self.n_roots_taken = min(int(self._graph.order.size), int(self._control[at.NEXT_ROOT]))
        is_over = int(self._control[at.STATUS]) == 0
        counted = self._take_leaves()
        return is_over or not self._make_room(), counted

    def _settings(self) -> np.ndarray:
        plan, keys = self._plan, self._keys
        settings = np.empty(at.N_SETTINGS, np.int64)
        settings[at.FEWEST_ROWS : at.MOST_COLUMNS + 1] = self._asked
        settings[at.OPTIONAL_ROWS_AT : at.OPTIONAL_COLUMNS_AT + 1] = (
            keys.optional_rows,
            keys.held_columns,
            keys.optional_columns,
        )
        settings[at.NARROW] = plan.narrow
        settings[at.POOL_LIMIT], settings[at.NODE_LIMIT] = plan.pool_words, plan.n_nodes
        settings[at.CREDIT_LIMIT] = plan.credit_limit
        settings[at.QUANTUM_NS] = int(plan.quantum_seconds * 1e9)
        settings[at.MOST_LEVELS] = plan.levels
        return settings

    def _take_leaves(self) -> Counted:
        """What the table holds; it is empty afterwards."""
        places = cp.flatnonzero(self._device.keys)
        self._n_kinds += int(places.size)
        keys, times = cp.asnumpy(cp.stack([self._device.keys[places], self._device.times[places]]))
        if self._control[at.STATUS] != 0:
            self._device.keys.fill(0)
            self._device.times.fill(0)
        first, second, third = self._keys.optional_rows, self._keys.held_columns, self._keys.optional_columns
        return Counted(
            keys & ((1 << first) - 1),
            keys >> first & ((1 << (second - first)) - 1),
            keys >> second & ((1 << (third - second)) - 1),
            keys >> third,
            times,
        )

    def _make_room(self) -> bool:
        """Move the nodes that have children left into a new pool, which is large enough for what was short.

        False where nothing is left to do: the time of the quantum was over when the search was.
        """
        device, old = self._device, self._plan
        pending = cp.asnumpy(self._warps.state).copy()
        waiting = pending[:, at.PENDING_NODE]
        is_live = device.nodes[:, at.CURSOR] < device.nodes[:, at.END]
        is_live[cp.asarray(waiting[waiting >= 0])] = True
        live = cp.flatnonzero(is_live)
        if live.size == 0 and (waiting == at.NOTHING).all() and self.n_roots_taken == self._graph.order.size:
            return False
        nodes = device.nodes[live]
        sizes = cp.asnumpy(nodes[:, at.WORDS]).astype(np.int64)
        starts = cp.asnumpy(nodes[:, at.OFFSET]).astype(np.int64)
        ends = np.cumsum(-(-sizes // 32) * 32)
        plan = self._with_room(int(ends[-1]) if ends.size else 0, int(sizes.size))
        words = cp.empty(self._all_words(plan), cp.uint32)
        places = ends - -(-sizes // 32) * 32
        copy_pieces(device.words.view(cp.int32), starts, sizes, words.view(cp.int32), places)
        table = device.nodes if plan.n_nodes == old.n_nodes else None
        nodes[:, at.OFFSET] = cp.asarray(places)
        nodes[:, at.LINK] = at.ANYBODYS
        if table is None:
            table = cp.empty((self._all_nodes(plan), at.NODE_FIELDS), cp.int64)
        table.fill(0)
        table[: sizes.size] = nodes
        numbers = np.full(is_live.size, -1, np.int64)
        numbers[cp.asnumpy(live)] = np.arange(sizes.size)
        pending[waiting >= 0, at.PENDING_NODE] = numbers[waiting[waiting >= 0]]
        upload(pending, self._warps.state)
        n_open = int((nodes[:, at.CURSOR] < nodes[:, at.END]).sum())
        self._control[at.N_NODES], self._control[at.N_OPEN] = sizes.size, n_open
        self._control[at.POOL_TOP] = int(ends[-1]) if ends.size else 0
        self._plan = plan
        self._device = device._replace(words=words, nodes=table, settings=cp.asarray(self._settings()))
        return True

    def _with_room(self, n_words: int, n_nodes: int) -> MemoryPlan:
        """The plan, grown where the live nodes and what was short would take more than half of the room.

        Raises
        ------
        MemoryBudgetExceeded
            That does not fit the budget, with the old pool beside the new one.
        """
        plan = self._plan
        wanted = 2 * (n_words + int(self._control[at.NEEDED]))
        if wanted > plan.pool_words:
            plan = replace(plan, pool_words=-(-max(wanted, 2 * plan.pool_words) // 32) * 32)
        if 2 * n_nodes > plan.n_nodes or int(self._control[at.N_NODES]) > plan.n_nodes:
            plan = replace(plan, n_nodes=2 * max(n_nodes, plan.n_nodes))
        needed = plan.total_bytes + 4 * self._all_words(self._plan)
        if needed > self._budget:
            raise MemoryBudgetExceeded(
                f"counting needs {needed:,} bytes of device memory to go on, its budget is {self._budget:,}: "
                "raise it (device_memory_bytes), or use the engine cpu",
                needed_bytes=needed,
            )
        return plan

    @staticmethod
    def _all_words(plan: MemoryPlan) -> int:
        return plan.pool_words + plan.n_warps * at.MATRIX_WORDS

    @staticmethod
    def _all_nodes(plan: MemoryPlan) -> int:
        return plan.n_nodes + plan.n_warps * plan.levels

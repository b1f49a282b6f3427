"""One run on the device: its memory, its slices, and making room where a slice ran out of it."""

from __future__ import annotations

from dataclasses import dataclass, replace

import cupy as cp
import numpy as np
from numba import cuda

from mbe_stage.bicliques.cuda import layout as at
from mbe_stage.bicliques.cuda.kernels import KERNELS
from mbe_stage.bicliques.cuda.plan import MemoryPlan, whole_lines
from mbe_stage.bicliques.cuda.prepare import DeviceGraph
from mbe_stage.errors import MemoryBudgetExceeded

__all__ = ["Found", "Session"]

_THREADS = at.WARPS_PER_BLOCK * at.WARP_SIZE


@dataclass(frozen=True, slots=True)
class Found:
    """What a slice wrote, on the device, in ids of the reduced graph; columns are the left side.

    Attributes
    ----------
    starts : (n,) int64
        Where each biclique's members begin in `members`, left ones first.
    left_sizes, right_sizes : (n,) int32
        Members in `MEMBERS` mode, vertices of the user's graph in `SIZES` mode.
    members : int32 or None
    """

    starts: cp.ndarray
    left_sizes: cp.ndarray
    right_sizes: cp.ndarray
    members: cp.ndarray


class Session:
    """Device memory of one run, and the slices that work on it.

    Parameters
    ----------
    graph : DeviceGraph
    limits : (6,) int64
        As in `layout.Pool`.
    mode : int
    plan : MemoryPlan
    budget_bytes : int
        What growing may not exceed.
    """

    def __init__(self, graph: DeviceGraph, limits: np.ndarray, mode: int, plan: MemoryPlan, budget_bytes: int) -> None:
        self.plan = plan
        self.mode = mode
        self._budget_bytes = budget_bytes
        self._n_roots = graph.facts.n_rows
        self._control = cp.zeros(at.CONTROL_FIELDS, cp.int32)
        self._wide_control = cp.zeros(at.WIDE_CONTROL_FIELDS, cp.int64)
        self._pool = self._new_pool(graph, limits)
        self._warps = self._new_warps()
        self._output = self._new_output()
        self._arguments: tuple | None = None
        self.status = 0

    def _new_pool(self, graph: DeviceGraph, limits: np.ndarray) -> at.Pool:
        facts = graph.facts
        ints = cp.empty(self.plan.pool, cp.int32)
        parts = (
            cp.arange(facts.n_columns, dtype=cp.int32),
            cp.arange(facts.n_rows, dtype=cp.int32),
            graph.row_offsets,
            graph.column_offsets,
            graph.row_members,
            graph.column_members,
        )
        cp.concatenate(parts, out=ints[: sum(part.size for part in parts)])
        nodes = cp.zeros((self.plan.nodes, at.NODE_FIELDS), cp.int64)
        fields = np.zeros(at.NODE_FIELDS, np.int64)
        fields[[at.NODE_COLUMNS, at.NODE_ROWS, at.NODE_EDGES, at.NODE_END]] = (
            facts.n_columns,
            facts.n_rows,
            facts.n_edges,
            facts.n_rows,
        )
        nodes[0] = cp.asarray(fields)
        self._control[at.N_NODES] = 1
        self._control[at.N_OPEN] = 1
        self._wide_control[at.POOL_TOP] = facts.pool_ints
        weights = graph.weights() if self.mode > at.COUNTS else (cp.zeros(1, cp.int32),) * 2
        return at.Pool(
            ints=ints,
            nodes=nodes,
            cursors=cp.zeros(self.plan.nodes, cp.int32),
            order=graph.order,
            row_weights=weights[0],
            column_weights=weights[1],
            limits=cp.asarray(limits),
        )

    def _new_warps(self) -> at.Warps:
        plan = self.plan
        n = plan.n_warps
        n_rows, n_columns = whole_lines(plan.n_rows), whole_lines(plan.max_row_degree)
        state = cp.zeros((n, at.STATE_FIELDS), cp.int64)
        state[:, at.DEPTH] = -1
        state[:, at.PENDING_NODE] = -1
        return at.Warps(
            words=cp.empty((n, plan.words), cp.uint64),
            ints=cp.empty((n, plan.words + at.WORD_BITS), cp.int32),
            frames=cp.empty((n, at.MAX_DEPTH, at.FRAME_FIELDS), cp.int64),
            state=state,
            own_nodes=cp.empty((n, at.MAX_OWN_NODES), cp.int32),
            bits=cp.zeros((n, n_rows), cp.uint64),
            counts=cp.zeros((n, n_rows), cp.int32),
            touched=cp.empty((n, n_rows), cp.int32),
            columns=cp.empty((n, n_columns), cp.int32),
            idle_mask=cp.zeros((n + 31) // 32, cp.uint32),
            mailbox=cp.zeros(n, cp.int32),
        )

    def _new_output(self) -> at.Output:
        plan = self.plan
        return at.Output(
            members=cp.empty(max(1, plan.members), cp.int32),
            starts=cp.empty(max(1, plan.descriptors), cp.int64),
            left_sizes=cp.empty(max(1, plan.descriptors), cp.int32),
            right_sizes=cp.empty(max(1, plan.descriptors), cp.int32),
        )

    def run_slice(self) -> bool:
        """Work for a slice's time; True when the tree is done. What was written before must have been taken."""
        self._control[at.SIGNAL] = 0
        self._control[at.STATUS] = 0
        self._control[at.N_BUSY] = self.plan.n_warps
        self._wide_control[at.MEMBERS_TOP : at.NEEDED_MEMBERS + 1] = 0
        self._wide_control[at.SLICE_NS] = int(self.plan.slice_seconds * 1e9)
        self._wide_control[at.CHUNK_MEMBERS] = self.plan.chunk_members
        self._warps.idle_mask[:] = 0
        self._warps.mailbox[:] = 0
        self._output.left_sizes[:] = 0
        if self._arguments is None:
            bundles = (self._pool, self._warps, self._output)
            self._arguments = (
                *(type(bundle)(*map(cuda.as_cuda_array, bundle)) for bundle in bundles),
                cuda.as_cuda_array(self._control),
                cuda.as_cuda_array(self._wide_control),
            )
        KERNELS[self.mode][self.plan.n_blocks, _THREADS](*self._arguments)
        cuda.synchronize()
        self.status = int(self._control[at.STATUS])
        if self.status:
            self._make_room()
        return self.status == 0

    def _make_room(self) -> None:
        needs = cp.asnumpy(self._wide_control)
        if self.status & at.WORDS_SHORT:
            self._grow_words(int(needs[at.NEEDED_WORDS]))
        if self.status & (at.POOL_FULL | at.NODES_FULL):
            self._compact_pool(int(needs[at.NEEDED_POOL]))

    def enlarge_output(self) -> None:
        """Room for the single biclique that did not fit; what was written must have been taken."""
        needed = int(self._wide_control[at.NEEDED_MEMBERS])
        if needed > self.plan.members:
            self.plan = self._afford(replace(self.plan, members=needed))
            self._output = self._output._replace(members=cp.empty(needed, cp.int32))
            self._arguments = None

    def _afford(self, plan: MemoryPlan) -> MemoryPlan:
        if plan.total_bytes > self._budget_bytes:
            raise MemoryBudgetExceeded(
                f"the CUDA engine needs {plan.total_bytes:,} bytes of device memory, its budget is "
                f"{self._budget_bytes:,}: raise the memory budget, or use minimum sizes, which shrink the graph"
            )
        return plan

    def _grow_words(self, needed: int) -> None:
        old = self.plan.words
        self.plan = self._afford(replace(self.plan, words=whole_lines(max(needed, old + old // 2))))
        words = cp.empty((self.plan.n_warps, self.plan.words), cp.uint64)
        words[:, :old] = self._warps.words
        ints = cp.empty((self.plan.n_warps, self.plan.words + at.WORD_BITS), cp.int32)
        ints[:, : old + at.WORD_BITS] = self._warps.ints
        self._warps = self._warps._replace(words=words, ints=ints)
        self._arguments = None

    def _compact_pool(self, needed: int) -> None:
        """Drop the sparse nodes that are done; enlarge the pool where that does not free half of it."""
        n_nodes = min(int(self._control[at.N_NODES]), self.plan.nodes)
        nodes = cp.asnumpy(self._pool.nodes[:n_nodes])
        cursors = cp.asnumpy(self._pool.cursors[:n_nodes])
        state = cp.asnumpy(self._warps.state)
        pending = state[:, at.PENDING_NODE]
        is_open = cursors < nodes[:, at.NODE_END]
        live = is_open.copy()
        live[pending[pending >= 0]] = True
        live[0] = True
        kept = np.flatnonzero(live)
        fields = nodes[kept]
        sizes = (
            2 * fields[:, at.NODE_COLUMNS]
            + 2 * fields[:, at.NODE_ROWS]
            + 2
            + 2 * fields[:, at.NODE_EDGES]
            + fields[:, at.NODE_PATH]
        )
        sizes = -(-sizes // at.ALIGNMENT) * at.ALIGNMENT
        bases = np.cumsum(sizes) - sizes
        used = int(sizes.sum())
        plan = self.plan
        if used + needed > plan.pool // 2:
            plan = replace(plan, pool=max(2 * plan.pool, 2 * (used + needed)))
        if 2 * kept.size > plan.nodes:
            plan = replace(plan, nodes=2 * plan.nodes)
        self.plan = self._afford(plan)
        ints = cp.empty(plan.pool, cp.int32)
        for base, size, old in zip(bases.tolist(), sizes.tolist(), fields[:, at.NODE_BASE].tolist(), strict=True):
            ints[base : base + size] = self._pool.ints[old : old + size]
        fields[:, at.NODE_BASE] = bases
        new_nodes = np.zeros((plan.nodes, at.NODE_FIELDS), np.int64)
        new_nodes[: kept.size] = fields
        new_cursors = np.zeros(plan.nodes, np.int32)
        new_cursors[: kept.size] = cursors[kept]
        numbers = np.cumsum(live) - 1
        state[pending >= 0, at.PENDING_NODE] = numbers[pending[pending >= 0]]
        state[:, at.N_OWN] = 0
        self._pool = self._pool._replace(ints=ints, nodes=cp.asarray(new_nodes), cursors=cp.asarray(new_cursors))
        self._warps.state[:] = cp.asarray(state)
        self._control[at.N_NODES] = kept.size
        self._control[at.LOW_NODE] = 0
        self._control[at.N_OPEN] = int(is_open.sum())
        self._wide_control[at.POOL_TOP] = used
        self._arguments = None

    def take_count(self) -> int:
        """Bicliques found since this was last asked."""
        found = int(self._warps.state[:, at.FOUND].sum())
        self._warps.state[:, at.FOUND] = 0
        return found

    def take_found(self) -> Found:
        """What the last slice wrote."""
        top = min(int(self._wide_control[at.DESCRIPTORS_TOP]), self.plan.descriptors)
        written = cp.flatnonzero(self._output.left_sizes[:top])
        return Found(
            starts=self._output.starts[written],
            left_sizes=self._output.left_sizes[written],
            right_sizes=self._output.right_sizes[written],
            members=self._output.members,
        )

    def roots_taken(self) -> int:
        """How many of the roots have been started, in their order."""
        return min(int(self._pool.cursors[0]), self._n_roots)

    def statistics(self) -> dict[str, float]:
        """What the warps did, for benchmarks."""
        state = cp.asnumpy(self._warps.state)
        busy, idle = float(state[:, at.BUSY_NS].sum()), float(state[:, at.IDLE_NS].sum())
        return {
            "kernel_ms": float((state[:, at.BUSY_NS] + state[:, at.IDLE_NS]).max()) / 1e6,
            "busiest_ms": float(state[:, at.BUSY_NS].max()) / 1e6,
            "busy_ratio": busy / max(1.0, busy + idle),
            "opened": int(state[:, at.N_OPENED].sum()),
            "families": int(state[:, at.N_FAMILIES].sum()),
            "wide": int(state[:, at.N_WIDE].sum()),
            "given": int(state[:, at.N_GIVEN].sum()),
        }

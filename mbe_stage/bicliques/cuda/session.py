"""One run on the device: its memory, its slices, and making room where a slice ran out of it."""

from __future__ import annotations

from dataclasses import replace

import cupy as cp
import numpy as np

from mbe_stage.bicliques.cuda import layout as at
from mbe_stage.bicliques.cuda.control import Control
from mbe_stage.bicliques.cuda.device import kernel_bundles, kernel_views, zeroed_beside
from mbe_stage.bicliques.cuda.grid import THREADS
from mbe_stage.bicliques.cuda.growth import copy_nodes_block_per_node, copy_stacks_block_per_warp
from mbe_stage.bicliques.cuda.kernels import kernel_for
from mbe_stage.bicliques.cuda.parking import COUNTERS, SCRATCH, ParkedStack, park, resume, warps_to_keep
from mbe_stage.bicliques.cuda.plan import MemoryPlan, blocks_that_fit, check_growth, whole_lines
from mbe_stage.bicliques.cuda.prepare import DeviceGraph
from mbe_stage.bicliques.cuda.techniques import ALL_TECHNIQUES

__all__ = ["Session"]


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
    techniques : int
        What the kernel makes use of: `Techniques.kernel_mask`.
    """

    def __init__(
        self,
        graph: DeviceGraph,
        limits: np.ndarray,
        mode: int,
        plan: MemoryPlan,
        budget_bytes: int,
        techniques: int = ALL_TECHNIQUES,
    ) -> None:
        self.plan = plan
        self.mode = mode
        self._kernel = kernel_for(mode, techniques)
        self.status = 0
        self.n_slices = 0
        self._budget_bytes = budget_bytes
        self._n_roots = graph.facts.n_rows
        self._control = Control(plan.n_warps, graph.facts.pool_ints, limits)
        # Scratch of hundreds of megabytes is zeroed while the graph is being written.
        self._warps = self._new_warps()
        with zeroed_beside(self._warps.bits, self._warps.counts):
            self._pool = self._new_pool(graph)
        self._output = self._new_output()
        self._arguments: tuple | None = None
        self._n_taken = 0
        self._parked: list[ParkedStack] = []
        # Where in the arenas each warp's stack stands.
        self._sources = cp.arange(plan.n_warps)

    def _new_pool(self, graph: DeviceGraph) -> at.Pool:
        plan = self.plan
        ints = cp.empty(plan.pool, cp.int32)
        nodes = cp.zeros((plan.nodes, at.NODE_FIELDS), cp.int64)
        self._roots = graph.write(ints, nodes, plan.n_blocks)
        no_weights = cp.empty(1, cp.int32)
        row_weights, column_weights = graph.weights() if self.mode > at.COUNTS else (no_weights, no_weights)
        return at.Pool(
            ints=ints,
            nodes=nodes,
            cursors=cp.zeros(plan.nodes, cp.int32),
            order=self._roots.order,
            row_weights=row_weights,
            column_weights=column_weights,
            limits=self._control.limits,
        )

    def _new_warps(self) -> at.Warps:
        plan = self.plan
        n = plan.n_warps
        n_rows, n_columns = whole_lines(plan.n_rows), whole_lines(plan.max_row_degree)
        state = cp.zeros((n, at.STATE_FIELDS), cp.int64)
        state[:, at.DEPTH] = -1
        state[:, at.PENDING_NODE] = -1
        ints = cp.empty((n, plan.words + at.WORD_BITS), cp.int32)
        if self.mode > at.COUNTS:
            # A task that is given takes the whole header along, whether columns stand behind its bits or not.
            ints[:, : at.HEADER_IDS] = 0
        return at.Warps(
            words=cp.empty((n, plan.words), cp.uint32),
            ints=ints,
            frames=cp.empty((n, at.MAX_DEPTH, at.FRAME_FIELDS), cp.int32),
            state=state,
            own_nodes=cp.empty((n, at.MAX_OWN_NODES), cp.int32),
            bits=cp.empty((n, n_rows), cp.uint32),
            counts=cp.empty((n, n_rows), cp.int32),
            touched=cp.empty((n, n_rows), cp.int32),
            columns=cp.empty((n, n_columns), cp.int32),
            idle_mask=self._control.idle_mask,
            mailbox=self._control.mailbox,
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
        if self.mode > at.COUNTS:
            self._output.left_sizes.fill(0)
        self._control.begin(self.plan)
        if self._arguments is None:
            self._arguments = (
                *kernel_bundles(self._kernel, self._pool, self._warps, self._output),
                *kernel_views(self._control.fields, self._control.wide_fields),
            )
        self._kernel[self.plan.n_blocks, THREADS](*self._arguments)
        self._control.finish(self._warps.state[:, at.FOUND])
        self.n_slices += 1
        self.status = int(self._control.host[at.STATUS])
        if self.status == 0 and self._parked:
            resume(self._parked, self._warps)
            return False
        if self.status & at.WORDS_SHORT:
            self._grow_words(int(self._control.wide_host[at.NEEDED_WORDS]))
        if self.status & (at.POOL_FULL | at.NODES_FULL):
            self._compact_pool(int(self._control.wide_host[at.NEEDED_POOL]))
        return self.status == 0

    def enlarge_output(self) -> None:
        """Room for the single biclique that did not fit; what was written must have been taken."""
        needed = int(self._control.wide_host[at.NEEDED_MEMBERS])
        if needed > self.plan.members:
            self.plan = self._afford(replace(self.plan, members=needed), 4 * self.plan.members)
            self._output = self._output._replace(members=cp.empty(needed, cp.int32))
            self._arguments = None

    def _afford(self, plan: MemoryPlan, replaced_bytes: int) -> MemoryPlan:
        return check_growth(plan, replaced_bytes, self._budget_bytes)

    def _grow_words(self, needed: int) -> None:
        """Larger arenas for all warps; where they do not fit, for fewer warps, and the stacks of the others wait."""
        old = self.plan.words
        grown = replace(self.plan, words=whole_lines(max(needed, old + old // 2)))
        held = self._warps.words.nbytes + self._warps.ints.nbytes + sum(stack.nbytes for stack in self._parked)
        state = cp.asnumpy(self._warps.state)
        n_pending = int((state[:, at.PENDING_NODE] >= 0).sum())
        n_blocks = max(blocks_that_fit(grown, held, self._budget_bytes), -(-n_pending // at.WARPS_PER_BLOCK))
        self.plan = self._afford(replace(grown, n_blocks=n_blocks), held)
        if n_blocks < grown.n_blocks:
            self._keep_warps(state)
        warps = self._warps
        words = cp.empty((self.plan.n_warps, self.plan.words), warps.words.dtype)
        ints = cp.empty((self.plan.n_warps, self.plan.words + at.WORD_BITS), cp.int32)
        copied = (warps.state, warps.frames, self._sources, warps.words, warps.ints, words, ints)
        copy_stacks_block_per_warp[self.plan.n_warps, THREADS](*kernel_views(*copied), self.mode > at.COUNTS)
        self._warps = warps._replace(words=words, ints=ints)
        self._sources = cp.arange(self.plan.n_warps)
        self._arguments = None

    def _keep_warps(self, state: np.ndarray) -> None:
        """Leave as many warps as are planned. Their numbers are new; their arenas stand where they were."""
        n, old = self.plan.n_warps, self._warps
        kept = warps_to_keep(state, n)
        left_out = np.setdiff1d(np.arange(len(state)), kept)
        self._parked += park(old, state, left_out, self.mode > at.COUNTS)
        self._sources = cp.asarray(kept)
        new_state = old.state[kept]
        for counter in COUNTERS:
            new_state[0, counter] += int(state[left_out, counter].sum())
        # Nodes of their own are found by all: by those who had them and by the others.
        new_state[:, at.N_OWN] = 0
        # Scratch is all zero between two slices. What there was is let go before the smaller one is taken.
        shapes = {name: ((n, getattr(old, name).shape[1]), getattr(old, name).dtype) for name in SCRATCH}
        self._warps = old._replace(state=new_state, frames=old.frames[kept], **dict.fromkeys(SCRATCH))
        del old
        self._warps = self._warps._replace(**{name: cp.zeros(*shape) for name, shape in shapes.items()})

    def _compact_pool(self, needed: int) -> None:
        """Keep the nodes that have children left or are being visited, in a pool that is large enough to leave half of
        it free."""
        n_nodes = min(int(self._control.host[at.N_NODES]), self.plan.nodes)
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
        fields[:, at.NODE_IS_OWNED] = 0
        sizes = fields[:, at.NODE_SIZE].copy()
        room = -(-sizes // at.ALIGNMENT) * at.ALIGNMENT
        old_bases = fields[:, at.NODE_BASE].copy()
        fields[:, at.NODE_BASE] = np.cumsum(room) - room
        used = int(room.sum())
        plan = self.plan
        if used + needed > plan.pool // 2:
            plan = replace(plan, pool=max(2 * plan.pool, 2 * (used + needed)))
        if 2 * kept.size > plan.nodes:
            plan = replace(plan, nodes=2 * plan.nodes)
        self.plan = self._afford(plan, self.plan.pool_bytes)
        ints = cp.empty(plan.pool, cp.int32)
        moved = [cp.asarray(values) for values in (old_bases, sizes, fields[:, at.NODE_BASE].copy())]
        copy_nodes_block_per_node[kept.size, THREADS](
            *kernel_views(self._pool.ints, moved[0], moved[1], ints, moved[2])
        )
        new_nodes = cp.zeros((plan.nodes, at.NODE_FIELDS), cp.int64)
        new_nodes[: kept.size] = cp.asarray(fields)
        new_cursors = cp.zeros(plan.nodes, cp.int32)
        new_cursors[: kept.size] = cp.asarray(cursors[kept])
        numbers = np.cumsum(live) - 1
        state[pending >= 0, at.PENDING_NODE] = numbers[pending[pending >= 0]]
        state[:, at.N_OWN] = 0
        self._warps.state[:] = cp.asarray(state)
        self._pool = self._pool._replace(ints=ints, nodes=new_nodes, cursors=new_cursors)
        self._control.host[at.N_NODES] = kept.size
        self._control.host[at.LOW_NODE] = 0
        self._control.host[at.N_OPEN] = int(is_open.sum())
        self._control.wide_host[at.POOL_TOP] = used
        self._arguments = None

    def take_count(self) -> int:
        """Bicliques found since this was last asked."""
        new = self._control.n_found - self._n_taken
        self._n_taken = self._control.n_found
        return new

    def take_found(self) -> at.Output:
        """What the last slice wrote, in ids of the reduced graph; columns are the left side.

        These are the buffers themselves, as far as warps have taken them: unused slots have left size 0.
        """
        n_slots = min(int(self._control.wide_host[at.DESCRIPTORS_TOP]), self.plan.descriptors)
        starts, left_sizes, right_sizes = (
            each[:n_slots] for each in (self._output.starts, self._output.left_sizes, self._output.right_sizes)
        )
        return at.Output(self._output.members, starts, left_sizes, right_sizes)

    def take_sizes(self) -> tuple[cp.ndarray, cp.ndarray]:
        """Left and right sizes that the last slice wrote, in `SIZES` mode: the user's vertices, (n,) int32 each."""
        found = self.take_found()
        written = cp.flatnonzero(found.left_sizes)
        return found.left_sizes[written], found.right_sizes[written]

    def work_done(self) -> float:
        """Share of the expected work that lies below the roots that have been started."""
        return self._roots.work_before(min(int(self._pool.cursors[0]), self._n_roots))

    def statistics(self) -> dict[str, float]:
        """What the warps did, for benchmarks."""
        state = cp.asnumpy(self._warps.state)
        busy, idle = float(state[:, at.BUSY_NS].sum()), float(state[:, at.IDLE_NS].sum())
        return {
            "slices": self.n_slices,
            "kernel_ms": float((state[:, at.BUSY_NS] + state[:, at.IDLE_NS]).max()) / 1e6,
            "busiest_ms": float(state[:, at.BUSY_NS].max()) / 1e6,
            "busy_ratio": busy / max(1.0, busy + idle),
            "opened": int(state[:, at.N_OPENED].sum()),
            "families": int(state[:, at.N_FAMILIES].sum()),
            "wide": int(state[:, at.N_WIDE].sum()),
            "given": int(state[:, at.N_GIVEN].sum()),
        }

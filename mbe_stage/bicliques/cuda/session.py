"""One run on the device: its time quanta, replanning when a quantum runs out of memory, and its work saved."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import replace

import cupy as cp
import numpy as np

from mbe_stage.bicliques.constraints import MIN_EDGES
from mbe_stage.bicliques.cuda import layout, saved_work
from mbe_stage.bicliques.cuda.device_memory import Control, new_scratch, new_warps, scratch_of, slots_of
from mbe_stage.bicliques.cuda.kernels import THREADS, walking_kernel
from mbe_stage.bicliques.cuda.memory_plan import MemoryPlan, check_growth, with_larger_arenas, with_space_in_pool
from mbe_stage.bicliques.cuda.pool_compaction import LiveNodes, filled, live_nodes, move, moved_out, put_in, table_of
from mbe_stage.bicliques.cuda.prepare import DeviceGraph
from mbe_stage.bicliques.cuda.prepare_on_host import HostGraph
from mbe_stage.bicliques.cuda.techniques import ALL_TECHNIQUES
from mbe_stage.bicliques.cuda.work_handover import (
    Capacity,
    SuspendedTasks,
    WorkTransfer,
    give_nodes,
    give_tasks,
    mark_owned,
    of_this_device,
    own_renumbered,
    put_nodes,
    resume,
    state_without_tasks,
    suspend,
    task_bytes,
)
from mbe_stage.device.arrays import WordsBeside, wait_for_device, zeroed_beside
from mbe_stage.device.launch import launch_blocks
from mbe_stage.errors import MemoryBudgetExceeded
from mbe_stage.search.cuda.plan import does_not_fit
from mbe_stage.search.cuda.saved_work import Arrays
from mbe_stage.search.cuda.shared import DeviceProgress

_STOPPED_BY_HOST = layout.STOP_BIT + (1 << 20)
"""A warp that resumes decrements the idle count, so the stop bit must stay above it."""
_MUCH_OF_THE_WORK = 0.25
"""Share of the expected work in roots that have not begun, above which only roots are transferred."""
_SLOTS_PER_EDGE, _CHUNKS_PER_WARP = 64, 4
"""Slots of the first output. Once it is full, it gets all planned ones."""
_REHEARSED: set[tuple[str, int]] = set()
"""Devices and modes for which this process has loaded the code of transfers."""


class Session:
    """Device memory of one run, and the quanta that work on it.

    Parameters
    ----------
    constraints : (6,) int64
        As in `layout.Pool`.
    budget_bytes : int
        Limit for growing.
    techniques : int
        Techniques of the kernel: `Techniques.kernel_mask`.
    rows : integers, optional
        The roots to search, at least one; by default all.
    """

    def __init__(
        self,
        graph: DeviceGraph | HostGraph,
        constraints: np.ndarray,
        mode: int,
        plan: MemoryPlan,
        budget_bytes: int,
        techniques: int = ALL_TECHNIQUES,
        rows: np.ndarray | None = None,
    ) -> None:
        self.plan = plan
        self.mode = mode
        self._kernel = walking_kernel(mode, techniques)
        self.status = 0
        self.n_quanta = 0
        self._budget_bytes = budget_bytes
        self._whole_graph_ints = graph.facts.pool_ints
        self._constraints = constraints
        self._control = Control(plan.n_warps, self._whole_graph_ints)
        self._warps = new_warps(plan, self._control, new_scratch(plan))
        # Zero the scratch, hundreds of megabytes, while the graph is written.
        with zeroed_beside(self._warps.bits, self._warps.counts):
            self._pool = self._new_pool(graph, rows)
        # All slots are cleared for each quantum; more than a small graph needs would take longer than its search.
        n_first = max(_SLOTS_PER_EDGE * graph.facts.n_edges, _CHUNKS_PER_WARP * layout.CHUNK_DESCRIPTORS * plan.n_warps)
        members = cp.empty(max(1, plan.members), cp.int32)
        self._output = layout.Output(members, **slots_of(min(plan.descriptors, n_first)))
        self._n_taken = 0
        self._suspended: list[SuspendedTasks] = []
        # Stopping a quantum and starting the next exclude each other.
        self._starting = threading.Lock()
        self._stop_words: WordsBeside | None = None
        self._is_stopped = False
        # A session that has not worked has nothing to drop.
        self._has_worked = False

    def _new_pool(self, graph: DeviceGraph | HostGraph, rows: np.ndarray | None) -> layout.Pool:
        plan = self.plan
        ints = cp.empty(plan.pool, cp.int32)
        nodes, cursors = cp.zeros((plan.nodes, layout.NODE_FIELDS), cp.int64), cp.zeros(plan.nodes, cp.int32)
        self._roots = graph.write(ints, nodes)
        # Any short array will do where columns are not sorted.
        prefixes = self._control.fields_64[:1]
        if isinstance(graph, DeviceGraph) and graph.facts.is_sorted:
            prefixes = graph.sorted_columns(ints)
        if layout.COUNT < self.mode < layout.MEMBERS:
            graph.write_sizes(ints)
        if rows is not None:
            self._roots = self._roots.only(rows)
            nodes[0, layout.NODE_END] = self._roots.n
        no_multiplicities = cp.empty(1, cp.int32)
        row_multiplicities, column_multiplicities = (
            graph.multiplicities() if self.mode > layout.COUNT else (no_multiplicities, no_multiplicities)
        )
        return layout.Pool(
            ints=ints,
            nodes=nodes,
            cursors=cursors,
            order=self._roots.order,
            row_multiplicities=row_multiplicities,
            column_multiplicities=column_multiplicities,
            constraints=tuple(self._constraints.tolist()),
            prefixes=prefixes,
        )

    def start_quantum(self) -> None:
        """Enqueue work for a quantum. Earlier output must have been taken."""
        self._has_worked = True
        if self.mode >= layout.SIZES:
            self._output.left_sizes.fill(0)
        if self.mode == layout.SIZES:
            # `take_sizes` copies what no warp has written, too.
            self._output.right_sizes.fill(0)
        with self._starting:
            self._is_stopped = False
            self._control.begin(self.plan)
        arguments = (self._pool, self._warps, self._output, self._control.fields, self._control.fields_64)
        launch_blocks(self._kernel, self.plan.n_blocks, THREADS, *arguments)

    def let_stop(self) -> None:
        """Make quanta that `stop_soon` can end."""
        words = {layout.STATUS: layout.TIME_OVER, layout.SIGNAL: _STOPPED_BY_HOST}
        self._stop_words = WordsBeside(self._control.fields, words)

    def stop_soon(self) -> None:
        """End the running quantum early; from any thread. Between two quanta it does nothing."""
        assert self._stop_words is not None
        with self._starting:
            self._is_stopped = True
            self._stop_words.write()

    def finish_quantum(self) -> bool:
        """Wait for the quantum, and make room if something was short; True when the tree is done."""
        if self._stop_words is not None:
            # A thread that stops it uses the same driver.
            wait_for_device()
        self._control.finish()
        self.n_quanta += 1
        self.status = int(self._control.host[layout.STATUS])
        if self.status == 0 and self._is_stopped:
            # One of the words that stop it may have come too late.
            self.status = layout.TIME_OVER
        if self.status == 0 and self._suspended:
            self._suspended = resume(self._suspended, self._warps)
            return False
        if self.status & layout.WORDS_SHORT:
            self._replan_arenas(int(self._control.host_64[layout.NEEDED_WORDS]))
        if self.status & (layout.POOL_FULL | layout.NODES_FULL):
            self._replan_pool(int(self._control.host_64[layout.NEEDED_POOL]))
        return self.status == 0

    def require_edges(self, n: int) -> None:
        """Raise the fewest edges between two quanta, unless a warp has written a part of a list and counts the rest."""
        if not self._suspended and not self._warps.state[:, layout.EMITTED].any():
            self._constraints[MIN_EDGES] = max(self._constraints[MIN_EDGES], n)
            self._pool = self._pool._replace(constraints=tuple(self._constraints.tolist()))

    def make_room(self) -> None:
        """Make room for all planned bicliques, and for a single one that did not fit. The output must be taken."""
        if self._output.starts.size < self.plan.descriptors:
            # Freed before the others are allocated.
            self._output = self._output._replace(starts=None, left_sizes=None, right_sizes=None)
            self._output = self._output._replace(**slots_of(self.plan.descriptors))
        needed = int(self._control.host_64[layout.NEEDED_MEMBERS])
        if needed > self.plan.members:
            self.plan = check_growth(replace(self.plan, members=needed), 4 * self.plan.members, self._budget_bytes)
            self._output = self._output._replace(members=cp.empty(needed, cp.int32))

    def _replan_arenas(self, needed: int) -> None:
        """Enlarge the arenas of all warps. If they do not fit, use fewer warps; the tasks of the others wait."""
        state = cp.asnumpy(self._warps.state)
        self._arrange_warps(with_larger_arenas(self.plan, needed, self._task_bytes(state), self._budget_bytes), state)

    def _replan_pool(self, needed: int, n_more: int = 0) -> None:
        """Keep only nodes that have children left or are being visited.

        If that is not enough, the pool is enlarged; if that does not fit, there are fewer warps.

        Parameters
        ----------
        needed, n_more : int
            Entries of the nodes that will come, and their number if it is known.
        """
        n_nodes, state = self._n_nodes, cp.asnumpy(self._warps.state)
        pending = [state[:, layout.PENDING_NODE], *(tasks.pending_nodes for tasks in self._suspended)]
        fields, cursors = self._pool.nodes[:n_nodes, : layout.NODE_SIZE + 1], self._pool.cursors[:n_nodes]
        live = live_nodes(cp.asnumpy(fields), cp.asnumpy(cursors), np.concatenate(pending), self.mode)
        held = self._task_bytes(state)
        n_live = live.numbers.size + n_more
        plan = with_space_in_pool(self.plan, live.used, needed, n_live, held, self._budget_bytes)
        if plan.n_blocks < self.plan.n_blocks:
            self._arrange_warps(replace(self.plan, n_blocks=plan.n_blocks), state)
        if plan.pool == self._pool.ints.size:
            live = filled(live, plan.pool, needed) or live
        self._move_nodes(live, plan)
        self._pool = table_of(self._pool, live, n_nodes, plan.nodes)
        self._renumber(live.new_numbers(n_nodes))
        self.plan = plan
        self._control.host[layout.N_NODES] = live.numbers.size
        self._control.host[layout.LOW_NODE] = 0
        self._control.host[layout.N_OPEN] = live.n_open
        self._control.host_64[layout.POOL_TOP] = live.used

    def _task_bytes(self, state: np.ndarray) -> int:
        """Bytes of all tasks while no warp holds them."""
        waiting = sum(tasks.nbytes for tasks in self._suspended)
        return waiting + task_bytes(self._warps, state, self.mode > layout.COUNT)

    def _arrange_warps(self, plan: MemoryPlan, state: np.ndarray) -> None:
        """Allocate warps and arenas as planned.

        The warps resume the tasks in progress, as far as these suffice.
        """
        suspended = suspend(self._warps, state, self.mode > layout.COUNT)
        own_nodes = self._warps.own_nodes[: plan.n_warps].copy()
        # Free the arenas before allocating others. Scratch is all zero between two quanta.
        scratch = scratch_of(self._warps) if plan.n_blocks == self.plan.n_blocks else None
        del self._warps
        self.plan = plan
        self._warps = new_warps(plan, self._control, scratch or new_scratch(plan))
        if scratch is None:
            self._warps.bits.fill(0)
            self._warps.counts.fill(0)
        self._warps.own_nodes[:] = own_nodes
        self._warps.state[:] = cp.asarray(state_without_tasks(state, plan.n_warps))
        mark_owned(self._warps, self._pool.nodes)
        self._suspended = resume([suspended, *self._suspended], self._warps)

    def _move_nodes(self, live: LiveNodes, plan: MemoryPlan) -> None:
        """Move the live nodes to their places in a pool of the planned size."""
        pool = self._pool
        if plan.pool == pool.ints.size:
            spare = self._budget_bytes - plan.total_bytes - sum(tasks.nbytes for tasks in self._suspended)
            move(pool.ints, live, spare // 4)
            return
        copy = moved_out(pool.ints, live)
        # Freed before the larger one is allocated.
        self._pool = pool = pool._replace(ints=None)
        ints = cp.empty(plan.pool, cp.int32)
        put_in(copy, live, ints)
        self._pool = pool._replace(ints=ints)

    def _renumber(self, numbers: np.ndarray) -> None:
        """Renumber nodes wherever a node is referenced."""
        for tasks in self._suspended:
            tasks.pending_nodes[:] = numbers[tasks.pending_nodes]
        d_numbers = cp.asarray(numbers)
        state = self._warps.state
        state[:, layout.PENDING_NODE] = d_numbers[state[:, layout.PENDING_NODE]]
        own_renumbered(self._warps, d_numbers)

    def roots_ahead(self) -> np.ndarray:
        """Roots that no warp has taken, in order; (n,) int32, on the host."""
        return cp.asnumpy(self._roots.order[self._n_roots_taken() :])

    def paths_of(self, rows: np.ndarray) -> np.ndarray:
        """Two-step paths from some rows; (n,) int64, on the host."""
        return cp.asnumpy(self._roots.paths[cp.asarray(rows)])

    def all_paths(self) -> np.ndarray:
        """Two-step paths from every row; (n_rows,) int64, on the host."""
        return cp.asnumpy(self._roots.paths)

    def replace_roots(self, rows: np.ndarray) -> None:
        """Begin these rows, in this order, instead of those ahead; between two quanta."""
        n_taken, n_before = self._n_roots_taken(), self._roots.n
        self._roots = self._roots.followed_by(n_taken, rows)
        # Without roots, the whole graph is a node with one child, already taken: a node without an end would count as
        # one that is being written.
        order = self._roots.order if rows.size else cp.zeros(1, cp.int32)
        self._pool.nodes[0, layout.NODE_END] = order.size
        self._pool.cursors[0] = order.size - rows.size
        self._pool = self._pool._replace(order=order)
        self._control.host[layout.N_OPEN] += (rows.size > 0) - (n_taken < n_before)
        self._control.host[layout.LOW_NODE] = 0

    def restart(self, rows: np.ndarray) -> None:
        """Drop the work in progress, and begin with these roots; statistics stay."""
        if self._has_worked:
            self._pool.nodes[1 : self._n_nodes] = 0
            self._pool.cursors[1 : self._n_nodes] = 0
            self._control.host_64[layout.POOL_TOP] = self._whole_graph_ints
            self._control.host[layout.N_NODES] = 1
            self._control.host[layout.N_OPEN] = self._n_roots_taken() < self._roots.n
            self._warps.state[:] = cp.asarray(state_without_tasks(cp.asnumpy(self._warps.state), self.plan.n_warps))
            self._warps.state[:, layout.N_OWN] = 0
            self._suspended = []
        self.replace_roots(rows)

    @property
    def capacity(self) -> Capacity:
        """Capacity for work of another device once nothing is in progress here."""
        return Capacity(
            ints=(self.plan.pool - self._whole_graph_ints) // 2,
            nodes=(self.plan.nodes - 1) // 2,
            tasks=self.plan.n_warps,
            words=self.plan.words,
            ids=self.plan.ints,
        )

    def split(self, capacities: Sequence[Capacity]) -> list[WorkTransfer]:
        """Hand over a share of the work in progress or ahead to each of some others.

        Only roots, if they are much of the work; otherwise nodes of the pool and tasks, too. Waiting tasks stay. Called
        between two quanta.
        """
        n = len(capacities) + 1
        rows = self.roots_ahead()
        if rows.size > 1:
            self.replace_roots(rows[::n])
        transfers = [WorkTransfer(rows[k::n]) for k in range(1, n)]
        if self._roots.share_of(rows) < _MUCH_OF_THE_WORK:
            state = cp.asnumpy(self._warps.state)
            spare = self._budget_bytes - self.plan.total_bytes - self._task_bytes(state)
            # Half of the memory: transfers stay until they are copied, and memory may be replanned by then.
            n_closed = give_nodes(self._pool, self._n_nodes, capacities, spare // 8, transfers, self.mode)
            self._control.host[layout.N_OPEN] -= n_closed
            give_tasks(self._warps, state, self.mode > layout.COUNT, capacities, transfers)
            # Other devices copy them without waiting for the queue of this one.
            wait_for_device()
        return transfers

    def take_in(self, transfer: WorkTransfer) -> None:
        """Begin with work from another device; this one has none in progress."""
        self.restart(transfer.rows)
        self._has_worked = True
        n = put_nodes(transfer, self._pool, 1, self._whole_graph_ints)
        self._control.host[layout.N_NODES] += n
        self._control.host[layout.N_OPEN] += n
        self._control.host_64[layout.POOL_TOP] += transfer.n_ints
        if transfer.tasks is not None:
            self._suspended = resume([of_this_device(transfer.tasks)], self._warps)

    def saved(self, most_bytes: int) -> Arrays | None:
        """Copy the work in progress and the roots ahead to the host (`saved_work`); None if it is too large.

        Called between two quanta, when the output is taken. The work continues here.
        """
        order = self.roots_ahead()
        most_bytes -= order.nbytes
        work = saved_work.saved(self._pool, self._n_nodes, self._warps, self._suspended, self.mode, most_bytes)
        return None if work is None else work | {"order": order}

    def load(self, work: Arrays) -> None:
        """Begin with saved work, checked to be of this graph and mode; this session has none in progress.

        Raises
        ------
        MemoryBudgetExceeded
            It does not fit.
        """
        order, begun = work["order"], saved_work.roots_of(work)
        self.restart(order)
        self._has_worked = True
        paths = self._roots.paths
        before, ahead = (float(paths[cp.asarray(rows)].sum()) for rows in (begun, order))
        self._roots = replace(self._roots, begun_before=before, total=before + ahead)
        n, n_ints = len(work["nodes"]), saved_work.pool_ints_of(work)
        try:
            if saved_work.words_of(work) > self.plan.words:
                self._replan_arenas(saved_work.words_of(work))
            if self._whole_graph_ints + n_ints > self.plan.pool or n + 1 > self.plan.nodes:
                self._replan_pool(n_ints, n)
        except MemoryBudgetExceeded as refusal:
            raise does_not_fit(refusal, self._budget_bytes) from None
        saved_work.load_nodes(work, self._pool, self._whole_graph_ints, self.mode)
        self._control.host[layout.N_NODES] += n
        self._control.host[layout.N_OPEN] += int((work["cursors"] < work["nodes"][:, layout.NODE_END]).sum())
        self._control.host_64[layout.POOL_TOP] += n_ints
        self._suspended = resume([saved_work.tasks_of(work)], self._warps)

    def rehearse(self) -> None:
        """Transfer made-up work to itself, to load all code for it; `restart` drops it.

        The first time takes tenths of a second if CuPy has to compile, and other devices would wait. The code stays
        loaded.
        """
        key = str(self._pool.ints.device), self.mode
        if key in _REHEARSED:
            return
        fields, none = np.zeros((1, layout.NODE_FIELDS), np.int64), np.empty(0, np.int32)
        fields[0, [layout.NODE_SIZE, layout.NODE_END, layout.NODE_IDS]] = layout.ALIGNMENT, layout.ALIGNMENT, 1
        self.take_in(WorkTransfer(none, fields, np.zeros(1, np.int32), cp.zeros(layout.ALIGNMENT, cp.int32)))
        self._warps.state[:2, layout.DEPTH] = 0
        self._warps.frames[:2, 0, layout.WORDS_TOP] = self._warps.frames[:2, 0, layout.INTS_TOP] = layout.ALIGNMENT
        (transfer,) = self.split([self.capacity])
        self.take_in(transfer)
        _REHEARSED.add(key)

    def progress(self) -> DeviceProgress:
        """Progress, and the remaining work."""
        n_stacks = int((self._warps.state[:, layout.DEPTH] >= 0).sum()) + sum(map(len, self._suspended))
        ahead = float(self._roots.paths[self._roots.order[self._n_roots_taken() :]].sum())
        n_open = int(self._control.host[layout.N_OPEN])
        # There may be millions of nodes below few roots.
        unfinished = cp.asnumpy(cp.unique(self._unfinished()))
        return DeviceProgress(self.begun(), unfinished, (ahead, n_open, n_stacks))

    def begun(self) -> float:
        """Two-step paths of the begun roots."""
        return self._roots.paths_begun(self._n_roots_taken())

    @property
    def _n_nodes(self) -> int:
        """Nodes of the pool in use."""
        return min(int(self._control.host[layout.N_NODES]), self.plan.nodes)

    def _n_roots_taken(self) -> int:
        return min(int(self._pool.cursors[0]), self._roots.n)

    def take_count(self) -> int:
        """Bicliques found since the last call."""
        new = self._control.n_found - self._n_taken
        self._n_taken = self._control.n_found
        return new

    @property
    def found(self) -> layout.Output:
        """Return the output of a quantum, in the reduced graph's ids; columns are left. Unused slots have size 0."""
        return self._output

    @property
    def taken(self) -> cp.ndarray:
        """(1,) int64 on the device: number of slots taken by the quantum. A number above the slots means all."""
        return self._control.fields_64[layout.DESCRIPTORS_TOP : layout.DESCRIPTORS_TOP + 1]

    @property
    def n_slots(self) -> int:
        """Number of slots taken by the last quantum."""
        return min(int(self._control.host_64[layout.DESCRIPTORS_TOP]), self.plan.descriptors, self._output.starts.size)

    def take_sizes(self) -> tuple[np.ndarray, np.ndarray]:
        """Return left and right sizes written by the last quantum in `SIZES` mode, (n,) int32 each, by user's vertices.

        They are copied to the host with the unused slots, which takes no memory on the device.
        """
        left, right = (cp.asnumpy(each[: self.n_slots]) for each in (self._output.left_sizes, self._output.right_sizes))
        return left[left > 0], right[left > 0]

    def work_done(self) -> float:
        """Share of the expected work below finished roots."""
        return self._roots.work_done(self._n_roots_taken(), self._unfinished())

    def _unfinished(self) -> cp.ndarray:
        """Roots with work left below them, some several times."""
        state = self._warps.state
        is_task = (state[:, layout.DEPTH] >= 0) | (state[:, layout.PENDING_NODE] >= 0)
        nodes, cursors = self._pool.nodes[1 : self._n_nodes], self._pool.cursors[1 : self._n_nodes]
        unfinished = [
            state[is_task, layout.ROOT],
            nodes[cursors < nodes[:, layout.NODE_END], layout.NODE_ROOT],
            *(cp.asarray(tasks.roots) for tasks in self._suspended),
        ]
        return cp.concatenate(unfinished)

    def statistics(self) -> dict[str, float]:
        """Statistics of the warps, for benchmarks.

        ``busy_ratio`` is the share of time that thread blocks were busy, as published for cuMBE (thesis, equation 6.1).
        A block is busy while one of its warps is. ``busy_warps`` is the same for warps, which is stricter.
        """
        state = cp.asnumpy(self._warps.state)
        busy, idle = float(state[:, layout.BUSY_NS].sum()), float(state[:, layout.IDLE_NS].sum())
        of_blocks = (busy + idle) / layout.WALKING_WARPS_PER_BLOCK
        idle_blocks = float(state[:, layout.BLOCK_IDLE_NS].sum())
        return {
            "quanta": self.n_quanta,
            "kernel_ms": float((state[:, layout.BUSY_NS] + state[:, layout.IDLE_NS]).max()) / 1e6,
            "busiest_ms": float(state[:, layout.BUSY_NS].max()) / 1e6,
            "busy_ratio": 1.0 - idle_blocks / max(1.0, of_blocks),
            "busy_warps": busy / max(1.0, busy + idle),
            "opened": int(state[:, layout.N_OPENED].sum()),
            "closed_sets": int(state[:, layout.N_CLOSED_SETS].sum()),
            "list_children": int(state[:, layout.N_LISTS].sum()),
            "donated": int(state[:, layout.N_DONATED].sum()),
        }

"""One search on the device: its memory, its time quanta, and room made between them."""

from __future__ import annotations

from dataclasses import replace

import cupy as cp
import numpy as np

from mbe_stage.cliques.cuda import layout as at
from mbe_stage.cliques.cuda.kernels import kernel_for
from mbe_stage.cliques.cuda.layout import Device, Output, Warps
from mbe_stage.cliques.cuda.memory_plan import MemoryPlan
from mbe_stage.cliques.cuda.prepare import DeviceGraph
from mbe_stage.cliques.cuda.progress import unfinished_roots
from mbe_stage.cliques.cuda.techniques import ALL_TECHNIQUES, SUB_WARPS
from mbe_stage.device.arrays import kernel_bundles, upload
from mbe_stage.device.grid import THREADS, on_grid
from mbe_stage.device.kept_nodes import KeptNodes
from mbe_stage.errors import MemoryBudgetExceeded

__all__ = ["Session"]


class Session:
    """Device memory of one search, and the quanta that work on it.

    Parameters
    ----------
    prepared : DeviceGraph
        With the roots that are wanted.
    mode : int
        `layout.COUNT`, `SIZES` or `MEMBERS`.
    size_limits : tuple of int
        Fewest and most members, below 2^31.
    plan : MemoryPlan
    budget_bytes : int
        What growing may not exceed.
    techniques : int
        `Techniques.kernel_mask`.

    Attributes
    ----------
    n_quanta : int
    is_over : bool
    """

    def __init__(
        self,
        prepared: DeviceGraph,
        mode: int,
        size_limits: tuple[int, int],
        plan: MemoryPlan,
        budget_bytes: int,
        techniques: int = ALL_TECHNIQUES,
    ) -> None:
        self.n_quanta = 0
        self.is_over = False
        self._nanoseconds = self._n_found = self._n_written = self._n_roots_done = 0
        self._is_written = mode == at.MEMBERS
        self._graph, self._size_limits, self._plan, self._budget = prepared.lists, size_limits, plan, budget_bytes
        self._n_wanted, self._n_roots_before = int(self._graph.order.size), 0
        # Small roots fit any frame, but those that a test makes narrower.
        n_small = prepared.n_small if techniques & SUB_WARPS and plan.narrow >= at.SMALL_ROOT else 0
        self._n_large = self._n_wanted - n_small
        self._n_large_held, self._holds_back = 0, False
        self._kernel = kernel_for(mode, techniques)
        n_warps = plan.n_warps
        state = cp.zeros((n_warps, at.STATE_FIELDS), cp.int64)
        state[:, at.PENDING_NODE] = at.NOTHING
        self._warps = Warps(
            cp.empty((n_warps, plan.scratch_columns), cp.int32),
            cp.empty((n_warps, plan.scratch_rows), cp.int32),
            cp.empty((n_warps, plan.scratch_words), cp.uint32),
            cp.empty((n_warps, plan.scratch_words), cp.uint32),
            cp.zeros((n_warps, plan.histogram), cp.int64),
            cp.empty((n_warps, plan.page_members), cp.int32),
            cp.empty((n_warps, plan.page_cliques), cp.int32),
            state,
        )
        self._device = Device(
            cp.empty(plan.all_words, cp.uint32),
            cp.zeros((plan.all_nodes, at.NODE_FIELDS), cp.int64),
            cp.zeros(at.CONTROL_WORDS, cp.int64),
            cp.asarray(self._settings()),
        )
        self._output = Output(cp.empty(plan.members, cp.int32), cp.empty(plan.cliques, cp.int32))
        self._control = np.zeros(at.CONTROL_WORDS, np.int64)

    @property
    def statistics(self) -> dict[str, int]:
        """What the quanta did, for benchmarks and tests."""
        state = cp.asnumpy(self._warps.state)
        totals, busy = state.sum(axis=0), state[:, at.BUSY_NS]
        return {
            "visited": int(totals[at.N_VISITED]),
            "pieces": int(totals[at.N_PIECES]),
            "idle_ns": int(totals[at.IDLE_NS]),
            "busy_ns": int(totals[at.BUSY_NS]),
            "least_busy_ns": int(busy.min()),
            "median_busy_ns": int(np.median(busy)),
            "most_busy_ns": int(busy.max()),
            "piece_ns": int(totals[at.PIECE_NS]),
            "kernel_us": self._nanoseconds // 1000,
            "quanta": self.n_quanta,
            "nodes": int(self._control[at.N_NODES]),
            "pool_words": int(self._control[at.POOL_TOP]),
            "warps": self._plan.n_warps,
            "roots": self._n_wanted,
            "roots_done": self._n_roots_before + self._n_roots_done,
            "plan_bytes": self._plan.total_bytes,
        }

    @property
    def share(self) -> float:
        """Of the roots, which are finished."""
        return (self._n_roots_before + self._n_roots_done) / self._n_wanted if self._n_wanted else 1.0

    def quantum(self) -> bool:
        """Work for a while; whether the search is over. What was found before is forgotten.

        Raises
        ------
        RuntimeError
            More or fewer cliques were written than found.
        """
        control = self._control
        for word in (at.STATUS, at.LOW_NODE, at.N_IDLE, at.NEEDED, at.FOUND, at.OUTPUT_TOP, at.OUTPUT_NEEDED):
            control[word] = 0
        control[at.OUTPUT_END] = control[at.BEGAN] = at.NEVER
        control[at.ENDED] = 0
        upload(control, self._device.control)
        on_grid(self._kernel, self._plan.n_blocks, THREADS)(
            *kernel_bundles(self._kernel, self._graph, self._warps, self._device, self._output)
        )
        self._control = cp.asnumpy(self._device.control).copy()
        self._nanoseconds += int(self._control[at.ENDED] - self._control[at.BEGAN])
        self.n_quanta += 1
        self._n_found += self.n_found
        self._n_written += self._written_end >> at.CLIQUES_SHIFT
        if int(self._control[at.STATUS]) != 0:
            self._look_at_what_is_left()
            return False
        self.is_over = True
        self._n_roots_done = int(self._graph.order.size)
        self._check_all_is_written()
        return True

    def _look_at_what_is_left(self) -> None:
        """Find the nodes that are kept for the next quantum, and how many roots are finished."""
        self._state = cp.asnumpy(self._warps.state).copy()
        pending = self._state[:, [at.PENDING_NODE, at.PENDING_CHILD]]
        self._kept = KeptNodes(self._device.nodes, pending[:, 0])
        n_left = unfinished_roots(self._kept.fields, self._device.words, pending, self._graph.order)
        self._n_roots_done = self._n_begun - n_left

    @property
    def _n_turns(self) -> int:
        """How often warps take roots: large ones one by one."""
        n_small = int(self._graph.order.size) - self._n_large
        return self._n_large + -(-n_small // at.ROOTS_AT_ONCE)

    @property
    def _n_begun(self) -> int:
        """Roots that warps have taken."""
        n_turns = min(self._n_turns, int(self._control[at.NEXT_ROOT]))
        n_begun = min(n_turns, self._n_large) + at.ROOTS_AT_ONCE * max(0, n_turns - self._n_large)
        return min(n_begun, int(self._graph.order.size))

    def later_neighbours(self) -> np.ndarray:
        """How many each vertex has; (n,) int64, on the host."""
        return cp.asnumpy(self._graph.later_ends - self._graph.offsets[:-1])

    def roots_ahead(self) -> np.ndarray | None:
        """The vertices that no warp has taken as roots, in the order in which they are to be; (n,) int32, on the host.

        None where there are none. Between two quanta.
        """
        n_begun = self._n_begun
        return cp.asnumpy(self._graph.order[n_begun:]) if n_begun < self._graph.order.size else None

    def replace_roots(self, vertices: np.ndarray) -> None:
        """Have some of the roots ahead begun, in their order, and hold the others back; between two quanta.

        What has been taken stays where it is: tasks of small roots are called by their places.
        """
        n_begun = self._n_begun
        large_ahead = cp.asnumpy(self._graph.order[n_begun : max(n_begun, self._n_large)])
        # Of those ahead the large ones come first, and small ones are taken in whole turns.
        self._n_large_held = large_ahead.size - int(np.isin(vertices, large_ahead).sum())
        order = cp.concatenate([self._graph.order[:n_begun], cp.asarray(vertices, cp.int32)])
        self._set_roots(order, self._n_large - self._n_large_held)
        self._holds_back = True

    def restart(self, vertices: np.ndarray) -> None:
        """Begin with the roots that were held back, in their order; the search of all others is over.

        Cliques that were counted stay so.
        """
        self._n_roots_before += int(self._graph.order.size)
        self._n_roots_done = 0
        self._set_roots(cp.asarray(vertices, cp.int32), self._n_large_held)
        self.is_over = self._holds_back = False
        for word in (at.NEXT_ROOT, at.N_NODES, at.POOL_TOP, at.N_OPEN):
            self._control[word] = 0
        # A node that has no end is taken for one that is being written.
        self._device.nodes.fill(0)

    def _set_roots(self, order: cp.ndarray, n_large: int) -> None:
        """Have these in the place of all roots, so many large ones first."""
        self._graph, self._n_large = self._graph._replace(order=order), n_large
        self._device = self._device._replace(settings=cp.asarray(self._settings()))

    @property
    def n_found(self) -> int:
        """Cliques that the last quantum found."""
        return int(self._control[at.FOUND])

    def take_histogram(self) -> np.ndarray:
        """How many cliques of each size were found since this was asked last, int64."""
        counts = cp.asnumpy(self._warps.histogram.sum(axis=0))
        self._warps.histogram.fill(0)
        return counts

    def written(self) -> tuple[cp.ndarray, cp.ndarray]:
        """The cliques that the last quantum wrote: their sizes, and their members; views, until the next one."""
        end = self._written_end
        n_members = end & at.MEMBERS_MASK
        return self._output.sizes[: end >> at.CLIQUES_SHIFT], self._output.members[:n_members]

    @property
    def is_output_kept(self) -> bool:
        """Whether `written` may be kept as it is: nothing is written there any more, and most of the room is used."""
        return self.is_over and not self._holds_back and 2 * self.written()[1].size >= self._output.members.size

    @property
    def _written_end(self) -> int:
        """Cliques and members that the last quantum wrote, as in `OUTPUT_TOP`."""
        return min(int(self._control[at.OUTPUT_TOP]), int(self._control[at.OUTPUT_END]))

    def _check_all_is_written(self) -> None:
        """At the end, when all pages are empty."""
        if self._is_written and self._n_written != self._n_found:
            raise RuntimeError(
                f"{self._n_found:,} cliques were found and {self._n_written:,} written, an error of the CUDA engine: "
                "use the engine cpu, and please report this with the graph"
            )

    def make_room(self) -> bool:
        """After a quantum that ended early: new room for what was short. False where nothing is left to do.

        Raises
        ------
        MemoryBudgetExceeded
            It does not fit the budget, with the old pool beside the new one.
        RuntimeError
            Nothing is left to do, and more or fewer cliques were written than found.
        """
        state, kept = self._state, self._kept
        pending = state[:, at.PENDING_NODE]
        roots_left = int(self._control[at.NEXT_ROOT]) < self._n_turns
        is_all_written = (state[:, at.PAGE] == 0).all()
        if kept.n == 0 and (pending == at.NOTHING).all() and not roots_left and is_all_written:
            self._check_all_is_written()
            return False
        old, self._plan = self._plan, self._with_room(kept.n_words, kept.n)
        words = cp.empty(self._plan.all_words, cp.uint32)
        nodes = self._device.nodes
        if self._plan.n_nodes != old.n_nodes:
            nodes = cp.empty((self._plan.all_nodes, at.NODE_FIELDS), cp.int64)
        self._control[at.N_OPEN] = kept.move(self._device.words, words, nodes)
        self._control[at.N_NODES], self._control[at.POOL_TOP] = kept.n, kept.n_words
        state[:, at.PENDING_NODE] = kept.numbers(pending)
        upload(state, self._warps.state)
        self._device = self._device._replace(words=words, nodes=nodes, settings=cp.asarray(self._settings()))
        if self._plan.members != old.members:
            self._output = self._output._replace(members=cp.empty(self._plan.members, cp.int32))
        return True

    def _with_room(self, n_words: int, n_nodes: int) -> MemoryPlan:
        """The plan, grown where what is kept and what was short would take more than half of the room."""
        plan = self._plan
        wanted = 2 * (n_words + int(self._control[at.NEEDED]))
        if wanted > plan.pool_words:
            plan = replace(plan, pool_words=-(-max(wanted, 2 * plan.pool_words) // 32) * 32)
        if 2 * n_nodes > plan.n_nodes or int(self._control[at.N_NODES]) > plan.n_nodes:
            plan = replace(plan, n_nodes=2 * max(n_nodes, plan.n_nodes))
        if int(self._control[at.OUTPUT_NEEDED]) > plan.members:
            plan = replace(plan, members=int(self._control[at.OUTPUT_NEEDED]))
        needed = plan.total_bytes + 4 * self._plan.all_words
        if needed > self._budget:
            raise MemoryBudgetExceeded(
                f"the search needs {needed:,} bytes of device memory to go on, its budget is {self._budget:,}: raise "
                "it (device_memory_bytes), or use the engine cpu",
                needed_bytes=needed,
            )
        return plan

    def _settings(self) -> np.ndarray:
        plan = self._plan
        settings = np.empty(at.N_SETTINGS, np.int64)
        settings[at.POOL_LIMIT], settings[at.NODE_LIMIT] = plan.pool_words, plan.n_nodes
        settings[at.QUANTUM_NS] = int(plan.quantum_seconds * 1e9)
        settings[at.NARROW], settings[at.OWN_WORDS], settings[at.MOST_LEVELS] = plan.narrow, plan.own_words, at.LEVELS
        settings[at.MIN_SIZE], settings[at.MAX_SIZE] = self._size_limits
        settings[at.N_LARGE] = self._n_large
        return settings

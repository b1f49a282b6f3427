"""One search on the device: its memory, its time quanta, and room made between them."""

from __future__ import annotations

import time
from dataclasses import dataclass

import cupy as cp
import numpy as np

from mbe_stage.device.arrays import upload
from mbe_stage.pq_counts.cuda import layout as at
from mbe_stage.pq_counts.cuda.kernels import kernel_for
from mbe_stage.pq_counts.cuda.layout import Device, Graph, Warps
from mbe_stage.pq_counts.cuda.memory_plan import KeyLayout, MemoryPlan
from mbe_stage.pq_counts.cuda.techniques import ALL_TECHNIQUES
from mbe_stage.pq_counts.cuda.waiting import Waiting
from mbe_stage.search.cuda.pool import KeptNodes
from mbe_stage.search.cuda.session import PoolSession


@dataclass(frozen=True, slots=True, eq=False)
class Counted:
    """Leaves by kind, on the host; all (n,) int64."""

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
        With the roots that are wanted.
    asked : tuple of int
        Fewest and most rows, fewest and most columns.
    keys : KeyLayout
    plan : MemoryPlan
    budget_bytes : int
        What growing may not exceed; nodes wait on the host where it does not suffice.
    techniques : int
        `Techniques.kernel_mask`.
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
        super().__init__(graph, plan, budget_bytes, kernel_for(techniques), at.CONTROL_WORDS)
        self._n_kinds = self._n_undone = self._n_done = self._n_waits = self._n_drains = 0
        self._waiting_seconds = 0.0
        self._n_fruitless, self._left = 0, (-1, -1, -1, -1)
        self._asked, self._keys = asked, keys
        n_warps = plan.n_warps
        self._warps = Warps(
            cp.zeros((n_warps, plan.scratch_rows), cp.int32),
            cp.empty((n_warps, plan.matrix_rows), cp.int32),
            cp.empty((n_warps, plan.scratch_words), cp.uint32),
            self._new_state(),
        )
        self._device = Device(
            *self._new_pool(),
            cp.zeros(plan.n_kinds, cp.int64),
            cp.zeros(plan.n_kinds, cp.int64),
            cp.zeros(at.CONTROL_WORDS, cp.int64),
            cp.asarray(self._settings()),
        )
        self._waiting = Waiting()
        # While much of the pool is in use no root is begun; those that a warp has had no room for come first then.
        self._is_draining, self._undone_roots = False, np.empty(0, np.int64)

    @property
    def statistics(self) -> dict[str, int]:
        """What the quanta did, for benchmarks and tests."""
        return super().statistics | {
            "kinds": self._n_kinds,
            "drains": self._n_drains,
            "waits": self._n_waits,
            "waiting_us": round(1e6 * self._waiting_seconds),
        }

    def _settings(self) -> np.ndarray:
        settings, keys = self._plan.settings(at.N_SETTINGS), self._keys
        settings[at.FEWEST_ROWS : at.MOST_COLUMNS + 1] = self._asked
        numbers = keys.optional_rows, keys.held_columns, keys.optional_columns
        settings[at.OPTIONAL_ROWS_AT : at.OPTIONAL_COLUMNS_AT + 1] = numbers
        settings[at.CREDIT_LIMIT] = self._plan.credit_limit
        return settings

    def restart(self, roots: np.ndarray) -> None:
        """As `SearchSession.restart`."""
        super().restart(roots)
        # The last quantum has left its leaves in the table.
        self._device.keys.fill(0)
        self._device.times.fill(0)
        self._n_fruitless, self._is_draining = 0, False

    def quantum(self) -> Counted:
        """Work for a while, and make room for what is left; the leaves found."""
        n_roots = self._graph.order.size
        takes_roots = not self._waiting and not self._is_draining
        self._control[at.NEXT_ROOT] = self.n_roots_taken if takes_roots else n_roots
        self._run(at.CREDITS)
        if takes_roots:
            self.n_roots_taken = min(n_roots, int(self._control[at.NEXT_ROOT]))
        is_short = int(self._control[at.STATUS]) != 0
        goes_on = (is_short or not takes_roots or self._undone_roots.size > 0) and self._move_nodes()
        self.is_over = not goes_on
        return self._take_leaves(goes_on)

    def _take_leaves(self, goes_on: bool) -> Counted:
        """What the table holds; it is empty afterwards, where somebody goes on."""
        places = cp.flatnonzero(self._device.keys)
        self._n_kinds += int(places.size)
        keys, times = cp.asnumpy(cp.stack([self._device.keys[places], self._device.times[places]]))
        if goes_on:
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

    def _move_nodes(self) -> bool:
        """Move the nodes that have children left together, in a larger pool where there is one, or have some wait.

        False where nothing is left to do: the time of the quantum was over when the search was.
        """
        state = cp.asnumpy(self._warps.state).copy()
        pending = state[:, at.PENDING_NODE]
        kept = KeptNodes(self._device.nodes, pending)
        n_pending = int((pending != at.NOTHING).sum())
        n_left = kept.n + n_pending + self._undone_roots.size + len(self._waiting)
        if n_left == 0 and self.n_roots_taken == self._graph.order.size:
            return False
        self._check_progress(kept, n_pending)
        plan = self._grown(kept.n_words + self._waiting.n_words, kept.n + self._waiting.n_nodes)
        # Tasks that could not be done are counted as often as they were begun.
        self._n_undone += n_pending
        n_done = int(state[:, [at.N_PIECES, at.N_VISITED]].sum()) - self._n_undone
        is_stuck = plan is self._plan and n_done <= self._n_done
        self._n_done = n_done
        # Whatever a warp begins with needs room for two nodes.
        is_full = kept.n_words + 2 * plan.node_words > plan.pool_words or 2 * kept.n > plan.n_nodes
        if self._waiting or is_stuck or is_full:
            began = time.perf_counter()
            self._hand_back_roots(state, are_wanted=False)
            self._waiting.fetch(self._device, self._plan, kept.live, state)
            self._waiting.take_roots(self._undone_roots)
            self._undone_roots, self._is_draining = self._undone_roots[:0], False
            self._replace_pool(plan)
            self._waiting.load(self._device, plan, state, self._control)
            self._n_waits += bool(self._waiting)
            self._waiting_seconds += time.perf_counter() - began
        else:
            self._move_together(kept, plan)
            state[:, at.PENDING_NODE] = kept.numbers(pending)
            self._is_draining = 2 * kept.n_words > plan.pool_words
            self._n_drains += self._is_draining
            self._hand_back_roots(state, are_wanted=not self._is_draining)
        upload(state, self._warps.state)
        return True

    def _hand_back_roots(self, state: np.ndarray, *, are_wanted: bool) -> None:
        """Give warps the roots that nobody had room for, or take from them those that they have begun in vain.

        Parameters
        ----------
        state : (n_warps, STATE_FIELDS) int64, on the host
            Changed.
        are_wanted : bool
        """
        if are_wanted:
            free = np.flatnonzero(state[:, at.PENDING_NODE] == at.NOTHING)[: self._undone_roots.size]
            state[free, at.PENDING_NODE] = at.ROOT
            state[free, at.PENDING_CHILD] = self._undone_roots[: free.size]
            self._undone_roots = self._undone_roots[free.size :]
            return
        begun = state[:, at.PENDING_NODE] == at.ROOT
        self._undone_roots = np.concatenate([self._undone_roots, state[begun, at.PENDING_CHILD]])
        state[begun, at.PENDING_NODE] = at.NOTHING

    def _check_progress(self, kept: KeptNodes, n_pending: int) -> None:
        """Be sure that quanta which end for want of places in the table of kinds lead on.

        Parameters
        ----------
        kept : KeptNodes
        n_pending : int
            Tasks that warps have begun and could not do.

        Raises
        ------
        RuntimeError
            Two such quanta in turn have found no leaf and done no task: the plan has too small a table.
        """
        # Time may be over as well: who is idle sees to that.
        if not int(self._control[at.STATUS]) & at.KINDS_SHORT or bool(self._device.keys.any()):
            self._n_fruitless = 0
            return
        n_children = int((kept.fields[:, at.END] - kept.fields[:, at.CURSOR]).sum())
        left = self.n_roots_taken, n_pending, n_children, len(self._waiting) + self._undone_roots.size
        self._n_fruitless = self._n_fruitless + 1 if left == self._left else 1
        self._left = left
        if self._n_fruitless > 1:
            raise RuntimeError(
                f"two quanta in turn found no leaf and did no task: the table of kinds has {self._plan.n_kinds:,} "
                f"places for {self._plan.n_warps:,} warps, and some task needs more. The plan of the memory is wrong: "
                "please report this, with the graph's sizes; the engine cpu counts the same"
            )

    def _move_together(self, kept: KeptNodes, plan: MemoryPlan) -> None:
        """Put nodes at the beginning of the table, their words at that of the pool, both as the plan has them."""
        if plan is self._plan:
            kept.slide(self._device.words, plan.moved_words)
        else:
            moved = cp.empty(kept.n_words, cp.uint32)
            kept.copy(self._device.words, moved)
            self._replace_pool(plan)
            self._device.words[: kept.n_words] = moved
        kept.write(self._device.nodes, self._control)

    def _replace_pool(self, plan: MemoryPlan) -> None:
        """Have pool and table of another plan in the place of the old ones, which are freed first; nothing is kept."""
        if plan is self._plan:
            return
        self._device = self._device._replace(words=None, nodes=None)
        self._plan = plan
        words, nodes = self._new_pool()
        self._device = self._device._replace(words=words, nodes=nodes, settings=cp.asarray(self._settings()))

    def _grown(self, n_words: int, n_nodes: int) -> MemoryPlan:
        """The plan, grown where live nodes and what was short would take more than half, as far as the budget has it.

        Parameters
        ----------
        n_words, n_nodes : int
            Of the nodes that have children left.
        """
        n_wanted = n_words + int(self._control[at.NEEDED]) + self._plan.node_words
        plan: MemoryPlan = self._plan.with_room(n_wanted, n_nodes, self._control)
        # All words are copied beside the new pool.
        taken = plan.total_bytes + 4 * max(0, n_words - plan.moved_words)
        return plan if taken <= self._budget else self._plan

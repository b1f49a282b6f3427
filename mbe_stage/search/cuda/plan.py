"""The part of a memory plan that every search with open nodes has. Needs neither numba-cuda nor a GPU."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from mbe_stage.device import WARPS_PER_BLOCK, whole_lines
from mbe_stage.errors import MemoryBudgetExceeded
from mbe_stage.search.cuda import control as at

QUANTUM_SECONDS = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolPlan:
    """The pool, the table of nodes, and the places of each warp behind them.

    Attributes
    ----------
    n_blocks : int
    levels, own_words : int
        Nodes and words of the pool that each warp has for itself: for the stack and the frame in its hands when a
        quantum ends.
    n_nodes, pool_words : int
        Places for others.
    narrow : int
        Rows and columns of a frame at most.
    quantum_seconds : float
    """

    n_blocks: int
    levels: int
    own_words: int
    n_nodes: int
    pool_words: int
    narrow: int
    quantum_seconds: float = QUANTUM_SECONDS

    @property
    def n_warps(self) -> int:
        """Of all blocks."""
        return self.n_blocks * WARPS_PER_BLOCK

    @property
    def all_words(self) -> int:
        """Of the pool, and those of the warps behind it."""
        return self.pool_words + self.n_warps * self.own_words

    @property
    def all_nodes(self) -> int:
        """Of the table, and those of the warps behind it."""
        return self.n_nodes + self.n_warps * self.levels

    @property
    def own_bytes(self) -> int:
        """What a warp has behind pool and table, and its state."""
        return 4 * self.own_words + 8 * at.NODE_FIELDS * self.levels + 8 * at.STATE_FIELDS

    def settings(self, n_settings: int) -> np.ndarray:
        """What kernels are told, with room for a problem's own settings: (n_settings,) int64."""
        settings = np.zeros(n_settings, np.int64)
        settings[at.POOL_LIMIT], settings[at.NODE_LIMIT] = self.pool_words, self.n_nodes
        settings[at.QUANTUM_NS] = int(self.quantum_seconds * 1e9)
        settings[at.NARROW], settings[at.MOST_LEVELS] = self.narrow, self.levels
        settings[at.OWN_WORDS] = self.own_words
        return settings

    def with_room(self, n_words: int, n_nodes: int, control: np.ndarray) -> Self:
        """The plan, grown if what is wanted would take more than half of the pool or the table.

        Parameters
        ----------
        n_words, n_nodes : int
            Of the nodes that are kept, and what was short of words.
        control : int64
            The control words after the quantum.
        """
        plan = self
        if 2 * n_words > plan.pool_words:
            plan = replace(plan, pool_words=whole_lines(2 * max(n_words, plan.pool_words)))
        if 2 * n_nodes > plan.n_nodes or int(control[at.N_NODES]) > plan.n_nodes:
            plan = replace(plan, n_nodes=2 * max(n_nodes, plan.n_nodes))
        return plan


def budget_refusal(what: str, needed: int, budget: int, why: str = "") -> MemoryBudgetExceeded:
    """The error that names the bytes that would be enough."""
    return MemoryBudgetExceeded(
        f"{what} needs {needed:,} bytes of device memory{why}, its budget is {budget:,}: raise it "
        "(device_memory_bytes), or use the engine cpu",
        needed_bytes=needed,
    )

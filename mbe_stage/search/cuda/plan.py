"""The part of a memory plan shared by all searches with open nodes. Needs neither numba-cuda nor a GPU."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from mbe_stage.device import WARPS_PER_BLOCK, whole_lines
from mbe_stage.errors import MemoryBudgetExceeded
from mbe_stage.search.cuda import control as layout

QUANTUM_SECONDS = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolPlan:
    """Sizes of the pool and of the table of nodes; each warp's own places follow the shared ones.

    Attributes
    ----------
    n_blocks : int
    stack_entries, own_words : int
        Nodes and words of the pool reserved for each warp, for its stack and frame at the end of a quantum.
    n_nodes, pool_words : int
        Places shared by all warps.
    narrow : int
        Most rows and most columns of a frame.
    quantum_seconds : float
    """

    n_blocks: int
    stack_entries: int
    own_words: int
    n_nodes: int
    pool_words: int
    narrow: int
    quantum_seconds: float = QUANTUM_SECONDS

    @property
    def n_warps(self) -> int:
        """Number of warps in all blocks."""
        return self.n_blocks * WARPS_PER_BLOCK

    @property
    def all_words(self) -> int:
        """Number of words in the pool, including the warps' own words."""
        return self.pool_words + self.n_warps * self.own_words

    @property
    def all_nodes(self) -> int:
        """Number of nodes in the table, including the warps' own nodes."""
        return self.n_nodes + self.n_warps * self.stack_entries

    @property
    def own_bytes(self) -> int:
        """Bytes of a warp's own words, nodes and state."""
        return 4 * self.own_words + 8 * layout.NODE_FIELDS * self.stack_entries + 8 * layout.STATE_FIELDS

    def settings(self, n_settings: int) -> np.ndarray:
        """Return the settings for kernels, with zeros for the problem's own: (n_settings,) int64."""
        settings = np.zeros(n_settings, np.int64)
        settings[layout.POOL_LIMIT], settings[layout.NODE_LIMIT] = self.pool_words, self.n_nodes
        settings[layout.QUANTUM_NS] = int(self.quantum_seconds * 1e9)
        settings[layout.NARROW], settings[layout.MOST_ENTRIES] = self.narrow, self.stack_entries
        settings[layout.OWN_WORDS] = self.own_words
        return settings

    def with_room(self, n_words: int, n_nodes: int, control: np.ndarray) -> Self:
        """Return the plan, enlarged if more than half of the pool or table is needed.

        Parameters
        ----------
        n_words, n_nodes : int
            Number of kept nodes, and their words plus the missing words.
        control : int64
            The control words after the quantum.
        """
        plan = self
        if 2 * n_words > plan.pool_words:
            plan = replace(plan, pool_words=whole_lines(2 * max(n_words, plan.pool_words)))
        if 2 * n_nodes > plan.n_nodes or int(control[layout.N_NODES]) > plan.n_nodes:
            plan = replace(plan, n_nodes=2 * max(n_nodes, plan.n_nodes))
        return plan


def budget_refusal(what: str, needed: int, budget: int, why: str = "") -> MemoryBudgetExceeded:
    """Return the error for too little device memory, which names a sufficient budget."""
    return MemoryBudgetExceeded(
        f"{what} needs {needed:,} bytes of device memory{why}, its budget is {budget:,}: raise it "
        "(device_memory_bytes), or use the engine cpu",
        needed_bytes=needed,
    )


def does_not_fit(refusal: MemoryBudgetExceeded, budget: int) -> MemoryBudgetExceeded:
    """Return the error for saved work that is too large, from the error of growing the pool."""
    return MemoryBudgetExceeded(
        f"the saved work of the run needs {refusal.needed_bytes:,} bytes of device memory, and the budget is "
        f"{budget:,}: raise device_memory_bytes, resume on a GPU like the one that saved it, or start over without "
        "--resume",
        needed_bytes=refusal.needed_bytes,
    )

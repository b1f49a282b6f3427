"""What becomes of the memory plan where a run is short of something, within its budget. Needs no GPU library."""

from __future__ import annotations

from dataclasses import replace

from mbe_stage.bicliques.cuda import layout as at
from mbe_stage.bicliques.cuda.memory_plan import REMEDY, MemoryPlan
from mbe_stage.device import whole_lines
from mbe_stage.errors import MemoryBudgetExceeded

__all__ = ["blocks_that_fit", "check_growth", "with_larger_arenas", "with_space_in_pool"]

_FREE_SHARE = 4
"""Of a pool, what is to be free after it was compacted: else quanta end before much is done in them."""


def check_growth(plan: MemoryPlan, held_bytes: int, budget_bytes: int) -> MemoryPlan:
    """The plan, or a refusal where a run would have to grow past its budget.

    Parameters
    ----------
    plan : MemoryPlan
        After growing.
    held_bytes : int
        What is held beside it for a while.
    budget_bytes : int

    Raises
    ------
    MemoryBudgetExceeded
        Says what was asked for.
    """
    needed = plan.total_bytes + held_bytes
    if needed > budget_bytes:
        raise MemoryBudgetExceeded(
            f"the CUDA engine needs {needed:,} bytes of device memory to go on, its budget is {budget_bytes:,}: "
            f"{REMEDY}",
            needed_bytes=needed,
        )
    return plan


def blocks_that_fit(plan: MemoryPlan, held_bytes: int, budget_bytes: int) -> int:
    """How many blocks of a plan fit the budget beside what is held, at least one."""
    spare = budget_bytes - held_bytes - (plan.total_bytes - plan.n_warps * plan.warp_bytes)
    return max(1, min(plan.n_blocks, spare // (plan.warp_bytes * at.WALKING_WARPS_PER_BLOCK)))


def with_larger_arenas(plan: MemoryPlan, needed: int, held_bytes: int, budget_bytes: int) -> MemoryPlan:
    """Arenas of `needed` words and half as much again as there were; for fewer warps where they do not fit for all.

    Parameters
    ----------
    plan : MemoryPlan
    needed : int
    held_bytes : int
        The tasks of all warps, and those that wait: they are held while there are no arenas.
    budget_bytes : int

    Raises
    ------
    MemoryBudgetExceeded
        The arenas that are needed do not fit for one block.
    """
    for words in (max(needed, plan.words + plan.words // 2), needed):
        grown = replace(plan, words=whole_lines(words))
        grown = replace(grown, n_blocks=blocks_that_fit(grown, held_bytes, budget_bytes))
        if grown.total_bytes + held_bytes <= budget_bytes:
            break
    return check_growth(grown, held_bytes, budget_bytes)


def with_space_in_pool(
    plan: MemoryPlan, used: int, needed: int, n_nodes: int, held_bytes: int, budget_bytes: int
) -> MemoryPlan:
    """A pool that is half free once it is compacted, or as large as fits; for fewer warps where less than a quarter is.

    Where the pool of the result is not the one there was, its live part is held once more while it is replaced.

    Parameters
    ----------
    plan : MemoryPlan
    used, n_nodes : int
        Entries and number of the nodes that are needed further on.
    needed : int
        Entries of the largest node that did not fit.
    held_bytes : int
        The tasks of all warps, and those that wait.
    budget_bytes : int

    Raises
    ------
    MemoryBudgetExceeded
        Those nodes do not fit beside one block.
    """
    pool, nodes = plan.pool, plan.nodes
    if used + needed > pool // 2:
        pool = max(2 * pool, 2 * (used + needed))
    if 2 * n_nodes > nodes:
        # The old table is held while its nodes are copied.
        nodes *= 2
        held_bytes += plan.node_bytes
    wanted = replace(plan, pool=pool, nodes=nodes)
    if pool > plan.pool:
        held_bytes += 4 * used
    grown = _with_pool_that_fits(wanted, plan.pool, held_bytes, budget_bytes)
    enough = (used + needed) * _FREE_SHARE // (_FREE_SHARE - 1)
    if grown.pool < enough or grown.total_bytes > budget_bytes:
        # Fewer warps are more room, and fewer of them open nodes at once.
        n_blocks = blocks_that_fit(replace(wanted, pool=enough), held_bytes, budget_bytes)
        n_blocks = max(n_blocks, plan.n_blocks // 2, 1)
        if used + needed > plan.pool:
            n_blocks = min(n_blocks, blocks_that_fit(replace(wanted, pool=used + needed), held_bytes, budget_bytes))
        grown = _with_pool_that_fits(replace(wanted, n_blocks=n_blocks), plan.pool, held_bytes, budget_bytes)
    if grown.pool < used + needed:
        # Says what would be needed.
        grown = replace(wanted, n_blocks=1, pool=used + needed)
    return check_growth(grown, held_bytes if grown.pool > plan.pool else 0, budget_bytes)


def _with_pool_that_fits(plan: MemoryPlan, least: int, held_bytes: int, budget_bytes: int) -> MemoryPlan:
    """The plan with a pool that fits beside what is held, no larger than planned and no smaller than the `least`."""
    room = (budget_bytes - held_bytes - (plan.total_bytes - 4 * plan.pool)) // 4
    return replace(plan, pool=max(least, min(plan.pool, room)))

"""Plan the device memory of a search before anything is allocated. Needs neither numba-cuda nor a GPU."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

from mbe_stage.cliques.cuda import layout
from mbe_stage.device import whole_lines
from mbe_stage.search.cuda.plan import PoolPlan, budget_refusal

_NODES = 1 << 16
_MOST_POOL_WORDS, _LEAST_POOL_WORDS = 1 << 28, 1 << 18
# Bounds on the members of the first output; a search that fills it gets more.
_MOST_MEMBERS, _LEAST_MEMBERS = 1 << 27, 1 << 16
_MOST_MEMBERS_LATER = 1 << 29
_GROWTH = 16
_PAGE_MEMBERS, _PAGE_CLIQUES = 1024, 128


@dataclass(frozen=True, slots=True)
class SearchSizes:
    """Sizes of the graph and search that determine the plan.

    Attributes
    ----------
    n_edges, most_later, most_neighbours : int
        As in `DeviceGraph`.
    mode : int
        `layout.COUNT`, `SIZES` or `MEMBERS`.
    n_copies : int
        As in `MemoryPlan`.
    """

    n_edges: int
    most_later: int
    most_neighbours: int
    mode: int
    n_copies: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryPlan(PoolPlan):
    """Sizes of the allocated memory: the pool, and the data of a search for cliques.

    Warps reserve output by additions to one word, which failed requests change too. In a quantum, a warp makes at most
    two failed requests: one for its page or for the cliques of a node that exceed a page, and one for its page at the
    end.

    Attributes
    ----------
    scratch_columns, scratch_rows, scratch_words : int
        Numbers per warp: candidates, rows of excluded vertices, and words of a set of candidates.
    histogram : int
        Number of clique sizes.
    members, cliques : int
        Sizes of the output.
    most_members : int
        Limit on `members` for `with_more_output`.
    page_members, page_cliques : int
        Sizes of each warp's page.
    n_copies : int
        Copies of a full output that exist beside it: delivered blocks that stay on the device.

    Raises
    ------
    ValueError
        The output is larger than the word can count.
    """

    scratch_columns: int
    scratch_rows: int
    scratch_words: int
    histogram: int
    members: int
    cliques: int
    page_members: int
    page_cliques: int
    n_copies: int = 0
    most_members: int = 0

    def __post_init__(self) -> None:
        # A clique has at most the root and its later neighbours.
        most_at_once = layout.MOST_AT_ONCE * (self.scratch_columns + 1)
        members_in_vain = self.n_warps * (self.page_members + max(self.page_members, most_at_once))
        cliques_in_vain = self.n_warps * (self.page_cliques + max(self.page_cliques, layout.MOST_AT_ONCE))
        for name, room, most in (
            ("members", self.members, (1 << layout.CLIQUES_SHIFT) - 1 - members_in_vain),
            ("cliques", self.cliques, (layout.NEVER >> layout.CLIQUES_SHIFT) - 1 - cliques_in_vain),
        ):
            if room > most:
                raise ValueError(
                    f"the output has room for {room:,} {name}: expected {most:,} at most, since {self.n_warps:,} warps "
                    "count them in one word; give it less room, the rest comes in further blocks"
                )

    @property
    def warp_bytes(self) -> int:
        """Bytes of each warp's data."""
        scratch = 4 * (self.scratch_columns + self.scratch_rows + 2 * self.scratch_words)
        page = 4 * self.page_members + 4 * self.page_cliques
        return scratch + self.own_bytes + page + 8 * self.histogram

    @property
    def total_bytes(self) -> int:
        """Bytes of all data."""
        output = (1 + self.n_copies) * (4 * self.members + 4 * self.cliques)
        shared = 8 * layout.NODE_FIELDS * self.n_nodes + 4 * self.pool_words + output
        return shared + self.n_warps * self.warp_bytes + 8 * layout.CONTROL_WORDS

    def with_more_output(self, budget: int) -> Self:
        """Return the plan with a larger output within the budget, for long searches, which fill theirs."""
        members = min(_GROWTH * self.members, self.most_members)
        if members <= self.members:
            return self
        larger = replace(self, members=members, cliques=max(self.cliques, members // 4))
        return larger if larger.total_bytes <= budget else self


def plan_memory(sizes: SearchSizes, n_blocks: int, budget: int) -> MemoryPlan:
    """Return the plan within a budget, with as many blocks as fit, at most `n_blocks`.

    Raises
    ------
    MemoryBudgetExceeded
        A single block does not fit.
    """
    blocks = n_blocks
    while True:
        plan = _plan(sizes, blocks, budget)
        if plan.total_bytes <= budget:
            return plan
        if blocks == 1:
            break
        blocks = max(1, blocks // 2)
    raise budget_refusal("the search", _smallest_budget(sizes), budget)


def _smallest_budget(sizes: SearchSizes) -> int:
    """Return a budget that is enough for one block; a larger one allows a larger pool."""
    needed = 0
    while (total := _plan(sizes, 1, needed).total_bytes) > needed:
        needed = total
    return needed


def _plan(sizes: SearchSizes, n_blocks: int, budget: int) -> MemoryPlan:
    pool_words = max(_LEAST_POOL_WORDS, min(_MOST_POOL_WORDS, budget // 16, _LEAST_POOL_WORDS + 128 * sizes.n_edges))
    is_written = sizes.mode == layout.MEMBERS
    members, cliques, most_members = 1, 1, min(_MOST_MEMBERS_LATER, budget // 32)
    if is_written:
        members = max(_LEAST_MEMBERS, min(_MOST_MEMBERS, most_members, _LEAST_MEMBERS + 128 * sizes.n_edges))
        cliques = max(layout.MOST_AT_ONCE, members // 4)
    return MemoryPlan(
        n_blocks=n_blocks,
        scratch_columns=whole_lines(max(1, sizes.most_later)),
        scratch_rows=whole_lines(sizes.most_neighbours + 1),
        scratch_words=whole_lines(max(1, (sizes.most_later + 31) // 32)),
        # A clique is a root and some of its later neighbours.
        histogram=sizes.most_later + 2 if sizes.mode == layout.SIZES else 1,
        # Base, candidates and excluded vertices are the root and its neighbours; half of the excluded rows come twice.
        own_words=whole_lines(layout.BASE_AT + 3 * (sizes.most_neighbours + 2)),
        stack_entries=layout.STACK_ENTRIES,
        n_nodes=_NODES,
        narrow=layout.FRAME_WIDTH,
        pool_words=whole_lines(pool_words),
        members=members,
        cliques=cliques,
        page_members=_PAGE_MEMBERS if is_written else 1,
        page_cliques=_PAGE_CLIQUES if is_written else 1,
        n_copies=sizes.n_copies,
        most_members=most_members,
    )

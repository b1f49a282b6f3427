"""What a search takes of device memory, before anything is allocated. Needs neither numba-cuda nor a GPU."""

from __future__ import annotations

from dataclasses import dataclass

from mbe_stage.cliques.cuda import layout as at
from mbe_stage.device import whole_lines
from mbe_stage.search.cuda.plan import PoolPlan, budget_refusal

_NODES = 1 << 16
_MOST_POOL_WORDS, _LEAST_POOL_WORDS = 1 << 28, 1 << 18
_MOST_MEMBERS, _LEAST_MEMBERS = 1 << 27, 1 << 16
_PAGE_MEMBERS, _PAGE_CLIQUES = 1024, 128


@dataclass(frozen=True, slots=True)
class SearchSizes:
    """What the plan depends on.

    Attributes
    ----------
    n_edges, most_later, most_neighbours : int
        Of the graph, as `DeviceGraph` has them.
    mode : int
        `layout.COUNT`, `SIZES` or `MEMBERS`.
    n_copies : int
        As `MemoryPlan.n_copies`.
    """

    n_edges: int
    most_later: int
    most_neighbours: int
    mode: int
    n_copies: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryPlan(PoolPlan):
    """What is allocated: the pool, and what is a search of cliques' own.

    Room in the output is an addition to one word, and what is asked in vain stays in it. In a quantum a warp asks so
    twice at most: for its page, or for the cliques of a node that are more than a page, and for its page at the end.

    Attributes
    ----------
    scratch_columns, scratch_rows, scratch_words : int
        Of each warp: candidates, rows of excluded vertices, and words of a set of candidates.
    histogram : int
        Sizes of cliques.
    members, cliques : int
        Of the output.
    page_members, page_cliques : int
        Of each warp, on their way there.
    n_copies : int
        Of a full output, which are alive beside it: blocks that were handed over and stay on the device.

    Raises
    ------
    ValueError
        The output is larger than the word counts.
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

    def __post_init__(self) -> None:
        # The root and later neighbours of it.
        most_at_once = at.MOST_AT_ONCE * (self.scratch_columns + 1)
        members_in_vain = self.n_warps * (self.page_members + max(self.page_members, most_at_once))
        cliques_in_vain = self.n_warps * (self.page_cliques + max(self.page_cliques, at.MOST_AT_ONCE))
        for name, room, most in (
            ("members", self.members, (1 << at.CLIQUES_SHIFT) - 1 - members_in_vain),
            ("cliques", self.cliques, (at.NEVER >> at.CLIQUES_SHIFT) - 1 - cliques_in_vain),
        ):
            if room > most:
                raise ValueError(
                    f"the output has room for {room:,} {name}: expected {most:,} at most, since {self.n_warps:,} warps "
                    "count them in one word; give it less room, the rest comes in further blocks"
                )

    @property
    def warp_bytes(self) -> int:
        """What a warp has to itself."""
        scratch = 4 * (self.scratch_columns + self.scratch_rows + 2 * self.scratch_words)
        page = 4 * self.page_members + 4 * self.page_cliques
        return scratch + self.own_bytes + page + 8 * self.histogram

    @property
    def total_bytes(self) -> int:
        """Of everything."""
        output = (1 + self.n_copies) * (4 * self.members + 4 * self.cliques)
        shared = 8 * at.NODE_FIELDS * self.n_nodes + 4 * self.pool_words + output
        return shared + self.n_warps * self.warp_bytes + 8 * at.CONTROL_WORDS


def plan_memory(sizes: SearchSizes, n_blocks: int, budget: int) -> MemoryPlan:
    """A plan within a budget, with as many blocks as fit, `n_blocks` at most.

    Raises
    ------
    MemoryBudgetExceeded
        Not even one block fits.
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
    """Bytes that are enough for one block; a larger budget is planned for with a larger pool."""
    needed = 0
    while (total := _plan(sizes, 1, needed).total_bytes) > needed:
        needed = total
    return needed


def _plan(sizes: SearchSizes, n_blocks: int, budget: int) -> MemoryPlan:
    pool_words = max(_LEAST_POOL_WORDS, min(_MOST_POOL_WORDS, budget // 16, _LEAST_POOL_WORDS + 128 * sizes.n_edges))
    is_written = sizes.mode == at.MEMBERS
    members, cliques = 1, 1
    if is_written:
        members = max(_LEAST_MEMBERS, min(_MOST_MEMBERS, budget // 32, _LEAST_MEMBERS + 128 * sizes.n_edges))
        cliques = max(at.MOST_AT_ONCE, members // 4)
    return MemoryPlan(
        n_blocks=n_blocks,
        scratch_columns=whole_lines(max(1, sizes.most_later)),
        scratch_rows=whole_lines(sizes.most_neighbours + 1),
        scratch_words=whole_lines(max(1, (sizes.most_later + 31) // 32)),
        # A clique is a root and later neighbours of it.
        histogram=sizes.most_later + 2 if sizes.mode == at.SIZES else 1,
        # Base, candidates and excluded vertices are the root and neighbours of it; half of the last ones' rows again.
        own_words=whole_lines(at.BASE_AT + 3 * (sizes.most_neighbours + 2)),
        levels=at.LEVELS,
        n_nodes=_NODES,
        narrow=at.FRAME_WIDTH,
        pool_words=whole_lines(pool_words),
        members=members,
        cliques=cliques,
        page_members=_PAGE_MEMBERS if is_written else 1,
        page_cliques=_PAGE_CLIQUES if is_written else 1,
        n_copies=sizes.n_copies,
    )

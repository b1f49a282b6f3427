"""Plan a run's device memory before anything is allocated, and again when a run is short. Needs no GPU library."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, replace

from mbe_stage.bicliques.cuda import layout
from mbe_stage.device import whole_lines
from mbe_stage.errors import MemoryBudgetExceeded

_FIRST_WORDS = 1 << 14
_WORDS_SHARE = 32
"""Share of the budget for arenas from the start, since growing costs a pause."""
_MIN_CHUNK = 256
_MAX_CHUNK = 1 << 13
_MIN_NODES = 1 << 10
_MAX_NODES = 1 << 18
_LARGE_POOL = 1 << 28
_EXPANSION_SHARE = 8
"""Share of the budget for expanding bicliques."""
_GROWTH_SHARE = 4
"""Share of the budget kept from warps, so that arenas and pool can grow."""
_MOST_ENTRIES = (1 << 32) - 1
"""Largest segment of a node in the pool: its parts have uint32 offsets, its edges are counted in int32."""
PASSING_INTS = 1 << 14
"""Entries of the pool moved at a time, if there is no room for more."""
REMEDY = "raise the memory budget, or use minimum sizes, which shrink the graph"
_FREE_SHARE = 4
"""Part of a pool to be free after compaction. Otherwise quanta end before they do much work."""


@dataclass(frozen=True, slots=True)
class ReducedSizes:
    """Sizes of a reduced graph, as the plan needs them.

    Attributes
    ----------
    n_vertices : int
        Vertices of the user's graph, both sides.
    wedges : int
        Two-step paths from row to row.
    is_sorted : bool
        True if the columns are sorted (`column_order`).
    """

    n_vertices: int
    n_rows: int
    n_columns: int
    n_edges: int
    max_row_degree: int
    max_column_degree: int
    wedges: int
    is_sorted: bool = False

    @property
    def sorting_bytes(self) -> int:
        """Bytes to sort the columns: words and order, and copies and a sort of all edges."""
        return 48 * (self.n_edges + self.n_columns) if self.is_sorted else 0

    @property
    def pool_ints(self) -> int:
        """Entries of the whole graph as node 0 of the pool."""
        return whole_lines(2 * self.n_rows + 3 * self.n_columns + 3 + 2 * self.n_edges)

    @property
    def most_bitset_rows(self) -> int:
        """Rows that a bitset frame can see."""
        return min(self.n_rows, layout.WORD_BITS * self.max_column_degree)


@dataclass(frozen=True, slots=True)
class MemoryPlan:
    """Sizes of everything on the device, in entries.

    Attributes
    ----------
    n_blocks : int
        Blocks of `layout.WALKING_WARPS_PER_BLOCK` warps.
    n_rows, max_row_degree : int
        Those of the reduced graph.
    words : int
        Arena of one warp; grows when a subtree needs more.
    pool, nodes : int
        Room for subgraphs; grows likewise.
    members, descriptors, chunk_members : int
        Output buffer, and the part that a warp takes at a time. 0 if nothing is written.
    preparation_bytes : int
        Bytes to prepare the graph, beside the graph itself.
    expansion_bytes : int
        Bytes of twin expansion, with its blocks. 0 if no members are written.
    quantum_seconds : float
        Duration of a launch before the host checks.
    has_ids : bool
        True if warps have arenas of ids: sizes or members matter.
    """

    n_blocks: int
    n_rows: int
    max_row_degree: int
    words: int
    pool: int
    nodes: int
    members: int
    descriptors: int
    chunk_members: int
    preparation_bytes: int = 0
    expansion_bytes: int = 0
    quantum_seconds: float = 0.5
    has_ids: bool = True

    @property
    def n_warps(self) -> int:
        """Warps that work at once."""
        return self.n_blocks * layout.WALKING_WARPS_PER_BLOCK

    @property
    def ints(self) -> int:
        """Arena of ids of one warp."""
        return layout.WORD_BITS + (self.words if self.has_ids else 0)

    @property
    def warp_bytes(self) -> int:
        """Bytes of one warp's arenas and scratch."""
        arenas = 4 * self.words + 4 * self.ints
        fixed = 4 * layout.MAX_DEPTH * layout.FRAME_FIELDS + 8 * layout.STATE_FIELDS + 4 * layout.MAX_OWN_NODES
        return arenas + fixed + 12 * whole_lines(self.n_rows) + 4 * whole_lines(self.max_row_degree)

    @property
    def pool_bytes(self) -> int:
        """Bytes of the pool of subgraphs, and of the buffer for moving them."""
        return 4 * (self.pool + PASSING_INTS) + self.node_bytes

    @property
    def node_bytes(self) -> int:
        """Bytes of the table of subgraphs."""
        return (8 * layout.NODE_FIELDS + 4) * self.nodes

    @property
    def output_bytes(self) -> int:
        """Bytes of the output buffer."""
        return 4 * self.members + 16 * self.descriptors

    @property
    def range_members(self) -> int:
        """Most members of an expanded block that `expansion_bytes` allow."""
        pieces = range(self.expansion_bytes)
        return bisect_right(pieces, self.expansion_bytes, key=lambda n: expansion_bytes(self.descriptors, n)) - 1

    @property
    def total_bytes(self) -> int:
        """Bytes of everything."""
        return (
            self.n_warps * self.warp_bytes
            + self.pool_bytes
            + self.output_bytes
            + self.preparation_bytes
            + self.expansion_bytes
        )

    def describe(self) -> str:
        """One line per part, for people."""
        parts = {
            "preparation": self.preparation_bytes,
            f"subgraphs ({self.nodes:,} of {self.pool:,} entries)": self.pool_bytes,
            f"{self.n_warps:,} warps of {self.warp_bytes:,} bytes": self.n_warps * self.warp_bytes,
            f"output ({self.descriptors:,} bicliques, {self.members:,} members)": self.output_bytes,
            "twin expansion": self.expansion_bytes,
            "total": self.total_bytes,
        }
        return "\n".join(f"{name:<64}{n_bytes:>18,} bytes" for name, n_bytes in parts.items())


def slots_for(n_vertices: int) -> int:
    """Slots of the hash table that twins meet in: a power of two, at most half of them taken."""
    return 1 << (2 * n_vertices - 1).bit_length()


def preparation_bytes(n_vertices: int) -> int:
    """Bytes to prepare a graph: the table of twins, a few numbers for each vertex, a sort of all of them."""
    return 12 * slots_for(n_vertices) + 64 * n_vertices


def expansion_bytes(n_slots: int, range_members: int) -> int:
    """Most bytes that expansion allocates for these slots and members: `room_for_sizes` and `expanded`.

    Both are in `twin_expansion`. They allocate the lengths of all lists and their running sums by tile, for the whole
    run; two blocks, since the consumer holds one while the next is made; and the numbers of one block's long lists. A
    biclique has at least two members.
    """
    lengths = 10 * n_slots + 120
    block = 4 * range_members + 16 * (min(n_slots, range_members // 2) + 1)
    return lengths + 2 * block + range_members // 64 + 8


def check_preparation(n_vertices: int, budget_bytes: int) -> None:
    """Refuse a graph whose preparation alone exceeds the budget.

    Raises
    ------
    MemoryBudgetExceeded
        The message says how much preparing takes.
    """
    needed = preparation_bytes(n_vertices)
    if needed > budget_bytes:
        raise MemoryBudgetExceeded(
            f"the CUDA engine needs {needed:,} bytes of device memory to prepare a graph of {n_vertices:,} vertices, "
            f"its budget is {budget_bytes:,}: raise the memory budget",
            needed_bytes=needed,
        )


def plan_memory(graph: ReducedSizes, n_blocks: int, mode: int, budget_bytes: int) -> MemoryPlan:
    """Plan the sizes for a reduced graph.

    Parameters
    ----------
    n_blocks : int
        Most resident blocks of the device; fewer are planned if memory is short.
    mode : int
        A mode of `layout`.

    Raises
    ------
    MemoryBudgetExceeded
        One block does not fit; the message names the smallest budget. Or the graph is too large for any budget.
    """
    if graph.pool_ints > _MOST_ENTRIES or graph.n_edges >= 1 << 31:
        raise MemoryBudgetExceeded(
            f"the CUDA engine takes graphs of fewer than {1 << 31:,} edges, and {_MOST_ENTRIES:,} numbers in all; this "
            f"one has {graph.n_edges:,} edges and takes {graph.pool_ints:,} numbers: use the engine cpu, or minimum "
            "sizes, which shrink the graph"
        )
    smallest = _plan_for_one_block(graph, n_blocks, mode, budget_bytes)
    if smallest.total_bytes > budget_bytes:
        needed = _smallest_budget(graph, n_blocks, mode, budget_bytes)
        raise MemoryBudgetExceeded(
            f"the CUDA engine needs {needed:,} bytes of device memory for this graph, its budget is {budget_bytes:,}: "
            f"{REMEDY}",
            needed_bytes=needed,
        )
    block_bytes = smallest.warp_bytes * layout.WALKING_WARPS_PER_BLOCK
    spare = max(0, budget_bytes - smallest.total_bytes - budget_bytes // _GROWTH_SHARE)
    plan = replace(smallest, n_blocks=min(n_blocks, 1 + spare // block_bytes))
    if plan.members:
        chunk = max(_MIN_CHUNK, min(_MAX_CHUNK, plan.members // (4 * plan.n_warps)))
        plan = replace(plan, chunk_members=min(plan.members, chunk))
    return plan


def _plan_for_one_block(graph: ReducedSizes, n_blocks: int, mode: int, budget_bytes: int) -> MemoryPlan:
    """Give everything but warps a share of the budget; arenas get their largest possible size if that is small."""
    words_share = budget_bytes // _WORDS_SHARE // (8 * n_blocks * layout.WALKING_WARPS_PER_BLOCK)
    # If columns are merged, the widest child merges its columns in the arena.
    merging = 6 * min(graph.max_row_degree, layout.MOST_MERGED)
    members = descriptors = expansion = 0
    if mode >= layout.SIZES:
        descriptors = max(layout.CHUNK_DESCRIPTORS, min(budget_bytes // 256, 1 << 25) // 64 * 64)
    if mode >= layout.MEMBERS:
        members = max(_MIN_CHUNK, min(budget_bytes // 32, 1 << 28))
        # No biclique has more members than the graph has vertices, so each fits a block.
        expansion = max(budget_bytes // _EXPANSION_SHARE, expansion_bytes(descriptors, graph.n_vertices))
    return MemoryPlan(
        n_blocks=1,
        n_rows=graph.n_rows,
        max_row_degree=graph.max_row_degree,
        words=whole_lines(
            max(min(4 * (graph.most_bitset_rows + layout.WORD_BITS), max(_FIRST_WORDS, words_share)), merging)
        ),
        pool=graph.pool_ints + max(1 << 16, min(64 * graph.wedges + (1 << 22), _pool_share(budget_bytes) // 4)),
        nodes=max(_MIN_NODES, min(_MAX_NODES, budget_bytes // 64 // (8 * layout.NODE_FIELDS + 4))),
        members=members,
        descriptors=descriptors,
        chunk_members=min(_MIN_CHUNK, members) if members else _MIN_CHUNK,
        preparation_bytes=preparation_bytes(graph.n_vertices) + graph.sorting_bytes,
        expansion_bytes=expansion,
        has_ids=mode > layout.COUNT,
    )


def _pool_share(budget_bytes: int) -> int:
    """Bytes of a budget for subgraphs besides the whole graph: an eighth, of a large budget a sixteenth.

    A short pool costs a pause each time it is full; below a few gigabytes fewer warps are cheaper.
    """
    return max(min(budget_bytes // 8, 4 * _LARGE_POOL), budget_bytes // 16)


def _smallest_budget(graph: ReducedSizes, n_blocks: int, mode: int, budget_bytes: int) -> int:
    """The smallest budget whose own plan for one block fits it: shares grow with it, and sum to less than it."""
    while (needed := _plan_for_one_block(graph, n_blocks, mode, budget_bytes).total_bytes) > budget_bytes:
        budget_bytes = needed
    return budget_bytes


def check_growth(plan: MemoryPlan, held_bytes: int, budget_bytes: int) -> MemoryPlan:
    """Return the plan, or refuse to grow past the budget.

    Parameters
    ----------
    plan : MemoryPlan
        After growing.
    held_bytes : int
        Bytes held beside it for a while.

    Raises
    ------
    MemoryBudgetExceeded
        The message says how much was needed.
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
    """Number of blocks of a plan that fit the budget beside the bytes held, at least one."""
    spare = budget_bytes - held_bytes - (plan.total_bytes - plan.n_warps * plan.warp_bytes)
    return max(1, min(plan.n_blocks, spare // (plan.warp_bytes * layout.WALKING_WARPS_PER_BLOCK)))


def with_larger_arenas(plan: MemoryPlan, needed: int, held_bytes: int, budget_bytes: int) -> MemoryPlan:
    """Plan arenas of `needed` words, and half as many again as before; fewer warps if they do not fit for all.

    Parameters
    ----------
    held_bytes : int
        Bytes of the tasks of all warps, and of waiting ones: they are held while there are no arenas.

    Raises
    ------
    MemoryBudgetExceeded
        The required arenas do not fit for one block.
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
    """Plan a pool half free once compacted, or as large as fits; fewer warps if less than a quarter is free.

    If the pool is replaced, a copy of its live part is held meanwhile.

    Parameters
    ----------
    used, n_nodes : int
        Entries and number of the nodes still needed.
    needed : int
        Entries of the largest node that did not fit.
    held_bytes : int
        Bytes of the tasks of all warps, and of waiting ones.

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
        nodes = max(2 * nodes, n_nodes + n_nodes // 2)
        held_bytes += plan.node_bytes
    wanted = replace(plan, pool=pool, nodes=nodes)
    if pool > plan.pool:
        held_bytes += 4 * used
    grown = _with_pool_that_fits(wanted, plan.pool, held_bytes, budget_bytes)
    enough = (used + needed) * _FREE_SHARE // (_FREE_SHARE - 1)
    if grown.pool < enough or grown.total_bytes > budget_bytes:
        # Fewer warps leave more room, and open fewer nodes at once.
        n_blocks = blocks_that_fit(replace(wanted, pool=enough), held_bytes, budget_bytes)
        n_blocks = max(n_blocks, plan.n_blocks // 2, 1)
        if used + needed > plan.pool:
            n_blocks = min(n_blocks, blocks_that_fit(replace(wanted, pool=used + needed), held_bytes, budget_bytes))
        grown = _with_pool_that_fits(replace(wanted, n_blocks=n_blocks), plan.pool, held_bytes, budget_bytes)
    if grown.pool < used + needed:
        # The refusal names the required bytes.
        grown = replace(wanted, n_blocks=1, pool=used + needed)
    return check_growth(grown, held_bytes if grown.pool > plan.pool else 0, budget_bytes)


def _with_pool_that_fits(plan: MemoryPlan, least: int, held_bytes: int, budget_bytes: int) -> MemoryPlan:
    """Return the plan with a pool that fits beside the bytes held, at most as planned and at least `least`."""
    room = (budget_bytes - held_bytes - (plan.total_bytes - 4 * plan.pool)) // 4
    return replace(plan, pool=max(least, min(plan.pool, room)))

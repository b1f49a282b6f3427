"""How much device memory a run takes, decided before anything is allocated. Needs no GPU library."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, replace

from mbe_stage.bicliques.cuda import layout as at
from mbe_stage.device import whole_lines
from mbe_stage.errors import MemoryBudgetExceeded

__all__ = [
    "PASSING_INTS",
    "REMEDY",
    "MemoryPlan",
    "ReducedSizes",
    "check_preparation",
    "expansion_bytes",
    "plan_memory",
    "preparation_bytes",
    "slots_for",
]

_FIRST_WORDS = 1 << 14
_WORDS_SHARE = 32
"""Of the budget, what arenas may take from the beginning: growing costs a pause."""
_MIN_CHUNK = 256
_MAX_CHUNK = 1 << 13
_MIN_NODES = 1 << 10
_MAX_NODES = 1 << 18
_LARGE_POOL = 1 << 28
_EXPANSION_SHARE = 8
"""Of the budget, what expanding bicliques takes."""
_GROWTH_SHARE = 4
"""Of the budget, what is not given to warps, so that arenas and pool can grow."""
_MOST_ENTRIES = (1 << 32) - 1
"""Of a node's piece of the pool: its parts are found by uint32 places, its edges counted in int32."""
PASSING_INTS = 1 << 14
"""Entries of the pool that are moved at a time where there is room for no more."""
REMEDY = "raise the memory budget, or use minimum sizes, which shrink the graph"


@dataclass(frozen=True, slots=True)
class ReducedSizes:
    """What the plan needs to know of a reduced graph.

    Attributes
    ----------
    n_vertices : int
        Of the user's graph, both sides.
    n_rows, n_columns, n_edges, max_row_degree, max_column_degree : int
    wedges : int
        Two-step paths from row to row.
    """

    n_vertices: int
    n_rows: int
    n_columns: int
    n_edges: int
    max_row_degree: int
    max_column_degree: int
    wedges: int

    @property
    def pool_ints(self) -> int:
        """Entries of the pool that the whole graph takes as node 0."""
        return whole_lines(2 * self.n_rows + 3 * self.n_columns + 3 + 2 * self.n_edges)

    @property
    def most_bitset_rows(self) -> int:
        """Rows that a bitset frame can see."""
        return min(self.n_rows, at.WORD_BITS * self.max_column_degree)


@dataclass(frozen=True, slots=True)
class MemoryPlan:
    """Sizes of everything on the device, in entries.

    Attributes
    ----------
    n_blocks : int
        Blocks of `layout.WALKING_WARPS_PER_BLOCK` warps.
    n_rows, max_row_degree : int
        Of the reduced graph.
    words : int
        Arena of one warp; grows when a subtree needs more.
    pool, nodes : int
        Room for subgraphs; grows likewise.
    members, descriptors, chunk_members : int
        Output buffer, and what a warp takes of it at a time. 0 where nothing is written.
    preparation_bytes : int
        What preparing the graph takes beside the graph itself.
    expansion_bytes : int
        What twin expansion takes, with the blocks that come of it. 0 where no members are written.
    quantum_seconds : float
        How long a launch works before the host looks in.
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

    @property
    def n_warps(self) -> int:
        """Warps that work at once."""
        return self.n_blocks * at.WALKING_WARPS_PER_BLOCK

    @property
    def ints(self) -> int:
        """Arena of ids of one warp: of no use where bicliques are only counted."""
        return at.WORD_BITS + (self.words if self.descriptors else 0)

    @property
    def warp_bytes(self) -> int:
        """Bytes of one warp's arenas and scratch."""
        arenas = 4 * self.words + 4 * self.ints
        fixed = 4 * at.MAX_DEPTH * at.FRAME_FIELDS + 8 * at.STATE_FIELDS + 4 * at.MAX_OWN_NODES
        return arenas + fixed + 12 * whole_lines(self.n_rows) + 4 * whole_lines(self.max_row_degree)

    @property
    def pool_bytes(self) -> int:
        """Bytes of the pool of subgraphs, and of what they pass through when they are moved."""
        return 4 * (self.pool + PASSING_INTS) + self.node_bytes

    @property
    def node_bytes(self) -> int:
        """Bytes of the table of subgraphs."""
        return (8 * at.NODE_FIELDS + 4) * self.nodes

    @property
    def output_bytes(self) -> int:
        """Bytes of the output buffer."""
        return 4 * self.members + 16 * self.descriptors

    @property
    def piece_members(self) -> int:
        """Most members of an expanded block: as many as `expansion_bytes` are enough for."""
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
    """What preparing a graph takes: the table of twins, a few numbers for each vertex, a sort of all of them."""
    return 12 * slots_for(n_vertices) + 64 * n_vertices


def expansion_bytes(n_slots: int, piece_members: int) -> int:
    """What expanding allocates at most for so many slots and members of a block: `room_for_sizes` and `expanded`.

    Both are of `twin_expansion`. The lengths of all lists and their running sums, tile by tile, for the whole run; two
    blocks, since whoever takes them holds one while the next is made; the numbers of one block's long lists. A biclique
    has two members at least.
    """
    lengths = 10 * n_slots + 120
    block = 4 * piece_members + 16 * (min(n_slots, piece_members // 2) + 1)
    return lengths + 2 * block + piece_members // 64 + 8


def check_preparation(n_vertices: int, budget_bytes: int) -> None:
    """Refuse a graph whose preparation alone is too much.

    Raises
    ------
    MemoryBudgetExceeded
        Says how much preparing takes.
    """
    needed = preparation_bytes(n_vertices)
    if needed > budget_bytes:
        raise MemoryBudgetExceeded(
            f"the CUDA engine needs {needed:,} bytes of device memory to prepare a graph of {n_vertices:,} vertices, "
            f"its budget is {budget_bytes:,}: raise the memory budget",
            needed_bytes=needed,
        )


def plan_memory(graph: ReducedSizes, n_blocks: int, mode: int, budget_bytes: int) -> MemoryPlan:
    """Sizes for a reduced graph.

    Parameters
    ----------
    graph : ReducedSizes
    n_blocks : int
        Most blocks that the device keeps resident; fewer are planned where memory is short.
    mode : int
        `layout.COUNTS`, `SIZES` or `MEMBERS`.
    budget_bytes : int

    Raises
    ------
    MemoryBudgetExceeded
        Not even one block fits; says the smallest budget that would do. Or the graph is larger than any budget helps.
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
    block_bytes = smallest.warp_bytes * at.WALKING_WARPS_PER_BLOCK
    spare = max(0, budget_bytes - smallest.total_bytes - budget_bytes // _GROWTH_SHARE)
    plan = replace(smallest, n_blocks=min(n_blocks, 1 + spare // block_bytes))
    if plan.members:
        chunk = max(_MIN_CHUNK, min(_MAX_CHUNK, plan.members // (4 * plan.n_warps)))
        plan = replace(plan, chunk_members=min(plan.members, chunk))
    return plan


def _plan_for_one_block(graph: ReducedSizes, n_blocks: int, mode: int, budget_bytes: int) -> MemoryPlan:
    """Everything but warps takes its share of the budget; arenas take what they may need if that is a small one."""
    words_share = budget_bytes // _WORDS_SHARE // (8 * n_blocks * at.WALKING_WARPS_PER_BLOCK)
    # The widest child merges its columns in the arena, as far as columns are merged.
    merging = 6 * min(graph.max_row_degree, at.MOST_MERGED)
    members = descriptors = expansion = 0
    if mode > at.COUNTS:
        descriptors = max(at.CHUNK_DESCRIPTORS, min(budget_bytes // 256, 1 << 25) // 64 * 64)
    if mode >= at.MEMBERS:
        members = max(_MIN_CHUNK, min(budget_bytes // 32, 1 << 28))
        # No biclique has more members than the graph has vertices: each fits a block.
        expansion = max(budget_bytes // _EXPANSION_SHARE, expansion_bytes(descriptors, graph.n_vertices))
    return MemoryPlan(
        n_blocks=1,
        n_rows=graph.n_rows,
        max_row_degree=graph.max_row_degree,
        words=whole_lines(
            max(min(4 * (graph.most_bitset_rows + at.WORD_BITS), max(_FIRST_WORDS, words_share)), merging)
        ),
        pool=graph.pool_ints + max(1 << 16, min(64 * graph.wedges + (1 << 22), _pool_share(budget_bytes) // 4)),
        nodes=max(_MIN_NODES, min(_MAX_NODES, budget_bytes // 64 // (8 * at.NODE_FIELDS + 4))),
        members=members,
        descriptors=descriptors,
        chunk_members=min(_MIN_CHUNK, members) if members else _MIN_CHUNK,
        preparation_bytes=preparation_bytes(graph.n_vertices),
        expansion_bytes=expansion,
    )


def _pool_share(budget_bytes: int) -> int:
    """Bytes of a budget that go to subgraphs beside the whole graph: an eighth, of a large budget a sixteenth.

    A pool that is short costs a pause each time it is full; below a few gigabytes warps are cheaper to do without.
    """
    return max(min(budget_bytes // 8, 4 * _LARGE_POOL), budget_bytes // 16)


def _smallest_budget(graph: ReducedSizes, n_blocks: int, mode: int, budget_bytes: int) -> int:
    """The first budget whose own plan for one block fits it: shares grow with it, and add up to less than it."""
    while (needed := _plan_for_one_block(graph, n_blocks, mode, budget_bytes).total_bytes) > budget_bytes:
        budget_bytes = needed
    return budget_bytes

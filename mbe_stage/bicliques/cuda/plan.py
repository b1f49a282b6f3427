"""How much device memory a run takes, decided before anything is allocated. Needs no GPU library."""

from __future__ import annotations

from dataclasses import dataclass, replace

from mbe_stage.bicliques.cuda import layout as at
from mbe_stage.errors import MemoryBudgetExceeded

__all__ = ["GraphFacts", "MemoryPlan", "plan_memory", "whole_lines"]

_FIRST_WORDS = 1 << 14
_MIN_CHUNK = 256
_MAX_CHUNK = 1 << 13
EXPANSION_SHARE = 8
"""Of the budget, what a block of expanded bicliques and its unsorted copy take."""


@dataclass(frozen=True, slots=True)
class GraphFacts:
    """What the plan needs to know of a reduced graph.

    Attributes
    ----------
    n_rows, n_columns, n_edges, max_row_degree : int
    wedges : int
        Two-step paths from row to row.
    widest_word_wedges : int
        Sum of the 64 largest column degrees: no word frame sees more rows.
    """

    n_rows: int
    n_columns: int
    n_edges: int
    max_row_degree: int
    wedges: int
    widest_word_wedges: int

    @property
    def pool_ints(self) -> int:
        """Entries of the pool that the whole graph takes as node 0."""
        return whole_lines(2 * self.n_rows + 2 * self.n_columns + 2 + 2 * self.n_edges)


@dataclass(frozen=True, slots=True)
class MemoryPlan:
    """Sizes of everything on the device, in entries.

    Attributes
    ----------
    n_blocks : int
        Blocks of `layout.WARPS_PER_BLOCK` warps.
    n_rows, max_row_degree : int
        Of the reduced graph.
    words : int
        Arena of one warp; grows when a subtree needs more.
    pool, nodes : int
        Room for sparse nodes; grows likewise.
    members, descriptors, chunk_members : int
        Output buffer, and what a warp takes of it at a time. 0 where nothing is written.
    slice_seconds : float
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
    slice_seconds: float = 0.5

    @property
    def n_warps(self) -> int:
        """Warps that work at once."""
        return self.n_blocks * at.WARPS_PER_BLOCK

    @property
    def warp_bytes(self) -> int:
        """Bytes of one warp's arenas and scratch."""
        arenas = 8 * self.words + 4 * (self.words + at.WORD_BITS)
        fixed = 8 * at.MAX_DEPTH * at.FRAME_FIELDS + 8 * at.STATE_FIELDS + 4 * at.MAX_OWN_NODES
        return arenas + fixed + 16 * whole_lines(self.n_rows) + 4 * whole_lines(self.max_row_degree)

    @property
    def pool_bytes(self) -> int:
        """Bytes of the pool of sparse nodes."""
        return 4 * self.pool + (8 * at.NODE_FIELDS + 4) * self.nodes

    @property
    def output_bytes(self) -> int:
        """Bytes of the output buffer."""
        return 4 * self.members + 16 * self.descriptors

    @property
    def total_bytes(self) -> int:
        """Bytes of everything."""
        return self.n_warps * self.warp_bytes + self.pool_bytes + self.output_bytes

    def describe(self) -> str:
        """One line per part, for people."""
        return (
            f"{self.n_warps} warps x {self.warp_bytes:,} B\nsparse nodes {self.pool_bytes:,} B\n"
            f"output {self.output_bytes:,} B\ntotal {self.total_bytes:,} B"
        )


def whole_lines(n: int) -> int:
    """So many entries that they fill cache lines, whatever their type.

    Two warps must not share a line that one of them changes with atomics: the other's reading puts it back into the
    multiprocessor's cache while an atomic is on its way, and the first would read what was before.
    """
    return -(-n // at.ALIGNMENT) * at.ALIGNMENT


def plan_memory(graph: GraphFacts, n_blocks: int, mode: int, budget_bytes: int) -> MemoryPlan:
    """Sizes for a reduced graph.

    Parameters
    ----------
    graph : GraphFacts
    n_blocks : int
        Most blocks that the device keeps resident; fewer are planned where memory is short.
    mode : int
        `layout.COUNTS`, `SIZES` or `MEMBERS`.
    budget_bytes : int

    Raises
    ------
    MemoryBudgetExceeded
        Not even one block fits; says how much it takes.
    """
    words = min(4 * (min(graph.n_rows, graph.widest_word_wedges) + at.WORD_BITS), _FIRST_WORDS)
    members = descriptors = 0
    if mode > at.COUNTS:
        descriptors = max(at.CHUNK_DESCRIPTORS, min(budget_bytes // 64, 1 << 25) // 64 * 64)
    if mode == at.MEMBERS:
        members = max(_MIN_CHUNK, min(budget_bytes // 16, 1 << 28))
    plan = MemoryPlan(
        n_blocks=n_blocks,
        n_rows=graph.n_rows,
        max_row_degree=graph.max_row_degree,
        words=whole_lines(words),
        pool=graph.pool_ints + max(1 << 16, min(64 * graph.wedges + (1 << 22), budget_bytes // 64)),
        nodes=1 << 16,
        members=members,
        descriptors=descriptors,
        chunk_members=_MIN_CHUNK,
    )
    # Expanding what a slice wrote takes a share of its own.
    expansion = budget_bytes // EXPANSION_SHARE if members else 0
    left = budget_bytes - plan.pool_bytes - plan.output_bytes - expansion
    fitting = left // (plan.warp_bytes * at.WARPS_PER_BLOCK)
    if fitting < 1:
        smallest = replace(plan, n_blocks=1).total_bytes
        raise MemoryBudgetExceeded(
            f"the CUDA engine needs {smallest:,} bytes of device memory for this graph, its budget is "
            f"{budget_bytes:,}: raise the memory budget, or use minimum sizes, which shrink the graph"
        )
    plan = replace(plan, n_blocks=min(n_blocks, fitting))
    if members:
        plan = replace(
            plan, chunk_members=min(members, max(_MIN_CHUNK, min(_MAX_CHUNK, members // (4 * plan.n_warps))))
        )
    return plan

"""What a search takes of device memory, before anything is allocated. Needs neither numba-cuda nor a GPU."""

from __future__ import annotations

from dataclasses import dataclass

from mbe_stage.errors import MemoryBudgetExceeded
from mbe_stage.pq_counts.cuda import layout as at

__all__ = ["WARPS_PER_BLOCK", "KeyLayout", "MemoryPlan", "SearchSizes", "key_layout", "plan_memory"]

WARPS_PER_BLOCK = 8
_NODES = 1 << 16
_MOST_POOL_WORDS = 1 << 27
_LEAST_POOL_WORDS = 1 << 20
_FULL = 0.75


@dataclass(frozen=True, slots=True)
class SearchSizes:
    """What the plan depends on.

    Attributes
    ----------
    n_rows, n_edges, max_row_degree, max_column_degree : int
        Of the core.
    most_rows, most_columns : int
        The largest sizes that are asked for.
    """

    n_rows: int
    n_edges: int
    max_row_degree: int
    max_column_degree: int
    most_rows: int
    most_columns: int

    @property
    def levels(self) -> int:
        """Of a warp's stack at most: each but the last has something held below it."""
        return min(at.LEVELS, self.most_rows + self.most_columns)


@dataclass(frozen=True, slots=True)
class KeyLayout:
    """Where in a key optional rows, held columns and optional columns begin; held rows come first."""

    optional_rows: int
    held_columns: int
    optional_columns: int


def key_layout(sizes: SearchSizes) -> KeyLayout:
    """Bits for every number of a kind of leaves: no leaf has more rows than a column has, nor the other way round.

    Raises
    ------
    MemoryBudgetExceeded
        They do not fit one key.
    """
    held_rows, rows = (n.bit_length() for n in (min(sizes.most_rows, sizes.max_column_degree), sizes.max_column_degree))
    held_columns, columns = (
        n.bit_length() for n in (min(sizes.most_columns, sizes.max_row_degree), sizes.max_row_degree)
    )
    # Sums of what is held and optional stay below; one bit more where a node's numbers are added up before that shows.
    n_bits = held_rows + held_columns + rows + columns + 4
    if n_bits > at.KEY_BITS:
        raise MemoryBudgetExceeded(
            f"sizes of up to {sizes.most_rows:,} and {sizes.most_columns:,} vertices in a graph of degrees up to "
            f"{sizes.max_column_degree:,} and {sizes.max_row_degree:,} take keys of {n_bits} bits, and the CUDA engine "
            f"has {at.KEY_BITS}: use the engine cpu"
        )
    return KeyLayout(held_rows + 1, held_rows + rows + 2, held_rows + rows + held_columns + 3)


@dataclass(frozen=True, slots=True)
class MemoryPlan:
    """What is allocated.

    Attributes
    ----------
    n_blocks : int
    scratch_rows, scratch_words : int
        Of each warp: rows that are counted, and words of a mask of columns.
    levels : int
        Nodes that each warp may need when a quantum ends.
    n_nodes : int
        Places for others.
    pool_words : int
        Without those of the warps' frames.
    n_kinds : int
        Places in the table of leaves, a power of two.
    narrow : int
        Rows and columns of a frame at most.
    quantum_seconds : float
    """

    n_blocks: int
    scratch_rows: int
    scratch_words: int
    levels: int
    n_nodes: int
    pool_words: int
    n_kinds: int
    narrow: int = at.FRAME_WIDTH
    quantum_seconds: float = 0.5

    @property
    def n_warps(self) -> int:
        """Of all blocks."""
        return self.n_blocks * WARPS_PER_BLOCK

    @property
    def warp_bytes(self) -> int:
        """What a warp has to itself."""
        scratch = 8 * self.scratch_rows + 4 * self.scratch_words + 16
        return scratch + 4 * at.MATRIX_WORDS + 8 * at.NODE_FIELDS * self.levels

    @property
    def total_bytes(self) -> int:
        """Of everything."""
        shared = 8 * at.NODE_FIELDS * self.n_nodes + 4 * self.pool_words + 16 * self.n_kinds
        return shared + self.n_warps * self.warp_bytes + 8 * at.CONTROL_WORDS

    @property
    def credit_limit(self) -> int:
        """Kinds that may be found within a quantum."""
        return int(_FULL * self.n_kinds)


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
    needed = _smallest_budget(sizes)
    raise MemoryBudgetExceeded(
        f"counting needs {needed:,} bytes of device memory, its budget is {budget:,}: raise it (device_memory_bytes), "
        "or use the engine cpu",
        needed_bytes=needed,
    )


def _smallest_budget(sizes: SearchSizes) -> int:
    """Bytes that are enough for one block; a larger budget is planned for with a larger pool."""
    needed = 0
    while (total := _plan(sizes, 1, needed).total_bytes) > needed:
        needed = total
    return needed


def _plan(sizes: SearchSizes, n_blocks: int, budget: int) -> MemoryPlan:
    n_warps = n_blocks * WARPS_PER_BLOCK
    # A wide node's leaves differ in one number, of rows or of columns.
    largest = 4 + max(sizes.max_row_degree, sizes.max_column_degree)
    n_kinds = 1 << int((n_warps * at.CREDIT + largest) / _FULL).bit_length()
    pool_words = max(_LEAST_POOL_WORDS, min(_MOST_POOL_WORDS, budget // 16, 16 * sizes.n_edges))
    return MemoryPlan(
        n_blocks=n_blocks,
        scratch_rows=_whole_lines(sizes.n_rows),
        scratch_words=_whole_lines((sizes.max_row_degree + 31) // 32),
        levels=sizes.levels,
        n_nodes=_NODES,
        pool_words=_whole_lines(pool_words),
        n_kinds=n_kinds,
    )


def _whole_lines(n: int) -> int:
    """Entries of 32 bits in as many cache lines as `n` of them take."""
    return -(-n // 32) * 32

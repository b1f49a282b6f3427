"""Plan the device memory of a search before anything is allocated. Needs neither numba-cuda nor a GPU."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from mbe_stage.device import WARPS_PER_BLOCK, whole_lines
from mbe_stage.errors import MemoryBudgetExceeded
from mbe_stage.pq_counts.cuda import layout
from mbe_stage.pq_counts.partition import Prices
from mbe_stage.search.cuda.plan import PoolPlan, budget_refusal

_MOST_NODES, _LEAST_NODES = 1 << 16, 1 << 10
_MOST_POOL_WORDS, _ROOMY_POOL_WORDS = 1 << 27, 1 << 20
_FULL = 0.75
# Memory per node, pool word and slot. Half of the nodes, and an eighth of the pool, exist twice while nodes are moved
# between two quanta. Filled slots are listed in further memory.
_NODE_BYTES, _MORE_POOL_WORD_BYTES, _SLOT_BYTES = 12 * layout.NODE_FIELDS + 16, 5, 16 + 8
_POOL_PART, _NODES_PART = 4, 16
"""The pool and the nodes each get one part in this many of the budget, if it is small."""
_PATHS_OF_A_PART = 2048
"""Fixed time of a part, for memory and launches, as a number of paths of a warp: an estimate of two milliseconds."""


@dataclass(frozen=True, slots=True)
class SearchSizes:
    """Sizes that the plan depends on.

    Attributes
    ----------
    n_rows, n_edges, max_row_degree, max_column_degree : int
        Sizes of the core, or of the part to search.
    max_matrix_rows, max_node_words : int
        As in `partition.PartSizes`.
    most_rows, most_columns : int
        The largest wanted sizes.
    is_windowed : bool
        True if warps have no array of all rows. Then half of the remaining memory is for the pool: fewer warps and
        fewer quanta.
    more_warp_bytes, own_words : int
        As in `MemoryPlan`.
    """

    n_rows: int
    n_edges: int
    max_row_degree: int
    max_column_degree: int
    max_matrix_rows: int
    max_node_words: int
    most_rows: int
    most_columns: int
    is_windowed: bool = False
    more_warp_bytes: int = 0
    own_words: int = layout.MATRIX_WORDS

    @property
    def stack_entries(self) -> int:
        """Most entries of a warp's stack: each entry but the last holds a vertex."""
        return min(layout.STACK_ENTRIES, self.most_rows + self.most_columns)


@dataclass(frozen=True, slots=True)
class KeyLayout:
    """First bits of optional rows, held columns and optional columns in a key; held rows come first."""

    optional_rows: int
    held_columns: int
    optional_columns: int

    def numbers(self, keys: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Return held and optional rows, held and optional columns of some keys."""
        first, second, third = self.optional_rows, self.held_columns, self.optional_columns
        return (
            keys & ((1 << first) - 1),
            keys >> first & ((1 << (second - first)) - 1),
            keys >> second & ((1 << (third - second)) - 1),
            keys >> third,
        )


def key_layout(sizes: SearchSizes) -> KeyLayout:
    """Return the bits for each number of a signature: no leaf has more rows than some column, or columns than some row.

    Raises
    ------
    MemoryBudgetExceeded
        The numbers do not fit one key.
    """
    held_rows, rows = (n.bit_length() for n in (min(sizes.most_rows, sizes.max_column_degree), sizes.max_column_degree))
    held_columns, columns = (
        n.bit_length() for n in (min(sizes.most_columns, sizes.max_row_degree), sizes.max_row_degree)
    )
    # One more bit for each number, since numbers of a node are added before they are checked.
    n_bits = held_rows + held_columns + rows + columns + 4
    if n_bits > layout.KEY_BITS:
        raise MemoryBudgetExceeded(
            f"sizes of up to {sizes.most_rows:,} and {sizes.most_columns:,} vertices in a graph of degrees up to "
            f"{sizes.max_column_degree:,} and {sizes.max_row_degree:,} take keys of {n_bits} bits, and the CUDA engine "
            f"has {layout.KEY_BITS}: use the engine cpu"
        )
    return KeyLayout(held_rows + 1, held_rows + rows + 2, held_rows + rows + held_columns + 3)


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryPlan(PoolPlan):
    """Sizes of the allocated memory: the pool, and the data of counting.

    Attributes
    ----------
    scratch_rows, matrix_rows, scratch_words : int
        Sizes per warp: rows with a counter, rows on its list, words of a mask of columns.
    node_words : int
        Words of the largest node, in whole cache lines.
    n_slots : int
        Slots in the table of leaves, a power of two.
    more_warp_bytes : int
        Further bytes of a warp, besides the bytes of every search.
    """

    scratch_rows: int
    matrix_rows: int
    scratch_words: int
    node_words: int
    n_slots: int
    more_warp_bytes: int = 0

    @property
    def warp_bytes(self) -> int:
        """Bytes per warp."""
        return 4 * (self.scratch_rows + self.matrix_rows + self.scratch_words) + self.own_bytes + self.more_warp_bytes

    @property
    def total_bytes(self) -> int:
        """Bytes of all allocated memory."""
        shared = _NODE_BYTES * self.n_nodes + 4 * (self.pool_words + self.moved_words) + _SLOT_BYTES * self.n_slots
        return shared + self.n_warps * self.warp_bytes + 8 * (layout.CONTROL_WORDS + layout.N_SETTINGS)

    @property
    def moved_words(self) -> int:
        """Words of the pool that exist twice while nodes are moved between quanta."""
        return min(self.pool_words, max(self.node_words, self.pool_words // 8))

    @property
    def n_roots_at_once(self) -> int:
        """Number of roots that fit into an empty pool, each with its matrix and its node."""
        return max(1, self.pool_words // max(1, 2 * self.node_words))

    @property
    def slot_limit(self) -> int:
        """Largest number of signatures in a quantum."""
        return int(_FULL * self.n_slots)


def plan_memory(sizes: SearchSizes, n_blocks: int, budget: int) -> MemoryPlan:
    """Plan within a budget, with as many blocks as fit, at most `n_blocks`.

    Raises
    ------
    MemoryBudgetExceeded
        One block does not fit; `needed_bytes` is enough.
    """
    least = _least(sizes)
    left = budget - least.total_bytes
    if left < 0:
        raise budget_refusal("counting", least.total_bytes, budget)
    reserve = left // 2 if sizes.is_windowed else min(_reserve(budget), left // 2)
    n_nodes = least.n_nodes + reserve * _POOL_PART // (_POOL_PART + _NODES_PART) // _NODE_BYTES
    pool_words = reserve * _NODES_PART // (_POOL_PART + _NODES_PART) // _MORE_POOL_WORD_BYTES // 32 * 32
    most_words = whole_lines(max(least.pool_words, min(_MOST_POOL_WORDS, max(_ROOMY_POOL_WORDS, 16 * sizes.n_edges))))
    pool_words = min(most_words, least.pool_words + pool_words)
    roomy = replace(least, n_nodes=min(_MOST_NODES, n_nodes), pool_words=pool_words)
    most_bytes = _with_blocks(roomy, sizes, n_blocks).total_bytes
    fewest, most = (n_blocks if most_bytes <= budget else 1), n_blocks
    while fewest < most:
        blocks = (fewest + most + 1) // 2
        if _with_blocks(roomy, sizes, blocks).total_bytes <= budget:
            fewest = blocks
        else:
            most = blocks - 1
    return _with_blocks(roomy, sizes, fewest)


def least_bytes(sizes: SearchSizes) -> int:
    """Return the smallest budget for `plan_memory`."""
    return _least(sizes).total_bytes


def bytes_with_blocks(sizes: SearchSizes, n_blocks: int) -> int:
    """Return a budget for which `plan_memory` plans this number of blocks."""
    return (
        _with_blocks(_least(sizes), sizes, n_blocks).total_bytes
        * (_POOL_PART * _NODES_PART)
        // (_POOL_PART * _NODES_PART - _POOL_PART - _NODES_PART)
    )


def prices_of(sizes: SearchSizes, n_blocks: int, budget: int) -> Prices:
    """Return prices for the parts of a graph: `plan_memory` succeeds for parts that fit the budget by these prices.

    Parameters
    ----------
    sizes : SearchSizes
        Sizes of the whole graph.
    n_blocks : int
        Number of resident blocks.
    budget : int
    """
    nothing = replace(sizes, n_rows=0, n_edges=0, max_row_degree=0, max_column_degree=0, max_matrix_rows=0)
    least = _least(replace(nothing, max_node_words=0))
    # The number of slots is a power of two, up to twice the needed number.
    slot_bytes = int(2 * _SLOT_BYTES / _FULL) + 1
    reserved_bytes = slot_bytes * layout.SLOTS_AT_ONCE
    return Prices(
        budget=budget,
        fixed=least.total_bytes - WARPS_PER_BLOCK * least.warp_bytes - _SLOT_BYTES * least.n_slots + 8 * slot_bytes,
        reserve=_reserve(budget),
        degree=slot_bytes,
        node_word=3 * 4,
        warp=least.warp_bytes + reserved_bytes,
        warp_row=4,
        warp_matrix_row=4,
        warp_word=4,
        least_warps=WARPS_PER_BLOCK,
        most_warps=WARPS_PER_BLOCK * n_blocks,
        paths=_PATHS_OF_A_PART,
    )


def _reserve(budget: int) -> int:
    return budget // _POOL_PART + budget // _NODES_PART


def _least(sizes: SearchSizes) -> MemoryPlan:
    """Plan one block, with a pool for a node and any of its children, which is enough to finish every node."""
    plan = MemoryPlan(
        n_blocks=1,
        # At least one cache line, so that no array is empty.
        scratch_rows=32 if sizes.is_windowed else whole_lines(sizes.n_rows),
        matrix_rows=whole_lines(sizes.max_matrix_rows),
        scratch_words=whole_lines((sizes.max_row_degree + 31) // 32),
        stack_entries=sizes.stack_entries,
        n_nodes=_LEAST_NODES,
        pool_words=2 * whole_lines(sizes.max_node_words),
        node_words=whole_lines(sizes.max_node_words),
        n_slots=0,
        more_warp_bytes=sizes.more_warp_bytes,
        own_words=sizes.own_words,
        narrow=layout.FRAME_WIDTH,
    )
    return _with_blocks(plan, sizes, 1)


def _with_blocks(plan: MemoryPlan, sizes: SearchSizes, n_blocks: int) -> MemoryPlan:
    """Return the plan for this number of blocks, with the slots that their warps need."""
    # The leaves of a wide node differ in one number, a row's columns or a column's rows
    # (`submatrix_forms._count_submatrix`). No node has more columns than its root, nor more rows than its root's
    # matrix.
    largest = 4 + min(sizes.max_row_degree, sizes.max_matrix_rows)
    n_slots = 1 << int((n_blocks * WARPS_PER_BLOCK * layout.SLOTS_AT_ONCE + largest) / _FULL).bit_length()
    return replace(plan, n_blocks=n_blocks, n_slots=n_slots)

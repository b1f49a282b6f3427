"""Maximal closed itemsets, and the cover relation of closed itemsets.

Let a closed set C have the transactions T, and let i be an item outside C. The transactions in T that contain i are
exactly those of the smallest closed superset of C with i. One pass over T counts these transactions for every item, and
sums random numbers that identify them. So the superset is looked up by its sum, and no closure is computed.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import int64
from scipy.sparse import csr_array

from mbe_stage.bicliques.results import BicliqueBlock, BicliqueTable
from mbe_stage.graphs.bipartite import BipartiteCSR
from mbe_stage.ragged import long_offsets
from mbe_stage.runtime.compile_ahead import CompileStep, compile_ahead
from mbe_stage.runtime.jit import INTS, LONGS, WORDS, compiled, steps_of

# Closed sets per call of compiled code or matrix product; Ctrl-C takes effect between calls.
_AT_ONCE = 256


def rows_of(offsets: np.ndarray, members: np.ndarray, n: int) -> csr_array:
    """Return lists of members below `n` as the rows of a matrix of ones, int32."""
    return csr_array((np.ones(members.size, np.int32), members, offsets), (offsets.size - 1, n))


def maximal_of(items: csr_array, block: Any, least: int) -> BicliqueBlock:
    """Return the closed sets of a block that have no superset with `least` transactions, without their transactions.

    Parameters
    ----------
    items : csr_array
        The items of each transaction, from `rows_of`.
    block : BicliqueBlock
        Closed sets with all members.
    """
    offsets, kept = long_offsets(block.left_sizes), np.zeros(len(block), np.bool_)
    for first in range(0, kept.size, _AT_ONCE):
        part = offsets[first : first + _AT_ONCE + 1]
        rows = block.left_members[part[0] : part[-1]]
        counts = rows_of(part - part[0], rows, items.shape[0]) @ items
        # The items of a closed set are in all its transactions. A maximal set has no others in enough of them.
        n_enough = np.add.reduceat(counts.data >= least, counts.indptr[:-1], dtype=np.int64)
        kept[first : first + _AT_ONCE] = n_enough == block.right_sizes[first : first + _AT_ONCE]
    sizes, members = block.right_sizes, block.right_members[np.repeat(kept, block.right_sizes)]
    n_kept = int(np.count_nonzero(kept))
    return BicliqueBlock(n_kept, block.left_sizes[kept], sizes[kept], None, members, block.work_done)


def covers(graph: BipartiteCSR, closed: BicliqueTable, least: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """Return the cover relation of closed sets: rows of the smaller and of the larger set of each pair.

    Parameters
    ----------
    graph : BipartiteCSR
        Transactions are left, items right.
    closed : BicliqueTable
        All closed sets with at least `least` transactions, in any order. It may also have the sets with no items or no
        transactions, to include them.

    Examples
    --------
    >>> from mbe_stage import enumerate_bicliques
    >>> graph = BipartiteCSR.from_edges([0, 0, 1], [0, 1, 1])
    >>> table = enumerate_bicliques(graph, engine="reference")
    >>> [(table[a][1].tolist(), table[b][1].tolist()) for a, b in zip(*covers(graph, table), strict=True)]
    [([1], [0, 1])]
    """
    compile_ahead(compile_steps())
    n, seed = len(closed), 0
    while True:
        numbers = np.random.default_rng(seed).integers(0, 2**64, graph.n_left, np.uint64)
        sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum(numbers[closed.left_members], dtype=np.uint64)])
        hashes = sums[closed.left_offsets[1:]] - sums[closed.left_offsets[:-1]]
        order = np.argsort(hashes)
        if not (hashes[order][1:] == hashes[order][:-1]).any():
            break
        # Two sets have the same sum by chance: try other random numbers.
        seed += 1
    sizes = np.diff(closed.right_offsets)
    known = numbers, hashes[order], sizes[order], graph.n_right
    smaller, ranks = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    for first in range(0, n, _AT_ONCE):
        part = closed.left_offsets[first : first + _AT_ONCE + 1]
        rows = graph.left_offsets, graph.left_members, part, closed.left_members
        pairs = _covers(*rows, sizes[first : first + _AT_ONCE], least, *known)
        smaller.append(pairs[::2] + first)
        ranks.append(pairs[1::2])
    return np.concatenate(smaller), order[np.concatenate(ranks)]


def compile_steps() -> tuple[CompileStep, ...]:
    """Return the steps to compile the functions of this module."""
    return steps_of(_covers)


@compiled(LONGS, INTS, LONGS, INTS, LONGS, int64, WORDS, WORDS, LONGS, int64)
def _covers(row_offsets, row_items, starts, transactions, own_sizes, least, numbers, hashes, sizes, n_items):
    """Return the covers of some sets, as alternating numbers of the set and ranks of its cover by hash.

    Parameters
    ----------
    row_offsets, row_items : int64, int32
        The items of each transaction.
    starts, transactions : int64, int32
        The transactions of each set.
    own_sizes : int64
        Number of items of each set.
    least : int
    numbers : (n_rows,) uint64
    hashes, sizes : (n,) uint64, int64
        The sums of the random numbers of all sets, ascending, and their numbers of items.
    n_items : int
    """
    counts, sums, n_more = np.zeros(n_items, np.int64), np.zeros(n_items, np.uint64), np.zeros(sizes.size, np.int64)
    pairs = np.empty(1024, np.int64)
    touched = np.empty(counts.size, np.int64)
    n_pairs = 0
    for i in range(starts.size - 1):
        support, n_touched = starts[i + 1] - starts[i], 0
        for k in range(starts[i], starts[i + 1]):
            row = transactions[k]
            for j in range(row_offsets[row], row_offsets[row + 1]):
                counts[row_items[j]] += 1
                sums[row_items[j]] += numbers[row]
        for k in range(starts[i], starts[i + 1]):
            row = transactions[k]
            for j in range(row_offsets[row], row_offsets[row + 1]):
                item = row_items[j]
                if least <= counts[item] < support:
                    larger = np.searchsorted(hashes, sums[item])
                    touched[n_touched] = larger
                    n_touched += n_more[larger] == 0
                    n_more[larger] += 1
                    # The superset covers the set if all its additional items have this same sum.
                    if n_more[larger] == sizes[larger] - own_sizes[i]:
                        if n_pairs == pairs.size:
                            grown = np.empty(2 * n_pairs, np.int64)
                            grown[:n_pairs] = pairs
                            pairs = grown
                        pairs[n_pairs] = i
                        pairs[n_pairs + 1] = larger
                        n_pairs += 2
                counts[item] = 0
                sums[item] = 0
        for k in range(n_touched):
            n_more[touched[k]] = 0
    return pairs[:n_pairs].copy()

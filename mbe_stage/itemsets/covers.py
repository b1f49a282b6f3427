"""Closed itemsets that one more item leads to: maximal ones, and the cover relation.

A closed set C has the transactions T. With an item i outside C, the transactions with i, a part of T, are those of the
smallest closed superset that holds i. One pass over T gives the number of these transactions for every item, and the
sum of their random numbers, by which the superset is found: no closure is computed.
"""

from __future__ import annotations

import numpy as np
from numba import int64

from mbe_stage.bicliques.results import BicliqueTable
from mbe_stage.graphs.bipartite import BipartiteCSR
from mbe_stage.runtime.compile_ahead import CompileStep, compile_ahead
from mbe_stage.runtime.jit import FLAGS, INTS, LONGS, WORDS, compiled, steps_of

# Closed sets in one call of compiled code: Ctrl-C takes effect after it.
_AT_ONCE = 1024


def are_maximal(graph: BipartiteCSR, left_sizes: np.ndarray, left_members: np.ndarray, least: int) -> np.ndarray:
    """Return whether no superset of each closed set has `least` transactions: (n,) bool.

    Parameters
    ----------
    graph : BipartiteCSR
        Transactions are left, items right.
    left_sizes, left_members : int32
        The transactions of the closed sets.
    """
    compile_ahead(compile_steps())
    offsets = np.concatenate([[0], np.cumsum(left_sizes, dtype=np.int64)])
    flags, scratch = np.zeros(left_sizes.size, np.bool_), np.zeros(graph.n_right, np.int64)
    for first in range(0, flags.size, _AT_ONCE):
        part = offsets[first : first + _AT_ONCE + 1]
        _are_maximal(graph.left_offsets, graph.left_members, part, left_members, least, scratch, flags[first:])
    return flags


def covers(graph: BipartiteCSR, closed: BicliqueTable, least: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """Return the cover relation of closed sets: for each pair the smaller and the larger set, by row, in this order.

    Parameters
    ----------
    graph : BipartiteCSR
        Transactions are left, items right.
    closed : BicliqueTable
        All closed sets with at least `least` transactions, in any order; also those with no items or no transactions,
        if they are wanted.

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
        # Two sets of transactions with one sum: with other numbers they differ.
        seed += 1
    sizes, ordered = np.diff(closed.right_offsets), hashes[order]
    counts, item_sums = np.zeros(graph.n_right, np.int64), np.zeros(graph.n_right, np.uint64)
    n_items = np.zeros(n + 1, np.int64)
    found: list[np.ndarray] = []
    for first in range(0, n, _AT_ONCE):
        part = closed.left_offsets[first : first + _AT_ONCE + 1]
        rows = graph.left_offsets, graph.left_members, part, closed.left_members
        known = numbers, ordered, order, sizes
        found.append(_covers(*rows, first, least, *known, counts, item_sums, n_items))
    pairs = np.concatenate(found) if found else np.empty(0, np.int64)
    return pairs[::2], pairs[1::2]


def compile_steps() -> tuple[CompileStep, ...]:
    """Compile the functions of this module."""
    return steps_of(_are_maximal, _covers)


@compiled(LONGS, INTS, LONGS, INTS, int64, LONGS, FLAGS)
def _are_maximal(row_offsets, row_items, starts, transactions, least, counts, flags):
    """See `are_maximal`; `counts` is zero before and after."""
    for i in range(starts.size - 1):
        support = starts[i + 1] - starts[i]
        for k in range(starts[i], starts[i + 1]):
            row = transactions[k]
            for j in range(row_offsets[row], row_offsets[row + 1]):
                counts[row_items[j]] += 1
        is_maximal = True
        for k in range(starts[i], starts[i + 1]):
            row = transactions[k]
            for j in range(row_offsets[row], row_offsets[row + 1]):
                is_maximal &= not least <= counts[row_items[j]] < support
                counts[row_items[j]] = 0
        flags[i] = is_maximal


@compiled(LONGS, INTS, LONGS, INTS, int64, int64, WORDS, WORDS, LONGS, LONGS, LONGS, WORDS, LONGS)
def _covers(
    row_offsets, row_items, starts, transactions, first, least, numbers, hashes, order, sizes, counts, sums, n_items
):
    """The covers of the sets from `first` on, as `covers`, one after the other.

    Parameters
    ----------
    row_offsets, row_items : int64, int32
        The items of each transaction.
    starts, transactions : int64, int32
        The transactions of the sets from `first` on.
    least : int
    numbers : (n_rows,) uint64
    hashes, order : (n,) uint64, int64
        The sums of the numbers of all sets, ascending, and their rows.
    sizes : (n,) int64
        Items of each set.
    counts, sums, n_items : int64, uint64, int64
        Scratch for items and for sets: zeros before and after.
    """
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
                    larger = order[np.searchsorted(hashes, sums[item])]
                    touched[n_touched] = larger
                    n_touched += n_items[larger] == 0
                    n_items[larger] += 1
                    # The last of the items that the superset has more: it covers the set.
                    if n_items[larger] == sizes[larger] - sizes[first + i]:
                        if n_pairs == pairs.size:
                            grown = np.empty(2 * n_pairs, np.int64)
                            grown[:n_pairs] = pairs
                            pairs = grown
                        pairs[n_pairs] = first + i
                        pairs[n_pairs + 1] = larger
                        n_pairs += 2
                counts[item] = 0
                sums[item] = 0
        for k in range(n_touched):
            n_items[touched[k]] = 0
    return pairs[:n_pairs].copy()

"""Whole subtrees at once: six candidates have only 64 subsets, and one word holds a set of subsets.

The maximal cliques below a node of at most six candidates are the sets S of candidates, together with the path, that

- are cliques: every candidate of S is adjacent to the others;
- lie inside the row of no excluded vertex, and of no candidate: that could join (and is not in S itself, as nobody is
  adjacent to itself).

A row is an index, the bits of its word where the candidates are; what lies inside some row is a down-set.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from mbe_stage.bits import extract_bits, lowest_bit_index
from mbe_stage.jit import compiled
from mbe_stage.subset_words import (
    WITHOUT_0,
    WITHOUT_1,
    WITHOUT_2,
    WITHOUT_3,
    WITHOUT_4,
    WITHOUT_5,
    down_set,
)

WIDTH = 6
"""Most candidates whose subsets fit one word."""
MOST_CLIQUES = 9
"""Most maximal cliques of that many vertices (Moon and Moser, 1965)."""

_U = np.uint64
_ONE = _U(1)
_WITHOUT = np.array([WITHOUT_0, WITHOUT_1, WITHOUT_2, WITHOUT_3, WITHOUT_4, WITHOUT_5])
# The subsets of each subset.
_INSIDE = np.array([sum(1 << t for t in range(64) if t & s == t) for s in range(64)], np.uint64)
# Those of the first k vertices; of at least and of at most k vertices.
_OF_FIRST = np.array([(1 << (1 << k)) - 1 for k in range(WIDTH + 1)], np.uint64)
_AT_LEAST = np.array([sum(1 << t for t in range(64) if t.bit_count() >= k) for k in range(WIDTH + 2)], np.uint64)
_AT_MOST = np.array([sum(1 << t for t in range(64) if t.bit_count() <= k) for k in range(WIDTH + 1)], np.uint64)


@compiled(nrt=False)
def maximal_subsets(candidates, n_candidates, rows, excluded, words, start, end, required):
    """The sets of candidates that are maximal cliques with the path, as a set of subsets.

    Parameters
    ----------
    candidates : uint64
        At most six of the columns.
    rows : (64,) uint64
        What each column is adjacent to.
    excluded : uint64
        Columns that are excluded vertices here.
    words, start, end : (n,) uint64, int64, int64
        The rows of other excluded vertices.
    required : uint64
        Of those, only rows that hold these columns count.
    """
    inside_of = _U(0)
    others = words[start:end]
    for k in range(others.size):
        row = others[k]
        inside_of |= _U(row & required == required) << extract_bits(row, candidates)
    while excluded != _U(0):
        inside_of |= _ONE << extract_bits(rows[_U(lowest_bit_index(excluded))], candidates)
        excluded &= excluded - _ONE
    cliques = _OF_FIRST[n_candidates]
    rest = candidates
    for k in range(n_candidates):
        adjacent = extract_bits(rows[_U(lowest_bit_index(rest))], candidates)
        rest &= rest - _ONE
        inside_of |= _ONE << adjacent
        cliques &= _WITHOUT[k] | _INSIDE[adjacent] << (_ONE << _U(k))
    return cliques & ~down_set(inside_of)


@njit(inline="always")
def of_sizes(subsets, fewest, most):
    """Those of a set of subsets that have so many vertices."""
    if fewest > WIDTH or most < 0:
        return _U(0)
    return subsets & _AT_LEAST[max(fewest, 0)] & _AT_MOST[min(most, WIDTH)]

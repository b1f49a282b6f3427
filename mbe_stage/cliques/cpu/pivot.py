"""The pivot: the vertex with the most adjacent candidates. A node branches on the candidates not adjacent to it.

The pivot is a candidate or an excluded vertex (Tomita, Tanaka and Takahashi, TCS 363, 2006).
"""

from __future__ import annotations

import numpy as np
from numba import njit

from mbe_stage.bits import popcount
from mbe_stage.cliques.cpu.techniques import PIVOT_X
from mbe_stage.cliques.cpu.wide_rows import has_bit, n_common, n_in


@njit(inline="always")
def pivot_or_excluded(words, start, end, pivot, best):
    """Return the row with the most candidates: `pivot`, which has `best` of them, or an excluded row.

    For nodes with at most 64 candidates, where a row is a word.
    """
    if PIVOT_X:
        for k in range(start, end):
            degree = popcount(words[k])
            if degree > best:
                pivot, best = words[k], degree
    return pivot


@njit(inline="always")
def branches_by_pivot(worker, matrix, candidates, branches):
    """Write the candidates that are not adjacent to the pivot; return their number.

    For nodes with more than 64 candidates. The kept excluded rows end at the mask of the candidates.
    """
    words = worker.words
    n, n_words, rows, excluded, _, _ = matrix
    pivot, best = rows, np.int64(-1)
    for column in range(n):
        if has_bit(words, candidates, column):
            degree = n_common(words, rows + column * n_words, candidates, n_words)
            if degree > best:
                pivot, best = rows + column * n_words, degree
    if PIVOT_X:
        for row in range(excluded, candidates, n_words):
            degree = n_in(words, row, n_words)
            if degree > best:
                pivot, best = row, degree
    n_branches = 0
    for column in range(n):
        if has_bit(words, candidates, column) and not has_bit(words, pivot, column):
            worker.ints[branches + n_branches] = column
            n_branches += 1
    return n_branches

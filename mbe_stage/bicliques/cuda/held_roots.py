"""Which roots are still to be begun where no others are, so that those that are held back are few ranges."""

from __future__ import annotations

import numpy as np

__all__ = ["MOST_RANGES", "begun_all_the_same", "ranges_from"]

MOST_RANGES = 1024
"""Of what is left at a barrier: warps begin roots in order of their work, and rows are numbered by degree."""


def begun_all_the_same(rows: np.ndarray, costs: np.ndarray, most: int) -> np.ndarray:
    """Which roots are to be begun, so that the others are `most` ranges at most: those of the cheapest ranges.

    Parameters
    ----------
    rows : (n,) integers
        Roots that nobody has begun, distinct, in any order.
    costs : (n,) numbers
        Work that is expected below each.
    most : int

    Returns
    -------
    (n,) bool

    Examples
    --------
    >>> begun_all_the_same(np.array([8, 9, 5, 2, 1]), np.array([1, 1, 3, 2, 2]), 2)
    array([ True,  True, False, False, False])
    """
    is_begun = np.zeros(rows.size, np.bool_)
    by_row = np.argsort(rows, kind="stable")
    starts = np.flatnonzero(np.diff(rows[by_row], prepend=-2) != 1)
    if starts.size > most:
        range_of = np.repeat(np.arange(starts.size), np.diff(starts, append=rows.size))
        cheapest = np.argsort(np.add.reduceat(costs[by_row], starts), kind="stable")[: starts.size - most]
        is_begun[by_row] = np.isin(range_of, cheapest)
    return is_begun


def ranges_from(rows: np.ndarray) -> list[tuple[int, int]]:
    """The ranges that rows are, ascending; the second number is not in the range.

    Examples
    --------
    >>> ranges_from(np.array([3, 1, 2, 7]))
    [(1, 4), (7, 8)]
    """
    ascending = np.sort(rows)
    if ascending.size == 0:
        return []
    starts = np.flatnonzero(np.diff(ascending, prepend=-2) != 1)
    ends = np.append(starts[1:], ascending.size)
    return [(int(ascending[start]), int(ascending[end - 1]) + 1) for start, end in zip(starts, ends, strict=True)]

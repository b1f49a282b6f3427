"""Barriers of a search on a device: between two quanta roots are held back, those begun are finished, the rest follows.

Warps begin roots in the order of their work, and tasks are ranges of roots in another order. Some roots are begun all
the same, so that those that are held back are few ranges.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol, TypeVar

import numpy as np

from mbe_stage.worker_pool import Barrier

__all__ = ["MOST_RANGES", "HoldsRoots", "begun_all_the_same", "ranges_from", "with_barriers"]

MOST_RANGES = 1024
"""Of what is left at a barrier: warps begin roots in order of their work, and rows are numbered by degree."""

Quantum = TypeVar("Quantum", covariant=True)


class HoldsRoots(Protocol[Quantum]):
    """A search whose roots can be held back; roots are positions among those of all the work."""

    def quanta(self) -> Iterator[Quantum]:
        """What each quantum finds, until all roots that there are to begin are finished."""

    def roots_ahead(self) -> tuple[np.ndarray, np.ndarray] | None:
        """The roots that nobody has begun, in the order in which they are to be, and the work expected below each.

        None where there is no need of a barrier: nothing is left but what is in progress, or nothing has been begun.
        """

    def replace_roots(self, roots: np.ndarray) -> None:
        """Have these begun, in this order, in the place of those ahead; between two quanta."""

    def marker(self, roots: np.ndarray) -> Quantum:
        """What marks a barrier where these roots were held back."""

    def restart(self, roots: np.ndarray) -> None:
        """Begin with roots that were held back, in this order; all others are finished."""


def with_barriers(search: HoldsRoots[Quantum], barrier: Barrier | None) -> Iterator[Quantum]:
    """The quanta of a search, and where a barrier is asked for, what marks it.

    Parameters
    ----------
    search : HoldsRoots
    barrier : Barrier, optional
    """
    held: np.ndarray | None = None
    while True:
        for quantum in search.quanta():
            yield quantum
            if barrier is not None and barrier.is_asked and held is None:
                held = _held_back(search)
        if barrier is None or held is None:
            return
        # Before whoever asked knows of this one: what is asked for behind it is another.
        barrier.reached()
        yield search.marker(held)
        search.restart(held)
        held = None


def _held_back(search: HoldsRoots[Quantum]) -> np.ndarray | None:
    """Have a search begin no other roots, but for those without which what is left would be too many ranges."""
    ahead = search.roots_ahead()
    if ahead is None:
        return None
    roots, costs = ahead
    is_begun = begun_all_the_same(roots, costs, MOST_RANGES)
    search.replace_roots(roots[is_begun])
    return roots[~is_begun]


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

"""Barriers of a search on a device: between two quanta roots are held back, those begun are finished, the rest follows.

Warps begin roots in the order of their work, and tasks are ranges of roots in another order. Some roots are begun all
the same, so that those that are held back are few ranges.

A device may begin all roots within a second, and what it finds take minutes to be written: a barrier that is asked for
meanwhile would come with the end. So where results are handed on, and may be asked for a barrier, a small part of the
roots is begun first, from all over the graph: what the heaviest find alone says little of the others, and keeps few
warps at work. Where taking its results takes longer than finding them, the rest follows part by part, each as large as
is taken in a few seconds; else all of it at once.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from time import perf_counter
from typing import Protocol, TypeVar

import numpy as np

from mbe_stage.search.cpu.pool import Barrier
from mbe_stage.tasks import Roots, Task

log = logging.getLogger(__name__)

MOST_RANGES = 1024
"""Of what is left at a barrier: warps begin roots in order of their work, and rows are numbered by degree."""

# Of the work that is expected below all roots so much is begun first, where there are so many roots.
_FIRST_SHARE = 1 / 16
_LEAST_ROOTS = 512
# Share of a part's time in which nothing was searched, as what it had found was being taken.
_TAKEN_SLOWLY = 0.75
# How long a part is to take, and by how much one is larger or smaller than the one before at most.
_PART_SECONDS = 2.5
_MOST_GROWTH = 4.0
# Multiples of the golden section, without their whole part, lie evenly wherever they end.
_GOLDEN = 0.618033988749895

Quantum = TypeVar("Quantum", covariant=True)


class HoldsRoots(Protocol[Quantum]):
    """A search whose roots can be held back; roots are positions among those of all the work."""

    def quanta(self) -> Iterator[Quantum]:
        """What each quantum finds, until all roots that there are to begin are finished."""

    def roots_ahead(self) -> tuple[np.ndarray, np.ndarray] | None:
        """The roots that nobody has begun, in the order in which they are to be, and the work expected below each.

        None where there is no need of a barrier: nothing is left but what is in progress.
        """

    def replace_roots(self, roots: np.ndarray) -> None:
        """Have these begun, in this order, in the place of those ahead; between two quanta."""

    def marker(self, roots: np.ndarray) -> Quantum:
        """What marks a barrier where these roots were held back."""

    def restart(self, roots: np.ndarray) -> None:
        """Begin with roots that were held back, in this order; all others are finished."""


def with_barriers(search: HoldsRoots[Quantum], barrier: Barrier | None, *, in_parts: bool = False) -> Iterator[Quantum]:
    """The quanta of a search, and where a barrier is asked for, what marks it.

    Parameters
    ----------
    search : HoldsRoots
    barrier : Barrier, optional
    in_parts : bool
        Whether what is found is handed on, and not only counted: then a part of the roots is begun first, so that a
        barrier need not wait until all that the device has found is taken. Not without a barrier.
    """
    held = _all_but_a_part(search) if in_parts and barrier is not None else None
    # Code is loaded and memory allocated in the very first quantum, which says nothing of the search.
    has_begun = False
    while True:
        begun, taking = perf_counter(), 0.0
        for quantum in search.quanta():
            found = perf_counter()
            begun, has_begun = begun if has_begun else found, True
            yield quantum
            taking += perf_counter() - found
            if barrier is not None and barrier.is_asked and held is None:
                held = _held_back(search)
        if barrier is None or held is None:
            return
        seconds = perf_counter() - begun
        part, later = held.divided(seconds, taking)
        if later is not None:
            log.debug("%.2f s a part, %.2f of them taking: %d roots follow", seconds, taking, part.size)
        if barrier.is_asked:
            # Before whoever asked knows of this one: what is asked for behind it is another.
            barrier.reached()
            yield search.marker(held.roots)
        search.restart(held.roots)
        held = later
        if held is not None:
            search.replace_roots(part)


@dataclass(frozen=True, slots=True, eq=False)
class _Held:
    """Roots that are held back.

    Attributes
    ----------
    roots : (n,) integers
        In the order in which they are to be begun.
    costs : (n,) numbers
        Work that is expected below each.
    turns : (n,) integers or None
        Where they follow in parts: those with the least are the next.
    part : float
        Work that was expected below the roots that were begun, where they were such a part.
    """

    roots: np.ndarray
    costs: np.ndarray
    turns: np.ndarray | None = None
    part: float = 0.0

    def divided(self, seconds: float, taking: float) -> tuple[np.ndarray, _Held | None]:
        """What is begun next, after a part that took so long; taking what it found is in it."""
        work_left = float(self.costs.sum())
        is_over_soon = seconds * work_left <= _PART_SECONDS * self.part
        if self.turns is None or taking < _TAKEN_SLOWLY * seconds or is_over_soon:
            return self.roots, None
        factor = min(_MOST_GROWTH, max(1 / _MOST_GROWTH, _PART_SECONDS / seconds))
        return self.without(factor * self.part)

    def without(self, part: float) -> tuple[np.ndarray, _Held | None]:
        """The first part with so much work, and the others; none where those cannot be kept to `MOST_RANGES`."""
        assert self.turns is not None
        in_turn = np.argsort(self.turns, kind="stable")
        last = min(self.roots.size - 1, int(np.searchsorted(np.cumsum(self.costs[in_turn]), part)))
        is_begun = self.turns <= self.turns[in_turn[last]]
        is_begun[~is_begun] = begun_all_the_same(self.roots[~is_begun], self.costs[~is_begun], MOST_RANGES)
        if is_begun.all():
            return self.roots, None
        begun = float(self.costs[is_begun].sum())
        return self.roots[is_begun], _Held(self.roots[~is_begun], self.costs[~is_begun], self.turns[~is_begun], begun)


def _all_but_a_part(search: HoldsRoots[Quantum]) -> _Held | None:
    """Have a search begin a part of its roots only, before the first quantum; the others, where there are many."""
    ahead = search.roots_ahead()
    if ahead is None or ahead[0].size < _LEAST_ROOTS:
        return None
    roots, costs = ahead
    part, held = _Held(roots, costs, _turns(roots)).without(_FIRST_SHARE * float(costs.sum()))
    if held is not None:
        search.replace_roots(part)
    return held


def _turns(roots: np.ndarray) -> np.ndarray:
    """When each root has its turn: ranges of roots with as many each, and neighbours far from each other."""
    places = np.argsort(np.argsort(roots)) * MOST_RANGES // roots.size
    return np.argsort(np.argsort(np.arange(MOST_RANGES) * _GOLDEN % 1.0))[places]


def _held_back(search: HoldsRoots[Quantum]) -> _Held | None:
    """Have a search begin no other roots, but for those without which what is left would be too many ranges."""
    ahead = search.roots_ahead()
    if ahead is None:
        return None
    roots, costs = ahead
    is_begun = begun_all_the_same(roots, costs, MOST_RANGES)
    search.replace_roots(roots[is_begun])
    return _Held(roots[~is_begun], costs[~is_begun])


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


def tasks_from(roots: np.ndarray, identity: Roots, costs: np.ndarray, first: int = 0) -> tuple[Task, ...]:
    """Roots as tasks, ascending.

    Parameters
    ----------
    roots : (n,) integers
    identity : Roots
    costs : (n_roots,) numbers
        Work expected below each.
    first : int
        Where the roots begin in the identity.
    """
    return tuple(
        Task(identity, start + first, end + first, float(costs[start:end].sum())) for start, end in ranges_from(roots)
    )

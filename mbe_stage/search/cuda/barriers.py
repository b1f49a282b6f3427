"""Barriers of a search on a device: between quanta, hold roots back, finish the begun ones, then continue.

Warps begin roots in the order of their work, but tasks are ranges of roots in another order. So a barrier begins some
held-back roots anyway, so that the others form few ranges.

A search that can save its work does so in the middle, if the caller takes open work, and holds nothing back for it. If
the open work is too large, it also holds roots back, and saves as soon as the work is small enough.

A device may begin all roots within a second and then need minutes to write the results. A barrier requested in that
time would only come at the end. So if results are flushed and a barrier may be requested, a small part of the roots
begins first, taken from all over the graph. The heaviest roots alone would not represent the others, and would keep few
warps busy. If taking the results of that part took longer than searching, the rest follows part by part, each as large
as a few seconds can take. Otherwise it follows at once.
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
"""Most ranges of roots that remain at a barrier. Roots begin by work, but rows are numbered by degree."""

# Share of the expected work that begins first, and the fewest roots for this.
_FIRST_SHARE = 1 / 16
_LEAST_ROOTS = 512
# A part was taken slowly if its results took this share of its time.
_TAKEN_SLOWLY = 0.75
# Target duration of a part, and the largest ratio between consecutive parts.
_PART_SECONDS = 2.5
_MOST_GROWTH = 4.0
# The fractional parts of multiples of the golden section are evenly spread, wherever they stop.
_GOLDEN = 0.618033988749895

Quantum = TypeVar("Quantum", covariant=True)


class HoldsRoots(Protocol[Quantum]):
    """A search whose roots can be held back. Roots are positions among all roots of the work."""

    def quanta(self) -> Iterator[Quantum]:
        """Yield the results of each quantum until all roots that may begin are finished."""

    def roots_ahead(self) -> tuple[np.ndarray, np.ndarray] | None:
        """Return the roots that have not begun, in order, and the expected work below each.

        None if no barrier is needed, because only begun roots remain.
        """

    def replace_roots(self, roots: np.ndarray) -> None:
        """Replace the roots ahead by these, in this order; called between two quanta."""

    def marker(self, roots: np.ndarray) -> Quantum:
        """Return the barrier's marker for these held-back roots."""

    def restart(self, roots: np.ndarray) -> None:
        """Begin the held-back roots, in this order. All others are finished."""

    def saved(self, held: np.ndarray) -> Quantum | None:
        """Return the marker of a barrier in the middle, with all work saved, including held-back roots.

        None if the search cannot save it or is over. Called between two quanta.
        """


def with_barriers(search: HoldsRoots[Quantum], barrier: Barrier | None, *, in_parts: bool = False) -> Iterator[Quantum]:
    """Yield the quanta of a search, and a marker for each requested barrier.

    Parameters
    ----------
    search : HoldsRoots
    barrier : Barrier, optional
    in_parts : bool
        True if results are flushed, not only counted. Then a part of the roots begins first, so that a barrier need not
        wait for all results of the device. It needs a barrier.
    """
    held = _all_but_a_part(search) if in_parts and barrier is not None else None
    # The first quantum loads code and allocates memory, so its time does not represent the search.
    has_begun = False
    while True:
        begun, taking = perf_counter(), 0.0
        for quantum in search.quanta():
            found = perf_counter()
            begun, has_begun = begun if has_begun else found, True
            yield quantum
            taking += perf_counter() - found
            if barrier is None or not barrier.is_requested:
                continue
            none = np.empty(0, np.int64)
            marker = search.saved(none if held is None else held.roots) if barrier.takes_open_work else None
            if marker is not None:
                barrier.reached()
                yield marker
                del marker
            elif held is None:
                held = _held_back(search)
        if barrier is None or held is None:
            return
        seconds = perf_counter() - begun
        part, later = held.divided(seconds, taking)
        if later is not None:
            log.debug("%.2f s a part, %.2f of them taking: %d roots follow", seconds, taking, part.size)
        if barrier.is_requested:
            # Cleared before the caller sees this marker: a later request is for another barrier.
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
        The roots, in the order in which they begin.
    costs : (n,) numbers
        Expected work below each root.
    turns : (n,) integers or None
        Turn of each root if they follow in parts; roots with the smallest turns come next.
    part : float
        Expected work below the roots that were begun as the last part.
    """

    roots: np.ndarray
    costs: np.ndarray
    turns: np.ndarray | None = None
    part: float = 0.0

    def divided(self, seconds: float, taking: float) -> tuple[np.ndarray, _Held | None]:
        """Return the next roots to begin and the rest, given the last part's time, and that of taking its results."""
        work_left = float(self.costs.sum())
        is_over_soon = seconds * work_left <= _PART_SECONDS * self.part
        if self.turns is None or taking < _TAKEN_SLOWLY * seconds or is_over_soon:
            return self.roots, None
        factor = min(_MOST_GROWTH, max(1 / _MOST_GROWTH, _PART_SECONDS / seconds))
        return self.without(factor * self.part)

    def without(self, part: float) -> tuple[np.ndarray, _Held | None]:
        """Split off a part with this much work; all roots if the rest would need more than `MOST_RANGES` ranges."""
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
    """Make a search begin only a part of its roots before the first quantum; return the others if there are many."""
    ahead = search.roots_ahead()
    if ahead is None or ahead[0].size < _LEAST_ROOTS:
        return None
    roots, costs = ahead
    part, held = _Held(roots, costs, _turns(roots)).without(_FIRST_SHARE * float(costs.sum()))
    if held is not None:
        search.replace_roots(part)
    return held


def _turns(roots: np.ndarray) -> np.ndarray:
    """Return each root's turn: ranges of equally many roots, in an order that keeps neighbours far apart."""
    places = np.argsort(np.argsort(roots)) * MOST_RANGES // roots.size
    return np.argsort(np.argsort(np.arange(MOST_RANGES) * _GOLDEN % 1.0))[places]


def _held_back(search: HoldsRoots[Quantum]) -> _Held | None:
    """Stop a search from beginning roots, except those needed to keep the rest within `MOST_RANGES` ranges."""
    ahead = search.roots_ahead()
    if ahead is None:
        return None
    roots, costs = ahead
    is_begun = begun_all_the_same(roots, costs, MOST_RANGES)
    search.replace_roots(roots[is_begun])
    return _Held(roots[~is_begun], costs[~is_begun])


def begun_all_the_same(rows: np.ndarray, costs: np.ndarray, most: int) -> np.ndarray:
    """Choose roots to begin so that the others form at most `most` ranges: the ranges with the least work.

    Parameters
    ----------
    rows : (n,) integers
        Roots that have not begun, distinct, in any order.
    costs : (n,) numbers
        Expected work below each root.
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
    """Return rows as ascending ranges with exclusive ends.

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
    """Return roots as tasks, ascending.

    Parameters
    ----------
    roots : (n,) integers
    identity : Roots
    costs : (n_roots,) numbers
        Expected work below each root.
    first : int
        Position of the first root in the identity.
    """
    return tuple(
        Task(identity, start + first, end + first, float(costs[start:end].sum())) for start, end in ranges_from(roots)
    )

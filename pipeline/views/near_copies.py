"""The largest bicliques without near copies: large ones come in families that differ by one or two members."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from mbe_stage.pipeline.views.top import ALL, Biclique, BicliqueIds, Conditions, Measure, largest_ids, with_keys

LOOKED_THROUGH = 2
"""Number of bicliques to read first for each wanted one: they are in few parts of the table, and often enough."""
# Growth factor of that number if it is not enough.
_MORE = 8
# If all bicliques together have at most this many members, the largest are found in one pass.
_FEW_MEMBERS = 10_000_000
# Minimum left members of a wide biclique.
_WIDE = 4_096
MOST = 20_000
"""Maximum number to examine (or the wanted number, if larger), because one family may fill the whole graph."""


@dataclass(frozen=True, slots=True)
class Distinct:
    """Some of the largest bicliques.

    Attributes
    ----------
    bicliques : list of Biclique
        Largest first.
    n_copies : int
        Near copies left out among the examined bicliques.
    """

    bicliques: list[Biclique]
    n_copies: int


def largest_distinct(
    run_path: str | Path, limit: int, by: Measure = "edges", conditions: Conditions = ALL, *, most: int = MOST
) -> Distinct:
    """Return the largest bicliques of a run without near copies of larger ones.

    A near copy has a left Jaccard index of at least 0.5 with a larger listed biclique.

    Parameters
    ----------
    run_path, limit, by, conditions
        See `pipeline.views.top.largest_bicliques`, which also lists the errors.
    most : int
        Maximum number of the largest to examine. If they have fewer distinct ones than wanted, fewer are returned.
    """
    most = max(most, limit)
    n = min(most, LOOKED_THROUGH * limit)
    while True:
        # By ids, because most are not shown, and their keys would take a hundred bytes each.
        candidates = largest_ids(run_path, n, by, conditions)
        chosen, n_copies = _distinct(candidates, limit)
        if len(chosen) == limit or len(candidates) < n or n == most:
            return Distinct(with_keys(run_path, chosen), n_copies)
        n = min(most, n * _MORE)


def distinct_of(
    run_path: str | Path, candidates: Sequence[BicliqueIds], limit: int, *, are_all: bool
) -> Distinct | None:
    """Return `largest_distinct` from known largest bicliques; None if these are not enough.

    Parameters
    ----------
    run_path, limit
        See `largest_distinct`.
    candidates : sequence of BicliqueIds
        The largest bicliques in order, without a gap.
    are_all : bool
        True if these are all bicliques.
    """
    chosen, n_copies = _distinct(candidates, limit)
    return Distinct(with_keys(run_path, chosen), n_copies) if are_all or len(chosen) == limit else None


def affordable(n_members: int, limit: int) -> int:
    """Return the number of largest bicliques to examine for a report; for a large result, as many as one pass finds."""
    return MOST if n_members <= _FEW_MEMBERS else LOOKED_THROUGH * limit


def _distinct(candidates: Iterable[BicliqueIds], limit: int) -> tuple[list[BicliqueIds], int]:
    """Return the first bicliques, best first, without near copies of earlier ones; and the number of near copies."""
    chosen: list[BicliqueIds] = []
    listed, n_copies = _LeftSides(), 0
    for candidate in candidates:
        if len(chosen) == limit:
            break
        if listed.nearly_have(candidate.left):
            n_copies += 1
            continue
        listed.add(candidate.left)
        chosen.append(candidate)
    return chosen, n_copies


class _LeftSides:
    """The left sides of listed bicliques, to find those that share half of their members.

    Sides cannot do so if their sizes differ by more than a factor of two. Narrow sides are found by an index of their
    members. Wide ones are compared one by one, because indexing their members would take seconds.
    """

    def __init__(self) -> None:
        self._wide: list[np.ndarray] = []
        self._sizes: list[int] = []
        # The narrow bicliques of each member.
        self._holders: dict[int, list[int]] = defaultdict(list)

    def nearly_have(self, left: np.ndarray) -> bool:
        """Return True if a listed side nearly equals this one: ``(n,)`` ids, ascending."""
        if left.size >= _WIDE:
            near = (each for each in self._wide if left.size <= 2 * each.size <= 4 * left.size)
            return any(_is_near(np.isin(each, left, assume_unique=True).sum(), left.size, each.size) for each in near)
        shared = Counter(place for member in left.tolist() for place in self._holders.get(member, ()))
        return any(_is_near(common, left.size, self._sizes[place]) for place, common in shared.items())

    def add(self, left: np.ndarray) -> None:
        """Add a left side to the list."""
        if 2 * left.size >= _WIDE:
            self._wide.append(left)
        if left.size < 2 * _WIDE:
            for member in left.tolist():
                self._holders[member].append(len(self._sizes))
            self._sizes.append(left.size)


def _is_near(common: int, n: int, n_other: int) -> bool:
    return 2 * common >= n + n_other - common

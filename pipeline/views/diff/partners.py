"""Pair gone groups with new ones, the most similar first; each group has at most one partner.

Pairs of groups that are each other's best are taken, then the rest search again. The result equals taking all pairs in
order, best first, because no better pair can claim either group.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from mbe_stage.pipeline.views.diff import search
from mbe_stage.pipeline.views.diff.bundles import Best
from mbe_stage.pipeline.views.diff.rows import Rows
from mbe_stage.pipeline.views.diff.vertices import SharedVertices

SEARCH_LIMIT = 30_000_000_000
"""Maximum shared members to count, over all pairs of groups; some minutes on two cores."""

_LEVELS = (0.5, 0.6, 0.7, 0.8, 0.9)
# Cost of checking a pair that shares a rare member, in members to count.
_PAIR_COST = 5
# Similar pairs are searched first if that is this many times cheaper; matched rows then leave the full search.
_WORTH_A_LEVEL = 2
# The first level, if affordable: most slightly changed groups have their partner there.
_FIRST_LEVEL = 0.7


@dataclass(frozen=True, slots=True, eq=False)
class Pairs:
    """The pairs of gone and new groups, by position in the two `Side`.

    Attributes
    ----------
    partner_of_new : (n_new,) int32
        Position of the gone partner, or -1.
    partner_of_gone : (n_gone,) int32
    kind : (n_new,) int8
        The relation: `kernels.GROWN`, `SHRUNK`, `CHANGED`, or 0.
    jaccard : (n_new,) float64
        Jaccard index with the partner; 0 without one.
    searched_from : float
        All pairs with at least this Jaccard index were compared. 0 means all pairs, 1 only pairs that differ by one
        member.
    """

    partner_of_new: np.ndarray
    partner_of_gone: np.ndarray
    kind: np.ndarray
    jaccard: np.ndarray
    searched_from: float


def no_pairs(n_new: int, n_gone: int) -> Pairs:
    """Return the result without pairs, if a side is empty."""
    none = np.full(n_new, -1, np.int32), np.full(n_gone, -1, np.int32)
    return Pairs(*none, np.zeros(n_new, np.int8), np.zeros(n_new), 0.0)


@dataclass(frozen=True, slots=True)
class _Search:
    """A way to find partners: its cost for some rows, and the search itself."""

    reach: float
    cost: Callable[[Rows, Rows], int]
    run: Callable[[Rows, Rows], Best]


def pair_up(
    rows: list[Rows],
    shared: SharedVertices,
    scratch: Path,
    limit: int = SEARCH_LIMIT,
    threads: int = 1,
    on_progress: Callable[[float], None] = lambda _: None,
) -> Pairs:
    """Pair all groups that have a partner.

    Parameters
    ----------
    rows : list of Rows
        All rows of the old and the new side, with their sums. The list is emptied, so that memory is freed as rows are
        paired.
    scratch : Path
        A directory for temporary files.
    limit : int
        Bound on the work, in shared members to count. If comparing every pair takes more, only pairs above a Jaccard
        index are compared: the lowest of 0.5, 0.6 ... 0.9 that the bound allows.
    on_progress : callable
        Called with the share of the current search.
    """
    gone, new = rows
    rows.clear()
    finder = _Finder(len(new.side), len(gone.side), scratch, limit)
    near = _Search(1.0, lambda *_: 0, lambda new, gone: search.by_one_member(new, gone, shared, threads))
    new, gone = finder.exhaust(near, new, gone)
    new, gone = new.without_sums(), gone.without_sums()
    reach = 1.0
    while len(new) and len(gone) and reach > 0:
        way = _next_search(new, gone, shared, finder.left, reach, threads, on_progress)
        if way is None:
            break
        new, gone = finder.exhaust(way, new, gone)
        if finder.has_stopped:
            break
        reach = way.reach
    complete = not (len(new) and len(gone))
    return Pairs(finder.partner_of_new, finder.partner_of_gone, finder.kind, finder.jaccard, 0.0 if complete else reach)


class _Finder:
    """Takes pairs, and tracks the work."""

    def __init__(self, n_new: int, n_gone: int, scratch: Path, limit: int) -> None:
        self.partner_of_new = np.full(n_new, -1, np.int32)
        self.partner_of_gone = np.full(n_gone, -1, np.int32)
        self.kind = np.zeros(n_new, np.int8)
        self.jaccard = np.zeros(n_new)
        self.left = limit
        self.has_stopped = False
        self._scratch = scratch
        self._n_files = 0

    def exhaust(self, way: _Search, new: Rows, gone: Rows) -> tuple[Rows, Rows]:
        """Repeat the search until it finds no more partners; return the rows without one."""
        looking = new, gone
        while len(looking[0]) and len(looking[1]):
            cost = way.cost(*looking)
            if cost > self.left:
                self.has_stopped = True
                break
            self.left -= cost
            best = way.run(*looking)
            self._take(best, *looking)
            # A row without a partner now will have none later, because candidates only decrease.
            looking = (
                self._still_free(looking[0], self.partner_of_new, best.new_partner >= 0),
                self._still_free(looking[1], self.partner_of_gone, best.gone_partner >= 0),
            )
            del best
        return self._still_free(new, self.partner_of_new), self._still_free(gone, self.partner_of_gone)

    def _take(self, best: Best, new: Rows, gone: Rows) -> None:
        """Pair rows that are each other's best."""
        found = np.flatnonzero(best.new_partner >= 0)
        mutual = found[best.gone_partner[best.new_partner[found]] == found]
        new_at, gone_at = new.which[mutual], gone.which[best.new_partner[mutual]]
        self.partner_of_new[new_at] = gone_at
        self.partner_of_gone[gone_at] = new_at
        self.kind[new_at] = best.new_kind[mutual]
        self.jaccard[new_at] = best.new_jaccard[mutual]

    def _still_free(self, rows: Rows, partners: np.ndarray, looking: np.ndarray | None = None) -> Rows:
        free = partners[rows.which] < 0
        self._n_files += 1
        return rows.subset(free if looking is None else free & looking, self._scratch / f"rows-{self._n_files:05d}")


def _next_search(
    new: Rows,
    gone: Rows,
    shared: SharedVertices,
    affordable: int,
    below: float,
    threads: int,
    on_progress: Callable[[float], None],
) -> _Search | None:
    """Return the next search: the widest affordable one, or a cheaper one to run first.

    Return None if no affordable search reaches below a Jaccard index of `below`.

    Parameters
    ----------
    affordable : int
        Remaining work, in shared members to count.
    below : float
        All pairs with at least this Jaccard index have been compared.
    on_progress : callable
        Takes the share of the search done.
    """
    of_new, of_gone = (search.member_counts(rows, shared.n) for rows in (new, gone))
    ranks = np.empty(shared.n, np.int32)
    ranks[np.argsort(of_new + of_gone, kind="stable")] = np.arange(shared.n, dtype=np.int32)
    costs = dict(zip(_LEVELS, _prefix_costs(new, gone, ranks, np.array(_LEVELS)), strict=True))
    cost_of_all = _product(of_new, of_gone)
    affordable_levels = [level for level, cost in costs.items() if level < below and cost <= affordable]
    least = _FIRST_LEVEL if _FIRST_LEVEL in affordable_levels else next(iter(affordable_levels), None)
    if cost_of_all <= affordable and (least is None or cost_of_all <= _WORTH_A_LEVEL * costs[least]):
        return _all_pairs(shared, threads, on_progress)
    return None if least is None else _similar_pairs(shared, ranks, least, threads, on_progress)


def _all_pairs(shared: SharedVertices, threads: int, on_progress: Callable[[float], None]) -> _Search:
    return _Search(
        reach=0.0,
        cost=lambda new, gone: _product(*(search.member_counts(rows, shared.n) for rows in (new, gone))),
        run=lambda new, gone: search.by_shared_members(new, gone, shared, threads, on_progress),
    )


def _similar_pairs(
    shared: SharedVertices, ranks: np.ndarray, least: float, threads: int, on_progress: Callable[[float], None]
) -> _Search:
    return _Search(
        reach=least,
        cost=lambda new, gone: _prefix_costs(new, gone, ranks, np.array([least]))[0],
        run=lambda new, gone: search.by_prefixes(new, gone, shared, ranks, least, threads, on_progress),
    )


def _prefix_costs(new: Rows, gone: Rows, ranks: np.ndarray, levels: np.ndarray) -> list[int]:
    of_new, of_gone = (search.prefix_counts(rows, ranks, levels) for rows in (new, gone))
    return [_PAIR_COST * _product(*counts) for counts in zip(of_new, of_gone, strict=True)]


def _product(first: np.ndarray, second: np.ndarray) -> int:
    """Return the approximate sum of the products, which may exceed int64."""
    return int(np.dot(first.astype(np.float64), second.astype(np.float64)))

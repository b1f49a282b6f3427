"""One list of the groups of one or several graphs with the same left vertices: bicliques and grown groups.

Graphs for several keys, or for offsets of a time bucket, have the same events as edges. So near copies are found by
left members, within and between graphs. The list is made in two steps, and decides which groups are left out:

1. Grown groups come first, and pairs last (`arranged`). In this order, a group is left out if it is a near copy
(`near_copies`) of an earlier remaining group that is better.
2. Among the rest, a biclique is left out if all its members are in a listed grown group of its graph. The best biclique
inside a grown group is its core.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from typing import Literal, get_args

import numpy as np

from mbe_stage.errors import InvalidArgument
from mbe_stage.groups.bystanders import GrownGroups
from mbe_stage.groups.candidates import Candidates
from mbe_stage.groups.members import GroupMembers
from mbe_stage.groups.near_copies import without_near_copies
from mbe_stage.groups.null_model import SIGNIFICANT, NullModel
from mbe_stage.splitmix import finalised

RankBy = Literal["surprise", "surprise_per_vertex", "surprise_per_edge", "evidence"]

PAIR = 2
"""A group with at most this many left members is a pair."""


@dataclass(frozen=True, slots=True, eq=False)
class Pool:
    """Significant groups of several graphs, in any order.

    Attributes
    ----------
    graphs : (n,) int64
        The graph of each group.
    is_grown : (n,) bool
        True for grown groups, False for bicliques.
    keys : (n,) int64
        Keys of bicliques with the groups' members.
    surprise, evidence : (n,) int64
        In units of ``1 / UNIT`` nat; evidence is surprise without the cost of naming the group.
    members : GroupMembers
        Members, with the ids of their graphs.
    """

    graphs: np.ndarray
    is_grown: np.ndarray
    keys: np.ndarray
    surprise: np.ndarray
    evidence: np.ndarray
    members: GroupMembers

    def __len__(self) -> int:
        return self.keys.size

    @classmethod
    def of(
        cls, graph: int, candidates: Candidates, grown: GrownGroups, grown_keys: np.ndarray, model: NullModel
    ) -> Pool:
        """Return the significant groups of one graph; of two with the same key, the grown group comes first."""
        candidates = candidates.take(np.flatnonzero(candidates.surprise > SIGNIFICANT))
        members = candidates.members
        n_grown, n = len(grown.members), len(grown.members) + len(candidates)
        costs = model.naming_costs(members.left_sizes, members.right_sizes)
        surprise = np.concatenate([grown.scores, candidates.surprise])
        return cls(
            np.full(n, graph),
            np.arange(n) < n_grown,
            np.concatenate([grown_keys, candidates.keys]),
            surprise,
            surprise + np.concatenate([grown.costs, costs]),
            GroupMembers.joined([grown.members, members]),
        )

    @classmethod
    def joined(cls, parts: Sequence[Pool]) -> Pool:
        """Concatenate at least one pool."""
        graphs, is_grown, keys, surprise, evidence = (
            np.concatenate([getattr(part, each.name) for part in parts]) for each in fields(cls)[:-1]
        )
        members = GroupMembers.joined([part.members for part in parts])
        return cls(graphs, is_grown, keys, surprise, evidence, members)


def ranked(pool: Pool, rank_by: RankBy = "surprise") -> np.ndarray:
    """Return the rows of the pool, best first; ``(n,) int64``. Ties go to the lower key, then graph, then row.

    Parameters
    ----------
    rank_by : str
        ``surprise``; surprise divided by the number of members, or of possible edges, compared exactly; or
        ``evidence``.

    Raises
    ------
    InvalidArgument
    """
    surprise, left_sizes, right_sizes = pool.surprise, pool.members.left_sizes, pool.members.right_sizes
    ties = pool.graphs, pool.keys
    if rank_by == "surprise":
        return np.lexsort((*ties, -surprise))
    if rank_by == "evidence":
        return np.lexsort((*ties, -pool.evidence))
    if rank_by == "surprise_per_vertex":
        parts = left_sizes + right_sizes
    elif rank_by == "surprise_per_edge":
        parts = left_sizes * right_sizes
    else:
        raise InvalidArgument(f"rank_by is {rank_by!r}: expected {', '.join(map(repr, get_args(RankBy)))}")
    # The quotient and 84 binary digits of its fraction. These separate all fractions with denominators below 2^42. A
    # biclique has at most `MOST_EDGES` edges, fewer than 2^35, so no shift exceeds 64 bits.
    digits, rest = [], surprise
    for _ in range(4):
        digit, rest = np.divmod(rest, parts)
        digits.append(-digit)
        rest = rest << 28
    return np.lexsort((*ties, *reversed(digits)))


def arranged(order: np.ndarray, pool: Pool, n_right: Sequence[int] | None = None) -> np.ndarray:
    """Arrange groups for the list: grown ones come before bicliques, and pairs last.

    With several keys, all groups of narrower keys come first, then those of the items alone, then pairs. If bicliques
    of several narrower keys have the same left members, only that of the narrowest key stays: the key with the most
    right vertices, then the earlier graph.

    Parameters
    ----------
    order : (m,) int64
        Rows of the groups, best first.
    n_right : sequence of int, optional
        With several keys: number of right vertices of each graph; graph 0 has the items alone.

    Examples
    --------
    >>> members = GroupMembers.of([([0, 1, 2], [0]), ([4, 5], [0]), ([0, 1, 2], [1]), ([0, 1, 2, 3], [1])])
    >>> none, is_grown = np.zeros(4, np.int64), np.array([False, False, False, True])
    >>> pool = Pool(np.array([0, 1, 1, 2]), is_grown, none, none, none, members)
    >>> arranged(np.arange(4), pool).tolist(), arranged(np.arange(4), pool, [2, 4, 8]).tolist()
    ([3, 0, 2, 1], [3, 2, 0, 1])
    """
    tiers = 4 * (pool.members.left_sizes[order] <= PAIR) + ~pool.is_grown[order]
    if n_right is not None and order.size:
        own, graph = pool.members.take(order), pool.graphs[order]
        # Add 1, because 0 is mapped to 0.
        sums = np.add.reduceat(finalised(own.left_members.astype(np.uint64) + np.uint64(1)), own.left_offsets[:-1])
        # Grown groups have separate sums, and all stay: a group of a narrower key may say far less.
        sums += pool.is_grown[order].astype(np.uint64)
        place = np.arange(order.size)
        narrowest = np.lexsort((place, graph, -np.asarray(n_right)[graph], sums, graph == 0))
        same = (np.diff(sums[narrowest]) == 0) & (graph[narrowest][1:] > 0)
        # Groups of one graph stay: they are near copies, with the better one first.
        first = np.concatenate([[True], ~same])
        leader = graph[narrowest[np.maximum.accumulate(np.where(first, place, 0))]]
        stays = np.empty(order.size, np.bool_)
        stays[narrowest] = (leader == graph[narrowest]) | pool.is_grown[order][narrowest]
        tiers += 2 * (graph == 0)
        order, tiers = order[stays], tiers[stays]
    return order[np.argsort(tiers, kind="stable")]


def listed(
    order: np.ndarray,
    best_first: np.ndarray,
    pool: Pool,
    is_muted: np.ndarray,
    *,
    max_overlap: float = 0.6,
    limit: int | None = None,
) -> np.ndarray:
    """Return the listed groups in rank order; ``(m,) int64``, rows of the pool.

    Parameters
    ----------
    order : (k,) int64
        Rows that may be listed, in the order of `arranged`.
    best_first : (n,) int64
        All rows in the order of `ranked`.
    is_muted : (n,) bool
        Groups that do not count towards the limit.
    limit : int, optional
        Most groups that are not muted; the list ends with the last of them.

    Examples
    --------
    >>> members = GroupMembers.of([([0, 1, 2, 3, 4], [0, 1, 2]), ([3, 4], [1, 2]), ([7, 8], [1, 2])])
    >>> none = np.zeros(3, np.int64)
    >>> pool = Pool(none, np.array([True, False, False]), none, none, none, members)
    >>> listed(np.arange(3), np.arange(3), pool, none > 0).tolist()
    [0, 2]
    """
    worth = np.empty(len(pool), np.int64)
    worth[best_first] = -np.arange(len(pool))
    rest = order[without_near_copies(pool.members.take(order), max_overlap=max_overlap, worth=worth[order])]
    found, n_unmuted, grown = list[int](), 0, _Grown()
    for row in rest.tolist():
        if n_unmuted == limit:
            break
        if pool.is_grown[row]:
            grown.add(pool, row, row)
        elif any(True for _ in grown.around(pool, row)):
            continue
        found.append(row)
        n_unmuted += not is_muted[row]
    return np.array(found, np.int64)


def cores(order: np.ndarray, pool: Pool, rows: np.ndarray) -> np.ndarray:
    """Return the core of each group: the best biclique of its graph inside it; a biclique itself, -1 for none.

    Parameters
    ----------
    order : (n,) int64
        All rows of the pool, best first (`ranked`).
    """
    found = np.where(pool.is_grown[rows], -1, rows)
    grown = _Grown()
    for place in np.flatnonzero(found < 0).tolist():
        grown.add(pool, int(rows[place]), place)
    for row in order[~pool.is_grown[order]].tolist():
        for place in grown.around(pool, row):
            if found[place] < 0:
                found[place] = row
    return found


class _Grown:
    """Index of groups by graph and left member; each has a number."""

    def __init__(self) -> None:
        self._groups: dict[tuple[int, int], list[tuple[int, frozenset[int], frozenset[int]]]] = {}

    def add(self, pool: Pool, row: int, number: int) -> None:
        left, right = (frozenset(side.tolist()) for side in pool.members[row])
        for member in left:
            self._groups.setdefault((int(pool.graphs[row]), member), []).append((number, left, right))

    def around(self, pool: Pool, row: int) -> Iterator[int]:
        """Yield the numbers of groups in the same graph that contain all members of a group."""
        left, right = (side.tolist() for side in pool.members[row])
        for number, other_left, other_right in self._groups.get((int(pool.graphs[row]), left[0]), ()):
            if other_left.issuperset(left) and other_right.issuperset(right):
                yield number

"""Rank groups of several graphs between the same left vertices together: of several keys, or offsets of a time bucket.

The edges of such graphs are the same events, so near copies are found by their left members.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from mbe_stage.groups.bystanders import GrownGroups
from mbe_stage.groups.candidates import Candidates
from mbe_stage.groups.members import GroupMembers
from mbe_stage.groups.short_list import without_near_copies
from mbe_stage.splitmix import finalised

PAIR = 2
"""A group of at most so many left members is a pair."""


def together(parts: Sequence[tuple[Candidates, int]]) -> Candidates:
    """One ranking, by surprise and then by key.

    Parameters
    ----------
    parts : sequence of (Candidates, int)
        Of each graph, and its right vertices: the right ids of a later graph follow those of the earlier ones. Each
        graph's surprise is by its own null model.

    Examples
    --------
    >>> from mbe_stage.groups.members import GroupMembers
    >>> one = Candidates(np.array([7]), np.array([5]), GroupMembers.of([([0, 1], [0, 1])]))
    >>> other = Candidates(np.array([3]), np.array([9]), GroupMembers.of([([1, 2], [0])]))
    >>> both = together([(one, 2), (other, 1)])
    >>> both.keys.tolist(), [right.tolist() for _, right in both.members]
    ([3, 7], [[2], [0, 1]])
    """
    if len(parts) == 1:
        return parts[0][0]
    moved, n_before = [], 0
    for candidates, n_right in parts:
        members = candidates.members
        own = replace(members, right_members=members.right_members + np.int32(n_before))
        moved.append(replace(candidates, members=own))
        n_before += n_right
    joined = Candidates.joined(moved)
    return joined.take(np.lexsort((joined.keys, -joined.surprise)))


Arrange = Callable[[np.ndarray, GroupMembers], np.ndarray]
"""Takes rows of groups, best first, and the members of all groups; returns rows in the order of the list."""


def arranged(order: np.ndarray, members: GroupMembers, graphs: np.ndarray, n_right: Sequence[int]) -> np.ndarray:
    """Arrange groups of several keys: narrower keys first, then the items alone, then pairs.

    Of groups with the same left members, under different keys beside the first, only that of the narrowest key stays:
    the one of most right vertices, then of the earlier graph. Groups of at most `PAIR` left members are pairs.

    Parameters
    ----------
    order : (m,) int64
        Rows of groups, best first.
    members : GroupMembers
        All n groups.
    graphs : (n,) int64
        The graph of each; 0 is that of the items alone.
    n_right : sequence of int
        Right vertices of each graph.

    Examples
    --------
    >>> members = GroupMembers.of([([0, 1, 2], [0]), ([4, 5], [0]), ([0, 1, 2], [1]), ([0, 1, 2, 3], [1])])
    >>> arranged(np.arange(4), members, np.array([0, 1, 1, 2]), [2, 4, 8]).tolist()
    [2, 3, 0, 1]
    """
    own = members.take(order)
    graph = graphs[order]
    if not order.size:
        return order
    # The mix of 0 is 0.
    sums = np.add.reduceat(finalised(own.left_members.astype(np.uint64) + np.uint64(1)), own.left_offsets[:-1])
    place = np.arange(order.size)
    narrowest = np.lexsort((place, graph, -np.asarray(n_right)[graph], sums, graph == 0))
    same = (np.diff(sums[narrowest]) == 0) & (graph[narrowest][1:] > 0)
    # Groups of one graph stay: they are near copies, and the better is first.
    first = np.concatenate([[True], ~same])
    leader = graph[narrowest[np.maximum.accumulate(np.where(first, place, 0))]]
    stays = np.empty(order.size, np.bool_)
    stays[narrowest] = leader == graph[narrowest]
    tiers = 2 * (own.left_sizes <= PAIR) + (graph == 0)
    kept = np.flatnonzero(stays)
    return order[kept[np.argsort(tiers[kept], kind="stable")]]


def grown_together(
    parts: Sequence[GrownGroups], limit: int | None = None, arrange: Arrange | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Grown groups of several graphs, most surprising first, without near copies of better ones.

    Parameters
    ----------
    parts : sequence of GrownGroups
        Best first.
    arrange : callable, optional
        Puts the groups in another order than by surprise.

    Returns
    -------
    graphs, rows : (m,) int64
        The graph of each group that is listed, and which of its groups it is. Of equally surprising ones that of the
        earlier graph is first.
    """
    sizes = [len(one.members) for one in parts]
    order = np.argsort(-np.concatenate([one.scores for one in parts]), kind="stable")
    members = GroupMembers.joined([one.members for one in parts])
    if arrange is not None:
        order = arrange(order, members)
    listed = order[without_near_copies(members.take(order), limit=limit)]
    graphs = np.repeat(np.arange(len(parts)), sizes)
    rows = np.concatenate([np.arange(n) for n in sizes])
    return graphs[listed], rows[listed]

"""Rank groups of several graphs between the same left vertices together: of two offsets of a time bucket.

Between such graphs, whose edges are the same events, near copies are found by their left members: an edge of the one is
none of the other, so that no cover tells.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from mbe_stage.groups.candidates import Candidates
from mbe_stage.groups.members import GroupMembers
from mbe_stage.groups.selection import GrownGroups
from mbe_stage.groups.short_list import without_near_copies


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


def grown_together(parts: Sequence[GrownGroups], limit: int | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Grown groups of several graphs, most surprising first, without near copies of better ones.

    Parameters
    ----------
    parts : sequence of GrownGroups
        Best first.

    Returns
    -------
    graphs, rows : (m,) int64
        The graph of each group that is listed, and which of its groups it is. Of equally surprising ones that of the
        earlier graph is first.
    """
    sizes = [len(one.members) for one in parts]
    order = np.argsort(-np.concatenate([one.scores for one in parts]), kind="stable")
    members = GroupMembers.joined([one.members for one in parts]).take(order)
    listed = order[without_near_copies(members, limit=limit)]
    graphs = np.repeat(np.arange(len(parts)), sizes)
    rows = np.concatenate([np.arange(n) for n in sizes])
    return graphs[listed], rows[listed]

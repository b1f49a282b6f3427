"""The groups that are published: which candidates were chosen, their edges, and for how many bicliques each stands."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mbe_stage.graphs.bipartite import BipartiteCSR
from mbe_stage.groups.candidates import Candidates
from mbe_stage.groups.members import GroupMembers
from mbe_stage.groups.short_list import overlap_fraction

__all__ = ["Chosen", "GroupEdges", "choose", "edges_of"]


@dataclass(frozen=True, slots=True, eq=False)
class Chosen:
    """The groups in the order in which they rank.

    Attributes
    ----------
    keys : (n,) int64
        Of the bicliques that they are.
    surprise : (n,) int64
        In units of `mbe_stage.groups.null_model.UNIT`.
    n_bicliques : (n,) int64
        The group itself, and the significant candidates that overlap it too much to be groups of their own; each counts
        for the group of those that ranks first.
    members : GroupMembers
    n_significant : int
        Candidates with a positive surprise.
    """

    keys: np.ndarray
    surprise: np.ndarray
    n_bicliques: np.ndarray
    members: GroupMembers
    n_significant: int


@dataclass(frozen=True, slots=True, eq=False)
class GroupEdges:
    """The edges of the graph within some groups.

    Attributes
    ----------
    n_edges : (n,) int64
        Of each group.
    of_left, of_right : int64
        Of each member within its group, one behind the other as in `GroupMembers`.
    explained_left, explained_right : (n_left,), (n_right,) int64
        Of each vertex's edges, how many lie in some group; one that lies in several counts once.
    """

    n_edges: np.ndarray
    of_left: np.ndarray
    of_right: np.ndarray
    explained_left: np.ndarray
    explained_right: np.ndarray


def choose(candidates: Candidates, rows: np.ndarray, max_overlap: float) -> Chosen:
    """The candidates of some rows as groups.

    Parameters
    ----------
    candidates : Candidates
    rows : (n,) int64
        Of candidates with positive surprise, in the order in which they rank (`mbe_stage.groups.short_list`).
    max_overlap : float
        With which they were chosen.
    """
    significant = np.flatnonzero(candidates.surprise > 0)
    others = np.setdiff1d(significant, rows)
    members = candidates.members.take(rows)
    return Chosen(
        keys=candidates.keys[rows],
        surprise=candidates.surprise[rows],
        n_bicliques=1 + _near_copies(members, candidates.members.take(others), max_overlap),
        members=members,
        n_significant=int(significant.size),
    )


def _near_copies(groups: GroupMembers, others: GroupMembers, max_overlap: float) -> np.ndarray:
    """How many others have a Jaccard of at least `max_overlap`, on the left, with each group and none before it."""
    by_member = np.argsort(others.left_members, kind="stable")
    owners = np.repeat(np.arange(len(others)), others.left_sizes)[by_member]
    sorted_members = others.left_members[by_member]
    is_free, sizes, overlap = np.ones(len(others), np.bool_), others.left_sizes, overlap_fraction(max_overlap)
    counts = np.zeros(len(groups), np.int64)
    for group, (left, _) in enumerate(groups):
        starts, ends = (np.searchsorted(sorted_members, left, side) for side in ("left", "right"))
        sharing = np.concatenate([np.empty(0, np.int64), *(owners[i:j] for i, j in zip(starts, ends, strict=True))])
        found, common = np.unique(sharing, return_counts=True)
        union = left.size + sizes[found] - common
        is_near = common * overlap.denominator >= overlap.numerator * union
        copies = found[is_near & is_free[found]]
        counts[group] = copies.size
        is_free[copies] = False
    return counts


def edges_of(graph: BipartiteCSR, members: GroupMembers) -> GroupEdges:
    """The edges within groups, and what they explain of each vertex's edges.

    Memory: a byte an edge of the graph.
    """
    is_explained = np.zeros(graph.n_edges, np.bool_)
    none = np.empty(0, np.int64)
    of_left, of_right = [none], [none]
    for left, right in members:
        present = np.zeros((left.size, right.size), np.bool_)
        for row, vertex in enumerate(left):
            start, neighbours = graph.left_offsets[vertex], graph.neighbours_of_left(vertex)
            # Behind the last neighbour there is none to compare with.
            places = np.minimum(np.searchsorted(neighbours, right), neighbours.size - 1)
            present[row] = neighbours[places] == right
            is_explained[start + places[present[row]]] = True
        of_left.append(present.sum(axis=1))
        of_right.append(present.sum(axis=0))
    explained = np.flatnonzero(is_explained)
    return GroupEdges(
        n_edges=np.array([part.sum() for part in of_left[1:]], np.int64),
        of_left=np.concatenate(of_left),
        of_right=np.concatenate(of_right),
        explained_left=np.bincount(
            np.searchsorted(graph.left_offsets, explained, side="right") - 1, minlength=graph.n_left
        ),
        explained_right=np.bincount(graph.left_members[explained], minlength=graph.n_right),
    )

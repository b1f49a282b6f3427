"""The published groups of one graph, and their edges."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mbe_stage.graphs.bipartite import BipartiteCSR
from mbe_stage.groups.members import GroupMembers

SHORT_LIST, GROWN_COVER = "short_list", "grown_cover"
"""The kinds of groups: bicliques, and groups that have grown."""


@dataclass(frozen=True, slots=True, eq=False)
class Chosen:
    """The groups of one graph, in rank order.

    Attributes
    ----------
    places : (n,) int64
        Positions of the groups in the list of all graphs, from 0.
    is_grown : (n,) bool
        True for grown groups, false for bicliques.
    keys : (n,) int64
        Keys of bicliques with these members.
    surprise, evidence : (n,) int64
        In units of `mbe_stage.groups.null_model.UNIT`; evidence is surprise without the cost of naming the group.
    n_bicliques : (n,) int64
        The group itself if it is one, and the significant candidates that are near copies of it. A candidate counts for
        the best-ranked group.
    core_keys : (n,) int64
        Keys of the groups' cores (`mbe_stage.groups.listing`); undefined without a core.
    cores : GroupMembers
        Members of the core; none without a core.
    """

    places: np.ndarray
    is_grown: np.ndarray
    keys: np.ndarray
    surprise: np.ndarray
    evidence: np.ndarray
    n_bicliques: np.ndarray
    core_keys: np.ndarray
    cores: GroupMembers
    members: GroupMembers


@dataclass(frozen=True, slots=True, eq=False)
class GroupEdges:
    """The graph's edges within some groups.

    Attributes
    ----------
    n_edges : (n,) int64
        Edges of each group.
    left, right : int32
        The ends of the edges, group after group, ascending.
    of_left, of_right : int64
        Edges of each member within its group, in the order of `GroupMembers`.
    explained : (n_left,) and (n_right,) int64
        For each vertex, the number of its edges inside a group. An edge in several groups counts once.
    """

    n_edges: np.ndarray
    left: np.ndarray
    right: np.ndarray
    of_left: np.ndarray
    of_right: np.ndarray
    explained: tuple[np.ndarray, np.ndarray]


def edges_of(graph: BipartiteCSR, members: GroupMembers) -> GroupEdges:
    """Return the edges within groups, and the number of each vertex's edges they explain.

    Memory: one byte per edge of the graph.
    """
    is_explained = np.zeros(graph.n_edges, np.bool_)
    none = np.empty(0, np.int64)
    of_left, of_right = [none], [none]
    ends: tuple[list[np.ndarray], list[np.ndarray]] = ([np.empty(0, np.int32)], [np.empty(0, np.int32)])
    for left, right in members:
        present = np.zeros((left.size, right.size), np.bool_)
        for row, vertex in enumerate(left):
            start, neighbours = graph.left_offsets[vertex], graph.neighbours_of_left(vertex)
            # The last neighbour has no successor to compare with.
            places = np.minimum(np.searchsorted(neighbours, right), neighbours.size - 1)
            present[row] = neighbours[places] == right
            is_explained[start + places[present[row]]] = True
        of_left.append(present.sum(axis=1))
        of_right.append(present.sum(axis=0))
        rows, columns = np.nonzero(present)
        ends[0].append(left[rows])
        ends[1].append(right[columns])
    explained = np.flatnonzero(is_explained)
    return GroupEdges(
        n_edges=np.array([part.sum() for part in of_left[1:]], np.int64),
        left=np.concatenate(ends[0]),
        right=np.concatenate(ends[1]),
        of_left=np.concatenate(of_left),
        of_right=np.concatenate(of_right),
        explained=(
            np.bincount(np.searchsorted(graph.left_offsets, explained, side="right") - 1, minlength=graph.n_left),
            np.bincount(graph.left_members[explained], minlength=graph.n_right),
        ),
    )

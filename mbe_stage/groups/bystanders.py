"""Remove bystanders: members for whom a group is a small part of their activity.

A vertex with hundreds of edges has some of them in any group nearby, more than its degree explains: an account that
rates everything has also rated the accounts of a ring. Growth adds it because of this evidence, but it has no part in
the group's activity. So a left vertex stays in a group if at least a share of its own edges leads into it. A right
vertex stays if a remaining left vertex has an edge to it, so the shares of the left vertices do not change.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from mbe_stage.graphs.bipartite import BipartiteCSR
from mbe_stage.groups.growth import Grown
from mbe_stage.groups.members import GroupMembers, group_hashes
from mbe_stage.groups.null_model import SIGNIFICANT, UNIT, NullModel, pair_weights
from mbe_stage.ragged import long_offsets

MIN_SHARE = Fraction(1, 4)
"""Smallest share of its own edges that a member needs; three edges of camouflage per edge of the group still pass."""

# Number of members' edges processed together; each takes a few hundred bytes.
_EDGES_AT_ONCE = 1 << 20


@dataclass(frozen=True, slots=True, eq=False)
class GrownGroups:
    """Grown groups without bystanders and duplicates, by descending score; ties keep their order.

    Attributes
    ----------
    members : GroupMembers
        The n groups.
    n_edges : (n,) int64
        Number of edges inside each group.
    scores : (n,) int64
        Scores of the groups, as in `Grown`; all are above `SIGNIFICANT`.
    costs : (n,) int64
        Cost of naming each group, in units.
    n_left_out : int
        Number of seeds for which no steps or time were left; see `growth.grow`.
    """

    members: GroupMembers
    n_edges: np.ndarray
    scores: np.ndarray
    costs: np.ndarray
    n_left_out: int = 0

    def take(self, rows: np.ndarray) -> GrownGroups:
        """Return some of the groups, in the order of `rows`, ``(m,)`` integers."""
        arrays = self.n_edges[rows], self.scores[rows], self.costs[rows]
        return GrownGroups(self.members.take(rows), *arrays, self.n_left_out)


def without_bystanders(
    graph: BipartiteCSR,
    grown: Grown,
    model: NullModel,
    *,
    min_left: int = 1,
    min_right: int = 1,
) -> GrownGroups:
    """Remove left members with less than `MIN_SHARE` of their own edges in a group; return the remaining groups.

    Parameters
    ----------
    graph : BipartiteCSR
        The graph, on the host.
    grown : Grown
        Groups of this graph; those with scores of at most `SIGNIFICANT` are left out.
    model : NullModel
        Model of the graph.
    min_left, min_right : int
        Fewest members on each side.

    Returns
    -------
    GrownGroups
        Groups that are still large enough and significant, with more edges than expected.

    Examples
    --------
    Five by five, and a vertex with 5 of its 105 edges in it:

    >>> from mbe_stage.groups.growth import grow
    >>> edges = [(u, v) for u in range(6) for v in range(5)] + [(5, v) for v in range(5, 105)]
    >>> graph = BipartiteCSR.from_edges(*zip(*edges, *((u, u + 99) for u in range(6, 3000))))
    >>> model, seed = NullModel.of(graph), GroupMembers.of([(range(5), range(5))])
    >>> grown = grow(graph, seed, model)
    >>> grown.members.left_members.tolist(), without_bystanders(graph, grown, model).members.left_members.tolist()
    ([0, 1, 2, 3, 4, 5], [0, 1, 2, 3, 4])
    """
    groups = grown.members.take(np.flatnonzero(grown.scores > SIGNIFICANT))
    ends = long_offsets(graph.left_degrees[groups.left_members])[groups.left_offsets[1:]]
    cuts = np.flatnonzero(np.diff(ends // _EDGES_AT_ONCE)) + 1
    parts = [_stripped(graph, groups.take(rows), model) for rows in np.split(np.arange(len(groups)), cuts)]
    members = GroupMembers.joined([part[0] for part in parts])
    n_edges, scores, costs = (np.concatenate([part[i] for part in parts]) for i in (1, 2, 3))
    stands = (scores > SIGNIFICANT) & (members.left_sizes >= min_left) & (members.right_sizes >= min_right)
    for row in np.flatnonzero(stands).tolist():
        stands[row] = n_edges[row] > model.expected_edges(*members[row])
    order = np.argsort(-scores, kind="stable")
    rows = order[stands[order]]
    _, firsts = np.unique(group_hashes(members)[rows], return_index=True)
    found = GrownGroups(members, n_edges, scores, costs, grown.n_left_out)
    return found.take(rows[np.sort(firsts)])


def _stripped(
    graph: BipartiteCSR, groups: GroupMembers, model: NullModel
) -> tuple[GroupMembers, np.ndarray, np.ndarray, np.ndarray]:
    """Return groups without bystanders, and their edges, scores and costs; these are 0 for groups without members."""
    n = len(groups)
    (_, of_left), (_, of_right) = groups.side(0), groups.side(1)
    # List every edge of every member by the member's position, then select those into the group.
    degrees = graph.left_degrees[groups.left_members]
    place = np.repeat(np.arange(degrees.size), degrees)
    starts = graph.left_offsets[groups.left_members] - long_offsets(degrees)[:-1]
    right = graph.left_members[np.arange(place.size) + starts[place]]
    # Groups and their members are in order, so these codes ascend.
    names = of_right * graph.n_right + groups.right_members
    wanted = of_left[place] * graph.n_right + right
    found = np.minimum(np.searchsorted(names, wanted), names.size - 1)
    inside = names[found] == wanted
    place, right, found = place[inside], right[inside], found[inside]

    n_shared = np.bincount(place, minlength=degrees.size)
    stays = (n_shared * MIN_SHARE.denominator >= MIN_SHARE.numerator * degrees) & (n_shared > 0)
    edges = stays[place]
    place, right, found = place[edges], right[edges], found[edges]
    n_of_right = np.bincount(found, minlength=names.size)
    right_stays = n_of_right > 0
    members = GroupMembers(
        long_offsets(np.bincount(of_left[stays], minlength=n)),
        groups.left_members[stays],
        long_offsets(np.bincount(of_right[right_stays], minlength=n)),
        groups.right_members[right_stays],
    )
    weights = np.zeros(n, np.int64)
    np.add.at(weights, of_left[place], pair_weights(model.log_expected(groups.left_members[place], right)))
    n_edges = np.bincount(of_left[place], minlength=n)
    least = _least(members.left_offsets, n_shared[stays]), _least(members.right_offsets, n_of_right[right_stays])
    return members, n_edges, *_scores(members, n_edges, weights, least, model)


def _least(offsets: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Return the least value of each group; 0 for groups without members."""
    least = np.zeros(offsets.size - 1, np.int64)
    has_some = np.diff(offsets) > 0
    if values.size:
        least[has_some] = np.minimum.reduceat(values, offsets[:-1][has_some])
    return least


def _scores(
    members: GroupMembers,
    n_edges: np.ndarray,
    weights: np.ndarray,
    least: tuple[np.ndarray, np.ndarray],
    model: NullModel,
) -> tuple[np.ndarray, np.ndarray]:
    """Return the score of `quasi_bicliques` and the cost of naming, in units; 0 for groups without edges."""
    n_cells = np.maximum(members.left_sizes * members.right_sizes, 1)
    n_missing = n_cells - n_edges
    density = n_edges * np.log(np.maximum(n_edges, 1) / n_cells) + n_missing * np.log(
        np.maximum(n_missing, 1) / n_cells
    )
    costs = np.zeros(n_edges.size, np.int64)
    some = np.flatnonzero(n_edges)
    costs[some] = model.costs_of_grown(*(each[some] for each in (members.left_sizes, members.right_sizes, *least)))
    return np.where(n_edges > 0, weights + np.rint(density * UNIT).astype(np.int64) - costs, 0), costs

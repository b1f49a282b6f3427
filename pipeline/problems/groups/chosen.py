"""The published groups: the chosen candidates, their edges, and the number of bicliques each represents."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import partial

import numpy as np

from mbe_stage.bicliques.keys import biclique_keys
from mbe_stage.bicliques.results import BicliqueBlock
from mbe_stage.graphs.bipartite import BipartiteCSR
from mbe_stage.groups.bystanders import GrownGroups
from mbe_stage.groups.candidates import Candidates
from mbe_stage.groups.members import GroupMembers
from mbe_stage.groups.null_model import SIGNIFICANT, NullModel
from mbe_stage.groups.selection import grown_above_chance
from mbe_stage.groups.short_list import overlap_fraction, short_list, without_near_copies
from mbe_stage.groups.together import Arrange
from mbe_stage.pipeline.problems.base import Collecting
from mbe_stage.pipeline.problems.groups.known import Known, up_to_limit
from mbe_stage.pipeline.problems.groups.section import GroupsSection

SHORT_LIST, GROWN_COVER = "short_list", "grown_cover"
"""The kinds of groups, as `groups.kind` and the table have them."""


@dataclass(frozen=True, slots=True, eq=False)
class Chosen:
    """The groups, in rank order.

    Attributes
    ----------
    keys : (n,) int64
        Keys of bicliques with these members.
    seeds : (n,) int64
        Keys of the bicliques that the groups are, or grew from.
    surprise : (n,) int64
        In units of `mbe_stage.groups.null_model.UNIT`; for grown groups, the score of
        `mbe_stage.groups.quasi_bicliques`.
    evidence : (n,) int64
        Surprise without the cost of naming the group.
    gains : (n,) int64 or None
        The amount each group adds to those before it, in units; None for a short list.
    n_bicliques : (n,) int64
        The group itself, and the significant candidates that overlap it too much to be listed. A candidate counts for
        the best-ranked group it overlaps. For a grown group: the number of seeds that grew into it.
    n_left_out : int
        Seeds not grown because the steps ran out.
    """

    kind: str
    keys: np.ndarray
    seeds: np.ndarray
    surprise: np.ndarray
    evidence: np.ndarray
    gains: np.ndarray | None
    n_bicliques: np.ndarray
    members: GroupMembers
    n_left_out: int = 0

    def take(self, rows: np.ndarray) -> Chosen:
        """Return some of the groups, in the order of `rows`, ``(m,)`` integers."""
        arrays = {each.name: getattr(self, each.name) for each in fields(self)}
        taken = {name: values[rows] for name, values in arrays.items() if isinstance(values, np.ndarray)}
        return replace(self, members=self.members.take(rows), **taken)

    def moved(self, by: int) -> Chosen:
        """Return these groups with other right ids."""
        members = self.members
        return replace(self, members=replace(members, right_members=members.right_members + np.int32(by)))

    def with_evidence(self, model: NullModel) -> Chosen:
        """Add the evidence: surprise before the cost of naming, under the null model of the graph."""
        costs = model.naming_costs(self.members.left_sizes, self.members.right_sizes)
        return replace(self, evidence=self.surprise + costs)


@dataclass(frozen=True, slots=True, eq=False)
class GroupEdges:
    """The graph's edges within some groups.

    Attributes
    ----------
    n_edges : (n,) int64
        Of each group.
    left, right : int32
        The ends of the edges, group after group, ascending.
    of_left, of_right : int64
        Edges of each member within its group, in the order of `GroupMembers`.
    explained_left, explained_right : (n_left,), (n_right,) int64
        For each vertex, the number of its edges inside a group. An edge in several groups counts once.
    """

    n_edges: np.ndarray
    left: np.ndarray
    right: np.ndarray
    of_left: np.ndarray
    of_right: np.ndarray
    explained_left: np.ndarray
    explained_right: np.ndarray


def short_list_of(
    candidates: Candidates,
    section: GroupsSection,
    model: NullModel | None,
    known: Known,
    arrange: Arrange | None = None,
    items: np.ndarray | None = None,
) -> Chosen:
    """Return the best candidates without near copies (`mbe_stage.groups.short_list`), up to the limit of unmuted ones.

    Candidates of several graphs have no common model. Without one, `with_evidence` fills in `evidence` later.

    Parameters
    ----------
    arrange : callable, optional
        As for `mbe_stage.groups.short_list.short_list`.
    items : (n_right,) int32, optional
        The right vertex that `known` knows, for each right id of the candidates.
    """
    choose = partial(
        short_list, candidates, rank_by=section.rank_by, max_overlap=section.max_overlap, model=model, arrange=arrange
    )
    rows, n = up_to_limit(
        section.limit,
        lambda limit: choose(limit=limit),
        lambda rows: known.is_muted(with_items(candidates.members.take(rows), items)),
    )
    rows = rows[:n]
    others = np.setdiff1d(np.flatnonzero(candidates.surprise > SIGNIFICANT), rows)
    members = candidates.members.take(rows)
    chosen = Chosen(
        kind=SHORT_LIST,
        keys=candidates.keys[rows],
        seeds=candidates.keys[rows],
        surprise=candidates.surprise[rows],
        evidence=candidates.surprise[rows],
        gains=None,
        n_bicliques=1 + _near_copies(members, candidates.members.take(others), section.max_overlap),
        members=members,
    )
    return chosen if model is None else chosen.with_evidence(model)


def with_items(members: GroupMembers, items: np.ndarray | None) -> GroupMembers:
    """Return groups with the items of their right members in place of these."""
    return members if items is None else replace(members, right_members=items[members.right_members])


def grown_of(candidates: Candidates, seeds: np.ndarray, collecting: Collecting, model: NullModel) -> GrownGroups:
    """Return the significant groups that grow from seeds; see `mbe_stage.groups.selection`.

    Parameters
    ----------
    seeds : (n,) int64
        Their rows (`mbe_stage.groups.selection.seed_rows`).
    """
    config = collecting.config
    return grown_above_chance(
        collecting.graph,
        candidates,
        seeds,
        model,
        min_left=config.query.min_left,
        min_right=config.query.min_right,
        threads=config.execution.threads,
    )


def cover_of(
    grown: GrownGroups,
    candidates: Candidates,
    collecting: Collecting,
    model: NullModel,  # noqa: ARG001 - as before
    known: Known,
) -> Chosen:
    """Return the grown groups without near copies; muted ones do not count for the limit."""
    rows, n = up_to_limit(
        collecting.config.section("groups").limit,
        lambda limit: without_near_copies(grown.members, limit=limit),
        lambda rows: known.is_muted(grown.members.take(rows)),
    )
    return chosen_of_grown(grown.take(rows[:n]), None, candidates, collecting)


def chosen_of_grown(
    chosen: GrownGroups,
    gains: np.ndarray | None,
    candidates: Candidates,  # noqa: ARG001 - as before
    collecting: Collecting,
) -> Chosen:
    """Return the grown groups of one graph as they are published, in order."""
    members = chosen.members
    left_sizes, right_sizes = (sizes.astype(np.int32) for sizes in (members.left_sizes, members.right_sizes))
    block = BicliqueBlock(len(members), left_sizes, right_sizes, members.left_members, members.right_members)
    return Chosen(
        kind=GROWN_COVER,
        keys=biclique_keys(block, *collecting.edges.key_hashes()),
        seeds=biclique_keys(block, *collecting.edges.key_hashes()),
        surprise=chosen.scores,
        evidence=chosen.scores + chosen.costs,
        gains=gains,
        n_bicliques=np.ones(len(members), np.int64),
        members=members,
        n_left_out=chosen.n_left_out,
    )


def _near_copies(groups: GroupMembers, others: GroupMembers, max_overlap: float) -> np.ndarray:
    """Count the bicliques with a left Jaccard of at least `max_overlap` with each group and with none before it."""
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
        explained_left=np.bincount(
            np.searchsorted(graph.left_offsets, explained, side="right") - 1, minlength=graph.n_left
        ),
        explained_right=np.bincount(graph.left_members[explained], minlength=graph.n_right),
    )

"""The halo of a group: the vertices closest to joining, by their gain at the current density.

A ring often has a dense core and a loose rim. The rim does not pay for its names, so no group contains it. Its vertices
are leads, not findings: they are ranked, and not called significant. The halo grows in rounds of 15, 30 and 60 vertices
per side. Each round ranks first the left and then the right vertices outside the group by

``sum over edges into the other side of (ln q + w(u, v)) + (number of missing edges) ln(1 - q)``

where the other side includes its halo so far, `q` is the current density of both sides, within the bounds of growth,
and `w` is the weight of an edge (`null_model`). The best vertices stay, with ties by id; vertices without such an edge
are not ranked.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from mbe_stage.graphs.bipartite import BipartiteCSR
from mbe_stage.groups.growth import GrowthSchedule
from mbe_stage.groups.members import GroupMembers
from mbe_stage.groups.null_model import UNIT, NullModel, pair_weights
from mbe_stage.ragged import long_offsets

ROUNDS = (15, 30, 60)
"""Most vertices per side after each round."""


@dataclass(frozen=True, slots=True, eq=False)
class Halos:
    """The halos of groups on one side.

    Attributes
    ----------
    offsets : (n + 1,) int64
        The halo of group `i` is ``vertices[offsets[i]:offsets[i + 1]]``, best first.
    vertices : int32
    gains : int64
        Gains in units of ``1 / UNIT`` nat; usually negative.
    """

    offsets: np.ndarray
    vertices: np.ndarray
    gains: np.ndarray


def halos(graph: BipartiteCSR, groups: GroupMembers, model: NullModel, schedule: GrowthSchedule) -> tuple[Halos, Halos]:
    """Return the left and the right halos of groups.

    Parameters
    ----------
    graph : BipartiteCSR
        The graph, on the host.
    groups : GroupMembers
        The groups, each with at least one edge.
    model : NullModel
        Model of the graph.
    schedule : GrowthSchedule
        Its bounds on the density apply.

    Examples
    --------
    Five by five, and a left vertex with three edges into it:

    >>> edges = [(u, v) for u in range(5) for v in range(5)] + [(5, 0), (5, 1), (5, 2)] + [(u, u) for u in range(6, 99)]
    >>> graph = BipartiteCSR.from_edges(*zip(*edges))
    >>> groups = GroupMembers.of([(range(5), range(5))])
    >>> left, right = halos(graph, groups, NullModel.of(graph), GrowthSchedule())
    >>> left.vertices.tolist(), right.vertices.tolist()
    ([5], [])
    """
    none = np.empty(0, np.int32), np.empty(0, np.int64)
    found: tuple[list[_Ranked], list[_Ranked]] = [none], [none]
    for group in groups:
        near = [none, none]
        for most in ROUNDS:
            for side in (0, 1):
                own, others = (np.concatenate([group[i], near[i][0]]) for i in (side, 1 - side))
                near[side] = _nearest(graph, model, schedule, side, (group[side], own, others), most)
        for side in (0, 1):
            found[side].append(near[side])
    left, right = (
        Halos(
            long_offsets(np.array([vertices.size for vertices, _ in ranked[1:]], np.int64)),
            *(np.concatenate([each[i] for each in ranked]) for i in (0, 1)),
        )
        for ranked in found
    )
    return left, right


_Ranked = tuple[np.ndarray, np.ndarray]


def _nearest(
    graph: BipartiteCSR,
    model: NullModel,
    schedule: GrowthSchedule,
    side: int,
    parts: tuple[np.ndarray, np.ndarray, np.ndarray],
    most: int,
) -> _Ranked:
    """Return a side's best vertices and gains; `parts` has its members, the same with the halo, and the other side."""
    members, own, others = parts
    neighbours = [graph.neighbours_of_left(v) if side else graph.neighbours_of_right(v) for v in others]
    met, ends = np.concatenate(neighbours), np.repeat(others, [each.size for each in neighbours])
    vertices, places, shared = np.unique(met, return_inverse=True, return_counts=True)
    evidence = np.zeros(vertices.size, np.int64)
    np.add.at(evidence, places, pair_weights(model.log_expected(*((ends, met) if side else (met, ends)))))
    density = int(shared[np.isin(vertices, own)].sum()) / (own.size * others.size)
    density = min(max(density, schedule.least_density), schedule.most_density)
    log_share, log_missing = (round(math.log(share) * UNIT) for share in (density, 1 - density))
    gains = evidence + shared * log_share + (others.size - shared) * log_missing
    outside = np.flatnonzero(~np.isin(vertices, members))
    # Vertices ascend, so a stable sort breaks ties by id.
    best = outside[np.argsort(-gains[outside], kind="stable")][:most]
    return vertices[best], gains[best]

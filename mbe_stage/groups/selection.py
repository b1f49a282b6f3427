"""Select the groups that a run publishes, and that the benchmark measures, from the candidates.

The short list is that of `short_list`. Grown groups are made in three steps: seeds, which are the best candidates and
the best of each vertex, whatever its surprise, are grown (`growth`); from what is better than chance those are taken
who do little there (`bystanders`); and the rest is covered, best first (`cover`). A vertex in a sparse ring is in no
biclique that stands out, and its best one still leads to the ring: with the best of all alone a ring of 15 x 15 of
which a third of the edges is present is not found.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mbe_stage.graphs.bipartite import BipartiteCSR
from mbe_stage.groups import cover as covering
from mbe_stage.groups import growth
from mbe_stage.groups.bystanders import without_bystanders
from mbe_stage.groups.candidates import Candidates
from mbe_stage.groups.growth import GrowthSchedule, grow
from mbe_stage.groups.members import GroupMembers
from mbe_stage.groups.null_model import NullModel
from mbe_stage.runtime.compile_ahead import CompileStep

N_BEST = 2_000
"""So many of the best candidates are seeds, beside the best of each vertex."""

SCHEDULE = GrowthSchedule(min_density=0.15, joining="prefix")
"""Each half step the exact best of its side: planted groups of 15 x 15 at a density of 0.3 are found more often than by
a threshold for each vertex, others as often. No group is sparser than growth itself reckons with."""


@dataclass(frozen=True, slots=True, eq=False)
class GrownGroups:
    """Groups that have grown, each once.

    Attributes
    ----------
    members : GroupMembers
        n groups.
    n_edges : (n,) int64
        Present edges of each.
    scores : (n,) int64
        That of `quasi_bicliques`, in units of ``1 / UNIT`` nat; above `null_model.SIGNIFICANT`.
    costs : (n,) int64
        Cost of naming each, in units.
    seeds : (n,) int64
        The row of the best candidate that has grown to each.
    n_seeds : (n,) int64
        How many have.
    n_left_out : int
        Seeds that there were no steps left for; see `growth.grow`.
    """

    members: GroupMembers
    n_edges: np.ndarray
    scores: np.ndarray
    costs: np.ndarray
    seeds: np.ndarray
    n_seeds: np.ndarray
    n_left_out: int

    def take(self, rows: np.ndarray) -> GrownGroups:
        """Some of them, in the order of `rows`, ``(m,)`` integers."""
        return GrownGroups(
            self.members.take(rows),
            self.n_edges[rows],
            self.scores[rows],
            self.costs[rows],
            self.seeds[rows],
            self.n_seeds[rows],
            self.n_left_out,
        )


def seed_rows(n_candidates: int, left_best: np.ndarray, right_best: np.ndarray) -> np.ndarray:
    """Rows of the candidates that groups are grown from, ascending; ``(m,) int64``.

    Parameters
    ----------
    n_candidates : int
        Best first.
    left_best, right_best : (n,) int64
        Row of each vertex's best, -1 where there is none: those of `CandidateSink`.

    Examples
    --------
    >>> seed_rows(2003, np.array([2001, -1]), np.array([0, 2001])).tolist() == [*range(2000), 2001]
    True
    """
    rows = np.unique(np.concatenate([np.arange(min(N_BEST, n_candidates)), left_best, right_best]))
    return rows[rows >= 0]


def grown_above_chance(
    graph: BipartiteCSR,
    candidates: Candidates,
    seeds: np.ndarray,
    model: NullModel,
    *,
    min_left: int = 1,
    min_right: int = 1,
    threads: int = 1,
    most_steps: int = growth.MOST_STEPS,
) -> GrownGroups:
    """Grow seeds, without bystanders, to groups better than chance; best first, near copies included.

    Parameters
    ----------
    graph : BipartiteCSR
        On the host.
    candidates : Candidates
        Bicliques of the graph, best first.
    seeds : (m,) int64
        Rows of some, ascending (`seed_rows`).
    model : NullModel
        Of the graph.
    min_left, min_right : int
        Least members of a side, of seeds and of groups.
    threads : int
        0 is every core.
    most_steps : int
        Of growing; what does not fit is counted. See `growth.grow`.

    Raises
    ------
    InvalidArgument
        A seed has fewer members than it must have.

    Examples
    --------
    >>> from mbe_stage.groups.null_model import surprise_of
    >>> block = [(u, v) for u in range(6) for v in range(5) if u != v]
    >>> graph = BipartiteCSR.from_edges(*zip(*block, *((u, u) for u in range(6, 3000))))
    >>> model, members = NullModel.of(graph), GroupMembers.of([((0, 1, 5), (2, 3, 4)), ((7,), (7,))])
    >>> candidates = Candidates(np.array([4, 2]), surprise_of(members, model), members)
    >>> grown = grown_above_chance(graph, candidates, np.arange(2), model)
    >>> [ids.tolist() for ids in grown.members[0]], grown.seeds.tolist(), grown.n_seeds.tolist()
    ([[0, 1, 2, 3, 4, 5], [0, 1, 2, 3, 4]], [0], [1])
    """
    grown = grow(
        graph,
        candidates.members.take(seeds),
        model,
        schedule=SCHEDULE,
        min_left=min_left,
        min_right=min_right,
        threads=threads,
        most_steps=most_steps,
    )
    engaged = without_bystanders(graph, grown, model, min_left=min_left, min_right=min_right)
    return GrownGroups(
        members=engaged.members,
        n_edges=engaged.n_edges,
        scores=engaged.scores,
        costs=engaged.costs,
        seeds=seeds[engaged.first_seeds],
        n_seeds=engaged.n_seeds,
        n_left_out=grown.n_left_out,
    )


def covered(
    graph: BipartiteCSR, grown: GrownGroups, model: NullModel, limit: int | None = None
) -> tuple[GrownGroups, np.ndarray]:
    """The groups that are chosen, in their order, and what each adds to those before it, in units; see `cover`."""
    chosen = covering.cover(graph, grown.members, model, grown.costs, limit=limit)
    return grown.take(chosen.rows), chosen.gains


def compile_steps() -> tuple[CompileStep, ...]:
    """Compile what growing and covering need."""
    return *growth.compile_steps(), *covering.compile_steps()

"""Grown groups as a run publishes them and as the benchmark measures them.

Seeds are grown (`growth`), and members with little activity in a group are removed (`bystanders`). Seeds are the best
candidates, the best candidate of each vertex whatever its surprise, and vertices with their best partners
(`partner_seeds`). A vertex in a sparse ring has no outstanding biclique, but its best one still leads to the ring. With
only the best candidates of all, a ring of 15 x 15 with a third of its edges is not found. Partners need no enumeration,
so there are groups even if a limit ends it at once.
"""

from __future__ import annotations

import math
import time

import numpy as np

from mbe_stage.graphs.bipartite import BipartiteCSR
from mbe_stage.groups import growth, members
from mbe_stage.groups import partner_seeds as pairing
from mbe_stage.groups.bystanders import GrownGroups, without_bystanders
from mbe_stage.groups.candidates import Candidates
from mbe_stage.groups.growth import Grown, GrowthSchedule, grow
from mbe_stage.groups.null_model import NullModel
from mbe_stage.groups.partner_seeds import partner_seeds
from mbe_stage.runtime.compile_ahead import CompileStep

N_BEST = 2_000
"""Number of the best candidates used as seeds, in addition to the best of each vertex."""

LEAST_PARTNER_STEPS, PARTNER_STEPS_PER_EDGE = 10_000_000, 250
"""Limit on steps to grow partner seeds, the larger of this number and this number per edge: about two seconds of a core
per million edges. The first seeds lead to nearly all groups that all seeds lead to."""

LEAST_MEMBERS = 2
"""Fewest members of a grown group on each side. With one member on a side no edge is missing: it is a biclique."""

SCHEDULE = GrowthSchedule(min_density=0.15)
"""Groups are not sparser than the least density that growth assumes."""


def grown_partners(
    graph: BipartiteCSR,
    model: NullModel,
    *,
    min_left: int = 1,
    min_right: int = 1,
    threads: int = 1,
    most_seconds: float = math.inf,
) -> Grown:
    """Grow vertices with their best partners (`partner_seeds`); bystanders stay.

    Parameters
    ----------
    graph, model, min_left, min_right, threads
        As in `grown_above_chance`.
    most_seconds : float
        Time limit; seeds not grown by then are left out. Without a limit the result depends on the graph alone.
    """
    begun = time.perf_counter()
    seeds = partner_seeds(graph, model, threads=threads)
    return grow(
        graph,
        seeds,
        model,
        schedule=SCHEDULE,
        min_left=max(LEAST_MEMBERS, min_left),
        min_right=max(LEAST_MEMBERS, min_right),
        threads=threads,
        most_steps=max(LEAST_PARTNER_STEPS, PARTNER_STEPS_PER_EDGE * graph.n_edges),
        most_seconds=most_seconds - (time.perf_counter() - begun),
    )


def seed_rows(n_candidates: int, left_best: np.ndarray, right_best: np.ndarray) -> np.ndarray:
    """Return the rows of the candidates to use as seeds, ascending; ``(m,) int64``.

    Parameters
    ----------
    n_candidates : int
        Number of candidates, which are sorted best first.
    left_best, right_best : (n,) int64
        Row of each vertex's best, -1 for none, from `CandidateSink`.

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
    most_seconds: float = math.inf,
    partners: Grown | None = None,
) -> GrownGroups:
    """Grow seeds to groups better than chance, and remove bystanders; return them best first, with near copies.

    Parameters
    ----------
    graph : BipartiteCSR
        The graph, on the host.
    candidates : Candidates
        Bicliques of the graph, best first.
    seeds : (m,) int64
        Rows of the candidates to grow, ascending (`seed_rows`).
    model : NullModel
        Model of the graph.
    min_left, min_right : int
        Fewest members on each side of a group; at least two.
    threads : int
        0 means every core.
    most_steps, most_seconds
        Limits of growing; seeds beyond them are counted. See `growth.grow`.
    partners : Grown, optional
        Result of `grown_partners`; its groups are added.

    Examples
    --------
    >>> from mbe_stage.groups.null_model import surprise_of
    >>> block = [(u, v) for u in range(6) for v in range(5) if u != v]
    >>> graph = BipartiteCSR.from_edges(*zip(*block, *((u, u) for u in range(6, 3000))))
    >>> from mbe_stage.groups.members import GroupMembers
    >>> model, members = NullModel.of(graph), GroupMembers.of([((0, 1, 5), (2, 3, 4)), ((7,), (7,))])
    >>> candidates = Candidates(np.array([4, 2]), surprise_of(members, model), members)
    >>> grown = grown_above_chance(graph, candidates, np.arange(2), model)
    >>> [[ids.tolist() for ids in group] for group in grown.members]
    [[[0, 1, 2, 3, 4, 5], [0, 1, 2, 3, 4]]]
    """
    least_left, least_right = max(LEAST_MEMBERS, min_left), max(LEAST_MEMBERS, min_right)
    grown = grow(
        graph,
        candidates.members.take(seeds),
        model,
        schedule=SCHEDULE,
        min_left=least_left,
        min_right=least_right,
        threads=threads,
        most_steps=most_steps,
        most_seconds=most_seconds,
    )
    if partners is not None:
        grown = Grown.joined(grown, partners)
    return without_bystanders(graph, grown, model, min_left=least_left, min_right=least_right)


def compile_steps() -> tuple[CompileStep, ...]:
    """Return the steps to compile for growing."""
    return *growth.compile_steps(), *pairing.compile_steps(), *members.compile_steps()

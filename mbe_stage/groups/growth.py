"""Grow seeds: enlarge bicliques to the quasi-bicliques around them.

Half a step chooses one side, given the other side and a density `q`. The evidence of a vertex is

``sum over its edges into the other side of (ln q + w(u, v)) + (number of missing edges) ln(1 - q)``

where `w` is the weight of an edge (`null_model`). The side gets the vertices of positive evidence, the most first, as
long as their evidence pays for naming them among the `N` vertices of the side. This is the exact maximum over one side,
so alternating the sides is coordinate ascent on the score of `quasi_bicliques`. The score falls only at the bounds of
the density. A whole step ends with the new density, and the ascent ends early if nothing changes. Each seed is grown
from several first densities; a low one reaches further. The best group on the way is kept, which may be the seed. All
sums are of integers, so the result does not depend on their order.

The search runs in the (2, 2)-core of the graph, if groups have at least two members on each side, and `N` is the size
of that core: in a sparse graph, few vertices can be in a group at all. The best group is a significant one if there is
any; among these, the one with the highest score if members are named among the core. The scores are those of the whole
graph, where groups pay for names by degree (`quasi_bicliques`). With names paid by the core, groups that arise by
chance would be significant.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from mbe_stage.errors import InvalidArgument
from mbe_stage.graphs import subgraphs
from mbe_stage.graphs.bipartite import BipartiteCSR
from mbe_stage.graphs.subgraphs import peel_to_core, ranks, subgraph
from mbe_stage.groups import growth_steps
from mbe_stage.groups.members import GroupMembers, group_hashes
from mbe_stage.groups.null_model import PAIR_WEIGHTS, NullModel
from mbe_stage.options import Execution
from mbe_stage.ragged import long_offsets
from mbe_stage.runtime.compile_ahead import CompileStep
from mbe_stage.runtime.jit import steps_of

MOST_STEPS = 2_000_000_000
"""Default of `grow`: about ten seconds of one core."""

# Seeds grown between two checks of the remaining steps, and steps of a thread between two checks of the time (10 ms).
_SEEDS_AT_ONCE, _STEPS_AT_ONCE = 2048, 2_000_000


@dataclass(frozen=True, slots=True)
class GrowthSchedule:
    """Schedule for growing a seed.

    Attributes
    ----------
    first_densities : tuple of float
        Initial densities, one ascent from each; above 0 and below 1.
    least_density, most_density : float
        Bounds on the density of the next step. Near 1, one missing edge would outweigh all evidence; near 0, all
        vertices would join.
    n_rounds : int
        Most whole steps from each initial density.
    min_density : float
        Least share of possible edges in a group other than the seed; 0 to 1. Sparse groups with hundreds of members may
        score well, but are communities of interest rather than a plan.
    """

    first_densities: tuple[float, ...] = (0.9, 0.6, 0.3)
    least_density: float = 0.15
    most_density: float = 0.95
    n_rounds: int = 8
    min_density: float = 0.0

    def __post_init__(self) -> None:
        if not 0 < self.least_density <= self.most_density < 1:
            raise InvalidArgument(
                f"least_density is {self.least_density} and most_density {self.most_density}: "
                "expected 0 < least_density <= most_density < 1"
            )
        for density in self.first_densities:
            if not 0 < density < 1:
                raise InvalidArgument(f"first_densities holds {density}: expected densities above 0 and below 1")
        if not 0 <= self.min_density <= 1:
            raise InvalidArgument(f"min_density is {self.min_density}: expected 0 to 1")
        if self.n_rounds < 0:
            raise InvalidArgument(f"n_rounds is {self.n_rounds}: expected 0 or more")


@dataclass(frozen=True, slots=True, eq=False)
class Grown:
    """Groups that seeds have grown to, without duplicates, by descending score; ties by the first seed that led there.

    Attributes
    ----------
    members : GroupMembers
        The n groups.
    n_edges : (n,) int64
        Number of edges inside each group.
    scores : (n,) int64
        The score of `quasi_bicliques`, in units of ``1 / UNIT`` nat. It is negative only if the seed's score is, and
        `growth_steps.NO_SCORE` for a seed that is too small for a group and leads to none.
    n_left_out : int
        Number of seeds for which no steps or time were left.
    n_steps : int
        Number of steps taken.
    """

    members: GroupMembers
    n_edges: np.ndarray
    scores: np.ndarray
    n_left_out: int = 0
    n_steps: int = 0

    @classmethod
    def joined(cls, first: Grown, second: Grown) -> Grown:
        """Concatenate both results, unsorted and with duplicates."""
        return cls(
            members=GroupMembers.joined([first.members, second.members]),
            n_edges=np.concatenate([first.n_edges, second.n_edges]),
            scores=np.concatenate([first.scores, second.scores]),
            n_left_out=first.n_left_out + second.n_left_out,
            n_steps=first.n_steps + second.n_steps,
        )


def grow(
    graph: BipartiteCSR,
    seeds: GroupMembers,
    model: NullModel,
    *,
    schedule: GrowthSchedule | None = None,
    min_left: int = 1,
    min_right: int = 1,
    threads: int = 1,
    most_steps: int = MOST_STEPS,
    most_seconds: float = math.inf,
) -> Grown:
    """Enlarge seeds to the quasi-bicliques around them.

    Parameters
    ----------
    graph : BipartiteCSR
        The graph, on the host.
    seeds : GroupMembers
        Groups of the graph with edges between their sides, usually bicliques. Seeds with a vertex outside the core are
        left out and not counted. A seed may be too small for a group.
    model : NullModel
        Model of the graph.
    schedule : GrowthSchedule, optional
    min_left, min_right : int
        Fewest members on each side of a group.
    threads : int
        0 means every core. Each thread takes 41 bytes per vertex.
    most_steps : int
        Limit on steps. Seeds are grown in order; the first seed that exceeds the limit and all later ones are left out.
        A step is an edge added to or removed from the sums of its ends, or the check of a vertex. The number of steps
        depends only on the graph and the seeds, not on the machine.
    most_seconds : float
        Time limit in seconds; afterwards no further seed is grown.

    Returns
    -------
    Grown
        No group is less significant than a seed that has grown to it.

    Raises
    ------
    InvalidArgument
        `min_left` or `min_right` is below 1.

    Examples
    --------
    Five by five with four missing edges, among distant edges:

    >>> block = [(u, v) for u in range(5) for v in range(5) if (u, v) not in [(0, 0), (1, 1), (2, 2), (3, 3)]]
    >>> graph = BipartiteCSR.from_edges(*zip(*block, *((u, u) for u in range(5, 2000))))
    >>> seeds = GroupMembers.of([([0, 1, 4], [2, 3, 4]), ([2, 3, 4], [0, 1, 4])])
    >>> grown = grow(graph, seeds, NullModel.of(graph))
    >>> [ids.tolist() for ids in grown.members[0]], grown.n_edges.tolist()
    ([[0, 1, 2, 3, 4], [0, 1, 2, 3, 4]], [21])
    """
    deadline = time.perf_counter() + most_seconds
    schedule = GrowthSchedule() if schedule is None else schedule
    for side, least in (("left", min_left), ("right", min_right)):
        if least < 1:
            raise InvalidArgument(f"min_{side} is {least}: expected 1 or more")
    compiled_schedule = growth_steps.Schedule(
        np.array(schedule.first_densities, np.float64),
        np.array([schedule.least_density, schedule.most_density, schedule.min_density]),
        np.array([schedule.n_rounds, min_left, min_right, model.class_cost], np.int64),
    )
    core, kept = _core(graph, min(2, min_left), min(2, min_right))
    seeds = _inside(seeds, kept)
    n_threads = min(Execution(threads=threads).worker_count, max(1, len(seeds)))
    scratch = [_scratch(core, model, kept) for _ in range(n_threads)]
    growing = _Growing(seeds, compiled_schedule, scratch, deadline, threading.Event())
    found = [_NONE]
    n_steps = 0
    with ThreadPoolExecutor(n_threads) as pool:
        try:
            for first in range(0, len(seeds), _SEEDS_AT_ONCE):
                end = min(first + _SEEDS_AT_ONCE, len(seeds))
                found.append(growing.some(pool, first, end))
                n_steps += int(found[-1].numbers[:, 2].sum())
                if len(found[-1].members) < end - first or n_steps > most_steps:
                    break
        finally:
            growing.stopped.set()
    return _distinct(_Results.joined(found), most_steps, len(seeds), kept)


def compile_steps() -> tuple[CompileStep, ...]:
    """Return the steps to compile the functions of this module."""
    return *steps_of(growth_steps.ascend_some), *subgraphs.compile_steps()


class _Results(NamedTuple):
    """Groups of seeds, one per seed, in order; `numbers` has edges, score and steps of each."""

    members: GroupMembers
    numbers: np.ndarray

    @classmethod
    def joined(cls, parts: Sequence[_Results]) -> _Results:
        """Concatenate results."""
        return cls(
            GroupMembers.joined([part.members for part in parts]), np.concatenate([part.numbers for part in parts])
        )

    def take(self, rows: np.ndarray) -> _Results:
        """Return the results in the order of `rows`."""
        return _Results(self.members.take(rows), self.numbers[rows])


_NONE = _Results(GroupMembers.of([]), np.empty((0, 3), np.int64))


def _scratch(graph: BipartiteCSR, model: NullModel, kept: tuple[np.ndarray, np.ndarray]) -> growth_steps.Scratch:
    """Return the working memory of one thread."""
    left, right = (
        growth_steps.Side(
            offsets=offsets,
            neighbours=neighbours,
            vertices=np.column_stack([np.zeros_like(log_degrees), log_degrees << growth_steps.DEGREE_BIT]),
            at_least=at_least,
            factorials=model.log_factorials,
            marks=np.zeros(log_degrees.size, np.uint8),
            members=np.zeros(log_degrees.size, np.int32),
            touched=np.zeros(log_degrees.size + 1, np.int32),
            values=np.zeros(log_degrees.size + 1, np.int64),
            wanted=np.zeros(log_degrees.size + 1, np.int32),
            best=np.zeros(log_degrees.size, np.int32),
            counts=np.zeros(growth_steps.N_COUNTS, np.int64),
        )
        for offsets, neighbours, log_degrees, at_least in (
            (
                graph.left_offsets,
                graph.left_members,
                model.left_log_degrees[kept[0]] - model.log_edges,
                model.left_at_least,
            ),
            (graph.right_offsets, graph.right_members, model.right_log_degrees[kept[1]], model.right_at_least),
        )
    )
    return growth_steps.Scratch(left, right, PAIR_WEIGHTS)


def _core(graph: BipartiteCSR, min_left: int, min_right: int) -> tuple[BipartiteCSR, tuple[np.ndarray, np.ndarray]]:
    """Return the core with these minimum degrees, and the ids of its vertices in the graph."""
    left, right = np.ones(graph.n_left, np.bool_), np.ones(graph.n_right, np.bool_)
    peel_to_core(graph, left, right, min_left, min_right)
    kept = np.flatnonzero(left).astype(np.int32), np.flatnonzero(right).astype(np.int32)
    return subgraph(graph, left, right, ranks(left), ranks(right)), kept


def _inside(seeds: GroupMembers, kept: tuple[np.ndarray, np.ndarray]) -> GroupMembers:
    """Return the seeds inside the core, with the core's ids."""
    is_inside, of_core = np.ones(len(seeds), np.bool_), []
    for side, ids in enumerate(kept):
        members, owners = seeds.side(side)
        places = np.full(max(members.max(initial=0), ids.max(initial=0)) + 1, -1, np.int32)
        places[ids] = np.arange(ids.size, dtype=np.int32)
        of_core.append(places[members])
        is_inside[owners[of_core[side] < 0]] = False
    return GroupMembers(seeds.left_offsets, of_core[0], seeds.right_offsets, of_core[1]).take(np.flatnonzero(is_inside))


@dataclass(frozen=True, slots=True, eq=False)
class _Growing:
    """The seeds, their schedule, each thread's working memory, the deadline, and an event to stop."""

    seeds: GroupMembers
    schedule: growth_steps.Schedule
    scratch: list[growth_steps.Scratch]
    deadline: float
    stopped: threading.Event

    def some(self, pool: ThreadPoolExecutor, first: int, end: int) -> _Results:
        """Return the groups of the seeds `first` to `end`, up to the first one not grown before the deadline."""
        n = len(self.scratch)
        # Seeds of similar rank cost alike, so threads take them in turn.
        parts = list(pool.map(lambda i: self._ascents(range(first + i, end, n), self.scratch[i]), range(n)))
        rows = np.concatenate([first + i + n * np.arange(len(part.members)) for i, part in enumerate(parts)])
        order = np.argsort(rows)
        # After the deadline threads have stopped at different seeds; keep the results before the first gap.
        order = order[rows[order] == first + np.arange(rows.size)]
        return _Results.joined(parts).take(order)

    def _ascents(self, rows: range, scratch: growth_steps.Scratch) -> _Results:
        seeds, parts = self.seeds, [_NONE]
        lists = seeds.left_offsets, seeds.left_members, seeds.right_offsets, seeds.right_members
        left, right, weights = scratch
        while rows and not self.stopped.is_set() and time.perf_counter() < self.deadline:
            numbers, *members = growth_steps.ascend_some(
                lists, (rows.start, rows.stop, rows.step), _STEPS_AT_ONCE, left, right, weights, self.schedule
            )
            sides = [part for i in (0, 1) for part in (long_offsets(numbers[:, i]), members[i])]
            parts.append(_Results(GroupMembers(*sides), numbers[:, 2:]))
            rows = rows[len(numbers) :]
        return _Results.joined(parts)


def _distinct(results: _Results, most_steps: int, n_seeds: int, kept: tuple[np.ndarray, np.ndarray]) -> Grown:
    """Return the groups of the first seeds without duplicates, as far as the steps allow."""
    n = int(np.searchsorted(np.cumsum(results.numbers[:, 2]), most_steps, side="right"))
    _, firsts = np.unique(group_hashes(results.members)[:n], return_index=True)
    firsts = firsts[np.lexsort((firsts, -results.numbers[firsts, 1]))]
    groups, (n_edges, scores, _) = results.members.take(firsts), results.numbers[firsts].T
    members = GroupMembers(
        groups.left_offsets, kept[0][groups.left_members], groups.right_offsets, kept[1][groups.right_members]
    )
    return Grown(members, n_edges, scores, n_seeds - n, int(results.numbers[:n, 2].sum()))

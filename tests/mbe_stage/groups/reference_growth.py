"""The reference of growth, in plain Python numbers and sets.

`mbe verify` checks that published groups have grown, not that all have: only tests compare this with the engine.
"""

from __future__ import annotations

import math
from collections import Counter
from copy import copy
from fractions import Fraction
from functools import lru_cache

from mbe_stage.groups.growth import GrowthSchedule
from mbe_stage.groups.reference import SIGNIFICANT
from mbe_stage.groups.reference_selection import Group, NullOfEdges, units


class Searched(NullOfEdges):
    """The edges, and the criterion for the best group."""

    def worth(self, group: Group) -> tuple[bool, int]:
        """Return the criterion for the best of several groups."""
        score = self.score(group)
        if score <= SIGNIFICANT:
            return False, score
        names = sum(self.cost_of_search(side, len(group[side])) for side in (0, 1))
        return True, score + self.cost(group) - self.cost_of_class(group) - names

    def cost_of_search(self, side: int, n: int) -> int:
        """Return the cost of naming this many members among a side's vertices."""
        return self.null.log_choices(self.sizes[side], n)


@lru_cache(maxsize=2)
def core(null: Searched, min_left: int, min_right: int) -> Searched:
    """Return the part where right vertices have this many left neighbours and left ones this many right ones."""
    part, least = copy(null), (min_right, min_left)
    edges, before = null.edges, None
    while edges != before:
        before = edges
        degrees = [Counter(edge[side] for edge in edges) for side in (0, 1)]
        edges = {edge for edge in edges if all(degrees[side][edge[side]] >= least[side] for side in (0, 1))}
    part.edges = edges
    part.sizes = len({u for u, _ in edges}), len({v for _, v in edges})
    part.neighbours = {}, {}
    for edge in edges:
        for side in (0, 1):
            part.neighbours[side].setdefault(edge[side], set()).add(edge[1 - side])
    return part


def grow(
    null: Searched, seed: Group, schedule: GrowthSchedule, least: tuple[int, int] = (1, 1)
) -> tuple[Group, int] | None:
    """Return the group grown from a seed, and its score: the best on its ascents, the earliest of ties.

    Candidates are all vertices with two edges into the group, or one if groups may have one member on the other side. A
    seed outside of that part, or too small and without a group around it, gives None.
    """
    null = core(null, min(2, least[0]), min(2, least[1]))
    if any(not null.neighbours[side].keys() >= set(seed[side]) for side in (0, 1)):
        return None
    is_large = all(len(members) >= n for members, n in zip(seed, least, strict=True))
    best, most = (seed, null.worth(seed)) if is_large else (None, (False, -math.inf))
    for first in schedule.first_densities:
        group, density = seed, first
        for _ in range(schedule.n_rounds):
            before = group
            for side in (0, 1):
                group = _half_step(null, group, side, density)
                if len(group[side]) < least[side]:
                    break
                is_large = all(len(members) >= n for members, n in zip(group, least, strict=True))
                worth = null.worth(group)
                found = len(null.present(group)) / (len(group[0]) * len(group[1]))
                if is_large and worth > most and found >= schedule.min_density:
                    best, most = group, worth
            if any(len(members) < n for members, n in zip(group, least, strict=True)):
                break
            found = min(max(found, schedule.least_density), schedule.most_density)
            if group == before and found == density:
                break
            density = found
    return None if best is None else (best, null.score(best))


def without_bystanders(null: NullOfEdges, group: Group, min_share: Fraction) -> Group:
    """Return a group without left members that have too few of their edges in it, and right ones isolated by that."""
    degrees = {u: len(null.neighbours[0].get(u, ())) for u in group[0]}
    shared = {u: len(null.present(((u,), group[1]))) for u in group[0]}
    left = tuple(u for u in group[0] if shared[u] > 0 and Fraction(shared[u], degrees[u]) >= min_share)
    return left, tuple(v for v in group[1] if null.present((left, (v,))))


def _half_step(null: Searched, group: Group, side: int, density: float) -> Group:
    """Return the group with one side chosen again, given the other."""
    others = group[1 - side]
    log_share, log_missing = units(density), units(1 - density)
    values: dict[int, int] = {}
    # The others have only missing edges.
    for vertex in sorted(set().union(*(null.neighbours[1 - side].get(other, set()) for other in others))):
        edges = [(vertex, other) if side == 0 else (other, vertex) for other in others]
        worth = [log_share + null.weights[edge] if edge in null.edges else log_missing for edge in edges]
        values[vertex] = sum(worth)
    order = sorted((vertex for vertex in values if values[vertex] > 0), key=lambda vertex: -values[vertex])
    names = [null.cost_of_search(side, k) for k in range(len(order) + 1)]
    sums = [sum(values[vertex] for vertex in order[:k]) - names[k] for k in range(len(order) + 1)]
    n = sums.index(max(sums))
    # Ties with the last one are included.
    chosen = [vertex for vertex in order if n > 0 and values[vertex] >= values[order[n - 1]]]
    other_side = tuple(others)
    return (tuple(sorted(chosen)), other_side) if side == 0 else (other_side, tuple(sorted(chosen)))

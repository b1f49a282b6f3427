"""The specification of short list, cover and growth, in plain Python; compiled code must equal it.

A group is a pair of ascending tuples of left and right ids. Logarithms are whole numbers of units, as in `null_model`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

from mbe_stage.graphs.bipartite import BipartiteCSR
from mbe_stage.groups.growth import GrowthSchedule
from mbe_stage.groups.null_model import UNIT, NullModel, log_binomials
from mbe_stage.groups.quasi_bicliques import LEAST_WEIGHT

__all__ = ["NullOfEdges", "cover", "grow", "ranked", "without_bystanders", "without_near_copies"]

Group = tuple[tuple[int, ...], tuple[int, ...]]
Edges = set[tuple[int, int]]


class NullOfEdges:
    """A graph as a set of edges, what each is worth, and what naming costs."""

    def __init__(self, graph: BipartiteCSR, model: NullModel) -> None:
        left, right = (side.tolist() for side in graph.edges())
        self.edges: Edges = set(zip(left, right, strict=True))
        self.sizes = graph.n_left, graph.n_right
        self.weights = {
            (u, v): max(
                model.log_edges - int(model.left_log_degrees[u]) - int(model.right_log_degrees[v]), LEAST_WEIGHT
            )
            for u, v in self.edges
        }
        self.neighbours: tuple[dict[int, set[int]], dict[int, set[int]]] = {}, {}
        for u, v in self.edges:
            self.neighbours[0].setdefault(u, set()).add(v)
            self.neighbours[1].setdefault(v, set()).add(u)
        self.costs = tuple(log_binomials(n, n).tolist() for n in self.sizes)

    def present(self, group: Group) -> Edges:
        """The edges of a group that there are."""
        return {(u, v) for u in group[0] for v in self.neighbours[0].get(u, set()).intersection(group[1])}

    def score(self, group: Group) -> int:
        """The score of a quasi-biclique."""
        present = self.present(group)
        n_cells = len(group[0]) * len(group[1])
        weight = sum(self.weights[edge] for edge in present)
        return weight + density_term(len(present), n_cells) - self.cost_of_members(group) - self.cost_of_sizes()

    def cost_of_members(self, group: Group) -> int:
        """Cost of naming its members."""
        return self.costs[0][len(group[0])] + self.costs[1][len(group[1])]

    def cost_of_sizes(self) -> int:
        """Cost of naming their number."""
        return self.costs[0][1] + self.costs[1][1]

    def gain(self, group: Group, explained: Edges) -> int:
        """Gain of a group if some edges are explained."""
        present = self.present(group)
        n_cells = len(group[0]) * len(group[1])
        is_complete = len(present) == n_cells
        log_share = units(len(present) / n_cells) if present and not is_complete else 0
        gain = sum(self.weights[edge] for edge in present - explained) - self.cost_of_members(group)
        gain += density_term(len(present), n_cells) - len(present & explained) * log_share
        return gain if is_complete else gain - self.cost_of_sizes()


def units(value: float) -> int:
    """``ln`` of a number, in units."""
    return round(math.log(value) * UNIT)


def density_term(n_present: int, n_cells: int) -> int:
    """``e ln q + (n - e) ln(1 - q)`` in units."""
    n_missing = n_cells - n_present
    if n_present == 0 or n_missing == 0:
        return 0
    present, missing = n_present * math.log(n_present / n_cells), n_missing * math.log(n_missing / n_cells)
    return round((present + missing) * UNIT)


def ranked(keys: Sequence[int], surprise: Sequence[int], groups: Sequence[Group], per: str | None = None) -> list[int]:
    """Rows of those of positive surprise, best first, by ``vertex`` or ``edge`` or as they are; ties by key."""

    def rank(row: int) -> tuple[Fraction, int]:
        n_left, n_right = map(len, groups[row])
        parts = {None: 1, "vertex": n_left + n_right, "edge": n_left * n_right}[per]
        return -Fraction(surprise[row], parts), keys[row]

    return sorted((row for row in range(len(keys)) if surprise[row] > 0), key=rank)


def without_near_copies(lefts: Sequence[Sequence[int]], max_overlap: Fraction, limit: int | None = None) -> list[int]:
    """Rows of the sets whose Jaccard similarity with each earlier one that stays is below a threshold."""
    kept: list[int] = []
    for row, left in enumerate(map(set, lefts)):
        others = [set(lefts[other]) for other in kept]
        if all(Fraction(len(left & other), len(left | other)) < max_overlap for other in others):
            kept.append(row)
    return kept if limit is None else kept[:limit]


def cover(null: NullOfEdges, groups: Sequence[Group], limit: int | None = None) -> list[tuple[int, int]]:
    """Rows and gains of the groups that are chosen: each time the one that gains most, of several the first."""
    explained: Edges = set()
    chosen: list[tuple[int, int]] = []
    while limit is None or len(chosen) < limit:
        gains = [null.gain(group, explained) for group in groups]
        best = max(range(len(groups)), key=lambda row: (gains[row], -row), default=-1)
        if best < 0 or gains[best] <= 0:
            return chosen
        chosen.append((best, gains[best]))
        explained |= null.present(groups[best])
    return chosen


def grow(
    null: NullOfEdges, seed: Group, schedule: GrowthSchedule, least: tuple[int, int] = (1, 1)
) -> tuple[Group, int]:
    """Grow a seed; return the group and its score: the best its ascents pass through, the earliest of several."""
    best, best_score = seed, null.score(seed)
    for first in schedule.first_densities:
        group, density = seed, first
        for _ in range(schedule.n_rounds):
            before = group
            for side in (0, 1):
                group = _half_step(null, group, side, density, schedule.joining)
                if any(len(members) < n for members, n in zip(group, least, strict=True)):
                    break
                score = null.score(group)
                found = len(null.present(group)) / (len(group[0]) * len(group[1]))
                if score > best_score and found >= schedule.min_density:
                    best, best_score = group, score
            if any(len(members) < n for members, n in zip(group, least, strict=True)):
                break
            found = min(max(found, schedule.least_density), schedule.most_density)
            if group == before and found == density:
                break
            density = found
    return best, best_score


def without_bystanders(null: NullOfEdges, group: Group, min_share: Fraction) -> Group:
    """A group without the left members that have less of their edges in it, and the right ones that nobody has then."""
    degrees = {u: len(null.neighbours[0].get(u, ())) for u in group[0]}
    shared = {u: len(null.present(((u,), group[1]))) for u in group[0]}
    left = tuple(u for u in group[0] if shared[u] > 0 and Fraction(shared[u], degrees[u]) >= min_share)
    return left, tuple(v for v in group[1] if null.present((left, (v,))))


def _half_step(null: NullOfEdges, group: Group, side: int, density: float, joining: str) -> Group:
    """The group with one side chosen anew, given the other one."""
    members, others = group[side], group[1 - side]
    log_share, log_missing = units(density), units(1 - density)
    values: dict[int, int] = {}
    # Others have missing edges only.
    for vertex in sorted(set().union(*(null.neighbours[1 - side].get(other, set()) for other in others))):
        edges = [(vertex, other) if side == 0 else (other, vertex) for other in others]
        worth = [log_share + null.weights[edge] if edge in null.edges else log_missing for edge in edges]
        values[vertex] = sum(worth)
    if joining == "threshold":
        above = units(null.sizes[side] / max(1, len(members)))
        chosen = [vertex for vertex, value in values.items() if value > above]
    else:
        order = sorted((vertex for vertex in values if values[vertex] > 0), key=lambda vertex: -values[vertex])
        sums = [sum(values[vertex] for vertex in order[:k]) - null.costs[side][k] for k in range(len(order) + 1)]
        n = sums.index(max(sums))
        # Who has as much evidence as the last one comes along.
        chosen = [vertex for vertex in order if n > 0 and values[vertex] >= values[order[n - 1]]]
    other_side = tuple(others)
    return (tuple(sorted(chosen)), other_side) if side == 0 else (other_side, tuple(sorted(chosen)))

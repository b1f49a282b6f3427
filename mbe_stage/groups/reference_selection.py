"""The specification of short list and growth, in plain Python numbers and sets.

Engines must equal it, and `mbe verify` recomputes published groups with it, so it shares no code with an engine. A
group is a pair of ascending tuples of left and right ids. Logarithms are whole numbers of units, as in `reference`.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from copy import copy
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from mbe_stage.groups.reference import SIGNIFICANT, UNIT, Null, weights_of

if TYPE_CHECKING:
    from mbe_stage.groups.growth import GrowthSchedule

Group = tuple[Sequence[int], Sequence[int]]
Sets = tuple[frozenset[int], frozenset[int]]
Edges = set[tuple[int, int]]


class NullOfEdges:
    """Edges of a graph as a set, what each is worth, and what naming costs.

    Parameters
    ----------
    left, right : (n,) integers
        The ends of the edges.
    null : Null
    """

    def __init__(self, left: np.ndarray, right: np.ndarray, null: Null) -> None:
        weights = weights_of(null.log_expected(left, right))
        self.weights = dict(zip(zip(left.tolist(), right.tolist(), strict=True), weights.tolist(), strict=True))
        self.edges: Edges = set(self.weights)
        self.sizes = null.degrees[0].size, null.degrees[1].size
        self.neighbours: tuple[dict[int, set[int]], dict[int, set[int]]] = {}, {}
        for u, v in self.edges:
            self.neighbours[0].setdefault(u, set()).add(v)
            self.neighbours[1].setdefault(v, set()).add(u)
        self._null = null

    def present(self, group: Group) -> Edges:
        """The edges of a group that there are."""
        return {(u, v) for u in group[0] for v in self.neighbours[0].get(u, set()).intersection(group[1])}

    def core(self, min_left: int, min_right: int) -> NullOfEdges:
        """The part in which each right vertex has so many left neighbours, and each left one so many right ones."""
        part, least = copy(self), (min_right, min_left)
        edges, before = self.edges, None
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

    def score(self, group: Group) -> int:
        """The score of a quasi-biclique."""
        present = self.present(group)
        weight = sum(self.weights[edge] for edge in present)
        return weight + density_term(len(present), len(group[0]) * len(group[1])) - self.cost(group)

    def cost(self, group: Group) -> int:
        """Cost of naming its members, their numbers, the fewest edges of a member of each side, and its edges."""
        names = self.cost_of_class(group)
        for side in (0, 1):
            others = set(group[1 - side])
            least = min(len(others & self.neighbours[side].get(vertex, set())) for vertex in group[side])
            names += int(self._null.cost_of_members(side, least, len(group[side])))
        return names

    def worth(self, group: Group) -> tuple[bool, int]:
        """What decides which of several groups is the best."""
        score = self.score(group)
        if score <= SIGNIFICANT:
            return False, score
        names = sum(self.cost_of_search(side, len(group[side])) for side in (0, 1))
        return True, score + self.cost(group) - self.cost_of_class(group) - names

    def cost_of_search(self, side: int, n: int) -> int:
        """Cost of naming so many members among all vertices of a side."""
        return self._null.log_choices(self.sizes[side], n)

    def cost_of_class(self, group: Group) -> int:
        """Cost of all of these but the members."""
        n_cells = len(group[0]) * len(group[1])
        return round(math.log(n_cells * (n_cells + 1)) * UNIT) + self._null.class_cost

    def has_more_than_expected(self, group: Group) -> bool:
        """True if the group has more edges than are expected by chance."""
        return len(self.present(group)) > self._null.expected_edges(*map(np.array, group))


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


def ranked(keys: Sequence[int], values: Sequence[int], parts: Sequence[int] | None = None) -> list[int]:
    """Rows by value, or by value per part, best first; ties by key."""

    def rank(row: int) -> tuple[Fraction | int, int]:
        return -(values[row] if parts is None else Fraction(values[row], parts[row])), keys[row]

    return sorted(range(len(keys)), key=rank)


def overlap_fraction(max_overlap: float) -> Fraction:
    """A decimal as the nearest fraction of a small denominator: 0.3 for 3/10, and not what is next to it."""
    return Fraction(max_overlap).limit_denominator(1_000_000)


class NearCopies:
    """Sets that are kept, and the first of them whose Jaccard similarity with another set is at least a threshold."""

    def __init__(self, max_overlap: Fraction) -> None:
        self._max_overlap = max_overlap
        self._sizes: list[int] = []
        self._of_member: defaultdict[int, list[int]] = defaultdict(list)

    def first(self, members: Collection[int], but: Collection[int] = ()) -> int | None:
        """The first set kept, but for some by number, that this one is a near copy of."""
        common = Counter(row for member in members for row in self._of_member.get(member, ()))
        least, whole = self._max_overlap.as_integer_ratio()
        near = (row for row, n in common.items() if n * whole >= least * (len(members) + self._sizes[row] - n))
        return min((row for row in near if row not in but), default=None)

    def keep(self, members: Iterable[int]) -> None:
        """Keep a set."""
        members = set(members)
        for member in members:
            self._of_member[member].append(len(self._sizes))
        self._sizes.append(len(members))


def listed(
    groups: Sequence[Sets],
    n_grown: int,
    best_first: Sequence[int],
    pool: Iterable[int],
    max_overlap: Fraction,
    limit: int,
    is_muted: Callable[[int], bool],
) -> list[tuple[int, int | None, int]]:
    """The list of groups: for each its row, that of its core, and the number of bicliques that it stands for.

    The pool is walked in its order. Near copies of an earlier and better group that is none are left out, and so are
    bicliques
    inside a listed grown group. The list ends with the `limit`-th group that is not muted. The core of a grown group is
    the best biclique inside it. A biclique that is not listed counts for the first listed group of which it is a near
    copy.

    Parameters
    ----------
    groups : sequence of Sets
        The grown ones, then the significant candidates; graphs have no right ids in common.
    best_first : sequence of int
        All rows.
    pool : iterable of int
        The rows to choose from.
    is_muted : callable
        Takes a row.
    """
    seen, stay, rows, n_heard = NearCopies(max_overlap), list[int](), list[int](), 0
    rank = {row: place for place, row in enumerate(best_first)}
    for row in pool:
        worse = {i for i, other in enumerate(stay) if rank[other] > rank[row]}
        if seen.first(groups[row][0], worse) is not None:
            continue
        seen.keep(groups[row][0])
        stay.append(row)
        if row >= n_grown and any(_is_inside(groups[row], groups[other]) for other in rows if other < n_grown):
            continue
        rows.append(row)
        n_heard += not is_muted(row)
        if n_heard == limit:
            break
    bicliques, copies = [row for row in best_first if row >= n_grown], NearCopies(max_overlap)
    for row in rows:
        copies.keep(groups[row][0])
    n_copies = Counter(copies.first(groups[row][0]) for row in set(bicliques).difference(rows))
    cores = (
        row if row >= n_grown else next((other for other in bicliques if _is_inside(groups[other], groups[row])), None)
        for row in rows
    )
    return [(row, core, (row >= n_grown) + n_copies[i]) for i, (row, core) in enumerate(zip(rows, cores, strict=True))]


def _is_inside(one: Sets, other: Sets) -> bool:
    return one[0] <= other[0] and one[1] <= other[1]


def arranged(
    order: Sequence[int], groups: Sequence[Sets], n_grown: int, graphs: Sequence[int], n_right: Sequence[int] | None
) -> list[int]:
    """Groups in the order of the list; see `mbe_stage.groups.listing.arranged`."""
    if n_right is None:
        return sorted(order, key=lambda row: (len(groups[row][0]) <= 2, row >= n_grown))
    narrowest: dict[frozenset[int], int] = {}
    for row in order:
        if row >= n_grown and (graph := graphs[row]) > 0:
            other = narrowest.setdefault(groups[row][0], graph)
            narrowest[groups[row][0]] = min(graph, other, key=lambda one: (-n_right[one], one))
    stay = [row for row in order if row < n_grown or graphs[row] == 0 or narrowest[groups[row][0]] == graphs[row]]
    return sorted(stay, key=lambda row: (len(groups[row][0]) <= 2, graphs[row] == 0, row >= n_grown))


def grow(
    null: NullOfEdges, seed: Group, schedule: GrowthSchedule, least: tuple[int, int] = (1, 1)
) -> tuple[Group, int] | None:
    """What a seed grows to, and its score: the best that its ascents pass through, the earliest of several.

    Others are looked for where all have two edges on, or one where groups may have one member on the other side. A seed
    outside of that part, or too small and without a group around it, grows to none.
    """
    null = null.core(min(2, least[0]), min(2, least[1]))
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
    """Return a group without left members that have too few of their edges in it, nor right ones isolated by that."""
    degrees = {u: len(null.neighbours[0].get(u, ())) for u in group[0]}
    shared = {u: len(null.present(((u,), group[1]))) for u in group[0]}
    left = tuple(u for u in group[0] if shared[u] > 0 and Fraction(shared[u], degrees[u]) >= min_share)
    return left, tuple(v for v in group[1] if null.present((left, (v,))))


def _half_step(null: NullOfEdges, group: Group, side: int, density: float) -> Group:
    """The group with one side chosen anew, given the other one."""
    others = group[1 - side]
    log_share, log_missing = units(density), units(1 - density)
    values: dict[int, int] = {}
    # Others have missing edges only.
    for vertex in sorted(set().union(*(null.neighbours[1 - side].get(other, set()) for other in others))):
        edges = [(vertex, other) if side == 0 else (other, vertex) for other in others]
        worth = [log_share + null.weights[edge] if edge in null.edges else log_missing for edge in edges]
        values[vertex] = sum(worth)
    order = sorted((vertex for vertex in values if values[vertex] > 0), key=lambda vertex: -values[vertex])
    names = [null.cost_of_search(side, k) for k in range(len(order) + 1)]
    sums = [sum(values[vertex] for vertex in order[:k]) - names[k] for k in range(len(order) + 1)]
    n = sums.index(max(sums))
    # Who has as much evidence as the last one comes along.
    chosen = [vertex for vertex in order if n > 0 and values[vertex] >= values[order[n - 1]]]
    other_side = tuple(others)
    return (tuple(sorted(chosen)), other_side) if side == 0 else (other_side, tuple(sorted(chosen)))

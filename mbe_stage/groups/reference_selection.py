"""The specification of the list, in plain Python numbers and sets.

Engines must equal it, and `mbe verify` recomputes published groups with it, so it shares no code with an engine. A
group is a pair of ascending tuples of left and right ids. Logarithms are whole units, as in `reference`.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from fractions import Fraction

import numpy as np

from mbe_stage.groups.reference import UNIT, Null, weights_of

Group = tuple[Sequence[int], Sequence[int]]
Sets = tuple[frozenset[int], frozenset[int]]
Edges = set[tuple[int, int]]


class NullOfEdges:
    """The edges of a graph as a set, their weights, and the costs of naming.

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
        self.null = null

    def present(self, group: Group) -> Edges:
        """Return the present edges of a group."""
        return {(u, v) for u in group[0] for v in self.neighbours[0].get(u, set()).intersection(group[1])}

    def score(self, group: Group) -> int:
        """Return the score of a quasi-biclique."""
        present = self.present(group)
        weight = sum(self.weights[edge] for edge in present)
        return weight + density_term(len(present), len(group[0]) * len(group[1])) - self.cost(group)

    def cost(self, group: Group) -> int:
        """Return the cost of naming a group's members, sizes, least degrees inside, and number of edges."""
        names = self.cost_of_class(group)
        for side in (0, 1):
            others = set(group[1 - side])
            least = min(len(others & self.neighbours[side].get(vertex, set())) for vertex in group[side])
            names += int(self.null.cost_of_members(side, least, len(group[side])))
        return names

    def cost_of_class(self, group: Group) -> int:
        """Return the part of `cost` that is not for the members."""
        n_cells = len(group[0]) * len(group[1])
        return round(math.log(n_cells * (n_cells + 1)) * UNIT) + self.null.class_cost

    def has_more_than_expected(self, group: Group) -> bool:
        """True if the group has more edges than expected by chance."""
        return len(self.present(group)) > self.null.expected_edges(*map(np.array, group))


def units(value: float) -> int:
    """Return ``ln`` of a number, in units."""
    return round(math.log(value) * UNIT)


def density_term(n_present: int, n_cells: int) -> int:
    """Return ``e ln q + (n - e) ln(1 - q)`` in units."""
    n_missing = n_cells - n_present
    if n_present == 0 or n_missing == 0:
        return 0
    present, missing = n_present * math.log(n_present / n_cells), n_missing * math.log(n_missing / n_cells)
    return round((present + missing) * UNIT)


def ranked(keys: Sequence[int], values: Sequence[int], parts: Sequence[int] | None = None) -> list[int]:
    """Return rows by value, or by value per part, best first; ties by key."""

    def rank(row: int) -> tuple[Fraction | int, int]:
        return -(values[row] if parts is None else Fraction(values[row], parts[row])), keys[row]

    return sorted(range(len(keys)), key=rank)


def overlap_fraction(max_overlap: float) -> Fraction:
    """Return a decimal as the nearest fraction with a small denominator, such as 3/10 for 0.3."""
    return Fraction(max_overlap).limit_denominator(1_000_000)


class NearCopies:
    """Kept sets, to find the first with a Jaccard similarity to another set of at least a threshold."""

    def __init__(self, max_overlap: Fraction) -> None:
        self._max_overlap = max_overlap
        self._sizes: list[int] = []
        self._of_member: defaultdict[int, list[int]] = defaultdict(list)

    def first(self, members: Collection[int], but: Collection[int] = ()) -> int | None:
        """Return the number of the first kept set, except those in `but`, that is a near copy of this set; or None."""
        common = Counter(row for member in members for row in self._of_member.get(member, ()))
        least, whole = self._max_overlap.as_integer_ratio()
        near = (row for row, n in common.items() if n * whole >= least * (len(members) + self._sizes[row] - n))
        return min((row for row in near if row not in but), default=None)

    def keep(self, members: Iterable[int]) -> None:
        """Add a set to the kept ones."""
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
    """Return the list of groups: for each its row, its core's row, and the number of bicliques that it represents.

    The pool is processed in order. A group is left out if it is a near copy of an earlier, better remaining group. It
    is also left out if it has the same left members as an earlier remaining group, which gets its rank, or if it is a
    biclique inside a listed grown group. The list ends with the `limit`-th group that is not muted. The core of a grown
    group is the best biclique inside it. Other bicliques count for the first listed near copy.

    Parameters
    ----------
    groups : sequence of Sets
        Grown groups, then significant candidates; different graphs have different right ids.
    best_first : sequence of int
        All rows, best first.
    pool : iterable of int
        Rows to choose from.
    is_muted : callable
        Takes a row; returns True if its group is muted.
    """
    seen, rows, n_heard = NearCopies(max_overlap), list[int](), 0
    places: dict[frozenset[int], int] = {}
    ranks = list[int]()
    rank = {row: place for place, row in enumerate(best_first)}
    for row in pool:
        if seen.first(groups[row][0], {i for i, other in enumerate(ranks) if other > rank[row]}) is not None:
            continue
        place = places.setdefault(groups[row][0], len(ranks))
        if place < len(ranks):
            ranks[place] = rank[row]
            continue
        seen.keep(groups[row][0])
        ranks.append(rank[row])
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
    """Arrange groups for the list; see `mbe_stage.groups.listing.arranged`."""
    if n_right is None:
        return sorted(order, key=lambda row: (len(groups[row][0]) <= 2, row >= n_grown))
    narrowest: dict[frozenset[int], int] = {}
    for row in order:
        if row >= n_grown and (graph := graphs[row]) > 0:
            other = narrowest.setdefault(groups[row][0], graph)
            narrowest[groups[row][0]] = min(graph, other, key=lambda one: (-n_right[one], one))
    stay = [row for row in order if row < n_grown or graphs[row] == 0 or narrowest[groups[row][0]] == graphs[row]]
    return sorted(stay, key=lambda row: (len(groups[row][0]) <= 2, graphs[row] == 0, row >= n_grown))

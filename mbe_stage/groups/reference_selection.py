"""The specification of the list, in plain Python numbers and sets.

Engines must equal it, and `mbe verify` recomputes published groups with it, so it shares no code with an engine. A
group is a pair of ascending tuples of left and right ids. Logarithms are whole numbers of units, as in `reference`.
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
        self.null = null

    def present(self, group: Group) -> Edges:
        """The edges of a group that there are."""
        return {(u, v) for u in group[0] for v in self.neighbours[0].get(u, set()).intersection(group[1])}

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
            names += int(self.null.cost_of_members(side, least, len(group[side])))
        return names

    def cost_of_class(self, group: Group) -> int:
        """Cost of all of these but the members."""
        n_cells = len(group[0]) * len(group[1])
        return round(math.log(n_cells * (n_cells + 1)) * UNIT) + self.null.class_cost

    def has_more_than_expected(self, group: Group) -> bool:
        """True if the group has more edges than are expected by chance."""
        return len(self.present(group)) > self.null.expected_edges(*map(np.array, group))


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

    The pool is walked in its order. Near copies of an earlier and better group that is none are left out. So are groups
    with the left members of an earlier one that is none, which takes their rank, and bicliques inside a listed grown
    group. The list ends with the `limit`-th group that is not muted. The core of a grown group is the best biclique
    inside it. Each other biclique counts for the first listed group that it is a near copy of.

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

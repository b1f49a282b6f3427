"""Count (p, q)-bicliques by other methods than the engines: closed forms, products of matrices, small walks.

Bicliques with required vertices are counted in a smaller graph. It has the left vertices adjacent to all required right
ones, and the right vertices adjacent to all required left ones. A count with p or q of 0 or 1 is a sum of binomials of
degrees. With p or q of 2 it is a sum over pairs of vertices; a matrix product gives their common neighbours. Other
counts are enumerated if that takes few steps.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import comb

import numpy as np
from scipy.sparse import csr_array

# Most multiplications (some nanoseconds each) of a matrix product, and of one part of it. A part's result takes at most
# twelve bytes per multiplication.
_MOST_PRODUCTS = 500_000_000
_PART_PRODUCTS = 10_000_000
# Most steps of a walk, a few hundred nanoseconds each.
_MOST_STEPS = 2_000_000


@dataclass(slots=True, eq=False)
class Recount:
    """The available counts of a graph.

    Attributes
    ----------
    joined : csr_array
        (n_left, n_right): 1 for an edge.
    wanted_left, wanted_right : tuple of int
        Vertices required in every biclique.
    """

    joined: csr_array
    wanted_left: tuple[int, ...] = ()
    wanted_right: tuple[int, ...] = ()
    rows: np.ndarray = field(init=False)
    columns: np.ndarray = field(init=False)
    rest: csr_array = field(init=False)
    is_possible: bool = field(init=False)
    _pairs: dict[bool, Counter[int] | None] = field(init=False, default_factory=dict)
    _walked: dict[tuple[int, int], Counter[int]] | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        left, right = list(dict.fromkeys(self.wanted_left)), list(dict.fromkeys(self.wanted_right))
        self.wanted_left, self.wanted_right = tuple(left), tuple(right)
        self.is_possible = bool(self.joined[left][:, right].sum() == len(left) * len(right))
        in_common = np.asarray(self.joined[:, right].sum(axis=1)).ravel() == len(right)
        of_common = np.asarray(self.joined[left].sum(axis=0)).ravel() == len(left)
        in_common[left], of_common[right] = False, False
        self.rows, self.columns = np.flatnonzero(in_common), np.flatnonzero(of_common)
        self.rest = csr_array(self.joined[self.rows][:, self.columns])

    def count(self, p: int, q: int) -> int | None:
        """Count the (p, q)-bicliques by closed forms and pairs; None if those do not suffice."""
        p, q = p - len(self.wanted_left), q - len(self.wanted_right)
        if p < 0 or q < 0 or not self.is_possible:
            return 0
        n_left, n_right = self.rest.shape
        if p == 0:
            return comb(n_right, q)
        if q == 0:
            return comb(n_left, p)
        if p == 1 or q == 1:
            return _binomials(Counter(_degrees(self.rest, 1 if p == 1 else 0).tolist()), q if p == 1 else p)
        if p == 2 or q == 2:
            pairs = self._in_common(of_left=p == 2)
            return None if pairs is None else _binomials(pairs, q if p == 2 else p)
        return None

    def of_vertices(self, p: int, q: int) -> tuple[dict[int, int], dict[int, int]] | None:
        """Return the counts of each left and right vertex if p or q in the smaller graph is 1; else None."""
        if self.wanted_left or self.wanted_right or not (p == 1 or q == 1):
            return None
        joined = self.joined if p == 1 else csr_array(self.joined.T)
        size, degrees = (q if p == 1 else p), _degrees(joined, 1).tolist()
        of_rows = {u: comb(degree, size) for u, degree in enumerate(degrees)}
        of_columns = dict.fromkeys(range(joined.shape[1]), 0)
        others = {degree: comb(degree - 1, size - 1) for degree in set(degrees)}
        for u, v in zip(*(ids.tolist() for ids in joined.nonzero()), strict=True):
            of_columns[v] += others[degrees[u]]
        return (of_rows, of_columns) if p == 1 else (of_columns, of_rows)

    def walked(self, cells: Sequence[tuple[int, int]], *, with_local: bool) -> Walk | None:
        """Count some cells by enumerating vertex sets of one side; None if there are too many."""
        if self.rest.shape[0] <= self.rest.shape[1]:
            walk = Walk(self, cells, with_local)
        else:
            other = Recount(csr_array(self.joined.T), self.wanted_right, self.wanted_left)
            walk = Walk(other, [(q, p) for p, q in cells], with_local)
            walk.exchange_sides()
        return walk if walk.is_done else None

    def _in_common(self, of_left: bool) -> Counter[int] | None:
        """Count pairs of vertices of a side by number of common neighbours, for pairs with at least one."""
        if of_left not in self._pairs:
            rest = self.rest if of_left else csr_array(self.rest.T)
            products = rest @ _degrees(rest, 0).astype(float)
            self._pairs[of_left] = _pairs(rest, products) if products.sum() <= _MOST_PRODUCTS else None
        return self._pairs[of_left]


class Walk:
    """Sums over all bicliques of some cells, from one pass over the sets of left vertices.

    Parameters
    ----------
    cells : sequence of (int, int)
    with_local : bool
        Also count per vertex and per edge.

    Attributes
    ----------
    is_done : bool
        False if there are too many sets.
    counts : dict of (int, int) to int
    left, right : dict of (int, int) to Counter
        Counts by vertex.
    edges : dict of (int, int) to Counter
        Counts by ``(left, right)``.
    """

    def __init__(self, of: Recount, cells: Sequence[tuple[int, int]], with_local: bool) -> None:
        self.counts = dict.fromkeys(cells, 0)
        self.left: dict[tuple[int, int], Counter[int]] = {cell: Counter() for cell in cells}
        self.right: dict[tuple[int, int], Counter[int]] = {cell: Counter() for cell in cells}
        self.edges: dict[tuple[int, int], Counter[tuple[int, int]]] = {cell: Counter() for cell in cells}
        self._of, self._with_local = of, with_local
        self._qs: dict[int, list[int]] = {}
        for p, q in cells:
            self._qs.setdefault(p, []).append(q)
        self._left_steps = _MOST_STEPS
        self.is_done = not of.is_possible or self._go()

    def exchange_sides(self) -> None:
        """Exchange left and right."""
        self.counts = {(q, p): count for (p, q), count in self.counts.items()}
        self.left, self.right = (
            {(q, p): numbers for (p, q), numbers in each.items()} for each in (self.right, self.left)
        )
        self.edges = {
            (q, p): Counter({(v, u): n for (u, v), n in numbers.items()}) for (p, q), numbers in self.edges.items()
        }

    def _go(self) -> bool:
        n_rows, n_wanted = self._of.rest.shape[0], len(self._of.wanted_left)
        most, fewest = max(self._qs) - n_wanted, max(0, min(q for _, q in self.counts) - len(self._of.wanted_right))
        if most < 0:
            return True
        # A walk visits at least all pairs.
        if most > 1 and n_rows * (n_rows - 1) // 2 > self._left_steps:
            return False
        offsets, members = self._of.rest.indptr.tolist(), self._of.rest.indices.tolist()
        rows = [set(members[first:end]) for first, end in pairwise(offsets)]
        for members, common in self._sets(rows, most, fewest):
            p = len(members) + n_wanted
            for q in self._qs.get(p, ()):
                self._take((p, q), members, common)
        return self._left_steps > 0

    def _sets(self, rows: list[set[int]], most: int, fewest: int) -> Iterator[tuple[tuple[int, ...], set[int]]]:
        """Yield sets of left vertices up to a size, with their common right vertices, if these are enough."""
        everything = set(range(self._of.rest.shape[1]))
        stack: list[tuple[tuple[int, ...], set[int]]] = [((), everything)]
        while stack and self._left_steps > 0:
            members, common = stack.pop()
            yield members, common
            if len(members) == most:
                continue
            for u in range(members[-1] + 1 if members else 0, len(rows)):
                shared = common & rows[u]
                self._left_steps -= 1 + (len(shared) if self._with_local else 0)
                if len(shared) >= fewest:
                    stack.append(((*members, u), shared))

    def _take(self, cell: tuple[int, int], members: tuple[int, ...], common: set[int]) -> None:
        of, wished = self._of, cell[1] - len(self._of.wanted_right)
        if wished < 0 or len(common) < wished:
            return
        total = comb(len(common), wished)
        self.counts[cell] += total
        if not self._with_local:
            return
        left = [*(int(of.rows[u]) for u in members), *of.wanted_left]
        others = comb(len(common) - 1, wished - 1) if wished else 0
        held = {**{int(of.columns[v]): others for v in common}, **dict.fromkeys(of.wanted_right, total)}
        for u in left:
            self.left[cell][u] += total
            for v, number in held.items():
                self.edges[cell][u, v] += number
        for v, number in held.items():
            self.right[cell][v] += number


def _pairs(rows: csr_array, products: np.ndarray) -> Counter[int]:
    """Count pairs of rows by number of common columns, for pairs with at least one.

    Parameters
    ----------
    products : (n_rows,) float64
        Multiplications per row; the matrix is multiplied in parts of `_PART_PRODUCTS`, or one row.
    """
    found: Counter[int] = Counter()
    columns = csr_array(rows.T)
    parts = (np.cumsum(products) // _PART_PRODUCTS).astype(np.int64)
    bounds = [0, *(np.flatnonzero(np.diff(parts)) + 1).tolist(), rows.shape[0]]
    for first, end in pairwise(bounds):
        part = (rows[first:end] @ columns).tocoo()
        in_common = part.data[part.col > part.row + first]
        numbers, times = np.unique(in_common, return_counts=True)
        found.update(dict(zip(numbers.tolist(), times.tolist(), strict=True)))
    return found


def _degrees(joined: csr_array, axis: int) -> np.ndarray:
    """Return sums over an axis: 1 gives those of the rows."""
    return np.asarray(joined.sum(axis=axis)).ravel().astype(np.int64)


def _binomials(times: Counter[int], size: int) -> int:
    return sum(n * comb(int(number), size) for number, n in times.items())

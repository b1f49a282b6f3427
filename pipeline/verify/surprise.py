"""The surprise of bicliques, and what each vertex is scored by, from their definitions.

With ``E`` edges, ``n_L`` and ``n_R`` vertices and the degree ``d`` of each, a biclique of ``a`` left and ``b`` right
members has the surprise

    a b ln E - b (sum of ln d, left) - a (sum of ln d, right) - ln C(n_L, a) - ln C(n_R, b)

in which every logarithm is rounded, half to even, to a multiple of 2^-24 nat. A **candidate** is a biclique that is
the best of some vertex (most surprise, then smallest key), or among the 20,000 best of all.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from scipy import sparse

from pipeline.verify.rows import Batch

__all__ = ["UNIT", "Found", "Null", "Wanted", "score_bicliques"]

UNIT = 1 << 24
_TOP = 20_000
_LARGEST_KEY = np.iinfo(np.int64).max


class Null:
    """What is expected of vertices of these degrees; logarithms in units.

    Parameters
    ----------
    degrees : pair of (n,) int64
        Of the left and of the right vertices.
    n_edges : int
    most : (int, int), optional
        Members of the largest groups, left and right; by default as many as a biclique can have.
    """

    def __init__(
        self, degrees: tuple[np.ndarray, np.ndarray], n_edges: int, most: tuple[int, int] | None = None
    ) -> None:
        self.log_edges = round(math.log(n_edges) * UNIT) if n_edges else 0
        self.logs = _logs(degrees[0]), _logs(degrees[1])
        # A biclique has at most as many members as the largest degree of the other side.
        most = most or (int(degrees[1].max(initial=0)), int(degrees[0].max(initial=0)))
        self.costs = _log_choices(degrees[0].size, most[0]), _log_choices(degrees[1].size, most[1])

    def surprise(self, batch: Batch) -> np.ndarray:
        """Of each row, ``(n,) int64``."""
        sizes = [batch.sizes(side) for side in (0, 1)]
        sums = [np.add.reduceat(self.logs[side][batch.members[side]], batch.offsets[side][:-1]) for side in (0, 1)]
        ratio = sizes[0] * sizes[1] * self.log_edges - sizes[1] * sums[0] - sizes[0] * sums[1]
        return ratio - self.costs[0][sizes[0]] - self.costs[1][sizes[1]]


@dataclass(frozen=True, slots=True, eq=False)
class Wanted:
    """The published groups, in the order in which they rank: their left members, and the overlap that is too much."""

    offsets: np.ndarray
    members: np.ndarray
    max_overlap: float

    def __len__(self) -> int:
        return self.offsets.size - 1


@dataclass(frozen=True, slots=True, eq=False)
class Found:
    """What all bicliques come down to.

    Attributes
    ----------
    keys, surprise : (n,) int64
        Of the bicliques whose surprise is positive; below, as well.
    n_members : (n,) int64
        Left and right.
    first_overlap : (n,) int64
        The first of the published groups that overlaps it too much; their number where none does.
    is_candidate : (n,) bool
    share_numerators : pair of (n_vertices,) int64
        Largest ``b b a`` of a left vertex's bicliques, ``a a b`` of a right one's.
    is_whole : bool
        Whether these are all bicliques of the run; else the groups themselves, of which less follows.
    """

    keys: np.ndarray
    surprise: np.ndarray
    n_members: np.ndarray
    first_overlap: np.ndarray
    is_candidate: np.ndarray
    share_numerators: tuple[np.ndarray, np.ndarray]
    is_whole: bool = True


def score_bicliques(rows: Iterable[Batch], null: Null, wanted: Wanted) -> Found:
    """One pass over the bicliques.

    Parameters
    ----------
    rows : iterable of Batch
    null : Null
    wanted : Wanted
    """
    best = [_Best(logs.size) for logs in null.logs]
    numerators = tuple(np.zeros(logs.size, np.int64) for logs in null.logs)
    overlaps = _Overlaps(wanted, null.logs[0].size)
    kept: list[tuple[np.ndarray, ...]] = [tuple(np.empty(0, np.int64) for _ in range(4))]
    for batch in rows:
        sizes, surprise = [batch.sizes(side) for side in (0, 1)], null.surprise(batch)
        for side in (0, 1):
            values = sizes[1 - side] ** 2 * sizes[side]
            np.maximum.at(numerators[side], batch.members[side], np.repeat(values, sizes[side]))
        rows = np.flatnonzero(surprise > 0)
        for side in (0, 1):
            members, n = _members_of(batch, side, rows), sizes[side][rows]
            best[side].add(members, np.repeat(surprise[rows], n), np.repeat(batch.keys[rows], n))
        first = overlaps.first(_members_of(batch, 0, rows), sizes[0][rows])
        kept.append((batch.keys[rows], surprise[rows], sizes[0][rows] + sizes[1][rows], first))
    keys, surprise, n_members, first = (np.concatenate(part) for part in zip(*kept, strict=True))
    is_candidate = np.isin(keys, np.concatenate([each.keys[each.surprise > 0] for each in best]))
    is_candidate[np.lexsort((keys, -surprise))[:_TOP]] = True
    return Found(keys, surprise, n_members, first, is_candidate, (numerators[0], numerators[1]))


class _Best:
    """The best biclique of each vertex of a side so far; 0 where none is positive."""

    def __init__(self, n_vertices: int) -> None:
        self.surprise = np.zeros(n_vertices, np.int64)
        self.keys = np.full(n_vertices, _LARGEST_KEY)

    def add(self, members: np.ndarray, surprise: np.ndarray, keys: np.ndarray) -> None:
        """Take some in: a value for each member."""
        before = self.surprise.copy()
        np.maximum.at(self.surprise, members, surprise)
        self.keys[self.surprise > before] = _LARGEST_KEY
        is_best = surprise == self.surprise[members]
        np.minimum.at(self.keys, members[is_best], keys[is_best])


class _Overlaps:
    """Which published groups a biclique overlaps too much, by left members."""

    def __init__(self, wanted: Wanted, n_left: int) -> None:
        self._wanted, self._sizes = wanted, np.diff(wanted.offsets)
        self._by_vertex = _incidence(wanted.offsets, wanted.members, n_left).T.tocsr()

    def first(self, members: np.ndarray, sizes: np.ndarray) -> np.ndarray:
        """Of each biclique the first such group; their number where there is none."""
        offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])
        common = (_incidence(offsets, members, self._by_vertex.shape[0]) @ self._by_vertex).tocoo()
        union = sizes[common.row] + self._sizes[common.col] - common.data
        # A decimal stands for the nearest fraction of a small denominator: 0.3 for 3/10, and not what is next to it.
        overlap = Fraction(self._wanted.max_overlap).limit_denominator(1_000_000)
        is_near = common.data * overlap.denominator >= overlap.numerator * union
        first = np.full(sizes.size, len(self._wanted), np.int64)
        np.minimum.at(first, common.row[is_near], common.col[is_near])
        return first


def _incidence(offsets: np.ndarray, members: np.ndarray, n_vertices: int) -> sparse.csr_matrix:
    shape = offsets.size - 1, n_vertices
    return sparse.csr_matrix((np.ones(members.size, np.int64), members, offsets), shape=shape)


def _members_of(batch: Batch, side: int, rows: np.ndarray) -> np.ndarray:
    is_wanted = np.zeros(batch.keys.size, np.bool_)
    is_wanted[rows] = True
    return batch.members[side][np.repeat(is_wanted, batch.sizes(side))]


def _logs(degrees: np.ndarray) -> np.ndarray:
    distinct, places = np.unique(degrees, return_inverse=True)
    return np.array([round(math.log(max(degree, 1)) * UNIT) for degree in distinct.tolist()], np.int64)[places]


def _log_choices(n: int, most: int) -> np.ndarray:
    """``ln C(n, k)`` for ``k = 0 .. most``."""
    # In doubles the sum would be off by more than a unit where there are millions of terms.
    k = np.arange(1, most + 1, dtype=np.longdouble)
    logs = np.cumsum(np.log(n - k + 1) - np.log(k))
    return np.concatenate([np.zeros(1, np.int64), np.rint(logs * UNIT).astype(np.int64)])

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
from typing import NamedTuple

import numpy as np
from scipy import sparse

from mbe_stage.pipeline.verify.rows import Batch
from mbe_stage.runtime.compile_ahead import CompileStep
from mbe_stage.runtime.jit import INTS, LONGS, compiled, readonly, readonly_view, steps_of

__all__ = ["UNIT", "Found", "Null", "Wanted", "compile_steps", "score_bicliques"]

UNIT = 1 << 24
_TOP, _SEEDS = 20_000, 2_000
_LOWEST, _LARGEST_KEY = np.iinfo(np.int64).min, np.iinfo(np.int64).max


class Null:
    """What is expected of vertices of these degrees; logarithms in units.

    Parameters
    ----------
    degrees : pair of (n,) int64
        Of the left and of the right vertices.
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

    @classmethod
    def none(cls) -> Wanted:
        """No groups, where none may be overlapped too much."""
        return cls(np.zeros(1, np.int64), np.empty(0, np.int64), 1.0)

    def __len__(self) -> int:
        return self.offsets.size - 1


@dataclass(frozen=True, slots=True, eq=False)
class Found:
    """What all bicliques come down to.

    Attributes
    ----------
    keys, surprise, evidence : (n,) int64
        Of the bicliques whose surprise is positive; below, as well. Evidence is surprise without what naming costs.
    n_left, n_right : (n,) int64
        Members.
    first_overlap : (n,) int64
        The first of the published groups that overlaps it too much; their number where none does.
    is_candidate : (n,) bool
    best_keys : (m,) int64
        Of the best biclique of some vertex, whatever its surprise; ascending.
    top_keys : (k,) int64
        Of the best of all, whatever their surprise; best first.
    share_numerators : pair of (n_vertices,) int64
        Largest ``b b a`` of a left vertex's bicliques, ``a a b`` of a right one's.
    is_whole : bool
        Whether these are all bicliques of the run; else the groups themselves, of which less follows.
    best : int
        The largest surprise of all, positive or not.
    """

    keys: np.ndarray
    surprise: np.ndarray
    evidence: np.ndarray
    n_left: np.ndarray
    n_right: np.ndarray
    first_overlap: np.ndarray
    is_candidate: np.ndarray
    best_keys: np.ndarray
    top_keys: np.ndarray
    share_numerators: tuple[np.ndarray, np.ndarray]
    is_whole: bool = True
    best: int = _LOWEST

    @property
    def seed_keys(self) -> np.ndarray:
        """What groups are grown from: the best of each vertex, and the 2,000 best of all."""
        return np.union1d(self.best_keys, self.top_keys[:_SEEDS])


def score_bicliques(rows: Iterable[Batch], null: Null, wanted: Wanted) -> Found:
    """One pass over the bicliques."""
    best = tuple(_Best.of_none(logs.size) for logs in null.logs)
    top = _Top()
    overlaps = _Overlaps(wanted, null.logs[0].size)
    kept: list[tuple[np.ndarray, ...]] = [tuple(np.empty(0, np.int64) for _ in range(6))]
    for batch in rows:
        sizes, surprise = [batch.sizes(side) for side in (0, 1)], null.surprise(batch)
        for side in (0, 1):
            numerators = sizes[1 - side] ** 2 * sizes[side]
            members, keys = readonly_view(batch.members[side]), readonly_view(batch.keys)
            _note_best(batch.offsets[side], members, keys, surprise, numerators, *best[side])
        top.add(batch.keys, surprise)
        high = np.flatnonzero(surprise > 0)
        first = overlaps.first(_members_of(batch, 0, high), sizes[0][high])
        n_left, n_right = sizes[0][high], sizes[1][high]
        evidence = surprise[high] + null.costs[0][n_left] + null.costs[1][n_right]
        kept.append((batch.keys[high], surprise[high], evidence, n_left, n_right, first))
    all_keys, surprise, evidence, n_left, n_right, first = (np.concatenate(part) for part in zip(*kept, strict=True))
    best_keys = np.unique(np.concatenate([each.keys[each.surprise > _LOWEST] for each in best]))
    top_keys = top.keys()
    return Found(
        keys=all_keys,
        surprise=surprise,
        evidence=evidence,
        n_left=n_left,
        n_right=n_right,
        first_overlap=first,
        is_candidate=np.isin(all_keys, np.concatenate([best_keys, top_keys])),
        best_keys=best_keys,
        top_keys=top_keys,
        share_numerators=(best[0].numerators, best[1].numerators),
        best=int(best[0].surprise.max(initial=_LOWEST)),
    )


class _Best(NamedTuple):
    """What the bicliques of each vertex of a side have at most; keys are of the most surprising."""

    surprise: np.ndarray
    keys: np.ndarray
    numerators: np.ndarray

    @classmethod
    def of_none(cls, n: int) -> _Best:
        return cls(np.full(n, _LOWEST), np.full(n, _LARGEST_KEY), np.zeros(n, np.int64))


class _Top:
    """The best bicliques of all so far: most surprise, then smallest key."""

    def __init__(self) -> None:
        self._keys, self._surprise = np.empty(0, np.int64), np.empty(0, np.int64)
        self._least = _LOWEST

    def add(self, keys: np.ndarray, surprise: np.ndarray) -> None:
        """Take some in."""
        rows = surprise >= self._least
        self._keys = np.concatenate([self._keys, keys[rows]])
        self._surprise = np.concatenate([self._surprise, surprise[rows]])
        if self._keys.size > 4 * _TOP:
            self._sort()

    def keys(self) -> np.ndarray:
        """Theirs, the best first."""
        self._sort()
        return self._keys

    def _sort(self) -> None:
        order = np.lexsort((self._keys, -self._surprise))[:_TOP]
        self._keys, self._surprise = self._keys[order], self._surprise[order]
        if order.size == _TOP:
            self._least = int(self._surprise[-1])


def compile_steps() -> tuple[CompileStep, ...]:
    """Everything here."""
    return steps_of(_note_best)


@compiled(LONGS, readonly(INTS), readonly(LONGS), LONGS, LONGS, LONGS, LONGS, LONGS)
def _note_best(offsets, members, keys, surprise, numerators, best_surprise, best_keys, best_numerators):
    """Take the members of one side of some rows into what their vertices have at most.

    Parameters
    ----------
    offsets, members : (n + 1,) int64 and int32
        Members of each row.
    keys, surprise, numerators : (n,) int64
        Of the rows.
    best_surprise, best_keys, best_numerators : (n_vertices,) int64
        Changed in place.
    """
    for row in range(keys.size):
        key, value, numerator = keys[row], surprise[row], numerators[row]
        for i in range(offsets[row], offsets[row + 1]):
            vertex = members[i]
            if value > best_surprise[vertex] or (value == best_surprise[vertex] and key < best_keys[vertex]):
                best_surprise[vertex], best_keys[vertex] = value, key
            if numerator > best_numerators[vertex]:
                best_numerators[vertex] = numerator


class _Overlaps:
    """Which published groups a biclique overlaps too much, by left members."""

    def __init__(self, wanted: Wanted, n_left: int) -> None:
        self._wanted, self._sizes = wanted, np.diff(wanted.offsets)
        self._by_vertex = _incidence(wanted.offsets, wanted.members, n_left).T.tocsr()

    def first(self, members: np.ndarray, sizes: np.ndarray) -> np.ndarray:
        """Of each biclique the first such group; their number where there is none."""
        if not len(self._wanted):
            return np.zeros(sizes.size, np.int64)
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

"""The specification of candidates and of scores of vertices, in plain NumPy and Python.

Engines must equal it, and `mbe verify` recomputes published groups with it, so it shares no code with an engine.

A graph has ``E`` edges, ``n_L`` and ``n_R`` vertices, and the degree ``d`` of each. The evidence of a biclique of `a`
left and `b` right members, and its surprise, which takes off what naming the members costs, are

    evidence = a b ln E - b (sum of ln d, left) - a (sum of ln d, right)
    surprise = evidence - ln C(n_L, a) - ln C(n_R, b)

Every logarithm is rounded, half to even, to a multiple of 2^-24 nat. A **candidate** is a biclique that is the best of
some vertex (most surprise, then smallest key), or among the `TOP` best of all.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

UNIT = 1 << 24
TOP, SEEDS = 20_000, 2_000
MOST_STEPS = 500_000_000
_LOWEST, _HIGHEST = np.iinfo(np.int64).min, np.iinfo(np.int64).max
# Edges of candidates that are worked on at once: this bounds memory.
_CHUNK = 1 << 21

Biclique = tuple[tuple[int, ...], tuple[int, ...]]
Pair = tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True, slots=True, eq=False)
class Bicliques:
    """Some bicliques: `keys`, and of (left, right) the `offsets` and `members`."""

    keys: np.ndarray
    offsets: Pair
    members: Pair

    @classmethod
    def of(cls, bicliques: Mapping[int, Biclique]) -> Bicliques:
        """Those of a mapping by key, in its order."""
        sides = tuple(zip(*bicliques.values(), strict=True)) or ((), ())
        left, right = ((_offsets(list(map(len, side))), np.array(sum(side, ()), np.int64)) for side in sides)
        return cls(np.array(list(bicliques), np.int64), (left[0], right[0]), (left[1], right[1]))

    @classmethod
    def joined(cls, parts: Sequence[Bicliques]) -> Bicliques:
        """Those of several, one behind the other."""
        none = [np.empty(0, np.int64)]
        left, right = (
            (
                _offsets(np.concatenate(none + [part.sizes(side) for part in parts])),
                np.concatenate(none + [part.members[side] for part in parts]),
            )
            for side in (0, 1)
        )
        return cls(np.concatenate(none + [part.keys for part in parts]), (left[0], right[0]), (left[1], right[1]))

    def sizes(self, side: int) -> np.ndarray:
        """Members of each on a side."""
        return np.diff(self.offsets[side])

    def take(self, rows: np.ndarray) -> Bicliques:
        """Some of them, in the order of `rows`."""
        left, right = (_taken(self.offsets[side], self.members[side], rows) for side in (0, 1))
        return Bicliques(self.keys[rows], (left[0], right[0]), (left[1], right[1]))

    def side(self, side: int) -> list[list[int]]:
        """The members of each on a side."""
        members, ends = self.members[side].tolist(), self.offsets[side].tolist()
        return [members[start:end] for start, end in pairwise(ends)]


class Null:
    """Null expectation for vertices of these degrees; logarithms in units.

    Parameters
    ----------
    degrees : pair of (n,) int64
        Of the left and of the right vertices.
    most : (int, int), optional
        Members of the largest groups, left and right; by default as many as a biclique can have.
    """

    def __init__(self, degrees: Pair, n_edges: int, most: tuple[int, int] | None = None) -> None:
        self.degrees = degrees
        self.log_edges = round(math.log(n_edges) * UNIT) if n_edges else 0
        self.logs = _logs(degrees[0]), _logs(degrees[1])
        # A biclique has at most as many members as the largest degree of the other side.
        most = most or (int(degrees[1].max(initial=0)), int(degrees[0].max(initial=0)))
        self.costs = _log_choices(degrees[0].size, most[0]), _log_choices(degrees[1].size, most[1])

    def evidence(self, rows: Bicliques) -> np.ndarray:
        """The evidence of each biclique, ``(n,) int64``."""
        sizes = rows.sizes(0), rows.sizes(1)
        evidence = sizes[0] * sizes[1] * self.log_edges
        for side in (0, 1) if evidence.size else ():
            evidence -= sizes[1 - side] * np.add.reduceat(self.logs[side][rows.members[side]], rows.offsets[side][:-1])
        return evidence

    def surprise(self, rows: Bicliques) -> np.ndarray:
        """The surprise of each biclique, ``(n,) int64``."""
        return self.evidence(rows) - self.costs[0][rows.sizes(0)] - self.costs[1][rows.sizes(1)]


class Best:
    """The best bicliques of each vertex and of all, in one pass over the bicliques.

    Attributes
    ----------
    surprise, keys : pair of (n_vertices,) int64
        The best biclique of each vertex of a side.
    numerators : pair of (n_vertices,) int64
        Largest ``b b a`` of a left vertex's bicliques, ``a a b`` of a right one's; 0 for a vertex in none.
    top_keys, top_surprise : (k,) int64
        Of the best of all, best first.
    """

    def __init__(self, null: Null, top: int) -> None:
        self._null, self._top = null, top
        sizes = [degrees.size for degrees in null.degrees]
        self.surprise, self.keys, self.numerators = (
            tuple(np.full(n, value) for n in sizes) for value in (_LOWEST, _HIGHEST, 0)
        )
        self.top_keys = self.top_surprise = np.empty(0, np.int64)

    def add(self, rows: Bicliques) -> None:
        """Take some in."""
        surprise = self._null.surprise(rows)
        for side in (0, 1):
            sizes, members = rows.sizes(side), rows.members[side]
            best, keys = self.surprise[side], self.keys[side]
            values, before = np.repeat(surprise, sizes), best[members]
            np.maximum.at(best, members, values)
            np.maximum.at(self.numerators[side], members, np.repeat(rows.sizes(1 - side) ** 2 * sizes, sizes))
            # A key counts among the bicliques of the highest surprise.
            keys[members[best[members] > before]] = _HIGHEST
            is_best = values == best[members]
            np.minimum.at(keys, members[is_best], np.repeat(rows.keys, sizes)[is_best])
        is_full = self.top_keys.size == self._top
        high = surprise >= (self.top_surprise[-1] if is_full else _LOWEST)
        keys = np.concatenate([self.top_keys, rows.keys[high]])
        surprise = np.concatenate([self.top_surprise, surprise[high]])
        order = np.lexsort((keys, -surprise))[: self._top]
        self.top_keys, self.top_surprise = keys[order], surprise[order]

    def candidate_keys(self, top: int | None = None) -> np.ndarray:
        """Keys, ascending, of the best of each vertex and of the `top` best of all: by default of all that are kept."""
        of_vertices = (keys[best > _LOWEST] for keys, best in zip(self.keys, self.surprise, strict=True))
        return np.unique(np.concatenate([*of_vertices, self.top_keys[:top]]))


@dataclass(frozen=True, slots=True, eq=False)
class EdgeScores:
    """Scores of the left and of the right vertices, and the omitted candidates with positive evidence."""

    sqrt: Pair
    share: Pair
    n_left_out: int


def edge_scores(candidates: Bicliques, null: Null, most_steps: int = MOST_STEPS) -> EdgeScores:
    """Evidence of the candidates for each vertex, edge by edge.

    Candidates of positive evidence count, in their order, as far as `most_steps` reach: each costs
    ``b (1 + binary digits of d // b)`` for a left member of degree `d`, and the first that does not fit is left out
    with all behind it. A vertex of degree `d` has

        sqrt  = sum over its edges of sqrt(most evidence of a candidate that has the edge) / d^(3/4)
        share = sum over its edges of sqrt(most of evidence times share, of a candidate that has the edge) / d^(3/4)

    where the share is that of the vertex's edges that the candidate has, and every root is rounded, half to even, to a
    multiple of 2^-24.

    Parameters
    ----------
    candidates : Bicliques
        Best first.
    """
    evidence = null.evidence(candidates)
    positive = np.flatnonzero(evidence > 0)
    candidates, evidence = candidates.take(positive), evidence[positive]
    n_right = np.repeat(candidates.sizes(1), candidates.sizes(0))
    # The binary digits of a whole number are the exponent of its fraction between a half and one; 0 has none.
    digits = np.frexp(null.degrees[0][candidates.members[0]] // np.maximum(n_right, 1))[1]
    running = np.cumsum(n_right * (1 + digits))
    n_done = int(np.searchsorted(running[candidates.offsets[0][1:] - 1], most_steps, side="right"))
    # Whole numbers of units: the order in which they are added up does not matter.
    sums = [np.zeros((2, degrees.size)) for degrees in null.degrees]
    for ends, rows, starts in _edges(candidates.take(np.arange(n_done))):
        says = evidence[rows].astype(np.float64)
        most = np.maximum.reduceat(says, starts)
        for side, vertices in enumerate(ends):
            degrees = null.degrees[side]
            share = np.maximum.reduceat(says * candidates.sizes(1 - side)[rows], starts) / degrees[vertices]
            for place, values in enumerate((most, share)):
                sums[side][place] += np.bincount(vertices, np.rint(np.sqrt(values / UNIT) * UNIT), degrees.size)
    for of_side, degrees in zip(sums, null.degrees, strict=True):
        # A vertex without edges has no sum either.
        of_side /= UNIT * np.sqrt(np.maximum(degrees, 1) * np.sqrt(np.maximum(degrees, 1)))
    return EdgeScores((sums[0][0], sums[1][0]), (sums[0][1], sums[1][1]), positive.size - n_done)


def degree_percentiles(degrees: np.ndarray) -> np.ndarray:
    """The share of vertices with a smaller degree, plus half of those with the same."""
    ascending = np.sort(degrees)
    below = np.searchsorted(ascending, degrees)
    return (below + np.searchsorted(ascending, degrees, side="right")) / (2 * max(1, degrees.size))


def rank_score(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """The percentile of the mean of the ranks by two scores; 0 where both are 0."""
    # Percentiles of one side have a common denominator of twice its vertices.
    ranks = sum(np.rint(degree_percentiles(part) * 2 * part.size) for part in (one, other))
    return degree_percentiles(np.asarray(ranks)) * ((one > 0) | (other > 0))


def tfidf_eigenvector(left: np.ndarray, right: np.ndarray, sizes: tuple[int, int]) -> Pair:
    """First singular vectors of the left vertices' tf-idf vectors of length 1, by power iteration from ones.

    Both are scaled to a maximum of 1 and rounded to 20 binary digits. The iteration ends after 100 rounds, or after one
    that changes no entry of the left vector by more than 1e-6.

    Parameters
    ----------
    left, right : (n_edges,) integers
        The ends of the edges.
    sizes : (int, int)
        Vertices of the sides.
    """
    idf = np.rint(np.log(sizes[0] / np.maximum(np.bincount(right, minlength=sizes[1]), 1)) * UNIT) / UNIT
    lengths = np.sqrt(np.bincount(left, idf[right] ** 2, sizes[0]))
    entries = idf[right] / np.where(lengths > 0, lengths, np.inf)[left]
    vectors: Pair = (np.ones(sizes[0]), np.zeros(sizes[1]))
    for _ in range(100):
        companion = np.bincount(right, entries * vectors[0][left], sizes[1])
        unscaled = np.bincount(left, entries * companion[right], sizes[0])
        after = unscaled / (unscaled.max(initial=0) or 1.0)
        change = np.abs(after - vectors[0]).max(initial=0)
        vectors = after, companion / (companion.max(initial=0) or 1.0)
        if change <= 1e-6:
            break
    first, second = (np.ldexp(np.rint(np.ldexp(m, 20)), e - 20) for m, e in map(np.frexp, vectors))
    return first, second


def _edges(candidates: Bicliques) -> Iterator[tuple[Pair, np.ndarray, np.ndarray]]:
    """The edges of candidates, all of some left vertices at a time.

    Yields the two ends of each edge; rows of the candidates that have it, edge by edge; and where those of each begin.
    """
    by_left = np.argsort(candidates.members[0], kind="stable")
    left = candidates.members[0][by_left]
    rows = np.repeat(np.arange(candidates.keys.size), candidates.sizes(0))[by_left]
    first = np.flatnonzero(np.diff(left, prepend=-1))
    n_before = _offsets(candidates.sizes(1)[rows])[first]
    cuts = first[np.flatnonzero(np.diff(n_before // _CHUNK, prepend=-1))]
    for start, stop in pairwise([*cuts.tolist(), left.size]):
        offsets, right = _taken(candidates.offsets[1], candidates.members[1], rows[start:stop])
        n_edges = np.diff(offsets)
        pairs = np.repeat(left[start:stop].astype(np.int64), n_edges) << 32 | right
        order = np.argsort(pairs, kind="stable")
        pairs = pairs[order]
        starts = np.flatnonzero(np.diff(pairs, prepend=-1))
        yield (pairs[starts] >> 32, pairs[starts] & 0xFFFFFFFF), np.repeat(rows[start:stop], n_edges)[order], starts


def _offsets(sizes: Sequence[int] | np.ndarray) -> np.ndarray:
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes, dtype=np.int64)])


def _taken(offsets: np.ndarray, members: np.ndarray, rows: np.ndarray) -> Pair:
    """Offsets and members of some rows."""
    sizes = np.diff(offsets)[rows]
    taken = _offsets(sizes)
    return taken, members[np.repeat(offsets[:-1][rows] - taken[:-1], sizes) + np.arange(taken[-1])]


def _logs(degrees: np.ndarray) -> np.ndarray:
    distinct, places = np.unique(degrees, return_inverse=True)
    return np.array([round(math.log(max(degree, 1)) * UNIT) for degree in distinct.tolist()], np.int64)[places]


def _log_choices(n: int, most: int) -> np.ndarray:
    """``ln C(n, k)`` for ``k = 0 .. most``."""
    # In doubles the sum would be off by more than a unit where there are millions of terms.
    k = np.arange(1, most + 1, dtype=np.longdouble)
    logs = np.cumsum(np.log(n - k + 1) - np.log(k))
    return np.concatenate([np.zeros(1, np.int64), np.rint(logs * UNIT).astype(np.int64)])

"""The specification of candidates and of vertex scores, in plain NumPy and Python.

Engines must equal it, and `mbe verify` recomputes published groups with it, so it shares no code with an engine.

A graph has ``E`` edges, ``n_L`` and ``n_R`` vertices, and the degree ``d`` of each. By chance an edge between `u` and
`v` is expected ``z = d_u d_v / E`` times, and its weight is ``-ln z``. If some pair has ``z > 0.1``, effective degrees
replace `d` (`effective_logs`), and the weight of a pair with ``ln z >= ln 0.1`` is ``ln(1 + 1/z)``. It is interpolated
between steps of 1/256 nat of ``ln z`` and rounded down; after 4,799 steps the last value counts. The evidence of a
biclique of `a` left and `b` right members, and its surprise, from which naming costs are subtracted, are

    evidence = sum of the weights of its a b edges
    surprise = evidence - ln C(#{left: d >= b}, a) - ln C(#{right: d >= a}, b) - ln n_L - ln n_R - ln(graphs searched)

Every logarithm is rounded, half to even, to a multiple of 2^-24 nat. A biclique is significant if its surprise exceeds
``ln 20``. A **candidate** is a biclique that is the best of some vertex (by surprise, then by smallest key), or among
the `TOP` best of all.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

UNIT = 1 << 24
SIGNIFICANT = round(math.log(20) * UNIT)
FIRST_LIKELY = round(math.log(0.1) * UNIT)
STEP, N_STEPS = UNIT // 256, 4_799
RIDGE, MOST_CLASSES = 1e-6, 1_024
TOP = 20_000
MOST_STEPS = 500_000_000
_LOWEST, _HIGHEST = np.iinfo(np.int64).min, np.iinfo(np.int64).max
# Number of candidates' edges processed at once, which bounds memory.
_CHUNK = 1 << 21

Biclique = tuple[tuple[int, ...], tuple[int, ...]]
Pair = tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True, slots=True, eq=False)
class Bicliques:
    """Bicliques: `keys`, and a pair (left, right) of `offsets` and of `members`."""

    keys: np.ndarray
    offsets: Pair
    members: Pair

    @classmethod
    def of(cls, bicliques: Mapping[int, Biclique]) -> Bicliques:
        """Return the bicliques of a mapping by key, in its order."""
        sides = tuple(zip(*bicliques.values(), strict=True)) or ((), ())
        left, right = ((_offsets(list(map(len, side))), np.array(sum(side, ()), np.int64)) for side in sides)
        return cls(np.array(list(bicliques), np.int64), (left[0], right[0]), (left[1], right[1]))

    @classmethod
    def joined(cls, parts: Sequence[Bicliques]) -> Bicliques:
        """Concatenate bicliques."""
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
        """Return the number of members of each biclique on a side."""
        return np.diff(self.offsets[side])

    def take(self, rows: np.ndarray) -> Bicliques:
        """Return bicliques in the order of `rows`."""
        left, right = (_taken(self.offsets[side], self.members[side], rows) for side in (0, 1))
        return Bicliques(self.keys[rows], (left[0], right[0]), (left[1], right[1]))

    def side(self, side: int) -> list[list[int]]:
        """Return the members of each biclique on a side."""
        members, ends = self.members[side].tolist(), self.offsets[side].tolist()
        return [members[start:end] for start, end in pairwise(ends)]


class Null:
    """The null model for vertices with these degrees; logarithms are in units.

    Parameters
    ----------
    degrees : pair of (n,) int64
        Degrees of the left and of the right vertices.
    n_graphs : int
        Number of graphs searched for the same groups.
    """

    def __init__(self, degrees: Pair, n_edges: int, n_graphs: int = 1) -> None:
        self.degrees, self.n_edges = degrees, n_edges
        self.log_edges = round(math.log(n_edges) * UNIT) if n_edges else 0
        self.logs = _logs(degrees[0]), _logs(degrees[1])
        self.is_fitted = 10 * int(degrees[0].max(initial=0)) * int(degrees[1].max(initial=0)) > n_edges
        if self.is_fitted:
            left, right = effective_logs(*degrees)
            self.logs = np.rint(left * UNIT).astype(np.int64), np.rint(right * UNIT).astype(np.int64)
        # Number of vertices with at least degree 0, 1, ...
        left, right = (of.size - np.searchsorted(np.sort(of), np.arange(of.max(initial=0) + 1)) for of in degrees)
        self.at_least = left, right
        self._log_factorials = _log_factorials(max(of.size for of in degrees))
        self.class_cost = sum(round(math.log(max(n, 1)) * UNIT) for n in (degrees[0].size, degrees[1].size, n_graphs))

    def log_expected(self, left: np.ndarray, right: np.ndarray) -> np.ndarray:
        """Return ``ln z`` of pairs."""
        return self.logs[0][left] + self.logs[1][right] - self.log_edges

    def expected_edges(self, left: np.ndarray, right: np.ndarray) -> float:
        """Return the expected number of edges between these vertices."""
        z = np.exp(np.minimum(self.log_expected(left[:, None], right) / UNIT, 64))
        return float((z / (1 + z)).sum())

    def evidence(self, rows: Bicliques) -> np.ndarray:
        """Return the evidence of each biclique, ``(n,) int64``."""
        sizes = rows.sizes(0), rows.sizes(1)
        evidence = sizes[0] * sizes[1] * self.log_edges
        largest = np.full(evidence.size, -self.log_edges)
        for side in (0, 1) if evidence.size else ():
            logs, starts = self.logs[side][rows.members[side]], rows.offsets[side][:-1]
            evidence -= sizes[1 - side] * np.add.reduceat(logs, starts)
            largest += np.maximum.reduceat(logs, starts)
        likely = np.flatnonzero(largest >= FIRST_LIKELY)
        for some in np.split(likely, np.flatnonzero(np.diff(_offsets(sizes[0] * sizes[1])[likely] // _CHUNK)) + 1):
            of_left = np.repeat(some, sizes[0][some])
            _, left = _taken(rows.offsets[0], rows.members[0], some)
            offsets, right = _taken(rows.offsets[1], rows.members[1], of_left)
            logs = self.log_expected(np.repeat(left, np.diff(offsets)), right)
            # Other pairs have their weight already.
            np.add.at(evidence, np.repeat(of_left, np.diff(offsets)), weights_of(logs) + logs)
        return evidence

    def cost_of_members(self, side: int, least: np.ndarray | int, sizes: np.ndarray | int) -> Any:
        """Return the cost of naming this number of vertices on a side among those with at least this degree."""
        return self.log_choices(self.at_least[side][least], sizes)

    def log_choices(self, n: Any, k: Any) -> Any:
        """Return ``ln C(n, k)``."""
        return self._log_factorials[n] - self._log_factorials[k] - self._log_factorials[n - k]

    def surprise(self, rows: Bicliques) -> np.ndarray:
        """Return the surprise of each biclique, ``(n,) int64``."""
        sizes = rows.sizes(0), rows.sizes(1)
        names = self.cost_of_members(0, sizes[1], sizes[0]) + self.cost_of_members(1, sizes[0], sizes[1])
        return self.evidence(rows) - names - self.class_cost


def weights_of(log_expected: np.ndarray) -> np.ndarray:
    """Return the weight of a pair from its ``ln z``, in units."""
    above = np.clip(log_expected - FIRST_LIKELY, 0, N_STEPS * STEP - 1)
    first, then = (
        np.rint(np.log1p(np.exp(-(FIRST_LIKELY + (above // STEP + more) * STEP) / UNIT)) * UNIT).astype(np.int64)
        for more in (0, 1)
    )
    return np.where(log_expected < FIRST_LIKELY, -log_expected, first + (then - first) * (above % STEP) // STEP)


def effective_logs(left_degrees: np.ndarray, right_degrees: np.ndarray) -> Pair:
    """Return the logarithms of effective degrees: those of maximum entropy, with ``z`` as the odds of an edge.

    They maximise ``ln(likelihood) - RIDGE / 2 (sum of (ln D - ln(E) / 2)^2)``. Vertices of the same degree have the
    same value. With more than `MOST_CLASSES` distinct degrees on a side, degrees above 200 form a class if ``200 ln d``
    rounds to the same number, counted from ``200 ln 200``. Then the value is that of the class's mean degree, times the
    ratio of the degree to it. A vertex without edges has 0.
    """
    half = math.log(left_degrees.sum()) / 2
    degrees, sizes, places, ratios = [], [], [], []
    for of in (left_degrees, right_degrees):
        distinct, place, counts = np.unique(of[of > 0], return_inverse=True, return_counts=True)
        shared = distinct.astype(float)
        if distinct.size > MOST_CLASSES:
            shared[distinct > 200] = 200 + np.rint(200 * np.log(distinct[distinct > 200] / 200))
        _, class_of = np.unique(shared, return_inverse=True)
        sizes.append(np.bincount(class_of, counts))
        degrees.append(np.bincount(class_of, counts * distinct) / sizes[-1])
        places.append(class_of[place])
        ratios.append(np.log(distinct / degrees[-1][class_of])[place])
    n, d = np.concatenate(sizes), np.concatenate(degrees)
    k, logs = sizes[0].size, np.log(d) - half

    def loss(logs: np.ndarray) -> float:
        edges = sizes[0] @ np.logaddexp(0, logs[:k, None] + logs[k:]) @ sizes[1]
        return float(edges - (n * d) @ logs + RIDGE / 2 * (n @ logs**2))

    sign = np.repeat([1, -1], [k, n.size - k])
    for _ in range(200):
        with np.errstate(over="ignore"):
            p = 1 / (1 + np.exp(-(logs[:k, None] + logs[k:])))
        slope = n * (d - np.concatenate([p @ sizes[1], sizes[0] @ p]) - RIDGE * logs)
        cells = sizes[0][:, None] * sizes[1] * p * (1 - p)
        curvature = np.block([[np.diag(cells.sum(axis=1)), cells], [cells.T, np.diag(cells.sum(axis=0))]])
        curvature += RIDGE * np.diag(n)
        # An exchange between the sides changes no pair, so steps in this direction are excluded.
        exchange = n * sign
        step = np.linalg.solve(
            curvature + np.outer(exchange, exchange) * (np.trace(curvature) / (exchange @ exchange)), slope
        )
        largest = np.abs(step[:k, None] + step[k:]).max()
        for share in 0.5 ** np.arange(40):
            new = logs + share * step
            # Choose the solution with the least ridge.
            new -= sign * ((n * sign) @ new / n.sum())
            if largest < 1e-3 or loss(new) <= loss(logs):
                break
        logs = new
        if largest < 1e-9:
            break
    found = []
    for of, values, place, ratio in zip(
        (left_degrees, right_degrees), (logs[:k], logs[k:]), places, ratios, strict=True
    ):
        found.append(np.zeros(of.size))
        found[-1][of > 0] = values[place] + ratio + half
    return found[0], found[1]


class Best:
    """The best bicliques of each vertex and of all, found in one pass over the bicliques.

    Attributes
    ----------
    surprise, keys : pair of (n_vertices,) int64
        Surprise and key of the best biclique of each vertex on a side.
    numerators : pair of (n_vertices,) int64
        Largest ``b b a`` of a left vertex's bicliques, ``a a b`` of a right vertex's; 0 without bicliques.
    top_keys, top_surprise : (k,) int64
        Keys and surprise of the best of all, best first.
    """

    def __init__(self, null: Null, top: int) -> None:
        self._null, self._top = null, top
        sizes = [degrees.size for degrees in null.degrees]
        self.surprise, self.keys, self.numerators = (
            tuple(np.full(n, value) for n in sizes) for value in (_LOWEST, _HIGHEST, 0)
        )
        self.top_keys = self.top_surprise = np.empty(0, np.int64)

    def add(self, rows: Bicliques) -> None:
        """Take in some bicliques."""
        surprise = self._null.surprise(rows)
        for side in (0, 1):
            sizes, members = rows.sizes(side), rows.members[side]
            best, keys = self.surprise[side], self.keys[side]
            values, before = np.repeat(surprise, sizes), best[members]
            np.maximum.at(best, members, values)
            np.maximum.at(self.numerators[side], members, np.repeat(rows.sizes(1 - side) ** 2 * sizes, sizes))
            # Only keys of bicliques with the highest surprise count.
            keys[members[best[members] > before]] = _HIGHEST
            is_best = values == best[members]
            np.minimum.at(keys, members[is_best], np.repeat(rows.keys, sizes)[is_best])
        is_full = self.top_keys.size == self._top
        high = surprise >= (self.top_surprise[-1] if is_full else _LOWEST)
        keys = np.concatenate([self.top_keys, rows.keys[high]])
        surprise = np.concatenate([self.top_surprise, surprise[high]])
        order = np.lexsort((keys, -surprise))[: self._top]
        self.top_keys, self.top_surprise = keys[order], surprise[order]

    def candidate_keys(self) -> np.ndarray:
        """Return the keys of the best of each vertex and of all, ascending."""
        of_vertices = (keys[best > _LOWEST] for keys, best in zip(self.keys, self.surprise, strict=True))
        return np.unique(np.concatenate([*of_vertices, self.top_keys]))


@dataclass(frozen=True, slots=True, eq=False)
class EdgeScores:
    """Scores of the left and of the right vertices, and the number of omitted candidates with positive evidence."""

    sqrt: Pair
    share: Pair
    n_left_out: int


def edge_scores(candidates: Bicliques, null: Null, most_steps: int = MOST_STEPS) -> EdgeScores:
    """Return the evidence of the candidates for each vertex, edge by edge.

    Candidates with positive evidence count, in order, as far as `most_steps` allow. Each costs ``b (1 + binary digits
    of d // b)`` for a left member of degree `d`; the first one that exceeds the limit and all later ones are left out.
    A vertex of degree `d` has

        sqrt  = sum over its edges of sqrt(most evidence of a candidate that has the edge) / d^(3/4)
        share = sum over its edges of sqrt(most of evidence times share, of a candidate that has the edge) / d^(3/4)

    where the share is the part of the vertex's edges in the candidate. Every root is rounded, half to even, to a
    multiple of 2^-24.

    Parameters
    ----------
    candidates : Bicliques
        Candidates, best first.
    """
    evidence = null.evidence(candidates)
    positive = np.flatnonzero(evidence > 0)
    candidates, evidence = candidates.take(positive), evidence[positive]
    n_right = np.repeat(candidates.sizes(1), candidates.sizes(0))
    # The number of binary digits of an integer is the exponent of its fraction between a half and one; 0 has none.
    digits = np.frexp(null.degrees[0][candidates.members[0]] // np.maximum(n_right, 1))[1]
    running = np.cumsum(n_right * (1 + digits))
    n_done = int(np.searchsorted(running[candidates.offsets[0][1:] - 1], most_steps, side="right"))
    # Sums of whole units do not depend on their order.
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
        # Vertices without edges have sum 0.
        of_side /= UNIT * np.sqrt(np.maximum(degrees, 1) * np.sqrt(np.maximum(degrees, 1)))
    return EdgeScores((sums[0][0], sums[1][0]), (sums[0][1], sums[1][1]), positive.size - n_done)


def degree_percentiles(degrees: np.ndarray) -> np.ndarray:
    """Return the share of vertices with a smaller degree, plus half of those with the same degree."""
    ascending = np.sort(degrees)
    below = np.searchsorted(ascending, degrees)
    return (below + np.searchsorted(ascending, degrees, side="right")) / (2 * max(1, degrees.size))


def rank_score(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Return the percentile of the mean rank by two scores; 0 if both are 0."""
    # Percentiles of a side are multiples of 1 over twice its number of vertices.
    ranks = sum(np.rint(degree_percentiles(part) * 2 * part.size) for part in (one, other))
    return degree_percentiles(np.asarray(ranks)) * ((one > 0) | (other > 0))


def tfidf_eigenvector(left: np.ndarray, right: np.ndarray, sizes: tuple[int, int]) -> Pair:
    """Return the first singular vectors of the left vertices' tf-idf vectors of length 1, by power iteration from ones.

    Both are scaled to a maximum of 1 and rounded to 20 binary digits. The iteration ends after 100 rounds, or after a
    round that changes no entry of the left vector by more than 1e-6.

    Parameters
    ----------
    left, right : (n_edges,) integers
        The ends of the edges.
    sizes : (int, int)
        Number of vertices of each side.
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
    """Yield the edges of candidates, for ranges of left vertices.

    Each item has the ends of some edges; the rows of candidates that contain each edge; the offset of each edge's rows.
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
    """Return offsets and members of the lists `rows`."""
    sizes = np.diff(offsets)[rows]
    taken = _offsets(sizes)
    return taken, members[np.repeat(offsets[:-1][rows] - taken[:-1], sizes) + np.arange(taken[-1])]


def _logs(degrees: np.ndarray) -> np.ndarray:
    distinct, places = np.unique(degrees, return_inverse=True)
    return np.array([round(math.log(max(degree, 1)) * UNIT) for degree in distinct.tolist()], np.int64)[places]


def _log_factorials(n: int) -> np.ndarray:
    """Return ``ln k!`` for ``k = 0 .. n``."""
    # Doubles would be off by more than a unit for sums of millions of terms.
    logs = np.log(np.maximum(np.arange(n + 1), 1).astype(np.longdouble))
    return np.rint(np.cumsum(logs) * UNIT).astype(np.int64)

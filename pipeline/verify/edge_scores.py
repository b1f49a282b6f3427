"""What candidates say for each vertex, edge by edge, from the definition.

The evidence of a candidate (`surprise`) of `a` left and `b` right members is its surprise without what naming it costs,
``a b ln E - b (sum of ln d, left) - a (sum of ln d, right)``. Candidates with positive evidence count, best first by
surprise, as far as 500,000,000 steps reach: each costs ``b (1 + binary digits of d // b)`` for a left member of degree
`d`, and the first that does not fit is left out with all behind it. Of a vertex of degree `d`

    edge_sqrt  = sum over its edges of sqrt(most evidence of a candidate that has the edge) / d^(3/4)
    edge_share = sum over its edges of sqrt(most of evidence times share, of a candidate that has the edge) / d^(3/4)

where the share is that of the vertex's edges that the candidate has, and every root is rounded, half to even, to a
multiple of 2^-24.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from pipeline.verify.rows import Batch
from pipeline.verify.surprise import UNIT, Found, Null

__all__ = ["EdgeScores", "edge_scores"]

_MOST_STEPS = 500_000_000
# Edges of candidates that are looked at together; some hundred bytes each.
_PAIRS_AT_ONCE = 1 << 22


@dataclass(frozen=True, slots=True, eq=False)
class EdgeScores:
    """Of the vertices of the left and of the right side; and candidates of positive evidence that were left out."""

    sqrt: tuple[np.ndarray, np.ndarray]
    share: tuple[np.ndarray, np.ndarray]
    n_left_out: int


@dataclass(frozen=True, slots=True, eq=False)
class _Candidates:
    """Those with positive evidence, best first: evidence in units, members of (left, right)."""

    evidence: np.ndarray
    offsets: tuple[np.ndarray, np.ndarray]
    members: tuple[np.ndarray, np.ndarray]

    def sizes(self, side: int) -> np.ndarray:
        return np.diff(self.offsets[side])


def edge_scores(rows: Iterable[Batch], null: Null, found: Found, degrees: tuple[np.ndarray, np.ndarray]) -> EdgeScores:
    """A second pass over the bicliques, for the candidates' members.

    Parameters
    ----------
    rows : iterable of Batch
    null : Null
    found : Found
        What the first pass found.
    degrees : pair of (n,) int64
    """
    candidates = _read(rows, null, np.union1d(found.best_keys, found.top_keys))
    n_done = _affordable(candidates, degrees[0])
    codes, best = np.empty(0, np.int64), np.empty((3, 0))
    for new_codes, values in _pairs(candidates, n_done, degrees[1].size):
        codes, best = _most(np.concatenate([codes, new_codes]), np.concatenate([best, values], axis=1))
    ends = codes // max(1, degrees[1].size), codes % max(1, degrees[1].size)
    sqrt, share = [], []
    for side in (0, 1):
        sqrt.append(_summed(best[0], ends[side], degrees[side]))
        share.append(_summed(best[1 + side] / degrees[side][ends[side]], ends[side], degrees[side]))
    return EdgeScores((sqrt[0], sqrt[1]), (share[0], share[1]), candidates.evidence.size - n_done)


def _read(bicliques: Iterable[Batch], null: Null, keys: np.ndarray) -> _Candidates:
    """The bicliques with these keys whose evidence is positive, in order."""
    found: list[tuple[np.ndarray, ...]] = [tuple(np.empty(0, np.int64) for _ in range(7))]
    for batch in bicliques:
        rows = np.flatnonzero(np.isin(batch.keys, keys))
        if not rows.size:
            continue
        some = _some(batch, rows)
        sizes, surprise = (some.sizes(0), some.sizes(1)), null.surprise(some)
        evidence = surprise + null.costs[0][sizes[0]] + null.costs[1][sizes[1]]
        found.append((some.keys, surprise, evidence, *sizes, *some.members))
    all_keys, surprise, evidence, n_left, n_right, left, right = (
        np.concatenate(part) for part in zip(*found, strict=True)
    )
    order = np.lexsort((all_keys, -surprise))
    order = order[evidence[order] > 0]
    offsets, members = zip(*(_reordered(*side, order) for side in ((n_left, left), (n_right, right))), strict=True)
    return _Candidates(evidence[order], offsets, members)


def _some(batch: Batch, rows: np.ndarray) -> Batch:
    """Some rows of a batch."""
    offsets, members = zip(*(_reordered(batch.sizes(side), batch.members[side], rows) for side in (0, 1)), strict=True)
    return replace(batch, keys=batch.keys[rows], offsets=offsets, members=members)


def _reordered(sizes: np.ndarray, members: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Offsets and members of some rows."""
    ends, taken = np.cumsum(sizes), _offsets(sizes[rows])
    places = np.repeat((ends - sizes)[rows] - taken[:-1], sizes[rows]) + np.arange(taken[-1])
    return taken, members[places]


def _offsets(sizes: np.ndarray) -> np.ndarray:
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])


def _affordable(candidates: _Candidates, left_degrees: np.ndarray) -> int:
    """How many of the candidates there are steps for."""
    n_right = np.repeat(candidates.sizes(1), candidates.sizes(0))
    # The binary digits of a whole number are the exponent of its fraction between a half and one; 0 has none.
    digits = np.frexp(left_degrees[candidates.members[0]] // np.maximum(n_right, 1))[1]
    running = np.cumsum(n_right * (1 + digits))
    return int(np.searchsorted(running[candidates.offsets[0][1:] - 1], _MOST_STEPS, side="right"))


def _pairs(candidates: _Candidates, n: int, n_right: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Edges of the first candidates, as one number each, and what each candidate says for them; some at a time."""
    sizes = candidates.sizes(0)[:n], candidates.sizes(1)[:n]
    ends = np.cumsum(sizes[0] * sizes[1])
    first = 0
    while first < n:
        before = ends[first - 1] if first else 0
        end = max(first + 1, int(np.searchsorted(ends, before + _PAIRS_AT_ONCE, side="right")))
        rows = np.arange(first, end)
        left, right = (
            _reordered(candidates.sizes(side), candidates.members[side], rows)[1].astype(np.int64) for side in (0, 1)
        )
        # Each left member stands before all right members of its candidate.
        of_left = np.repeat(rows, sizes[0][rows])
        starts = (_offsets(sizes[1][rows])[:-1])[of_left - first]
        n_of = sizes[1][of_left]
        place = np.arange(int(n_of.sum())) - np.repeat(_offsets(n_of)[:-1], n_of)
        codes = np.repeat(left * n_right, n_of) + right[np.repeat(starts, n_of) + place]
        evidence = candidates.evidence[rows].astype(np.float64)
        says = np.stack([evidence, evidence * sizes[1][rows], evidence * sizes[0][rows]])
        yield _most(codes, np.repeat(says[:, of_left - first], n_of, axis=1))
        first = end


def _most(codes: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Each code once, ascending, and the most of each row of `values`."""
    if not codes.size:
        return codes, values
    order = np.argsort(codes, kind="stable")
    ascending = codes[order]
    starts = np.flatnonzero(np.concatenate([[True], ascending[1:] != ascending[:-1]]))
    return ascending[starts], np.maximum.reduceat(values[:, order], starts, axis=1)


def _summed(evidence: np.ndarray, ids: np.ndarray, degrees: np.ndarray) -> np.ndarray:
    roots = np.rint(np.sqrt(evidence / UNIT) * UNIT) / UNIT
    return np.bincount(ids, roots, degrees.size) / np.sqrt(degrees * np.sqrt(degrees))

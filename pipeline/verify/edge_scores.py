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

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
from numba import int64

from mbe_stage.pipeline.verify.rows import Batch
from mbe_stage.pipeline.verify.surprise import UNIT, Found, Null
from mbe_stage.runtime.compile_ahead import CompileStep
from mbe_stage.runtime.jit import LONGS, compiled, readonly, readonly_view, steps_of

__all__ = ["EdgeScores", "compile_steps", "edge_scores"]

_MOST_STEPS = 500_000_000


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
    found : Found
        What the first pass found.
    degrees : pair of (n,) int64
    """
    candidates = _read(rows, null, np.union1d(found.best_keys, found.top_keys))
    n_done = _affordable(candidates, degrees[0])
    sides = [(sums, degrees[side]) for side, sums in enumerate(_sums(candidates, n_done, degrees))]
    sqrt, share = (tuple(sums[i] / UNIT / np.sqrt(own * np.sqrt(own)) for sums, own in sides) for i in (0, 1))
    return EdgeScores((sqrt[0], sqrt[1]), (share[0], share[1]), candidates.evidence.size - n_done)


def compile_steps() -> tuple[CompileStep, ...]:
    """Everything here."""
    return steps_of(_sum_up)


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


def _sums(candidates: _Candidates, n: int, degrees: tuple[np.ndarray, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Of the vertices of each side the two sums of roots, in units, that the first candidates make."""
    end = candidates.offsets[0][n]
    left = candidates.members[0][:end]
    owners = np.repeat(np.arange(n), candidates.sizes(0)[:n])[np.argsort(left, kind="stable")]
    starts = _offsets(np.bincount(left, minlength=degrees[0].size))
    sums = np.zeros((2, degrees[0].size), np.int64), np.zeros((2, degrees[1].size), np.int64)
    _sum_up(
        starts,
        owners,
        candidates.sizes(0),
        candidates.offsets[1],
        np.ascontiguousarray(candidates.members[1], np.int64),
        candidates.evidence,
        *(readonly_view(np.ascontiguousarray(of, np.int64)) for of in degrees),
        *sums,
    )
    return sums


@compiled(*[LONGS] * 6, *[readonly(LONGS)] * 2, int64[:, ::1], int64[:, ::1])
def _sum_up(
    starts, owners, n_left, right_offsets, right_members, evidence, left_degrees, right_degrees, left_sums, right_sums
):
    """Go through the left vertices, and for each through what its candidates say for its edges.

    Parameters
    ----------
    starts, owners : (n_left_vertices + 1,) and (n_pairs,) int64
        The candidates of each left vertex.
    n_left, right_offsets, right_members, evidence : int64
        Of the candidates.
    left_degrees, right_degrees : (n,) int64
    left_sums, right_sums : (2, n) int64
        Changed in place: of most evidence, and of most evidence by the own share.
    """
    best = np.zeros((right_degrees.size, 3))
    touched = np.empty(right_degrees.size, np.int64)
    for u in range(left_degrees.size):
        n_touched = 0
        for i in range(starts[u], starts[u + 1]):
            row = owners[i]
            says = np.float64(evidence[row])
            by_right, by_left = says * (right_offsets[row + 1] - right_offsets[row]), says * n_left[row]
            for k in range(right_offsets[row], right_offsets[row + 1]):
                v = right_members[k]
                if best[v, 0] == 0:
                    touched[n_touched] = v
                    n_touched += 1
                best[v, 0] = max(best[v, 0], says)
                best[v, 1] = max(best[v, 1], by_right)
                best[v, 2] = max(best[v, 2], by_left)
        for i in range(n_touched):
            v = touched[i]
            root = _root(best[v, 0])
            left_sums[0, u] += root
            right_sums[0, v] += root
            left_sums[1, u] += _root(best[v, 1] / left_degrees[u])
            right_sums[1, v] += _root(best[v, 2] / right_degrees[v])
            best[v] = 0


@compiled()
def _root(units):
    return np.int64(np.rint(np.sqrt(units / UNIT) * UNIT))

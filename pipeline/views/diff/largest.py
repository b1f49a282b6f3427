"""The largest differences of each kind, with their members."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from mbe_stage.pipeline.views.diff.job import PAIRED, RunDiff, Status
from mbe_stage.pipeline.views.diff.members import bicliques_with
from mbe_stage.pipeline.views.diff.rows import Side
from mbe_stage.pipeline.views.top import Biclique

__all__ = ["Difference", "largest_differences"]

_OF_OLD = ("gone", "only_in_old")


@dataclass(frozen=True, slots=True)
class Difference:
    """One biclique that is in one run only, and the one that it was before, if any.

    Attributes
    ----------
    biclique : Biclique
        Of the new run; of the old one where the status is ``gone`` or ``only_in_old``.
    partner : Biclique or None
        Of the old run.
    jaccard : float or None
        Common members over all members of the two, of both sides.
    """

    status: Status
    biclique: Biclique
    partner: Biclique | None = None
    jaccard: float | None = None


def largest_differences(diff: RunDiff, limit: int, only: Iterable[Status] | None = None) -> list[Difference]:
    """The bicliques with the most edges of every status, or of `only` some, at most `limit` each.

    Returns
    -------
    list of Difference
        By status in the order of `STATUSES`; in each the most edges first, of equals the smaller key.
    """
    statuses = [status for status, count in diff.counts.items() if count and (only is None or status in set(only))]
    chosen = {status: _largest(*_rows_with(diff, status), limit) for status in statuses}
    found = {
        of_old: bicliques_with(run, _keys(diff, chosen, of_old))
        for of_old, run in ((False, diff.new), (True, diff.old))
    }
    return [_difference(diff, status, int(at), found) for status in statuses for at in chosen[status]]


def _rows_with(diff: RunDiff, status: Status) -> tuple[Side, np.ndarray]:
    """A side, and the positions in it that have this status."""
    if status in _OF_OLD:
        partners = None if diff.pairs is None else diff.pairs.partner_of_gone
        return diff.only_old, np.arange(len(diff.only_old)) if partners is None else np.flatnonzero(partners < 0)
    if diff.pairs is None:
        return diff.only_new, np.arange(len(diff.only_new))
    kind = PAIRED.index(status) + 1 if status in PAIRED else 0
    return diff.only_new, np.flatnonzero(diff.pairs.kind == kind)


def _largest(side: Side, positions: np.ndarray, limit: int) -> np.ndarray:
    edges = side.n_left[positions].astype(np.int64) * side.n_right[positions]
    if edges.size > limit:
        # All that could be among the first, ties at the end included.
        kept = edges >= np.partition(edges, edges.size - limit)[edges.size - limit]
        positions, edges = positions[kept], edges[kept]
    return positions[np.lexsort((side.keys[positions], -edges))[:limit]]


def _keys(diff: RunDiff, chosen: dict[Status, np.ndarray], of_old: bool) -> np.ndarray:
    side = diff.only_old if of_old else diff.only_new
    keys = [side.keys[at] for status, at in chosen.items() if (status in _OF_OLD) is of_old]
    if of_old and diff.pairs is not None:
        partners = [diff.pairs.partner_of_new[at] for status, at in chosen.items() if status in PAIRED]
        keys += [side.keys[at] for at in partners]
    return np.concatenate([np.zeros(0, np.int64), *keys])


def _difference(diff: RunDiff, status: Status, at: int, found: dict[bool, dict[int, Biclique]]) -> Difference:
    if status in _OF_OLD:
        return Difference(status, found[True][int(diff.only_old.keys[at])])
    biclique = found[False][int(diff.only_new.keys[at])]
    if diff.pairs is None or status not in PAIRED:
        return Difference(status, biclique)
    partner = found[True][int(diff.only_old.keys[diff.pairs.partner_of_new[at]])]
    return Difference(status, biclique, partner, float(diff.pairs.jaccard[at]))

"""What a full run would find, take and write: measured where a trial finished, else estimated with an interval."""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite

from mbe_stage.bicliques.estimation import Estimate, Interval

__all__ = ["Expectation", "Seconds", "expect", "table_bytes"]

# A row of `bicliques` beside its members: key, two list offsets, three sizes; and a row of `members`.
_BICLIQUE_BYTES, _MEMBER_BYTES, _LONG_MEMBER_BYTES = 32, 4, 13
# The pace of a trial is not that of the whole run, whose parts differ.
_PACE_FACTOR = 1.5
# From fewer bicliques there is no pace.
_LEAST_FOUND = 1000


@dataclass(frozen=True, slots=True)
class Seconds:
    """Seconds that a full run takes."""

    low: float
    middle: float
    high: float


@dataclass(frozen=True, slots=True)
class Expectation:
    """What a full run comes to.

    Attributes
    ----------
    bicliques : Interval
        A 95 % interval, or "at least `low`", where `high` is None: descents of the search tree disagree.
    seconds : Seconds or None
        None with an open interval, and where the trial found too little to have a pace.
    bytes : Interval or None
        Written before compression, the tables of vertices left out; None with an open interval.
    exact : bool
        Counted, not estimated.
    """

    bicliques: Interval
    seconds: Seconds | None
    bytes: Interval | None
    exact: bool


def expect(estimate: Estimate, n_found: int, seconds: float, long_form: bool) -> Expectation:
    """What an estimate comes to, after a trial that found `n_found` bicliques in `seconds`.

    `long_form` says whether the table `members` is written too.
    """
    bicliques, members = estimate.bicliques.at_least(n_found), estimate.members
    if bicliques.high is None or members.high is None:
        return Expectation(Interval(bicliques.low, bicliques.middle, None), None, None, estimate.exact)
    middle = table_bytes(bicliques.middle, members.middle, long_form)
    low = min(middle, table_bytes(bicliques.low, members.low, long_form))
    high = max(middle, table_bytes(bicliques.high, members.high, long_form))
    return Expectation(bicliques, _seconds(bicliques, n_found, seconds), Interval(low, middle, high), estimate.exact)


def table_bytes(n_bicliques: int, n_members: int, long_form: bool) -> int:
    """Bytes of the tables `bicliques` and, in the long form, `members`, before compression."""
    return _BICLIQUE_BYTES * n_bicliques + (_MEMBER_BYTES + _LONG_MEMBER_BYTES * long_form) * n_members


def _seconds(bicliques: Interval, n_found: int, seconds: float) -> Seconds | None:
    if n_found < _LEAST_FOUND or bicliques.high is None:
        return None
    try:
        middle = seconds * (bicliques.middle / n_found)
        least, most = (seconds * (n / n_found) for n in (bicliques.low, bicliques.high))
    except OverflowError:
        return None
    most *= _PACE_FACTOR
    return Seconds(max(seconds, least / _PACE_FACTOR), max(seconds, middle), most) if isfinite(most) else None

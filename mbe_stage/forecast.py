"""Forecast the number of results of a search, the share found so far and the seconds left."""

from __future__ import annotations

from dataclasses import dataclass
from math import erfc, exp, log, pi, sqrt

# No share and time are forecast if the interval's upper end exceeds this multiple of its lower end.
_WIDEST = 4
# Largest rise of log(expected) by one outlook; it limits the drop of the share.
_MOST_RISE = log(1.05)
# Highest share reported before the end of a search.
_MOST_SHARE = 0.999
# Beyond this number of standard deviations, the first term approximates the normal tail well enough.
_FAR = 20.0


@dataclass(frozen=True, slots=True)
class Outlook:
    """Estimated number of results.

    Attributes
    ----------
    low, middle : int
        Lower bound and best estimate.
    high : int or None
        Upper bound, right in 95 cases of 100; None if there is none.
    """

    low: int
    middle: int
    high: int | None

    @classmethod
    def exactly(cls, n: int) -> Outlook:
        """Return the outlook of a known number."""
        return cls(n, n, n)

    @classmethod
    def unknown(cls) -> Outlook:
        """Return the outlook of an unknown number."""
        return cls(0, 0, None)

    @property
    def is_open(self) -> bool:
        """True if there is no upper bound."""
        return self.high is None

    def at_least(self, n: int) -> Outlook:
        """Return the outlook given that there are at least `n`. If `high` is less, there is no upper bound."""
        high = None if self.high is None or self.high < n else self.high
        return Outlook(max(n, self.low), max(n, self.middle), high)

    def at_most(self, n: int) -> Outlook:
        """Return the outlook of a search that stops at `n` results."""
        return Outlook(min(n, self.low), min(n, self.middle), n if self.high is None else min(n, self.high))


class Forecast:
    """Forecast of a running search, updated with each outlook.

    The share is found / expected. The logarithm of the expected number is the mean of a normal distribution, cut off at
    the number found because the search is not over. So the share stays below 1 and slows down towards the end of the
    interval. An outlook with a higher number lowers the share by at most 5 %, unless the forecast lies below the
    outlook's interval and so was wrong. An outlook with a lower number applies at once.

    Parameters
    ----------
    most : int, optional
        Number of results at which the search stops.
    """

    def __init__(self, most: int | None = None) -> None:
        self._most = most
        self._heard: Outlook | None = None
        self._outlook: Outlook | None = None
        self._log_expected: float | None = None

    def hear(self, outlook: Outlook | None) -> None:
        """Take in the newest outlook. Repeating one changes nothing; None means no sampling."""
        if outlook is self._heard:
            return
        self._heard = outlook
        self._outlook = outlook if outlook is None or self._most is None else outlook.at_most(self._most)
        # A limit closes an open interval, but the search may end before it.
        is_known = outlook is not None and not (outlook.is_open and outlook.low < (self._most or 0))
        if self._outlook is None or not is_known or not _says_enough(self._outlook):
            self._log_expected = None
        elif self._log_expected is None or self._log_expected < log(self._outlook.low):
            self._log_expected = log(self._outlook.middle)
        else:
            self._log_expected = min(log(self._outlook.middle), self._log_expected + _MOST_RISE)

    def expected(self, n_found: int) -> Outlook | None:
        """Return the expected number of results, at least `n_found`; None without samples."""
        return None if self._outlook is None else self._outlook.at_least(n_found)

    def share(self, n_found: int) -> float | None:
        """Return the share of the results found so far, below 1; None if too little is known."""
        outlook = self._outlook
        if outlook is None or outlook.high is None or self._log_expected is None or n_found > outlook.high:
            return None
        if n_found == 0:
            return 0.0
        # The interval reaches two standard deviations to either side.
        scatter = (log(outlook.high) - log(outlook.low)) / 4.0
        return min(_MOST_SHARE, exp(-_log_more(log(n_found), self._log_expected, scatter)))


def seconds_left(share: float | None, seconds: float) -> float | None:
    """Return the seconds left of a search that took `seconds` for that share; None if the share is unknown or zero."""
    return seconds * (1.0 / share - 1.0) if share else None


def _says_enough(outlook: Outlook) -> bool:
    return outlook.high is not None and 0 < outlook.high <= _WIDEST * outlook.low


def _log_more(log_found: float, log_expected: float, scatter: float) -> float:
    """Return the logarithm of expected / found, given that expected is larger."""
    if scatter == 0.0:
        return max(0.0, log_expected - log_found)
    distance = (log_found - log_expected) / scatter
    if distance > _FAR:
        return scatter / distance
    tail = 0.5 * erfc(distance / sqrt(2.0))
    density = exp(-0.5 * distance * distance) / sqrt(2.0 * pi)
    return scatter * (density / tail - distance)

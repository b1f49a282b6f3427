"""Turn independent estimates of a number into an interval.

Estimates from descents have heavy tails: most are somewhat too low, a few much too high. So the interval is computed on
the logarithmic scale and reaches further up than down. It has no upper bound if the estimates disagree.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import exp, floor, log, sqrt

import numpy as np

# Fewest independent estimates that show how far they scatter.
_LEAST_ESTIMATES = 6
# Largest half width of a closed interval, as a logarithm: a factor of e both ways.
_MOST_HALF_WIDTH = 1.0
# Allowance for parts of a graph that no descent has reached.
_WIDER, _WIDER_ABOVE, _LEAST_HALF_WIDTH = 1.25, 1.4, 0.05
_RISK = 0.05


@dataclass(frozen=True, slots=True)
class Interval:
    """An interval for an uncertain number.

    Attributes
    ----------
    high : int or None
        None if there is no upper bound.
    """

    low: int
    middle: int
    high: int | None

    @property
    def is_open(self) -> bool:
        """True if there is no upper bound."""
        return self.high is None

    @classmethod
    def exactly(cls, n: int) -> Interval:
        """Return the interval of a known number."""
        return cls(n, n, n)

    def at_least(self, n: int) -> Interval:
        """Return the interval given that the number is at least `n`."""
        return Interval(max(n, self.low), max(n, self.middle), None if self.high is None else max(n, self.high))


def interval_of(logs: np.ndarray) -> Interval:
    """Return a 95 % interval from unbiased independent estimates.

    Parameters
    ----------
    logs : (n,) float64
        Natural logarithms of the estimates, minus infinity for 0.

    Returns
    -------
    Interval
        Without an upper bound if the estimates are few or disagree; then `low` holds by Markov's inequality alone.
    """
    # The import takes a tenth of a second, and most importers of this module only need its compile steps.
    from scipy.special import stdtrit

    if logs.size == 0 or not np.isfinite(logs).any():
        return Interval(0, 0, None)
    top = float(logs.max())
    estimates = np.exp(logs - top)
    n, mean = estimates.size, float(estimates.mean())
    middle = whole_number(top + log(mean))
    if n >= _LEAST_ESTIMATES:
        error = float(estimates.std(ddof=1)) / (mean * sqrt(n))
        half = _LEAST_HALF_WIDTH + _WIDER * float(stdtrit(n - 1, 1 - _RISK / 2)) * error
        if half <= _MOST_HALF_WIDTH:
            return Interval(
                whole_number(top + log(mean) - half), middle, whole_number(top + log(mean) + _WIDER_ABOVE * half)
            )
    # By Markov, an unbiased estimate exceeds 20 times the truth in at most one case of 20. That all of n estimates
    # exceed 0.05 ** (-1 / n) times the truth is just as unlikely.
    by_mean = log(mean * _RISK / 2)
    by_least = float(logs.min()) - top + log(_RISK / 2) / n
    return Interval(whole_number(top + max(by_mean, by_least)), middle, None)


def whole_number(logarithm: float) -> int:
    """Return the integer nearest to ``exp(logarithm)``, however large.

    Examples
    --------
    >>> whole_number(log(3)), whole_number(2000.5 * log(2)).bit_length()
    (3, 2001)
    """
    if logarithm < 700:
        return round(exp(logarithm))
    bits = floor(logarithm / log(2)) - 60
    return round(exp(logarithm - bits * log(2))) << bits

"""Turn independent estimates of one number into an interval for it.

Estimates from descents have heavy tails: most are somewhat too low, a few much too high. So the interval is computed on
the logarithmic scale, reaches further up than down, and stays open if the estimates disagree.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import exp, floor, log, sqrt

import numpy as np

# Fewer independent estimates than this do not show how far they scatter.
_LEAST_ESTIMATES = 6
# Half the width of an interval, as a logarithm, beyond which it is open: a factor of e both ways.
_MOST_HALF_WIDTH = 1.0
# Allowance for parts of a graph that no descent has met yet.
_WIDER, _WIDER_ABOVE, _LEAST_HALF_WIDTH = 1.25, 1.4, 0.05
_RISK = 0.05


@dataclass(frozen=True, slots=True)
class Interval:
    """A number that is not known exactly.

    Attributes
    ----------
    high : int or None
        None for an open interval: at least `low`, without an upper bound.
    """

    low: int
    middle: int
    high: int | None

    @property
    def is_open(self) -> bool:
        """True if there is no upper end."""
        return self.high is None

    @classmethod
    def exactly(cls, n: int) -> Interval:
        """The interval of a number that is known."""
        return cls(n, n, n)

    def at_least(self, n: int) -> Interval:
        """The same, knowing that it is `n` or more."""
        return Interval(max(n, self.low), max(n, self.middle), None if self.high is None else max(n, self.high))


def interval_of(logs: np.ndarray) -> Interval:
    """A 95 % interval from unbiased independent estimates.

    Parameters
    ----------
    logs : (n,) float64
        Their natural logarithms, minus infinity for an estimate of 0.

    Returns
    -------
    Interval
        Open if the estimates are few or disagree; then `low` holds by Markov's inequality alone.
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
    # An unbiased estimate is 20 times the truth in one case of 20 at most; n of them all are 0.05 ** (-1 / n) times.
    by_mean = log(mean * _RISK / 2)
    by_least = float(logs.min()) - top + log(_RISK / 2) / n
    return Interval(whole_number(top + max(by_mean, by_least)), middle, None)


def whole_number(logarithm: float) -> int:
    """The integer next to ``exp(logarithm)``, however large.

    Examples
    --------
    >>> whole_number(log(3)), whole_number(2000.5 * log(2)).bit_length()
    (3, 2001)
    """
    if logarithm < 700:
        return round(exp(logarithm))
    bits = floor(logarithm / log(2)) - 60
    return round(exp(logarithm - bits * log(2))) << bits

"""Scales of the charts: bins of whole numbers, and ticks of a logarithmic axis."""

from __future__ import annotations

import math

import numpy as np

__all__ = ["LogAxis", "bin_starts"]


def bin_starts(low: int, high: int, most: int) -> np.ndarray:
    """First whole number of each bin over ``low .. high``: one bin a number where `most` bins allow it, else growing.

    The growing bins have a constant ratio, as far as whole numbers can, so that a logarithmic axis shows them equally
    wide.

    Returns
    -------
    (n_bins,) int64
        Ascending; the last bin ends at `high`.

    Examples
    --------
    >>> bin_starts(1, 5, 10).tolist()
    [1, 2, 3, 4, 5]
    >>> bin_starts(1, 100, 8).tolist()
    [1, 2, 4, 8, 16, 32, 64]
    """
    if high - low + 1 <= most:
        return np.arange(low, high + 1, dtype=np.int64)
    for ratio in (1.1, 1.15, 1.2, 1.25, 1.33, 1.5, 1.75, 2, 2.5, 3, 4, 5, 10, 100, 1000):
        starts = _growing(low, high, ratio)
        if len(starts) <= most:
            return np.array(starts, dtype=np.int64)
    return np.array([low], dtype=np.int64)


def _growing(low: int, high: int, ratio: float) -> list[int]:
    starts, exact = [low], float(max(low, 1))
    while True:
        exact = max(exact * ratio, starts[-1] + 1)
        start = math.floor(exact)
        if start > high:
            return starts
        starts.append(start)


class LogAxis:
    """Maps positive numbers up to `high` to positions between `start` and `end`, logarithmically.

    Parameters
    ----------
    high : float
        Largest number to be shown; the axis is padded to the next tick.
    start, end : float
        Positions of 1 and of the axis' end.
    """

    def __init__(self, high: float, start: float, end: float) -> None:
        self.ticks = _ticks(max(high, 2))
        self._scale = (end - start) / math.log10(self.ticks[-1])
        self._start = start

    def __call__(self, value: float) -> float:
        """Position of a number of at least 1."""
        return round(self._start + math.log10(value) * self._scale, 1)


def _ticks(high: float) -> list[int]:
    """1, 2, 5, 10 ... where there are few decades, else 1, 10, 100 ...; the last one is at least `high`."""
    decades = math.log10(high)
    steps = (1, 2, 5) if decades <= 2 else (1, 3) if decades <= 3 else (1,)
    ticks: list[int] = []
    power = 1
    while True:
        for step in steps:
            ticks.append(step * power)
            if ticks[-1] >= high:
                return ticks
        power *= 10

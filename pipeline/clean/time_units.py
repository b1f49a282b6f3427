"""The unit of numeric times: seconds since 1970, finer units, or dates in digits such as 20240131.

The window, the buckets and the times of groups share this rule. Epochs before 1973 are too small to tell from a count.
"""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np

__all__ = ["AS_DATES", "in_unit", "moment_in", "range_of", "unit_of", "unit_of_one", "unit_words"]

AS_DATES = {4: "%Y", 6: "%Y%m", 8: "%Y%m%d", 10: "%Y%m%d%H", 12: "%Y%m%d%H%M", 14: "%Y%m%d%H%M%S"}
"""Formats of numeric dates by number of digits; `_TICKS` names the units of other numbers."""

# Ticks per second; the magnitudes are those of seconds from 1973 to the year 5138.
_TICKS = {"seconds": 1, "milliseconds": 10**3, "microseconds": 10**6, "nanoseconds": 10**9}
_SECONDS = (10**8, 10**11)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def unit_of(times: Any, largest: float) -> str | None:
    """Return the unit of a NumPy or CuPy array with this largest magnitude; None if it is unclear.

    It is ``seconds``, ``milliseconds`` and so on, or a value of `AS_DATES`.
    """
    if not math.isfinite(largest):
        return None
    digits = len(str(int(largest)))
    if digits in AS_DATES:
        # Year, month, day, hour, minute, second. Some rows may hold zero, or a date that means "never".
        limits = ((1900, 2100), (1, 12), (1, 31), (0, 23), (0, 59), (0, 59))[: digits // 2 - 1]
        are_dates = times > 0
        for at, (least, most) in zip(range(digits - 4, -1, -2), limits, strict=True):
            part = times // 10**at % (10**4 if most == 2100 else 100)
            are_dates &= (part >= least) & (part <= most)
        if 2 * int(are_dates.sum()) > len(times):
            return AS_DATES[digits]
    return next((unit for unit in _TICKS if range_of(unit)[0] <= largest < range_of(unit)[1]), None)


def unit_of_one(number: int | float) -> str | None:
    """Return the unit of one number, such as a bound."""
    if not math.isfinite(number):
        return None
    unit = unit_of(np.array([number]), abs(number)) if abs(number) < 2**63 else None
    if unit in AS_DATES.values():
        try:
            moment_in(number, str(unit))
        except ValueError:
            return None
    return unit


def range_of(unit: str) -> tuple[int, int]:
    """Return the magnitudes of numbers of a unit, as a half-open range."""
    if unit in _TICKS:
        return _SECONDS[0] * _TICKS[unit], _SECONDS[1] * _TICKS[unit]
    digits = next(digits for digits, form in AS_DATES.items() if form == unit)
    return 1900 * 10 ** (digits - 4), 2101 * 10 ** (digits - 4)


def unit_words(unit: str) -> str:
    """Return the name of the unit for messages."""
    if unit in _TICKS:
        return f"{unit} since 1970"
    names = {"%Y": "YYYY", "%m": "MM", "%d": "DD", "%H": "hh", "%M": "mm", "%S": "ss"}
    return "dates written as " + "".join(names[f"%{letter}"] for letter in unit.split("%")[1:])


def moment_in(number: int | float, unit: str) -> datetime:
    """Return the moment that a number of the unit stands for."""
    if unit in _TICKS:
        return _EPOCH + timedelta(microseconds=math.ceil(number * 10**6 / _TICKS[unit]))
    return datetime.strptime(str(int(number)), unit).replace(tzinfo=UTC)


def in_unit(moment: datetime, unit: str) -> int:
    """Return the smallest number of the unit that is not before the moment."""
    if unit in _TICKS:
        return -((_EPOCH - moment) // _MICROSECOND * _TICKS[unit] // 10**6)
    number = int(moment.astimezone(UTC).strftime(unit))
    return number + (moment_in(number, unit) < moment)

"""Units of times, and time buckets as a part of the right key, named by their start.

All buckets have the same length. One starts at the offset from 1970-01-01 00:00 UTC, and the others follow before and
after. A bucket includes its start but not its end.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np

from mbe_stage.pipeline.backends.backend import Backend, Refusal
from mbe_stage.pipeline.config.setting_names import setting
from mbe_stage.pipeline.errors import with_settings

Parts = Callable[[], Iterable[Any]]
"""Returns all values of a column, in parts."""

_LATEST_SECONDS = 10**11
"""The year 5138: larger numbers are milliseconds or finer."""
_SECOND = 1_000_000
_FIRST, _LAST = (
    int(when.timestamp()) * _SECOND for when in (datetime(1, 1, 2, tzinfo=UTC), datetime(9999, 12, 31, tzinfo=UTC))
)
_EPOCH = datetime(1970, 1, 1)
AS_DATES = {4: "%Y", 6: "%Y%m", 8: "%Y%m%d", 10: "%Y%m%d%H", 12: "%Y%m%d%H%M", 14: "%Y%m%d%H%M%S"}
"""Formats of numeric dates by number of digits; `_TICKS` names the units of other numbers."""
# Ticks per second; the magnitudes are those of seconds from 1973 to the year 5138.
_TICKS = {"seconds": 1, "milliseconds": 10**3, "microseconds": 10**6, "nanoseconds": 10**9}
_SECONDS = (10**8, 10**11)
UTC_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)


def number_buckets(
    times: Any, moments: bool, width: int, offset: int, refuse: Refusal, backend: Backend
) -> tuple[Any, Any]:
    """Number the buckets of times densely.

    Parameters
    ----------
    times : (n,) int64 or float64
        Microseconds since 1970 if they are `moments`, else seconds; none is missing.
    width, offset : int
        Width and offset of the buckets, in microseconds.

    Returns
    -------
    ids, keys
        See `pipeline.clean.keys.number_keys`; a key is ``2024-01-08T00:00:00Z``, with milliseconds unless width and
        offset are whole seconds.
    """
    (begins,) = beginnings(lambda: [times], moments, width, offset, refuse, backend)
    ids, distinct = backend.renumbered(begins)
    return ids, backend.text_column(bucket_names(distinct, width, offset))


def beginnings(
    parts: Parts, moments: bool, width: int, offset: int, refuse: Refusal, backend: Backend
) -> Iterator[Any]:
    """Yield the start of each time's bucket, in microseconds; see `number_buckets`."""
    if not moments:
        _refuse_other_units(parts, refuse, backend)
    for times in parts():
        microseconds = times if moments else from_seconds(times, backend.xp)
        begins = (microseconds - offset) // width * width + offset
        if begins.size and not (int(begins.min()) >= _FIRST and int(begins.max()) <= _LAST):
            name = setting("input.time_bucket")
            found, remedy = f"times outside the years 1 to 9999, for {name}", f"correct them, or leave {name} out"
            raise refuse(None, found=found, expected="times within these years", remedy=remedy)
        yield begins.astype(backend.xp.int64, copy=False)


def bucket_names(begins: Any, width: int, offset: int) -> list[str]:
    """Return the key of each bucket, given its start."""
    whole = width % _SECOND == 0 and offset % _SECOND == 0
    precision = "seconds" if whole else "milliseconds"
    return [f"{(_EPOCH + timedelta(microseconds=begin)).isoformat(timespec=precision)}Z" for begin in begins.tolist()]


def _refuse_other_units(parts: Parts, refuse: Refusal, backend: Backend) -> None:
    most = max(map(backend.largest, parts()), default=0)
    unit = unit_of(parts(), most)
    if unit not in (None, "seconds") or not most < _LATEST_SECONDS:
        looks = f"; they look like {unit_words(unit)}" if unit else ""
        remedy, settings = "convert the column, for example to timestamps", list[dict[str, object]]()
        if unit is not None and unit.startswith("%"):
            remedy, settings = f"set {setting('input.date_format')} to {unit}", [{"input.date_format": unit}]
        found = f"numbers up to {most}, which are not seconds since 1970, for {setting('input.time_bucket')}{looks}"
        error = refuse(None, found=found, expected="timestamps, dates, ISO-8601 text or seconds", remedy=remedy)
        raise with_settings(error, *settings)


def from_seconds(times: Any, xp: Any) -> Any:
    """Return seconds, rounded down, as microseconds in int64."""
    if times.dtype.kind == "f":
        return xp.floor(times.astype(xp.float64) * _SECOND).astype(xp.int64)
    return times.astype(xp.int64) * _SECOND


def unit_of(parts: Iterable[Any], largest: float) -> str | None:
    """Return the unit of NumPy or CuPy arrays with this largest magnitude; None if it is unclear.

    It is ``seconds``, ``milliseconds`` and so on, or a value of `AS_DATES`.
    """
    if not math.isfinite(largest):
        return None
    digits = len(str(int(largest)))
    if digits in AS_DATES:
        # Year, month, day, hour, minute, second. Some rows may hold zero, or a date that means "never".
        limits = ((1900, 2100), (1, 12), (1, 31), (0, 23), (0, 59), (0, 59))[: digits // 2 - 1]
        n_more = 0
        for times in parts:
            are_dates = times > 0
            for at, (least, most) in zip(range(digits - 4, -1, -2), limits, strict=True):
                part = times // 10**at % (10**4 if most == 2100 else 100)
                are_dates &= (part >= least) & (part <= most)
            n_more += 2 * int(are_dates.sum()) - len(times)
        if n_more > 0:
            return AS_DATES[digits]
    return next((unit for unit in _TICKS if range_of(unit)[0] <= largest < range_of(unit)[1]), None)


def unit_of_one(number: int | float) -> str | None:
    """Return the unit of one number, such as a bound."""
    unit = unit_of([np.array([number])], abs(number)) if abs(number) < 2**63 else None
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
        return UTC_EPOCH + timedelta(microseconds=math.ceil(number * 10**6 / _TICKS[unit]))
    return datetime.strptime(str(int(number)), unit).replace(tzinfo=UTC)


def in_unit(moment: datetime, unit: str) -> int:
    """Return the smallest number of the unit that is not before the moment."""
    if unit in _TICKS:
        return -((UTC_EPOCH - moment) // MICROSECOND * _TICKS[unit] // 10**6)
    number = int(moment.astimezone(UTC).strftime(unit))
    return number + (moment_in(number, unit) < moment)

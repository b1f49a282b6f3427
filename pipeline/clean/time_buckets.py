"""Times as a part of the right key: each time's bucket, named by the moment at which it begins.

All buckets have one length. One begins at the offset from 1970-01-01 00:00 UTC, and the others follow before and after.
A bucket includes its beginning but not its end.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from mbe_stage.pipeline.backends.backend import Backend, Refusal
from mbe_stage.pipeline.clean.time_units import unit_of, unit_words
from mbe_stage.pipeline.config.setting_names import setting
from mbe_stage.pipeline.errors import InputError

__all__ = ["number_buckets"]

_LATEST_SECONDS = 10**11
"""The year 5138: larger numbers are milliseconds or finer."""

_SECOND = 1_000_000
_FIRST, _LAST = (
    int(when.timestamp()) * _SECOND for when in (datetime(1, 1, 2, tzinfo=UTC), datetime(9999, 12, 31, tzinfo=UTC))
)
_EPOCH = datetime(1970, 1, 1)


def number_buckets(
    times: Any, moments: bool, width: int, offset: int, refuse: Refusal, backend: Backend
) -> tuple[Any, Any]:
    """Number the buckets of times densely.

    Parameters
    ----------
    times : (n,) int64 or float64
        Microseconds since 1970 if they are `moments`, else seconds; none is missing.
    width, offset : int
        Of the buckets, in microseconds.

    Returns
    -------
    ids, keys
        As of `pipeline.clean.keys.number_keys`; a key is ``2024-01-08T00:00:00Z``, with milliseconds unless width and
        offset are whole seconds.

    Raises
    ------
    InputError, HostNeeded
        Numbers are not seconds since 1970, or moments lie outside the years 1 to 9999.
    """
    xp = backend.xp
    microseconds = times if moments else _from_seconds(times, refuse, backend)
    begins = (microseconds - offset) // width * width + offset
    if begins.size and not (int(begins.min()) >= _FIRST and int(begins.max()) <= _LAST):
        raise refuse(
            None,
            found=f"times outside the years 1 to 9999, for {setting('input.time_bucket')}",
            expected="times within these years",
            remedy=f"correct them, or leave {setting('input.time_bucket')} out",
        )
    distinct, ids = xp.unique(begins, return_inverse=True)
    whole = width % _SECOND == 0 and offset % _SECOND == 0
    precision = "seconds" if whole else "milliseconds"
    names = [
        f"{(_EPOCH + timedelta(microseconds=begin)).isoformat(timespec=precision)}Z" for begin in distinct.tolist()
    ]
    return ids, backend.text_column(names)


def _from_seconds(times: Any, refuse: Refusal, backend: Backend) -> Any:
    most = backend.largest(times)
    unit = unit_of(times, most)
    if unit not in (None, "seconds") or not most < _LATEST_SECONDS:
        looks = f"; they look like {unit_words(unit)}" if unit else ""
        by_digits = unit is not None and unit.startswith("%")
        error = refuse(
            None,
            found=f"numbers up to {most}, which are not seconds since 1970, for {setting('input.time_bucket')}{looks}",
            expected="timestamps, dates, ISO-8601 text or seconds",
            remedy=f"set {setting('input.date_format')} to {unit}"
            if by_digits
            else "convert the column, for example to timestamps",
        )
        if isinstance(error, InputError) and by_digits:
            error.settings = ({"input.date_format": unit},)
        raise error
    if times.dtype.kind == "f":
        return backend.xp.floor(times * _SECOND).astype(backend.xp.int64)
    return times.astype(backend.xp.int64) * _SECOND

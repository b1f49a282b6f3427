"""Which rows lie in the window of time that a run takes.

The window is half open: from <= timestamp < until. Times are numbers, compared as they stand, or moments (timestamps,
dates, ISO-8601 text); a moment without a zone is UTC. A bound in ISO-8601 against numbers reads them as seconds since
1970.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from pipeline.backends.backend import Backend, Refusal
from pipeline.config import InputConfig
from pipeline.naming import setting

__all__ = ["LATEST_SECONDS", "in_window"]

LATEST_SECONDS = 10**11
"""The year 5138: larger numbers are milliseconds or finer."""


def in_window(times: Any, moments: bool, config: InputConfig, refuse: Refusal, backend: Backend) -> Any:
    """Which of the times, none of them missing, lie in the window of the configuration, ``(n,) bool``.

    Raises
    ------
    InputError, HostNeeded
        A bound is no ISO-8601 moment, or a number where the column holds moments.
    """
    first, end = _bounds(config, moments, lambda: backend.largest(times), refuse)
    inside = backend.xp.ones(len(times), bool)
    if first is not None:
        inside &= backend.at_least(times, first)
    if end is not None:
        inside &= backend.below(times, end)
    return inside


def _bounds(
    config: InputConfig, moments: bool, largest: Callable[[], float], refuse: Refusal
) -> tuple[int | float | None, int | float | None]:
    """The window's bounds on the scale of the column: its numbers, or microseconds since 1970."""
    bounds = ((config.time_from, "time_from"), (config.time_until, "time_until"))
    first, end = (None if given is None else _bound(given, name, moments, largest, refuse) for given, name in bounds)
    return first, end


def _bound(
    given: int | float | str, name: str, moments: bool, largest: Callable[[], float], refuse: Refusal
) -> int | float:
    number = _number(given)
    if number is not None and not moments:
        return number
    if number is not None:
        raise refuse(
            None,
            found=f"moments, while {setting(f'input.{name}')} is the number {given}",
            expected="a moment as the bound",
            remedy=f"write {setting(f'input.{name}')} as ISO-8601, for example 2024-01-31T12:00:00",
        )
    try:
        moment = datetime.fromisoformat(str(given).strip())
    except ValueError:
        raise refuse(
            None,
            found=f"{setting(f'input.{name}')} is {given!r}",
            expected="a number or an ISO-8601 moment",
            remedy=f"write {setting(f'input.{name}')} for example as 2024-01-31T12:00:00",
        ) from None
    zoned = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment
    delta = zoned - datetime(1970, 1, 1, tzinfo=UTC)
    microseconds = (delta.days * 86_400 + delta.seconds) * 1_000_000 + delta.microseconds
    if moments:
        return microseconds
    most = largest()
    if most >= LATEST_SECONDS:
        raise refuse(
            None,
            found=f"numbers up to {most}, which are no seconds since 1970, while {setting(f'input.{name}')} "
            f"is {given!r}",
            expected="seconds where a bound is ISO-8601",
            remedy=f"write {setting(f'input.{name}')} as a number in the column's own unit",
        )
    return microseconds / 1_000_000


def _number(given: int | float | str) -> int | float | None:
    if isinstance(given, int | float):
        return given
    try:
        return int(given)
    except ValueError:
        pass
    try:
        return float(given)
    except ValueError:
        return None

"""The rows in the time window of a run.

The window is half open: from <= timestamp < until. Times are plain numbers, or moments (timestamps, dates, ISO-8601
text). A moment without a zone is UTC. An ISO-8601 bound needs moments or seconds since 1970. A numeric bound needs a
column of its own unit (`pipeline.clean.time_buckets`).
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

from mbe_stage.pipeline.backends.backend import Backend, HostNeeded, Refusal
from mbe_stage.pipeline.clean.time_buckets import (
    AS_DATES,
    MICROSECOND,
    UTC_EPOCH,
    Parts,
    in_unit,
    moment_in,
    range_of,
    unit_of,
    unit_of_one,
    unit_words,
)
from mbe_stage.pipeline.config.model import InputConfig
from mbe_stage.pipeline.config.setting_names import setting
from mbe_stage.pipeline.errors import InputError, with_settings

_MOMENTS = "moments"
_Bound = int | float | datetime
_Mask = Callable[[Any], Any]


def window_of(parts: Parts, moments: bool, config: InputConfig, refuse: Refusal, backend: Backend) -> _Mask:
    """Return a function that masks times in the configured window, ``(n,) bool``; `parts` has all times."""
    given = {name: getattr(config, name) for name in ("time_from", "time_until")}
    bounds = {name: _read(bound, name, refuse) for name, bound in given.items() if bound is not None}
    most = max(map(backend.largest, parts()), default=0) if bounds and not moments else 0
    unit = _MOMENTS if moments else unit_of(parts(), most)
    for name, bound in bounds.items():
        if not _is_comparable(parts, most, unit, bound, backend):
            column = unit if moments else f"numbers up to {most}{_looks_like(unit)}"
            raise _refused(refuse, str(column), name, bounds, unit)

    def inside(times: Any) -> Any:
        mask = backend.xp.ones(len(times), bool)
        if "time_from" in bounds:
            mask &= backend.at_least(times, _scaled(bounds["time_from"], moments))
        if "time_until" in bounds:
            mask &= backend.below(times, _scaled(bounds["time_until"], moments))
        return mask

    return inside


def _read(given: int | float | str, name: str, refuse: Refusal) -> int | float | datetime:
    number = _number(given)
    if number is not None:
        return number
    try:
        moment = datetime.fromisoformat(str(given).strip())
    except ValueError:
        found = f"{setting(f'input.{name}')} is {given!r}"
        remedy = f"write {setting(f'input.{name}')} for example as 2024-01-31T12:00:00"
        raise refuse(None, found=found, expected="a number or an ISO-8601 moment", remedy=remedy) from None
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment


def _is_comparable(parts: Parts, most: float, unit: str | None, bound: _Bound, backend: Backend) -> bool:
    """Return whether a bound and the column share a scale; any number fits numbers of unknown unit."""
    if isinstance(bound, datetime):
        is_early = unit is None and max(most, abs(_scaled(bound, False))) < range_of("seconds")[0]
        return unit in (_MOMENTS, "seconds") or is_early
    of_bound = unit_of_one(bound)
    if unit == _MOMENTS or unit is None or of_bound in (None, unit):
        return unit != _MOMENTS
    least, end = range_of(of_bound)
    # A single number of a larger unit, such as a time that means "never", does not decide the unit.
    inside = ((backend.at_least(times, least) & backend.below(times, end)).any() for times in parts())
    return unit not in AS_DATES.values() and any(map(bool, inside))


def _refused(
    refuse: Refusal, column: str, name: str, bounds: dict[str, Any], unit: str | None
) -> InputError | HostNeeded:
    """Return the refusal; its settings have every bound on the scale of the column, if that is known."""
    settings: dict[str, object] = {}
    for each, bound in bounds.items():
        of_bound = None if isinstance(bound, datetime) else unit_of_one(bound)
        moment = bound if isinstance(bound, datetime) else of_bound and moment_in(bound, of_bound)
        if moment and unit:
            settings[f"input.{each}"] = moment.isoformat() if unit == _MOMENTS else in_unit(moment, unit)
    bound, expected = bounds[name], "a bound in the column's own unit"
    if isinstance(bound, datetime):
        found = f"{column}, not seconds since 1970, while {setting(f'input.{name}')} is {bound.isoformat()}"
        expected = "seconds for an ISO-8601 bound"
    else:
        found = f"{column}, while {setting(f'input.{name}')} is the number {bound}{_looks_like(unit_of_one(bound))}"
    instead = ", ".join(f"{setting(key)} as {value}" for key, value in settings.items())
    remedy = f"write {instead or setting(f'input.{name}') + ' in the unit of the column'}"
    error = refuse(None, found=found, expected=expected, remedy=remedy)
    return with_settings(error, *([settings] if len(settings) == len(bounds) else []))


def _looks_like(unit: str | None) -> str:
    return f", which look like {unit_words(unit)}" if unit else ""


def _scaled(bound: int | float | datetime, moments: bool) -> int | float:
    """Return the bound in microseconds for moments, in seconds for numbers; a number is unchanged."""
    if not isinstance(bound, datetime):
        return bound
    microseconds = (bound - UTC_EPOCH) // MICROSECOND
    return microseconds if moments else microseconds / 1_000_000


def _number(given: int | float | str) -> int | float | None:
    if isinstance(given, int | float):
        return given
    for kind in (int, float):
        with suppress(ValueError):
            return kind(given)
    return None

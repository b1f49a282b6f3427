"""Numbers as times: windows, buckets and times of groups take the same ones for seconds since 1970."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import numpy as np
import pyarrow as pa
import pytest

from mbe_stage.pipeline.clean.time_buckets import in_unit, moment_in, unit_of, unit_of_one
from mbe_stage.pipeline.config.model import InputConfig
from mbe_stage.pipeline.errors import InputError
from mbe_stage.pipeline.execution.ingest import ingest

MOMENTS = [datetime(2023, 12, 30, tzinfo=UTC) + timedelta(days=days) for days in range(5)]
UNITS: dict[str, Callable[[datetime], int]] = {
    "seconds": lambda moment: int(moment.timestamp()),
    "milliseconds": lambda moment: int(moment.timestamp()) * 10**3,
    "microseconds": lambda moment: int(moment.timestamp()) * 10**6,
    "nanoseconds": lambda moment: int(moment.timestamp()) * 10**9,
    "%Y%m%d": lambda moment: int(moment.strftime("%Y%m%d")),
    "%Y%m%d%H": lambda moment: int(moment.strftime("%Y%m%d%H")),
    "%Y%m%d%H%M": lambda moment: int(moment.strftime("%Y%m%d%H%M")),
    "%Y%m%d%H%M%S": lambda moment: int(moment.strftime("%Y%m%d%H%M%S")),
}


def column(unit: str, kind: str = "int64") -> pa.Array:
    values = [UNITS[unit](moment) for moment in MOMENTS]
    return pa.array([str(value) for value in values]) if kind == "text" else pa.array(np.array(values, kind))


def kept(times: pa.Array, **settings: object) -> list[int]:
    table = pa.table({"u": list(range(len(times))), "v": [7] * len(times), "t": times})
    edges = ingest(InputConfig(timestamp="t", **settings), source=table)
    return edges.left_keys.to_pylist()


def settings_of(times: pa.Array, **settings: object) -> tuple[str, list[dict[str, object]]]:
    with pytest.raises(InputError) as caught:
        kept(times, **settings)
    return str(caught.value), [
        {key.removeprefix("input."): value for key, value in each.items()} for each in caught.value.settings
    ]


@pytest.mark.parametrize("kind", ["int64", "float64", "text"])
@pytest.mark.parametrize("unit", UNITS)
def test_bounds_in_iso_are_compared_or_refused_with_the_bounds_that_do_it(unit: str, kind: str) -> None:
    times, window = column(unit, kind), {"time_from": "2023-12-31T00:00:00", "time_until": "2024-01-02"}
    if unit == "seconds":
        assert kept(times, **window) == [1, 2]
        return
    message, (instead,) = settings_of(times, **window)
    assert "not seconds since 1970" in message
    assert kept(times, **instead) == [1, 2]
    _, (instead,) = settings_of(times, time_from="2023-12-31T12:00:00")
    assert kept(times, **instead) == [2, 3, 4]


@pytest.mark.parametrize("of_bound", UNITS)
@pytest.mark.parametrize("of_column", UNITS)
def test_a_bound_of_another_unit_is_refused_with_a_correct_one(of_column: str, of_bound: str) -> None:
    window = {"time_from": UNITS[of_bound](MOMENTS[1]), "time_until": UNITS[of_bound](MOMENTS[3])}
    if of_bound == of_column:
        assert kept(column(of_column), **window) == [1, 2]
        return
    message, (instead,) = settings_of(column(of_column), **window)
    assert "input.time_from is the number" in message
    assert kept(column(of_column), **instead) == [1, 2]


@pytest.mark.parametrize("unit", UNITS)
def test_a_number_against_moments_is_refused_with_the_moment(unit: str) -> None:
    times = pa.array(MOMENTS, pa.timestamp("us"))
    _, (instead,) = settings_of(times, time_from=UNITS[unit](MOMENTS[1]), time_until=UNITS[unit](MOMENTS[3]))
    assert kept(times, **instead) == [1, 2]
    assert settings_of(times, time_until=5)[1] == []


@pytest.mark.parametrize("kind", ["int64", "float64", "text"])
@pytest.mark.parametrize("unit", UNITS)
def test_buckets_take_seconds_alone(unit: str, kind: str) -> None:
    if unit == "seconds":
        assert kept(column(unit, kind), time_bucket="1d") == [0, 1, 2, 3, 4]
        return
    message, instead = settings_of(column(unit, kind), time_bucket="1d")
    assert "not seconds since 1970" in message
    assert instead == ([{"date_format": unit}] if "%" in unit else [])


@pytest.mark.parametrize("unit", UNITS)
def test_times_of_groups_are_seconds_alone(unit: str) -> None:
    table = pa.table({"u": range(5), "v": [7] * 5, "t": column(unit)})
    edges = ingest(InputConfig(timestamp="t").keeping_events(), source=table)
    assert (edges.events.times is not None) == (unit == "seconds")
    assert any("look like" in warning for warning in edges.facts.warnings) == (unit != "seconds")


@pytest.mark.parametrize("last", [0, 99991231, 20241399])
def test_some_numbers_may_be_no_dates(last: int) -> None:
    times = pa.array([20231230, 20231231, 20240101, last])
    assert "dates written as YYYYMMDD" in settings_of(times, time_bucket="1d")[0]


@pytest.mark.parametrize(
    ("times", "window", "expected"),
    [
        # Counts of anything, without a unit of time.
        ([5, 6, 7], {"time_from": 6}, [1, 2]),
        ([5, 6, 7], {"time_from": 10**9}, None),
        ([5, 6, 7], {"time_until": 20240131}, [0, 1, 2]),
        ([20_240_131, 3, 4, 5], {"time_from": 4}, [0, 2, 3]),
        ([1_700_000_000, 5], {"time_from": 0}, [0, 1]),
        # A number that is no date is an ordinary bound.
        ([1_700_000_000, 5], {"time_from": 20241331}, [0]),
        ([1_700_000_000, 5], {"time_until": 2**70}, [0, 1]),
        ([-1_700_000_000, 5], {"time_from": "1960-01-01"}, [1]),
        ([1_700_000_000_000, 1_700_000_000], {"time_from": 1_600_000_000}, [0, 1]),
        ([0, 86_400], {"time_from": "1970-01-02"}, [1]),
        ([2022, 2023, 2024], {"time_from": 2023}, [1, 2]),
    ],
)
def test_numbers_of_no_unit_are_compared_as_they_stand(
    times: list[int], window: dict[str, object], expected: list[int] | None
) -> None:
    if expected is None:
        assert "all 3 rows were dropped" in settings_of(pa.array(times), **window)[0]
    else:
        assert kept(pa.array(times), **window) == expected


@pytest.mark.parametrize(
    ("times", "instead"), [([2022, 2023, 2024], 2023), ([202211, 202301, 202312], 202301), ([19_700, 19_800], None)]
)
def test_numbers_too_small_for_seconds_are_refused(times: list[int], instead: int | None) -> None:
    message, found = settings_of(pa.array(times), time_from="2023-01-01")
    assert "not seconds since 1970" in message
    assert found == ([] if instead is None else [{"time_from": instead}])


def test_units_there_and_back() -> None:
    moment = datetime(2024, 2, 29, 13, 7, 9, tzinfo=UTC)
    for unit, number in UNITS.items():
        assert unit_of([np.array([number(moment)])], number(moment)) == unit_of_one(number(moment)) == unit
        assert in_unit(moment_in(number(moment), unit), unit) == number(moment)
        assert in_unit(moment, unit) == number(moment) + (moment_in(number(moment), unit) < moment)
    assert [unit_of_one(odd) for odd in (float("nan"), float("inf"), 0, -5, 2**70, 20240231, 1e300)] == [None] * 7


def test_a_bound_that_is_no_number_lets_no_row_pass() -> None:
    rows = pa.table({"left": [1, 2], "right": [1, 1], "time": [1.7e9, 1.8e9]})
    with pytest.raises(InputError, match="all 2 rows were dropped: 2 by time"):
        ingest(InputConfig(timestamp="time", time_until="nan"), rows)

"""Right keys with a time bucket, compared with Python's arithmetic of days and seconds."""

from __future__ import annotations

import json
import weakref
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from mbe_stage.pipeline import Config, run
from mbe_stage.pipeline.backends.arrow import backend as arrow
from mbe_stage.pipeline.backends.arrow.backend import ARROW
from mbe_stage.pipeline.cli.app import app
from mbe_stage.pipeline.config.model import InputConfig
from mbe_stage.pipeline.config.units import parse_duration
from mbe_stage.pipeline.errors import ConfigError, InputError
from mbe_stage.pipeline.execution.ingest import ingest
from mbe_stage.pipeline.verify import verify_run
from mbe_stage.pipeline.views.diff import diff_runs
from tests.pipeline.test_composite_keys import pairs, written

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
CSV = "user,item,time\nann,x,2024-01-01\nbob,x,2024-01-03T23:59:59\nann,x,2024-01-04\nbob,y,2023-12-31T23:00:00-02:00\n"


def begin_of(moment: datetime, width: int, offset: int) -> str:
    """Return the start of the bucket, computed with Python's integers."""
    seconds = (moment - EPOCH) // timedelta(seconds=1)
    start = EPOCH + timedelta(seconds=(seconds - offset) // width * width + offset)
    return start.isoformat().replace("+00:00", "Z")


@given(
    st.lists(st.datetimes(datetime(1902, 1, 1), datetime(2200, 1, 1), timezones=st.just(UTC)), min_size=1, max_size=20),
    st.integers(1, 40),
    st.sampled_from("smhdw"),
    st.integers(0, 50),
    st.sampled_from("smhdw"),
)
@settings(max_examples=200, deadline=None)
def test_buckets_are_those_of_exact_arithmetic(
    moments: list[datetime], count: int, unit: str, shift: int, unit_of_shift: str
) -> None:
    source = pa.table(
        {"u": range(len(moments)), "v": ["x"] * len(moments), "t": pa.array(moments, pa.timestamp("us", "UTC"))}
    )
    config = InputConfig(timestamp="t", time_bucket=f"{count}{unit}", time_offset=f"{shift}{unit_of_shift}")
    expected = [begin_of(one, count * UNITS[unit], shift * UNITS[unit_of_shift]) for one in moments]
    assert pairs(ingest(config, source)) == {(i, written("x", begin)) for i, begin in enumerate(expected)}


DAY = 86400
TIMES = {
    "seconds": pa.array([0, DAY - 1, DAY, -1]),
    "fractions of seconds": pa.array([0.5, DAY - 0.000001, float(DAY), -0.25]),
    "timestamps": pa.array([0, DAY - 1, DAY, -1], pa.timestamp("s")),
    "nanoseconds": pa.array([0, DAY * 10**9 - 1, DAY * 10**9, -1], pa.timestamp("ns")),
    "text": pa.array(["1970-01-01", "1970-01-01T23:59:59.999999", "1970-01-02", "1969-12-31T23:59:59Z"]),
    "text of seconds": pa.array(["0", "86399", "86400", "-1"]),
}


@pytest.mark.parametrize("kind", TIMES)
def test_times_of_every_kind(kind: str) -> None:
    source = pa.table({"u": [1, 2, 3, 4], "v": [7, 7, 7, 7], "t": TIMES[kind]})
    keys = ingest(InputConfig(timestamp="t", time_bucket="1d"), source).right_keys.to_pylist()
    assert keys == ['[7,"1969-12-31T00:00:00Z"]', '[7,"1970-01-01T00:00:00Z"]', '[7,"1970-01-02T00:00:00Z"]']


def test_days_and_composite_keys() -> None:
    source = pa.table({"u": [1, 2], "v": ["a", "a"], "r": [5, 4], "t": pa.array([date(2024, 1, 1), date(2024, 1, 9)])})
    config = InputConfig(left="u", right=("v", "r"), timestamp="t", time_bucket="7d", time_offset="4d")
    # 2024-01-01 and -08 are Mondays.
    assert ingest(config, source).right_keys.to_pylist() == [
        '["a",4,"2024-01-08T00:00:00Z"]',
        '["a",5,"2024-01-01T00:00:00Z"]',
    ]


def test_the_same_vertex_and_bucket_is_one_edge() -> None:
    source = pa.table({"u": [1, 1, 1], "v": [7, 7, 7], "t": [0, 10, DAY]})
    facts = ingest(InputConfig(timestamp="t", time_bucket="1d"), source).facts
    assert (facts.n_edges, facts.duplicate_edges) == (2, 1)


def test_filters_of_time_come_first() -> None:
    source = pa.table({"u": [1, 1, 1], "v": [7, 7, 7], "t": [0, 10, DAY]})
    edges = ingest(InputConfig(timestamp="t", time_bucket="1d", time_from=5, time_until=DAY), source)
    assert edges.right_keys.to_pylist() == ['[7,"1970-01-01T00:00:00Z"]']
    assert edges.facts.rows_dropped_time == 2


def test_a_row_without_time_is_refused_or_dropped(tmp_path: Path) -> None:
    path = tmp_path / "e.csv"
    path.write_text("u,v,t\n1,2,2024-01-01\n1,3,\n")
    asked = {"path": str(path), "timestamp": "t", "time_bucket": "7d"}
    with pytest.raises(InputError, match=r"line 3.*column 't'.*no value"):
        ingest(InputConfig(**asked))
    assert ingest(InputConfig(**asked, nulls="drop")).facts.rows_dropped_null == 1


@pytest.mark.parametrize(
    ("times", "says"),
    [
        (
            pa.array([0, 10**12]),
            r"numbers up to 1000000000000, which are not seconds since 1970, for input\.time_bucket",
        ),
        (pa.array([0.0, np.inf]), "numbers up to inf"),
        (pa.array([0, -(2**62)], pa.timestamp("us")), "times outside the years 1 to 9999"),
        (pa.array([0, 2**62], pa.timestamp("us")), "times outside the years 1 to 9999"),
        (pa.array(["2024-01-01", "soon"]), "row 2.*'soon'.*a number, or a moment in ISO-8601"),
    ],
)
def test_times_without_a_bucket_are_refused(times: pa.Array, says: str) -> None:
    source = pa.table({"u": [1, 2], "v": [7, 7], "t": times})
    with pytest.raises(InputError, match=says):
        ingest(InputConfig(timestamp="t", time_bucket="7d"), source)


@pytest.mark.parametrize("text", ["", "7", "d", "7 d", "-7d", "+7d", "1.5d", "7D", "7y", "d7", "7d7", "٧d", "9999w"])
def test_invalid_durations_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="expected a"):
        parse_duration(text)
    for key in ("time_bucket", "time_offset"):
        with pytest.raises(ConfigError, match=f"configuration: input.{key} is .*expected a"):
            Config.from_mapping({"input": {"timestamp": "t", "time_bucket": "7d", key: text}})


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"time_bucket": "7d"}, "input.time_bucket needs the timestamp column: set input.timestamp"),
        (
            {"time_bucket": "0d", "timestamp": "t"},
            "input.time_bucket is '0d': expected a positive duration, such as 7d",
        ),
        ({"time_bucket": 7, "timestamp": "t"}, "input.time_bucket is 7: expected a whole number and one of the units"),
        ({"time_bucket": 0, "timestamp": "t"}, "input.time_bucket is 0: expected a positive duration"),
        ({"time_bucket": ["7d"], "timestamp": "t"}, "input.time_bucket.*expected a whole number and one of the units"),
        (
            {"time_offset": "1d", "timestamp": "t"},
            "input.time_offset shifts the time buckets: set input.time_bucket",
        ),
        ({"time_offset": None, "time_bucket": "7d", "timestamp": "t"}, "input.time_offset.*expected a whole number"),
    ],
)
def test_settings_that_contradict_each_other(given: dict[str, object], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        Config.from_mapping({"input": given})


def config_of(tmp_path: Path, **changed: object) -> Config:
    (tmp_path / "e.csv").write_text(CSV)
    asked = {"path": str(tmp_path / "e.csv"), "timestamp": "time", "time_bucket": "7d", **changed}
    return Config.from_mapping({"input": asked, "output": {"directory": str(tmp_path / "out")}})


def test_a_run_and_its_checks(tmp_path: Path) -> None:
    config = config_of(tmp_path, time_offset=0)
    run_dir = run(config).run_dir
    # Buckets of 7 days begin on Thursdays.
    keys = pq.read_table(run_dir / "right_vertices.parquet")["key"].to_pylist()
    assert keys == ['["x","2023-12-28T00:00:00Z"]', '["x","2024-01-04T00:00:00Z"]', '["y","2023-12-28T00:00:00Z"]']
    assert "a right vertex for each right key and <bdi>7d</bdi> of time" in (run_dir / "report.html").read_text()
    assert "input" in [check.name for check in verify_run(run_dir, ingest(config.input)).checks]


def test_other_buckets_are_another_query(tmp_path: Path) -> None:
    one, two = run(config_of(tmp_path)).run_dir, run(config_of(tmp_path, time_offset="4d")).run_dir
    said = diff_runs(one, two).comparability
    assert not said.knows_gone
    assert "the queries differ: input.time_offset was '0' and is '4d'" in said.remarks


def test_the_command_line(tmp_path: Path) -> None:
    (tmp_path / "e.csv").write_text(CSV)
    count = ["enumerate", str(tmp_path / "e.csv"), "--count-only", "--quiet", "--json", "--time-bucket", "7d"]
    found = CliRunner().invoke(app, [*count, "--timestamp", "time", "--time-offset", "12h"])
    assert json.loads(found.stdout)["input"]["n_right"] == 2
    for wrong, says in (
        (count, "--time-bucket needs the timestamp column: set --timestamp"),
        ([*count, "--timestamp", "time", "--time-offset", "3"], "--time-offset is '3': expected a whole number"),
    ):
        refused = CliRunner().invoke(app, wrong)
        assert refused.exit_code == 2
        assert says in refused.stderr


def test_columns_are_released_before_edges_are_ordered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pq.write_table(pa.table({"u": [1, 2], "v": [3, 3], "t": TIMES["timestamps"][:2]}), path := tmp_path / "e.parquet")
    read, order, alive = arrow.read_edges, ARROW.distinct_pairs, []

    def seen(*arguments: Any) -> Any:
        alive.append([table() is not None for table in tables])
        return order(*arguments)

    def remembered(*arguments: Any) -> Any:
        rows = read(*arguments)
        tables.append(weakref.ref(rows.table))
        return rows

    tables: list[weakref.ref[pa.Table]] = []
    monkeypatch.setattr(arrow, "read_edges", remembered)
    monkeypatch.setattr(ARROW, "distinct_pairs", seen)
    ingest(InputConfig(path=str(path), timestamp="t", time_bucket="1d"))
    assert alive == [[False]]

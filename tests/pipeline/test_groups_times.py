"""Weights and times of groups: compared with plain counting for every type of column; forged tables are found."""

from __future__ import annotations

import datetime
import random
import re
from fractions import Fraction
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from mbe_stage.pipeline import Config, run
from mbe_stage.pipeline.clean.events import NO_TIME, Events
from mbe_stage.pipeline.errors import InputError, VerificationError
from mbe_stage.pipeline.execution.ingest import ingest
from mbe_stage.pipeline.problems.groups.chosen import GroupEdges
from mbe_stage.pipeline.problems.groups.tables import explanation
from mbe_stage.pipeline.problems.groups.times import NOTHING, figures_of, within_words
from mbe_stage.pipeline.problems.installed import reading_of
from mbe_stage.pipeline.verify import verify_run
from tests.pipeline.groups_support import EDGES, rows, settings
from tests.pipeline.test_groups_verify import changed
from tests.pipeline.test_problem_seam import edit, forge

DAY = 86_400
NEW_YEAR = 1_704_067_200
NAMED = {"weight": "w", "timestamp": "t"}
WINDOWS = {"1h": 3600, "1d": DAY, "3d": 3 * DAY, "7d": 7 * DAY}
COLUMNS = (
    "weight_total",
    "weight_median",
    "first_time",
    "last_time",
    "busiest_share",
    "busiest_window",
    "busiest_start",
    "busiest_item_share",
)
Event = tuple[tuple[Any, Any], float | None, int | None]
"""Edge, weight and seconds of a row."""


def with_events(seed: int = 3) -> pa.Table:
    """`EDGES`, a third of them twice, with weights and seconds.

    The first ring acts within two days, on items that others visit during all 300 days.
    """
    dice = random.Random(seed)
    table = []
    for left, right in zip(EDGES["l"].to_pylist(), EDGES["r"].to_pylist(), strict=True):
        for _ in range(1 + (dice.random() < 1 / 3)):
            is_ring = left.startswith("ring 0") and right <= -100
            time = NEW_YEAR + dice.randrange(2 * DAY if is_ring else 300 * DAY)
            table.append({"l": left, "r": right, "w": dice.choice([-1.5, 0.1, 0.2, 4.0]), "t": time})
    table += [
        {"l": f"other {i}", "r": -100 - i % 5, "w": 1.0, "t": NEW_YEAR + dice.randrange(300 * DAY)} for i in range(15)
    ]
    return pa.Table.from_pylist(table)


SOURCE = with_events()


def asked(out: Path, **sections: Any) -> Config:
    return settings(out, **{"input": NAMED, "groups": {"try_keys": "plain"}, **sections})


def counted(events: list[Event], of_items: list[int | None]) -> dict[str, Any]:
    """Compute a group's figures by definition, from its rows and the times of all rows of its items."""
    weights: dict[Any, list[Fraction]] = {}
    for edge, weight, _ in events:
        if weight is not None:
            weights.setdefault(edge, []).append(Fraction(weight))
    times = sorted(time for _, _, time in events if time is not None)
    found: dict[str, Any] = dict.fromkeys(COLUMNS)
    if weights:
        found["weight_total"] = float(sum(map(sum, weights.values())))
        found["weight_median"] = median(float(sum(each)) for each in weights.values())
    if times:
        for name, width in WINDOWS.items():
            within = [sum(start <= time < start + width for time in times) for start in times]
            found |= {"busiest_window": name, "busiest_share": max(within) / len(times)}
            found["busiest_start"] = times[within.index(max(within))]
            if 10 * max(within) >= 8 * len(times):
                break
        others = [time for time in of_items if time is not None]
        within = [sum(start <= time < start + width for time in others) for start in others]
        found["busiest_item_share"] = max(within) / len(others)
        found |= {"first_time": times[0], "last_time": times[-1]}
    return found


def stated(row: dict[str, Any]) -> dict[str, Any]:
    seconds = ("first_time", "last_time", "busiest_start")
    return {name: epoch(row[name]) if name in seconds and row[name] is not None else row[name] for name in COLUMNS}


def epoch(moment: datetime.datetime) -> float:
    return moment.replace(tzinfo=datetime.UTC).timestamp()


def events_of(run_dir: Path, source: pa.Table) -> list[tuple[list[Event], list[int | None]]]:
    """Return the arguments of `counted` for each group, from the published members."""
    of_groups: dict[int, dict[str, set[str]]] = {}
    for row in rows(run_dir, "group_members"):
        of_groups.setdefault(row["group_key"], {"left": set(), "right": set()})[row["side"]].add(row["key"])
    found = []
    for sides in of_groups.values():
        of_items = [row for row in source.to_pylist() if str(row["r"]) in sides["right"]]
        events = [((row["l"], row["r"]), row["w"], row["t"]) for row in of_items if row["l"] in sides["left"]]
        found.append((events, [row["t"] for row in of_items]))
    return found


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    run_dir = run(asked(tmp_path_factory.mktemp("sound")), SOURCE).run_dir
    return {path.relative_to(run_dir).as_posix(): path.read_bytes() for path in run_dir.rglob("*") if path.is_file()}


@pytest.fixture
def run_dir(published: dict[str, bytes], tmp_path: Path) -> Path:
    for name, content in published.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return tmp_path


def test_groups_say_when_and_how_much(run_dir: Path) -> None:
    groups = rows(run_dir, "groups")
    assert len(groups) >= 2
    for row, (events, of_items) in zip(groups, events_of(run_dir, SOURCE), strict=True):
        assert len(events) > row["n_edges"]
        assert stated(row) == counted(events, of_items)
    within = {row["busiest_window"] for row in groups}
    assert "7d" in within
    assert within & {"1d", "3d"}
    # The first ring is busier than its items.
    told = [row["explanation"].partition("among them")[2] for row in groups]
    sudden = r"; \d+ % within (1 day|3 days) \(all edges of these items: \d+ %\)"
    assert any(re.fullmatch(sudden, text) for text in told)
    assert "" in told


def test_a_window_excludes_its_end(tmp_path: Path) -> None:
    """Events at two moments a day apart are within three days, but not within one."""
    moments = [NEW_YEAR + DAY * (number % 2) for number in range(len(EDGES))]
    source = EDGES.append_column("t", pa.array(moments)).append_column("w", pa.array([1.0] * len(EDGES)))
    made = run(asked(tmp_path), source).run_dir
    groups = rows(made, "groups")
    assert groups
    for row, given in zip(groups, events_of(made, source), strict=True):
        assert stated(row) == counted(*given)
    assert {row["busiest_window"] for row in groups} == {"3d"}
    verify_run(made, ingest(reading_of(asked(made)), source))


def test_the_time_line_counts_every_event(run_dir: Path) -> None:
    lines = rows(run_dir, "group_times")
    for row, (events, _) in zip(rows(run_dir, "groups"), events_of(run_dir, SOURCE), strict=True):
        line = [part for part in lines if part["group_key"] == row["group_key"]]
        (width,) = {part["seconds"] for part in line}
        expected: dict[float, int] = {}
        for _, _, time in events:
            assert time is not None
            expected[time // width * width] = expected.get(time // width * width, 0) + 1
        assert {epoch(part["start"]): part["n_events"] for part in line} == expected
        assert epoch(row["last_time"]) // width - epoch(row["first_time"]) // width < 120


def test_they_are_verified_from_the_input(run_dir: Path) -> None:
    report = verify_run(run_dir, ingest(reading_of(asked(run_dir)), SOURCE))
    assert "weights and times of groups" in {check.name for check in report.checks}
    without = verify_run(run_dir)
    assert any(said.startswith("weights and times of groups") for said in without.not_checked)


@pytest.mark.parametrize("seed", range(30))
def test_figures_of_random_events(seed: int) -> None:
    """Groups share edges; rows lack a weight or a time, repeat an edge, and come in any order."""
    chance = np.random.default_rng(seed)
    n_left, n_right, n = 6, 5, 80
    left, right = chance.integers(0, n_left, n).astype(np.int32), chance.integers(0, n_right, n).astype(np.int32)
    weights = np.where(chance.random(n) < 0.2, np.nan, np.round(chance.normal(size=n), 1))
    span = int(chance.choice([3, 3000, 10 * DAY, 2000 * DAY]))
    times = np.where(chance.random(n) < 0.2, NO_TIME, (NEW_YEAR + chance.integers(0, span, n)) * 1_000_000)
    sides = [(np.flatnonzero(chance.random(n_left) < 0.6), np.flatnonzero(chance.random(n_right) < 0.6)) for _ in "abc"]
    there = set(zip(left.tolist(), right.tolist(), strict=True))
    pairs = [[(u, v) for u in one.tolist() for v in other.tolist() if (u, v) in there] for one, other in sides]
    ends = np.array([pair for each in pairs for pair in each], np.int32).reshape(-1, 2)
    none = np.empty(0, np.int64)
    edges = GroupEdges(np.array([len(each) for each in pairs]), ends[:, 0], ends[:, 1], none, none, (none, none))
    order = chance.permutation(n)
    # As with tried keys, several right vertices have the same item.
    items = None if seed % 2 else chance.integers(0, 3, n_right).astype(np.int32)
    found = figures_of(Events(left, right, weights, times), edges, n_right, items)
    assert found == figures_of(Events(*(part[order] for part in (left, right, weights, times))), edges, n_right, items)
    for group, each in zip(found, pairs, strict=True):
        every = [
            ((u, v), None if np.isnan(weight) else weight, None if time == NO_TIME else time // 1_000_000)
            for u, v, weight, time in zip(*(part.tolist() for part in (left, right, weights, times)), strict=True)
        ]
        item_of = range(n_right) if items is None else items.tolist()
        own = {item_of[v] for _, v in each}
        of_items = [time for (_, v), _, time in every if item_of[v] in own]
        events = [event for event in every if event[0] in each]
        expected = counted(events, of_items)
        for name in ("first_time", "last_time", "busiest_start"):
            expected[name] = None if expected[name] is None else expected[name] * 1_000_000
        assert {name: getattr(group, name) for name in COLUMNS} == expected
        assert sum(group.counts) == sum(time is not None for _, _, time in events)
    assert figures_of(None, edges, n_right) == [NOTHING] * 3
    assert within_words(NOTHING) is None
    # Nothing is said below half of the events, or if it is true of all events of the items; shares below 1 are
    # never rounded to all.
    said = [
        explanation(2, 2, 4, 0.2, 1.0, (share, of_items, "7 days")).partition("among them")[2]
        for share, of_items in ((0.15, 0.1), (0.499, 0.1), (0.5, 0.04), (0.9967, 0.8), (1.0, 0.9999), (1.0, 1.0))
    ]
    assert said == [
        *("", "", "; 50 % within 7 days (all edges of these items: 4.0 %)"),
        "; 99.7 % within 7 days (all edges of these items: 80 %)",
        *("; 100 % within 7 days (all edges of these items: over 99.9 %)", ""),
    ]
    assert "; 99.7 % of the left members' edges are" in explanation(2, 2, 4, 0.2, 0.9967)


MOMENTS = pc.cast(pc.multiply(SOURCE["t"], 1_000_000), pa.timestamp("us"))
TIMES = {
    "moments": MOMENTS,
    "with a zone": MOMENTS.cast(pa.timestamp("us", "Asia/Tokyo")),
    "milliseconds": MOMENTS.cast(pa.timestamp("ms")),
    "nanoseconds": MOMENTS.cast(pa.timestamp("ns")),
    "text": pc.strftime(MOMENTS.cast(pa.timestamp("s")), "%Y-%m-%dT%H:%M:%SZ"),
    "text of numbers": SOURCE["t"].cast(pa.string()),
    "floats": SOURCE["t"].cast(pa.float64()),
    "32 bits": SOURCE["t"].cast(pa.int32()),
    "64 bits without a sign": SOURCE["t"].cast(pa.uint64()),
}


@pytest.mark.parametrize("kind", TIMES)
def test_times_of_every_kind_are_the_same(tmp_path: Path, published: dict[str, bytes], kind: str) -> None:
    source = SOURCE.set_column(3, "t", TIMES[kind])
    found = run(asked(tmp_path), source)
    for name in ("groups", "group_times"):
        assert (found.run_dir / f"{name}.parquet").read_bytes() == published[f"{name}.parquet"]
    assert found.manifest.warnings == ()


def test_days_are_moments_too(tmp_path: Path) -> None:
    source = SOURCE.set_column(3, "t", MOMENTS.cast(pa.timestamp("s")).cast(pa.date32(), safe=False))
    for row in rows(run(asked(tmp_path), source).run_dir, "groups"):
        assert row["first_time"] == row["first_time"].replace(hour=0, minute=0, second=0)


@pytest.mark.parametrize("factor", [1000, 1e-5])
def test_numbers_that_are_no_seconds_are_left_out_with_a_warning(tmp_path: Path, factor: float) -> None:
    numbers = pa.array((SOURCE["t"].to_numpy() * factor).astype(np.int64))
    config = asked(tmp_path)
    source = SOURCE.set_column(3, "t", numbers)
    found = run(config, source)
    (warning,) = found.manifest.warnings
    assert "expected seconds since 1970" in warning
    for row in rows(found.run_dir, "groups"):
        assert row["first_time"] is row["busiest_share"] is None
        assert row["weight_total"] is not None
        assert "within" not in row["explanation"]
    assert rows(found.run_dir, "group_times") == []
    verify_run(found.run_dir, ingest(reading_of(config), source))


def test_a_missing_weight_or_time_leaves_the_edge_and_counts_for_nothing(tmp_path: Path) -> None:
    dice = random.Random(5)
    table = SOURCE.to_pylist()
    for row in table:
        row["w"] = None if dice.random() < 0.4 else row["w"]
        row["t"] = None if dice.random() < 0.4 else row["t"]
    source = pa.Table.from_pylist(table, SOURCE.schema)
    # Times that calendars do not have, and an infinite weight.
    never = [{**table[0], "w": float("inf"), "t": time} for time in (300_000_000_000, 253_402_214_400, -62_135_596_800)]
    strange = pa.Table.from_pylist(never, SOURCE.schema)
    given = pa.concat_tables([source, strange])
    given = given.set_column(3, "t", given["t"].cast(pa.timestamp("s")))
    config = asked(tmp_path)
    found = run(config, given)
    assert found.manifest.input.rows_dropped_null == 0
    assert found.manifest.input.n_edges == len({(row["l"], row["r"]) for row in table})
    for row, of_row in zip(rows(found.run_dir, "groups"), events_of(found.run_dir, source), strict=True):
        assert stated(row) == counted(*of_row)
    verify_run(found.run_dir, ingest(reading_of(config), given))


def test_groups_over_all_valid_years(tmp_path: Path) -> None:
    """Times reach from the first valid year to the last, in tables, report and check."""
    table = SOURCE.to_pylist()
    ring = [row for row in table if row["l"].startswith("ring 0") and row["r"] <= -100]
    for i, row in enumerate(ring):
        row["t"] = (-30_610_224_000, 221_845_391_999)[i % 2]
    source = pa.Table.from_pylist(table, SOURCE.schema)
    source = source.set_column(3, "t", source["t"].cast(pa.timestamp("s")))
    config = asked(tmp_path)
    found = run(config, source)
    first = next(row for row in rows(found.run_dir, "groups") if row["first_time"].year == 1000)
    assert first["last_time"].year == 8999
    lines = [part for part in rows(found.run_dir, "group_times") if part["group_key"] == first["group_key"]]
    assert {part["seconds"] for part in lines} == {36_400 * DAY}
    verify_run(found.run_dir, ingest(reading_of(config), source))
    assert (found.run_dir / "report.html").is_file()


def test_a_filter_still_refuses_missing_values(tmp_path: Path) -> None:
    source = SOURCE.set_column(2, "w", pa.array([None, *SOURCE["w"].to_pylist()[1:]]))
    with pytest.raises(InputError, match="no value"):
        run(asked(tmp_path, input={**NAMED, "min_weight": 0.0}), source)


def test_invalid_times_are_refused_only_if_needed(tmp_path: Path) -> None:
    source = SOURCE.set_column(3, "t", pa.array(["yesterday"] * SOURCE.num_rows))
    with pytest.raises(InputError, match=r"'yesterday'; expected a number, or a moment in ISO-8601"):
        run(asked(tmp_path), source)
    assert not (tmp_path / "latest").exists()
    run(asked(tmp_path, groups=None), source)


@pytest.mark.parametrize("named", [{}, {"weight": "w"}, {"timestamp": "t"}])
def test_figures_of_unnamed_columns_are_null(tmp_path: Path, named: dict[str, str]) -> None:
    config = asked(tmp_path, input=named)
    found = run(config, SOURCE)
    (first, *_) = rows(found.run_dir, "groups")
    assert (first["weight_total"] is None, first["weight_median"] is None) == ("weight" not in named,) * 2
    assert all((first[name] is None) == ("timestamp" not in named) for name in COLUMNS[2:])
    assert (found.run_dir / "group_times.parquet").exists() == ("timestamp" in named)
    verify_run(found.run_dir, ingest(reading_of(config), SOURCE))


def test_without_groups_events_are_not_kept(tmp_path: Path) -> None:
    config = asked(tmp_path, groups=None)
    assert ingest(reading_of(config), SOURCE).events is None
    assert run(config, SOURCE).manifest.input.events_fingerprint is None


def test_other_weights_of_the_same_edges_are_a_change(tmp_path: Path) -> None:
    config = asked(tmp_path)
    run(config, SOURCE)
    assert run(config, SOURCE.take(np.random.default_rng(1).permutation(SOURCE.num_rows)), if_changed=True).unchanged
    heavier = SOURCE.set_column(2, "w", pc.add(SOURCE["w"], 1.0))
    assert run(config, heavier, if_changed=True).unchanged is False


def test_no_group_at_all(tmp_path: Path) -> None:
    source = pa.table({"l": ["a", "b"], "r": [1, 2], "w": [1.0, 2.0], "t": [NEW_YEAR, NEW_YEAR]})
    config = asked(tmp_path)
    found = run(config, source)
    assert rows(found.run_dir, "groups") == rows(found.run_dir, "group_times") == []
    verify_run(found.run_dir, ingest(reading_of(config), source))


HOUR = datetime.timedelta(hours=1)
FORGED: list[tuple[str, Any, str, bool]] = [
    ("groups", changed("weight_total", lambda total: total + 1), "weight_total is", True),
    ("groups", changed("weight_median", lambda total: total + 1), "weight_median is", True),
    ("groups", changed("weight_total", lambda _: None), "one of weight_total and weight_median is null", False),
    ("groups", changed("busiest_share", lambda _: None), "one of first_time and busiest_share is null", False),
    ("groups", changed("busiest_share", lambda _: 1.5), "busiest_share is not between", False),
    ("groups", changed("busiest_share", lambda share: share / 2), "busiest_share is", True),
    ("groups", changed("busiest_item_share", lambda _: None), "and busiest_item_share is null", False),
    ("groups", changed("busiest_item_share", lambda _: 0.0), "busiest_item_share is not between", False),
    ("groups", changed("busiest_item_share", lambda share: share / 2), "busiest_item_share is", True),
    ("groups", changed("busiest_window", lambda _: "2d"), "busiest_window is none of", False),
    ("groups", changed("busiest_window", lambda _: "1h"), "busiest_window is '1h'", True),
    ("groups", changed("busiest_start", lambda time: time + HOUR), "busiest_start is", True),
    (
        "groups",
        changed("first_time", lambda time: time - 5000 * HOUR),
        "are not in the first and last interval",
        False,
    ),
    ("groups", changed("last_time", lambda time: time + datetime.timedelta(microseconds=1)), "last_time is", True),
    ("groups", changed("explanation", lambda text: text.replace("edges", "links")), "explanation is", False),
    ("group_times", changed("group_key", lambda key: key + 1), "its group_key is not in groups", False),
    ("group_times", changed("n_events", lambda n: n + 1), "are not those of its events", True),
    ("group_times", changed("n_events", lambda _: 0), "expected at least 1", False),
    ("group_times", lambda table: [table[1], table[0], *table[2:]], "out of order", False),
    ("group_times", lambda table: table[1:], "are not in the first and last interval", False),
]


@pytest.mark.parametrize(("table", "change", "message", "by_input"), FORGED)
def test_forged_tables_are_found(run_dir: Path, table: str, change: Any, message: str, by_input: bool) -> None:
    forge(run_dir, f"{table}.parquet", change)
    edges = ingest(reading_of(asked(run_dir)), SOURCE)
    with pytest.raises(VerificationError, match=rf"(groups|group_times)\.parquet.*({message})"):
        verify_run(run_dir, edges if by_input else None)


def test_rows_that_have_changed_are_found(run_dir: Path) -> None:
    edges = ingest(reading_of(asked(run_dir)), SOURCE)
    edit(run_dir, lambda values: values["input"].update(events_fingerprint="1-0"))
    with pytest.raises(VerificationError, match=r"manifest\.json: input\.events_fingerprint is 1-0"):
        verify_run(run_dir, edges)


def test_column_types(run_dir: Path) -> None:
    moment = pa.timestamp("us")
    schema = pq.read_schema(run_dir / "groups.parquet")
    assert [schema.field(name).type for name in ("first_time", "last_time", "busiest_start")] == [moment] * 3
    assert schema.names[-1] == "explanation"

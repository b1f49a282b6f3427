"""Exact limits, and state shared by threads: each of these tests was seen to fail with a planted mistake.

The mistakes were planted one at a time: a comparison off by one, a missing lock, a number rounded the other way.
"""

from __future__ import annotations

import math
import re
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from mbe_stage.groups.members import GroupMembers
from mbe_stage.pipeline import Config, run
from mbe_stage.pipeline.backends.arrow import block_writer
from mbe_stage.pipeline.backends.arrow.block_writer import BlockWriter
from mbe_stage.pipeline.backends.arrow.parts import PartNames
from mbe_stage.pipeline.backends.arrow.summaries import Summaries
from mbe_stage.pipeline.clean.events import Events
from mbe_stage.pipeline.clean.facts import written_integer
from mbe_stage.pipeline.config.model import InputConfig
from mbe_stage.pipeline.config.strict_yaml import parse_yaml
from mbe_stage.pipeline.errors import ConfigError, InputError, PublishError
from mbe_stage.pipeline.execution.ingest import ingest
from mbe_stage.pipeline.problems.derived import GuardedCollector
from mbe_stage.pipeline.problems.groups.chosen import edges_of
from mbe_stage.pipeline.problems.groups.times import figures_of, times_table
from mbe_stage.pipeline.publish.reading import check_members
from mbe_stage.pipeline.report.heat_map import Axis, Cell, HeatWords, heat_grid
from mbe_stage.pipeline.report.markdown import _cell
from mbe_stage.pipeline.views import comparison
from tests.patience import PATIENCE
from tests.pipeline.groups_support import EDGES as GROUPS
from tests.pipeline.groups_support import planted, rows
from tests.pipeline.groups_support import settings as groups_settings
from tests.pipeline.output_support import edge_data

SCHEMA = pa.schema([pa.field("n", pa.int64())])


# --- state shared by threads ---------------------------------------------------------------------------------------


class Crowded:
    """A collector that counts the threads inside it, and loses counts if there are two."""

    def __init__(self) -> None:
        self.inside = self.most = self.total = 0

    def _counted(self) -> None:
        self.inside += 1
        self.most = max(self.most, self.inside)
        total = self.total
        time.sleep(0.001)
        self.total = total + 1
        self.inside -= 1

    def accept(self, _block: Any, _keys: Any) -> None:
        self._counted()

    def sums(self) -> dict[str, Any]:
        self._counted()
        return {}

    def restore(self, _sums: Any) -> None:
        self._counted()


@pytest.mark.parametrize("names", [["accept"], ["accept", "sums"], ["accept", "restore"]], ids=" and ".join)
def test_a_derived_output_takes_one_block_at_a_time(tmp_path: Path, names: list[str]) -> None:
    """Several threads call any of its methods."""
    crowded = Crowded()
    guarded = GuardedCollector("crowded", SimpleNamespace(run_path=tmp_path), lambda _: crowded)  # type: ignore[arg-type, return-value]
    calls = {"accept": (None, None), "sums": (), "restore": ({},)}
    start = threading.Barrier(8)

    def call(number: int) -> None:
        name = names[number % len(names)]
        start.wait(PATIENCE)
        for _ in range(10):
            getattr(guarded, name)(*calls[name])

    threads = [threading.Thread(target=call, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (crowded.most, crowded.total) == (1, 80)


@pytest.mark.parametrize("is_sorted", [False, True])
def test_rows_in_order_have_one_encoder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_sorted: bool) -> None:
    """Spills are merged in the order of writing; without an order, several encoders run at once."""
    monkeypatch.setattr(block_writer, "most_encoders", lambda _: 4)
    monkeypatch.setattr(block_writer, "ROW_GROUP_BYTES", 1)
    seen: set[int] = set()

    def rows(block: int) -> pa.RecordBatch:
        seen.add(threading.get_ident())
        time.sleep(0.005)
        return pa.record_batch([pa.array([block])], schema=SCHEMA)

    order: Any = SimpleNamespace(add=lambda _: None, batches=lambda: ()) if is_sorted else None
    writer = BlockWriter(
        tmp_path,
        {"rows": SCHEMA},
        rows,
        lambda batch: [batch],
        compression="none",
        order=order,
        block_bytes=1 << 20,
        memory_budget=1 << 30,
    )
    with writer:
        for block in range(40):
            writer.accept(block, 1 << 20)
    assert (len(seen) == 1) == is_sorted


# --- exact limits --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("number", "is_one"), [(-(2**63) - 1, False), (-(2**63), True), (2**63 - 1, True), (2**63, False)]
)
def test_integers_are_those_of_64_bits(number: int, is_one: bool) -> None:
    assert written_integer(str(number)) == (number if is_one else None)


def shades(numbers: list[int], most: int) -> list[int]:
    axis = Axis(np.arange(len(numbers)), np.arange(len(numbers)), 40)
    cells = [Cell(0, column, number, "") for column, number in enumerate(numbers)]
    drawing = heat_grid(cells, axis, Axis(np.arange(1), np.arange(1), 40), most, HeatWords("", "", "", ""))
    return [int(shade) for shade in re.findall(r'<rect class="h(\d+)"[^>]*><title>', drawing)]


@pytest.mark.parametrize("most", [2, 10, 1000, 10**6])
def test_a_shade_is_the_nearest_one(most: int) -> None:
    """The legend gives shade i the number ``most ** (i / 15)``; a cell takes the nearest shade."""
    numbers = sorted({round(most ** (step / 97)) for step in range(98)})
    for number, shade in zip(numbers, shades(numbers, most), strict=True):
        places = [abs(math.log(number) - math.log(most) * i / 15) for i in range(16)]
        assert places[shade] == pytest.approx(min(places))
    assert shades([1, most], most) == [0, 15]


def pairs(*groups: tuple[str, str]) -> pa.Table:
    edges = [(u, v) for left, right in groups for u in left for v in right]
    return pa.table({"l": [u for u, _ in edges], "r": [v for _, v in edges]})


def publish(out: Path, edges: pa.Table, compare: int = 100) -> Any:
    output = {"directory": str(out), "compare": compare, "report": False}
    made = run(Config.from_mapping({"output": output, "execution": {"engine": "reference"}}), edges)
    return made.manifest.comparison


@pytest.mark.parametrize("spare", [0, -1])
def test_the_limit_of_compared_bicliques_is_inclusive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spare: int
) -> None:
    """Two and three bicliques: 5 are within a limit of 5, but not of 4."""
    monkeypatch.setattr(comparison, "MOST_BICLIQUES", 5 + spare)
    publish(tmp_path, pairs(("ab", "xy"), ("cd", "zw")))
    found = publish(tmp_path, pairs(("ab", "xy"), ("cd", "zw"), ("ef", "vu")))
    assert (found.counts == {"new": 1}) == (spare == 0)
    assert any("too many to compare" in remark for remark in found.remarks) == (spare < 0)


@pytest.mark.parametrize("spare", [0, -1])
def test_the_limit_of_differing_bicliques_is_inclusive(tmp_path: Path, spare: int) -> None:
    """One is gone and another is in its place, so 2 differ."""
    publish(tmp_path, pairs(("abc", "xyz"), ("de", "vw")))
    found = publish(tmp_path, pairs(("abc", "xyz"), ("def", "vw")), compare=2 + spare)
    assert (found.counts == {"grown": 1}) == (spare == 0)
    assert bool(found.remarks) == (spare < 0)


@pytest.mark.parametrize(("seconds", "window"), [(3599, "1h"), (3600, "1d"), (86_399, "1d"), (86_400, "3d")])
def test_a_window_ends_before_its_width(seconds: int, window: str) -> None:
    """Two events that are a full width apart never share a window."""
    edges = pa.table({"l": ["a"], "r": ["x"]})
    graph = edge_data(list(zip(edges["l"].to_pylist(), edges["r"].to_pylist(), strict=True))).graph()
    one = np.zeros(2, np.int32)
    events = Events(one, one, None, np.array([0, seconds * 1_000_000], np.int64))
    (found,) = figures_of(events, edges_of(graph, GroupMembers.of([([0], [0])])), graph.n_right)
    assert (found.busiest_window, found.busiest_share) == (window, 1.0)


@pytest.mark.parametrize(("minutes", "step"), [(119, 60), (120, 180), (3 * 119, 180), (3 * 120, 600)])
def test_a_time_line_has_120_parts_at_most(minutes: int, step: int) -> None:
    edges = edge_data([("a", "x")])
    graph, one = edges.graph(), np.zeros(2, np.int32)
    events = Events(one, one, None, np.array([0, minutes * 60_000_000], np.int64))
    found = figures_of(events, edges_of(graph, GroupMembers.of([([0], [0])])), graph.n_right)
    times = times_table(np.array([7]), found).to_pylist()
    assert [row["seconds"] for row in times] == [step, step]
    assert (times[-1]["start"] - times[0]["start"]).total_seconds() // step < 120


@pytest.mark.parametrize(("seconds", "is_taken"), [(10**11 - 1, True), (10**11, False)])
@pytest.mark.parametrize("setting", [{"time_bucket": "1d"}, {"time_from": "2024-01-01"}])
def test_numbers_are_seconds_below_ten_to_the_eleventh(seconds: int, is_taken: bool, setting: Any) -> None:
    edges = pa.table({"l": ["a", "b"], "r": ["x", "y"], "t": [1_700_000_000, seconds]})
    asked = InputConfig(timestamp="t", **setting)
    if is_taken:
        assert ingest(asked, edges).facts.n_edges == (2 if "time_bucket" in setting else 1)
    else:
        with pytest.raises(InputError, match="not seconds since 1970"):
            ingest(asked, edges)


def yaml_of(values: int) -> str:
    return "a: [" + ", ".join(["1"] * values) + "]\n"


def nested(depth: int) -> str:
    return "a: " + "[" * depth + "]" * depth


@pytest.mark.parametrize(
    ("largest", "refused"),
    [
        ("#" * ((1 << 18) - 5) + "\na: 1", "longer than 262,144 characters"),
        (nested(19), "nested more than 20 deep"),
        (yaml_of(10_000 - 3), "more than 10,000 values"),
    ],
)
def test_the_largest_configuration_is_read(largest: str, refused: str) -> None:
    assert "a" in parse_yaml(largest, "job.yaml")
    more = {"longer": "#" + largest, "nested": nested(20), "more": yaml_of(10_000 - 2)}[refused.split()[0]]
    with pytest.raises(ConfigError, match=refused):
        parse_yaml(more, "job.yaml")


@pytest.mark.parametrize(("vertex", "is_there"), [(2, True), (3, False), (-1, False)])
def test_a_member_is_below_the_number_of_vertices(tmp_path: Path, vertex: int, is_there: bool) -> None:
    rows = pa.record_batch({"left": [[0, vertex]], "n_left": pa.array([2], pa.int32())})
    if is_there:
        check_members(tmp_path, rows, "left", 3)
    else:
        with pytest.raises(PublishError, match="expected ids below 3"):
            check_members(tmp_path, rows, "left", 3)


def test_the_first_group_is_in_the_report_however_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mbe_stage.pipeline.report.groups._MOST_BYTES", 1)
    page = (run(groups_settings(tmp_path), GROUPS).run_dir / "report.html").read_text()
    assert "This page has the first 1 of 2 cases" in page


@pytest.mark.parametrize("most", [1, 7, 1000])
def test_four_shades_part_the_numbers_evenly(most: int) -> None:
    """The scale is one of powers: the k-th shade begins at ``(1 + most) ** (k / 4) - 1``."""
    for n in range(1, most + 1):
        shade = "░▒▓█".index(_cell(n, math.log1p(most))[0])
        assert (1 + most) ** (shade / 4) <= (1 + n) * (1 + 1e-9)
        assert shade == 3 or (1 + n) < (1 + most) ** ((shade + 1) / 4) * (1 + 1e-9)


@pytest.mark.parametrize("spare", [0, -1])
def test_the_limit_of_differing_groups_is_inclusive(tmp_path: Path, spare: int) -> None:
    other = planted(1, ((8, 5), (6, 7)))
    first = run(groups_settings(tmp_path / "a"), GROUPS)
    keys = [{row["group_key"] for row in rows(made.run_dir, "groups")} for made in (first, _made(tmp_path, other))]
    config = groups_settings(tmp_path / "a", output={"compare": len(keys[0] ^ keys[1]) + spare})
    found = run(config, other).manifest.derived_comparison["groups"]
    assert (found.n_same is None) == (spare < 0)


def _made(tmp_path: Path, edges: pa.Table) -> Any:
    return run(groups_settings(tmp_path / "b"), edges)


class Slow(int):
    """A number whose sum and comparison take a moment, so threads interleave unless a lock prevents it."""

    def __add__(self, other: int) -> Slow:
        time.sleep(0.002)
        return Slow(int(self) + other)

    def __sub__(self, other: int) -> Slow:
        return Slow(int(self) - other)

    def __gt__(self, other: int) -> bool:
        found = int(self) > other
        time.sleep(0.002)
        return found


def at_once(action: Any, n: int = 8) -> list[Any]:
    """Run an action in several threads at once; return the results."""
    start, found = threading.Barrier(n), []

    def act() -> None:
        start.wait(PATIENCE)
        found.append(action())

    threads = [threading.Thread(target=act) for _ in range(n)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


def test_no_two_writers_get_the_same_part(tmp_path: Path) -> None:
    names = PartNames(tmp_path / "rows")
    names.n_taken = Slow(0)
    assert sorted(path.name for path in at_once(names.take)) == [f"part-{n:05}.parquet" for n in range(8)]


def test_threads_make_no_more_sums_than_memory_allows() -> None:
    made: list[Any] = []

    def make() -> Any:
        made.append(SimpleNamespace(n_bytes=1, add=lambda _block, _keys: time.sleep(0.005), merge=lambda _: None))
        return made[-1]

    summaries: Summaries[Any] = Summaries(make, most_bytes=2)
    summaries._n_more = Slow(0)
    at_once(lambda: summaries.add(None, np.zeros(1)))
    assert len(made) == 3

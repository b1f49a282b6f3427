"""What the report shows of groups."""

from __future__ import annotations

import base64
import hashlib
import html as html_text
import json
import re
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from mbe_stage.pipeline import run
from mbe_stage.pipeline.report import groups
from mbe_stage.pipeline.report.groups import pattern, time_line
from tests.patience import completed
from tests.pipeline.groups_support import EDGES, planted, rows, settings
from tests.pipeline.test_groups_known import write
from tests.pipeline.test_groups_times import NAMED, SOURCE
from tests.pipeline.test_report import HOSTILE, _Page, _plain


def test_groups_come_first(tmp_path: Path) -> None:
    run_dir = run(settings(tmp_path), EDGES).run_dir
    html = (run_dir / "report.html").read_text(encoding="utf-8")
    sections = [attributes["id"] for tag, attributes in _Page(html).tags if tag == "section"]
    assert sections[0] == "groups"
    assert {"graph", "bicliques", "largest", "vertices"} < set(sections)
    assert html.count("<h2>Groups</h2>") == 1
    said = _plain(html)
    listed = rows(run_dir, "groups")
    assert f"This page lists all {len(listed)} groups." in said
    for row in listed:
        assert f"{row['n_left']} × {row['n_right']}surprise {row['surprise']:,.1f}" in said
        assert f"{row['explanation']}." in said
    assert "near cop" in said
    # Members are shown by the users' own keys, and each group has its picture.
    assert "<bdi>ring 0 &lt;0&gt;</bdi>" in html
    assert html.count('<figure class="pattern">') == len(listed)


def test_without_groups_there_is_no_word_of_them(tmp_path: Path) -> None:
    html = (run(settings(tmp_path, groups=None), EDGES).run_dir / "report.html").read_text(encoding="utf-8")
    assert '<section id="groups">' not in html
    assert "surprise" not in html


def test_long_lists_are_cut_and_say_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pairs = [(f"{block}{u:03}", f"{block}{v}") for block in "abc" for u in range(320) for v in range(4)]
    source = pa.table({"l": [u for u, _ in pairs], "r": [v for _, v in pairs]})
    # The length of other lists does not matter.
    config = settings(tmp_path, output={"directory": str(tmp_path), "top": 2})
    whole = (run(config, source).run_dir / "report.html").read_text(encoding="utf-8")
    assert "This page lists all 3 groups." in _plain(whole)
    largest = max(len(item) for item in whole.split("<li data-rank=")[1:3])
    monkeypatch.setattr(groups, "_MOST_BYTES", int(2.5 * largest))
    run_dir = run(config, source).run_dir
    html = (run_dir / "report.html").read_text(encoding="utf-8")
    said = _plain(html)
    assert "This page lists and searches the first 2 of 3 groups." in said
    assert "and 20 more in the table group_members" in said
    assert "The first 24 of 320 rows." in said
    assert html.count('<figure class="pattern">') == 2


def test_hostile_keys_are_shown_as_text(tmp_path: Path) -> None:
    pairs = [(text, f"<i>{v}</i>") for text in HOSTILE for v in range(6)] + [(f"u{i}", f"v{i}") for i in range(400)]
    source = pa.table({"l": [u for u, _ in pairs], "r": [v for _, v in pairs]})
    run_dir = run(settings(tmp_path), source).run_dir
    assert len(rows(run_dir, "groups")) == 1
    html = (run_dir / "report.html").read_text(encoding="utf-8")
    page = _Page(html)
    assert not {tag for tag, _ in page.tags} & {"img", "i"}
    assert [tag for tag, _ in page.tags].count("script") == html.count("</script>") == 1
    assert "<i>0</i>" in page.text
    assert not any(name in attributes for _, attributes in page.tags for name in ("src", "href", "onerror"))


@pytest.mark.parametrize(("n_left", "n_right"), [(1, 1), (3, 1), (1, 5), (24, 72), (25, 73)])
def test_the_picture_has_a_bar_for_each_member_shown(n_left: int, n_right: int) -> None:
    drawn = pattern([0.5] * n_left, [1.0] * n_right)
    tags = _Page(drawn).tags
    bars = [attributes for tag, attributes in tags if tag == "rect" and attributes["class"] != "present"]
    assert len(bars) == min(n_left, 24) + min(n_right, 72)
    assert ("figcaption" in [tag for tag, _ in tags]) == (n_left > 24)
    assert f"{n_left} left and {n_right} right members" in drawn


def test_the_page_runs_no_script_but_its_own(tmp_path: Path) -> None:
    html = (run(settings(tmp_path), EDGES).run_dir / "report.html").read_text(encoding="utf-8")
    (script,) = re.findall(r"<script>(.*?)</script>", html, re.DOTALL)
    (policy,) = (tag.get("content") for _, tag in _Page(html).tags if tag.get("http-equiv"))
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert policy is not None
    assert policy.startswith("default-src 'none'; ")
    assert f"script-src 'sha256-{digest}';" in policy
    # It makes no markup of what it reads, and asks nobody for anything.
    assert not re.search(
        r"innerHTML|outerHTML|insertAdjacent|document\.write|eval|Function|fetch|XMLHttp|import", script
    )
    html = (run(settings(tmp_path, groups=None), EDGES).run_dir / "report.html").read_text(encoding="utf-8")
    assert "<script>" not in html
    assert "script-src 'none';" in html


def test_groups_can_be_sorted_by_what_is_known_of_them(tmp_path: Path) -> None:
    plain = (run(settings(tmp_path), EDGES).run_dir / "report.html").read_text(encoding="utf-8")
    timed_run = run(settings(tmp_path, input=NAMED), SOURCE).run_dir
    timed = (timed_run / "report.html").read_text(encoding="utf-8")
    orders = {
        name: re.findall(r'<option value="(\w+) (?:up|down)">', html)
        for name, html in (("plain", plain), ("timed", timed))
    }
    assert orders["plain"] == ["rank", "surprise", "edges", "left", "right"]
    assert orders["timed"] == [*orders["plain"], "sudden", "last", "first", "weight", "weight"]
    for html, known in ((plain, orders["plain"]), (timed, orders["timed"])):
        items = [attributes for tag, attributes in _Page(html).tags if tag == "li" and "data-rank" in attributes]
        assert [item["data-rank"] for item in items] == [str(rank + 1) for rank in range(len(items))]
        assert all({name.removeprefix("data-") for name in item} == set(known) for item in items)
        # Without the script there is no control that would do nothing.
        (bar,) = (attributes for _, attributes in _Page(html).tags if attributes.get("id") == "find-groups")
        assert "hidden" in bar
    for row, item in zip(rows(timed_run, "groups"), items, strict=True):
        assert float(item["data-first"] or "") == row["first_time"].replace(tzinfo=UTC).timestamp()
        width = ["1h", "1d", "3d", "7d"].index(row["busiest_window"])
        assert float(item["data-sudden"] or "") == row["busiest_share"] - width


def test_a_time_line_shows_each_part_and_marks_the_busiest_window(tmp_path: Path) -> None:
    run_dir = run(settings(tmp_path, input=NAMED), SOURCE).run_dir
    html = (run_dir / "report.html").read_text(encoding="utf-8")
    listed, parts = rows(run_dir, "groups"), rows(run_dir, "group_times")
    tags = [(tag, attributes.get("class")) for tag, attributes in _Page(html).tags]
    assert tags.count(("figure", "times")) == tags.count(("rect", "busiest")) == len(listed)
    assert tags.count(("rect", "event")) == len(parts)
    said = _plain(html)
    for row in listed:
        n_events = sum(part["n_events"] for part in parts if part["group_key"] == row["group_key"])
        assert f"{n_events} events; marked: " in said
        assert f"from {row['busiest_start']:%Y-%m-%d %H:%M} UTC on" in said
        assert f"weight {row['weight_total']:,.6g}, median {row['weight_median']:,.6g}" in said


START = datetime(2024, 1, 1, 12)


def group_of(first: datetime, last: datetime, busiest: datetime, window: str = "1d") -> dict[str, Any]:
    return {
        "first_time": first,
        "last_time": last,
        "busiest_start": busiest,
        "busiest_window": window,
        "busiest_share": 0.5,
    }


def test_a_time_line_is_to_scale() -> None:
    parts = [
        {"start": START + timedelta(hours=12 * i), "seconds": 43_200, "n_events": n}
        for i, n in ((0, 1), (1, 4), (7, 2))
    ]
    drawn = time_line(group_of(START, parts[-1]["start"], START + timedelta(days=1)), parts)
    rects = [attributes for tag, attributes in _Page(drawn).tags if tag == "rect"]
    events = [(float(each["x"] or ""), float(each["height"] or "")) for each in rects if each["class"] == "event"]
    assert events == [(0.0, 16.0), (57.5, 64.0), (402.5, 32.0)]
    (busiest,) = (each for each in rects if each["class"] == "busiest")
    assert (busiest["x"], busiest["width"]) == ("115.0", "115.0")


def test_all_at_one_moment_is_a_time_line_too() -> None:
    parts = [{"start": START, "seconds": 60, "n_events": 3}]
    drawn = time_line(group_of(START, START, START, "1h"), parts)
    for attributes in (attributes for tag, attributes in _Page(drawn).tags if tag == "rect"):
        assert 0 <= float(attributes["x"] or "") <= 460
        assert 0 < float(attributes["width"] or "") <= 460
    assert time_line(dict.fromkeys(group_of(START, START, START)), []) == ""


def test_keys_of_several_columns_are_shown_part_by_part(tmp_path: Path) -> None:
    pairs = [(f"u{i}", f"<v{k}>", "five / 5") for i in range(6) for k in range(5)]
    pairs += [(f"w{i}", f"x{i}", "1") for i in range(200)]
    names = ("account", "item", "rating")
    source = pa.table({name: [row[i] for row in pairs] for i, name in enumerate(names)})
    run_dir = run(settings(tmp_path, input={"left": "account", "right": ["item", "rating"]}), source).run_dir
    html = (run_dir / "report.html").read_text(encoding="utf-8")
    assert "<bdi>&lt;v0&gt;</bdi> · <bdi>five / 5</bdi>" in html
    assert "right (item, rating)" in _plain(html)
    (group,) = rows(run_dir, "groups")
    assert group["n_right"] == 5


def test_a_list_whose_groups_are_all_known_good_is_not_called_empty(tmp_path: Path) -> None:
    everybody = sorted(set(EDGES["l"].to_pylist()))
    allow = write(tmp_path / "good.parquet", [("left", key, None) for key in everybody])
    run_dir = run(settings(tmp_path / "out", groups={"allow": allow}), EDGES).run_dir
    html = (run_dir / "report.html").read_text(encoding="utf-8")
    assert rows(run_dir, "groups")
    assert "No group is left." in _plain(html)
    assert "No group is significant" not in html
    assert "<script>" not in html


def test_groups_can_be_sorted_by_known_cases_and_by_what_is_new(tmp_path: Path) -> None:
    known = [("left", f"ring 0 <{u}>", "fraud") for u in range(3)] + [("left", "u01", "good")]
    section = {"labels": write(tmp_path / "labels.parquet", known)}
    run(settings(tmp_path / "out", groups=section), EDGES)
    again = run(settings(tmp_path / "out", groups=section), pa.concat_tables([EDGES, planted(2)]))
    page = _Page((again.run_dir / "report.html").read_text(encoding="utf-8"))
    items = [attributes for tag, attributes in page.tags if tag == "li" and "data-rank" in attributes]
    statuses = ["new", "grown", "changed", "shrunk", "same"]
    for row, item in zip(rows(again.run_dir, "groups"), items, strict=True):
        assert item["data-known"] == str(row["n_known"])
        assert item["data-since"] == str(statuses.index(row["since"]))
    orders = [attributes["value"] for tag, attributes in page.tags if tag == "option"]
    assert {"known down", "since up"} < set(orders)


def test_groups_are_counted_at_the_top(tmp_path: Path) -> None:
    run_dir = run(settings(tmp_path), EDGES).run_dir
    said = _plain((run_dir / "report.html").read_text(encoding="utf-8"))
    n_left = len({row["vertex"] for row in rows(run_dir, "group_members") if row["side"] == "left"})
    assert f"groups{len(rows(run_dir, 'groups'))}left vertices in groups{n_left}" in said.split("Groups with more")[0]


CHROMIUM = shutil.which("chromium")


@pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed")
@pytest.mark.parametrize(
    ("order", "figure", "descends"),
    [("rank up", "rank", False), ("edges down", "edges", True), ("weight up", "weight", False)],
)
def test_a_browser_finds_and_sorts(tmp_path: Path, order: str, figure: str, descends: bool) -> None:
    source = pa.concat_tables([SOURCE, SOURCE.set_column(0, "l", pc.binary_join_element_wise(SOURCE["l"], "x", "-"))])
    run_dir = run(settings(tmp_path / "out", input=NAMED), source).run_dir
    text = (run_dir / "report.html").read_text(encoding="utf-8")
    asked = f"""<script>
      const by = document.getElementById("order-groups"), text = document.getElementById("wanted-groups");
      by.value = "{order}"; by.dispatchEvent(new Event("change"));
      const ranks = () => [...document.querySelectorAll("#groups ol.groups > li")].map((item) => item.dataset.{figure});
      const every = ranks();
      text.value = "RING 0 <1>-X"; text.dispatchEvent(new Event("input"));
      document.title = JSON.stringify([every, ranks()]);
      </script></body>"""
    page = tmp_path / "page.html"
    # Its policy would not let this script run.
    page.write_text(re.sub(r"<meta http-equiv[^>]*>", "", text).replace("</body>", asked), encoding="utf-8")
    switches = ["--headless=new", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path / 'profile'}"]
    dumped = completed([CHROMIUM, *switches, "--dump-dom", page.as_uri()], check=True).stdout
    # The first is the page's own, before those of pictures.
    title = re.findall("<title>(.*?)</title>", dumped)[0]
    every, found = json.loads(html_text.unescape(title))
    listed = rows(run_dir, "groups")
    assert len(every) == len(listed) > 2
    assert [float(value) for value in every] == sorted((float(value) for value in every), reverse=descends)
    holds = {row["group_key"] for row in rows(run_dir, "group_members") if row["key"] == "ring 0 <1>-x"}
    assert len(found) == len(holds) < len(listed)

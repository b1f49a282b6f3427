"""Groups in the report."""

from __future__ import annotations

import base64
import hashlib
import re
import shutil
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from mbe_stage.pipeline import run
from mbe_stage.pipeline.cases.published import Case, cases_of
from mbe_stage.pipeline.publish.manifest import read_manifest
from mbe_stage.pipeline.report import groups, write_report
from mbe_stage.pipeline.report.group_pictures import pattern, time_line
from mbe_stage.pipeline.report.wording import key
from mbe_stage.pipeline.wording import amount_text
from tests.browser import opened, violations
from tests.pipeline.groups_support import EDGES, rows, settings
from tests.pipeline.test_groups_known import write
from tests.pipeline.test_groups_times import NAMED, SOURCE
from tests.pipeline.test_report import HOSTILE, _Page, _plain

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page


def html_of(run_dir: Path) -> str:
    return (run_dir / "report.html").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run whose columns have no names of their own."""
    return run(settings(tmp_path_factory.mktemp("plain")), EDGES).run_dir


@pytest.fixture(scope="module")
def timed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with weights, times and named columns."""
    source = SOURCE.rename_columns(
        ["account" if name == "l" else "page" if name == "r" else name for name in SOURCE.column_names]
    )
    asked = {**NAMED, "left": "account", "right": "page"}
    return run(settings(tmp_path_factory.mktemp("timed"), input=asked), source).run_dir


def test_the_finding_comes_first_and_statistics_last(plain: Path) -> None:
    html = html_of(plain)
    sections = [
        attributes["id"] for tag, attributes in _Page(html).tags if tag == "section" and "class" not in attributes
    ]
    assert sections[:5] == ["cases", "case-by-case", "accounts", "definitions", "statistics"]
    assert {"graph", "bicliques", "largest", "vertices"} < set(sections[5:])
    members = {row["vertex"] for row in rows(plain, "group_members") if row["side"] == "left"}
    cases, n_all = {row["case"] for row in rows(plain, "groups")}, len(set(EDGES["l"].to_pylist()))
    finding = f"<h1>{len(members)} of {n_all} l values act together in {len(cases)} cases.</h1>"
    # No figure precedes it.
    assert finding in html
    assert "tiles" not in html[html.index("</style>") : html.index('id="statistics"')]
    said = _plain(html)
    assert f"groups{len(rows(plain, 'groups'))}l values in groups{len(members)}" in said
    # Members are shown by the user's keys, and each group has a picture.
    assert "ring 0 &lt;0&gt;" in html
    assert html.count('<figure class="pattern">') == len(rows(plain, "groups"))


def test_every_case_group_and_account_has_an_anchor_and_a_heading(timed: Path) -> None:
    html = write_report(timed, read_manifest(timed)).read_text(encoding="utf-8")
    # The same tables make the same page.
    assert write_report(timed, read_manifest(timed)).read_text(encoding="utf-8") == html
    page = _Page(html)
    ids = [attributes["id"] for _, attributes in page.tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    assert {str(attributes["href"])[1:] for tag, attributes in page.tags if tag == "a"} <= set(ids)
    lefts = {row["vertex"] for row in rows(timed, "group_members") if row["side"] == "left"}
    groups = rows(timed, "groups")
    assert {f"case-{row['case']}" for row in groups} | {f"group-{row['group_key']}" for row in groups} < set(ids)
    assert {f"a{vertex}" for vertex in lefts} < set(ids)
    scores = {(row["side"], row["vertex"]): row for row in rows(timed, "vertex_scores")}
    for vertex in lefts:
        row = scores["left", vertex]
        shown = f'<li id="a{vertex}"><b>{row["score"]:.3f}</b><h3>{key(row["key"])}</h3>'
        assert shown in html
    for row in groups:
        assert f"<h4>Group {row['rank']}: {row['n_left']} × {row['n_right']}</h4>" in html
        shown = row["explanation"].replace(f"{row['n_left']} left x {row['n_right']} right members", "{}")
        shown = shown.replace("the left members'", "the accounts'").replace("these items", "these pages")
        sizes = f"{row['n_left']} accounts × {row['n_right']} pages"
        assert f"{shown.format(sizes)}." in _plain(html)
    # Sides are named after their columns.
    first = html[html.index("<body>") : html.index('id="statistics"')]
    assert not re.search(r">[^<]*\b(left|right) (vert|memb|side)", first)


def test_a_report_without_groups_does_not_mention_them(tmp_path: Path) -> None:
    html = (run(settings(tmp_path, groups=None), EDGES).run_dir / "report.html").read_text(encoding="utf-8")
    assert '<section id="groups">' not in html
    assert "surprise" not in html


def test_long_lists_are_cut_and_say_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pairs = [(f"{block}{u:03}", f"{block}{v}") for block in "abc" for u in range(320) for v in range(4)]
    source = pa.table({"l": [u for u, _ in pairs], "r": [v for _, v in pairs]})
    run_dir = run(settings(tmp_path), source).run_dir
    whole, manifest = html_of(run_dir), read_manifest(run_dir)
    said = _plain(whole)
    assert "A list has the 200 members with the best scores." in said
    assert "and 120 more in the table group_members" in said
    assert "The first 24 of 320 rows." in said
    # All have an anchor in the list of accounts.
    assert len(re.findall(r'<li id="a\d+">', whole)) == 960
    body = sum(len(part) for part in re.findall(r'<section class="case".*?</section>|<li id="a.*?</li>', whole))
    monkeypatch.setattr(groups, "_MOST_BYTES", int(0.9 * body))
    shorter = write_report(run_dir, manifest, 2).read_text(encoding="utf-8")
    (most,) = map(int, re.findall("A list has the ([0-9]+) members", shorter))
    assert 6 < most < 200
    assert shorter.count('<figure class="pattern">') == 3
    monkeypatch.setattr(groups, "_MOST_BYTES", 1)
    shortest = write_report(run_dir, manifest, 2).read_text(encoding="utf-8")
    assert "This page has the first 1 of 3 cases." in _plain(shortest)
    assert shortest.count('<figure class="pattern">') == 1
    assert "case 2" not in shortest


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
    assert not any(name in attributes for _, attributes in page.tags for name in ("src", "onerror"))
    assert all(re.fullmatch("#[a-z0-9-]+", tag["href"] or "") for _, tag in page.tags if "href" in tag)


@pytest.mark.parametrize(("n_left", "n_right"), [(1, 1), (3, 1), (1, 5), (24, 72), (25, 73)])
def test_the_picture_has_a_bar_for_each_member_shown(n_left: int, n_right: int) -> None:
    drawn = pattern([0.5] * n_left, [1.0] * n_right)
    tags = _Page(drawn).tags
    left, right = (
        str(attributes["d"]) for tag, attributes in tags if attributes.get("class") in ("bars left", "bars right")
    )
    broad = 8 * min(n_right, 72)
    # Half and full bars.
    assert left == f"M{broad + 4} 40H{broad + 22}v{8 * min(n_left, 24)}H{broad + 4}z"
    assert right == f"M0 36V0h{broad}V36z"
    assert ("figcaption" in [tag for tag, _ in tags]) == (n_left > 24)
    assert f"{n_left} left × {n_right} right" in drawn


def test_the_page_runs_no_script_but_its_own(tmp_path: Path, plain: Path) -> None:
    html = html_of(plain)
    (script,) = re.findall(r"<script>(.*?)</script>", html, re.DOTALL)
    (policy,) = (tag.get("content") for _, tag in _Page(html).tags if tag.get("http-equiv"))
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert policy is not None
    assert policy.startswith("default-src 'none'; ")
    assert f"script-src 'sha256-{digest}';" in policy
    # It writes no markup from what it reads, and requests nothing.
    assert not re.search(
        r"innerHTML|outerHTML|insertAdjacent|document\.write|eval|Function|fetch|XMLHttp|import", script
    )
    html = (run(settings(tmp_path, groups=None), EDGES).run_dir / "report.html").read_text(encoding="utf-8")
    assert "<script>" not in html
    assert "script-src 'none';" in html


def test_a_time_line_shows_each_part_and_marks_the_busiest_window(timed: Path) -> None:
    html = html_of(timed)
    listed, parts = rows(timed, "groups"), rows(timed, "group_times")
    tags = [(tag, attributes.get("class")) for tag, attributes in _Page(html).tags]
    assert tags.count(("figure", "times")) == tags.count(("path", "busiest")) == len(listed)
    bars = [str(attributes["d"]) for tag, attributes in _Page(html).tags if attributes.get("class") == "events"]
    widths = [int(n) for path in bars for y, n in re.findall("V([0-9]+)h([0-9]+)", path) if y != "64"]
    assert sum(widths) == len(parts)
    said = _plain(html)
    for row in listed:
        n_events = sum(part["n_events"] for part in parts if part["group_key"] == row["group_key"])
        assert f"{n_events} events; marked: " in said
        assert f"from {row['busiest_start']:%Y-%m-%d %H:%M} UTC on" in said
        assert f"w {amount_text(row['weight_total'])}, median {amount_text(row['weight_median'])}" in said


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
    paths = {str(attributes["class"]): attributes for tag, attributes in _Page(drawn).tags if tag == "path"}
    # Eight parts of half a day: bars of 16, 64 and 32 pixels, and nothing between the last two.
    assert paths["events"]["d"] == "M0 64V48h1V0h1V64h5V32h1V64z"
    assert paths["events"]["transform"] == "scale(57.5 1)"
    assert str(paths["busiest"]["d"]).startswith("M115.0 0h115.0v64")


def test_all_at_one_moment_is_a_time_line_too() -> None:
    parts = [{"start": START, "seconds": 60, "n_events": 3}]
    drawn = time_line(group_of(START, START, START, "1h"), parts)
    (busiest,) = re.findall('class="busiest" d="M([0-9.]+) 0h([0-9.]+)v', drawn)
    assert 0 <= float(busiest[0]) < float(busiest[0]) + float(busiest[1]) <= 460
    assert time_line(dict.fromkeys(group_of(START, START, START)), []) == ""


def test_keys_of_several_columns_are_shown_part_by_part(tmp_path: Path) -> None:
    pairs = [(f"u{i}", f"<v{k}>", "five / 5") for i in range(6) for k in range(5)]
    pairs += [(f"w{i}", f"x{i}", "1") for i in range(200)]
    names = ("account", "item", "rating")
    source = pa.table({name: [row[i] for row in pairs] for i, name in enumerate(names)})
    run_dir = run(settings(tmp_path, input={"left": "account", "right": ["item", "rating"]}), source).run_dir
    html = (run_dir / "report.html").read_text(encoding="utf-8")
    assert "<bdi>&lt;v0&gt;</bdi> · <bdi>five / 5</bdi>" in html
    assert "6 accounts × 5 item, rating" in _plain(html)
    (group,) = rows(run_dir, "groups")
    assert group["n_right"] == 5


def test_a_list_whose_groups_are_all_known_good_is_not_called_empty(browser: Browser, tmp_path: Path) -> None:
    everybody = sorted(set(EDGES["l"].to_pylist()))
    allow = write(tmp_path / "good.parquet", [("left", key, None) for key in everybody])
    run_dir = run(settings(tmp_path / "out", groups={"allow": allow}), EDGES).run_dir
    html = (run_dir / "report.html").read_text(encoding="utf-8")
    assert rows(run_dir, "groups")
    assert "No group is left." in _plain(html)
    assert "No group is significant" not in html
    assert "<h1>No case is left.</h1>" in html
    with opened(browser, run_dir / "report.html", viewport={"width": 360, "height": 800}) as page:
        assert violations(page) == []


def page_with_all(folder: Path) -> tuple[Path, pa.Table]:
    """A second run with known cases, weights and times, whose first ring is new."""
    later = SOURCE.set_column(0, "l", pc.binary_join_element_wise(SOURCE["l"], "x", "-"))
    later = later.set_column(1, "r", pc.multiply(later["r"], 1000))
    both = pa.concat_tables([SOURCE, later])
    known = [("left", f"ring 0 <{u}>", "fraud") for u in range(3)] + [("left", "u01", "good")]
    config = settings(folder / "out", "cpu", input=NAMED, groups={"labels": write(folder / "labels.parquet", known)})
    run(config, SOURCE)
    return run(config, both).run_dir, both


@pytest.fixture(scope="module")
def rich(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return page_with_all(tmp_path_factory.mktemp("rich"))[0]


def test_new_and_known_cases_are_marked(rich: Path) -> None:
    page = _Page(html_of(rich))
    cases = cases_of(rich)
    listed = [attributes for tag, attributes in page.tags if tag == "tr" and "data-size" in attributes]
    assert len(listed) == len(cases)
    assert {case.row["since"] for case in cases} == {"new", "same"}
    for case, attributes in zip(cases, listed, strict=True):
        assert attributes["data-since"] == case.row["since"]
        assert attributes["data-known"] == str(case.row["n_known"])
        assert attributes["data-size"] == str(case.row["n_left"])
    n_new = sum(case.row["since"] == "new" for case in cases)
    assert re.search(rf"; {n_new} (is|are) new since \d+ [A-Z][a-z]+\.</h1>", html_of(rich))
    assert "<i>fraud</i>" in html_of(rich).replace("<bdi>", "").replace("</bdi>", "")


def test_a_case_leads_to_cases_with_common_members(tmp_path: Path) -> None:
    """Some accounts are in two rings of different pages."""
    pairs = [(f"{'both' if u < 4 else ring} {u}", f"{ring}{v}") for ring in "ab" for u in range(9) for v in range(6)]
    pairs += [(f"w{i}", f"x{i % 60}") for i in range(300)]
    source = pa.table({"account": [u for u, _ in pairs], "page": [v for _, v in pairs]})
    asked = {"left": "account", "right": "page"}
    run_dir = run(settings(tmp_path, input=asked), source).run_dir
    cases, said = cases_of(run_dir), _plain(html_of(run_dir))
    left = [{row["key"] for row in case.members if row["side"] == "left"} for case in cases]
    assert len(cases) > 1
    for at, mine in enumerate(left):
        shared = {k + 1: len(mine & its) for k, its in enumerate(left) if k != at and mine & its}
        for k, n in shared.items():
            assert f"case {k} ({n} accounts)" in said


def many(of: Path, to: Path, n_groups: int, n_left: int, n_right: int) -> None:
    """Write a run of many groups, each its own case, made of the first group of another run."""
    manifest = read_manifest(of)
    (first,) = (row for row in rows(of, "groups") if row["rank"] == 1)
    schemas = {
        name: pq.read_schema(of / f"{name}.parquet")
        for name in ("groups", "group_members", "group_edges", "group_halo", "group_times", "vertex_scores")
    }
    of_first = {name: [row for row in rows(of, name) if row.get("group_key") == first["group_key"]] for name in schemas}
    member = {row["side"]: row for row in of_first["group_members"]}
    score = {row["side"]: row for row in rows(of, "vertex_scores")}
    made: dict[str, list[dict[str, Any]]] = {name: [] for name in schemas}
    sizes = {"left": n_left, "right": n_right}
    for g in range(n_groups):
        made["groups"].append(
            {
                **first,
                "group_key": g,
                "rank": g + 1,
                "case": f"{g:016x}",
                **{f"n_{side}": n for side, n in sizes.items()},
            }
        )
        for side, n in sizes.items():
            ids = range(g * n, (g + 1) * n)
            made["group_members"] += [
                {**member[side], "group_key": g, "vertex": i, "key": f"{side}-account-{i:07d}"} for i in ids
            ]
            made["vertex_scores"] += [{**score[side], "vertex": i, "key": f"{side}-account-{i:07d}"} for i in ids]
        made["group_edges"] += [
            {
                "group_key": g,
                "left": g * n_left + u,
                "right": g * n_right + v,
                "key_value": member["right"]["key_value"],
            }
            for u in range(n_left)
            for v in range(n_right)
            if (u * n_right + v + g) % 7
        ]
        for name in ("group_halo", "group_times"):
            made[name] += [{**row, "group_key": g} for row in of_first[name]]
    made["vertex_scores"].sort(key=lambda row: (row["side"], row["vertex"]))
    shutil.copytree(of, to)
    for name, schema in schemas.items():
        text = {field.name for field in schema if field.name == "key" and name != "groups"}
        fields = [pa.field(field.name, pa.string()) if field.name in text else field for field in schema]
        pq.write_table(pa.Table.from_pylist(made[name], pa.schema(fields)), to / f"{name}.parquet")
    write_report(to, manifest)


def test_a_thousand_groups_take_at_most_6_mb(timed: Path, tmp_path: Path) -> None:
    many(timed, tmp_path / "many", 1000, 18, 10)
    html = html_of(tmp_path / "many")
    assert len(html.encode()) <= 6_000_000
    assert html.count('<section class="case"') == html.count('<details class="group"') == 1000
    anchors = re.findall(r'<li id="a(\d+)"><(?:b>[0-9.]+</b><h3|h4)>', html)
    assert len(anchors) == len(set(anchors)) == 18_000


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (360, "dark")])
def test_the_page_is_accessible(browser: Browser, rich: Path, width: int, scheme: str) -> None:
    size = {"width": width, "height": 800}
    with opened(browser, rich / "report.html", viewport=size, color_scheme=scheme) as page:
        if width == 360:  # Checking the folded parts once is enough.
            page.evaluate("document.querySelectorAll('details').forEach((fold) => (fold.open = true))")
        assert violations(page) == []
        assert page.evaluate("document.documentElement.scrollWidth") <= width


def rows_shown(page: Page) -> list[str]:
    return page.locator("#case-list tbody tr:visible th code").all_inner_texts()


def sections_shown(page: Page) -> list[str]:
    return [
        (each.get_attribute("id") or "").removeprefix("case-") for each in page.locator("section.case:visible").all()
    ]


def test_filters_and_search_select_cases(browser: Browser, rich: Path) -> None:
    from playwright.sync_api import expect

    cases = cases_of(rich)
    with opened(browser, rich / "report.html") as page:

        def left_by(wanted: Callable[[Case], bool]) -> None:
            ids = [case.id for case in cases if wanted(case)]
            assert rows_shown(page) == sections_shown(page) == ids
            assert 0 < len(ids) < len(cases)
            assert page.inner_text("#found") == f"{len(ids)} of {len(cases)} cases"
            page.click("text=Clear")
            expect(page.locator("#found")).to_have_text("")
            assert len(rows_shown(page)) == len(cases)

        page.select_option("[data-filter=since]", "new")
        left_by(lambda case: case.row["since"] == "new")
        page.check("[data-filter=known]")
        left_by(lambda case: case.row["n_known"] > 0)
        page.fill("[data-filter=size]", "8")
        left_by(lambda case: case.row["n_left"] >= 8)
        page.fill("#wanted", "RING 0 <1>-X")
        left_by(lambda case: any(row["key"] == "ring 0 <1>-x" for row in case.members))
        page.fill("#wanted", "ring 0 <1>-x")
        assert all("ring 0 <1>-x" in text for text in page.locator("li.hit:visible").all_inner_texts())
        # A link to a filtered-out case ends the filter.
        out = next(case for case in cases if not any(row["key"] == "ring 0 <1>-x" for row in case.members))
        page.evaluate("(hash) => (location.hash = hash)", f"case-{out.id}")
        expect(page.locator(f"#case-{out.id}")).to_be_focused()
        assert len(rows_shown(page)) == len(cases)
        # A link to a folded group unfolds it.
        folded = f"group-{cases[-1].groups[-1]['group_key']}"
        page.evaluate("(hash) => (location.hash = hash)", folded)
        expect(page.locator(f"#{folded}")).to_have_attribute("open", "")


def test_cases_are_sorted_by_a_heading(browser: Browser, rich: Path) -> None:
    cases = cases_of(rich)
    columns = {
        "case": "case",
        "groups": "n_groups",
        "w": "largest_weight_total",
        "span": "last_time",
        "known": "n_known",
    }
    with opened(browser, rich / "report.html") as page:
        for heading, name in columns.items():
            head = page.locator("#case-list thead th", has=page.get_by_role("button", name=heading, exact=True))
            for _ in range(2):
                head.locator("button").press("Enter")
                descends = head.get_attribute("aria-sort") == "descending"
                of_id = {case.id: at if name == "case" else case.row[name] for at, case in enumerate(cases)}
                shown = [of_id[id] for id in rows_shown(page)]
                assert shown == sorted(shown, reverse=descends)
                assert sections_shown(page) == rows_shown(page)


def test_keys_lead_from_case_to_case(browser: Browser, rich: Path) -> None:
    ids = [f"case-{case.id}" for case in cases_of(rich)]
    with opened(browser, rich / "report.html") as page:
        at: list[str] = []
        for pressed in ("j", "j", "k"):
            page.keyboard.press(pressed)
            at.append(page.evaluate("document.activeElement.id"))
        assert at == [ids[0], ids[1], ids[0]]
        page.keyboard.press("/")
        page.keyboard.type("jk/")
        assert page.input_value("#wanted") == "jk/"
        page.keyboard.press("Control+A")
        page.keyboard.press("Delete")
        # The keys can be switched off.
        page.uncheck("#use-keys")
        page.keyboard.press("j")
        assert page.evaluate("document.activeElement.id") == "use-keys"


def test_without_its_script_and_on_paper_the_page_is_complete(browser: Browser, rich: Path) -> None:
    n = len(cases_of(rich))
    with opened(browser, rich / "report.html", java_script_enabled=False) as page:
        assert page.locator("#case-list tbody tr:visible").count() == n
        assert not page.locator("#find").is_visible()
    with opened(browser, rich / "report.html") as page:
        page.fill("#wanted", "ring 0 <1>-x")
        page.emulate_media(media="print")
        n_open = page.locator("details[open]").count()
        page.evaluate("dispatchEvent(new Event('beforeprint'))")
        assert not page.locator("#find").is_visible()
        assert page.locator("details.group:visible:not([open])").count() == 0
        assert page.locator("section.case:visible").count() < n
        page.evaluate("dispatchEvent(new Event('afterprint'))")
        assert page.locator("details[open]").count() == n_open

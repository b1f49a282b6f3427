"""What the report shows of groups."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from pipeline import run
from pipeline.report.group_pattern import pattern
from tests.pipeline.groups_support import EDGES, rows, settings
from tests.pipeline.test_report import HOSTILE, _Page, _plain


def test_groups_come_first(tmp_path: Path) -> None:
    run_dir = run(settings(tmp_path), EDGES).run_dir
    html = (run_dir / "report.html").read_text(encoding="utf-8")
    sections = [attributes["id"] for tag, attributes in _Page(html).tags if tag == "section"]
    assert sections[0] == "groups"
    assert {"graph", "bicliques", "largest", "vertices"} < set(sections)
    assert html.count("<h2>Groups</h2>") == 1
    said = _plain(html)
    groups = rows(run_dir, "groups")
    assert f"All of {len(groups)} groups." in said
    for row in groups:
        assert f"{row['n_left']} × {row['n_right']}surprise {row['surprise']:,.1f}" in said
        assert f"{row['explanation']}." in said
    assert "near cop" in said
    # Members are shown by the users' own keys, and each group has its picture.
    assert "<bdi>ring 0 &lt;0&gt;</bdi>" in html
    assert html.count('<figure class="pattern">') == len(groups)


def test_without_groups_there_is_no_word_of_them(tmp_path: Path) -> None:
    html = (run(settings(tmp_path, groups=None), EDGES).run_dir / "report.html").read_text(encoding="utf-8")
    assert '<section id="groups">' not in html
    assert "surprise" not in html


def test_long_lists_are_cut_and_say_so(tmp_path: Path) -> None:
    pairs = [(f"{block}{u:03}", f"{block}{v}") for block in "abc" for u in range(320) for v in range(4)]
    source = pa.table({"l": [u for u, _ in pairs], "r": [v for _, v in pairs]})
    run_dir = run(settings(tmp_path, output={"directory": str(tmp_path), "top": 2}), source).run_dir
    html = (run_dir / "report.html").read_text(encoding="utf-8")
    said = _plain(html)
    assert "The first 2 of 3 groups." in said
    assert "and 20 that only the table group_members lists" in said
    assert "The first 24 of 320 rows." in said
    assert html.count('<figure class="pattern">') == 2


def test_hostile_keys_are_shown_as_text(tmp_path: Path) -> None:
    pairs = [(text, f"<i>{v}</i>") for text in HOSTILE for v in range(6)] + [(f"u{i}", f"v{i}") for i in range(400)]
    source = pa.table({"l": [u for u, _ in pairs], "r": [v for _, v in pairs]})
    run_dir = run(settings(tmp_path), source).run_dir
    assert len(rows(run_dir, "groups")) == 1
    html = (run_dir / "report.html").read_text(encoding="utf-8")
    page = _Page(html)
    assert not {tag for tag, _ in page.tags} & {"script", "img", "i"}
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

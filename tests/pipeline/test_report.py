"""`report.html`: its content, its robustness against hostile keys, and that it needs no other file."""

from __future__ import annotations

import math
import random
import re
from collections.abc import Iterable
from html.parser import HTMLParser
from pathlib import Path

import networkx as nx
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mbe_stage.pipeline import Config, run
from mbe_stage.pipeline.report import tables, write_report
from mbe_stage.pipeline.report.bicliques import ladder
from mbe_stage.pipeline.report.charts import LogAxis, bin_starts, degree_plot
from mbe_stage.pipeline.report.heat_map import heat_map
from mbe_stage.pipeline.report.tables import Sizes, read_side, read_sizes
from mbe_stage.pipeline.report.wording import compact, key, percent
from mbe_stage.pipeline.wording import percent_text, seconds_text

_VOID = {"meta", "br", "wbr", "link", "img", "input", "hr"}
_DRAWN = {"path", "rect", "circle", "text", "title"}


class _Page(HTMLParser):
    """The text of a page and its tags; unbalanced tags are refused."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        assert "svg" not in self.open or tag in _DRAWN, f"a browser ends the drawing at <{tag}>"
        if tag not in _VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.tags and self.tags[-1][0] == "wbr" and self.open and self.text:
            self.text[-1] += data  # continues the key
        else:
            self.text.append(data)


def _report(tmp_path: Path, edges: Iterable[tuple[object, object]], **sections: dict) -> str:
    left, right = zip(*edges, strict=True)
    config = Config.from_mapping(
        {
            **sections,
            "output": {"directory": str(tmp_path)},
            "execution": {"engine": "reference", **sections.get("execution", {})},
        }
    )
    result = run(config, pa.table({"left": left, "right": right}))
    return (result.run_dir / "report.html").read_text(encoding="utf-8")


def _southern_women() -> list[tuple[str, str]]:
    graph = nx.davis_southern_women_graph()
    women = set(graph.graph["top"])
    return [(a, b) if a in women else (b, a) for a, b in graph.edges]


def _crown(n: int) -> list[tuple[int, int]]:
    return [(u, v) for u in range(n) for v in range(n) if u != v]


def _plain(html: str) -> str:
    return " ".join("".join(_Page(html).text).split())


def _counts_in_heat_map(html: str) -> list[int]:
    titles = re.findall(r"<rect class=\"h\d+\"[^>]*><title>[^<]*: ([\d,]+) bicliques?</title>", html)
    return [int(number.replace(",", "")) for number in titles]


def test_southern_women(tmp_path: Path) -> None:
    html = _report(tmp_path, _southern_women())
    page = _Page(html)
    said = _plain(html)
    assert "89 edges between 18 left and 14 right vertices: 35.3 % of all pairs have an edge." in said
    assert "63 maximal bicliques from 89 edges." in said
    assert sum(_counts_in_heat_map(html)) == 63
    assert said.count("5 × 4") >= 2  # in the tile and in the first of the largest
    for name in ("Evelyn Jefferson", "Theresa Anderson", "E8"):
        assert name in page.text
    # Theresa Anderson is in most bicliques, so she heads the table of her side.
    first = re.search(r'<tbody><tr><th scope="row"><bdi>([^<]+)</bdi></th><td>8</td><td>17</td><td>(\d+)</td>', html)
    assert first is not None
    assert first.groups() == ("Theresa Anderson", "33")


def test_needs_nothing_but_itself(tmp_path: Path) -> None:
    html = _report(tmp_path, _southern_women())
    assert not {tag for tag, _ in _Page(html).tags} & {"script", "link", "img", "iframe", "object", "embed"}
    assert not any(name in attributes for _, attributes in _Page(html).tags for name in ("src", "href", "srcset"))
    assert not re.search(r"https?:|@import|url\(|@font-face", html)
    assert "prefers-color-scheme: dark" in html
    assert "@media print" in html


HOSTILE = [
    "<script>alert(1)</script>",
    "</style></svg></table>",
    "\"><img src=x onerror='alert(1)'>",
    "a & b &lt; c",
    "$title ${heading} %s {0}",
    "ключ 漢字 🦜",
    "\u202egnp.exe",
    "line\nbreak\ttab\x1b",
    "[bold]markup[/bold]",
    "  two  spaces ",
]


def test_hostile_keys_are_shown_as_text(tmp_path: Path) -> None:
    html = _report(tmp_path, [(text, other) for text in HOSTILE for other in ("r1", "<i>r2</i>")])
    page = _Page(html)  # raises if a key broke the structure
    assert not {tag for tag, _ in page.tags} & {"script", "img"}
    assert not any(name.startswith("on") for _, attributes in page.tags for name in attributes)
    shown = {code: 0x2400 + code for code in range(0x20)} | {0x202E: "⟨U+202E⟩"}
    for text in [*HOSTILE, "<i>r2</i>"]:
        assert text.translate(shown) in page.text
    assert "\u202e" not in html


def test_very_long_keys_are_cut(tmp_path: Path) -> None:
    long = "k" * 100_000
    html = _report(tmp_path, [(long, "r"), (long + "2", "r"), (long, "s")])
    assert len(html) < 200_000
    assert "kkk…kkk" in html
    assert "k" * 600 not in html


def test_a_star_lists_a_part_of_its_leaves(tmp_path: Path) -> None:
    html = _report(tmp_path, [("hub", f"leaf{i}") for i in range(5000)])
    assert "and 4,700 more in the table bicliques" in _plain(html)
    # Once each as members of the only biclique; the first 20 again as the busiest vertices.
    assert len(re.findall(r"<bdi>leaf\d+</bdi>", html)) == pytest.approx(300 + 20, abs=1)


def test_explains_more_bicliques_than_edges(tmp_path: Path) -> None:
    said = _plain(_report(tmp_path, _crown(8)))
    assert "254 maximal bicliques from 56 edges: 4.5 times as many. This is not an error." in said
    assert "With minimum sizes 4 × 4 (--min-left 4 --min-right 4) 70 are left" in said
    # Every vertex is in 127 of the 254.
    assert "0 (left, degree 7) in 50 %" in said


def test_ladder_counts_what_minimum_sizes_leave(tmp_path: Path) -> None:
    n = 8
    _report(tmp_path, _crown(n))
    rungs = ladder(read_sizes(tmp_path / "latest" / "size_histogram.parquet"))
    ways = [math.comb(n, i) for i in range(n + 1)]
    assert [rung.size for rung in rungs] == [2, 3, 4, 5]
    assert [rung.both for rung in rungs] == [sum(ways[k : n - k + 1]) for k in (2, 3, 4, 5)]
    assert [rung.left for rung in rungs] == [sum(ways[k:n]) for k in (2, 3, 4, 5)]
    assert [rung.right for rung in rungs] == [sum(ways[1 : n - k + 1]) for k in (2, 3, 4, 5)]


def test_truncation_is_prominent(tmp_path: Path) -> None:
    html = _report(tmp_path, _crown(6), execution={"max_bicliques": 10})
    said = _plain(html)
    assert "Incomplete. The enumeration stopped at max_bicliques = 10." in said
    assert "≥ 10" in said
    assert "stop after 10 bicliques" in said
    assert html.index('class="notice"') < html.index('id="graph"')


def test_complete_runs_have_no_banner(tmp_path: Path) -> None:
    html = _report(tmp_path, _crown(4))
    assert "Incomplete" not in html
    assert "Query: every maximal biclique, without filter or limit." in _plain(html)


def test_the_query_is_stated(tmp_path: Path) -> None:
    query = {"min_left": 3, "min_right": 2, "max_right": 3, "min_edges": 7, "containing_left": ["Evelyn Jefferson"]}
    html = _report(tmp_path, _southern_women(), query=query)
    said = _plain(html)
    for condition in (
        "at least 3 left vertices",
        "at least 2 right vertices",
        "at most 3 right vertices",
        "at least 7 edges",
        "containing on the left: Evelyn Jefferson",
    ):
        assert condition in said
    # Minimum sizes of the run itself would leave everything, so they are not offered.
    assert '<th scope="row">2</th>' not in html
    assert '<th scope="row">3</th>' in html


def test_nothing_found(tmp_path: Path) -> None:
    said = _plain(_report(tmp_path, _crown(4), query={"min_left": 4, "min_right": 4}))
    assert "No maximal biclique satisfies the query." in said
    assert "No vertex of this side is in a biclique of the query." in said


def test_stars_do_not_hide_the_broad_ones(tmp_path: Path) -> None:
    stars = [(f"hub{i}", f"leaf{i}-{j}") for i in range(30) for j in range(20)]
    block = [(f"a{i}", f"b{j}") for i in range(3) for j in range(4)]
    html = _report(tmp_path, stars + block)
    broad, any_shape = html.split("At least 3 vertices on both sides")[1].split("Of any shape")
    assert re.findall(r"<b>([^<]+)</b><span>", broad) == ["3 × 4"]
    assert re.findall(r"<b>([^<]+)</b><span>", any_shape) == ["1 × 20"] * 20
    assert "Of these 20, 20 are stars" in _plain(html)


def test_duplicates_and_column_names(tmp_path: Path) -> None:
    path = tmp_path / "who went.csv"
    path.write_text("woman,event\nEve,E1\nEve,E1\nAda,E1\n", encoding="utf-8")
    config = Config.from_mapping(
        {
            "input": {"path": str(path), "left": "woman", "right": "event"},
            "execution": {"engine": "reference"},
            "output": {"directory": str(tmp_path / "out")},
        }
    )
    said = _plain((run(config).run_dir / "report.html").read_text(encoding="utf-8"))
    assert "left (woman)" in said
    assert "right (event)" in said
    assert "duplicates merged1" in said
    assert "who went.csv" in said


def test_writing_again_gives_the_same_page(tmp_path: Path) -> None:
    _report(tmp_path, _southern_women())
    from mbe_stage.pipeline.publish.manifest import read_manifest

    run_dir = (tmp_path / "latest").resolve()
    manifest = read_manifest(run_dir)
    first = write_report(run_dir, manifest, top=5).read_text(encoding="utf-8")
    assert write_report(run_dir, manifest, top=5).read_text(encoding="utf-8") == first
    # Without near copies most of the largest are narrow, so those with three on both sides come first.
    assert first.count('<span class="rank">') == 2 * 5


def test_vertices_are_summarised_batch_by_batch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(5)
    n = 1000
    n_bicliques = random.integers(0, 50, n)
    table = pa.table(
        {
            "key": [f"v{i}" for i in range(n)],
            "degree": random.integers(1, 30, n),
            "two_hop_degree": random.integers(0, 90, n),
            "n_bicliques": n_bicliques,
            "largest_biclique_edges": random.integers(1, 9, n),
        }
    )
    path = tmp_path / "left_vertices.parquet"
    pq.write_table(table, path)
    whole = read_side(path, "left", 7)
    monkeypatch.setattr(tables, "_BATCH_ROWS", 64)
    pieces = read_side(path, "left", 7)
    assert pieces.busiest == whole.busiest
    assert pieces.hub == whole.hub
    assert pieces.degree_counts.tolist() == whole.degree_counts.tolist()
    order = sorted(range(n), key=lambda i: (-n_bicliques[i], i))[:7]
    assert [row.key for row in whole.busiest] == [f"v{i}" for i in order]
    degrees = np.sort(table["degree"].to_numpy())
    assert whole.median_degree == degrees[(n - 1) // 2]
    assert whole.mean_degree == pytest.approx(degrees.mean())
    assert whole.n_members == np.count_nonzero(n_bicliques)


def test_heat_map_bins_hold_every_biclique() -> None:
    random = np.random.default_rng(1)
    sizes = Sizes(random.integers(1, 8000, 5000), random.integers(1, 60, 5000), random.integers(1, 10**9, 5000))
    html = heat_map(sizes)
    _Page(html)
    assert sum(_counts_in_heat_map(html)) == sizes.total
    assert "up to the next" in html
    assert len(html) < 300_000


def test_degree_plot_of_many_degrees_stays_small(tmp_path: Path) -> None:
    n = 20_000
    ones = np.ones(n, np.int64)
    columns = {
        "key": np.arange(n),
        "degree": np.arange(1, n + 1),
        "two_hop_degree": ones,
        "n_bicliques": ones,
        "largest_biclique_edges": ones,
    }
    pq.write_table(pa.table(columns), tmp_path / "side.parquet")
    side = read_side(tmp_path / "side.parquet", "right", 3)
    assert side.degrees.size == n
    html = degree_plot(side)
    assert len(html) < 100_000
    assert "1 vertex of degree 1<" in html


@pytest.mark.parametrize(("low", "high", "most"), [(1, 5, 10), (1, 100, 8), (3, 10**6, 40), (1, 2**31, 28), (7, 7, 1)])
def test_bins_cover_the_range_once(low: int, high: int, most: int) -> None:
    starts = bin_starts(low, high, most).tolist()
    assert starts[0] == low
    assert starts == sorted(set(starts))
    assert starts[-1] <= high
    assert len(starts) <= most


@pytest.mark.parametrize("high", [1, 2, 14, 99, 1000, 123_456, 10**9])
def test_log_axis_holds_its_largest_value(high: int) -> None:
    axis = LogAxis(high, 50, 450)
    assert axis(1) == 50
    assert axis(axis.ticks[-1]) == 450
    assert axis.ticks[-1] >= high
    assert len(axis.ticks) <= 12


def test_wording() -> None:
    assert [compact(n) for n in (7, 999, 1500, 9_990, 54_458_949, 10**6)] == ["7", "999", "1.5k", "9.9k", "54M", "1M"]
    assert [percent(part, 1000).replace("\u00a0", " ") for part in (0, 0.5, 15, 500, 999.5, 1000)] == [
        "0 %",
        "under 0.1 %",
        "1.5 %",
        "50 %",
        "over 99.9 %",
        "100 %",
    ]
    assert [seconds_text(s) for s in (0.0008, 0.041, 3.24, 59.99, 125, 4320)] == [
        "0.8 ms",
        "41 ms",
        "3.24 s",
        "1 min 00 s",
        "2 min 05 s",
        "1 h 12 min",
    ]
    assert key("") == '<bdi class="empty">(empty)</bdi>'
    assert key("  ") == '<bdi class="empty">(blank)</bdi>'
    assert key(2**63 - 1) == "<bdi>9223372036854775807</bdi>"


def test_no_percentage_claims_all_or_nothing() -> None:
    """Every place follows the same rule: 100 only for all, 0 only for none."""
    dice = random.Random(3)
    shares = [1 / 3, 0.9967, 0.995, 0.9995, 0.00001, 1 - 1e-12, 1e-300, *(dice.random() for _ in range(2000))]
    shares += [1 - 10 ** -(12 * dice.random()) for _ in range(2000)] + [
        10 ** -(12 * dice.random()) for _ in range(2000)
    ]
    for share in shares:
        written = [percent_text(share, digits, unit) for digits in (None, 0, 1) for unit in (" %", "%")]
        for text in (*written, percent(share, 1.0)):
            number = float(re.findall(r"[\d.]+", text)[0])
            assert 0 < number < 100
            # It is also close: to the last digit shown, or to the bound.
            assert abs(number - 100 * share) <= 1
    for share, number in ((0, 0.0), (1, 100.0)):
        assert {float(percent_text(share, digits).rstrip(" %")) for digits in (None, 0, 1)} == {number}
    # Counts with more digits than a float has.
    assert percent(1, 10**400) == "under\u00a00.1\u00a0%"
    assert percent(10**400 - 1, 10**400) == "over\u00a099.9\u00a0%"
    assert percent(0, 10**400) == "0\u00a0%"


def test_percentages_are_written_by_one_function() -> None:
    """Other code in pipeline/ and flows/ would round shares in its own way."""
    own = re.compile(r"\{[^{}]*:[^{}]*%\}|\* ?100[^{}]*:[^{}]*\} ?%|100 ?\*[^{}]*:[^{}]*\} ?%")
    allowed = {"pipeline/wording.py", "pipeline/verify/groups.py"}
    allowed |= {"pipeline/report/bicliques.py"}
    root = Path(__file__).parents[2]
    for path in [*(root / "pipeline").rglob("*.py"), *(root / "flows").rglob("*.py")]:
        if (name := path.relative_to(root).as_posix()) not in allowed:
            assert not own.findall(path.read_text(encoding="utf-8")), name


def test_a_density_that_is_nearly_one_is_not_all_pairs(tmp_path: Path) -> None:
    pairs = sorted({(u, v) for u in range(60) for v in range(60)} - {(0, 0)})
    source = pa.table({"l": [u for u, _ in pairs], "r": [v for _, v in pairs]})
    config = Config.from_mapping({"output": {"directory": str(tmp_path)}, "execution": {"engine": "reference"}})
    page = (run(config, source).run_dir / "report.html").read_text(encoding="utf-8")
    assert "over 99.9 % of all pairs have an edge" in page.replace("\u00a0", " ")

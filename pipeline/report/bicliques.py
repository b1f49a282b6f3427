"""Sections of the report on bicliques: the graph, sizes, the largest bicliques, and the busiest vertices."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from markupsafe import Markup

from mbe_stage.pipeline.problems.base import Page, PageSection
from mbe_stage.pipeline.publish.manifest import Manifest
from mbe_stage.pipeline.publish.reading import has_bicliques
from mbe_stage.pipeline.report.charts import degree_plot
from mbe_stage.pipeline.report.heat_map import heat_map
from mbe_stage.pipeline.report.request import conditions, left_key, right_key, side_name
from mbe_stage.pipeline.report.tables import SideSummary, Sizes, read_side, read_sizes
from mbe_stage.pipeline.report.wording import count, fragment, key, percent
from mbe_stage.pipeline.views.near_copies import Distinct, affordable, distinct_of, largest_distinct
from mbe_stage.pipeline.views.top import Conditions
from mbe_stage.pipeline.wording import percent_text, plural

if TYPE_CHECKING:
    from mbe_stage.pipeline.problems.bicliques.largest import Largest

_TEMPLATE = "bicliques.html"
_LEDE = """A maximal biclique is a group of <span class="left-name">left</span> vertices and a group of
    <span class="right-name">right</span> vertices, each of one joined to each of the other, that no further vertex can
    join."""
_FOOTER = """\
<p>The tables lie beside this page; <code>left</code> and <code>right</code> hold rows of the vertex tables.</p>
<pre>SELECT n_left, n_right, "left", "right"
FROM 'bicliques/*.parquet'
WHERE n_left &gt;= 3 AND n_right &gt;= 3
ORDER BY n_edges DESC LIMIT 20;      -- DuckDB, in this directory</pre>"""
_FOOTER_WITHOUT = """\
<p>The tables lie beside this page, but for the bicliques themselves, which <code>output.bicliques: false</code> left
    out; the column <code>vertex</code> holds rows of the vertex tables.</p>"""
_LEFT_OUT = """<p class="quiet">Not known: the bicliques were counted and not written
    (<code>output.bicliques: false</code>).</p>"""
_STEPS = (1, 2, 3, 4, 5, 6, 8, 10, 12, 15, 20, 30, 50, 100, 200, 500, 1000)
_A_HUB = 0.05  # Vertices in this share of all bicliques are named.


def page(run_path: Path, manifest: Manifest, top: int, seen: Largest | None = None) -> Page:
    """Build the page of a run of bicliques; see `pipeline.problems.base.Publication`.

    Parameters
    ----------
    seen : Largest, optional
        Bicliques kept while they streamed past. Without it, or if too many are near copies, the table is read.
    """
    sizes = read_sizes(run_path / "size_histogram.parquet")
    sides = (
        read_side(run_path / "left_vertices.parquet", "left", top),
        read_side(run_path / "right_vertices.parquet", "right", top),
    )
    largest, known = sizes.most_edges(), _Largest(run_path, sizes, top, seen)
    return Page(
        title="Maximal bicliques",
        lede=_LEDE,
        figures=[("largest, left × right", "none" if largest is None else f"{largest[0]:,} × {largest[1]:,}")],
        sections=(
            PageSection("graph", "The graph", _graph(manifest, sides)),
            PageSection("bicliques", "The bicliques", _bicliques(manifest, sizes, sides)),
        ),
        later_sections=(
            PageSection(
                "largest",
                "The largest, by edges",
                _largest(known, (left_key(manifest.config), right_key(manifest.config))),
            ),
            PageSection(
                "vertices", "The vertices in most bicliques", fragment(_TEMPLATE, "vertices", sides, sizes.total)
            ),
        ),
        incomplete="counts are lower bounds, and the largest may be missing",
        footer=_FOOTER if has_bicliques(run_path) else _FOOTER_WITHOUT,
    )


def _graph(manifest: Manifest, sides: tuple[SideSummary, SideSummary]) -> str:
    facts = manifest.input
    density = facts.n_edges / max(facts.n_left * facts.n_right, 1)
    shown = f"{100 * density:.3g} %" if density < 0.999 else percent_text(density)
    shown = shown if density >= 1e-6 else f"{density:.1e}"
    drawn = [(side_name(manifest.config, side.side), Markup(degree_plot(side)), side) for side in sides]
    return fragment(_TEMPLATE, "graph", facts, shown, drawn)


def _bicliques(manifest: Manifest, sizes: Sizes, sides: tuple[SideSummary, SideSummary]) -> str:
    config, total = manifest.config, sizes.total
    text = explanation(sizes, manifest.input.n_edges, sides, manifest.truncated)
    drawing = Markup(heat_map(sizes)) if total else None
    rungs = ladder(sizes, config.query.min_left, config.query.min_right) if total else []
    return fragment(_TEMPLATE, "found", conditions(config), text, drawing, rungs)


@dataclass(frozen=True, slots=True)
class _Largest:
    """Source of the largest bicliques: the kept ones, or else the whole table."""

    run_path: Path
    sizes: Sizes
    top: int
    seen: Largest | None

    def distinct(self, fewest: int) -> Distinct:
        """Return the largest without near copies and with enough vertices on both sides."""
        most = affordable(self.sizes.n_members, self.top)
        if self.seen is not None:
            known, are_all = self.seen.first(fewest)
            # Reading the table would not examine more than `most` either.
            are_all = are_all or len(known) >= most
            if (found := distinct_of(self.run_path, known, self.top, are_all=are_all)) is not None:
                return found
        on_both = Conditions(min_left=fewest, min_right=fewest)
        from mbe_stage.pipeline.stores.part_objects import fetch_missing

        fetch_missing(self.run_path)
        return largest_distinct(self.run_path, self.top, conditions=on_both, most=most)


def _largest(known: _Largest, written: tuple[Callable[[object], str], Callable[[object], str]]) -> str:
    """Return the largest by edges; if most are stars or nearly so, the largest broad ones come first."""
    sizes = known.sizes
    if not sizes.total:
        return '<p class="quiet">None.</p>'
    if not has_bicliques(known.run_path):
        return _LEFT_OUT
    found = known.distinct(1)
    largest = found.bicliques
    fewest = next((size for size in (3, 2) if sizes.at_least(size, size)), 1)
    narrow = sum(min(len(biclique.left), len(biclique.right)) < fewest for biclique in largest)
    if 2 * narrow <= len(largest):
        return fragment(_TEMPLATE, "largest", largest, None, fewest, found.n_copies, 0, written)
    broad = known.distinct(fewest)
    n_stars = sum(min(len(biclique.left), len(biclique.right)) == 1 for biclique in largest)
    n_copies = max(found.n_copies, broad.n_copies)
    return fragment(_TEMPLATE, "largest", largest, broad.bicliques, fewest, n_copies, n_stars, written)


@dataclass(frozen=True, slots=True)
class Rung:
    """Number of bicliques left by a minimum size on both sides, on the left only, and on the right only."""

    size: int
    both: int
    left: int
    right: int


def ladder(sizes: Sizes, min_left: int = 1, min_right: int = 1) -> list[Rung]:
    """Count the bicliques left by each minimum size, from the histogram; the last rung is the first with none.

    Parameters
    ----------
    min_left, min_right : int
        Minimum sizes of the run itself. Smaller ones would need another run, so they have no rung.
    """
    rungs = []
    for size in _STEPS:
        if size <= min(min_left, min_right):
            continue
        both = sizes.at_least(size, size)
        rungs.append(Rung(size, both, sizes.at_least(left=size), sizes.at_least(right=size)))
        if both == 0:
            break
    return rungs


def explanation(sizes: Sizes, n_edges: int, sides: tuple[SideSummary, SideSummary], truncated: str | None) -> list[str]:
    """Return HTML paragraphs on the number of bicliques; long only if the number is surprising."""
    total = sizes.total
    if total == 0:
        return [
            "No maximal biclique satisfies the query. A graph with an edge always has some:  "
            "lower the minimum sizes, raise the maximum sizes, or ask for fewer vertices to be contained."
        ]
    coverage = float((sizes.n_left * sizes.n_right) @ sizes.n_bicliques.astype(float)) / max(n_edges, 1)
    held = f"An edge is in {coverage:,.1f} of the bicliques listed here on average."
    if total <= n_edges:
        return [f"{plural(total, 'maximal biclique')} from {plural(n_edges, 'edge')}. {held}"]
    paragraphs = [_why_so_many(total, n_edges, truncated) + " " + held, _drivers(total, sides), _reduction(sizes)]
    return [Markup(text) for text in paragraphs if text]


def _why_so_many(total: int, n_edges: int, truncated: str | None) -> str:
    ratio = total / n_edges
    times = f"{ratio:,.0f}" if ratio >= 10 else f"{ratio:.1f}"
    floor = "at least " if truncated else ""
    return (
        f"<strong>{count(total)} maximal bicliques from {plural(n_edges, 'edge')}: {floor}{times} times as many. "
        "This is not an error.</strong> "
        "A maximal biclique is a set of vertices together with <em>everything they have in common</em>, and what "
        "vertices have in common can be combined in many ways: where <i>k</i> neighbourhoods overlap, up to "
        "2<sup><i>k</i></sup> − 1 different intersections can each be a maximal biclique. In the extreme, "
        "<i>n</i> vertices each joined to all but one of <i>n</i> others have <i>n</i>(<i>n</i> − 1) edges and "
        "2<sup><i>n</i></sup> − 2 maximal bicliques: for <i>n</i> = 20 that is 380 edges and 1,048,574 bicliques."
    )


def _drivers(total: int, sides: tuple[SideSummary, SideSummary]) -> str:
    named = []
    for side in sides:
        hubs = [row for row in side.busiest[:3] if row.n_bicliques >= _A_HUB * total]
        named += [
            f"<b>{key(row.key)}</b> ({side.side}, degree {count(row.degree)}) in {percent(row.n_bicliques, total)}"
            for row in hubs
        ]
    if not named:
        return (
            "No single vertex drives it: none is in more than 5 % of the bicliques. "
            "The overlaps are spread over the whole graph."
        )
    return f"Busy vertices drive it, because their neighbourhoods overlap with most others: {'; '.join(named)}."


def _reduction(sizes: Sizes) -> str:
    total = sizes.total
    rungs = [rung for rung in ladder(sizes) if 0 < rung.both < total]
    if not rungs:
        return ""
    chosen = next((rung for rung in rungs if rung.both <= total / 10), rungs[-1])
    lost = total - chosen.both
    return (
        f"Size limits cut the number and the time: {percent(lost, total)} of these bicliques have a side of fewer than "
        f"{chosen.size} vertices. With minimum sizes {chosen.size} × {chosen.size} "
        f"(<code>--min-left {chosen.size} --min-right {chosen.size}</code>) {count(chosen.both)} are left; "
        "the table below shows the other choices."
    )

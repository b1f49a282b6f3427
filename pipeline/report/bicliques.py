"""What the report shows of bicliques: the graph, their sizes, the largest, the vertices that are in most."""

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
from mbe_stage.pipeline.report.explain import explanation, ladder
from mbe_stage.pipeline.report.heat_map import heat_map
from mbe_stage.pipeline.report.rendering import fragment
from mbe_stage.pipeline.report.request import conditions, right_key, side_name
from mbe_stage.pipeline.report.tables import SideSummary, Sizes, read_side, read_sizes
from mbe_stage.pipeline.views.near_copies import Distinct, affordable, distinct_of, largest_distinct
from mbe_stage.pipeline.views.top import Conditions
from mbe_stage.pipeline.wording import percent_text

if TYPE_CHECKING:
    from mbe_stage.pipeline.problems.bicliques.largest import Largest

__all__ = ["page"]

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


def page(run_path: Path, manifest: Manifest, top: int, seen: Largest | None = None) -> Page:
    """The page of a run of bicliques; see `pipeline.problems.base.Publication`.

    Parameters
    ----------
    seen : Largest, optional
        What was kept of the bicliques while they streamed past; without it, and where too many of them are near copies,
        the table is read.
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
                _largest(known, right_key(manifest.config)),
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
    told = explanation(sizes, manifest.input.n_edges, sides, manifest.truncated)
    drawing = Markup(heat_map(sizes)) if total else None
    rungs = ladder(sizes, config.query.min_left, config.query.min_right) if total else []
    return fragment(_TEMPLATE, "found", conditions(config), told, drawing, rungs)


@dataclass(frozen=True, slots=True)
class _Largest:
    """Where the largest are known from: what was kept of them, and else the table, all of which is here then."""

    run_path: Path
    sizes: Sizes
    top: int
    seen: Largest | None

    def distinct(self, fewest: int) -> Distinct:
        """Those without near copies, with at least so many vertices on both sides."""
        most = affordable(self.sizes.n_members, self.top)
        if self.seen is not None:
            known, are_all = self.seen.first(fewest)
            # A table that is read no further holds no more.
            are_all = are_all or len(known) >= most
            if (found := distinct_of(self.run_path, known, self.top, are_all=are_all)) is not None:
                return found
        on_both = Conditions(min_left=fewest, min_right=fewest)
        from mbe_stage.pipeline.stores.part_objects import fetch_missing

        fetch_missing(self.run_path)
        return largest_distinct(self.run_path, self.top, conditions=on_both, most=most)


def _largest(known: _Largest, written: Callable[[object], str]) -> str:
    """The largest by edges; where most of these are stars or nearly, the largest broad ones come before them."""
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

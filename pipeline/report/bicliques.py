"""What the report shows of bicliques: the graph, their sizes, the largest, the vertices that are in most."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING

from mbe_stage.pipeline.problems.base import Page, PageSection
from mbe_stage.pipeline.publish.manifest import Manifest
from mbe_stage.pipeline.publish.reading import has_bicliques
from mbe_stage.pipeline.report import sections
from mbe_stage.pipeline.report.charts import degree_plot
from mbe_stage.pipeline.report.explain import explanation, ladder
from mbe_stage.pipeline.report.heat_map import heat_map
from mbe_stage.pipeline.report.request import conditions, right_key, side_name
from mbe_stage.pipeline.report.tables import SideSummary, Sizes, read_side, read_sizes
from mbe_stage.pipeline.report.wording import count
from mbe_stage.pipeline.views.near_copies import Distinct, affordable, distinct_of, largest_distinct
from mbe_stage.pipeline.views.top import Biclique, Conditions
from mbe_stage.pipeline.wording import percent_text, plural

if TYPE_CHECKING:
    from mbe_stage.pipeline.problems.bicliques.largest import Largest

__all__ = ["page"]

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
_GRAPH = Template(
    """<p>$graph_sentence</p>
    <div class="pair">
      <figure><h3 class="left-name">$left_name</h3>$left_plot<figcaption>$left_facts</figcaption></figure>
      <figure><h3 class="right-name">$right_name</h3>$right_plot<figcaption>$right_facts</figcaption></figure>
    </div>
    <p class="quiet" style="margin-top:14px">Dots: vertices of exactly that degree. Line: vertices of at least that
      degree. Both axes are logarithmic.</p>"""
)
_BICLIQUES = Template(
    """<div>$asked</div>
    <div style="margin-top:14px">$explanation</div>
    <h3>How large they are</h3>
    $heat_map
    <div class="ladder" style="margin-top:28px">$ladder</div>"""
)
_VERTICES = Template(
    """<div class="pair"><div class="scroll">$left_vertices</div><div class="scroll">$right_vertices</div></div>"""
)


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
            PageSection("graph", "The graph", _GRAPH.substitute(_graph(manifest, sides))),
            PageSection("bicliques", "The bicliques", _BICLIQUES.substitute(_bicliques(manifest, sizes, sides))),
        ),
        later_sections=(
            PageSection(
                "largest",
                "The largest, by edges",
                _largest(known, right_key(manifest.config)),
            ),
            PageSection("vertices", "The vertices in most bicliques", _VERTICES.substitute(_vertices(sizes, sides))),
        ),
        incomplete="counts are lower bounds, and the largest may be missing",
        footer=_FOOTER if has_bicliques(run_path) else _FOOTER_WITHOUT,
    )


def _graph(manifest: Manifest, sides: tuple[SideSummary, SideSummary]) -> dict[str, str]:
    facts = manifest.input
    density = facts.n_edges / max(facts.n_left * facts.n_right, 1)
    shown = f"{100 * density:.3g} %" if density < 0.999 else percent_text(density)
    shown = shown if density >= 1e-6 else f"{density:.1e}"
    left, right = sides
    return {
        "graph_sentence": (
            f"{plural(facts.n_edges, 'edge')} between {count(facts.n_left)} left and {count(facts.n_right)} right "
            f"vertices: {shown} of all pairs are joined."
        ),
        "left_name": side_name(manifest.config, "left"),
        "right_name": side_name(manifest.config, "right"),
        "left_plot": degree_plot(left),
        "right_plot": degree_plot(right),
        "left_facts": sections.side_facts(left),
        "right_facts": sections.side_facts(right),
    }


def _bicliques(manifest: Manifest, sizes: Sizes, sides: tuple[SideSummary, SideSummary]) -> dict[str, str]:
    config, total = manifest.config, sizes.total
    asked = conditions(config)
    return {
        "asked": (
            f'Asked for: <ul class="asked">{"".join(f"<li>{text}</li>" for text in asked)}</ul>'
            if asked
            else "Every maximal biclique was asked for: no filter, no limit."
        ),
        "explanation": sections.paragraphs(explanation(sizes, manifest.input.n_edges, sides, manifest.truncated)),
        "heat_map": heat_map(sizes) if total else '<p class="quiet">No biclique, no sizes to show.</p>',
        "ladder": sections.ladder_table(ladder(sizes, config.query.min_left, config.query.min_right)) if total else "",
    }


def _vertices(sizes: Sizes, sides: tuple[SideSummary, SideSummary]) -> dict[str, str]:
    left, right = (sections.vertex_table(side, sizes.total) for side in sides)
    return {"left_vertices": left, "right_vertices": right}


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
        return f"{_copies_note(found.n_copies)}{sections.groups(largest, written)}"
    broad = known.distinct(fewest)
    return (
        f"{_copies_note(max(found.n_copies, broad.n_copies))}"
        f"<h3>At least {fewest} vertices on both sides</h3>{sections.groups(broad.bicliques, written)}"
        f"<h3>Of any shape</h3>{_star_note(largest)}{sections.groups(largest, written)}"
    )


def _copies_note(n_copies: int) -> str:
    if not n_copies:
        return ""
    return (
        '<p class="quiet">Near copies are left out: those that have half of the left members of both, or more, in '
        "common with a larger one. The table <code>bicliques</code> has all of them.</p>"
    )


def _star_note(largest: list[Biclique]) -> str:
    stars = sum(min(len(biclique.left), len(biclique.right)) == 1 for biclique in largest)
    if not stars:
        return ""
    are = "is a star" if stars == 1 else "are stars"
    return f'<p class="quiet">Of these {len(largest)}, {stars} {are}: one vertex and everything it is joined to.</p>'

"""Sections of the report on shared neighbours: the best pairs."""

from __future__ import annotations

from pathlib import Path

from mbe_stage.pipeline.problems.base import Page, PageSection
from mbe_stage.pipeline.problems.shared_neighbours.rows import best_pairs
from mbe_stage.pipeline.publish.manifest import Manifest
from mbe_stage.pipeline.report.request import conditions, left_key, right_key
from mbe_stage.pipeline.report.wording import fragment
from mbe_stage.pipeline.wording import plural

_LEDE = """Two vertices of one side are similar if they share neighbours. The p-value is the probability of at least as
    many shared neighbours if both chose theirs at random."""
_FOOTER = """\
<p>The table lies beside this page.</p>
<pre>SELECT * FROM 'pairs/*.parquet'
ORDER BY p_value LIMIT 20;      -- DuckDB, in this directory</pre>"""


def page(run_path: Path, manifest: Manifest, top: int) -> Page:
    """Build the page of a run of shared neighbours; see `pipeline.problems.base.Publication`."""
    section, counts = manifest.config.problem_section, manifest.counts
    wanted = [f"pairs of {section.side} vertices with at least {plural(section.min_shared, 'shared neighbour')}"]
    if section.top is not None:
        wanted.append(f"the best {section.top:,} by {section.by or 'p_value'}")
    shown = (left_key if section.side == "left" else right_key)(manifest.config)
    rows = [row | {end: shown(row[end]) for end in ("first", "second")} for row in best_pairs(run_path, manifest, top)]
    body = fragment("shared_neighbours.html", "pairs", [*wanted, *conditions(manifest.config)], rows)
    return Page(
        title="Shared neighbours",
        lede=_LEDE,
        figures=[("listed", f"{counts.listed:,}"), ("most shared neighbours", f"{counts.max_shared:,}")],
        sections=[PageSection("pairs", "The best pairs", body)],
        incomplete="counts are lower bounds, and better pairs may be missing",
        footer=_FOOTER,
    )

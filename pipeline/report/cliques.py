"""Sections of the report on cliques: sizes, the largest cliques, and the busiest vertices."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from markupsafe import Markup

from mbe_stage.pipeline.problems.base import Page, PageSection
from mbe_stage.pipeline.problems.cliques.rows import LISTED
from mbe_stage.pipeline.publish.manifest import Manifest
from mbe_stage.pipeline.report.request import conditions
from mbe_stage.pipeline.report.wording import count, fragment, key
from mbe_stage.pipeline.wording import plural

_LEDE = """A clique is a group of vertices with an edge between any two. It is maximal when no further vertex is joined
    to all of it; a vertex without edges is one by itself."""
_FOOTER = """\
<p>The tables lie beside this page; <code>vertices</code> of <code>cliques</code> holds rows of
    <code>vertices.parquet</code>.</p>
<pre>SELECT size, vertices FROM 'cliques/*.parquet'
ORDER BY size DESC LIMIT 20;      -- DuckDB, in this directory</pre>"""
_BATCH_ROWS = 1 << 18


def page(run_path: Path, manifest: Manifest, top: int) -> Page:
    """Build the page of a run of cliques; see `pipeline.problems.base.Publication`."""
    counts, section = manifest.counts, manifest.config.problem_section
    # A clique excluded by a size limit or a required vertex may be larger.
    is_whole = manifest.truncated is None and section.max_size is None and not section.containing and counts.cliques
    largest = "clique number" if is_whole else "largest clique"
    return Page(
        title="Maximal cliques",
        lede=_LEDE,
        figures=[
            (largest, f"{counts.max_size:,}"),
            ("degeneracy", f"{counts.degeneracy:,}"),
        ],
        sections=[
            PageSection("cliques", "The cliques", _sizes(run_path, _asked(manifest))),
            PageSection("largest", "The largest", fragment("cliques.html", "largest", LISTED.best(run_path, top))),
            PageSection(
                "vertices",
                "The vertices in most cliques",
                fragment("cliques.html", "vertices", _busiest(run_path, top), counts.cliques),
            ),
        ],
        incomplete="counts are lower bounds, and the largest may be missing",
        footer=_FOOTER,
    )


def _asked(manifest: Manifest) -> list[str]:
    section, counts, wanted = manifest.config.problem_section, manifest.counts, list[str]()
    if section.project is not None:
        shared = plural(section.min_shared, "neighbour")
        wanted.append(
            f"the {section.project} vertices, joined where they share {shared} or more: {count(counts.vertices)} "
            f"vertices, {plural(counts.edges, 'edge')}"
        )
    if section.min_size > 1:
        wanted.append(f"at least {plural(section.min_size, 'vertex', 'vertices')}")
    if section.max_size is not None:
        wanted.append(f"at most {plural(section.max_size, 'vertex', 'vertices')}")
    if section.containing:
        wanted.append(Markup(f"containing {', '.join(key(vertex) for vertex in section.containing)}"))
    wanted += conditions(manifest.config)
    return wanted


def _sizes(run_path: Path, conditions: list[str]) -> str:
    """Return a row for each size, with a bar for the number of cliques."""
    rows = pq.read_table(run_path / "size_histogram.parquet").to_pylist()
    numbers = [row["n_cliques"] for row in rows]
    return fragment("cliques.html", "sizes", conditions, rows, sum(numbers), max(numbers, default=0))


def _busiest(run_path: Path, top: int) -> list[dict[str, Any]]:
    """Return the vertices in the most cliques; ties keep the table's order."""
    best: pa.Table | None = None
    with pq.ParquetFile(run_path / "vertices.parquet") as file:
        for batch in file.iter_batches(batch_size=_BATCH_ROWS):
            rows = pa.Table.from_batches([batch])
            rows = rows.filter(pc.greater(rows["n_cliques"], 0))
            rows = rows if best is None else pa.concat_tables([best, rows])
            order = np.argsort(-rows["n_cliques"].to_numpy(), kind="stable")[:top]
            best = rows.take(pa.array(order)).combine_chunks()
    return [] if best is None else best.to_pylist()

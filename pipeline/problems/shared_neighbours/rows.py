"""The table `pairs`, its best rows read with bounded memory, and the page of a run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from mbe_stage.pipeline.problems.base import Page, PageSection, Shown
from mbe_stage.pipeline.publish.manifest import Manifest, read_manifest
from mbe_stage.pipeline.publish.reading import reading
from mbe_stage.pipeline.report.request import conditions, left_key, right_key
from mbe_stage.pipeline.report.wording import fragment
from mbe_stage.pipeline.wording import plural

_LEDE = """Two vertices of one side are similar if they share neighbours. The p-value is the probability of at least as
    many shared neighbours if both chose theirs at random."""
_FOOTER = """\
<p>The table lies beside this page.</p>
<pre>SELECT * FROM 'pairs/*.parquet'
ORDER BY p_value LIMIT 20;      -- DuckDB, in this directory</pre>"""


def pairs_schema(key_type: pa.DataType) -> pa.Schema:
    """Schema of `pairs`; the keys are the user's, int64 or string, the smaller one first."""
    columns = [("first", key_type), ("second", key_type), ("shared", pa.int32())]
    columns += [(name, pa.float64()) for name in ("jaccard", "cosine", "p_value")]
    return pa.schema([pa.field(name, kind, nullable=False) for name, kind in columns])


def best_pairs(run_path: Path, manifest: Manifest, limit: int, vertex: str | None = None) -> list[dict[str, Any]]:
    """Return the first rows of a ranked table, else those with the smallest p-values; or those with a vertex.

    Raises
    ------
    PublishError
        The run is damaged.
    """
    by_rank = manifest.config.problem_section.top is not None
    best: pa.Table | None = None
    with reading(run_path):
        for part in sorted((run_path / "pairs").glob("*.parquet")):
            with pq.ParquetFile(part) as file:
                for batch in file.iter_batches():
                    rows = pa.Table.from_batches([batch])
                    if vertex is not None:
                        ends = (pc.equal(rows[end].cast(pa.string()), vertex) for end in ("first", "second"))
                        rows = rows.filter(pc.or_(*ends))
                    best = rows if best is None else pa.concat_tables([best, rows])
                    if not by_rank:
                        order = np.lexsort((-best["shared"].to_numpy(), best["p_value"].to_numpy()))[:limit]
                        best = best.take(pa.array(order))
                    best = best[:limit].combine_chunks()
        return [] if best is None else best.to_pylist()


def top(run_path: Path, limit: int, vertex: str | None) -> Shown:
    """Return the best pairs, or those with the vertex of a key, for ``mbe top``."""
    found = best_pairs(run_path, read_manifest(run_path), limit, vertex)
    columns = ["first", "second", "shared", "jaccard", "cosine", "p_value"]
    formats = ("{}", "{}", "{:,}", "{:.3f}", "{:.3f}", "{:.2g}")
    cells = [[text.format(row[name]) for name, text in zip(columns, formats, strict=True)] for row in found]
    return Shown(found, columns, cells)


def largest(run_path: Path, limit: int) -> list[dict[str, Any]]:
    """Return the best pairs as rows."""
    return best_pairs(run_path, read_manifest(run_path), limit)


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
        figures=[("listed", f"{counts['listed']:,}"), ("most shared neighbours", f"{counts['max_shared']:,}")],
        sections=[PageSection("pairs", "The best pairs", body)],
        incomplete="counts are lower bounds, and better pairs may be missing",
        footer=_FOOTER,
    )

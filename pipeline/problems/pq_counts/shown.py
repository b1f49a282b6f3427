"""What a flow shows of a run of counts: the table, and the vertices that are in most bicliques."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mbe_stage.pipeline.large_numbers import short_text
from mbe_stage.pipeline.problems.pq_counts.cells import read_cells, top_rows
from mbe_stage.pipeline.problems.pq_counts.result_text import zero_reasons
from mbe_stage.pipeline.publish.manifest import Manifest, read_manifest
from mbe_stage.pipeline.report.markdown import table, text

__all__ = ["essence", "largest", "shown_cell"]

_MOST_ROWS = _MOST_COLUMNS = 12
_MOST_TOP = 5


def essence(run_path: Path, manifest: Manifest) -> list[str]:
    """What the report says first, as Markdown."""
    counts, asked = read_cells(run_path), manifest.config.asked
    mark = "≥ " if manifest.truncated is not None else ""
    ps = sorted({p for p, _ in counts})[:_MOST_ROWS]
    qs = sorted({q for _, q in counts})[:_MOST_COLUMNS]
    rows = [[f"**{p}**", *(f"{mark}{short_text(counts[p, q])}" for q in qs)] for p in ps]
    most = manifest.counts.most_left_degree, manifest.counts.most_right_degree
    lines = [*(f"{reason}." for reason in zero_reasons(asked, most)), *table(["p \\ q", *map(str, qs)], rows)]
    if asked.local == "none":
        return lines
    p, q = shown_cell(manifest)
    shown = [
        [side, text(row["key"]), f"{mark}{short_text(int(row['count_text']))}"]
        for side in ("left", "right")
        for row in top_rows(run_path / "pq_vertices.parquet", (p, q), _MOST_TOP, side)
    ]
    return [*lines, "", f"## The vertices in most ({p}, {q})-bicliques", "", *table(["side", "vertex", "in"], shown)]


def largest(run_path: Path, limit: int) -> list[dict[str, Any]]:
    """The vertices in most bicliques where these are counted, else the counts themselves, as rows of plain values."""
    manifest = read_manifest(run_path)
    if manifest.config.asked.local == "none":
        rows = [{"p": p, "q": q, "count": short_text(count)} for (p, q), count in read_cells(run_path).items()]
        return rows[:limit]
    cell, path = shown_cell(manifest), run_path / "pq_vertices.parquet"
    return [
        {"side": side, "key": str(row["key"]), "p": cell[0], "q": cell[1], "count": row["count_text"]}
        for side in ("left", "right")
        for row in top_rows(path, cell, limit, side)
    ]


def shown_cell(manifest: Manifest) -> tuple[int, int]:
    """The count whose vertices are shown: of a table that of (2, 2), or the nearest to it that is not 0."""
    asked, counts = manifest.config.asked, manifest.counts
    if not asked.table:
        return asked.p, asked.q
    return min(asked.p, counts.most_right_degree, 2), min(asked.q, counts.most_left_degree, 2)

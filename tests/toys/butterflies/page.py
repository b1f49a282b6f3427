"""The report page: the edges in most butterflies."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from mbe_stage.pipeline.problems.base import Page, PageSection
from mbe_stage.pipeline.publish.manifest import Manifest
from mbe_stage.pipeline.report.wording import count, key

__all__ = ["page", "rows"]


def rows(run_path: Path, limit: int) -> list[dict[str, Any]]:
    """Return the edges in most butterflies; ties in order of the edges."""
    table = pq.read_table(run_path / "edges.parquet", columns=["left", "right", "butterflies"])
    return sorted(table.to_pylist(), key=lambda row: -row["butterflies"])[:limit]


def page(run_path: Path, manifest: Manifest, top: int) -> Page:
    """Return the page of a run; see `pipeline.problems.base.Publication`."""
    shown = "".join(
        f"<tr><th>{key(row['left'])}</th><th>{key(row['right'])}</th><td>{count(row['butterflies'])}</td></tr>"
        for row in rows(run_path, top)
    )
    return Page(
        title="Butterflies",
        lede="A butterfly is a pair of left and a pair of right vertices, all joined.",
        figures=[("most butterflies of an edge", count(manifest.counts["most"]))],
        sections=[PageSection("edges", "The edges in most butterflies", f'<table class="numbers">{shown}</table>')],
        footer="<p>The table <code>edges.parquet</code> lies beside this page.</p>",
    )

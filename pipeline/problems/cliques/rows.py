"""The largest cliques of a published run with the user's keys of their members."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq

from mbe_stage.pipeline.problems.listed import ListedTable
from mbe_stage.pipeline.publish.manifest import Manifest
from mbe_stage.pipeline.report.markdown import members, table

_SIZES, _CLIQUES = 20, 5

LISTED = ListedTable(
    "cliques", "vertices.parquet", "clique_key", "vertices", "size", ("size", "vertices", "clique_key")
)
"""The table `cliques`, ranked by size."""
top, largest = LISTED.top, LISTED.largest


def essence(run_path: Path, manifest: Manifest) -> list[str]:
    """Return the essence of the report as Markdown."""
    counts = manifest.counts
    sizes = pq.read_table(run_path / "size_histogram.parquet").to_pylist()[::-1]
    shown = [[f"{row['size']:,}", f"{row['n_cliques']:,}"] for row in sizes[:_SIZES]]
    rows = [[f"{one['size']:,}", members(one["vertices"], one["size"])] for one in LISTED.best(run_path, _CLIQUES)]
    return [
        f"Largest clique {counts.max_size:,} vertices, in a graph of {counts.vertices:,} vertices and "
        f"{counts.edges:,} edges, degeneracy {counts.degeneracy:,}.",
        "",
        "## The largest",
        "",
        *(table(["size", "vertices"], rows) if rows else ["None."]),
        "",
        "## How large they are, from the largest size",
        "",
        *(table(["size", "cliques"], shown) if shown else ["None."]),
    ]

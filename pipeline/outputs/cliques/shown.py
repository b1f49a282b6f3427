"""What a flow shows of a run of cliques: the largest, and how many there are of each size."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from pipeline.manifest import Manifest
from pipeline.outputs.cliques.rows import largest_cliques
from pipeline.report.markdown import first_keys, members, table

__all__ = ["essence", "largest"]

_SIZES, _CLIQUES = 20, 5


def essence(run_path: Path, manifest: Manifest) -> list[str]:
    """What the report says first, as Markdown."""
    counts = manifest.counts
    sizes = pq.read_table(run_path / "size_histogram.parquet").to_pylist()[::-1]
    shown = [[f"{row['size']:,}", f"{row['n_cliques']:,}"] for row in sizes[:_SIZES]]
    rows = [
        [f"{len(one.vertices):,}", members(one.vertices, len(one.vertices))]
        for one in largest_cliques(run_path, _CLIQUES)
    ]
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


def largest(run_path: Path, limit: int) -> list[dict[str, Any]]:
    """The largest cliques with their vertices' own keys as rows; `clique_key` is text: browsers round an int64."""
    return [
        {"clique_key": str(one.key), "size": len(one.vertices), "vertices": first_keys(one.vertices)}
        for one in largest_cliques(run_path, limit)
    ]

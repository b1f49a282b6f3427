"""What a flow shows of a run of cliques: the largest, and how many there are of each size."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from mbe_stage.pipeline.problems.base import Shown
from mbe_stage.pipeline.problems.cliques.rows import Clique, find_vertex, largest_cliques
from mbe_stage.pipeline.publish.manifest import Manifest
from mbe_stage.pipeline.report.markdown import first_keys, members, table

__all__ = ["essence", "largest", "shown", "top"]

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


def top(run_path: Path, limit: int, vertex: str | None) -> Shown:
    """The largest cliques, or of those that hold the vertex of a key.

    Raises
    ------
    InputError
        There is no such vertex.
    PublishError
        The run is damaged.
    """
    return shown(largest_cliques(run_path, limit, None if vertex is None else find_vertex(run_path, vertex)))


def shown(cliques: Sequence[Clique]) -> Shown:
    """Cliques as values and for the terminal."""
    values = [{"clique_key": one.key, "size": len(one.vertices), "vertices": one.vertices} for one in cliques]
    rows = [[len(one.vertices), first_keys(one.vertices), str(one.key)] for one in cliques]
    return Shown(values, ["size", "vertices", "clique_key"], rows)


def largest(run_path: Path, limit: int) -> list[dict[str, Any]]:
    """The largest cliques with their vertices' own keys as rows; `clique_key` is text: browsers round an int64."""
    return [
        {"clique_key": str(one.key), "size": len(one.vertices), "vertices": first_keys(one.vertices)}
        for one in largest_cliques(run_path, limit)
    ]

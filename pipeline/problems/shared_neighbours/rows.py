"""The table `pairs`, and its best rows read with bounded memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from mbe_stage.pipeline.problems.base import Shown
from mbe_stage.pipeline.publish.manifest import Manifest, read_manifest
from mbe_stage.pipeline.publish.reading import reading


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


def _cells(row: dict[str, Any]) -> list[str]:
    return [f"{row['shared']:,}", f"{row['jaccard']:.3f}", f"{row['cosine']:.3f}", f"{row['p_value']:.2g}"]


def top(run_path: Path, limit: int, vertex: str | None) -> Shown:
    """Return the best pairs, or those with the vertex of a key, for ``mbe top``."""
    found = best_pairs(run_path, read_manifest(run_path), limit, vertex)
    columns = ["first", "second", "shared", "jaccard", "cosine", "p_value"]
    return Shown(found, columns, [[row["first"], row["second"], *_cells(row)] for row in found])


def largest(run_path: Path, limit: int) -> list[dict[str, Any]]:
    """Return the best pairs as rows."""
    return best_pairs(run_path, read_manifest(run_path), limit)

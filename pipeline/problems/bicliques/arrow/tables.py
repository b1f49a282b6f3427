"""Arrays to the published tables: blocks to record batches, sums to vertex tables and the size histogram."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from mbe_stage.bicliques.results import BicliqueBlock
from mbe_stage.bicliques.vertex_statistics import VertexStatistics, long_form
from mbe_stage.pipeline.backends.arrow.member_rows import MemberRows, vertex_columns
from mbe_stage.pipeline.publish.schemas import BICLIQUES, MEMBERS, SIZE_HISTOGRAM, vertices

__all__ = ["ROWS", "histogram_table", "members_batch", "vertex_schema", "vertex_table"]


def _lists_of(block: BicliqueBlock) -> tuple[Any, ...]:
    left = block.left_sizes, block.left_offsets, block.left_members
    return left, (block.right_sizes, block.right_offsets, block.right_members)


ROWS = MemberRows(
    BICLIQUES, "biclique_key", {"left": "n_left", "right": "n_right"}, BicliqueBlock, _lists_of, product="n_edges"
)
"""The table `bicliques`."""


def members_batch(bicliques: pa.RecordBatch) -> pa.RecordBatch:
    """Rows of `bicliques/` in long form, one row per member, in the same order."""
    keys, sides, members = long_form(
        bicliques["biclique_key"].to_numpy(),
        bicliques["n_left"].to_numpy(),
        bicliques["left"].flatten().to_numpy(),
        bicliques["n_right"].to_numpy(),
        bicliques["right"].flatten().to_numpy(),
    )
    # Made here and not once at the top: the first `pa.array` of Python values looks for pandas, which takes long.
    names = pa.array(["left", "right"], pa.string())
    columns = [pa.array(keys), pa.DictionaryArray.from_arrays(pa.array(sides), names), pa.array(members)]
    return pa.RecordBatch.from_arrays(columns, schema=MEMBERS)


def histogram_table(rows: tuple[np.ndarray, np.ndarray, np.ndarray]) -> pa.Table:
    """`size_histogram`, ascending by size, from `SizeCounts.sorted_rows`."""
    return pa.table([pa.array(column) for column in rows], schema=SIZE_HISTOGRAM)


def vertex_table(
    keys: pa.Array, degrees: np.ndarray, two_hop: np.ndarray | None, statistics: VertexStatistics
) -> pa.Table:
    """`left_vertices` or `right_vertices`, as `vertex_columns`; `two_hop` is None if it was not counted."""
    own = pa.nulls(len(keys), pa.int64()) if two_hop is None else pa.array(two_hop)
    return pa.table(vertex_columns(keys, degrees, own, statistics=statistics), schema=vertex_schema(keys))


def vertex_schema(keys: pa.Array) -> pa.Schema:
    """Schema of a vertex table with these keys."""
    return vertices(keys.type)

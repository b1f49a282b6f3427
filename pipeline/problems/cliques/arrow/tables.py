"""Arrays to the published tables: blocks to record batches, sums to vertices and the size histogram."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from mbe_stage.bicliques.vertex_statistics import VertexStatistics
from mbe_stage.cliques.results import CliqueBlock
from mbe_stage.pipeline.backends.arrow.member_rows import MemberRows, vertex_columns
from mbe_stage.pipeline.problems.cliques.schemas import CLIQUES, SIZE_HISTOGRAM, vertices

__all__ = ["ROWS", "histogram_table", "vertex_schema", "vertex_table"]


def _lists_of(block: CliqueBlock) -> tuple[Any, ...]:
    return ((block.sizes, block.offsets, block.members),)


ROWS = MemberRows(CLIQUES, "clique_key", {"vertices": "size"}, CliqueBlock, _lists_of)
"""The table `cliques`."""


def histogram_table(sizes: np.ndarray, counts: np.ndarray) -> pa.Table:
    """`size_histogram`, ascending, from `CliqueHistogramSink.sorted_rows`."""
    return pa.table([pa.array(sizes), pa.array(counts)], schema=SIZE_HISTOGRAM)


def vertex_table(keys: pa.Array, degrees: np.ndarray, cores: np.ndarray, statistics: VertexStatistics) -> pa.Table:
    """`vertices`, as `vertex_columns`; largest edges are sizes of cliques."""
    own = pa.array(np.asarray(cores, np.int32))
    columns = vertex_columns(keys, degrees, own, statistics=statistics)
    columns[-1] = pa.array(statistics.largest_edges.astype(np.int32))
    return pa.table(columns, schema=vertex_schema(keys))


def vertex_schema(keys: pa.Array) -> pa.Schema:
    """Schema of the table of vertices with these keys."""
    return vertices(keys.type)

"""Arrays to the published tables: blocks to record batches, sums to vertices and the size histogram."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from mbe_stage.bicliques.vertex_statistics import VertexStatistics
from mbe_stage.cliques.results import CliqueBlock
from mbe_stage.errors import InvalidArgument
from mbe_stage.options import LARGEST_BLOCK
from mbe_stage.pipeline.backends.arrow.order import KeyOrder, SpillOrder
from mbe_stage.pipeline.problems.cliques.schemas import CLIQUES, SIZE_HISTOGRAM, vertices

__all__ = [
    "block_of",
    "canonical_order",
    "clique_batch",
    "histogram_table",
    "left_in_spills",
    "row_bytes",
    "vertex_schema",
    "vertex_table",
]


def clique_batch(block: CliqueBlock, keys: np.ndarray) -> pa.RecordBatch:
    """A block as rows of `cliques/`; the members are not copied.

    Parameters
    ----------
    block : CliqueBlock
        At `Detail.MEMBERS`.
    keys : (n_cliques,) int64

    Raises
    ------
    InvalidArgument
        More members than a list column holds.
    """
    offsets = block.offsets
    if offsets.dtype != np.int32:
        raise InvalidArgument(
            f"a block has {int(offsets[-1]):,} members: expected fewer than 2^31, which is what a list column holds; "
            f"cut it, or ask for smaller blocks (block_bytes, at most {LARGEST_BLOCK:,})"
        )
    members = pa.ListArray.from_arrays(offsets, block.members, type=CLIQUES.field("vertices").type)
    return pa.RecordBatch.from_arrays([pa.array(keys), members, pa.array(block.sizes)], schema=CLIQUES)


def block_of(batch: pa.RecordBatch) -> tuple[CliqueBlock, np.ndarray]:
    """What `clique_batch` has made rows of, and the keys."""
    # Copies: compiled code takes no arrays that are read only.
    keys, sizes, members = (
        np.array(column.to_numpy()) for column in (batch["clique_key"], batch["size"], batch["vertices"].flatten())
    )
    return CliqueBlock(batch.num_rows, sizes, members), keys


def canonical_order(scratch: Path, **sizes: Any) -> KeyOrder:
    """Takes rows of `cliques/` in and gives them back ascending by `clique_key`; `sizes` as for `KeyOrder`."""
    return KeyOrder(scratch, CLIQUES, "clique_key", row_bytes, **sizes)


def left_in_spills(scratch: Path) -> SpillOrder:
    """Takes rows of `cliques/` in and leaves them in spill files, for a `canonical_order` elsewhere."""
    return SpillOrder(scratch, CLIQUES, "clique_key", row_bytes)


def row_bytes(cliques: pa.RecordBatch) -> np.ndarray:
    """Bytes in memory of each row of `cliques/`: key, size, an offset, and the members."""
    return 16 + 4 * cliques["size"].to_numpy().astype(np.int64)


def histogram_table(sizes: np.ndarray, counts: np.ndarray) -> pa.Table:
    """`size_histogram`, ascending, from `CliqueHistogramSink.sorted_rows`."""
    return pa.table([pa.array(sizes), pa.array(counts)], schema=SIZE_HISTOGRAM)


def vertex_table(keys: pa.Array, degrees: np.ndarray, cores: np.ndarray, statistics: VertexStatistics) -> pa.Table:
    """`vertices`, by dense id.

    Parameters
    ----------
    keys : pa.Array
        The user's keys; position is the dense id.
    degrees, cores : (n,) integers
    statistics : VertexStatistics
        Whose largest edges are sizes of cliques.
    """
    in_none = statistics.n_bicliques == 0
    columns = [
        pa.array(np.arange(len(keys), dtype=np.int32)),
        keys,
        pa.array(np.asarray(degrees, np.int64)),
        pa.array(np.asarray(cores, np.int32)),
        pa.array(statistics.n_bicliques),
        pa.array(statistics.largest_keys, mask=in_none),
        pa.array(statistics.largest_edges.astype(np.int32)),
    ]
    return pa.table(columns, schema=vertex_schema(keys))


def vertex_schema(keys: pa.Array) -> pa.Schema:
    """Schema of the table of vertices with these keys."""
    return vertices(keys.type)

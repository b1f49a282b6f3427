"""Arrays to the published tables: blocks to record batches, sums to vertex tables and the size histogram."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from mbe_stage.bicliques.results import BicliqueBlock
from mbe_stage.bicliques.vertex_statistics import VertexStatistics, long_form
from mbe_stage.errors import InvalidArgument
from mbe_stage.options import LARGEST_BLOCK
from mbe_stage.pipeline.backends.arrow.order import KeyOrder, SpillOrder
from mbe_stage.pipeline.publish.schemas import BICLIQUES, MEMBERS, SIZE_HISTOGRAM, vertices

__all__ = [
    "biclique_batch",
    "block_of",
    "canonical_order",
    "histogram_table",
    "left_in_spills",
    "members_batch",
    "row_bytes",
    "vertex_schema",
    "vertex_table",
]


def biclique_batch(block: BicliqueBlock, keys: np.ndarray) -> pa.RecordBatch:
    """A block as rows of `bicliques/`; the members are not copied.

    Parameters
    ----------
    block : BicliqueBlock
        At `Detail.MEMBERS`.
    keys : (n_bicliques,) int64

    Raises
    ------
    InvalidArgument
        More members on a side than a list column holds.
    """
    assert block.left_sizes is not None
    assert block.right_sizes is not None
    columns = [
        pa.array(keys),
        _lists("left", block.left_offsets, block.left_members),
        _lists("right", block.right_offsets, block.right_members),
        pa.array(block.left_sizes),
        pa.array(block.right_sizes),
        pa.array(block.left_sizes.astype(np.int64) * block.right_sizes),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=BICLIQUES)


def block_of(batch: pa.RecordBatch) -> tuple[BicliqueBlock, np.ndarray]:
    """The block that rows of `bicliques/` were made of, and its keys; copies, which may be written to."""
    n_left, n_right, keys = (np.array(batch[name].to_numpy()) for name in ("n_left", "n_right", "biclique_key"))
    left, right = (np.array(batch[name].flatten().to_numpy()) for name in ("left", "right"))
    return BicliqueBlock(batch.num_rows, n_left, n_right, left, right), keys


def _lists(side: str, offsets: np.ndarray, members: np.ndarray | None) -> pa.ListArray:
    if offsets.dtype != np.int32:
        raise InvalidArgument(
            f"a block has {int(offsets[-1]):,} {side} members: expected fewer than 2^31, which is what a list column "
            f"holds; cut it, or ask for smaller blocks (block_bytes, at most {LARGEST_BLOCK:,})"
        )
    return pa.ListArray.from_arrays(offsets, members, type=BICLIQUES.field(side).type)


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


def canonical_order(scratch: Path, **sizes: Any) -> KeyOrder:
    """Takes rows of `bicliques/` in and gives them back ascending by `biclique_key`; `sizes` as for `KeyOrder`."""
    return KeyOrder(scratch, BICLIQUES, "biclique_key", row_bytes, **sizes)


def left_in_spills(scratch: Path) -> SpillOrder:
    """Takes rows of `bicliques/` in and leaves them in spill files, for a `canonical_order` elsewhere."""
    return SpillOrder(scratch, BICLIQUES, "biclique_key", row_bytes)


def row_bytes(bicliques: pa.RecordBatch) -> np.ndarray:
    """Bytes in memory of each row of `bicliques/`: the plain columns, an offset for each list, and the members."""
    n_members = bicliques["n_left"].to_numpy().astype(np.int64) + bicliques["n_right"].to_numpy()
    fixed = sum(BICLIQUES.field(name).type.byte_width for name in ("biclique_key", "n_left", "n_right", "n_edges"))
    return fixed + 8 + 4 * n_members


def histogram_table(rows: tuple[np.ndarray, np.ndarray, np.ndarray]) -> pa.Table:
    """`size_histogram`, ascending by size, from `SizeCounts.sorted_rows`."""
    return pa.table([pa.array(column) for column in rows], schema=SIZE_HISTOGRAM)


def vertex_table(
    keys: pa.Array, degrees: np.ndarray, two_hop: np.ndarray | None, statistics: VertexStatistics
) -> pa.Table:
    """`left_vertices` or `right_vertices`, by dense id.

    Parameters
    ----------
    keys : pa.Array
        The user's keys; position is the dense id.
    degrees : (n,) int64
    two_hop : (n,) int64 or None
        Two-hop degrees; None where they were not counted.
    """
    in_none = statistics.n_bicliques == 0
    columns = [
        pa.array(np.arange(len(keys), dtype=np.int32)),
        keys,
        pa.array(np.asarray(degrees, np.int64)),
        pa.nulls(len(keys), pa.int64()) if two_hop is None else pa.array(two_hop),
        pa.array(statistics.n_bicliques),
        pa.array(statistics.largest_keys, mask=in_none),
        pa.array(statistics.largest_edges),
    ]
    return pa.table(columns, schema=vertex_schema(keys))


def vertex_schema(keys: pa.Array) -> pa.Schema:
    """Schema of a vertex table with these keys."""
    return vertices(keys.type)

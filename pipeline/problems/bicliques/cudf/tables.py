"""Arrays on the device to the published tables, as cuDF frames of the schemas in `pipeline.publish.schemas`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import cupy as cp
import numpy as np
import pyarrow as pa

from mbe_stage.bicliques.cuda.blocks import DeviceBlock
from mbe_stage.bicliques.cuda.keys import biclique_keys
from mbe_stage.bicliques.cuda.vertex_statistics import long_form
from mbe_stage.bicliques.vertex_statistics import VertexStatistics
from mbe_stage.pipeline.backends.arrow.order import KeyOrder as HostKeyOrder
from mbe_stage.pipeline.backends.cudf.block_rows import BlockRows, cut
from mbe_stage.pipeline.backends.cudf.buffers import published_type
from mbe_stage.pipeline.backends.cudf.frames import MOST_BYTES, Frame, Series, frame_of, list_column, named, nullable
from mbe_stage.pipeline.backends.cudf.order import KeyOrder
from mbe_stage.pipeline.problems.base import DerivedCollector
from mbe_stage.pipeline.problems.bicliques.arrow import tables as host
from mbe_stage.pipeline.problems.bicliques.cudf.summary import Summary
from mbe_stage.pipeline.publish.schemas import BICLIQUES, vertices

__all__ = [
    "biclique_frame",
    "block_of",
    "canonical_order",
    "histogram_table",
    "members_frame",
    "pieces",
    "row_bytes",
    "rows_of",
    "vertex_schema",
    "vertex_table",
]

# Key, sizes, edges, two offsets.
_ROW_BYTES = 32


def rows_of(hashes: tuple[cp.ndarray, cp.ndarray], summary: Summary, derived: Sequence[DerivedCollector]) -> BlockRows:
    """What makes rows of blocks whose vertices have these hashes, and who takes the blocks in beside."""

    def keys(piece: DeviceBlock) -> cp.ndarray:
        return biclique_keys(piece, *hashes)

    members = {"left": ("n_left", hashes[0].size), "right": ("n_right", hashes[1].size)}
    nothing = DeviceBlock.empty(work_done=1.0)
    return BlockRows(pieces, keys, biclique_frame, block_of, members, nothing, summary, derived)


def biclique_frame(block: DeviceBlock, keys: cp.ndarray) -> Frame:
    """A block as rows of `bicliques/`; the members are not copied.

    Parameters
    ----------
    block : DeviceBlock
        With fewer than 2**31 members on each side; `pieces` cuts a larger one.
    keys : (n_bicliques,) int64
    """
    return frame_of(
        {
            "biclique_key": keys,
            "left": list_column(block.left_offsets, block.left_members),
            "right": list_column(block.right_offsets, block.right_members),
            "n_left": block.left_sizes,
            "n_right": block.right_sizes,
            "n_edges": block.n_edges,
        }
    )


def block_of(batch: pa.RecordBatch) -> DeviceBlock:
    """The block that rows of `bicliques/` were made of."""
    return DeviceBlock(*_uploaded(batch["left"]), *_uploaded(batch["right"]))


def _uploaded(lists: pa.ListArray) -> tuple[cp.ndarray, cp.ndarray]:
    """Where each list begins, and at last where all end, and the members."""
    offsets = lists.offsets.to_numpy()
    return cp.asarray(offsets, cp.int64) - int(offsets[0]), cp.asarray(lists.flatten().to_numpy())


def members_frame(bicliques: Frame) -> Frame:
    """Rows of `bicliques/` in long form, one row per member, in the same order."""
    block = DeviceBlock(*_ragged(bicliques, "left"), *_ragged(bicliques, "right"))
    keys, sides, members = long_form(block, bicliques["biclique_key"].values)
    return frame_of({"biclique_key": keys, "side": named(sides, ("left", "right")), "vertex": members})


def histogram_table(rows: tuple[np.ndarray, np.ndarray, np.ndarray]) -> Frame:
    """`size_histogram`, ascending by size, from `DeviceSizeCounts.sorted_rows`."""
    return frame_of(dict(zip(("n_left", "n_right", "n_bicliques"), rows, strict=True)))


def vertex_table(
    keys: Series, degrees: cp.ndarray, two_hop_degrees: cp.ndarray | None, statistics: VertexStatistics
) -> Frame:
    """`left_vertices` or `right_vertices`, by dense id.

    Parameters
    ----------
    keys : Series
        The user's keys; position is the dense id.
    degrees : (n,) int64
    two_hop_degrees : (n,) int64 or None
        None where they were too many to count.
    """
    n_bicliques = cp.asarray(statistics.n_bicliques)
    none = cp.zeros(len(keys), cp.int64)
    two_hop = none if two_hop_degrees is None else cp.asarray(two_hop_degrees, cp.int64)
    return frame_of(
        {
            "vertex": cp.arange(len(keys), dtype=cp.int32),
            "key": keys.reset_index(drop=True),
            "degree": cp.asarray(degrees, cp.int64),
            "two_hop_degree": nullable(two_hop, cp.full(len(keys), two_hop_degrees is not None)),
            "n_bicliques": n_bicliques,
            "largest_biclique_key": nullable(cp.asarray(statistics.largest_keys), n_bicliques > 0),
            "largest_biclique_edges": cp.asarray(statistics.largest_edges),
        }
    )


def canonical_order(scratch: Path, most_bytes: int, group_bytes: int) -> KeyOrder:
    """Takes rows of `bicliques/` in and gives them back ascending by `biclique_key`; sizes as for `KeyOrder`."""

    def on_host(group_bytes: int) -> HostKeyOrder:
        return host.canonical_order(scratch, group_bytes=group_bytes)

    return KeyOrder(BICLIQUES, "biclique_key", row_bytes, _frame_of_rows, on_host, most_bytes, group_bytes)


def _frame_of_rows(batch: pa.RecordBatch) -> Frame:
    """Rows of `bicliques/` in host memory as `biclique_frame` has them."""
    return biclique_frame(block_of(batch), cp.asarray(batch["biclique_key"].to_numpy()))


def row_bytes(bicliques: Frame) -> cp.ndarray:
    """Bytes in memory of each row of `bicliques/`, (n,) float64."""
    return _ROW_BYTES + 4 * (bicliques["n_left"].values.astype(cp.float64) + bicliques["n_right"].values)


def vertex_schema(keys: Series) -> pa.Schema:
    """Schema of a vertex table with these keys."""
    return vertices(published_type(keys))


def pieces(block: DeviceBlock, most_bytes: int = MOST_BYTES) -> Iterator[DeviceBlock]:
    """The block in consecutive pieces of at most so many bytes as rows of `bicliques/`; a larger biclique alone."""
    # In place: of a small budget, a block and its offsets are a good part.
    ends = block.left_offsets[1:] + block.right_offsets[1:]
    ends *= 4
    ends += cp.arange(_ROW_BYTES, (block.n_bicliques + 1) * _ROW_BYTES, _ROW_BYTES)
    return cut(block, ends, most_bytes)


def _ragged(bicliques: Frame, side: str) -> tuple[cp.ndarray, cp.ndarray]:
    offsets = cp.zeros(len(bicliques) + 1, cp.int64)
    cp.cumsum(bicliques[f"n_{side}"].values, out=offsets[1:])
    return offsets, bicliques[side].list.leaves.values

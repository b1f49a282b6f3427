"""Device arrays to the published tables: cuDF frames of the schemas in `pipeline.problems.cliques.schemas`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import cupy as cp
import numpy as np
import pyarrow as pa

from mbe_stage.bicliques.cuda.keys import keys_of_left_vertices
from mbe_stage.bicliques.vertex_statistics import VertexStatistics
from mbe_stage.cliques.cuda.blocks import DeviceCliqueBlock
from mbe_stage.pipeline.backends.arrow.order import KeyOrder as HostKeyOrder
from mbe_stage.pipeline.backends.cudf.block_rows import BlockRows, cut
from mbe_stage.pipeline.backends.cudf.buffers import published_type
from mbe_stage.pipeline.backends.cudf.frames import MOST_BYTES, Frame, Series, frame_of, list_column, nullable
from mbe_stage.pipeline.backends.cudf.order import KeyOrder
from mbe_stage.pipeline.problems.base import DerivedCollector
from mbe_stage.pipeline.problems.cliques.arrow import tables as host
from mbe_stage.pipeline.problems.cliques.cudf.summary import Summary
from mbe_stage.pipeline.problems.cliques.schemas import CLIQUES, vertices

__all__ = [
    "block_of",
    "canonical_order",
    "clique_frame",
    "histogram_table",
    "pieces",
    "row_bytes",
    "rows_of",
    "vertex_schema",
    "vertex_table",
]

# Key, size, an offset.
_ROW_BYTES = 16


def rows_of(hashes: cp.ndarray, summary: Summary, derived: Sequence[DerivedCollector] = ()) -> BlockRows:
    """What makes rows of blocks whose vertices have these hashes, and who takes the blocks in beside."""

    def keys(piece: DeviceCliqueBlock) -> cp.ndarray:
        return keys_of_left_vertices(piece.offsets, piece.members, hashes)

    members, nothing = {"vertices": ("size", hashes.size)}, DeviceCliqueBlock.empty(work_done=1.0)
    return BlockRows(pieces, keys, clique_frame, block_of, members, nothing, summary, derived)


def clique_frame(block: DeviceCliqueBlock, keys: cp.ndarray) -> Frame:
    """A block as rows of `cliques/`; the members are not copied.

    Parameters
    ----------
    block : DeviceCliqueBlock
        With fewer than 2**31 members; `pieces` cuts a larger one.
    keys : (n_cliques,) int64
    """
    members = list_column(block.offsets, block.members)
    return frame_of({"clique_key": keys, "vertices": members, "size": block.sizes})


def block_of(batch: pa.RecordBatch) -> DeviceCliqueBlock:
    """The block that rows of `cliques/` were made of."""
    return DeviceCliqueBlock(cp.asarray(batch["size"].to_numpy()), cp.asarray(batch["vertices"].flatten().to_numpy()))


def histogram_table(sizes: np.ndarray, counts: np.ndarray) -> Frame:
    """`size_histogram`, ascending, from `CliqueHistogramSink.sorted_rows`."""
    return frame_of({"size": sizes, "n_cliques": counts})


def vertex_table(keys: Series, degrees: cp.ndarray, cores: cp.ndarray, statistics: VertexStatistics) -> Frame:
    """`vertices`, by dense id.

    Parameters
    ----------
    keys : Series
        The user's keys; position is the dense id.
    degrees, cores : (n,) integers
        On the device or on the host.
    statistics : VertexStatistics
        Whose largest edges are sizes of cliques.
    """
    n_cliques = cp.asarray(statistics.n_bicliques)
    return frame_of(
        {
            "vertex": cp.arange(len(keys), dtype=cp.int32),
            "key": keys.reset_index(drop=True),
            "degree": cp.asarray(degrees, cp.int64),
            "core_number": cp.asarray(cores, cp.int32),
            "n_cliques": n_cliques,
            "largest_clique_key": nullable(cp.asarray(statistics.largest_keys), n_cliques > 0),
            "largest_clique_size": cp.asarray(statistics.largest_edges, cp.int32),
        }
    )


def vertex_schema(keys: Series) -> pa.Schema:
    """Schema of the table of vertices with these keys."""
    return vertices(published_type(keys))


def canonical_order(scratch: Path, most_bytes: int, group_bytes: int) -> KeyOrder:
    """Takes rows of `cliques/` in and gives them back ascending by `clique_key`; sizes as for `KeyOrder`."""

    def on_host(group_bytes: int) -> HostKeyOrder:
        return host.canonical_order(scratch, group_bytes=group_bytes)

    return KeyOrder(CLIQUES, "clique_key", row_bytes, _frame_of_rows, on_host, most_bytes, group_bytes)


def _frame_of_rows(batch: pa.RecordBatch) -> Frame:
    """Rows of `cliques/` in host memory as `clique_frame` has them."""
    return clique_frame(block_of(batch), cp.asarray(batch["clique_key"].to_numpy()))


def row_bytes(cliques: Frame) -> cp.ndarray:
    """Bytes in memory of each row of `cliques/`, (n,) float64."""
    return _ROW_BYTES + 4 * cliques["size"].values.astype(cp.float64)


def pieces(block: DeviceCliqueBlock, most_bytes: int = MOST_BYTES) -> Iterator[DeviceCliqueBlock]:
    """The block in consecutive pieces of at most so many bytes as rows of `cliques/`; a larger clique alone."""
    # In place: of a small budget, a block and its offsets are a good part.
    ends = block.offsets[1:]
    ends *= 4
    ends += cp.arange(_ROW_BYTES, (len(block) + 1) * _ROW_BYTES, _ROW_BYTES)
    return cut(block, ends, most_bytes)

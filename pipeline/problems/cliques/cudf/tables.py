"""Device arrays to the published tables: cuDF frames of the schemas in `pipeline.problems.cliques.schemas`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import cupy as cp
import numpy as np
import pyarrow as pa

from mbe_stage.bicliques.cuda.keys import keys_of_left_vertices
from mbe_stage.bicliques.vertex_statistics import VertexStatistics
from mbe_stage.cliques.cuda.blocks import DeviceCliqueBlock
from mbe_stage.pipeline.backends.cudf.buffers import published_type
from mbe_stage.pipeline.backends.cudf.frames import Frame, Series, frame_of
from mbe_stage.pipeline.backends.cudf.member_rows import BlockRows, MemberRows, vertex_frame
from mbe_stage.pipeline.problems.base import DerivedCollector
from mbe_stage.pipeline.problems.cliques.arrow import tables as host
from mbe_stage.pipeline.problems.cliques.cudf.summary import Summary
from mbe_stage.pipeline.problems.cliques.schemas import vertices

__all__ = ["ROWS", "histogram_table", "rows_of", "vertex_schema", "vertex_table"]


def _block(offsets: cp.ndarray, members: cp.ndarray) -> DeviceCliqueBlock:
    return DeviceCliqueBlock(cp.diff(offsets).astype(cp.int32), members)


def _lists_of(block: DeviceCliqueBlock) -> tuple[Any, ...]:
    return ((block.sizes, block.offsets, block.members),)


def _offsets_of(block: DeviceCliqueBlock) -> Iterator[cp.ndarray]:
    yield block.offsets


ROWS = MemberRows(host.ROWS, _block, lambda: DeviceCliqueBlock.empty(work_done=1.0), _lists_of, _offsets_of)
"""The table `cliques`."""


def rows_of(hashes: cp.ndarray, summary: Summary, derived: Sequence[DerivedCollector] = ()) -> BlockRows:
    """What makes rows of blocks whose vertices have these hashes, and who takes the blocks in beside."""

    def keys(piece: DeviceCliqueBlock) -> cp.ndarray:
        return keys_of_left_vertices(piece.offsets, piece.members, hashes)

    return BlockRows(ROWS, keys, [hashes.size], summary, derived)


def histogram_table(sizes: np.ndarray, counts: np.ndarray) -> Frame:
    """`size_histogram`, ascending, from `CliqueHistogramSink.sorted_rows`."""
    return frame_of({"size": sizes, "n_cliques": counts})


def vertex_table(keys: Series, degrees: cp.ndarray, cores: np.ndarray, statistics: VertexStatistics) -> Frame:
    """`vertices`, as `vertex_frame`; largest edges are sizes of cliques."""
    return vertex_frame(vertex_schema(keys), keys, degrees, cp.asarray(cores, cp.int32), statistics)


def vertex_schema(keys: Series) -> pa.Schema:
    """Schema of the table of vertices with these keys."""
    return vertices(published_type(keys))

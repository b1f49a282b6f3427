"""Arrays on the device to the published tables, as cuDF frames of the schemas in `pipeline.publish.schemas`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import cupy as cp
import numpy as np
import pyarrow as pa

from mbe_stage.bicliques.cuda.blocks import DeviceBlock
from mbe_stage.bicliques.cuda.keys import biclique_keys
from mbe_stage.bicliques.cuda.vertex_statistics import long_form
from mbe_stage.bicliques.vertex_statistics import VertexStatistics
from mbe_stage.pipeline.backends.cudf.buffers import published_type
from mbe_stage.pipeline.backends.cudf.frames import Frame, Series, frame_of, named, nullable
from mbe_stage.pipeline.backends.cudf.member_rows import BlockRows, MemberRows, vertex_frame
from mbe_stage.pipeline.problems.base import DerivedCollector
from mbe_stage.pipeline.problems.bicliques.arrow import tables as host
from mbe_stage.pipeline.problems.bicliques.cudf.summary import Summary
from mbe_stage.pipeline.publish.schemas import vertices

__all__ = ["ROWS", "histogram_table", "members_frame", "rows_of", "vertex_schema", "vertex_table"]


def _lists_of(block: DeviceBlock) -> tuple[Any, ...]:
    left = block.left_sizes, block.left_offsets, block.left_members
    return left, (block.right_sizes, block.right_offsets, block.right_members)


def _offsets_of(block: DeviceBlock) -> Iterator[cp.ndarray]:
    yield block.left_offsets
    yield block.right_offsets


ROWS = MemberRows(host.ROWS, DeviceBlock, lambda: DeviceBlock.empty(work_done=1.0), _lists_of, _offsets_of)
"""The table `bicliques`."""


def rows_of(hashes: tuple[cp.ndarray, cp.ndarray], summary: Summary, derived: Sequence[DerivedCollector]) -> BlockRows:
    """What makes rows of blocks whose vertices have these hashes, and who takes the blocks in beside."""
    return BlockRows(
        ROWS, lambda piece: biclique_keys(piece, *hashes), [each.size for each in hashes], summary, derived
    )


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
    """`left_vertices` or `right_vertices`, as `vertex_frame`; two-hop degrees are None if they were not counted."""
    none = cp.zeros(len(keys), cp.int64)
    two_hop = none if two_hop_degrees is None else cp.asarray(two_hop_degrees, cp.int64)
    own = nullable(two_hop, cp.full(len(keys), two_hop_degrees is not None))
    return vertex_frame(vertex_schema(keys), keys, degrees, own, statistics)


def vertex_schema(keys: Series) -> pa.Schema:
    """Schema of a vertex table with these keys."""
    return vertices(published_type(keys))


def _ragged(bicliques: Frame, side: str) -> tuple[cp.ndarray, cp.ndarray]:
    offsets = cp.zeros(len(bicliques) + 1, cp.int64)
    cp.cumsum(bicliques[f"n_{side}"].values, out=offsets[1:])
    return offsets, bicliques[side].list.leaves.values

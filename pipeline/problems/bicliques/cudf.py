"""Bicliques in device memory: cuDF tables, and the sink that writes with libcudf while the engine searches."""

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
from mbe_stage.pipeline.backends.cudf.block_writer import ParquetSink, sink_within
from mbe_stage.pipeline.backends.cudf.buffers import published_type
from mbe_stage.pipeline.backends.cudf.frames import Frame, Series, frame_of, named, nullable
from mbe_stage.pipeline.backends.cudf.member_rows import BlockRows, MemberRows, vertex_frame
from mbe_stage.pipeline.backends.cudf.plan import LONG_FORM
from mbe_stage.pipeline.problems.base import Collecting, DerivedCollector
from mbe_stage.pipeline.problems.bicliques import arrow as host
from mbe_stage.pipeline.problems.bicliques.cudf_summary import Summary
from mbe_stage.pipeline.problems.bicliques.largest import n_shown
from mbe_stage.pipeline.publish.schemas import BICLIQUES, MEMBERS, vertices


def _lists_of(block: DeviceBlock) -> tuple[Any, ...]:
    left = block.left_sizes, block.left_offsets, block.left_members
    return left, (block.right_sizes, block.right_offsets, block.right_members)


def _offsets_of(block: DeviceBlock) -> Iterator[cp.ndarray]:
    yield block.left_offsets
    yield block.right_offsets


ROWS = MemberRows(host.ROWS, DeviceBlock, lambda: DeviceBlock.empty(work_done=1.0), _lists_of, _offsets_of)
"""The table `bicliques`."""


def rows_of(hashes: tuple[cp.ndarray, cp.ndarray], summary: Summary, derived: Sequence[DerivedCollector]) -> BlockRows:
    """Return the maker of rows for vertices with these hashes; `derived` receives the blocks too."""
    return BlockRows(
        ROWS, lambda piece: biclique_keys(piece, *hashes), [each.size for each in hashes], summary, derived
    )


def members_frame(bicliques: Frame) -> Frame:
    """Return rows of `bicliques/` in long form, one row per member, in the same order."""
    block = DeviceBlock(*_ragged(bicliques, "left"), *_ragged(bicliques, "right"))
    keys, sides, members = long_form(block, bicliques["biclique_key"].values)
    return frame_of({"biclique_key": keys, "side": named(sides, ("left", "right")), "vertex": members})


def histogram_table(rows: tuple[np.ndarray, np.ndarray, np.ndarray]) -> Frame:
    """Build `size_histogram`, ascending by size, from `DeviceSizeCounts.sorted_rows`."""
    return frame_of(dict(zip(("n_left", "n_right", "n_bicliques"), rows, strict=True)))


def vertex_table(
    keys: Series, degrees: cp.ndarray, two_hop_degrees: cp.ndarray | None, statistics: VertexStatistics
) -> Frame:
    """Build `left_vertices` or `right_vertices`, as `vertex_frame`; no two-hop degrees if they are None."""
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


def schemas_of(*, bicliques: bool, members: bool) -> dict[str, tuple[pa.Schema, int]]:
    """Return the data sets of a run, with or without the table and the long form, for `ParquetSink`."""
    table = {"bicliques": (BICLIQUES, 1)} if bicliques else {}
    return table | ({"members": (MEMBERS, LONG_FORM)} if members else {})


def with_members(bicliques: Frame) -> Iterator[Frame]:
    """Yield the rows of `bicliques/`, then those of `members/`."""
    yield bicliques
    yield members_frame(bicliques)


def sink_of(collecting: Collecting) -> ParquetSink:
    """Return the sink for the run's configuration."""
    output = collecting.config.output

    def rows() -> BlockRows:
        hashes = collecting.edges.key_hashes()
        summary = Summary.of(hashes[0].size, hashes[1].size, n_shown(output))
        return rows_of(hashes, summary, collecting.derived)

    schemas = schemas_of(bicliques=output.bicliques, members=output.members)
    return sink_within(collecting, rows, schemas, with_members if output.members else None)

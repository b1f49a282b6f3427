"""Cliques in device memory: cuDF tables, sums, and the sink that writes with libcudf while the engine searches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import cupy as cp
import numpy as np
import pyarrow as pa

from mbe_stage.bicliques.cuda.keys import add_to, keys_of_left_vertices
from mbe_stage.bicliques.cuda.vertex_statistics import DeviceVertexStatistics
from mbe_stage.bicliques.keys import Fingerprint
from mbe_stage.bicliques.vertex_statistics import VertexStatistics
from mbe_stage.cliques.cuda.blocks import DeviceCliqueBlock
from mbe_stage.cliques.results import CliqueHistogramSink
from mbe_stage.pipeline.backends.cudf.block_writer import ParquetSink, sink_within
from mbe_stage.pipeline.backends.cudf.buffers import published_type
from mbe_stage.pipeline.backends.cudf.frames import Frame, Series, frame_of
from mbe_stage.pipeline.backends.cudf.member_rows import BlockRows, MemberRows, vertex_frame
from mbe_stage.pipeline.problems.base import Collecting, DerivedCollector
from mbe_stage.pipeline.problems.cliques import arrow as host
from mbe_stage.pipeline.problems.cliques.query import hashes_of
from mbe_stage.pipeline.problems.cliques.schemas import CLIQUES, vertices


@dataclass(slots=True)
class Summary:
    """Sums over all cliques of a run; sums per vertex are in device memory.

    Attributes
    ----------
    vertices : DeviceVertexStatistics
        Statistics with sizes of cliques as numbers of edges.
    members : int
        Sum of the sizes of all cliques.
    """

    vertices: DeviceVertexStatistics
    sizes: CliqueHistogramSink = field(default_factory=CliqueHistogramSink)
    fingerprint: Fingerprint = field(default_factory=Fingerprint)
    members: int = 0

    @classmethod
    def of(cls, n_vertices: int) -> Summary:
        """Return an empty summary for a graph with this many vertices."""
        return cls(DeviceVertexStatistics.of(n_vertices))

    def vertex_statistics(self) -> VertexStatistics:
        """The statistics of the vertices, in host memory."""
        return self.vertices.to_host()

    def add(self, block: DeviceCliqueBlock, keys: cp.ndarray) -> None:
        """Add one block with at least one clique, and the keys of its cliques."""
        add_to(self.fingerprint, keys)
        # A clique has at most the largest degree plus one vertices, so the array of counts is small.
        self.sizes.add_counts(cp.asnumpy(cp.bincount(block.sizes)))
        self.vertices.add(block.offsets, block.members, block.sizes.astype(cp.int64), keys)
        self.members += block.members.size


def _block(offsets: cp.ndarray, members: cp.ndarray) -> DeviceCliqueBlock:
    return DeviceCliqueBlock(cp.diff(offsets).astype(cp.int32), members)


def _lists_of(block: DeviceCliqueBlock) -> tuple[Any, ...]:
    return ((block.sizes, block.offsets, block.members),)


def _offsets_of(block: DeviceCliqueBlock) -> Iterator[cp.ndarray]:
    yield block.offsets


ROWS = MemberRows(host.ROWS, _block, lambda: DeviceCliqueBlock.empty(work_done=1.0), _lists_of, _offsets_of)
"""The table `cliques`."""


def rows_of(hashes: cp.ndarray, summary: Summary, derived: Sequence[DerivedCollector] = ()) -> BlockRows:
    """Return the maker of rows for vertices with these hashes; `derived` receives the blocks too."""

    def keys(piece: DeviceCliqueBlock) -> cp.ndarray:
        return keys_of_left_vertices(piece.offsets, piece.members, hashes)

    return BlockRows(ROWS, keys, [hashes.size], summary, derived)


def histogram_table(sizes: np.ndarray, counts: np.ndarray) -> Frame:
    """Build `size_histogram`, ascending, from `CliqueHistogramSink.sorted_rows`."""
    return frame_of({"size": sizes, "n_cliques": counts})


def vertex_table(keys: Series, degrees: cp.ndarray, cores: np.ndarray, statistics: VertexStatistics) -> Frame:
    """Build `vertices`, as `vertex_frame`; its "largest edges" are sizes of cliques."""
    return vertex_frame(vertex_schema(keys), keys, degrees, cp.asarray(cores, cp.int32), statistics)


def vertex_schema(keys: Series) -> pa.Schema:
    """Schema of the table of vertices with these keys."""
    return vertices(published_type(keys))


def sink_of(collecting: Collecting) -> ParquetSink:
    """Return the sink for the run's configuration."""
    hashes = hashes_of(collecting.config.problem_section, collecting.edges, collecting.backend)
    return sink_within(
        collecting, lambda: rows_of(hashes, Summary.of(hashes.size), collecting.derived), {"cliques": (CLIQUES, 1)}
    )

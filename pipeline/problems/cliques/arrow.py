"""Cliques in host memory: their tables, their sums and the sink that writes them while the engine searches."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import pyarrow as pa

from mbe_stage.bicliques.vertex_statistics import VertexStatistics
from mbe_stage.cliques.results import CliqueBlock, CliqueHistogramSink, Detail
from mbe_stage.pipeline.backends.arrow.member_rows import MemberRows, vertex_columns
from mbe_stage.pipeline.backends.arrow.row_sink import ListSink
from mbe_stage.pipeline.backends.arrow.summaries import LockedSums
from mbe_stage.pipeline.problems.base import Collecting
from mbe_stage.pipeline.problems.cliques.query import hashes_of
from mbe_stage.pipeline.problems.cliques.schemas import CLIQUES, SIZE_HISTOGRAM, vertices


def _lists_of(block: CliqueBlock) -> tuple[Any, ...]:
    return ((block.sizes, block.members),)


ROWS = MemberRows(CLIQUES, "clique_key", {"vertices": "size"}, CliqueBlock, _lists_of)
"""The table `cliques`."""


def histogram_table(sizes: np.ndarray, counts: np.ndarray) -> pa.Table:
    """Build `size_histogram`, ascending, from `CliqueHistogramSink.sorted_rows`."""
    return pa.table([pa.array(sizes), pa.array(counts)], schema=SIZE_HISTOGRAM)


def vertex_table(keys: pa.Array, degrees: np.ndarray, cores: np.ndarray, statistics: VertexStatistics) -> pa.Table:
    """Build `vertices`, as `vertex_columns`; its "largest edges" are sizes of cliques."""
    own = pa.array(np.asarray(cores, np.int32))
    columns = vertex_columns(keys, degrees, own, statistics=statistics)
    columns[-1] = pa.array(statistics.largest_edges.astype(np.int32))
    return pa.table(columns, schema=vertex_schema(keys))


def vertex_schema(keys: pa.Array) -> pa.Schema:
    """Schema of the table of vertices with these keys."""
    return vertices(keys.type)


class Summary(LockedSums):
    """Sums over all cliques of a run; threads add one block at a time.

    Attributes
    ----------
    fingerprint : Fingerprint
    sizes : CliqueHistogramSink
    vertices : VertexStatistics
        Statistics with sizes of cliques as numbers of edges.
    members : int
        Sum of the sizes of all cliques.
    """

    def __init__(self, n_vertices: int) -> None:
        super().__init__()
        self.sizes = CliqueHistogramSink()
        self.vertices = VertexStatistics.of(n_vertices)
        self.members = 0

    @property
    def n_bytes(self) -> int:
        """Bytes of the arrays, without the few sizes."""
        return 3 * self.vertices.n_bicliques.nbytes

    def vertex_statistics(self) -> VertexStatistics:
        """The statistics of the vertices, in host memory."""
        return self.vertices

    def add(self, block: CliqueBlock, keys: np.ndarray) -> None:
        """Add one block and the keys of its cliques."""
        assert block.sizes is not None
        assert block.members is not None
        with self._lock:
            self.fingerprint.add(keys)
            self.sizes.accept(block)
            self.vertices.add(block.sizes, block.members, block.sizes.astype(np.int64), keys)
            self.members += block.members.size

    def merge(self, other: Summary) -> None:
        """Add the sums over a disjoint part of the cliques."""
        with self._lock:
            self.fingerprint.merge(other.fingerprint)
            self.sizes.merge(other.sizes)
            self.vertices.merge(other.vertices)
            self.members += other.members


class ParquetSink(ListSink[Summary]):
    """Writes `cliques/`; keys do not depend on the column that the vertices come from."""

    detail: Literal[Detail.MEMBERS] = Detail.MEMBERS
    name, table, summary_of, is_left = "cliques", ROWS, Summary, True


def sink_of(collecting: Collecting) -> ParquetSink:
    """Return the sink for the run's configuration."""
    section = collecting.config.problem_section
    return ParquetSink.within(collecting, hashes_of(section, collecting.edges, collecting.backend))

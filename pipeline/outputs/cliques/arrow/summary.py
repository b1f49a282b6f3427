"""What is summed up over all cliques of a run while they are written."""

from __future__ import annotations

import numpy as np

from mbe_stage.bicliques.vertex_statistics import VertexStatistics
from mbe_stage.cliques.results import CliqueBlock, CliqueHistogramSink
from pipeline.backends.arrow.summaries import LockedSums

__all__ = ["Summary"]


class Summary(LockedSums):
    """What is known of all cliques after they have streamed past; threads take blocks in one at a time.

    Attributes
    ----------
    fingerprint : Fingerprint
    sizes : CliqueHistogramSink
    vertices : VertexStatistics
        Its edges are sizes of cliques.
    members : int
        Summed over all cliques.
    """

    def __init__(self, n_vertices: int) -> None:
        super().__init__()
        self.sizes = CliqueHistogramSink()
        self.vertices = VertexStatistics.of(n_vertices)
        self.members = 0

    @property
    def n_bytes(self) -> int:
        """What it takes of memory, beside the few sizes."""
        return 3 * self.vertices.n_bicliques.nbytes

    def vertex_statistics(self) -> VertexStatistics:
        """Of the vertices, in host memory."""
        return self.vertices

    def add(self, block: CliqueBlock, keys: np.ndarray) -> None:
        """Take in one block and the keys of its cliques."""
        assert block.sizes is not None
        assert block.members is not None
        with self._lock:
            self.fingerprint.add(keys)
            self.sizes.accept(block)
            self.vertices.add(block.sizes, block.members, block.sizes.astype(np.int64), keys)
            self.members += block.members.size

    def merge(self, other: Summary) -> None:
        """Take in what another part of the cliques, disjoint from these, sums up to."""
        with self._lock:
            self.fingerprint.merge(other.fingerprint)
            self.sizes.merge(other.sizes)
            self.vertices.merge(other.vertices)
            self.members += other.members

"""What is summed up over all cliques of a run while they are written."""

from __future__ import annotations

from dataclasses import dataclass, field

import cupy as cp

from mbe_stage.bicliques.cuda.keys import add_to
from mbe_stage.bicliques.cuda.vertex_statistics import DeviceVertexStatistics
from mbe_stage.bicliques.keys import Fingerprint
from mbe_stage.bicliques.vertex_statistics import VertexStatistics
from mbe_stage.cliques.cuda.blocks import DeviceCliqueBlock
from mbe_stage.cliques.results import CliqueHistogramSink

__all__ = ["Summary"]


@dataclass(slots=True)
class Summary:
    """What is known of all cliques after they have streamed past; what a vertex is in, in device memory.

    Attributes
    ----------
    vertices : DeviceVertexStatistics
        Its edges are sizes of cliques.
    members : int
        Summed over all cliques.
    """

    vertices: DeviceVertexStatistics
    sizes: CliqueHistogramSink = field(default_factory=CliqueHistogramSink)
    fingerprint: Fingerprint = field(default_factory=Fingerprint)
    members: int = 0

    @classmethod
    def of(cls, n_vertices: int) -> Summary:
        """No clique yet, of a graph of so many vertices."""
        return cls(DeviceVertexStatistics.of(n_vertices))

    def vertex_statistics(self) -> VertexStatistics:
        """Of the vertices, in host memory."""
        return self.vertices.to_host()

    def add(self, block: DeviceCliqueBlock, keys: cp.ndarray) -> None:
        """Take in one block, of one clique at least, and the keys of its cliques."""
        add_to(self.fingerprint, keys)
        # No clique is larger than a degree plus one: the counts of all sizes are a small array.
        self.sizes.add_counts(cp.asnumpy(cp.bincount(block.sizes)))
        self.vertices.add(block.offsets, block.members, block.sizes.astype(cp.int64), keys)
        self.members += block.members.size

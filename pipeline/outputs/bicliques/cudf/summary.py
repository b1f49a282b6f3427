"""What is summed up over all bicliques of a run while they are written."""

from __future__ import annotations

from dataclasses import dataclass, field

import cupy as cp

from mbe_stage.bicliques.cuda.blocks import DeviceBlock
from mbe_stage.bicliques.cuda.keys import add_to
from mbe_stage.bicliques.cuda.vertex_statistics import DeviceSizeCounts, DeviceVertexStatistics
from mbe_stage.bicliques.keys import Fingerprint
from mbe_stage.bicliques.vertex_statistics import VertexStatistics

__all__ = ["Summary"]


@dataclass(slots=True)
class Summary:
    """What is known of all bicliques after they have streamed past; in device memory.

    Attributes
    ----------
    left, right : DeviceVertexStatistics
    sizes : DeviceSizeCounts
    fingerprint : Fingerprint
    left_members, right_members : int
        Summed over all bicliques.
    """

    left: DeviceVertexStatistics
    right: DeviceVertexStatistics
    sizes: DeviceSizeCounts = field(default_factory=DeviceSizeCounts)
    fingerprint: Fingerprint = field(default_factory=Fingerprint)
    left_members: int = 0
    right_members: int = 0

    @classmethod
    def of(cls, n_left: int, n_right: int) -> Summary:
        """No biclique yet, of a graph of so many vertices."""
        return cls(DeviceVertexStatistics.of(n_left), DeviceVertexStatistics.of(n_right))

    def vertex_statistics(self) -> tuple[VertexStatistics, VertexStatistics]:
        """Of the left and of the right vertices, in host memory."""
        return self.left.to_host(), self.right.to_host()

    def merge(self, other: Summary) -> None:
        """Take in what another part of the bicliques, disjoint from these, sums up to on the same device."""
        self.fingerprint.merge(other.fingerprint)
        self.sizes.merge(other.sizes)
        self.left.merge(other.left)
        self.right.merge(other.right)
        self.left_members += other.left_members
        self.right_members += other.right_members

    def add(self, block: DeviceBlock, keys: cp.ndarray) -> None:
        """Take in one block and the keys of its bicliques."""
        n_edges = block.n_edges
        add_to(self.fingerprint, keys)
        self.sizes.add(block.left_sizes, block.right_sizes)
        self.left.add(block.left_offsets, block.left_members, n_edges, keys)
        self.right.add(block.right_offsets, block.right_members, n_edges, keys)
        self.left_members += block.left_members.size
        self.right_members += block.right_members.size

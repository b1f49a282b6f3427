"""Sums over all bicliques of a run, in device memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import cupy as cp
import numpy as np

from mbe_stage.bicliques.cuda.blocks import DeviceBlock
from mbe_stage.bicliques.cuda.keys import add_to
from mbe_stage.bicliques.cuda.vertex_statistics import DeviceSizeCounts, DeviceVertexStatistics
from mbe_stage.bicliques.keys import Fingerprint
from mbe_stage.bicliques.results import BicliqueBlock
from mbe_stage.bicliques.vertex_statistics import VertexStatistics
from mbe_stage.device.copying import take_lists
from mbe_stage.pipeline.problems.bicliques.arrow import Summary as HostSummary
from mbe_stage.pipeline.problems.bicliques.largest import Bounds, Largest


def add_largest(largest: Largest, block: DeviceBlock, n_edges: cp.ndarray, keys: cp.ndarray) -> None:
    """Add the largest bicliques of a block to the kept ones.

    Parameters
    ----------
    n_edges, keys : (n_bicliques,) int64
        Edges and keys of the block, on the device.
    """
    chosen = [_worth_keeping(each, block, n_edges, keys) for each in largest.bounds()]
    rows = cp.unique(cp.concatenate(chosen))
    if not rows.size:
        return
    left_sizes, left_members = _on_host(block.left_offsets, block.left_members, rows)
    right_sizes, right_members = _on_host(block.right_offsets, block.right_members, rows)
    found = BicliqueBlock(int(rows.size), left_sizes, right_sizes, left_members, right_members)
    largest.add(found, cp.asnumpy(n_edges[rows]), cp.asnumpy(keys[rows]))


def _on_host(offsets: cp.ndarray, members: cp.ndarray, rows: cp.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Copy sizes and members of some lists to the host, both int32."""
    taken = take_lists(offsets, members, rows)
    return np.diff(cp.asnumpy(taken[0])).astype(np.int32), cp.asnumpy(taken[1])


def _worth_keeping(bounds: Bounds, block: DeviceBlock, n_edges: cp.ndarray, keys: cp.ndarray) -> cp.ndarray:
    """Return the rows of a block that `Largest` would keep if it saw only this block, plus one that it would drop."""
    narrow = cp.minimum(block.left_sizes, block.right_sizes)
    is_better = (n_edges > bounds.least) | ((n_edges == bounds.least) & (keys <= bounds.last))
    rows = cp.flatnonzero((narrow >= bounds.fewest) & is_better)
    if not rows.size:
        return rows
    rows = rows[cp.lexsort(cp.stack([keys[rows], -n_edges[rows]]))[: bounds.n_most]]
    n_members = cp.cumsum((cp.diff(block.left_offsets) + cp.diff(block.right_offsets))[rows])
    # The extra row tells `Largest` that something was dropped.
    return rows[: max(bounds.n_at_least, int((n_members <= bounds.most_members).sum())) + 1]


@dataclass(slots=True)
class Summary:
    """Sums over all bicliques of a run, in device memory.

    Attributes
    ----------
    left_members, right_members : int
        Number of members of a side, summed over all bicliques.
    largest : Largest or None
        For the report, in host memory; None if it shows none.
    """

    left: DeviceVertexStatistics
    right: DeviceVertexStatistics
    largest: Largest | None = None
    sizes: DeviceSizeCounts = field(default_factory=DeviceSizeCounts)
    fingerprint: Fingerprint = field(default_factory=Fingerprint)
    left_members: int = 0
    right_members: int = 0

    @classmethod
    def of(cls, n_left: int, n_right: int, n_shown: int = 0) -> Summary:
        """Return an empty summary for a graph of this size and a report with `n_shown` of the largest."""
        largest = Largest(n_shown) if n_shown else None
        return cls(DeviceVertexStatistics.of(n_left), DeviceVertexStatistics.of(n_right), largest)

    def vertex_statistics(self) -> tuple[VertexStatistics, VertexStatistics]:
        """The statistics of the left and the right vertices, in host memory."""
        return self.left.to_host(), self.right.to_host()

    def sums(self) -> dict[str, np.ndarray]:
        """Return all sums except the largest as host arrays, for `restore` on any backend."""
        host = self._of_the_host()
        host.fingerprint, host.sizes = self.fingerprint, self.sizes.to_host()
        host.left, host.right = self.vertex_statistics()
        host.left_members, host.right_members = self.left_members, self.right_members
        return host.sums()

    def restore(self, sums: Mapping[str, np.ndarray]) -> None:
        """Add the result of `sums`, from any backend, for other bicliques of the same graph."""
        host = self._of_the_host()
        host.restore(sums)
        self.fingerprint.merge(host.fingerprint)
        self.sizes.add_from_host(host.sizes)
        self.left.merge(DeviceVertexStatistics.from_host(host.left))
        self.right.merge(DeviceVertexStatistics.from_host(host.right))
        self.left_members += host.left_members
        self.right_members += host.right_members

    def _of_the_host(self) -> HostSummary:
        return HostSummary(self.left.n_bicliques.size, self.right.n_bicliques.size, n_shown=0)

    def merge(self, other: Summary) -> None:
        """Add the sums over a disjoint part of the bicliques, on the same device."""
        self.fingerprint.merge(other.fingerprint)
        self.sizes.merge(other.sizes)
        self.left.merge(other.left)
        self.right.merge(other.right)
        if self.largest is not None and other.largest is not None:
            self.largest.merge(other.largest)
        self.left_members += other.left_members
        self.right_members += other.right_members

    def add(self, block: DeviceBlock, keys: cp.ndarray) -> None:
        """Add one block and the keys of its bicliques."""
        n_edges = block.n_edges
        add_to(self.fingerprint, keys)
        if self.largest is not None:
            add_largest(self.largest, block, n_edges, keys)
        self.sizes.add(block.left_sizes, block.right_sizes)
        self.left.add(block.left_offsets, block.left_members, n_edges, keys)
        self.right.add(block.right_offsets, block.right_members, n_edges, keys)
        self.left_members += block.left_members.size
        self.right_members += block.right_members.size

"""Sums over bicliques while they stay on the device: sizes, and each vertex's share.

The figures are those of `mbe_stage.bicliques.vertex_statistics`.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass

import cupy as cp
import numpy as np
from numba import cuda

from mbe_stage.bicliques.cuda.blocks import DeviceBlock
from mbe_stage.bicliques.vertex_statistics import DENSE_SIZES, SizeCounts, VertexStatistics
from mbe_stage.device.grid import this_warp
from mbe_stage.device.jit import CSR, I8, I32, I64, Lists, kernel
from mbe_stage.device.launch import launch_warps

_LARGEST_KEY = np.int64(2**63 - 1)


@dataclass(frozen=True, slots=True, eq=False)
class DeviceVertexStatistics:
    """The bicliques of each vertex of one side, as `VertexStatistics`.

    Attributes
    ----------
    n_bicliques, largest_edges, largest_keys : (n,) int64
        The key of a vertex that is in none is the largest int64.
    """

    n_bicliques: cp.ndarray
    largest_edges: cp.ndarray
    largest_keys: cp.ndarray

    @classmethod
    def of(cls, n_vertices: int) -> DeviceVertexStatistics:
        """Return statistics without bicliques."""
        return cls(
            cp.zeros(n_vertices, cp.int64), cp.zeros(n_vertices, cp.int64), cp.full(n_vertices, _LARGEST_KEY, cp.int64)
        )

    @classmethod
    def from_host(cls, statistics: VertexStatistics) -> DeviceVertexStatistics:
        """Copy the result of `to_host` into the memory of the current device."""
        n_bicliques, edges, keys = map(
            cp.asarray, (statistics.n_bicliques, statistics.largest_edges, statistics.largest_keys)
        )
        return cls(n_bicliques, edges, cp.where(n_bicliques > 0, keys, _LARGEST_KEY))

    def add(self, offsets: cp.ndarray, members: cp.ndarray, n_edges: cp.ndarray, keys: cp.ndarray) -> None:
        """Add some bicliques.

        Parameters
        ----------
        offsets : (n_bicliques + 1,) int64
            Offsets of this side's members.
        members : int32
            Dense ids, biclique after biclique.
        n_edges, keys : (n_bicliques,) int64
        """
        # Two passes: a key counts only if no biclique has more edges, which is known after the first pass.
        before, lists = self.largest_edges.copy(), Lists(offsets, members)
        launch_warps(count_warp_per_list, keys.size, lists, n_edges, self.n_bicliques, self.largest_edges)
        self.largest_keys[self.largest_edges > before] = _LARGEST_KEY
        largest = self.largest_edges, self.largest_keys
        launch_warps(smallest_key_warp_per_list, keys.size, lists, n_edges, keys, *largest)

    def merge(self, other: DeviceVertexStatistics) -> None:
        """Add the statistics of other bicliques of the same vertices, in the memory of the same device."""
        is_larger = other.largest_edges > self.largest_edges
        # For a vertex without bicliques on both sides, neither key is smaller.
        is_first = (other.largest_edges == self.largest_edges) & (other.largest_keys < self.largest_keys)
        self.largest_keys[:] = cp.where(is_larger | is_first, other.largest_keys, self.largest_keys)
        self.largest_edges[:] = cp.maximum(self.largest_edges, other.largest_edges)
        self.n_bicliques[:] += other.n_bicliques

    def to_host(self) -> VertexStatistics:
        """Copy to host memory; the key of a vertex without bicliques is 0."""
        keys = cp.where(self.n_bicliques > 0, self.largest_keys, 0)
        return VertexStatistics(*map(cp.asnumpy, (self.n_bicliques, self.largest_edges, keys)))


class DeviceSizeCounts:
    """Counts the bicliques of each size ``(n_left, n_right)``."""

    def __init__(self) -> None:
        self._dense = cp.zeros(DENSE_SIZES * DENSE_SIZES, cp.int64)
        # Bicliques with a side too large for the table are rare.
        self._others = SizeCounts()

    def add(self, left_sizes: cp.ndarray, right_sizes: cp.ndarray) -> None:
        """Add the sizes of some bicliques; both ``(n_bicliques,) int32``."""
        is_dense = (left_sizes < DENSE_SIZES) & (right_sizes < DENSE_SIZES)
        codes = left_sizes[is_dense] * DENSE_SIZES + right_sizes[is_dense]
        if codes.size:
            # Not `bincount`: CuPy compiles its reductions for some sizes anew, each for seconds.
            cp.add.at(self._dense.view(cp.uint64), codes, 1)
        self._others.add_large(cp.asnumpy(left_sizes[~is_dense]), cp.asnumpy(right_sizes[~is_dense]))

    def merge(self, other: DeviceSizeCounts) -> None:
        """Add the counts of other bicliques, in the memory of the same device."""
        self._dense += other._dense
        self._others.merge(other._others)

    def add_from_host(self, counts: SizeCounts) -> None:
        """Add the counts of other bicliques, in host memory."""
        self._others.merge(counts)

    def to_host(self) -> SizeCounts:
        """Copy to host memory."""
        counts = deepcopy(self._others)
        counts.add_dense(cp.asnumpy(self._dense).reshape(DENSE_SIZES, DENSE_SIZES))
        return counts

    def sorted_rows(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """``(n_left, n_right, n_bicliques)`` of every existing size, on the host, ascending by the first two."""
        return self.to_host().sorted_rows()


def long_form(block: DeviceBlock, keys: cp.ndarray) -> tuple[cp.ndarray, cp.ndarray, cp.ndarray]:
    """Make one row per member: each biclique's left members, then its right members, then the next biclique.

    Returns
    -------
    keys : (n_members,) int64
    sides : (n_members,) int8
        0 is left, 1 is right.
    vertices : (n_members,) int32
    """
    n = block.left_members.size + block.right_members.size
    rows = cp.empty(n, cp.int64), cp.empty(n, cp.int8), cp.empty(n, cp.int32)
    left, right = Lists(block.left_offsets, block.left_members), Lists(block.right_offsets, block.right_members)
    launch_warps(long_form_warp_per_biclique, block.n_bicliques, keys, left, right, *rows)
    return rows


@kernel(CSR, I64, I64, I64)
def count_warp_per_list(lists, n_edges, n_bicliques, largest_edges):
    """Add one biclique to each member, and update the most edges of its bicliques."""
    index = this_warp()
    if index >= n_edges.size:
        return
    edges = n_edges[index]
    for i in range(lists.offsets[index] + cuda.laneid, lists.offsets[index + 1], 32):
        vertex = lists.members[i]
        cuda.atomic.add(n_bicliques, vertex, 1)
        # The figure only grows, so an old value is at most too small, and nearly all are spared the atomic.
        if largest_edges[vertex] < edges:
            cuda.atomic.max(largest_edges, vertex, edges)


@kernel(CSR, I64, I64, I64, I64)
def smallest_key_warp_per_list(lists, n_edges, keys, largest_edges, largest_keys):
    """Find the smallest key among each member's bicliques of most edges; it is the largest int64 before."""
    index = this_warp()
    if index >= n_edges.size:
        return
    edges, key = n_edges[index], keys[index]
    for i in range(lists.offsets[index] + cuda.laneid, lists.offsets[index + 1], 32):
        vertex = lists.members[i]
        if largest_edges[vertex] == edges and largest_keys[vertex] > key:
            cuda.atomic.min(largest_keys, vertex, key)


@kernel(I64, CSR, CSR, I64, I8, I32)
def long_form_warp_per_biclique(keys, left, right, out_keys, sides, vertices):
    """Write the rows of a biclique, behind those of all earlier bicliques: see `long_form`.

    Parameters
    ----------
    keys : (n,) int64, global
    left, right : Lists
        Members of each biclique.
    out_keys, sides, vertices : (n_members,) int64, int8 and int32, global
    """
    index = this_warp()
    if index >= keys.size:
        return
    key = keys[index]
    before = right.offsets[index]
    for i in range(left.offsets[index] + cuda.laneid, left.offsets[index + 1], 32):
        out_keys[before + i], sides[before + i], vertices[before + i] = key, 0, left.members[i]
    before = left.offsets[index + 1]
    for i in range(right.offsets[index] + cuda.laneid, right.offsets[index + 1], 32):
        out_keys[before + i], sides[before + i], vertices[before + i] = key, 1, right.members[i]

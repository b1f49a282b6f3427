"""What is summed up over all bicliques of a run while they are written."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from mbe_stage.bicliques.results import BicliqueBlock
from mbe_stage.bicliques.vertex_statistics import SizeCounts, VertexStatistics
from mbe_stage.pipeline.backends.arrow.summaries import LockedSums
from mbe_stage.pipeline.problems.bicliques.largest import Largest

__all__ = ["Summary"]

_STATISTICS = ("n_bicliques", "largest_edges", "largest_keys")


class Summary(LockedSums):
    """What is known of all bicliques after they have streamed past.

    Attributes
    ----------
    fingerprint : Fingerprint
    sizes : SizeCounts
    left, right : VertexStatistics
    left_members, right_members : int
        Summed over all bicliques.
    largest : Largest or None
        For the report, which shows `n_shown` of them; None where it shows none.

    Notes
    -----
    Threads take blocks in one at a time; `pipeline.backends.arrow.summaries` has several of these.
    """

    def __init__(self, n_left: int, n_right: int, n_shown: int = 20) -> None:
        super().__init__()
        self.largest = Largest(n_shown) if n_shown else None
        self.sizes = SizeCounts()
        self.left = VertexStatistics.of(n_left)
        self.right = VertexStatistics.of(n_right)
        self.left_members = 0
        self.right_members = 0

    @property
    def n_bytes(self) -> int:
        """What it takes of memory, beside the largest."""
        of_sides = (getattr(side, name).nbytes for side in (self.left, self.right) for name in _STATISTICS)
        return sum(of_sides) + self.sizes.n_bytes

    def vertex_statistics(self) -> tuple[VertexStatistics, VertexStatistics]:
        """Of the left and of the right vertices, in host memory."""
        return self.left, self.right

    def sums(self) -> dict[str, np.ndarray]:
        """All of it as arrays, for `restore`."""
        mark, sizes = self.fingerprint, self.sizes.sorted_rows()
        numbers = (mark.n_items, mark.first, mark.second, self.left_members, self.right_members)
        statistics = {
            f"{side}_{name}": getattr(of_side, name)
            for side, of_side in (("left", self.left), ("right", self.right))
            for name in _STATISTICS
        }
        return {"numbers": np.array(numbers, np.uint64), "sizes": np.stack(sizes).astype(np.int64), **statistics}

    def restore(self, sums: Mapping[str, np.ndarray]) -> None:
        """Take back what `sums` gave of other bicliques of the same graph."""
        *mark, left_members, right_members = map(int, sums["numbers"])
        other = Summary(self.left.n_bicliques.size, self.right.n_bicliques.size)
        other.fingerprint.add_sums(*mark)
        other.sizes.add_counts(*sums["sizes"])
        for side in ("left", "right"):
            setattr(other, side, VertexStatistics(*(sums[f"{side}_{name}"] for name in _STATISTICS)))
        other.left_members, other.right_members = left_members, right_members
        self.merge(other)

    def merge(self, other: Summary) -> None:
        """Take in what another part of the bicliques, disjoint from these, sums up to."""
        with self._lock:
            self.fingerprint.merge(other.fingerprint)
            self.sizes.merge(other.sizes)
            self.left.merge(other.left)
            self.right.merge(other.right)
            if self.largest is not None and other.largest is not None:
                self.largest.merge(other.largest)
            self.left_members += other.left_members
            self.right_members += other.right_members

    def add(self, block: BicliqueBlock, keys: np.ndarray) -> None:
        """Take in one block and the keys of its bicliques."""
        left_sizes, left_members = block.left_sizes, block.left_members
        right_sizes, right_members = block.right_sizes, block.right_members
        assert left_sizes is not None
        assert left_members is not None
        assert right_sizes is not None
        assert right_members is not None
        n_edges = left_sizes.astype(np.int64) * right_sizes
        with self._lock:
            self.fingerprint.add(keys)
            if self.largest is not None:
                self.largest.add(block, n_edges, keys)
            self.sizes.add(left_sizes, right_sizes)
            self.left.add(left_sizes, left_members, n_edges, keys)
            self.right.add(right_sizes, right_members, n_edges, keys)
            self.left_members += left_members.size
            self.right_members += right_members.size

"""Blocks of bicliques in device memory, the counterpart of `BicliqueBlock`."""

from __future__ import annotations

from dataclasses import dataclass, replace

import cupy as cp

from mbe_stage.bicliques.results import BicliqueBlock
from mbe_stage.device.peers import brought_here
from mbe_stage.tasks import Remaining


@dataclass(frozen=True, slots=True, eq=False)
class DeviceBlock:
    """A block of bicliques in device memory, ready to be list columns.

    Attributes
    ----------
    left_offsets, right_offsets : (n_bicliques + 1,) int64
    left_members, right_members : int32
        Dense ids of the user's graph, ascending within each biclique.
    work_done : float
        Share of the whole work that is finished with this block, 0 to 1 (an estimate).
    remaining : tuple of Task or OpenWork, or None
        As in `BicliqueBlock`: the remaining tasks, in an empty block that marks a barrier.
    """

    left_offsets: cp.ndarray
    left_members: cp.ndarray
    right_offsets: cp.ndarray
    right_members: cp.ndarray
    work_done: float = 0.0
    remaining: Remaining | None = None

    @classmethod
    def empty(cls, work_done: float, remaining: Remaining | None = None) -> DeviceBlock:
        """Make a block without bicliques, which only reports progress or marks a barrier."""
        offsets, members = cp.zeros(1, cp.int64), cp.empty(0, cp.int32)
        return cls(offsets, members, offsets, members, work_done, remaining)

    @classmethod
    def from_host(cls, block: BicliqueBlock) -> DeviceBlock:
        """Copy a block at `Detail.MEMBERS` into the memory of the current device."""
        left = cp.asarray(block.left_offsets, cp.int64), cp.asarray(block.left_members)
        right = cp.asarray(block.right_offsets, cp.int64), cp.asarray(block.right_members)
        return cls(*left, *right, block.work_done, block.remaining)

    def __len__(self) -> int:
        return self.n_bicliques

    @property
    def n_bicliques(self) -> int:
        """Number of bicliques. Zero is allowed: such a block only reports progress."""
        return int(self.left_offsets.size) - 1

    @property
    def left_sizes(self) -> cp.ndarray:
        """Number of left members of each, ``(n_bicliques,) int32``."""
        return cp.diff(self.left_offsets).astype(cp.int32)

    @property
    def right_sizes(self) -> cp.ndarray:
        """Number of right members of each, ``(n_bicliques,) int32``."""
        return cp.diff(self.right_offsets).astype(cp.int32)

    @property
    def n_edges(self) -> cp.ndarray:
        """Number of edges of each, ``(n_bicliques,) int64``."""
        return cp.diff(self.left_offsets) * cp.diff(self.right_offsets)

    def swapped(self) -> DeviceBlock:
        """Return the same block with its sides exchanged."""
        return DeviceBlock(self.right_offsets, self.right_members, self.left_offsets, self.left_members, self.work_done)

    def first(self, n: int) -> DeviceBlock:
        """The first `n` bicliques of this block, as views."""
        return self if n >= self.n_bicliques else self.part(0, n)

    def brought_here(self) -> DeviceBlock:
        """Copy the block into the memory of the current device; it has to be complete."""
        names = ("left_offsets", "left_members", "right_offsets", "right_members")
        arrays = brought_here(*(getattr(self, name) for name in names))
        return replace(self, **dict(zip(names, arrays, strict=True)))

    def part(self, start: int, stop: int) -> DeviceBlock:
        """Bicliques `start` to `stop`; the members are views, the offsets begin at 0 again."""
        left, right = self.left_offsets[start : stop + 1], self.right_offsets[start : stop + 1]
        bounds = cp.asnumpy(cp.stack([left[0], left[-1], right[0], right[-1]])).tolist()
        return DeviceBlock(
            left - left[0],
            self.left_members[bounds[0] : bounds[1]],
            right - right[0],
            self.right_members[bounds[2] : bounds[3]],
            self.work_done,
        )

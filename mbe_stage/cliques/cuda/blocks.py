"""Blocks of cliques in device memory, like `CliqueBlock` on the host."""

from __future__ import annotations

from dataclasses import dataclass, replace

import cupy as cp

from mbe_stage.cliques.results import CliqueBlock
from mbe_stage.device.peers import brought_here
from mbe_stage.tasks import Remaining


@dataclass(frozen=True, slots=True, eq=False)
class DeviceCliqueBlock:
    """A block of cliques in device memory.

    Attributes
    ----------
    sizes : (n_cliques,) int32
        Number of members of each clique.
    members : int32
        Dense ids, clique after clique, ascending within each.
    work_done : float
        Estimated share of the whole work finished with this block, 0 to 1.
    remaining : tuple of Task or OpenWork, or None
        As in `CliqueBlock`: the remaining tasks, in an empty block that marks a barrier.
    """

    sizes: cp.ndarray
    members: cp.ndarray
    work_done: float = 0.0
    remaining: Remaining | None = None

    @classmethod
    def empty(cls, work_done: float, remaining: Remaining | None = None) -> DeviceCliqueBlock:
        """Make a block without cliques, which only reports progress or marks a barrier."""
        return cls(cp.empty(0, cp.int32), cp.empty(0, cp.int32), work_done, remaining)

    @classmethod
    def from_host(cls, block: CliqueBlock) -> DeviceCliqueBlock:
        """Copy a block at `Detail.MEMBERS` into the memory of the current device."""
        return cls(cp.asarray(block.sizes), cp.asarray(block.members), block.work_done, block.remaining)

    def __len__(self) -> int:
        return self.n_cliques

    @property
    def n_cliques(self) -> int:
        """Number of cliques. A block with none only reports progress."""
        return int(self.sizes.size)

    @property
    def offsets(self) -> cp.ndarray:
        """Offset of each clique's members, ``(n_cliques + 1,) int64``."""
        offsets = cp.zeros(self.n_cliques + 1, cp.int64)
        cp.cumsum(self.sizes, dtype=cp.int64, out=offsets[1:])
        return offsets

    def brought_here(self) -> DeviceCliqueBlock:
        """Copy the block, which must be complete, into the memory of the current device."""
        sizes, members = brought_here(self.sizes, self.members)
        return replace(self, sizes=sizes, members=members)

    def first(self, n: int) -> DeviceCliqueBlock:
        """Return the first `n` cliques of this block, as views."""
        return self if n >= self.n_cliques else self.part(0, n)

    def part(self, start: int, stop: int) -> DeviceCliqueBlock:
        """Return the cliques `start` to `stop` of this block, as views."""
        first = int(self.sizes[:start].sum(dtype=cp.int64))
        end = first + int(self.sizes[start:stop].sum(dtype=cp.int64))
        return DeviceCliqueBlock(self.sizes[start:stop], self.members[first:end], self.work_done)

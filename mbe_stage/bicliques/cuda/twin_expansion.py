"""Turn bicliques of the reduced graph into the user's vertices, on the device: expand twins, sort members.

There are two steps, with one look at the sums between them. The first computes the length of every list. It is enqueued
behind the walk, so that lengths are known when the host learns of the walk's end. The second writes all lists, in
blocks if they are too many for one. Another launch sorts long lists.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import cupy as cp
import numpy as np

from mbe_stage.bicliques.cuda.blocks import DeviceBlock
from mbe_stage.bicliques.cuda.collapse_twins import DeviceGroups
from mbe_stage.bicliques.cuda.layout import Output
from mbe_stage.bicliques.cuda.twin_expansion_kernels import (
    LEFT,
    LONG,
    LONGEST_STAGED,
    RIGHT,
    SECTIONS,
    TILE,
    USED,
    expanded_lists_warp_per_tile,
    full_sizes_warp_per_tile,
    sort_long_lists_block_per_list,
)
from mbe_stage.device.arrays import kernel_bundles, kernel_views
from mbe_stage.device.grid import THREADS, WARPS_PER_BLOCK, on_grid
from mbe_stage.device.jit import Lists
from mbe_stage.device.memory_budget import device_work

MOST_BLOCKS = 1 << 11
"""More blocks than are resident at once."""


@dataclass(frozen=True, slots=True, eq=False)
class ListSizes:
    """Lengths of the lists of bicliques after expansion; allocated once a run, computed again for each quantum.

    Attributes
    ----------
    groups : pair of DeviceGroups
        Those of the left and of the right side.
    full : (2, most slots) int32
        The user's vertices in each list, for the taken slots.
    parts, sums : (1 + SECTIONS * n_tiles,) int64
        A 0, then bicliques, left and right vertices, and long lists of each tile, section after section; and their sums
        before each tile.
    ends : (1 + SECTIONS,) int64
        The sums before each section, and after the last.
    """

    groups: tuple[DeviceGroups, DeviceGroups]
    full: cp.ndarray
    parts: cp.ndarray
    sums: cp.ndarray
    ends: cp.ndarray

    @property
    def n_tiles(self) -> int:
        """Number of tiles of all slots."""
        return (self.sums.size - 1) // SECTIONS


@dataclass(frozen=True, slots=True, eq=False)
class SlotRange:
    """The slots from `begin` to `stop`, and the sums of each section at both, (SECTIONS,) int64."""

    begin: int
    stop: int
    before: np.ndarray
    behind: np.ndarray


def room_for_sizes(n_slots: int, groups: tuple[DeviceGroups, DeviceGroups]) -> ListSizes:
    """Allocate sizes for this number of bicliques, with the groups of the left and of the right side."""
    n_sums = 1 + SECTIONS * -(-n_slots // TILE)
    parts, sums, ends = (cp.empty(n, cp.int64) for n in (n_sums, n_sums, 1 + SECTIONS))
    return ListSizes(groups, cp.empty((2, n_slots), cp.int32), parts, sums, ends)


def work_out_sizes(sizes: ListSizes, found: Output, taken: cp.ndarray) -> None:
    """Enqueue the computation of all list lengths, behind the kernels that write `found` and `taken`.

    Parameters
    ----------
    found : Output
        In ids of the reduced graph. Slots of left size 0 are unused.
    taken : (1,) int64
        Number of taken slots; a larger number means all.
    """
    sizes.parts.fill(0)
    kernel = full_sizes_warp_per_tile
    on_grid(kernel, min(_blocks(sizes.n_tiles), MOST_BLOCKS), THREADS)(
        *kernel_bundles(kernel, found),
        *kernel_views(taken),
        *kernel_bundles(kernel, *sizes.groups),
        *kernel_views(sizes.full, sizes.parts),
    )
    cp.cumsum(sizes.parts, out=sizes.sums)
    sizes.ends[:] = sizes.sums[:: sizes.n_tiles]


def expanded(
    found: Output, n_slots: int, sizes: ListSizes, range_members: int, budget_bytes: int
) -> Iterator[DeviceBlock]:
    """Yield blocks of at most `range_members` members, a larger biclique alone; none if there are no bicliques.

    Parameters
    ----------
    found : Output
        Output of a quantum.
    n_slots : int
        Slots taken by it.
    sizes : ListSizes
        Computed for it.
    budget_bytes : int
        Named in the error if the device has less memory than promised.

    Raises
    ------
    MemoryBudgetExceeded
        The device has less memory.
    """
    for slot_range in slot_ranges(sizes, n_slots, range_members):
        with device_work(budget_bytes):
            block = block_of_range(found, sizes, slot_range)
        yield block


def slot_ranges(sizes: ListSizes, n_slots: int, range_members: int) -> Iterator[SlotRange]:
    """Cut between bicliques, so that each range has at most `range_members` members or is a single biclique."""
    ends = cp.asnumpy(sizes.ends)
    totals = np.diff(ends)
    if totals[LEFT] + totals[RIGHT] <= range_members:
        if totals[USED]:
            yield SlotRange(0, n_slots, ends[:-1], ends[1:])
        return
    n_tiles = sizes.n_tiles
    sums = cp.asnumpy(sizes.sums)
    section = n_tiles * np.arange(SECTIONS)
    members = sums[LEFT * n_tiles :][: n_tiles + 1] + sums[RIGHT * n_tiles :][: n_tiles + 1]
    last = sums[section + n_tiles]
    stop, behind = 0, sums[section]
    while behind[USED] < last[USED]:
        begin, before = stop, behind
        most = before[LEFT] + before[RIGHT] + range_members
        tile = int(np.searchsorted(members, most, side="right")) - 1
        stop, behind = min(tile * TILE, n_slots), sums[section + tile]
        if tile < n_tiles:
            full = cp.asnumpy(sizes.full[:, stop : min(stop + TILE, n_slots)]).astype(np.int64)
            n_more = int(np.searchsorted(members[tile] + np.cumsum(full.sum(axis=0)), most, side="right"))
            counts = _counts(full[:, :n_more])
            if behind[USED] + counts[USED] == before[USED]:
                # The next biclique alone is larger than a range should be.
                n_more += 1
                counts = _counts(full[:, :n_more])
            stop, behind = stop + n_more, behind + counts
        yield SlotRange(begin, stop, before, behind)


def _counts(full: np.ndarray) -> np.ndarray:
    """Sums of some of a tile's slots, as the kernel computes them."""
    left, right = full
    return np.array([(left > 0).sum(), left.sum(), right.sum(), (full > LONGEST_STAGED).sum()])


def block_of_range(found: Output, sizes: ListSizes, slot_range: SlotRange) -> DeviceBlock:
    """Make a block of a range's bicliques, with the user's vertices."""
    n = slot_range.behind - slot_range.before
    left, right = (
        Lists(cp.empty(int(n[USED]) + 1, cp.int64), cp.empty(int(n[side]), cp.int32)) for side in (LEFT, RIGHT)
    )
    n_long = int(n[LONG])
    long_lists = cp.empty(max(1, n_long), cp.int64)
    kernel = expanded_lists_warp_per_tile
    on_grid(kernel, _blocks(-(-slot_range.stop // TILE) - slot_range.begin // TILE), THREADS)(
        *kernel_bundles(kernel, found),
        *kernel_views(sizes.full, sizes.sums),
        *kernel_bundles(kernel, *sizes.groups, left, right),
        *kernel_views(long_lists),
        slot_range.begin,
        slot_range.stop,
        tuple(slot_range.before.tolist()),
    )
    if n_long:
        kernel = sort_long_lists_block_per_list
        on_grid(kernel, n_long, THREADS)(*kernel_bundles(kernel, left, right), *kernel_views(long_lists))
    return DeviceBlock(*left, *right)


def _blocks(n_warps: int) -> int:
    return -(-n_warps // WARPS_PER_BLOCK)

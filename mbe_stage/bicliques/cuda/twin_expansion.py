"""Turn bicliques of the reduced graph into the user's vertices, on the device: expand twins, sort members.

There are two steps, with one look at the sums between them. The first computes the length of every list. It is enqueued
behind the walk, so that lengths are known when the host learns of the walk's end. The second writes all lists, in
blocks if they are too many for one. Another launch sorts long lists.

The kernels take 32 bicliques per warp (a *tile*). Most lists have a few entries, some have thousands. So the lanes of a
warp do not take a list each: they share the entries of all 32, and `owner_of` finds the list of an entry. A list is
sorted in one of three ways, by its length: each vertex counts the smaller ones, its warp sorts it in shared memory, or
a block sorts it in place.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import cupy as cp
import numpy as np
from numba import cuda, types

from mbe_stage.bicliques.cuda.blocks import DeviceBlock
from mbe_stage.bicliques.cuda.collapse_twins import GROUPS, DeviceGroups
from mbe_stage.bicliques.cuda.kernels import OUTPUT
from mbe_stage.bicliques.cuda.layout import Output
from mbe_stage.device import WARPS_PER_BLOCK
from mbe_stage.device.grid import THREADS
from mbe_stage.device.jit import CSR, I32_2D, I64, INT, Lists, kernel
from mbe_stage.device.launch import launch_blocks
from mbe_stage.device.memory_budget import device_work
from mbe_stage.device.sorting import sort_by_block, sort_by_warp
from mbe_stage.device.warp import ALL, ballot, inclusive_sum, inclusive_sum_64, owner_of, rank, sum_all

TILE = 32
LONGEST_STAGED = 512
"""Most vertices that a warp sorts in shared memory; longer lists are long."""
_LONGEST_COUNTED = 32
"""Longest list sorted by counting, which takes the square of its length."""
# Numbers of each tile: bicliques, left and right vertices, long lists.
USED, LEFT, RIGHT, LONG = range(4)
SECTIONS = 4
_U, _W = np.uint32, np.uint64
MOST_BLOCKS = 1 << 11
"""More blocks than are resident at once."""


@cuda.jit(device=True, forceinline=True)
def _group_size(groups, group):
    """Number of vertices of a row or column."""
    return np.int32(groups.offsets[_W(group) + _W(1)] - groups.offsets[_W(group)])


class Entries(NamedTuple):
    """The lists of the lanes, joined.

    Attributes
    ----------
    members : int32, global
        In ids of the reduced graph.
    source : int64
        What is added to the number of an entry of this lane's list for its position among the members.
    ends : int32
        End of this lane's list among the entries.
    """

    members: Any
    source: Any
    ends: Any


@cuda.jit(device=True, forceinline=True)
def _owner_and_place(k, entries):
    """The lane of an entry, and its position among the members."""
    owner = owner_of(k, entries.ends)
    return owner, cuda.shfl_sync(ALL, entries.source, owner) + k


@cuda.jit(device=True, forceinline=True)
def _add_twins(members, start, n, groups, more):
    """Add to ``more[lane]`` the vertices of this lane's list in excess of its entries."""
    ends = inclusive_sum(n)
    n_entries = cuda.shfl_sync(ALL, ends, 31)
    entries = Entries(members, start - (ends - n), ends)
    for tile in range(0, n_entries, 32):
        entry = np.int32(tile + cuda.laneid)
        owner, place = _owner_and_place(entry, entries)
        if entry < n_entries:
            group = members[_W(place)]
            if groups.alone[_U(group)] < 0:
                cuda.atomic.add(more, owner, np.int32(_group_size(groups, group) - 1))


@kernel(OUTPUT, I64, GROUPS, GROUPS, I32_2D, I64, seconds=1.0)
def full_sizes_warp_per_tile(found, taken, left_groups, right_groups, full, parts):
    """Count the user's vertices of each list, 0 in unused slots, and sum them for each tile. Warps take tiles in turn.

    Parameters
    ----------
    taken : (1,) int64, global
        Number of taken slots, which the host does not know yet; a larger number means all.
    full, parts
        As in `ListSizes`; `parts` is all zeros before.
    """
    lane = cuda.laneid
    more = cuda.shared.array((WARPS_PER_BLOCK, 2, TILE), types.int32)[cuda.threadIdx.x // TILE]
    tile = cuda.blockIdx.x * WARPS_PER_BLOCK + cuda.threadIdx.x // TILE
    n_tiles = (parts.size - 1) // SECTIONS
    n_slots = min(taken[0], found.left_sizes.size)
    while tile * TILE < n_slots:
        slot = tile * TILE + lane
        start = np.int64(0)
        n_left = np.int32(0)
        n_right = np.int32(0)
        if slot < n_slots:
            n_left = found.left_sizes[slot]
            if n_left > 0:
                n_right = found.right_sizes[slot]
                start = found.starts[slot]
        more[0, lane] = 0
        more[1, lane] = 0
        cuda.syncwarp()
        _add_twins(found.members, start, n_left, left_groups, more[0])
        _add_twins(found.members, start + n_left, n_right, right_groups, more[1])
        cuda.syncwarp()
        left = np.int32(n_left + more[0, lane])
        right = np.int32(n_right + more[1, lane])
        if slot < n_slots:
            full[0, slot] = left
            full[1, slot] = right
        n_used = cuda.popc(ballot(left > 0))
        n_long = cuda.popc(ballot(left > LONGEST_STAGED)) + cuda.popc(ballot(right > LONGEST_STAGED))
        in_left, in_right = sum_all(left), sum_all(right)
        if lane == 0:
            parts[1 + USED * n_tiles + tile] = n_used
            parts[1 + LEFT * n_tiles + tile] = in_left
            parts[1 + RIGHT * n_tiles + tile] = in_right
            parts[1 + LONG * n_tiles + tile] = n_long
        tile += cuda.gridDim.x * WARPS_PER_BLOCK


@cuda.jit(device=True, forceinline=True)
def _gather(first, last, entries, groups, target, to):
    """Write the vertices of the entries `first` to `last`, list by list, to shared or global memory from `to` on."""
    lane = cuda.laneid
    for tile in range(first, last, 32):
        entry = np.int32(tile + lane)
        _, place = _owner_and_place(entry, entries)
        vertex = np.int32(0)
        size = np.int32(0)
        group = np.int32(0)
        if entry < last:
            group = entries.members[_W(place)]
            vertex = groups.alone[_U(group)]
            size = np.int32(1) if vertex >= 0 else _group_size(groups, group)
        if not cuda.any_sync(ALL, vertex < 0):
            if entry < last:
                target[_W(to + lane)] = vertex
            to += min(32, last - tile)
        else:
            group_ends = inclusive_sum(size)
            n_vertices = cuda.shfl_sync(ALL, group_ends, 31)
            vertices = Entries(groups.members, groups.offsets[_W(group)] - (group_ends - size), group_ends)
            for part in range(0, n_vertices, 32):
                k = np.int32(part + lane)
                _, place = _owner_and_place(k, vertices)
                if k < n_vertices:
                    target[_W(to + k)] = groups.members[_W(place)]
            to += n_vertices


@cuda.jit(device=True, forceinline=True)
def _n_smaller(staged, begin, end, vertex):
    """Count the smaller ones in ``staged[begin:end]``. These types make the loop unroll, four instructions each."""
    n = _U(0)
    k = _W(begin)
    while k < _W(end):
        if staged[k] < vertex:
            n = _U(n + _U(1))
        k = _W(k + _W(1))
    return np.int32(n)


@cuda.jit(device=True, forceinline=True)
def _write_staged(staged, begins, ends, chosen, n_vertices, result, to):
    """Write the lists in shared memory, in ascending order, to `result` from `to` on.

    Parameters
    ----------
    staged : (LONGEST_STAGED,) int32, shared
    begins, ends : int32
        Range of this lane's list in it.
    chosen : bool
        True if the list is in it.
    result : int32, global
    """
    lane = cuda.laneid
    for tile in range(0, n_vertices, 32):
        place = np.int32(tile + lane)
        owner = owner_of(place, ends)
        begin, end = cuda.shfl_sync(ALL, begins, owner), cuda.shfl_sync(ALL, ends, owner)
        if place < n_vertices and end - begin <= _LONGEST_COUNTED:
            mine = staged[_U(place)]
            result[_W(to + begin + _n_smaller(staged, begin, end, mine))] = mine
    longer = ballot(chosen and ends - begins > _LONGEST_COUNTED)
    while longer != 0:
        owner = cuda.ffs(longer) - 1
        longer &= longer - _U(1)
        begin, end = cuda.shfl_sync(ALL, begins, owner), cuda.shfl_sync(ALL, ends, owner)
        sort_by_warp(staged, begin, end)
        for k in range(begin + lane, end, 32):
            result[_W(to + k)] = staged[_U(k)]


@cuda.jit(device=True, forceinline=True)
def _write_side(members, start, n, full, groups, result, to, staged):
    """Write the lanes' lists contiguously to `result` from `to` on, each ascending unless it is long.

    Parameters
    ----------
    members : int32, global
        In ids of the reduced graph.
    start, n, full
        First of this lane's entries, int64, their number, and that of its vertices after expansion.
    staged : (LONGEST_STAGED,) int32, shared
        The warp's.
    """
    lane = cuda.laneid
    ends = inclusive_sum(n)
    entries = Entries(members, start - (ends - n), ends)
    full_ends = inclusive_sum_64(full)
    done = 0
    while done < TILE:
        before = cuda.shfl_sync(ALL, full_ends - full, done)
        first = cuda.shfl_sync(ALL, ends - n, done)
        fits = lane >= done and full_ends - before <= LONGEST_STAGED
        n_lists = cuda.popc(ballot(fits))
        last = cuda.shfl_sync(ALL, ends, done + max(n_lists, 1) - 1)
        if n_lists == 0:
            _gather(first, last, entries, groups, result, to + before)
            done += 1
        else:
            _gather(first, last, entries, groups, staged, 0)
            done += n_lists
            cuda.syncwarp()
            # Earlier lists have ended; those that do not fit end behind the last place.
            staged_ends = np.int32(max(0, min(full_ends - before, LONGEST_STAGED + 1)))
            n_vertices = cuda.shfl_sync(ALL, staged_ends, done - 1)
            _write_staged(staged, np.int32(staged_ends - full), staged_ends, fits, n_vertices, result, to + before)
            cuda.syncwarp()


@kernel(OUTPUT, I32_2D, I64, GROUPS, GROUPS, CSR, CSR, I64, INT, INT, types.UniTuple(INT, SECTIONS), seconds=3.0)
def expanded_lists_warp_per_tile(
    found, full, sums, left_groups, right_groups, left_lists, right_lists, long_lists, begin, stop, before
):
    """Write the slots from `begin` to `stop` as a block: offsets, and members, ascending in lists that are not long.

    Parameters
    ----------
    full, sums
        As in `ListSizes`; `before` has the sums at `begin`, for each section.
    left_lists, right_lists : Lists
        Receive the two sides.
    long_lists : int64, global
        Receives the numbers of long lists: twice that of the biclique, plus 1 on the right.
    """
    lane = cuda.laneid
    warp = cuda.threadIdx.x // TILE
    staged = cuda.shared.array((WARPS_PER_BLOCK, LONGEST_STAGED), types.int32)[warp]
    tile = begin // TILE + cuda.blockIdx.x * WARPS_PER_BLOCK + warp
    if tile * TILE >= stop:
        return
    n_tiles = (sums.size - 1) // SECTIONS
    slot = tile * TILE + lane
    start = np.int64(0)
    n_left = np.int32(0)
    n_right = np.int32(0)
    left = np.int32(0)
    right = np.int32(0)
    if begin <= slot < stop:
        left = full[0, slot]
    if left > 0:
        right = full[1, slot]
        start, n_left, n_right = found.starts[slot], found.left_sizes[slot], found.right_sizes[slot]
    # The first tile may begin before the block; its slots there are left out.
    number = max(0, sums[USED * n_tiles + tile] - before[USED]) + rank(ballot(left > 0))
    left_to = max(0, sums[LEFT * n_tiles + tile] - before[LEFT])
    right_to = max(0, sums[RIGHT * n_tiles + tile] - before[RIGHT])
    left_end, right_end = left_to + inclusive_sum_64(left), right_to + inclusive_sum_64(right)
    if left > 0:
        left_lists.offsets[number + 1] = left_end
        right_lists.offsets[number + 1] = right_end
    if tile == begin // TILE and lane == 0:
        left_lists.offsets[0] = 0
        right_lists.offsets[0] = 0
    long_left, long_right = ballot(left > LONGEST_STAGED), ballot(right > LONGEST_STAGED)
    entered = max(0, sums[LONG * n_tiles + tile] - before[LONG])
    if left > LONGEST_STAGED:
        long_lists[entered + rank(long_left)] = 2 * number
    if right > LONGEST_STAGED:
        long_lists[entered + cuda.popc(long_left) + rank(long_right)] = 2 * number + 1
    _write_side(found.members, start, n_left, left, left_groups, left_lists.members, left_to, staged)
    _write_side(found.members, start + n_left, n_right, right, right_groups, right_lists.members, right_to, staged)


@kernel(CSR, CSR, I64)
def sort_long_lists_block_per_list(left_lists, right_lists, long_lists):
    """Sort the entered lists in place."""
    entry = long_lists[cuda.blockIdx.x]
    number = entry >> 1
    lists = left_lists if entry & 1 == 0 else right_lists
    begin, end = lists.offsets[number], lists.offsets[number + 1]
    sort_by_block(lists.members, begin, end)


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
    n_blocks, arrays = min(_blocks(sizes.n_tiles), MOST_BLOCKS), (*sizes.groups, sizes.full, sizes.parts)
    launch_blocks(full_sizes_warp_per_tile, n_blocks, THREADS, found, taken, *arrays)
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
    begin, stop, before = slot_range.begin, slot_range.stop, tuple(slot_range.before.tolist())
    n_blocks, arrays = _blocks(-(-stop // TILE) - begin // TILE), (found, sizes.full, sizes.sums, *sizes.groups)
    lists = left, right, long_lists
    launch_blocks(expanded_lists_warp_per_tile, n_blocks, THREADS, *arrays, *lists, begin, stop, before)
    if n_long:
        launch_blocks(sort_long_lists_block_per_list, n_long, THREADS, *lists)
    return DeviceBlock(*left, *right)


def _blocks(n_warps: int) -> int:
    return -(-n_warps // WARPS_PER_BLOCK)

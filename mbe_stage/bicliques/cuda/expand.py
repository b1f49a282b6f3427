"""From bicliques of the reduced graph to the user's vertices, on the device: twins put back, members sorted."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import cupy as cp
from numba import cuda

from mbe_stage.bicliques.cuda.warp import ALL, inclusive_sum
from mbe_stage.device.blocks import DeviceBlock

__all__ = ["DeviceGroups", "expanded"]

_WARPS_PER_BLOCK = 8
_LONGEST_RANKED = 192
"""Counting smaller ones takes the square of a list's length."""


@dataclass(frozen=True, slots=True, eq=False)
class DeviceGroups:
    """The user's vertices behind each vertex of the reduced graph.

    Attributes
    ----------
    offsets : (n + 1,) int64
    members : int32
    """

    offsets: cp.ndarray
    members: cp.ndarray


def expanded(
    members: cp.ndarray,
    starts: cp.ndarray,
    sizes: tuple[cp.ndarray, cp.ndarray],
    groups: tuple[DeviceGroups, DeviceGroups],
    piece_members: int,
) -> Iterator[DeviceBlock]:
    """Blocks of at most so many members, a larger biclique alone in its own.

    Parameters
    ----------
    members : int32
        In ids of the reduced graph.
    starts : (n,) int64
        Where each biclique's members begin, the left ones first.
    sizes : pair of (n,) int32
        Left and right members.
    groups : pair of DeviceGroups
        Of the left and of the right side.
    piece_members : int
    """
    all_starts = (starts, starts + sizes[0])
    full_sizes = [
        _sums(members, first, size, side) for first, size, side in zip(all_starts, sizes, groups, strict=True)
    ]
    ends = cp.cumsum(full_sizes[0] + full_sizes[1])
    n = starts.size
    begin = 0
    done = 0
    while begin < n:
        stop = max(begin + 1, int(cp.searchsorted(ends, cp.asarray(done + piece_members), side="right")))
        piece = slice(begin, stop)
        sides = []
        for side in (0, 1):
            offsets = cp.zeros(stop - begin + 1, cp.int64)
            cp.cumsum(full_sizes[side][piece], out=offsets[1:])
            sides.append((offsets, _lists(members, all_starts[side][piece], sizes[side][piece], groups[side], offsets)))
        yield DeviceBlock(*sides[0], *sides[1])
        begin = stop
        done = int(ends[stop - 1])


def _launch(kernel, n: int, *arrays: cp.ndarray) -> None:
    kernel[-(-n // _WARPS_PER_BLOCK), _WARPS_PER_BLOCK * 32](*map(cuda.as_cuda_array, arrays))


def _sums(members: cp.ndarray, starts: cp.ndarray, sizes: cp.ndarray, groups: DeviceGroups) -> cp.ndarray:
    full = cp.empty(sizes.size, cp.int64)
    if sizes.size:
        _launch(expanded_size_warp_per_list, sizes.size, members, starts, sizes, groups.offsets, full)
    return full


def _lists(
    members: cp.ndarray, starts: cp.ndarray, sizes: cp.ndarray, groups: DeviceGroups, offsets: cp.ndarray
) -> cp.ndarray:
    unsorted = cp.empty(int(offsets[-1]), cp.int32)
    result = cp.empty(unsorted.size, cp.int32)
    _launch(
        expanded_members_warp_per_list,
        sizes.size,
        members,
        starts,
        sizes,
        groups.offsets,
        groups.members,
        offsets,
        unsorted,
        result,
    )
    _sort_long_lists(offsets, unsorted, result)
    return result


def _sort_long_lists(offsets: cp.ndarray, unsorted: cp.ndarray, result: cp.ndarray) -> None:
    """What the kernel leaves: the few lists too long for counting, sorted all at once."""
    lengths = cp.diff(offsets)
    long = cp.flatnonzero(lengths > _LONGEST_RANKED)
    if not long.size:
        return
    ends = cp.cumsum(lengths[long])
    position = cp.arange(int(ends[-1]))
    of = cp.searchsorted(ends, position, side="right")
    place = offsets[long][of] + position - (ends - lengths[long])[of]
    keys = cp.sort((of << 32) | unsorted[place])
    result[place] = keys.astype(cp.int32)


@cuda.jit(cache=True)
def expanded_size_warp_per_list(members, starts, sizes, group_offsets, full):
    """How many of the user's vertices a list stands for."""
    index = cuda.blockIdx.x * _WARPS_PER_BLOCK + cuda.threadIdx.x // 32
    if index >= sizes.size:
        return
    total = 0
    for tile in range(0, sizes[index], 32):
        weight = 0
        if tile + cuda.laneid < sizes[index]:
            group = members[starts[index] + tile + cuda.laneid]
            weight = group_offsets[group + 1] - group_offsets[group]
        total += cuda.shfl_sync(ALL, inclusive_sum(weight), 31)
    if cuda.laneid == 0:
        full[index] = total


@cuda.jit(cache=True)
def expanded_members_warp_per_list(members, starts, sizes, group_offsets, group_members, offsets, unsorted, result):
    """The user's vertices of a list, ascending unless it is long: each finds its place by counting the smaller ones."""
    index = cuda.blockIdx.x * _WARPS_PER_BLOCK + cuda.threadIdx.x // 32
    if index >= sizes.size:
        return
    lane = cuda.laneid
    written = offsets[index]
    for tile in range(0, sizes[index], 32):
        weight = 0
        first = 0
        if tile + lane < sizes[index]:
            group = members[starts[index] + tile + lane]
            first = group_offsets[group]
            weight = group_offsets[group + 1] - first
        ends = inclusive_sum(weight)
        place = written + ends - weight
        for k in range(weight):
            unsorted[place + k] = group_members[first + k]
        written += cuda.shfl_sync(ALL, ends, 31)
    cuda.syncwarp()
    begin, size = offsets[index], offsets[index + 1] - offsets[index]
    if size <= 32:
        mine = 0
        if lane < size:
            mine = unsorted[begin + lane]
        below = 0
        for k in range(size):
            if cuda.shfl_sync(ALL, mine, k) < mine:
                below += 1
        if lane < size:
            result[begin + below] = mine
        return
    if size > _LONGEST_RANKED:
        return
    for k in range(lane, size, 32):
        mine = unsorted[begin + k]
        below = 0
        for j in range(size):
            if unsorted[begin + j] < mine:
                below += 1
        result[begin + below] = mine

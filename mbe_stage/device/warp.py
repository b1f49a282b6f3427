"""Operations of the 32 lanes of a warp. All lanes call each function at once."""

from __future__ import annotations

import numpy as np
from numba import cuda, types

from mbe_stage.device import WARP_SIZE
from mbe_stage.device.intrinsics import onward, over_lanes

ALL = 0xFFFFFFFF
or_all = over_lanes("or.b32", types.uint32)
"""Return the union over all lanes, uint32."""
sum_small, max_all, min_all = (over_lanes(f"{name}.s32", types.int32) for name in ("add", "max", "min"))
"""Return the sum, maximum and minimum over all lanes, int32; `sum_all` takes ten shuffles."""


@cuda.jit(device=True, forceinline=True)
def next_tile(position):
    """Return the position 32 further on: the step of a loop in which each lane has its own entry."""
    return onward(position, np.int32(WARP_SIZE))


@cuda.jit(device=True, forceinline=True)
def next_one(position):
    """Return the next position: the step of a loop that all lanes walk together."""
    return onward(position, np.int32(1))


@cuda.jit(device=True, forceinline=True)
def four(function, values, *more):
    """Return the results of a function for four values: its loads or atomics are under way at once."""
    return (
        function(values[0], *more),
        function(values[1], *more),
        function(values[2], *more),
        function(values[3], *more),
    )


@cuda.jit(device=True, forceinline=True)
def four_entries(entries, k, end):
    """Return entries `k`, `k` + 32, `k` + 64 and `k` + 96, -1 from `end` on: one wait for memory instead of four."""
    first = entries[k] if k < end else -1
    second = entries[k + 32] if k + 32 < end else -1
    third = entries[k + 64] if k + 64 < end else -1
    return first, second, third, entries[k + 96] if k + 96 < end else -1


@cuda.jit(device=True, forceinline=True)
def clear(words, n):
    """Set the first `n` words to 0."""
    k = np.int32(cuda.laneid)
    while k < n:
        words[np.uint32(k)] = np.uint32(0)
        k = next_tile(k)
    cuda.syncwarp()


@cuda.jit(device=True, forceinline=True)
def ballot(predicate):
    """Return a bit for each lane with a true predicate, as uint32."""
    return np.uint32(cuda.ballot_sync(ALL, predicate))


@cuda.jit(device=True, forceinline=True)
def rank(mask):
    """Count the lanes before this one with their bit in `mask`."""
    return np.int32(cuda.popc(np.uint32(mask & cuda.lanemask_lt())))


@cuda.jit(device=True, forceinline=True)
def count_bits(word):
    """Return the number of set bits of a uint32, int32."""
    return np.int32(cuda.popc(np.uint32(word)))


@cuda.jit(device=True, forceinline=True)
def first_bit(word):
    """Return the position of the lowest set bit of a uint32, int32; -1 if there is none."""
    return np.int32(np.int32(cuda.ffs(np.uint32(word))) - 1)


@cuda.jit(device=True, forceinline=True)
def lowest_bit(word):
    """Return the position of the lowest set bit of a uint32, as `first_bit`, and the word without it."""
    return first_bit(word), np.uint32(word & np.uint32(word - np.uint32(1)))


@cuda.jit(device=True, forceinline=True)
def lowest_bits(n):
    """Return a word with its lowest `n` bits set, 1 to 32, uint32."""
    return np.uint32(np.uint32(ALL) >> np.uint32(32 - n))


@cuda.jit(device=True, forceinline=True)
def nth_bit(word, n):
    """Return the position of the set bit of a uint32 with `n` set bits below it, int32; 31 if there are fewer."""
    position = np.int32(0)
    for step in (16, 8, 4, 2, 1):
        below = count_bits(np.uint32(np.uint32(word >> np.uint32(position)) & np.uint32((1 << step) - 1)))
        if n >= below:
            n = np.int32(n - below)
            position = np.int32(position + step)
    return position


@cuda.jit(device=True, forceinline=True)
def shuffle_word(word, lane):
    """Return the uint32 of the lane `lane`."""
    return np.uint32(cuda.shfl_sync(ALL, np.int32(word), lane))


@cuda.jit(device=True, forceinline=True)
def shuffle_xor(word, bits):
    """Return the uint32 of the lane whose number differs in `bits`."""
    return np.uint32(cuda.shfl_xor_sync(ALL, np.int32(word), bits))


@cuda.jit(device=True, forceinline=True)
def sum_all(value):
    """Return the sum over all lanes, int64."""
    value = np.int64(value)
    value += cuda.shfl_xor_sync(ALL, value, 16)
    value += cuda.shfl_xor_sync(ALL, value, 8)
    value += cuda.shfl_xor_sync(ALL, value, 4)
    value += cuda.shfl_xor_sync(ALL, value, 2)
    value += cuda.shfl_xor_sync(ALL, value, 1)
    return value


@cuda.jit(device=True, forceinline=True)
def max_long(value):
    """Return the maximum over all lanes, int64."""
    value = np.int64(value)
    for distance in (16, 8, 4, 2, 1):
        value = max(value, cuda.shfl_xor_sync(ALL, value, distance))
    return value


@cuda.jit(device=True, forceinline=True)
def inclusive_sum(value):
    """Return the sum over this lane and those before it, int32."""
    value = np.int32(value)
    lane = cuda.laneid
    for step in (1, 2, 4, 8, 16):
        other = cuda.shfl_up_sync(ALL, value, step)
        if lane >= step:
            value = np.int32(value + other)
    return value


@cuda.jit(device=True, forceinline=True)
def exclusive_sums(numbers, first, n):
    """Replace each of `n` numbers by the sum of those before it."""
    lane = np.int32(cuda.laneid)
    before = np.int32(0)
    tile = np.int32(0)
    while tile < n:
        value = np.int32(0)
        if np.int32(tile + lane) < n:
            value = np.int32(numbers[np.uint64(first + tile + lane)])
        ends = inclusive_sum(value)
        if np.int32(tile + lane) < n:
            numbers[np.uint64(first + tile + lane)] = np.int32(before + ends - value)
        before = np.int32(before + cuda.shfl_sync(ALL, ends, 31))
        tile = next_tile(tile)
    cuda.syncwarp()


@cuda.jit(device=True, forceinline=True)
def inclusive_sum_64(value):
    """Return the sum over this lane and those before it, int64."""
    value = np.int64(value)
    lane = cuda.laneid
    for step in (1, 2, 4, 8, 16):
        other = cuda.shfl_up_sync(ALL, value, step)
        if lane >= step:
            value += other
    return value


@cuda.jit(device=True, forceinline=True)
def owner_of(position, ends):
    """Return the first lane whose `ends` (ascending over the lanes) exceeds `position`; 31 if none does."""
    low = np.int32(0)
    for step in (16, 8, 4, 2, 1):
        end = cuda.shfl_sync(ALL, ends, np.int32(low + step - 1))
        if position >= end:
            low = np.int32(low + step)
    return low

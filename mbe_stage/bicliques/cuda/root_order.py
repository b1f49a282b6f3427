"""The order in which roots are started: sorted by counting into bins, by their two-step paths to within an eighth."""

from __future__ import annotations

import numpy as np
from numba import cuda

from mbe_stage.device.warp import ALL, inclusive_sum, rank

N_BINS = 512
"""Roots are started in order of their paths' number to within an eighth: eight bins for each power of two."""


@cuda.jit(device=True, forceinline=True)
def bin_of(cost):
    """Smaller for a larger cost, which is at least 1."""
    power = 63 - cuda.clz(np.int64(cost))
    eighth = (cost << 3 >> power) & 7
    return N_BINS - 1 - (8 * power + eighth)


@cuda.jit(device=True, forceinline=True)
def add_to_bins(bins, which):
    """Add 1 to a bin for each lane (none where it is negative); what the bin held before this lane's 1.

    Lanes with the same bin add up first: most roots fall into a few bins.
    """
    same = np.uint32(cuda.match_any_sync(ALL, which))
    first_lane = cuda.ffs(same) - 1
    before = 0
    if which >= 0 and cuda.laneid == first_lane:
        before = cuda.atomic.add(bins, which, cuda.popc(same))
    return cuda.shfl_sync(ALL, before, first_lane) + rank(same)


@cuda.jit(device=True, forceinline=True)
def starts_of_bins(bins):
    """Counts into where each bin begins; by one warp."""
    before = 0
    for tile in range(0, N_BINS, 32):
        count = bins[tile + cuda.laneid]
        ends = inclusive_sum(count)
        bins[tile + cuda.laneid] = before + ends - count
        before += cuda.shfl_sync(ALL, ends, 31)

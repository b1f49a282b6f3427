"""Sort lists of any length in place by a bitonic network, in shared or in device memory.

Every comparison puts the smaller entry first. So entries beyond the end need not exist: they would stay there.
"""

from __future__ import annotations

import numpy as np
from numba import cuda

from mbe_stage.device import WARP_SIZE
from mbe_stage.device.grid import THREADS

_W = np.uint64


@cuda.jit(device=True, forceinline=True)
def _order_pair(values, place, partner, end):
    """Put the smaller of two entries first."""
    if partner < end:
        one, other = values[_W(place)], values[_W(partner)]
        if one > other:
            values[_W(place)] = other
            values[_W(partner)] = one


@cuda.jit(device=True, forceinline=True)
def _merge_runs(values, begin, end, half, worker, n_workers):
    """Do the first step of merging pairs of sorted runs of `half` entries: compare each entry with its mirror image.

    Parameters
    ----------
    values : int32, shared or global
    begin : int
        First entry.
    end : int
        One past the last entry.
    half : int
        Length of the sorted runs.
    worker : int
        Number of this thread.
    n_workers : int
    """
    k = worker
    place = begin + 2 * k - (k & (half - 1))
    while place < end:
        _order_pair(values, place, place + 2 * (half - (k & (half - 1))) - 1, end)
        k += n_workers
        place = begin + 2 * k - (k & (half - 1))


@cuda.jit(device=True, forceinline=True)
def _settle(values, begin, end, step, worker, n_workers):
    """Do a later step of the merge: compare each entry with the one `step` positions later.

    Parameters
    ----------
    values : int32, shared or global
    begin : int
        First entry.
    end : int
        One past the last entry.
    step : int
        Distance of the compared entries.
    worker : int
        Number of this thread.
    n_workers : int
    """
    k = worker
    place = begin + 2 * k - (k & (step - 1))
    while place < end:
        _order_pair(values, place, place + step, end)
        k += n_workers
        place = begin + 2 * k - (k & (step - 1))


@cuda.jit(device=True, forceinline=True)
def sort_by_warp(values, begin, end):
    """Sort ``values[begin:end]`` in place by one warp; all its lanes see the result."""
    lane = cuda.laneid
    half = 1
    while half < end - begin:
        _merge_runs(values, begin, end, half, lane, WARP_SIZE)
        cuda.syncwarp()
        step = half // 2
        while step > 0:
            _settle(values, begin, end, step, lane, WARP_SIZE)
            cuda.syncwarp()
            step //= 2
        half *= 2


@cuda.jit(device=True, forceinline=True)
def sort_by_block(values, begin, end):
    """Sort ``values[begin:end]`` in place by all threads of a block."""
    thread = cuda.threadIdx.x
    half = np.int64(1)
    while half < end - begin:
        _merge_runs(values, begin, end, half, thread, THREADS)
        cuda.syncthreads()
        step = half // 2
        while step > 0:
            _settle(values, begin, end, step, thread, THREADS)
            cuda.syncthreads()
            step //= 2
        half *= 2

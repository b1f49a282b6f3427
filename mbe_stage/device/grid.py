"""Grids: share out vertices over all blocks, and wait between phases.

A kernel that waits must be launched with no more blocks than are resident (`launch.resident_blocks`), of
`WARPS_PER_BLOCK` warps each, and compiled for `BLOCKS_PER_MULTIPROCESSOR` of them.
"""

from __future__ import annotations

import numpy as np
from numba import cuda

from mbe_stage.device import WARP_SIZE, WARPS_PER_BLOCK
from mbe_stage.device.intrinsics import load_fresh
from mbe_stage.device.warp import ALL

BLOCKS_PER_MULTIPROCESSOR = 2
THREADS = WARPS_PER_BLOCK * WARP_SIZE
SHORT = 8
"""Longest list that one lane reads; the whole warp reads longer ones."""
_NAP_NS = 20


@cuda.jit(device=True, forceinline=True)
def this_warp():
    """Number of this warp in the grid."""
    return cuda.blockIdx.x * WARPS_PER_BLOCK + cuda.threadIdx.x // WARP_SIZE


@cuda.jit(device=True, forceinline=True)
def this_thread():
    """Number of this thread in the grid."""
    return cuda.blockIdx.x * WARPS_PER_BLOCK * WARP_SIZE + cuda.threadIdx.x


@cuda.jit(device=True, forceinline=True)
def n_warps():
    """Warps of the grid."""
    return cuda.gridDim.x * WARPS_PER_BLOCK


@cuda.jit(device=True, forceinline=True)
def tile_count(n):
    """Number of tiles for `n` vertices; lane ``k`` of tile ``t`` has vertex ``t + k * tile_count(n)``.

    Neighbouring ids fall into different tiles, since vertices with long lists often have neighbouring ids. With fewer
    vertices than lanes, every warp gets one before any gets two.
    """
    return max((n + 31) // 32, min(n, n_warps()))


@cuda.jit(device=True, forceinline=True)
def range_of_list(vertex, is_wanted, lists):
    """Begin and end of a vertex's list, int64; both 0 if it is not wanted."""
    start, end = np.int64(0), np.int64(0)
    if is_wanted:
        start, end = lists.offsets[vertex], lists.offsets[vertex + 1]
    return start, end


@cuda.jit(device=True, forceinline=True)
def next_list(lanes, start, end):
    """Return the first of some lanes and the others, and begin and end of the first one's list."""
    source = cuda.ffs(lanes) - 1
    return source, lanes & (lanes - np.uint32(1)), cuda.shfl_sync(ALL, start, source), cuda.shfl_sync(ALL, end, source)


@cuda.jit(device=True, forceinline=True)
def range_of_warp(n):
    """Return first and last (exclusive) of this warp's contiguous positions below `n`."""
    size = ((n + n_warps() - 1) // n_warps() + 31) // 32 * 32
    first = min(n, this_warp() * size)
    return first, min(n, first + size)


@cuda.jit(device=True, forceinline=True)
def wait_for_all(arrived, turn):
    """Wait until every block of the grid has come here for the `turn`-th time, counted from 1.

    Every thread then reads what any thread wrote before: each fences its writes before the block reports, and drops its
    multiprocessor's cache before it reads. `arrived` is 0 at the beginning.
    """
    cuda.threadfence()
    cuda.syncthreads()
    if cuda.threadIdx.x == 0:
        cuda.atomic.add(arrived, 0, 1)
        while load_fresh(arrived, 0) < turn * cuda.gridDim.x:
            cuda.nanosleep(_NAP_NS)
    cuda.syncthreads()
    cuda.threadfence()

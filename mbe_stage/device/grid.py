"""Grids: starting kernels on them; what all blocks do together: share out vertices, wait between two phases.

A kernel that waits must be launched with no more blocks than are resident (`launch.resident_blocks`), of
`WARPS_PER_BLOCK` warps each, and compiled for `BLOCKS_PER_MULTIPROCESSOR` of them.
"""

from __future__ import annotations

import threading
import warnings
from typing import Any

from numba import cuda

from mbe_stage.device import WARP_SIZE, WARPS_PER_BLOCK
from mbe_stage.device.intrinsics import load_fresh

BLOCKS_PER_MULTIPROCESSOR = 2
THREADS = WARPS_PER_BLOCK * WARP_SIZE
SHORT = 8
"""A list of up to so many entries is read by one lane, a longer one by the whole warp."""
_NAP_NS = 20
# Filters are the process's; two threads at once could restore each other's.
_filters = threading.Lock()
# With its first launch a kernel is loaded, and of two threads that load one at once Numba fails one.
_loading = threading.Lock()
_launched = threading.local()


def on_grid(kernel: Any, n_blocks: int, n_threads: int) -> Any:
    """`kernel[n_blocks, n_threads]`, to be called with the kernel's arguments.

    A small graph has a small grid, which Numba remarks does not fill the GPU. Everybody else's warnings stay.
    """
    with _filters, warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*Grid size .* under-utilization")
        launch = kernel[n_blocks, n_threads]
    by_this_thread = _launched.__dict__.setdefault("kernels", set())
    if kernel in by_this_thread:
        return launch

    def first_launch(*arguments: Any) -> None:
        with _loading:
            launch(*arguments)
        by_this_thread.add(kernel)

    return first_launch


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
    """Tiles that `n` vertices are shared out in; lane ``k`` of tile ``t`` has vertex ``t + k * tile_count(n)``.

    Neighbouring ids fall into different tiles: vertices with long lists often stand side by side. Where there are fewer
    vertices than lanes, no warp gets two before every warp has one.
    """
    return max((n + 31) // 32, min(n, n_warps()))


@cuda.jit(device=True, forceinline=True)
def range_of_warp(n):
    """First and last (exclusive) of the contiguous positions below `n` that are this warp's."""
    size = ((n + n_warps() - 1) // n_warps() + 31) // 32 * 32
    first = min(n, this_warp() * size)
    return first, min(n, first + size)


@cuda.jit(device=True, forceinline=True)
def wait_for_all(arrived, turn):
    """Go on when every block of the grid has come here for the `turn`-th time, counted from 1.

    What any thread wrote before is what every thread reads behind it: each fences its own writes before the block
    reports, and drops what its multiprocessor had cached before it reads. `arrived` begins as 0.
    """
    cuda.threadfence()
    cuda.syncthreads()
    if cuda.threadIdx.x == 0:
        cuda.atomic.add(arrived, 0, 1)
        while load_fresh(arrived, 0) < turn * cuda.gridDim.x:
            cuda.nanosleep(_NAP_NS)
    cuda.syncthreads()
    cuda.threadfence()

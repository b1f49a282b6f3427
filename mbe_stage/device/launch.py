"""Launch kernels with a warp or a thread per item; number of blocks that the device keeps resident."""

from __future__ import annotations

import functools
from typing import Any

import cupy as cp
from numba import cuda

from mbe_stage.device import WARPS_PER_BLOCK
from mbe_stage.device.grid import BLOCKS_PER_MULTIPROCESSOR, THREADS, on_grid


def launch_warps(kernel: Any, n: int, *arguments: Any) -> None:
    """Run `kernel` with a warp for each of `n` items, if there are any; CuPy arrays are not copied.

    A kernel's item is ``grid.this_warp()``.
    """
    _launch(kernel, -(-n // WARPS_PER_BLOCK), arguments)


def launch_threads(kernel: Any, n: int, *arguments: Any) -> None:
    """Run `kernel` with a thread for each item."""
    _launch(kernel, -(-n // THREADS), arguments)


def _launch(kernel: Any, n_blocks: int, arguments: tuple[Any, ...]) -> None:
    if n_blocks:
        on_grid(kernel, n_blocks, THREADS)(
            *(cuda.as_cuda_array(each) if isinstance(each, cp.ndarray) else each for each in arguments)
        )


def resident_blocks() -> int:
    """Number of blocks of `mbe_stage.device.grid` that are resident together: waiting warps rely on all others.

    The kernels are compiled for this number of blocks a multiprocessor (`launch_bounds`), and their shared memory
    allows it.
    """
    return multiprocessors() * BLOCKS_PER_MULTIPROCESSOR


def multiprocessors() -> int:
    """Multiprocessors of the current device."""
    return _multiprocessors_of(cp.cuda.runtime.getDevice())


@functools.cache
def _multiprocessors_of(device: int) -> int:
    return int(cp.cuda.Device(device).attributes["MultiProcessorCount"])


def capability() -> tuple[int, int]:
    """Compute capability of the current device."""
    return tuple(cuda.get_current_device().compute_capability)

"""Launch kernels with blocks, or with a warp or a thread per item; and count the blocks that stay resident."""

from __future__ import annotations

import functools
import threading
from typing import Any

import cupy as cp
from numba import cuda

from mbe_stage.device import WARPS_PER_BLOCK
from mbe_stage.device.grid import BLOCKS_PER_MULTIPROCESSOR, THREADS
from mbe_stage.device.jit import signature_of
from mbe_stage.device.numba_private import LoadedKernel

_LOADED: dict[tuple[Any, int], LoadedKernel] = {}
# Numba fails if two threads load the same kernel at once.
_loading = threading.Lock()


def launch_blocks(kernel: Any, n_blocks: int, n_threads: int, *arguments: Any) -> None:
    """Run `kernel` with `n_blocks` blocks of `n_threads` threads, on the default stream.

    Parameters
    ----------
    kernel : CUDA kernel
        Made by `jit.kernel`, with the types of these arguments.
    *arguments : CuPy arrays, named tuples of them, integers
        Arrays must be kept until the work is done.
    """
    key = kernel, cp.cuda.runtime.getDevice()
    loaded = _LOADED.get(key)
    if loaded is None:
        with _loading:
            loaded = _LOADED[key] = LoadedKernel(kernel, signature_of(kernel))
    loaded(n_blocks, n_threads, arguments)


def launch_warps(kernel: Any, n: int, *arguments: Any) -> None:
    """Run `kernel` with a warp for each of `n` items; a warp's item is ``grid.this_warp()``."""
    if n:
        launch_blocks(kernel, -(-n // WARPS_PER_BLOCK), THREADS, *arguments)


def launch_threads(kernel: Any, n: int, *arguments: Any) -> None:
    """Run `kernel` with a thread for each of `n` items."""
    if n:
        launch_blocks(kernel, -(-n // THREADS), THREADS, *arguments)


def resident_blocks() -> int:
    """Return the number of blocks that are resident together: waiting warps rely on all others.

    The kernels are compiled for this number of blocks per multiprocessor (`launch_bounds`), and their shared memory
    allows it.
    """
    return multiprocessors() * BLOCKS_PER_MULTIPROCESSOR


def multiprocessors() -> int:
    """Return the number of multiprocessors of the current device."""
    return _multiprocessors_of(cp.cuda.runtime.getDevice())


@functools.cache
def _multiprocessors_of(device: int) -> int:
    return int(cp.cuda.Device(device).attributes["MultiProcessorCount"])


def capability() -> tuple[int, int]:
    """Return the compute capability of the current device."""
    return _capability_of(cp.cuda.runtime.getDevice())


@functools.cache
def _capability_of(_device: int) -> tuple[int, int]:
    return tuple(cuda.get_current_device().compute_capability)

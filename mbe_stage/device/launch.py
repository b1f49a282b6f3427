"""Starting kernels in which one warp, or one thread, takes one item."""

from __future__ import annotations

from typing import Any

import cupy as cp
from numba import cuda

from mbe_stage.device.grid import THREADS, WARPS_PER_BLOCK
from mbe_stage.device.on_grid import on_grid

__all__ = ["launch_threads", "launch_warps"]


def launch_warps(kernel: Any, n: int, *arguments: Any) -> None:
    """Run `kernel` with a warp for each of `n` items, not at all where there is none; CuPy arrays are not copied.

    A kernel's item is ``grid.this_warp()``.
    """
    _launch(kernel, -(-n // WARPS_PER_BLOCK), arguments)


def launch_threads(kernel: Any, n: int, *arguments: Any) -> None:
    """The same with a thread for each item."""
    _launch(kernel, -(-n // THREADS), arguments)


def _launch(kernel: Any, n_blocks: int, arguments: tuple[Any, ...]) -> None:
    if n_blocks:
        on_grid(kernel, n_blocks, THREADS)(
            *(cuda.as_cuda_array(each) if isinstance(each, cp.ndarray) else each for each in arguments)
        )

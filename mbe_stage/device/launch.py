"""Starting kernels in which one warp, or one thread, takes one item."""

from __future__ import annotations

from typing import Any

import cupy as cp
from numba import cuda

from mbe_stage.device.grid import on_grid

__all__ = ["WARPS_PER_BLOCK", "launch_threads", "launch_warps"]

WARPS_PER_BLOCK = 8
"""A kernel's item is ``blockIdx.x * WARPS_PER_BLOCK + threadIdx.x // 32`` where a warp takes one."""


def launch_warps(kernel: Any, n: int, *arguments: Any) -> None:
    """Run `kernel` with a warp for each of `n` items, not at all where there is none; CuPy arrays are not copied."""
    _launch(kernel, -(-n // WARPS_PER_BLOCK), arguments)


def launch_threads(kernel: Any, n: int, *arguments: Any) -> None:
    """The same with a thread for each item."""
    _launch(kernel, -(-n // (32 * WARPS_PER_BLOCK)), arguments)


def _launch(kernel: Any, n_blocks: int, arguments: tuple[Any, ...]) -> None:
    if n_blocks:
        on_grid(kernel, n_blocks, 32 * WARPS_PER_BLOCK)(
            *(cuda.as_cuda_array(each) if isinstance(each, cp.ndarray) else each for each in arguments)
        )

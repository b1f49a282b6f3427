"""What the device at hand can run at once, and how much of its memory a run may take."""

from __future__ import annotations

import cupy as cp
from numba import cuda

from mbe_stage.bicliques.cuda.kernels import BLOCKS_PER_MULTIPROCESSOR
from mbe_stage.options import Execution

__all__ = ["device_budget", "resident_blocks"]


def resident_blocks() -> int:
    """Blocks that are all resident: waiting warps rely on the others running.

    The kernels are compiled for this many blocks a multiprocessor (`launch_bounds`), and their shared memory allows it.
    """
    return cuda.get_current_device().MULTIPROCESSOR_COUNT * BLOCKS_PER_MULTIPROCESSOR


def device_budget(execution: Execution) -> int:
    """Bytes of device memory a run may take: as asked, or three quarters of what is free."""
    if execution.device_memory_bytes is not None:
        return execution.device_memory_bytes
    # What CuPy keeps for reuse counts as free: a run takes it from there.
    free = cp.cuda.runtime.memGetInfo()[0] + cp.get_default_memory_pool().free_bytes()
    return free * 3 // 4

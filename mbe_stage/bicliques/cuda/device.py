"""What the device at hand can run at once."""

from __future__ import annotations

from numba import cuda

from mbe_stage.bicliques.cuda.kernels import BLOCKS_PER_MULTIPROCESSOR

__all__ = ["resident_blocks"]


def resident_blocks(mode: int) -> int:  # noqa: ARG001 - all modes are compiled to the same bounds
    """Blocks that are all resident: waiting warps rely on the others running.

    The kernels are compiled for this many blocks a multiprocessor (`launch_bounds`), and their shared memory allows it.
    """
    return cuda.get_current_device().MULTIPROCESSOR_COUNT * BLOCKS_PER_MULTIPROCESSOR

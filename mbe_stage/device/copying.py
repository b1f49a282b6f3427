"""Copy many pieces of an array at once, with a block of threads for each."""

from __future__ import annotations

import cupy as cp
import numpy as np
from numba import cuda

from mbe_stage.device.arrays import kernel_views
from mbe_stage.device.grid import THREADS, on_grid
from mbe_stage.device.jit import I32, I64_2D, kernel

__all__ = ["copy_pieces", "copy_pieces_block_per_piece"]


def copy_pieces(
    source: cp.ndarray, starts: np.ndarray, sizes: np.ndarray, target: cp.ndarray, places: np.ndarray
) -> None:
    """Copy ``source[start : start + size]`` to ``target[place:]`` for each piece.

    Parameters
    ----------
    source, target : int32, one dimension
        One array only if no piece overlaps the new or old place of another.
    starts, sizes, places : (n,) int64, on the host
    """
    if starts.size:
        moves = cp.asarray(np.stack([starts, sizes, places]).astype(np.int64, copy=False))
        on_grid(copy_pieces_block_per_piece, starts.size, THREADS)(*kernel_views(moves, source, target))


@kernel(I64_2D, I32, I32)
def copy_pieces_block_per_piece(moves, source, target):
    """Copy a piece per block; `moves` is (3, n): start, size and new place of each piece."""
    piece = cuda.blockIdx.x
    start, size, place = moves[0, piece], moves[1, piece], moves[2, piece]
    for k in range(cuda.threadIdx.x, size, cuda.blockDim.x):
        target[place + k] = source[start + k]

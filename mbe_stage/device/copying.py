"""Copy many pieces of an array at once, one block of threads per piece; and copy selected lists of a CSR."""

from __future__ import annotations

from typing import Any

import cupy as cp
from numba import cuda

from mbe_stage.device.grid import THREADS, this_warp
from mbe_stage.device.jit import I32, I64, I64_2D, kernel
from mbe_stage.device.launch import launch_blocks, launch_warps


def copy_pieces(source: cp.ndarray, starts: Any, sizes: Any, target: cp.ndarray, places: Any) -> None:
    """Copy ``source[start : start + size]`` to ``target[place:]`` for each piece.

    Parameters
    ----------
    source, target : int32, one dimension
        May be the same array only if no piece overlaps the old or new place of another.
    starts, sizes, places : (n,) int64
        All on the host or all on the device.
    """
    if starts.size:
        moves = cp.asarray(cp.get_array_module(starts).stack([starts, sizes, places]), cp.int64)
        launch_blocks(copy_pieces_block_per_piece, starts.size, THREADS, moves, source, target)


@kernel(I64_2D, I32, I32)
def copy_pieces_block_per_piece(moves, source, target):
    """Copy a piece per block; `moves` is (3, n): start, size and new place of each piece."""
    piece = cuda.blockIdx.x
    start, size, place = moves[0, piece], moves[1, piece], moves[2, piece]
    for k in range(cuda.threadIdx.x, size, cuda.blockDim.x):
        target[place + k] = source[start + k]


def take_lists(offsets: cp.ndarray, members: cp.ndarray, rows: cp.ndarray) -> tuple[cp.ndarray, cp.ndarray]:
    """Return the lists `rows`, in this order, concatenated.

    Parameters
    ----------
    offsets : (n + 1,) int64
    members : int32
    rows : (m,) int64
        May contain duplicates.

    Returns
    -------
    offsets : (m + 1,) int64
    members : int32
    """
    taken = cp.zeros(rows.size + 1, cp.int64)
    cp.cumsum(offsets[rows + 1] - offsets[rows], out=taken[1:])
    copies = cp.empty(int(taken[-1]), cp.int32)
    launch_warps(take_warp_per_list, rows.size, offsets, members, rows, taken, copies)
    return taken, copies


@kernel(I64, I32, I64, I64, I32)
def take_warp_per_list(offsets, members, rows, taken, copies):
    """Copy one list to its new place.

    Parameters
    ----------
    offsets : (n + 1,) int64, global
    members : int32, global
    rows : (m,) int64, global
    taken : (m + 1,) int64, global
        Offset of each list in `copies`.
    copies : int32, global
    """
    index = this_warp()
    if index >= rows.size:
        return
    start, place = offsets[rows[index]], taken[index]
    for k in range(cuda.laneid, taken[index + 1] - place, 32):
        copies[place + k] = members[start + k]

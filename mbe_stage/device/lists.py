"""Copy some of many lists in CSR form."""

from __future__ import annotations

import cupy as cp
from numba import cuda

from mbe_stage.device.arrays import kernel_views
from mbe_stage.device.grid import this_warp
from mbe_stage.device.jit import I32, I64, kernel
from mbe_stage.device.launch import launch_warps

__all__ = ["take_lists", "take_warp_per_list"]


def take_lists(offsets: cp.ndarray, members: cp.ndarray, rows: cp.ndarray) -> tuple[cp.ndarray, cp.ndarray]:
    """Return the lists `rows`, in their order, contiguously.

    Parameters
    ----------
    offsets : (n + 1,) int64
    members : int32
    rows : (m,) int64
        May contain a row twice.

    Returns
    -------
    offsets : (m + 1,) int64
    members : int32
    """
    taken = cp.zeros(rows.size + 1, cp.int64)
    cp.cumsum(offsets[rows + 1] - offsets[rows], out=taken[1:])
    copies = cp.empty(int(taken[-1]), cp.int32)
    launch_warps(take_warp_per_list, rows.size, *kernel_views(offsets, members, rows, taken, copies))
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
        First entry of each list among the copies.
    copies : int32, global
    """
    index = this_warp()
    if index >= rows.size:
        return
    start, place = offsets[rows[index]], taken[index]
    for k in range(cuda.laneid, taken[index + 1] - place, 32):
        copies[place + k] = members[start + k]

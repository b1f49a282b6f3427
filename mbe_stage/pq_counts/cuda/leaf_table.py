"""Take the leaves of a quantum out of the table on the device."""

from __future__ import annotations

import cupy as cp
import numpy as np
from numba import cuda

from mbe_stage.device import WARP_SIZE
from mbe_stage.device.grid import THREADS, n_warps, this_thread
from mbe_stage.device.jit import I64, kernel
from mbe_stage.device.launch import launch_blocks

AT_ONCE = 1024
"""Number of signatures that one launch and one copy can return. Selecting more takes longer than the search of a small
graph."""
_BLOCKS = 64


def leaves_in(keys: cp.ndarray, times: cp.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the used keys and the number of leaves of each, in any order, on the host.

    Parameters
    ----------
    keys, times : (n_slots,) int64
        As in `layout.Device`. A key of 0 is a free slot.
    """
    gathered = cp.zeros(1 + 2 * AT_ONCE, cp.int64)
    launch_blocks(gather_leaves_thread_per_slot, _BLOCKS, THREADS, keys, times, gathered)
    found = cp.asnumpy(gathered)
    n = int(found[0])
    if n > AT_ONCE:
        places = cp.flatnonzero(keys)
        found = cp.asnumpy(cp.stack([keys[places], times[places]]))
        return found[0], found[1]
    return found[1 : 2 * n : 2], found[2 : 2 * n + 1 : 2]


@kernel(I64, I64, I64)
def gather_leaves_thread_per_slot(keys, times, gathered):
    """Count the used keys; write them with their numbers of leaves, as many as fit.

    Parameters
    ----------
    keys, times : (n_slots,) int64, global
    gathered : (1 + 2 * room,) int64, global
        The number of used keys, 0 before; then each key and its number of leaves.
    """
    for slot in range(this_thread(), keys.size, n_warps() * WARP_SIZE):
        if keys[slot] != 0:
            place = 1 + 2 * cuda.atomic.add(gathered, 0, 1)
            if place < gathered.size:
                gathered[place], gathered[place + 1] = keys[slot], times[slot]

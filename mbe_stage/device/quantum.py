"""Ending a time quantum: when its time is over, or when something is short."""

from __future__ import annotations

import numpy as np
from numba import cuda

from mbe_stage.device import node_layout as at
from mbe_stage.device.warp import ALL, global_nanoseconds, load_fresh

__all__ = ["read_shared", "stops"]


@cuda.jit(device=True, forceinline=True)
def read_shared(control, index):
    """A word that other warps change, int64, the same for all lanes: two must never take different turns on it."""
    value = np.int64(0)
    if cuda.laneid == 0:
        value = np.int64(load_fresh(control, index))
    return cuda.shfl_sync(ALL, value, 0)


@cuda.jit(device=True, forceinline=True)
def stops(control, deadline):
    """Whether the quantum has to end; says so to all where its time is over."""
    status = np.int64(0)
    if cuda.laneid == 0:
        status = np.int64(load_fresh(control, at.STATUS))
        if status == 0 and global_nanoseconds() > deadline:
            cuda.atomic.or_(control, at.STATUS, np.int64(at.TIME_OVER))
            status = np.int64(at.TIME_OVER)
    return cuda.shfl_sync(ALL, status, 0) != 0

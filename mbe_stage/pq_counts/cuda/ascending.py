"""Ascending lists in device memory."""

from __future__ import annotations

import numpy as np
from numba import cuda

__all__ = ["first_from"]


@cuda.jit(device=True, forceinline=True)
def first_from(row, start, stop, members):
    """Where in an ascending list the first entry stands that is not below `row`, int64; `stop` where there is none."""
    while start < stop:
        middle = np.int64((start + stop) >> 1)
        if members[middle] < row:
            start = np.int64(middle + 1)
        else:
            stop = middle
    return start

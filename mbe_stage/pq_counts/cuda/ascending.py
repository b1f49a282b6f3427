"""Ascending lists in device memory."""

from __future__ import annotations

import numpy as np
from numba import cuda

SHORT_LIST = 64
"""Rows of a list that a lane walks alone: where lists are counted in shared memory, a warp for each waits longer."""


_U = np.uint32


@cuda.jit(device=True, forceinline=True)
def first_from(row, start, stop, members):
    """Where in an ascending list the first entry stands that is not below `row`; `stop` where there is none.

    Places are uint32, in half the registers: entries are fewer than 2**31, so neither a sum of two places overflows nor
    a step beyond the end.
    """
    while start < stop:
        middle = _U(_U(start + stop) >> _U(1))
        if members[middle] < row:
            start = _U(middle + _U(1))
        else:
            stop = middle
    return start

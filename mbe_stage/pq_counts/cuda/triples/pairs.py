"""Common columns of two masks."""

from __future__ import annotations

import numpy as np
from numba import cuda

from mbe_stage.device import WARP_SIZE
from mbe_stage.pq_counts.cuda.rank_windows import count_leaf

_I = np.int32
_L = np.int64
_U = np.uint32


@cuda.jit(device=True, forceinline=True)
def _in_common(one, other, n_words, n_partners, area, start):
    """Count the common columns of two masks, int32.

    Parameters
    ----------
    one, other : int32
        Numbers of the masks.
    n_words, n_partners : int32
        Words of a mask, and masks: the same words of all masks are contiguous.
    area : uint32
    start : int32
        First of them in the area.
    """
    n, at_one, at_other = _I(0), _I(start + one), _I(start + other)
    for _ in range(n_words):
        n = _I(n + _I(cuda.popc(_U(area[at_one] & area[at_other]))))
        at_one, at_other = _I(at_one + n_partners), _I(at_other + n_partners)
    return n


@cuda.jit(device=True, forceinline=True)
def pairs(n_partners, n_words, start, adds, counts_leaves, fewest, area, small, times):
    """Count the common columns of each pair of partners: add them to earlier ones, or count a leaf, or both.

    Parameters
    ----------
    n_partners, n_words : int32
    start : int32
        First of the masks in the area; before them are counters of pairs, one thread for each.
    adds, counts_leaves : bool
    fewest : int32
        Fewest columns of a leaf.
    area : uint32
    small, times
        As in `rank_windows.count_leaf`.
    """
    lane, one = _I(cuda.laneid), _I(cuda.threadIdx.x // WARP_SIZE)
    n_warps = _I(cuda.blockDim.x // WARP_SIZE)
    # Most leaves have the fewest columns allowed: lanes count those on their own.
    n_fewest = _I(0)
    while one < n_partners - 1:
        row_start = _I(one * (n_partners - 1) - one * (one - 1) // 2 - one - 1)
        other = _I(one + 1 + lane)
        while other < n_partners:
            n = _in_common(one, other, n_words, n_partners, area, start)
            if adds:
                n = _I(n + _I(area[row_start + other]))
                area[row_start + other] = _U(n)
            if counts_leaves:
                if n == fewest:
                    n_fewest = _I(n_fewest + 1)
                elif n > fewest:
                    count_leaf(n, small, times)
            other = _I(other + WARP_SIZE)
        one = _I(one + n_warps)
    if n_fewest > 0:
        if fewest < small.size:
            cuda.atomic.add(small, fewest, n_fewest)
        else:
            cuda.atomic.add(times, fewest, _L(n_fewest))

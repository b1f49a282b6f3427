"""The rows that see a wide child's left set, as counting its paths has collected them: what they are to the child.

Of all warps they are more than the caches hold. So they are looked at as few times as can be, and the next tile's are
on their way while this one's are looked at.
"""

from __future__ import annotations

import numpy as np
from numba import cuda

from mbe_stage.bicliques.cuda import layout as at
from mbe_stage.device.warp import ballot, count_bits, max_all, next_tile, rank

__all__ = ["look_at_rows", "no_rows", "touched_at"]

_U = np.uint32


@cuda.jit(device=True, forceinline=True)
def touched_at(k, n_touched, own):
    """The k-th row in `touched`, -1 behind the last one."""
    return own.touched[_U(k)] if k < n_touched else np.int32(-1)


@cuda.jit(device=True, forceinline=True)
def no_rows():
    """The `Rows` of a narrow child, whose rows are not looked at in this way."""
    zero = np.int32(0)
    return at.Rows(zero, zero, zero, zero, zero)


@cuda.jit(device=True, forceinline=True)
def look_at_rows(child, n_touched, n_pairs, own):
    """Put the number of each candidate, plus one, into `bits`; returns the `Rows`."""
    lane = np.int32(cuda.laneid)
    n_candidates = np.int32(0)
    n_full = np.int32(0)
    most_earlier = np.int32(0)
    following = touched_at(lane, n_touched, own)
    tile = np.int32(0)
    while tile < n_touched:
        other = following
        tile = next_tile(tile)
        following = touched_at(np.int32(tile + lane), n_touched, own)
        held = own.counts[_U(other)] if other >= 0 else np.int32(0)
        is_full = held == child.n_left
        is_candidate = other > child.row and not is_full
        if other < child.row:
            most_earlier = max(most_earlier, held)
        mask = ballot(is_candidate)
        if is_candidate:
            number = np.int32(n_candidates + rank(mask))
            own.bits[_U(other)] = _U(number + 1)
            if number < at.MOST_KEY_ROWS:
                own.families[_U(number)] = _U(other)
        n_candidates = np.int32(n_candidates + count_bits(mask))
        n_full = np.int32(n_full + count_bits(ballot(is_full)))
    cuda.syncwarp()
    return at.Rows(n_touched, n_pairs, n_candidates, n_full, max_all(most_earlier))

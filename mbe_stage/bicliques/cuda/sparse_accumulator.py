"""The rows that see a list child's left set, as counting its paths has collected them: what they are to the child.

Of all warps they are more than the caches hold. So they are looked at as few times as can be, and the next tile's are
on their way while this one's are looked at.

The array of counters of cuMBE 5.4, with a list of the counters that are not zero: a warp looks at those alone.
"""

from __future__ import annotations

import numpy as np
from numba import cuda

from mbe_stage.bicliques.cuda import layout as at
from mbe_stage.bicliques.cuda.walk_bundles import Rows
from mbe_stage.device.warp import ballot, count_bits, max_all, next_tile, rank

_U = np.uint32
_NONE = _U(0)


@cuda.jit(device=True, forceinline=True)
def nonzero_at(k, n_nonzero, own):
    """The k-th row in `nonzero`, -1 behind the last one."""
    return own.nonzero[_U(k)] if k < n_nonzero else np.int32(-1)


@cuda.jit(device=True, forceinline=True)
def no_rows():
    """The `Rows` of a bitmap child, whose rows are not looked at in this way."""
    zero = np.int32(0)
    return Rows(zero, zero, zero, zero, zero)


@cuda.jit(device=True, forceinline=True)
def look_at_rows(child, n_nonzero, n_pairs, own):
    """Put the number of each candidate, plus one, into `bits`; returns the `Rows`."""
    lane = np.int32(cuda.laneid)
    n_candidates = np.int32(0)
    n_full = np.int32(0)
    most_earlier = np.int32(0)
    following = nonzero_at(lane, n_nonzero, own)
    tile = np.int32(0)
    while tile < n_nonzero:
        other = following
        tile = next_tile(tile)
        following = nonzero_at(np.int32(tile + lane), n_nonzero, own)
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
                own.subsets[_U(number)] = _U(other)
        n_candidates = np.int32(n_candidates + count_bits(mask))
        n_full = np.int32(n_full + count_bits(ballot(is_full)))
    cuda.syncwarp()
    return Rows(n_nonzero, n_pairs, n_candidates, n_full, max_all(most_earlier))


@cuda.jit(device=True, forceinline=True)
def clear_accumulator(seen, own):
    """Make all of it zero again."""
    k = np.int32(cuda.laneid)
    while k < seen.n_nonzero:
        other = own.nonzero[_U(k)]
        own.bits[_U(other)] = _U(0)
        if seen.is_list:
            own.counts[_U(other)] = 0
        k = next_tile(k)


@cuda.jit(device=True, forceinline=True)
def append_nonzero(is_new, other, n_nonzero, own):
    """Append the rows of the lanes with a new one to `nonzero`; returns how many there are."""
    mask = ballot(is_new)
    if is_new:
        own.nonzero[_U(n_nonzero + rank(mask))] = other
    return np.int32(n_nonzero + count_bits(mask))


@cuda.jit(device=True, forceinline=True)
def number_of(other, own):
    """What stands in `bits` for a row, where that is its number plus one; 0 where there is no path."""
    return own.bits[_U(other)] if other >= 0 else _NONE

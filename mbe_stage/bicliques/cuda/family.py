"""Whole subtrees at once: the subsets of at most eleven left vertices fit the lanes of a warp, 64 to each.

A family of subsets is one uint64 a lane: the subset with index ``s`` is bit ``s & 63`` of lane ``s >> 6``. See
`mbe_stage.bicliques.cpu.family` for what is computed; here the steps of the upper five vertices are shuffles, and the
down-sets without one vertex share their common steps: 39 steps in place of 110.
"""

from __future__ import annotations

import numpy as np
from numba import cuda

from mbe_stage.bicliques.cuda.warp import ALL

__all__ = ["add_to_family", "clear_family", "lane_part", "maximal_family", "pack", "positions_of", "spread"]

_U = np.uint64
_ONE = _U(1)
_WITHOUT_0 = _U(0x5555555555555555)
_WITHOUT_1 = _U(0x3333333333333333)
_WITHOUT_2 = _U(0x0F0F0F0F0F0F0F0F)
_WITHOUT_3 = _U(0x00FF00FF00FF00FF)
_WITHOUT_4 = _U(0x0000FFFF0000FFFF)
_WITHOUT_5 = _U(0x00000000FFFFFFFF)


@cuda.jit(device=True, forceinline=True)
def _down_0(family):
    return family | ((family >> _U(1)) & _WITHOUT_0)


@cuda.jit(device=True, forceinline=True)
def _down_1(family):
    return family | ((family >> _U(2)) & _WITHOUT_1)


@cuda.jit(device=True, forceinline=True)
def _down_2(family):
    return family | ((family >> _U(4)) & _WITHOUT_2)


@cuda.jit(device=True, forceinline=True)
def _down_3(family):
    return family | ((family >> _U(8)) & _WITHOUT_3)


@cuda.jit(device=True, forceinline=True)
def _down_4(family):
    return family | ((family >> _U(16)) & _WITHOUT_4)


@cuda.jit(device=True, forceinline=True)
def _down_5(family):
    return family | (family >> _U(32))


@cuda.jit(device=True, forceinline=True)
def _down_lane(family, bit):
    """Down along the vertex that is this bit of the lane number."""
    other = _U(cuda.shfl_xor_sync(ALL, np.int64(family), bit))
    return family if cuda.laneid & bit else family | other


@cuda.jit(device=True, forceinline=True)
def _down_in_word(family):
    return _down_5(_down_4(_down_3(_down_2(_down_1(_down_0(family))))))


@cuda.jit(device=True, forceinline=True)
def _down_across_lanes(family, width):
    if width > 6:
        family = _down_lane(family, 1)
    if width > 7:
        family = _down_lane(family, 2)
    if width > 8:
        family = _down_lane(family, 4)
    if width > 9:
        family = _down_lane(family, 8)
    if width > 10:
        family = _down_lane(family, 16)
    return family


@cuda.jit(device=True, forceinline=True)
def _closed_in_word(family):
    """Subsets that miss each of the lower six vertices in some member; `family` is down along all the others."""
    upper = _down_5(_down_4(_down_3(family)))
    upper_2 = _down_2(upper)
    closed = _down_1(upper_2) | ~_WITHOUT_0
    closed &= _down_0(upper_2) | ~_WITHOUT_1
    closed &= _down_1(_down_0(upper)) | ~_WITHOUT_2
    lower = _down_2(_down_1(_down_0(family)))
    lower_5 = _down_5(lower)
    closed &= _down_4(lower_5) | ~_WITHOUT_3
    closed &= _down_3(lower_5) | ~_WITHOUT_4
    closed &= _down_4(_down_3(lower)) | ~_WITHOUT_5
    return closed


@cuda.jit(device=True, forceinline=True)
def _closed_across_lanes(family, width):
    """Subsets that miss each of the upper vertices in some member; `family` is down along the lower six."""
    lane = cuda.laneid
    closed = ~_U(0)
    upper = family
    if width > 8:
        upper = _down_lane(upper, 4)
    if width > 9:
        upper = _down_lane(upper, 8)
    if width > 10:
        upper = _down_lane(upper, 16)
    without = upper
    if width > 7:
        without = _down_lane(upper, 2)
    if not lane & 1:
        closed &= without
    if width > 7:
        without = _down_lane(upper, 1)
        if not lane & 2:
            closed &= without
    if width > 8:
        lower = _down_lane(_down_lane(family, 1), 2)
        without = lower
        if width > 9:
            without = _down_lane(without, 8)
        if width > 10:
            without = _down_lane(without, 16)
        if not lane & 4:
            closed &= without
        if width > 9:
            without = _down_lane(lower, 4)
            if width > 10:
                without = _down_lane(without, 16)
            if not lane & 8:
                closed &= without
        if width > 10:
            without = _down_lane(_down_lane(lower, 4), 8)
            if not lane & 16:
                closed &= without
    return closed


@cuda.jit(device=True, forceinline=True)
def maximal_family(candidates, excluded, width):
    """This lane's part of the left sides of all maximal bicliques of a subtree.

    Parameters
    ----------
    candidates, excluded : uint64
        This lane's part of the families of rows; the whole left set is added to `candidates`.
    width : int
        Left vertices, 1 to `FAMILY_WIDTH`.
    """
    lane = cuda.laneid
    last = (1 << width) - 1
    if lane == last >> 6:
        candidates |= _ONE << _U(last & 63)
    closed = _closed_in_word(_down_across_lanes(candidates, width))
    if width > 6:
        closed &= _closed_across_lanes(_down_in_word(candidates), width)
    closed &= ~_down_in_word(_down_across_lanes(excluded, width))
    if lane == 0:
        closed &= ~_ONE
    if width < 6:
        closed &= (_ONE << _U(1 << width)) - _ONE
    if lane > last >> 6:
        closed = _U(0)
    return closed


@cuda.jit(device=True, forceinline=True)
def positions_of(left):
    """Positions of the (at most eleven) set bits of a word; missing ones point at a clear bit."""
    clear = _U(cuda.ffs(~left) - 1)
    p0 = _lowest(left, clear)
    left &= left - _ONE
    p1 = _lowest(left, clear)
    left &= left - _ONE
    p2 = _lowest(left, clear)
    left &= left - _ONE
    p3 = _lowest(left, clear)
    left &= left - _ONE
    p4 = _lowest(left, clear)
    left &= left - _ONE
    p5 = _lowest(left, clear)
    left &= left - _ONE
    p6 = _lowest(left, clear)
    left &= left - _ONE
    p7 = _lowest(left, clear)
    left &= left - _ONE
    p8 = _lowest(left, clear)
    left &= left - _ONE
    p9 = _lowest(left, clear)
    left &= left - _ONE
    p10 = _lowest(left, clear)
    return p0, p1, p2, p3, p4, p5, p6, p7, p8, p9, p10


@cuda.jit(device=True, forceinline=True)
def _lowest(word, otherwise):
    # left & (left - 1) of zero is zero, so this also holds behind the last set bit.
    return otherwise if word == _U(0) else _U(cuda.ffs(word) - 1)


@cuda.jit(device=True, forceinline=True)
def pack(row, positions):
    """Index of a subset: the bits of `row` at `positions`, moved together."""
    p0, p1, p2, p3, p4, p5, p6, p7, p8, p9, p10 = positions
    return (
        ((row >> p0) & _ONE)
        | (((row >> p1) & _ONE) << _U(1))
        | (((row >> p2) & _ONE) << _U(2))
        | (((row >> p3) & _ONE) << _U(3))
        | (((row >> p4) & _ONE) << _U(4))
        | (((row >> p5) & _ONE) << _U(5))
        | (((row >> p6) & _ONE) << _U(6))
        | (((row >> p7) & _ONE) << _U(7))
        | (((row >> p8) & _ONE) << _U(8))
        | (((row >> p9) & _ONE) << _U(9))
        | (((row >> p10) & _ONE) << _U(10))
    )


@cuda.jit(device=True, forceinline=True)
def spread(index, left):
    """The inverse of `pack`: the subset of `left` with this index."""
    word = _U(0)
    while index != _U(0):
        lowest = left & (~left + _ONE)
        if index & _ONE:
            word |= lowest
        left ^= lowest
        index >>= _ONE
    return word


@cuda.jit(device=True, forceinline=True)
def clear_family(family):
    """Empty a family in shared memory, (64,) uint32."""
    family[cuda.laneid] = np.uint32(0)
    family[cuda.laneid + 32] = np.uint32(0)


@cuda.jit(device=True, forceinline=True)
def add_to_family(family, index):
    """Put a subset in; the empty one never matters."""
    if index != _U(0):
        cuda.atomic.or_(family, np.int32(index >> _U(5)), np.uint32(1) << np.uint32(index & _U(31)))


@cuda.jit(device=True, forceinline=True)
def lane_part(family):
    """This lane's 64 subsets of a family in shared memory."""
    return _U(family[2 * cuda.laneid]) | (_U(family[2 * cuda.laneid + 1]) << _U(32))

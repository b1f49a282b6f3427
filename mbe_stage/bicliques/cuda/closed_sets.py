"""The closed-set bitmap of a small subtree.

The subsets of at most ten left vertices fit the lanes of a warp, 32 per lane. A set of subsets is a bitmap, one uint32
per lane: the subset with index ``s`` is bit ``s & 31`` of lane ``s >> 5``. For the computed sets see
`mbe_stage.bicliques.cpu.closed_sets`. Here the steps of the upper five vertices are shuffles, and the down-sets without
one vertex share their common steps. Missing vertices change nothing, so all subtrees take the same steps: short code
without a branch.
"""

from __future__ import annotations

import numpy as np
from numba import cuda

from mbe_stage.bicliques.cuda import layout
from mbe_stage.bicliques.cuda.layout import CLOSED_SET_WIDTH
from mbe_stage.bicliques.cuda.techniques import CLOSED_SETS
from mbe_stage.device.warp import ballot, count_bits, min_all, next_tile, shuffle_xor

_U = np.uint32
_ONE = _U(1)
_WITHOUT = (_U(0x55555555), _U(0x33333333), _U(0x0F0F0F0F), _U(0x00FF00FF), _U(0x0000FFFF))
"""Bits of a word without the bit 0, 1, 2, 3 and 4 in their index."""
_AT_MOST = (_U(0x00000001), _U(0x00010117), _U(0x0117177F), _U(0x177F7FFF), _U(0x7FFFFFFF))
"""Bits of a word with at most 0, 1, 2, 3 and 4 bits in their index."""


def _down(bit):
    """Return the function that extends a bitmap downwards along the vertex of this bit of the index in a word."""
    places, without = _U(1 << bit), _WITHOUT[bit]

    @cuda.jit(device=True, forceinline=True)
    def down(subsets):
        return _U(subsets | (_U(subsets >> places) & without))

    return down


_down_0, _down_1, _down_2, _down_3, _down_4 = map(_down, range(5))


@cuda.jit(device=True, forceinline=True)
def _down_lane(subsets, bit):
    """Extend a bitmap downwards along the vertex of this bit of the lane number."""
    other = shuffle_xor(subsets, bit)
    return subsets if cuda.laneid & bit else _U(subsets | other)


@cuda.jit(device=True, forceinline=True)
def _down_in_word(subsets):
    return _down_4(_down_3(_down_2(_down_1(_down_0(subsets)))))


@cuda.jit(device=True, forceinline=True)
def _down_across_lanes(subsets):
    return _down_lane(_down_lane(_down_lane(_down_lane(_down_lane(subsets, 1), 2), 4), 8), 16)


@cuda.jit(device=True, forceinline=True)
def _closed_in_word(subsets):
    """Subsets that miss each of the lower five vertices in some member; `subsets` is extended down all others."""
    upper = _down_4(_down_3(_down_2(subsets)))
    closed = _U(_down_1(upper) | ~_WITHOUT[0])
    closed = _U(closed & (_down_0(upper) | ~_WITHOUT[1]))
    lower = _down_1(_down_0(subsets))
    lower_4 = _down_4(lower)
    closed = _U(closed & (_down_3(lower_4) | ~_WITHOUT[2]))
    lower_4 = _down_2(lower_4)
    closed = _U(closed & (lower_4 | ~_WITHOUT[3]))
    return _U(closed & (_down_3(_down_2(lower)) | ~_WITHOUT[4]))


@cuda.jit(device=True, forceinline=True)
def _closed_across_lanes(subsets):
    """Subsets that miss each of the upper five vertices in some member; `subsets` is extended down the lower five."""
    lane = cuda.laneid
    upper = _down_lane(_down_lane(_down_lane(subsets, 4), 8), 16)
    closed = _in_lanes_with(lane & 1, _down_lane(upper, 2))
    closed = _U(closed & _in_lanes_with(lane & 2, _down_lane(upper, 1)))
    lower = _down_lane(_down_lane(subsets, 1), 2)
    lower_16 = _down_lane(lower, 16)
    closed = _U(closed & _in_lanes_with(lane & 4, _down_lane(lower_16, 8)))
    closed = _U(closed & _in_lanes_with(lane & 8, _down_lane(lower_16, 4)))
    return _U(closed & _in_lanes_with(lane & 16, _down_lane(_down_lane(lower, 4), 8)))


@cuda.jit(device=True, forceinline=True)
def _in_lanes_with(bit, subsets):
    """All subsets in lanes whose number has the bit (their subsets have the vertex), else the bitmap."""
    return _U(0xFFFFFFFF) if bit else subsets


@cuda.jit(device=True, forceinline=True)
def widest(launch):
    """Most columns of a left set whose closed sets are found at once; 0 without the technique."""
    return CLOSED_SET_WIDTH if launch.techniques & CLOSED_SETS != 0 else 0


@cuda.jit(device=True, forceinline=True)
def closed_sets(candidates, excluded, width):
    """This lane's share of the left sides of all maximal bicliques of a subtree.

    From its shares of the bitmaps of rows, uint32. The whole left set, of 1 to `CLOSED_SET_WIDTH` vertices, is a
    candidate, too.
    """
    lane = cuda.laneid
    last = _U((_ONE << _U(width)) - _ONE)
    if lane == last >> _U(5):
        candidates = _U(candidates | _U(_ONE << _U(last & _U(31))))
    closed = _closed_in_word(_down_across_lanes(candidates))
    closed = _U(closed & _closed_across_lanes(_down_in_word(candidates)))
    closed = _U(closed & ~_down_in_word(_down_across_lanes(excluded)))
    # The empty subset is bit 0 of lane 0; subsets with vertices past the width are no subsets.
    if lane == 0:
        closed = _U(closed & ~_ONE)
    if width < 5:
        closed = _U(closed & ((_ONE << _U(last + _ONE)) - _ONE))
    return closed if lane <= last >> _U(5) else _U(0)


@cuda.jit(device=True, forceinline=True)
def without_whole(subsets, candidates, width):
    """Drop the whole left set from the bitmap unless it is a candidate: it is known already, or no biclique."""
    last = _U((_ONE << _U(width)) - _ONE)
    whole = _U(_ONE << _U(last & _U(31))) if cuda.laneid == last >> _U(5) else _U(0)
    return _U(subsets & ~_U(whole & ~candidates))


@cuda.jit(device=True, forceinline=True)
def fewest_members(subsets):
    """Size of the smallest subset in a nonempty bitmap."""
    size = count_bits(_U(cuda.laneid))
    for at_most in _AT_MOST:
        size = np.int32(size + np.int32(_U(subsets & at_most) == 0))
    return min_all(np.int32(size + CLOSED_SET_WIDTH * np.int32(subsets == 0)))


@cuda.jit(device=True, forceinline=True)
def fewer_members(n):
    """Bits of a word with fewer than `n` bits in their index."""
    bits = _U(0)
    for fewer in range(5):
        bits = _AT_MOST[fewer] if n > fewer else bits
    return _U(0xFFFFFFFF) if n > 5 else bits


@cuda.jit(device=True, forceinline=True)
def with_some(columns):
    """This lane's share of the subsets with some of these columns, given as a subset's index."""
    found = _U(0xFFFFFFFF) if _U(_U(cuda.laneid) & _U(columns >> _U(5))) != 0 else _U(0)
    for bit in range(5):
        found = _U(found | ~_WITHOUT[bit]) if _U(columns & _U(1 << bit)) != 0 else found
    return found


@cuda.jit(device=True, forceinline=True)
def moves_of(left):
    """Moves with which `pack` gathers the bits of `left`: by 1, 2, 4, 8 and 16 positions, as five uint32.

    Every bit moves down by the number of clear bits of `left` below it, in powers of two from 1 on, so no two bits meet
    on the way. Later masks give the positions of bits after the moves before.
    """
    lane = cuda.laneid
    is_set = _U(left >> _U(lane)) & _ONE != 0
    distance = np.int32(lane - count_bits(left & cuda.lanemask_lt()))
    first = ballot(is_set and distance & 1 != 0)
    second = _moved(ballot(is_set and distance & 2 != 0), first, 1)
    third = _moved(_moved(ballot(is_set and distance & 4 != 0), first, 1), second, 2)
    fourth = _moved(_moved(_moved(ballot(is_set and distance & 8 != 0), first, 1), second, 2), third, 4)
    fifth = ballot(is_set and distance & 16 != 0)
    fifth = _moved(_moved(_moved(_moved(fifth, first, 1), second, 2), third, 4), fourth, 8)
    return first, second, third, fourth, fifth


@cuda.jit(device=True, forceinline=True)
def _moved(word, mask, places):
    moving = _U(word & mask)
    return _U((word ^ moving) | _U(moving >> _U(places)))


@cuda.jit(device=True, forceinline=True)
def pack(row, moves):
    """Index of a subset of the left set of `moves`: its bits moved together."""
    first, second, third, fourth, fifth = moves
    row = _moved(_moved(_moved(row, first, 1), second, 2), third, 4)
    return _moved(_moved(row, fourth, 8), fifth, 16)


@cuda.jit(device=True, forceinline=True)
def _moved_back(word, mask, places):
    moving = _U(_U(word << _U(places)) & mask)
    return _U((word & ~_U(mask >> _U(places))) | moving)


@cuda.jit(device=True, forceinline=True)
def spread(index, left, moves):
    """Inverse of `pack`: the subset of `left` with this index."""
    first, second, third, fourth, fifth = moves
    word = _moved_back(_moved_back(index, fifth, 16), fourth, 8)
    word = _moved_back(_moved_back(_moved_back(word, third, 4), second, 2), first, 1)
    return _U(word & left)


@cuda.jit(device=True, forceinline=True)
def collect_subsets(child, moves, frame, own):
    """Restrict candidates and excluded rows of a bitset frame's child to its left set, as two bitmaps of subsets.

    Rows before the cursor are excluded, too; the row at the cursor is the child. Returns this lane's share of each.
    """
    lane = np.int32(cuda.laneid)
    left, cursor = child.left, child.cursor
    first, n_rows, n_excluded = frame[layout.WORDS], frame[layout.N_ROWS], frame[layout.N_EXCLUDED]
    # Columns that are an excluded row by themselves.
    singles = _U(frame[layout.SINGLES])
    clear_subsets(own.subsets)
    n = np.int32(n_rows + n_excluded)
    tile = np.int32(0)
    while tile < n:
        k = np.int32(tile + lane)
        row = _U(0)
        if k < n and k != cursor:
            row = _U(own.words[_U(first + k)] & left)
        add_subset(own.subsets, pack(row, moves), k < cursor or k >= n_rows)
        tile = next_tile(tile)
    single = _U(pack(_U(singles & left), moves) & _U(_ONE << _U(lane)))
    add_subset(own.subsets, single, True)
    return subsets_of_lane(own.subsets)


@cuda.jit(device=True, forceinline=True)
def clear_subsets(subsets):
    """Empty both bitmaps in shared memory."""
    subsets[_U(cuda.laneid)] = _U(0)
    subsets[_U(cuda.laneid + 32)] = _U(0)
    cuda.syncwarp()


@cuda.jit(device=True, forceinline=True)
def add_subset(subsets, index, is_excluded):
    """Put a subset into the bitmap of candidates or of excluded rows; empty subsets do not matter."""
    if index != 0:
        place = _U(index >> _U(5))
        if is_excluded:
            place = _U(place + _U(32))
        cuda.atomic.or_(subsets, place, _U(_ONE << _U(index & _U(31))))


@cuda.jit(device=True, forceinline=True)
def subsets_of_lane(subsets):
    """This lane's share of both bitmaps, candidates and excluded, once all lanes have added theirs."""
    cuda.syncwarp()
    candidates, excluded = subsets[_U(cuda.laneid)], subsets[_U(cuda.laneid + 32)]
    cuda.syncwarp()
    return candidates, excluded

"""Up to 64 candidates of a root as a hash table in shared memory, and rows of bits found with it.

An edge between a candidate and an earlier vertex is one of the earlier vertex's later neighbours. So each lane walks
the later neighbours of one vertex, four at a time, and looks each up among the candidates.
"""

from __future__ import annotations

import numpy as np
from numba import cuda

from mbe_stage.cliques.cuda import layout as at
from mbe_stage.device.masks import bit_of, of_halves
from mbe_stage.device.warp import next_tile

_MIXER = 0x9E3779B1
"""Of Fibonacci hashing: 2^32 over the golden ratio."""
_SHIFT = 32 - at.TABLE_BITS
_LOW_HALF = 0xFFFFFFFF
_I = np.int32
_L = np.int64
_U = np.uint32
_W = np.uint64


@cuda.jit(device=True, forceinline=True)
def _slot_of(vertex):
    """Where the search for a vertex begins, int32."""
    return _I(_U(_U(vertex) * _U(_MIXER)) >> _U(_SHIFT))


@cuda.jit(device=True, forceinline=True)
def _insert(vertex, column, own):
    """Put a candidate into the first free place."""
    slot = _slot_of(vertex)
    entry = of_halves(_U(vertex), _U(column + 1))
    while cuda.atomic.cas(own.frame, _I(own.frame_at + at.TABLE_AT + slot), _W(0), entry) != _W(0):
        slot = _I(_I(slot + 1) & _I(at.TABLE_SLOTS - 1))


@cuda.jit(device=True, forceinline=True)
def fill_table(first, n, own, members):
    """Make the table of `n` candidates, 64 at most, which stand from `first` on; column 0 is the first one's."""
    lane = _I(cuda.laneid)
    cuda.syncwarp()
    slot = lane
    while slot < at.TABLE_SLOTS:
        own.frame[own.frame_at + at.TABLE_AT + slot] = _W(0)
        slot = next_tile(slot)
    cuda.syncwarp()
    if lane < n:
        _insert(members[first + lane], lane, own)
    if lane + 32 < n:
        _insert(members[first + lane + 32], _I(lane + 32), own)
    cuda.syncwarp()


@cuda.jit(device=True, forceinline=True)
def _bit_from(slot, entry, vertex, own):
    """The bit of a vertex's column, uint64; 0 where it is no candidate; `entry` is what stands in the first slot."""
    while entry != _W(0) and _I(entry & _W(_LOW_HALF)) != vertex:
        slot = _I(_I(slot + 1) & _I(at.TABLE_SLOTS - 1))
        entry = own.frame[own.frame_at + at.TABLE_AT + slot]
    if entry == _W(0):
        return _W(0)
    return bit_of(_I(_I(entry >> _W(32)) - 1))


@cuda.jit(device=True, forceinline=True)
def row_of(place, end, last, own, members):
    """Which candidates of the table are among some neighbours, in ascending order; called by each lane for itself.

    Parameters
    ----------
    place, end : int64
        Where the neighbours stand among the members.
    last : int32
        Neighbours above this one are left for later.
    own : Own
    members : int32, global
        Of the graph.

    Returns
    -------
    row : uint64
    place : int64
        Of the first neighbour that is left.
    """
    table = own.frame_at + at.TABLE_AT
    row = _W(0)
    n_passed = _I(4)
    while n_passed == 4 and place < end:
        # Four at once: most of the time goes by waiting for memory.
        n_left = _L(end - place)
        a = members[place]
        b = members[place + 1] if n_left > 1 else a
        c = members[place + 2] if n_left > 2 else a
        d = members[place + 3] if n_left > 3 else a
        of_a, of_b, of_c, of_d = _slot_of(a), _slot_of(b), _slot_of(c), _slot_of(d)
        at_a, at_b = own.frame[table + of_a], own.frame[table + of_b]
        at_c, at_d = own.frame[table + of_c], own.frame[table + of_d]
        row = _W(row | _W(_bit_from(of_a, at_a, a, own) | _bit_from(of_b, at_b, b, own)))
        row = _W(row | _W(_bit_from(of_c, at_c, c, own) | _bit_from(of_d, at_d, d, own)))
        n_passed = _I(1) if a <= last else _I(0)
        if n_left > 1 and b <= last:
            n_passed = _I(n_passed + 1)
        if n_left > 2 and c <= last:
            n_passed = _I(n_passed + 1)
        if n_left > 3 and d <= last:
            n_passed = _I(n_passed + 1)
        place = _L(place + _L(n_passed))
    return row, place

"""Write the members of a node's cliques, ascending and without gaps.

The cliques of a node differ in at most six candidates. So the union of their members is sorted once, in shared memory,
with one vertex per lane. For each clique, the lanes of its vertices vote, and write side by side.
"""

from __future__ import annotations

import numpy as np
from numba import cuda

from mbe_stage.cliques.cuda import layout
from mbe_stage.device.masks import low_bits, of_halves, size_of
from mbe_stage.device.warp import ballot, count_bits, first_bit, next_one, next_tile, or_all, rank

ALWAYS = 1 << 6
"""Bit of the members shared by all cliques; the bits below it belong to the candidates, in order."""
_LOW_HALF = 0xFFFFFFFF
_I = np.int32
_L = np.int64
_U = np.uint32
_W = np.uint64


@cuda.jit(device=True, forceinline=True)
def put(vertex, bit, place, own):
    """Put a vertex into the sorted list, if its position is on the current tile."""
    if place >= 0 and place < layout.UNION_WIDTH:
        own.frame[_W(own.frame_at + layout.UNION_AT + place)] = of_halves(vertex, bit)


@cuda.jit(device=True, forceinline=True)
def _put_columns(first, n_all_before, n_free_before, all_here, free_here, tile, frame, own, words):
    """Put the vertices of 32 columns into the list, one column per lane, if cliques contain them.

    Parameters
    ----------
    first : int
        The first column.
    n_all_before, n_free_before : int32
        Numbers before the first column: members of any clique, and candidates.
    all_here, free_here : uint32
        Masks of the same for these columns.
    tile : int32
    words : uint32, global
    """
    lane = _U(cuda.laneid)
    if _U(all_here >> lane) & _U(1) != 0:
        column = _L(frame.pool_offset + first + _I(lane))
        vertex, n_earlier = _U(words[_W(column + layout.IDS_AT)]), _I(words[_W(column + layout.EARLIER_AT)])
        bit = _U(ALWAYS)
        if _U(free_here >> lane) & _U(1) != 0:
            bit = _U(_U(1) << _U(n_free_before + rank(free_here)))
        put(vertex, bit, _I(n_earlier + n_all_before + rank(all_here) - tile), own)


@cuda.jit(device=True, forceinline=True)
def _put_in_order(tile, joined, candidates, frame, own, words):
    """Put the union of a node's cliques into shared memory, sorted, from position `tile` on.

    Parameters
    ----------
    tile : int32
    joined, candidates : uint64
    words : uint32, global
    """
    everything = _W(joined | candidates)
    low, high = _U(everything & _W(_LOW_HALF)), _U(everything >> _W(32))
    low_free, high_free = _U(candidates & _W(_LOW_HALF)), _U(candidates >> _W(32))
    cuda.syncwarp()
    _put_columns(0, _I(0), _I(0), low, low_free, tile, frame, own, words)
    if high != 0:
        _put_columns(32, count_bits(low), count_bits(low_free), high, high_free, tile, frame, own, words)
    k = _I(cuda.laneid)
    while k < frame.n_base:
        entry = _L(frame.pool_offset + layout.BASE_AT + 2 * k)
        position = _U(words[_W(entry + 1)])
        n_columns = size_of(_W(everything & low_bits(_I(position & _U(127)))))
        put(_U(words[_W(entry)]), _U(ALWAYS), _I(_I(position >> _U(7)) + n_columns - tile), own)
        k = next_tile(k)
    cuda.syncwarp()


@cuda.jit(device=True, forceinline=True)
def write_tile(low, high, vertex, bits, seen, place, n_joined, start, members):
    """Write this lane's vertex into each clique that contains it; return the start of the next clique.

    Parameters
    ----------
    low, high : uint32
        Sets of the candidates, one bit each.
    vertex : int32
    bits : uint32
        The vertex's bit; 0 if the lane has no vertex.
    seen : uint32
        Bits of the candidates on earlier tiles.
    place : int32
        Start of this tile in the first clique, if it contains all candidates of earlier tiles.
    n_joined : int32
        Number of members shared by all cliques.
    start : int64
        Origin of the places.
    members : int32, global
    """
    number_of_first = _U(ALWAYS)
    # The extra bit above the candidates' bits keeps the compilers from recomputing the rest for every clique.
    step = next_one(_I(n_joined - 2))
    while True:
        while low != 0:
            number = _U(number_of_first + _U(first_bit(low)))
            low = _U(low & _U(low - _U(1)))
            is_in = _U(bits & number) != 0
            mask = ballot(is_in)
            if is_in:
                members[_W(start + _L(_I(place - count_bits(_U(seen & ~number)) + rank(mask))))] = vertex
            place = _I(place + step + count_bits(number))
        if high == 0:
            return place
        low, high = high, _U(0)
        number_of_first = _U(ALWAYS + 32)


@cuda.jit(device=True, forceinline=True)
def write_sets(low, high, joined, candidates, start, frame, own, words, members):
    """Write the members of a clique for each set.

    Parameters
    ----------
    low, high : uint32
    joined : uint64
        Members shared by all of the cliques.
    candidates : uint64
    start : int64
        Start of the first clique.
    words : uint32, global
    members : int32, global
        The output.
    """
    lane = _I(cuda.laneid)
    n_joined = _I(frame.n_base + size_of(joined))
    n_union = _I(n_joined + size_of(candidates))
    seen = _U(0)
    tile = _I(0)
    while tile < n_union:
        _put_in_order(tile, joined, candidates, frame, own, words)
        entry = _W(0)
        if tile + lane < n_union:
            entry = own.frame[_W(own.frame_at + layout.UNION_AT + lane)]
        bits = _U(entry >> _W(32))
        write_tile(low, high, _I(entry & _W(_LOW_HALF)), bits, seen, tile, n_joined, start, members)
        tile = next_tile(tile)
        if tile < n_union:
            seen = _U(seen | _U(or_all(bits) & _U(ALWAYS - 1)))
    cuda.syncwarp()


@cuda.jit(device=True, forceinline=True)
def place_members(pool_offset, n_base, n, words):
    """Find the positions of a frame's vertices in its cliques.

    For each candidate, count the smaller vertices of the base. For each base vertex, count the smaller vertices of the
    base and the smaller candidates.
    """
    lane = _I(cuda.laneid)
    base_at, ids_at = _L(pool_offset + layout.BASE_AT), _L(pool_offset + layout.IDS_AT)
    high = _I(lane + 32)
    low_vertex = _U(words[ids_at + lane]) if lane < n else _U(0)
    high_vertex = _U(words[ids_at + high]) if high < n else _U(0)
    tile = _I(0)
    while tile < n_base:
        own = _I(tile + lane)
        mine = _U(words[base_at + 2 * own]) if own < n_base else _U(0)
        smaller, below, low_smaller, high_smaller = _I(0), _I(0), _I(0), _I(0)
        k = _I(0)
        while k < n_base:
            other = _U(words[base_at + 2 * k])
            is_low, is_high = lane < n and low_vertex < other, high < n and high_vertex < other
            n_below = _I(count_bits(ballot(is_low)) + count_bits(ballot(is_high)))
            if k == own:
                below = n_below
            smaller = _I(smaller + (_I(1) if other < mine else _I(0)))
            low_smaller = _I(low_smaller + (_I(1) if other < low_vertex else _I(0)))
            high_smaller = _I(high_smaller + (_I(1) if other < high_vertex else _I(0)))
            k = next_one(k)
        if tile == 0 and lane < n:
            words[pool_offset + layout.EARLIER_AT + lane] = _U(low_smaller)
        if tile == 0 and high < n:
            words[pool_offset + layout.EARLIER_AT + high] = _U(high_smaller)
        if own < n_base:
            words[base_at + 2 * own + 1] = _U((smaller << 7) | below)
        tile = next_tile(tile)
    cuda.syncwarp()

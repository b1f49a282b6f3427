"""Finish nodes with at most six candidates at once: a set of candidates is a bit of two words.

Bit ``s`` of the low word stands for subset ``s`` of the first five candidates, and bit ``s`` of the high word for the
same subset with the sixth candidate. A vertex *dominates* a set if it is outside the set and adjacent to all of it. It
dominates the sets within its row; if it is a candidate, only those without itself. A set of pairwise adjacent
candidates that no vertex dominates is the part of one maximal clique. (Compare `mbe_stage.bicliques.cuda.closed_sets`.)
"""

from __future__ import annotations

import numpy as np
from numba import cuda

from mbe_stage.device.masks import bit_of, has, of_halves, size_of
from mbe_stage.device.warp import next_tile, or_all

MOST_CANDIDATES = 6
# Sets that contain the first, second, ... fifth candidate.
_HOLDING = (0xAAAAAAAA, 0xCCCCCCCC, 0xF0F0F0F0, 0xFF00FF00, 0xFFFF0000)
_ALL = 0xFFFFFFFF
_I = np.int32
_L = np.int64
_U = np.uint32
_W = np.uint64


@cuda.jit(device=True, forceinline=True)
def _lowest(mask):
    """Return the set of the lowest element; empty if the set is empty."""
    return _W(mask & _W(~mask + _W(1)))


@cuda.jit(device=True, forceinline=True)
def lowest_six(mask):
    """Return the six lowest elements, each as a set; empty sets if there are fewer."""
    first = _lowest(mask)
    mask = _W(mask & ~first)
    second = _lowest(mask)
    mask = _W(mask & ~second)
    third = _lowest(mask)
    mask = _W(mask & ~third)
    fourth = _lowest(mask)
    mask = _W(mask & ~fourth)
    fifth = _lowest(mask)
    return first, second, third, fourth, fifth, _lowest(_W(mask & ~fifth))


@cuda.jit(device=True, forceinline=True)
def _lacks(row, element):
    """Return True if a one-element set is not within a row; False for the empty set."""
    return _W(element & ~row) != _W(0)


@cuda.jit(device=True, forceinline=True)
def _without(row, six):
    """Return the sets that contain one of the first five candidates outside a row, uint32."""
    word = _U(0)
    if _lacks(row, six[0]):
        word = _U(_HOLDING[0])
    if _lacks(row, six[1]):
        word = _U(word | _U(_HOLDING[1]))
    if _lacks(row, six[2]):
        word = _U(word | _U(_HOLDING[2]))
    if _lacks(row, six[3]):
        word = _U(word | _U(_HOLDING[3]))
    if _lacks(row, six[4]):
        word = _U(word | _U(_HOLDING[4]))
    return word


@cuda.jit(device=True, forceinline=True)
def _holding(element, six):
    """Return the sets that contain a given one of the first five candidates, uint32; 0 for the sixth."""
    word = _U(0)
    if element == six[0]:
        word = _U(_HOLDING[0])
    if element == six[1]:
        word = _U(_HOLDING[1])
    if element == six[2]:
        word = _U(_HOLDING[2])
    if element == six[3]:
        word = _U(_HOLDING[3])
    if element == six[4]:
        word = _U(_HOLDING[4])
    return word


@cuda.jit(device=True, forceinline=True)
def dominated(row, six):
    """Return the sets within a row: the low and the high word."""
    low = _U(~_without(row, six))
    return low, _U(0) if _lacks(row, six[5]) else low


@cuda.jit(device=True, forceinline=True)
def no_cliques(row, element, six):
    """Return the sets that contain a candidate and another one not adjacent to it: the low and the high word."""
    seen = _W(row | element)
    outside = _without(seen, six)
    if element == six[5]:
        return _U(0), outside
    holding = _holding(element, six)
    low = _U(holding & outside)
    return low, holding if _lacks(seen, six[5]) else low


@cuda.jit(device=True, forceinline=True)
def is_excluded(row, joined):
    """Return True if a row belongs to an excluded vertex: some vertices have joined, and it contains all of them."""
    return joined != _W(0) and _W(joined & ~row) == _W(0)


@cuda.jit(device=True, forceinline=True)
def _ruled_out(row, number, joined, candidates, six):
    """Return the sets that a candidate's row rules out, as a candidate of the node or as an excluded vertex."""
    low, high = _U(0), _U(0)
    if has(candidates, number):
        low, high = dominated(row, six)
        more_low, more_high = no_cliques(row, bit_of(number), six)
        low, high = _U(low | more_low), _U(high | more_high)
    elif is_excluded(row, joined):
        low, high = dominated(row, six)
    return low, high


@cuda.jit(device=True, forceinline=True)
def there(n):
    """Return all subsets of the first five of `n` candidates, uint32."""
    return _U(_ALL) if n >= 5 else _U(_U(_U(1) << _U(1 << n)) - _U(1))


@cuda.jit(device=True, forceinline=True)
def maximal_sets(joined, candidates, six, frame, words):
    """Find the subsets of at most six candidates that are maximal cliques with the joined vertices.

    Parameters
    ----------
    joined, candidates : uint64
    six : six uint64
        The candidates, each as a set.
    words : uint32, global

    Returns
    -------
    low, high : uint32
    """
    lane = _I(cuda.laneid)
    low, high = _ruled_out(frame.row, lane, joined, candidates, six)
    more_low, more_high = _ruled_out(frame.high_row, _I(lane + 32), joined, candidates, six)
    low, high = _U(low | more_low), _U(high | more_high)
    place = _L(frame.excluded_at + 2 * lane)
    tile = _I(0)
    while tile < frame.n_excluded:
        if _I(tile + lane) < frame.n_excluded:
            row = of_halves(words[place], words[place + 1])
            if _W(joined & ~row) == _W(0):
                more_low, more_high = dominated(row, six)
                low, high = _U(low | more_low), _U(high | more_high)
        place = _L(place + 64)
        tile = next_tile(tile)
    n = size_of(candidates)
    low = _U(there(n) & ~or_all(low))
    high = _U(~or_all(high)) if n == MOST_CANDIDATES else _U(0)
    return low, high

"""Nodes of at most six candidates, ended at once: a set of candidates is a bit of two words.

Bit ``s`` of the low word stands for the set of those of the first five candidates that ``s`` has bits of; the high word
has the sixth candidate besides. A vertex that is adjacent to all of a set, and not in it, *dominates* it: the sets
within its row, which for a candidate are without itself. A set that nobody dominates and whose members are pairwise
adjacent is what a maximal clique has of the candidates. (`mbe_stage.bicliques.cuda.closed_sets` does the like.)
"""

from __future__ import annotations

import numpy as np
from numba import cuda

from mbe_stage.device.masks import bit_of, has, of_halves, size_of
from mbe_stage.device.warp import next_tile, or_all

MOST_CANDIDATES = 6
# Sets that hold the first of five candidates, the second, ...
_HOLDING = (0xAAAAAAAA, 0xCCCCCCCC, 0xF0F0F0F0, 0xFF00FF00, 0xFFFF0000)
_ALL = 0xFFFFFFFF
_I = np.int32
_L = np.int64
_U = np.uint32
_W = np.uint64


@cuda.jit(device=True, forceinline=True)
def _lowest(mask):
    """The set of its lowest element; of none where it is empty."""
    return _W(mask & _W(~mask + _W(1)))


@cuda.jit(device=True, forceinline=True)
def lowest_six(mask):
    """Its six lowest elements, each as a set; empty ones where it has fewer."""
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
    """Whether a set of one element is not within a row; the empty one is."""
    return _W(element & ~row) != _W(0)


@cuda.jit(device=True, forceinline=True)
def _without(row, six):
    """Sets that hold one of the first five candidates that a row has not, uint32."""
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
    """Sets that hold one of the first five candidates, uint32; 0 for the sixth."""
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
    """Sets within a row: the low and the high word."""
    low = _U(~_without(row, six))
    return low, _U(0) if _lacks(row, six[5]) else low


@cuda.jit(device=True, forceinline=True)
def no_cliques(row, element, six):
    """Sets that hold a candidate and one that it is not adjacent to: the low and the high word."""
    seen = _W(row | element)
    outside = _without(seen, six)
    if element == six[5]:
        return _U(0), outside
    holding = _holding(element, six)
    low = _U(holding & outside)
    return low, holding if _lacks(seen, six[5]) else low


@cuda.jit(device=True, forceinline=True)
def is_excluded(row, joined):
    """Whether a candidate's row is of one that is excluded now: adjacent to all that joined. None is before any has."""
    return joined != _W(0) and _W(joined & ~row) == _W(0)


@cuda.jit(device=True, forceinline=True)
def _ruled_out(row, number, joined, candidates, six):
    """Sets that a candidate's row rules out, as one of the node's candidates or as an excluded vertex."""
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
    """The sets of the first five of `n` candidates: 2^n, uint32."""
    return _U(_ALL) if n >= 5 else _U(_U(_U(1) << _U(1 << n)) - _U(1))


@cuda.jit(device=True, forceinline=True)
def maximal_sets(joined, candidates, six, frame, words):
    """Which sets of at most six candidates are, with what has joined, maximal cliques.

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

"""Sets of up to 64 rows, columns or vertices, as uint64."""

from __future__ import annotations

import numpy as np
from numba import cuda

from mbe_stage.device.warp import ballot, count_bits, nth_bit, shuffle_xor

_ONE = np.uint64(1)
_U = np.uint32


@cuda.jit(device=True, forceinline=True)
def size_of(mask):
    """Return the number of elements, int32."""
    return np.int32(cuda.popc(np.uint64(mask)))


@cuda.jit(device=True, forceinline=True)
def first_of(mask):
    """Return the lowest element, int32; -1 if the set is empty."""
    return np.int32(np.int32(cuda.ffs(np.uint64(mask))) - np.int32(1))


@cuda.jit(device=True, forceinline=True)
def bit_of(element):
    """Return the set with a single element."""
    return np.uint64(_ONE << np.uint64(element))


@cuda.jit(device=True, forceinline=True)
def has(mask, element):
    """True if an element is in the set."""
    return np.uint64(np.uint64(mask) >> np.uint64(element)) & _ONE != np.uint64(0)


@cuda.jit(device=True, forceinline=True)
def low_bits(n):
    """Return the set of the first `n` elements, 0 to 64."""
    if n >= 64:
        return np.uint64(0xFFFFFFFFFFFFFFFF)
    return np.uint64(bit_of(n) - _ONE)


@cuda.jit(device=True, forceinline=True)
def bits_below(word, n):
    """Return the bits of word number `word` that stand for elements below `n`, uint32."""
    n_left = np.int32(n - 32 * word)
    if n_left >= 32:
        return _U(0xFFFFFFFF)
    return _U(_U(_U(1) << _U(n_left)) - _U(1)) if n_left > 0 else _U(0)


@cuda.jit(device=True, forceinline=True)
def of_halves(low, high):
    """Return the set with these two words as its halves."""
    return np.uint64(np.uint64(np.uint64(high) << np.uint64(32)) | np.uint64(low))


@cuda.jit(device=True, forceinline=True)
def voted(low, high):
    """Return the set of positive votes: each lane votes for its own number, and for its number plus 32."""
    return of_halves(ballot(low), ballot(high))


@cuda.jit(device=True, forceinline=True)
def nth_of(mask, n):
    """Return the element of the set with `n` smaller ones, int32."""
    low = np.uint32(np.uint64(mask) & np.uint64(0xFFFFFFFF))
    n_low = count_bits(low)
    if n < n_low:
        return nth_bit(low, n)
    high = np.uint32(np.uint64(mask) >> np.uint64(32))
    return np.int32(nth_bit(high, np.int32(n - n_low)) + np.int32(32))


@cuda.jit(device=True, forceinline=True)
def _swapped_halves(word, step, low):
    """Do one step of transposing 32 words of 32 bits: swap blocks of `step` bits; `low` marks the lower blocks."""
    other = shuffle_xor(word, step)
    if cuda.laneid & step != 0:
        return _U(_U(word & ~low) | _U(_U(other >> _U(step)) & low))
    return _U(_U(word & low) | _U(_U(other << _U(step)) & ~low))


@cuda.jit(device=True, forceinline=True)
def transposed(word):
    """Transpose the words of 32 lanes: bit ``i`` of lane ``k`` becomes bit ``k`` of lane ``i``."""
    word = _swapped_halves(word, 16, _U(0x0000FFFF))
    word = _swapped_halves(word, 8, _U(0x00FF00FF))
    word = _swapped_halves(word, 4, _U(0x0F0F0F0F))
    word = _swapped_halves(word, 2, _U(0x33333333))
    return _swapped_halves(word, 1, _U(0x55555555))

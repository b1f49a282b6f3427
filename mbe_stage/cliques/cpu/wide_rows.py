"""Rows of several words, in the arena of words: counted, compared, packed to some of their columns."""

from __future__ import annotations

import numpy as np
from numba import njit

from mbe_stage.bits import extract_bits, popcount
from mbe_stage.cliques.cpu import layout as at

_U = np.uint64
_ZERO = _U(0)
_ONE = _U(1)


@njit(inline="always")
def fill(words, row, n):
    """All of the first `n` columns; the row ends with them."""
    for k in range((n + at.WORD_BITS - 1) >> 6):
        words[row + k] = ~_ZERO >> _U(max(0, at.WORD_BITS * (k + 1) - n))


@njit(inline="always")
def set_bit(words, row, column):
    """Add a column to a row."""
    words[row + (column >> 6)] |= _ONE << _U(column & 63)


@njit(inline="always")
def has_bit(words, row, column):
    """Whether a row holds a column."""
    return words[row + (column >> 6)] >> _U(column & 63) & _ONE != _ZERO


@njit(inline="always")
def n_in(words, row, n_words):
    """How many columns a row holds."""
    n = np.int64(0)
    for k in range(n_words):
        n += popcount(words[row + k])
    return n


@njit(inline="always")
def n_common(words, row, mask, n_words):
    """How many columns a row holds of those in a mask."""
    n = np.int64(0)
    for k in range(n_words):
        n += popcount(words[row + k] & words[mask + k])
    return n


@njit(inline="always")
def holds_all(words, row, mask, n_words):
    """Whether a row holds all columns of a mask."""
    missing = _ZERO
    for k in range(n_words):
        missing |= words[mask + k] & ~words[row + k]
    return missing == _ZERO


@njit(inline="always")
def is_empty(words, row, n_words):
    """Whether a row holds no column."""
    held = _ZERO
    for k in range(n_words):
        held |= words[row + k]
    return held == _ZERO


@njit(inline="always")
def packed_word(words, row, mask, n_words):
    """What a row holds of the columns of a mask, at most 64 of them, as one word of these alone."""
    packed, n = _ZERO, np.int64(0)
    for k in range(n_words):
        if words[mask + k] != _ZERO:
            packed |= extract_bits(words[row + k], words[mask + k]) << _U(n)
            n += popcount(words[mask + k])
    return packed


@njit(inline="always")
def packed_row(words, row, mask, n_words, into):
    """Write what a row holds of the columns of a mask, as a row of these alone, to another place behind it."""
    word, n = _ZERO, np.int64(0)
    for k in range(n_words):
        if words[mask + k] == _ZERO:
            continue
        found = extract_bits(words[row + k], words[mask + k])
        word |= found << _U(n)
        n += popcount(words[mask + k])
        if n >= at.WORD_BITS:
            n -= at.WORD_BITS
            words[into] = word
            into += 1
            # What did not fit; of no columns nothing, as a shift by all 64 bits is not defined.
            word = found >> _U(popcount(words[mask + k]) - n) if n > 0 else _ZERO
    if n > 0:
        words[into] = word

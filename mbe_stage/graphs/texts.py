"""Convert texts to integers, or to words that sort in the same order."""

from __future__ import annotations

import numpy as np
from numba import int64, uint64

from mbe_stage.runtime.jit import BYTES, LONGS, WORDS, compiled, readonly, readonly_view, steps_in

compile_steps = steps_in(__name__)
_MOST_DIGITS = 18  # more may exceed int64


def canonical_integers(ends: np.ndarray, data: np.ndarray) -> np.ndarray | None:
    """Return texts as integers; None if any differs from ``-?[1-9][0-9]{0,17}`` and ``0``.

    They are given as to `numbering.TextNumbers.number`.
    """
    values = np.empty(ends.size - 1, np.int64)
    return values if _parse_integers(readonly_view(ends), readonly_view(data), values) else None


def leading_words(ends: np.ndarray, data: np.ndarray) -> np.ndarray:
    """Return the eight bytes of each text after the common prefix of all, ``(n,) uint64``; they sort as the texts do.

    Texts with equal words may sort either way.

    Examples
    --------
    >>> words = leading_words(np.array([0, 2, 5]), np.frombuffer(b"abaca", np.uint8))
    >>> [f"{word:016x}" for word in words.tolist()]
    ['6200000000000000', '6361000000000000']
    """
    words = np.empty(ends.size - 1, np.uint64)
    _leading_words(readonly_view(ends), readonly_view(data), words)
    return words


@compiled(readonly(LONGS), readonly(BYTES), WORDS)
def _leading_words(ends, data, words):
    common = ends[1] - ends[0] if words.size else 0
    for i in range(1, words.size):
        k = 0
        while k < min(common, ends[i + 1] - ends[i]) and data[ends[i] + k] == data[ends[0] + k]:
            k += 1
        common = k
    for i in range(words.size):
        word = uint64(0)
        for at in range(ends[i] + common, ends[i] + common + 8):
            word = word << uint64(8)
            if at < ends[i + 1]:
                word |= uint64(data[at])
        words[i] = word


@compiled(readonly(LONGS), readonly(BYTES), LONGS)
def _parse_integers(ends, data, values):
    for i in range(values.size):
        at, end = ends[i], ends[i + 1]
        is_negative = end > at and data[at] == 45
        at += is_negative
        n_digits = end - at
        if n_digits < 1 or n_digits > _MOST_DIGITS or (data[at] == 48 and (n_digits > 1 or is_negative)):
            return False
        value = 0
        for k in range(at, end):
            digit = int64(data[k]) - 48
            if digit < 0 or digit > 9:
                return False
            value = 10 * value + digit
        values[i] = -value if is_negative else value
    return True

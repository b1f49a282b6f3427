"""Numbers of several 64-bit words, the lowest first: rows of an array of uint64.

Arithmetic is modulo 2^(64 `n_words`), so intermediate values below zero are harmless: only the final numbers have to
fit, and their size is known in advance. Each function has a fast path for the usual case of one word.
"""

from __future__ import annotations

import numpy as np
from numba import types

from mbe_stage.pq_counts.digits import BITS
from mbe_stage.runtime.jit import compiled

NUMBERS = types.uint64[:, ::1]
"""The type of such arrays."""

_HALF = np.uint64(32)
_LOW = np.uint64((1 << 32) - 1)
_NOTHING = np.uint64(0)


def n_words(largest: int) -> int:
    """Return the number of words for every number up to `largest`, at least one.

    Examples
    --------
    >>> n_words(0), n_words(2**64 - 1), n_words(2**64)
    (1, 1, 2)
    """
    return max(1, -(-int(largest).bit_length() // 64))


def digits_of_words(numbers: np.ndarray) -> np.ndarray:
    """Return numbers as digits of `mbe_stage.pq_counts.digits`: ``(n, 2 * n_words) uint64``."""
    digits = np.empty((numbers.shape[0], 2 * numbers.shape[1]), np.uint64)
    digits[:, 0::2] = numbers & _LOW
    digits[:, 1::2] = numbers >> np.uint64(BITS)
    return digits


@compiled(nrt=False)
def add(sums, i, numbers, j):
    """Add a number to another one."""
    if sums.shape[1] == 1:
        sums[i, 0] += numbers[j, 0]
        return
    carry = _NOTHING
    for k in range(sums.shape[1]):
        total = sums[i, k] + numbers[j, k]
        over = np.uint64(total < numbers[j, k])
        sums[i, k] = total + carry
        carry = over + np.uint64(sums[i, k] < carry)


@compiled(nrt=False)
def subtract(sums, i, numbers, j):
    """Subtract a number from another one."""
    if sums.shape[1] == 1:
        sums[i, 0] -= numbers[j, 0]
        return
    borrowed = _NOTHING
    for k in range(sums.shape[1]):
        left = sums[i, k] - numbers[j, k]
        under = np.uint64(sums[i, k] < numbers[j, k])
        sums[i, k] = left - borrowed
        borrowed = under + np.uint64(left < borrowed)


@compiled(nrt=False)
def multiply(products, i, ones, j, others, k):
    """Set a number to the product of two others.

    Parameters
    ----------
    products : (n_products, n_words) uint64
    ones, others : (n_numbers, n_words) uint64
    """
    if products.shape[1] == 1:
        products[i, 0] = ones[j, 0] * others[k, 0]
        return
    n = products.shape[1]
    for m in range(n):
        products[i, m] = _NOTHING
    for m in range(n):
        carry = _NOTHING
        for place in range(n - m):
            low, high = _wide(ones[j, m], others[k, place])
            total = products[i, m + place] + low
            high += np.uint64(total < low)
            total += carry
            # The carry is below 2^64: a product of two words plus two more words fits two words.
            carry = high + np.uint64(total < carry)
            products[i, m + place] = total


@compiled(nrt=False)
def _wide(one, other):
    """Return the product of two words, in two words."""
    low = (one & _LOW) * (other & _LOW)
    middle = (one >> _HALF) * (other & _LOW) + (low >> _HALF)
    cross = (one & _LOW) * (other >> _HALF) + (middle & _LOW)
    high = (one >> _HALF) * (other >> _HALF) + (middle >> _HALF) + (cross >> _HALF)
    return (cross << _HALF) | (low & _LOW), high


@compiled(nrt=False)
def is_zero(numbers, i):
    """Return True if a number is zero."""
    bits = _NOTHING
    for k in range(numbers.shape[1]):
        bits |= numbers[i, k]
    return bits == _NOTHING


@compiled(nrt=False)
def clear(numbers, i):
    """Set a number to zero."""
    for k in range(numbers.shape[1]):
        numbers[i, k] = _NOTHING

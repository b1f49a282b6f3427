"""Integers of any size in arrays: digits of 32 bits, the lowest first, each in a uint64 with room for sums.

Counts for each vertex or edge outgrow 64 bits. Arrays of Python integers take 60 bytes an entry, and compiled code
cannot use them. The sufficient number of digits follows in advance from an upper bound of the count (`n_digits`).
"""

from __future__ import annotations

import numpy as np

__all__ = ["BITS", "carried", "digits_of", "integers", "n_digits", "sums_of_digits"]

BITS = 32
"""Bits of a digit. The other 32 bits of its word take the carries of up to 2^32 sums."""


def n_digits(largest: int) -> int:
    """Return the digits that hold every number up to `largest`, at least one.

    Examples
    --------
    >>> n_digits(0), n_digits(2**32 - 1), n_digits(2**32), n_digits(2**100)
    (1, 1, 2, 4)
    """
    return max(1, -(-int(largest).bit_length() // BITS))


def carried(digits: np.ndarray) -> np.ndarray:
    """Return the same numbers with every digit below 2^32; a new array.

    Parameters
    ----------
    digits : (n, n_digits) uint64
        Numbers that fit the digits.
    """
    result = digits.copy()
    carry = np.zeros(digits.shape[0], np.uint64)
    for place in range(digits.shape[1]):
        # Below 2^64 - 2^32 before the carry: at most 2^32 - 1 numbers are added without carrying.
        total = digits[:, place] + carry
        result[:, place] = total & np.uint64((1 << BITS) - 1)
        carry = total >> np.uint64(BITS)
    return result


def sums_of_digits(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Return the sums of two columns of numbers, with one digit more than the wider column if needed.

    Examples
    --------
    >>> integers(sums_of_digits(digits_of([2**64 - 1], 2), digits_of([1], 1))) == [2**64]
    True
    """
    narrow, wide = sorted((carried(one), carried(other)), key=lambda digits: digits.shape[1])
    wide[:, : narrow.shape[1]] += narrow
    # The carry into the highest digit is at most 1.
    if int(wide[:, -1].max(initial=0)) >= (1 << BITS) - 1:
        wide = np.pad(wide, ((0, 0), (0, 1)))
    return carried(wide)


def digits_of(numbers: list[int], n: int) -> np.ndarray:
    """Return Python integers as ``(len(numbers), n) uint64``.

    Examples
    --------
    >>> integers(digits_of([5, 2**70], 3))
    [5, 1180591620717411303424]
    """
    mask = (1 << BITS) - 1
    rows = [[number >> (BITS * place) & mask for place in range(n)] for number in numbers]
    return np.array(rows, np.uint64).reshape(len(numbers), n)


def integers(digits: np.ndarray) -> list[int]:
    """Return Python integers, row by row. Digits need not be carried."""
    numbers = [0] * digits.shape[0]
    for place in range(digits.shape[1] - 1, -1, -1):
        numbers = [(number << BITS) + digit for number, digit in zip(numbers, digits[:, place].tolist(), strict=True)]
    return numbers

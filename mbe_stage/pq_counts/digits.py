"""Integers of any size in arrays: digits of 32 bits, the lowest first, each in a uint64 with room for sums.

Counts for each vertex or edge exceed 64 bits. Arrays of Python integers take 60 bytes per entry, and compiled code
cannot use them. An upper bound on the count gives the sufficient number of digits in advance (`n_digits`).

Kernels that add 64-bit numbers compute larger numbers modulo several primes (`moduli`). The digits follow from the
residues by the Chinese remainder theorem, in mixed radix (Garner 1959).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

BITS = 32
"""Bits of a digit. The other 32 bits of its word have room for the carries of up to 2^32 sums."""
_FITS = 63
_LOW = np.uint64((1 << BITS) - 1)


def n_digits(largest: int) -> int:
    """Return the number of digits for every number up to `largest`, at least one.

    Examples
    --------
    >>> n_digits(0), n_digits(2**32 - 1), n_digits(2**32), n_digits(2**100)
    (1, 1, 2, 4)
    """
    return max(1, -(-int(largest).bit_length() // BITS))


def carried(digits: np.ndarray) -> np.ndarray:
    """Return the same numbers with every digit below 2^32, as a new array.

    Parameters
    ----------
    digits : (n, n_digits) uint64
        Numbers that fit the digits.
    """
    result = digits.copy()
    carry = np.zeros(digits.shape[0], np.uint64)
    for place in range(digits.shape[1]):
        # The sum is below 2^64 - 2^32 before the carry: at most 2^32 - 1 numbers are added without carrying.
        total = digits[:, place] + carry
        result[:, place] = total & np.uint64((1 << BITS) - 1)
        carry = total >> np.uint64(BITS)
    return result


def sums_of_digits(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Return the sums of two columns of numbers; if needed, with one digit more than the wider column.

    Examples
    --------
    >>> integers(sums_of_digits(digits_of([2**64 - 1], 2), digits_of([1], 1))) == [2**64]
    True
    """
    narrow, wide = sorted((carried(one), carried(other)), key=lambda digits: digits.shape[1])
    wide[:, : narrow.shape[1]] += narrow
    # The carry into the highest digit is at most 1, so this bound is enough.
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
    """Return Python integers, row by row. Digits may have pending carries."""
    numbers = [0] * digits.shape[0]
    for place in range(digits.shape[1] - 1, -1, -1):
        numbers = [(number << BITS) + digit for number, digit in zip(numbers, digits[:, place].tolist(), strict=True)]
    return numbers


def moduli(largest: int) -> list[int]:
    """Return moduli that determine every number up to `largest`; ``[0]`` if one search without modulus is enough.

    Examples
    --------
    >>> moduli(2**63 - 1), moduli(2**63)
    ([0], [2147483647, 2147483629, 2147483587])
    """
    if largest.bit_length() <= _FITS:
        return [0]
    found, product, candidate = [], 1, (1 << 31) - 1
    while product <= largest:
        if _is_prime(candidate):
            found.append(candidate)
            product *= candidate
        candidate -= 2
    return found


def _is_prime(n: int) -> bool:
    """Apply the Miller-Rabin test; these bases are sufficient below 3,215,031,751."""
    odd, twos = n - 1, 0
    while odd % 2 == 0:
        odd, twos = odd // 2, twos + 1
    for base in (2, 3, 5, 7):
        power = pow(base, odd, n)
        if power not in (1, n - 1) and all(pow(power, 1 << k, n) != n - 1 for k in range(1, twos)):
            return False
    return True


def ways_modulo(most: int, size: int, modulus: int) -> np.ndarray:
    """Return C(n, k) for n up to `most` and k up to `size`, modulo a prime below 2^31, at ``n * (size + 1) + k``.

    With modulus 0 they are modulo 2^64, which is exact for all terms of a number below 2^63.
    """
    table = np.zeros((most + 1, size + 1), np.uint64)
    table[:, 0] = 1
    for k in range(1, size + 1):
        # C(n, k) is the sum of C(j, k - 1) over all j below n.
        sums = np.cumsum(table[:-1, k - 1])
        table[1:, k] = sums % np.uint64(modulus) if modulus else sums
    return table.view(np.int64).ravel()


def digits_of_residues(residues: Sequence[np.ndarray], primes: Sequence[int], largest: int) -> np.ndarray:
    """Return the numbers up to `largest` with these residues: ``(n, n_digits) uint64``, digits of 32 bits.

    Parameters
    ----------
    residues : sequence of (n,) int64
        Residues for each of the `primes`.
    primes : sequence of int
        Result of `moduli`.
    largest : int
    """
    if list(primes) == [0]:
        number = residues[0].view(np.uint64)
        return np.stack([number & _LOW, number >> np.uint64(BITS)], axis=1)
    places = _mixed_radix([residue.astype(np.uint64) for residue in residues], primes)
    digits = np.zeros((residues[0].size, max(2, n_digits(largest))), np.uint64)
    for place, prime in zip(reversed(places), reversed(primes), strict=True):
        carry = place
        for k in range(digits.shape[1]):
            # The product of a digit and a prime below 2^31, plus a carry below 2^32, fits into 64 bits.
            product = digits[:, k] * np.uint64(prime) + carry
            digits[:, k], carry = product & _LOW, product >> np.uint64(BITS)
    return digits


def _mixed_radix(residues: list[np.ndarray], primes: Sequence[int]) -> list[np.ndarray]:
    """Return the numbers as ``v0 + v1 p0 + v2 p0 p1 + ...``, with each v below its prime."""
    places: list[np.ndarray] = []
    for k, (residue, prime) in enumerate(zip(residues, primes, strict=True)):
        modulus = np.uint64(prime)
        # The value of the places so far, and the product of their primes.
        known, radix = np.zeros_like(residue), 1
        for place, before in zip(places, primes[:k], strict=True):
            known = (known + place % modulus * np.uint64(radix)) % modulus
            radix = radix * before % prime
        places.append((residue + modulus - known) % modulus * np.uint64(pow(radix, -1, prime)) % modulus)
    return places

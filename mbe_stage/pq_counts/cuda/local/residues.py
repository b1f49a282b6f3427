"""Numbers of any size from kernels that add 64 bits: modulo as many primes as needed.

Numbers below 2^63 need one search. For larger ones, each search of `moduli` gives the residues of a prime, and the
numbers follow (Chinese remainder theorem, in mixed radix: Garner 1959), as digits of 32 bits.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mbe_stage.pq_counts.digits import BITS, n_digits

_FITS = 63
_LOW = np.uint64((1 << BITS) - 1)


def moduli(largest: int) -> list[int]:
    """Return the moduli from which every number up to `largest` follows; ``[0]`` if they fit as they are.

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
    """Apply Miller and Rabin's test; these bases are enough below 3,215,031,751."""
    odd, twos = n - 1, 0
    while odd % 2 == 0:
        odd, twos = odd // 2, twos + 1
    for base in (2, 3, 5, 7):
        power = pow(base, odd, n)
        if power not in (1, n - 1) and all(pow(power, 1 << k, n) != n - 1 for k in range(1, twos)):
            return False
    return True


def ways_modulo(most: int, size: int, modulus: int) -> np.ndarray:
    """Return binomials C(n, k), n up to `most`, k up to `size`, modulo a prime below 2^31: ``(n * (size + 1) + k,)``.

    With a modulus of 0 they are modulo 2^64, which is right for those that occur in numbers below 2^63.
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
        One for each of `moduli`.
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
            # A digit times a prime below 2^31, and a carry below 2^32.
            product = digits[:, k] * np.uint64(prime) + carry
            digits[:, k], carry = product & _LOW, product >> np.uint64(BITS)
    return digits


def _mixed_radix(residues: list[np.ndarray], primes: Sequence[int]) -> list[np.ndarray]:
    """Return the numbers as ``v0 + v1 p0 + v2 p0 p1 + ...``, each v below its prime."""
    places: list[np.ndarray] = []
    for k, (residue, prime) in enumerate(zip(residues, primes, strict=True)):
        modulus = np.uint64(prime)
        # Value of the places so far, and the product of their primes.
        known, radix = np.zeros_like(residue), 1
        for place, before in zip(places, primes[:k], strict=True):
            known = (known + place % modulus * np.uint64(radix)) % modulus
            radix = radix * before % prime
        places.append((residue + modulus - known) % modulus * np.uint64(pow(radix, -1, prime)) % modulus)
    return places

"""Keys that identify a biclique by its members, and fingerprints that identify a set of bicliques.

A vertex hash depends on the vertex's own key (as text) and its side. A biclique key depends on the hashes of its
members, in any order, and a fingerprint on the keys of all items, in any order. So a group has the same key in every
run and on every engine. Two runs hold the same bicliques if and only if their fingerprints are equal, except for
collisions of 64-bit keys within a run and of 128 bits between runs. The recipe, in wrapping 64-bit unsigned arithmetic:

- text hash: FNV-1a over the UTF-8 bytes; an integer counts as its decimal digits, so ``5`` and ``"5"`` agree;
- vertex hash: ``mix(text hash + salt of the side)``;
- biclique key: ``mix(sum of left hashes + mix(sum of right hashes))``, read as int64;
- fingerprint: number of items, sum of ``mix(key)``, sum of ``mix(mix(key) + 1)``.

`mix` is the finaliser of splitmix64.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba import njit, uint64

from mbe_stage.bicliques.results import BicliqueBlock
from mbe_stage.runtime.compile_ahead import CompileStep
from mbe_stage.runtime.jit import BYTES, INTS, LONGS, WORDS, compiled, readonly, readonly_view, steps_of
from mbe_stage.splitmix import finalised

SIDE_SALTS = {"left": 0x9E3779B97F4A7C15, "right": 0xD1B54A32D192ED03}
"""Gives equal keys on the two sides different hashes."""

_FNV_OFFSET = np.uint64(0xCBF29CE484222325)
_FNV_PRIME = np.uint64(0x100000001B3)
_CHUNK = 1 << 20


def hash_text(offsets: np.ndarray, data: np.ndarray) -> np.ndarray:
    """Hash each UTF-8 string of an Arrow-style string array.

    Parameters
    ----------
    offsets : (n + 1,) int64
    data : uint8
        The bytes of all strings.

    Returns
    -------
    (n,) uint64
    """
    return _hash_text(readonly_view(np.asarray(offsets, np.int64)), readonly_view(np.asarray(data, np.uint8)))


def hash_integers(values: np.ndarray) -> np.ndarray:
    """Hash each integer as the text of its decimal digits; ``(n,) int64`` to ``(n,) uint64``."""
    return _hash_integers(readonly_view(np.asarray(values, np.int64)))


def vertex_hashes(text_hashes: np.ndarray, side: str) -> np.ndarray:
    """Turn the text hashes of one side's keys into vertex hashes; ``side`` is ``left`` or ``right``."""
    return _salted(np.asarray(text_hashes, np.uint64), np.uint64(SIDE_SALTS[side]))


def biclique_keys(block: BicliqueBlock, left_hashes: np.ndarray, right_hashes: np.ndarray) -> np.ndarray:
    """Return the key of every biclique of a block, ``(n_bicliques,) int64``."""
    return _biclique_keys(
        block.left_sizes, block.left_members, block.right_sizes, block.right_members, left_hashes, right_hashes
    )


def edge_fingerprint(
    left_ids: np.ndarray, right_ids: np.ndarray, left_hashes: np.ndarray, right_hashes: np.ndarray
) -> str:
    """Return the fingerprint of a set of edges, by the keys of their ends and in any order."""
    fingerprint = Fingerprint()
    add_edges(fingerprint, left_ids, right_ids, left_hashes, right_hashes)
    return str(fingerprint)


def add_edges(
    fingerprint: Fingerprint,
    left_ids: np.ndarray,
    right_ids: np.ndarray,
    left_hashes: np.ndarray,
    right_hashes: np.ndarray,
) -> None:
    """Add edges to a fingerprint."""
    for start in range(0, left_ids.size, _CHUNK):
        part = slice(start, start + _CHUNK)
        fingerprint.add(_edge_keys(left_ids[part], right_ids[part], left_hashes, right_hashes))


def compile_steps(config: object = None) -> tuple[CompileStep, ...]:  # noqa: ARG001 - the signature of publications
    """Return the steps to compile the functions of this module."""
    return steps_of(_hash_text, _hash_integers, _salted, _edge_keys, _sums, _biclique_keys)


@dataclass(slots=True)
class Fingerprint:
    """An order-independent identifier of a set of int64 keys, built in pieces.

    Examples
    --------
    >>> one, other = Fingerprint(), Fingerprint()
    >>> one.add(np.array([1, 2]))
    >>> other.add(np.array([2])); other.add(np.array([1]))
    >>> str(one) == str(other)
    True
    """

    n_items: int = 0
    first: int = 0
    second: int = 0

    def add(self, keys: np.ndarray) -> None:
        """Add keys."""
        first, second = _sums(np.ascontiguousarray(keys, np.int64).view(np.uint64))
        self.add_sums(int(keys.size), int(first), int(second))

    def add_sums(self, n_items: int, first: int, second: int) -> None:
        """Add keys that were summed elsewhere: sums of ``mix(key)`` and ``mix(mix(key) + 1)``."""
        self.n_items += n_items
        self.first = (self.first + first) % 2**64
        self.second = (self.second + second) % 2**64

    def merge(self, other: Fingerprint) -> None:
        """Add the keys of another set, disjoint from this one."""
        self.add_sums(other.n_items, other.first, other.second)

    def __str__(self) -> str:
        return f"{self.n_items}-{self.first:016x}{self.second:016x}"


_mix = njit(inline="always")(finalised)


@compiled(readonly(LONGS), readonly(BYTES))
def _hash_text(offsets, data):
    hashes = np.empty(offsets.size - 1, np.uint64)
    for i in range(hashes.size):
        value = _FNV_OFFSET
        for position in range(offsets[i], offsets[i + 1]):
            value = (value ^ uint64(data[position])) * _FNV_PRIME
        hashes[i] = value
    return hashes


@compiled(readonly(LONGS))
def _hash_integers(values):
    hashes = np.empty(values.size, np.uint64)
    digits = np.empty(20, np.uint8)
    for i in range(values.size):
        value = _FNV_OFFSET
        number = values[i]
        # -2**63 has no positive counterpart in int64, but its magnitude is right as unsigned.
        magnitude = uint64(number) if number >= 0 else uint64(0) - uint64(number)
        if number < 0:
            value = (value ^ uint64(45)) * _FNV_PRIME
        n_digits = 0
        while True:
            digits[n_digits] = 48 + magnitude % uint64(10)
            magnitude //= uint64(10)
            n_digits += 1
            if magnitude == 0:
                break
        for k in range(n_digits - 1, -1, -1):
            value = (value ^ uint64(digits[k])) * _FNV_PRIME
        hashes[i] = value
    return hashes


@compiled(WORDS, uint64)
def _salted(hashes, salt):
    salted = np.empty_like(hashes)
    for i in range(hashes.size):
        salted[i] = _mix(hashes[i] + salt)
    return salted


@compiled(INTS, INTS, INTS, INTS, WORDS, WORDS)
def _biclique_keys(left_sizes, left_members, right_sizes, right_members, left_hashes, right_hashes):
    """Return the key of each biclique, ``(n,) int64``.

    Parameters
    ----------
    left_sizes, right_sizes : (n,) int32
    left_members, right_members : int32
        Members of all bicliques, concatenated.
    left_hashes, right_hashes : uint64
        Salted hash of each vertex.
    """
    keys = np.empty(left_sizes.size, np.int64)
    left_end = right_end = 0
    for i in range(keys.size):
        left_sum = right_sum = uint64(0)
        left_start, left_end = left_end, left_end + left_sizes[i]
        for k in range(left_start, left_end):
            left_sum += left_hashes[left_members[k]]
        right_start, right_end = right_end, right_end + right_sizes[i]
        for k in range(right_start, right_end):
            right_sum += right_hashes[right_members[k]]
        keys[i] = np.int64(_mix(left_sum + _mix(right_sum)))
    return keys


@compiled(INTS, INTS, WORDS, WORDS)
def _edge_keys(left_ids, right_ids, left_hashes, right_hashes):
    keys = np.empty(left_ids.size, np.int64)
    for i in range(keys.size):
        keys[i] = np.int64(_mix(left_hashes[left_ids[i]] + _mix(right_hashes[right_ids[i]])))
    return keys


@compiled(WORDS)
def _sums(keys):
    first = second = uint64(0)
    for i in range(keys.size):
        mixed = _mix(keys[i])
        first += mixed
        second += _mix(mixed + uint64(1))
    return first, second

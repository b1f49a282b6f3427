"""Keys and fingerprints in NumPy and plain loops, written from their definition and independent of the publishing code.

All arithmetic is unsigned 64-bit and wraps. ``mix`` is the finaliser of splitmix64.

- text hash: FNV-1a, 64 bit, over the UTF-8 bytes of a key; an integer counts as its decimal digits;
- vertex hash: ``mix(text hash + salt)``, the salt is 2**64 / golden ratio for left, and 0xD1B54A32D192ED03 for right;
- biclique key: ``mix(sum of left vertex hashes + mix(sum of right vertex hashes))``, read as a signed number;
- edge key: the key of the one edge as a biclique;
- fingerprint: ``n-`` and, in hexadecimal, the sum of ``mix(key)`` and the sum of ``mix(mix(key) + 1)``.
"""

from __future__ import annotations

from typing import Self

import numpy as np
import pyarrow as pa
from numba import uint64

from mbe_stage.runtime.compile_ahead import CompileStep
from mbe_stage.runtime.jit import BYTES, LONGS, WORDS, compiled, readonly, readonly_view, steps_of

_SALTS = {"left": np.uint64(0x9E3779B97F4A7C15), "right": np.uint64(0xD1B54A32D192ED03)}
_FNV_OFFSET = np.uint64(0xCBF29CE484222325)
_FNV_PRIME = np.uint64(0x100000001B3)
# Keys processed at once: arithmetic makes copies, so this bounds memory.
_CHUNK = 1 << 18


def mix(values: np.ndarray) -> np.ndarray:
    """Apply the finaliser of splitmix64 element by element; ``uint64 -> uint64``."""
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))


def text_hashes(keys: pa.Array | pa.ChunkedArray) -> np.ndarray:
    """Return FNV-1a of every key's text, ``(n,) uint64``."""
    pieces = [np.empty(0, np.uint64)]
    for start in range(0, len(keys), _CHUNK):
        text = keys.slice(start, _CHUNK).cast(pa.large_string())
        chunks = text.chunks if isinstance(text, pa.ChunkedArray) else [text]
        pieces += [_fnv1a(chunk) for chunk in chunks]
    return np.concatenate(pieces)


def vertex_hashes(keys: pa.Array | pa.ChunkedArray, side: str) -> np.ndarray:
    """Return the hash of every vertex of one side, ``(n,) uint64``."""
    return mix(text_hashes(keys) + _SALTS[side])


def biclique_keys(left_sums: np.ndarray, right_sums: np.ndarray) -> np.ndarray:
    """Compute keys from the wrapping sums of the members' hashes; ``(n,) uint64`` each, ``-> (n,) int64``."""
    return mix(left_sums + mix(right_sums)).view(np.int64)


class KeySums:
    """A fingerprint under construction.

    Examples
    --------
    >>> sums = KeySums()
    >>> sums.add(np.array([], np.int64))
    >>> str(sums)
    '0-00000000000000000000000000000000'
    """

    def __init__(self) -> None:
        self.n = 0
        self._first = np.zeros(1, np.uint64)
        self._second = np.zeros(1, np.uint64)

    @classmethod
    def of(cls, keys: np.ndarray) -> Self:
        """Return the sums of some keys."""
        sums = cls()
        sums.add(keys)
        return sums

    def add(self, keys: np.ndarray) -> None:
        """Add some int64 keys."""
        self.n += keys.size
        for start in range(0, keys.size, _CHUNK):
            mixed = mix(keys[start : start + _CHUNK].view(np.uint64))
            self._first += mixed.sum(dtype=np.uint64)
            self._second += mix(mixed + np.uint64(1)).sum(dtype=np.uint64)

    def __str__(self) -> str:
        return f"{self.n}-{int(self._first[0]):016x}{int(self._second[0]):016x}"


def edge_fingerprint(
    left_ids: np.ndarray, right_ids: np.ndarray, left_hashes: np.ndarray, right_hashes: np.ndarray
) -> str:
    """Return the fingerprint of a set of edges."""
    sums = KeySums()
    for start in range(0, left_ids.size, _CHUNK):
        part = slice(start, start + _CHUNK)
        sums.add(biclique_keys(left_hashes[left_ids[part]], right_hashes[right_ids[part]]))
    return str(sums)


def _fnv1a(text: pa.LargeStringArray) -> np.ndarray:
    if len(text) == 0:
        return np.empty(0, np.uint64)
    _, offset_buffer, data_buffer = text.buffers()
    offsets = np.frombuffer(offset_buffer, np.int64)[text.offset : text.offset + len(text) + 1]
    data = np.frombuffer(data_buffer, np.uint8) if data_buffer is not None else np.empty(0, np.uint8)
    hashes = np.empty(len(text), np.uint64)
    _hash_bytes(readonly_view(offsets), readonly_view(data), hashes)
    return hashes


def compile_steps() -> tuple[CompileStep, ...]:
    """List the compiled functions of this module."""
    return steps_of(_hash_bytes)


@compiled(readonly(LONGS), readonly(BYTES), WORDS)
def _hash_bytes(offsets, data, hashes):
    for i in range(hashes.size):
        value = _FNV_OFFSET
        for place in range(offsets[i], offsets[i + 1]):
            value = (value ^ uint64(data[place])) * _FNV_PRIME
        hashes[i] = value

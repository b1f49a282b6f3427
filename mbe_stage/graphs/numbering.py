"""Number keys while they are read: integers by rank, texts by first occurrence.

Integers that lie close together need no hash table: a bitmap of their range gives the ranks. Other integers and texts
use hash tables with open addressing, which grow with the number of distinct keys.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

import numpy as np
from numba import int64, njit, uint64
from numba.types import Tuple

from mbe_stage.bits import popcount
from mbe_stage.runtime.jit import BYTES, INTS, LONGS, WORDS, compiled, readonly, readonly_view, steps_in
from mbe_stage.splitmix import finalised

compile_steps = steps_in(__name__)
# A range of at most this size always gets a bitmap.
_FEW_NUMBERS = 1 << 20
_FEWEST_SLOTS = 1 << 12
_BLOCK, _PIECE = 1 << 23, 1 << 18
# Keys looked up together: their slots fit into the first-level cache.
_AT_ONCE = 128

Growing = Callable[[int], None]
"""Called with the bytes that a table is about to take in addition; it may raise an error."""


def freely(_: int) -> None:
    """Let tables grow without a limit: a `Growing`."""


# Packing of a text's slot: bits of the length, its largest value, and the bits of the code.
_LENGTH_BITS, _LONG, _CODE_MASK = 16, (1 << 16) - 1, (1 << 32) - 1


class Codes:
    """A growing array of `n` int32 or other values, in blocks so large that freed memory goes back to the system."""

    numbers_per_value = 16
    """A range gets a bitmap if it has at most this many numbers per value."""

    def __init__(self, kind: Any = np.int32) -> None:
        self.n, self._kind = 0, np.dtype(kind)
        self._full: list[np.ndarray] = []
        self._block, self._n_filled = np.empty(0, self._kind), 0

    def more(self, n: int) -> np.ndarray:
        """Return the next `n` places for the caller to fill."""
        if self._n_filled + n > self._block.size:
            self._full.append(self._block[: self._n_filled])
            self._block, self._n_filled = np.empty(max(n, _BLOCK), self._kind), 0
        self.n, self._n_filled = self.n + n, self._n_filled + n
        return self._block[self._n_filled - n : self._n_filled]

    def parts(self) -> Iterator[np.ndarray]:
        """Yield the array in pieces."""
        for block in (*self._full, self._block[: self._n_filled]):
            for start in range(0, block.size, _PIECE):
                yield block[start : start + _PIECE]

    def whole(self) -> np.ndarray:
        """Return the array; call it once, since the blocks are freed on the way."""
        self._full.append(self._block[: self._n_filled])
        blocks, self._full, self._block = self._full[::-1], [], np.empty(0, self._kind)
        if len(blocks) == 2:
            return blocks[0]
        whole, at = np.empty(self.n, self._kind), 0
        while blocks:
            block = blocks.pop()
            whole[at : at + block.size] = block
            at += block.size
        return whole


class IntegerNumbers:
    """Numbers integers as they are read; `codes` receives the code of each."""

    def __init__(self, codes: Codes | None = None, growing: Growing = freely) -> None:
        self._growing = growing
        # The codes are distances from `_base` while these fit into int32, then codes of the table.
        self._codes = Codes() if codes is None else codes
        self._base: int | None = None
        self._low = self._high = 0
        # The table: none as long as there are no slots.
        self._slots, self._n_keys = np.zeros(0, np.int64), 0
        # Number of parts whose distances have been replaced by codes of the table.
        self._n_entered = 0

    def add(self, values: np.ndarray) -> None:
        """Add the next values, ``(n,) int64``."""
        if not values.size:
            return
        if not self._slots.size:
            low, high = int(values.min()), int(values.max())
            if self._base is None:
                self._base, self._low, self._high = low, low, high
            self._low, self._high = min(low, self._low), max(high, self._high)
            if self._high - self._low < 2**31:
                np.subtract(values, self._base, out=self._codes.more(values.size), casting="unsafe")
                return
            self._enter_table()
        self._number(values, self._codes.more(values.size))

    @property
    def nbytes(self) -> int:
        """Bytes of the table of keys."""
        return self._slots.nbytes

    def seen(self) -> Iterator[np.ndarray]:
        """Yield all distinct values so far, in parts; values may repeat."""
        yield self._keys()
        for distances in islice(self._codes.parts(), self._n_entered, None):
            yield distances.astype(np.int64) + (self._base or 0)

    def most_bytes(self, n: int) -> int:
        """Return the most bytes, beside the codes, needed to rank `n` distinct values."""
        if not self._slots.size and self._has_bits:
            return 12 * (self._span // 64 + 1) + 8 * n
        return table_bytes(n)

    def ranked(self) -> tuple[Codes, np.ndarray]:
        """Return the rank of each value, and the distinct ones, ascending int64. No more values can be added."""
        if self._base is None:
            return self._codes, np.zeros(0, np.int64)
        if not self._slots.size and self._has_bits:
            keys = _ranked_in_range(self._codes, self._low - self._base, self._span, self._growing)
            keys += self._low
            return self._codes, keys
        if not self._slots.size:
            self._enter_table()
        keys, self._slots = self._keys(), np.zeros(0, np.int64)
        order = np.argsort(keys)
        renumber_all(self._codes, inverse(order))
        return self._codes, keys[order]

    @property
    def _span(self) -> int:
        return self._high - self._low + 1

    @property
    def _has_bits(self) -> bool:
        return self._span <= max(self._codes.numbers_per_value * self._codes.n, _FEW_NUMBERS)

    def _enter_table(self) -> None:
        self._slots = np.zeros(2 * _FEWEST_SLOTS, np.int64)
        for distances in self._codes.parts():
            self._number(distances.astype(np.int64) + (self._base or 0), distances)
            self._n_entered += 1
        self._n_entered = sys.maxsize

    def _number(self, values: np.ndarray, codes: np.ndarray) -> None:
        """Write the code of each value."""
        done, values = 0, readonly_view(values)
        while True:
            done, self._n_keys = _number_integers(values, done, self._slots, self._n_keys, codes)
            if done == values.size:
                return
            self._slots = _larger(self._slots, self._growing, is_hash=False)

    def _keys(self) -> np.ndarray:
        """Return the value of each code."""
        keys = np.empty(self._n_keys, np.int64)
        _keys(self._slots, keys)
        return keys


class TextNumbers:
    """Numbers texts as they are read; so far there are `n` distinct ones."""

    def __init__(self, growing: Growing = freely) -> None:
        self.n = 0
        self._growing = growing
        self._slots = np.zeros(2 * _FEWEST_SLOTS, np.int64)
        # Room for two thirds of the slots, plus one.
        self._ends = np.zeros(2 * _FEWEST_SLOTS // 3, np.int64)
        self._bytes = np.empty(16 * _FEWEST_SLOTS, np.uint8)

    @property
    def nbytes(self) -> int:
        """Bytes of the table of texts."""
        return self._slots.nbytes + self._ends.nbytes + self._bytes.nbytes

    def number(self, ends: np.ndarray, data: np.ndarray, codes: np.ndarray) -> None:
        """Write the int32 code of each text; the int64 `ends` are preceded by the start of the first text."""
        done, texts = 0, (readonly_view(ends), readonly_view(data))
        while True:
            done, self.n = _number_texts(texts, done, (self._slots, self._ends, self._bytes), self.n, codes)
            if done == codes.size:
                return
            if self.n == self._ends.size - 1:
                self._slots = _larger(self._slots, self._growing, is_hash=True)
                self._ends = _enlarged(self._ends, self._slots.size // 3, self._growing)
            else:
                size = 2 * self._bytes.size + int(ends[done + 1] - ends[done])
                self._bytes = _enlarged(self._bytes, size, self._growing)

    def texts(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the text of each code: ends, ``(n + 1,) int64`` with the start of the first, and bytes."""
        return self._ends[: self.n + 1], self._bytes[: self._ends[self.n]]


def inverse(order: np.ndarray) -> np.ndarray:
    """Return the position of each number in a permutation, int32."""
    places = np.empty(order.size, np.int32)
    places[order] = np.arange(order.size, dtype=np.int32)
    return places


def renumber_all(codes: Codes, new: np.ndarray) -> None:
    """Replace each code by its entry of `new`, as `renumber` does."""
    for part in codes.parts():
        renumber(part, new)


def table_bytes(n: int, text_bytes: int | None = None) -> int:
    """Return the most bytes of a table while it grows to `n` integers, or to `n` texts of `text_bytes` in total."""
    before, size = 0, 2 * _FEWEST_SLOTS
    while size // 3 <= n:
        before, size = size, _next_size(size)
    if text_bytes is None:
        return 8 * (before + size)
    return 8 * (before + size) * 4 // 3 + 3 * (text_bytes + 16 * _FEWEST_SLOTS)


def _next_size(size: int) -> int:
    # Small tables grow faster: each growth touches every entry.
    return size * (4 if size < 1 << 18 else 2)


def _larger(slots: np.ndarray, growing: Growing, *, is_hash: bool) -> np.ndarray:
    size = _next_size(slots.size)
    growing(8 * size)
    larger = np.zeros(size, np.int64)
    _rehash(slots, larger, int(is_hash))
    return larger


def _enlarged(array: np.ndarray, size: int, growing: Growing) -> np.ndarray:
    growing(size * array.itemsize)
    larger = np.zeros(size, array.dtype)
    larger[: array.size] = array
    return larger


mix = njit(inline="always")(finalised)


def _ranked_in_range(codes: Codes, lowest: int, span: int, growing: Growing) -> np.ndarray:
    """Replace numbers by their ranks in place; return the distinct numbers, relative to the lowest."""
    n_words = span // 64 + 1
    growing(12 * n_words)
    words = np.zeros(n_words, np.uint64)
    for part in codes.parts():
        _mark(words, part, lowest)
    counts = np.bitwise_count(words)
    before = np.cumsum(counts, dtype=np.int32)
    growing(12 * n_words + 8 * int(before[-1]))
    distinct = np.empty(before[-1], np.int64)
    before -= counts
    _list_bits(words, distinct)
    for part in codes.parts():
        _rank(part, lowest, words, before)
    return distinct


@compiled(WORDS, INTS, int64)
def _mark(words, codes, lowest):
    for i in range(codes.size):
        number = codes[i] - lowest
        words[number >> 6] |= uint64(1) << uint64(number & 63)


@compiled(WORDS, LONGS)
def _list_bits(words, distinct):
    n = 0
    for k in range(words.size):
        if words[k] != uint64(0):
            for bit in range(64):
                if words[k] >> uint64(bit) & uint64(1):
                    distinct[n] = 64 * k + bit
                    n += 1


@compiled(INTS, int64, WORDS, INTS)
def _rank(codes, lowest, words, before):
    for i in range(codes.size):
        number = codes[i] - lowest
        lower = (uint64(1) << uint64(number & 63)) - uint64(1)
        codes[i] = before[number >> 6] + popcount(words[number >> 6] & lower)


@compiled(readonly(LONGS), int64, LONGS, int64, INTS)
def _number_integers(values, start, slots, n_keys, codes):
    """Write codes from `start` on, until the table is two thirds full; return the next position and number of keys.

    Parameters
    ----------
    slots : (2 * size,) int64
        Each slot has a key, and its code plus one; the latter is 0 if the slot is free.
    """
    mask = slots.size // 2 - 1
    most = slots.size // 3
    first_slots = np.empty(_AT_ONCE, np.int64)
    for block in range(start, values.size, _AT_ONCE):
        end = min(block + _AT_ONCE, values.size)
        for i in range(block, end):
            first_slots[i - block] = int64(mix(uint64(values[i]))) & mask
        _touch(slots, first_slots, 2, end - block)
        for i in range(block, end):
            slot = first_slots[i - block]
            while slots[2 * slot + 1] != 0 and slots[2 * slot] != values[i]:
                slot = (slot + 1) & mask
            if slots[2 * slot + 1] == 0:
                if n_keys >= most:
                    return i, n_keys
                n_keys += 1
                slots[2 * slot] = values[i]
                slots[2 * slot + 1] = n_keys
            codes[i] = slots[2 * slot + 1] - 1
    return values.size, n_keys


@compiled(LONGS, LONGS)
def _keys(slots, keys):
    for slot in range(slots.size // 2):
        if slots[2 * slot + 1] > 0:
            keys[slots[2 * slot + 1] - 1] = slots[2 * slot]


@compiled()
def _touch(array, places, stride, n):
    """Load these entries into the cache; without branches in between, the loads overlap."""
    seen = array[0]
    for k in range(n):
        seen ^= array[stride * places[k]]
    # This never happens, since places are not negative, but it keeps the compiler from removing the loads.
    if places[0] < 0:
        places[0] = int64(seen)


@compiled(LONGS, LONGS, int64)
def _rehash(slots, larger, is_hash):
    mask = larger.size // 2 - 1
    for old in range(slots.size // 2):
        if slots[2 * old + 1] != 0:
            slot = slots[2 * old + 1] >> 32 & mask if is_hash else int64(mix(uint64(slots[2 * old]))) & mask
            while larger[2 * slot + 1] != 0:
                slot = (slot + 1) & mask
            larger[2 * slot] = slots[2 * old]
            larger[2 * slot + 1] = slots[2 * old + 1]


@compiled()
def _word(data, at):
    """Read eight bytes; the compiler makes it a single load."""
    word = uint64(0)
    for k in range(8):
        word |= uint64(data[at + k]) << uint64(8 * k)
    return word


@compiled()
def text_hash(data, start, end):
    """Hash some bytes."""
    value = uint64(end - start)
    while end - start >= 8:
        value = mix(value ^ _word(data, start))
        start += 8
    word = uint64(0)
    for k in range(end - start):
        word |= uint64(data[start + k]) << uint64(8 * k)
    return int64(mix(value ^ word))


@compiled()
def _is_same_text(data, start, others, other_start, length):
    k = 0
    while k + 8 <= length:
        if _word(data, start + k) != _word(others, other_start + k):
            return False
        k += 8
    while k < length:
        if data[start + k] != others[other_start + k]:
            return False
        k += 1
    return True


@compiled(Tuple((readonly(LONGS), readonly(BYTES))), int64, Tuple((LONGS, LONGS, BYTES)), int64, INTS, seconds=1.0)
def _number_texts(texts, start, table, n_keys, codes):
    """The same as `_number_integers`, for texts: their ends and bytes. It also stops if `key_bytes` is full.

    The table has slots, and the ends and bytes of the text of each code. First number of a slot: the start of its text
    in `key_bytes`, then `_LENGTH_BITS` bits of its length, cut to their maximum. Second: the upper half of the hash,
    then the code plus one in 32 bits; 0 if the slot is free.
    """
    (ends, data), (slots, key_ends, key_bytes) = texts, table
    most = key_ends.size - 1
    hashes, places = np.empty(_AT_ONCE, np.int64), np.empty(_AT_ONCE, np.int64)
    for block in range(start, codes.size, _AT_ONCE):
        end = min(block + _AT_ONCE, codes.size)
        _look_ahead(texts, block, table, hashes, places)
        for i in range(block, end):
            at, length = ends[i], ends[i + 1] - ends[i]
            slot = _text_slot(data, (at, length), hashes[i - block], table)
            if slots[2 * slot + 1] == 0:
                key_end = key_ends[n_keys] + length
                if n_keys >= most or key_end > key_bytes.size:
                    return i, n_keys
                for k in range(length):
                    key_bytes[key_ends[n_keys] + k] = data[at + k]
                n_keys += 1
                key_ends[n_keys] = key_end
                slots[2 * slot] = (key_end - length) << _LENGTH_BITS | min(length, _LONG)
                slots[2 * slot + 1] = hashes[i - block] << 32 | n_keys
            codes[i] = (slots[2 * slot + 1] & _CODE_MASK) - 1
    return codes.size, n_keys


@compiled()
def _look_ahead(texts, start, table, hashes, places):
    """Hash the next `_AT_ONCE` texts, and load the entries for their comparison into the cache.

    Writes the upper halves of the hashes; `places` is scratch space.
    """
    (ends, data), (slots, _, key_bytes) = texts, table
    mask, n = slots.size // 2 - 1, min(_AT_ONCE, ends.size - 1 - start)
    for k in range(n):
        hashes[k] = text_hash(data, ends[start + k], ends[start + k + 1]) >> 32
        places[k] = hashes[k] & mask
    _touch(slots, places, 2, n)
    for k in range(n):
        slot = places[k]
        while slots[2 * slot + 1] != 0 and slots[2 * slot + 1] >> 32 != hashes[k]:
            slot = (slot + 1) & mask
        places[k] = min(slots[2 * slot] >> _LENGTH_BITS, key_bytes.size - 1)
    _touch(key_bytes, places, 1, n)


@compiled()
def _text_slot(data, place, hash_, table):
    """Return the slot of the text at a place, or the free slot for it, given the upper half of its hash."""
    (at, length), (slots, key_ends, key_bytes) = place, table
    slot = hash_ & (slots.size // 2 - 1)
    while slots[2 * slot + 1] != 0:
        if slots[2 * slot + 1] >> 32 == hash_:
            same = slots[2 * slot] & _LONG == min(length, _LONG)
            if same and length >= _LONG:
                key = slots[2 * slot + 1] & _CODE_MASK
                same = key_ends[key] - key_ends[key - 1] == length
            if same and _is_same_text(data, at, key_bytes, slots[2 * slot] >> _LENGTH_BITS, length):
                break
        slot = (slot + 1) & (slots.size // 2 - 1)
    return slot


@compiled(INTS, INTS)
def renumber(codes, new):
    """Replace each code by its entry of `new`, in place; both are int32."""
    for i in range(codes.size):
        codes[i] = new[codes[i]]


@compiled(INTS, int64)
def in_use(codes, n):
    """Mark the numbers below `n` that occur among int32 codes, ``(n,) bool``."""
    used = np.zeros(n, np.bool_)
    for i in range(codes.size):
        used[codes[i]] = True
    return used

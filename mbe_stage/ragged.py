"""Ragged lists: one array of entries, and the offset of each list."""

from __future__ import annotations

import mmap
import os
import sys
from typing import Any, ClassVar, Self

import numpy as np

# First capacity, and the divisor for spare room when growing. Untouched entries take no memory yet.
_FIRST, _SPARE = 1024, 4
# Fewest entries to reserve address space for, and the most bytes reserved: many arrays must fit into 128 TiB.
_RESERVED_FROM, _MOST_RESERVED = 1 << 22, 1 << 36
# Bytes populated at a time, and the number of the madvise advice, which Python does not name.
_AT_ONCE, _POPULATE_WRITE = 1 << 22, 23


def offsets_of(sizes: np.ndarray) -> np.ndarray:
    """Return the offset of each list of such sizes, ``(n + 1,)``; int32, or int64 from 2^31 entries on."""
    fits = int(sizes.sum(dtype=np.int64)) <= np.iinfo(np.int32).max
    offsets = np.zeros(sizes.size + 1, dtype=np.int32 if fits else np.int64)
    np.cumsum(sizes, out=offsets[1:])
    return offsets


def long_offsets(sizes: np.ndarray) -> np.ndarray:
    """Return the offset of each list of such sizes, ``(n + 1,) int64``."""
    offsets = np.zeros(sizes.size + 1, dtype=np.int64)
    np.cumsum(sizes, out=offsets[1:])
    return offsets


class Growing:
    """An int32 array that grows at its end, without a second copy and, once large, without moving.

    On Linux, address space is reserved, and pages are populated some megabytes at a time. Populating pages one by one,
    or moving them, would take most of the time of a large result. On other systems pages are moved.
    """

    def __init__(self) -> None:
        self._values = np.empty(_FIRST, np.int32)
        self._n = 0
        self._is_seen = False
        self._reserved: _Reserved | None = None

    def append(self, part: np.ndarray) -> None:
        """Append int32 values."""
        needed = self._n + part.size
        if needed > self._values.size:
            self._grow(needed + needed // _SPARE)
        if self._reserved is not None:
            self._reserved.touch(needed)
        self._values[self._n : needed] = part
        self._n = needed

    def values(self) -> np.ndarray:
        """Return the values so far, ``(n,) int32``. The array does not change when more are appended."""
        if not self._is_seen and self._reserved is None:
            self._values.resize(self._n, refcheck=False)
            self._is_seen = True
        return self._values[: self._n]

    def _grow(self, room: int) -> None:
        """Make room for at least `room` values."""
        reserved = _Reserved.of(room) if self._reserved is None and room >= _RESERVED_FROM else None
        if reserved is None and self._reserved is None and not self._is_seen:
            self._values.resize(room, refcheck=False)
            return
        # A caller may hold the old array.
        values = np.empty(room, np.int32) if reserved is None else reserved.values
        if reserved is not None:
            reserved.touch(self._n)
        values[: self._n] = self._values[: self._n]
        self._values, self._reserved, self._is_seen = values, reserved, False


class KeptArrays:
    """Base of sinks that keep results in memory: one growing array for each field in `names`."""

    names: ClassVar[tuple[str, ...]]

    def __init__(self) -> None:
        self._arrays = tuple(Growing() for _ in self.names)

    def accept(self, block: Any) -> None:
        """Append a copy of the block's arrays."""
        if len(block):
            for array, name in zip(self._arrays, self.names, strict=True):
                array.append(getattr(block, name))

    def merge(self, other: Self) -> None:
        """Append the results of another sink, which took other tasks."""
        for array, part in zip(self._arrays, other._arrays, strict=True):
            array.append(part.values())


class _Reserved:
    """Reserved address space for a large array, whose pages are populated in order; on Linux.

    Attributes
    ----------
    values : (n,) int32
        The whole capacity. Any view of it keeps the memory mapped.
    """

    def __init__(self, mapping: mmap.mmap) -> None:
        self.values = np.frombuffer(mapping, np.int32)
        self._mapping, self._n_touched, self._can_be_asked = mapping, 0, True

    @classmethod
    def of(cls, room: int) -> _Reserved | None:
        """Reserve as much as the machine has memory, up to the limit; None if that is too little or refused."""
        if sys.platform != "linux":
            return None
        memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        n_bytes = min(memory, _MOST_RESERVED) // _AT_ONCE * _AT_ONCE
        if 4 * room > n_bytes:
            return None
        try:
            return cls(mmap.mmap(-1, n_bytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS))
        except OSError:
            # Address space is limited, or overcommit is off: the array grows as on other systems.
            return None

    def touch(self, n: int) -> None:
        """Populate the pages of the first `n` values."""
        while self._n_touched < 4 * n and self._can_be_asked:
            try:
                self._mapping.madvise(_POPULATE_WRITE, self._n_touched, _AT_ONCE)
            except OSError:
                # Before Linux 5.14: pages are populated one by one, on writing.
                self._can_be_asked = False
            self._n_touched += _AT_ONCE

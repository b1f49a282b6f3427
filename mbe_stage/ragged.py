"""Lists of different lengths as one array and where each begins."""

from __future__ import annotations

import mmap
import os
import sys

import numpy as np

__all__ = ["Growing", "long_offsets", "offsets_of"]

# Room for the first entries, and how much more than is needed later: what is not used is no memory yet.
_FIRST, _SPARE = 1024, 4
# Values from which address space is reserved, and bytes of it at most: many arrays are to fit the 128 TiB there are.
_RESERVED_FROM, _MOST_RESERVED = 1 << 22, 1 << 36
# Bytes that are taken together. Python has no name for the advice.
_AT_ONCE, _POPULATE_WRITE = 1 << 22, 23


def offsets_of(sizes: np.ndarray) -> np.ndarray:
    """``(n + 1,)``: where each list of such sizes begins; int32, from 2^31 entries on int64."""
    fits = int(sizes.sum(dtype=np.int64)) <= np.iinfo(np.int32).max
    offsets = np.zeros(sizes.size + 1, dtype=np.int32 if fits else np.int64)
    np.cumsum(sizes, out=offsets[1:])
    return offsets


def long_offsets(sizes: np.ndarray) -> np.ndarray:
    """``(n + 1,) int64``: where each list of such sizes begins."""
    offsets = np.zeros(sizes.size + 1, dtype=np.int64)
    np.cumsum(sizes, out=offsets[1:])
    return offsets


class Growing:
    """An int32 array that grows at its end without a second copy of it, and without being moved once it is large.

    Where the system has address space to reserve, as Linux does, pages are taken some megabytes at a time: to touch
    them one by one, and to move them, takes most of the time of a large result. Elsewhere pages are moved.
    """

    def __init__(self) -> None:
        self._values = np.empty(_FIRST, np.int32)
        self._n = 0
        self._is_seen = False
        self._reserved: _Reserved | None = None

    def append(self, part: np.ndarray) -> None:
        """Put int32 values behind those that are there."""
        needed = self._n + part.size
        if needed > self._values.size:
            self._grow(needed + needed // _SPARE)
        if self._reserved is not None:
            self._reserved.touch(needed)
        self._values[self._n : needed] = part
        self._n = needed

    def values(self) -> np.ndarray:
        """Everything so far, ``(n,) int32``; it stays as it is when more is appended."""
        if not self._is_seen and self._reserved is None:
            self._values.resize(self._n, refcheck=False)
            self._is_seen = True
        return self._values[: self._n]

    def _grow(self, room: int) -> None:
        """Room for so many values at least."""
        reserved = _Reserved.of(room) if self._reserved is None and room >= _RESERVED_FROM else None
        if reserved is None and self._reserved is None and not self._is_seen:
            self._values.resize(room, refcheck=False)
            return
        # Whoever has seen it may keep it.
        values = np.empty(room, np.int32) if reserved is None else reserved.values
        if reserved is not None:
            reserved.touch(self._n)
        values[: self._n] = self._values[: self._n]
        self._values, self._reserved, self._is_seen = values, reserved, False


class _Reserved:
    """Address space for a large array, of which pages are taken in order; on Linux.

    Attributes
    ----------
    values : (n,) int32
        All that it has room for. Whoever keeps a part of it keeps it mapped.
    """

    def __init__(self, mapping: mmap.mmap) -> None:
        self.values = np.frombuffer(mapping, np.int32)
        self._mapping, self._n_touched, self._can_be_asked = mapping, 0, True

    @classmethod
    def of(cls, room: int) -> _Reserved | None:
        """Space for as much as the machine has memory, within bounds; None where that is too little, or refused."""
        if sys.platform != "linux":
            return None
        memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        n_bytes = min(memory, _MOST_RESERVED) // _AT_ONCE * _AT_ONCE
        if 4 * room > n_bytes:
            return None
        try:
            return cls(mmap.mmap(-1, n_bytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS))
        except OSError:
            # A limit of address space, or a system that lends no more than it has: the array grows as elsewhere.
            return None

    def touch(self, n: int) -> None:
        """Take the pages of the first `n` values."""
        while self._n_touched < 4 * n and self._can_be_asked:
            try:
                self._mapping.madvise(_POPULATE_WRITE, self._n_touched, _AT_ONCE)
            except OSError:
                # Before Linux 5.14: they are taken one by one, when they are written.
                self._can_be_asked = False
            self._n_touched += _AT_ONCE

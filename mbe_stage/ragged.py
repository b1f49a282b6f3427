"""Lists of different lengths as one array and where each begins."""

from __future__ import annotations

import numpy as np

__all__ = ["Growing", "long_offsets", "offsets_of"]

# Room for the first entries, and how much more than is needed later: what is not used is no memory yet.
_FIRST, _SPARE = 1024, 4


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
    """An int32 array that grows at its end, without a second copy of it: its pages are moved, not their contents."""

    def __init__(self) -> None:
        self._values = np.empty(_FIRST, np.int32)
        self._n = 0
        self._is_seen = False

    def append(self, part: np.ndarray) -> None:
        """Put int32 values behind those that are there."""
        needed = self._n + part.size
        if needed > self._values.size:
            room = needed + needed // _SPARE
            if self._is_seen:
                # Whoever has seen it may keep it.
                self._values, seen = np.empty(room, np.int32), self._values
                self._values[: self._n], self._is_seen = seen[: self._n], False
            else:
                self._values.resize(room, refcheck=False)
        self._values[self._n : needed] = part
        self._n = needed

    def values(self) -> np.ndarray:
        """Everything so far, ``(n,) int32``; it stays as it is when more is appended."""
        if not self._is_seen:
            self._values.resize(self._n, refcheck=False)
            self._is_seen = True
        return self._values[: self._n]

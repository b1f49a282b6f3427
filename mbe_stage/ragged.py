"""Lists of different lengths as one array and where each begins."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

__all__ = ["joined", "joined_offsets", "offsets_of"]


def offsets_of(sizes: np.ndarray) -> np.ndarray:
    """``(n + 1,)``: where each list of such sizes begins; int32, from 2^31 entries on int64."""
    fits = int(sizes.sum(dtype=np.int64)) <= np.iinfo(np.int32).max
    offsets = np.zeros(sizes.size + 1, dtype=np.int32 if fits else np.int64)
    np.cumsum(sizes, out=offsets[1:])
    return offsets


def joined(parts: Sequence[Any]) -> np.ndarray:
    """int32 arrays, one behind the other; a single one is not copied."""
    if len(parts) == 1:
        return parts[0]
    return np.concatenate([np.empty(0, np.int32), *parts])


def joined_offsets(sizes: Sequence[Any]) -> np.ndarray:
    """Where each list begins, ``(n + 1,) int64``, given their sizes in several arrays."""
    all_sizes = joined(sizes)
    offsets = np.zeros(all_sizes.size + 1, dtype=np.int64)
    np.cumsum(all_sizes, out=offsets[1:])
    return offsets

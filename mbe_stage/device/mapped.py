"""Arrays in the host's memory that kernels read and write over the bus, for what has no room on the device."""

from __future__ import annotations

from typing import Any

import cupy as cp
import numpy as np


def mapped_empty(n: int, dtype: Any) -> cp.ndarray:
    """An array of `n` entries in pinned memory of the host, which the device has the same address for.

    It takes no device memory. Reading it is as slow as the bus, and quick enough where whole lists are read in turn
    (EMOGI: Min et al., PVLDB 14(2), 2020).
    """
    n_bytes = max(1, n * np.dtype(dtype).itemsize)
    pinned = cp.cuda.alloc_pinned_memory(n_bytes)
    # CuPy keeps `pinned` as long as the array: then it is the next one's.
    memory = cp.cuda.UnownedMemory(pinned.ptr, n_bytes, pinned, cp.cuda.runtime.getDevice())
    return cp.ndarray((n,), dtype, cp.cuda.MemoryPointer(memory, 0))


def mapped_copy(array: np.ndarray) -> cp.ndarray:
    """The same of an array of the host."""
    copy = mapped_empty(array.size, array.dtype)
    copy.set(array)
    return copy

"""Arrays in host memory that kernels access over the bus, for data that does not fit on the device."""

from __future__ import annotations

from typing import Any

import cupy as cp
import numpy as np


def mapped_empty(n: int, dtype: Any) -> cp.ndarray:
    """Return an array of `n` entries in pinned host memory, which has the same address on the device.

    It takes no device memory. Reading it is as slow as the bus, but fast enough for sequential reads of whole lists
    (EMOGI: Min et al., PVLDB 14(2), 2020).
    """
    n_bytes = max(1, n * np.dtype(dtype).itemsize)
    pinned = cp.cuda.alloc_pinned_memory(n_bytes)
    # CuPy keeps `pinned` as long as the array, and may reuse it afterwards.
    memory = cp.cuda.UnownedMemory(pinned.ptr, n_bytes, pinned, cp.cuda.runtime.getDevice())
    return cp.ndarray((n,), dtype, cp.cuda.MemoryPointer(memory, 0))


def mapped_copy(array: np.ndarray) -> cp.ndarray:
    """Copy a host array into such memory."""
    copy = mapped_empty(array.size, array.dtype)
    copy.set(array)
    return copy

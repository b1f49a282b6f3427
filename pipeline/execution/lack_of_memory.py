"""Lack of memory: library errors that mean it and say nothing about the data, and memory that is given back."""

from __future__ import annotations

import ctypes
from contextlib import suppress

import pyarrow as pa


def pass_on(error: Exception) -> None:
    """Raise `MemoryError` if the error is one by another name.

    This includes Arrow's own memory errors. If the address space has no room for a thread's stack, Arrow cannot start
    a thread.
    """
    if isinstance(error, MemoryError):
        raise error
    if "Failed to launch worker thread" in str(error):
        raise MemoryError(str(error)) from error


def is_of_device_memory(error: BaseException) -> bool:
    """Return whether an error of RMM, libcudf, CuPy or cuGraph means that GPU memory ran out.

    cuGraph's C interface wraps RMM's text into a `RuntimeError`.
    """
    if not isinstance(error, MemoryError | RuntimeError):
        return False
    return "out_of_memory" in str(error) or "cudaErrorMemoryAllocation" in str(error)


def give_back() -> None:
    """Return freed memory to the system. Otherwise Arrow and the C library keep much of it."""
    pa.default_memory_pool().release_unused()
    with suppress(AttributeError):  # another C library
        ctypes.CDLL(None).malloc_trim(0)

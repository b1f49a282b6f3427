"""Errors of libraries that mean a lack of memory: none of them says anything about what was read or written."""

from __future__ import annotations

__all__ = ["is_of_device_memory", "pass_on"]


def pass_on(error: Exception) -> None:
    """Raise `MemoryError` where this is one by another name, or one of Arrow's, which are both its own and Python's.

    Where the address space has no room for the stack of a thread, Arrow cannot start one.
    """
    if isinstance(error, MemoryError):
        raise error
    if "Failed to launch worker thread" in str(error):
        raise MemoryError(str(error)) from error


def is_of_device_memory(error: BaseException) -> bool:
    """Whether RMM, libcudf, CuPy or cuGraph says with it that the memory of the GPU is not enough.

    cuGraph's C interface wraps RMM's text into a `RuntimeError`.
    """
    if not isinstance(error, MemoryError | RuntimeError):
        return False
    return "out_of_memory" in str(error) or "cudaErrorMemoryAllocation" in str(error)

"""Arrow's errors that mean a lack of memory: none of them says anything about what was read."""

from __future__ import annotations

__all__ = ["pass_on"]


def pass_on(error: Exception) -> None:
    """Raise `MemoryError` where this is one by another name, or one of Arrow's, which are both its own and Python's.

    Where the address space has no room for the stack of a thread, Arrow cannot start one.
    """
    if isinstance(error, MemoryError):
        raise error
    if "Failed to launch worker thread" in str(error):
        raise MemoryError(str(error)) from error

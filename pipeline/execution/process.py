"""A flag for processes of the command line, as opposed to users of the library."""

from __future__ import annotations

_is_ours = False


def claim() -> None:
    """Mark the process as running a single command; the command line's entry point calls this."""
    global _is_ours
    _is_ours = True


def is_ours() -> bool:
    """Return whether the process ends with the command that it runs."""
    return _is_ours

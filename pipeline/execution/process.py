"""Whether this process is the command line's own, or somebody's who calls the pipeline as a library."""

from __future__ import annotations

__all__ = ["claim", "is_ours"]

_is_ours = False


def claim() -> None:
    """Say that the process has nothing else to do than one command; the command line's entry does."""
    global _is_ours
    _is_ours = True


def is_ours() -> bool:
    """Whether the process ends with the command that it runs."""
    return _is_ours

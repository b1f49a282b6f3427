"""Numbers as text for people."""

from __future__ import annotations

__all__ = ["plural"]


def plural(number: int, singular: str, several: str | None = None) -> str:
    """A number and its noun: ``1 edge``, ``89 edges``."""
    return f"{number:,} {singular if number == 1 else several or singular + 's'}"

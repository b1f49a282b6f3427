"""Numbers, durations and sizes as text for people."""

from __future__ import annotations

__all__ = ["bytes_text", "plural", "seconds_text"]


def plural(number: int, singular: str, several: str | None = None) -> str:
    """A number and its noun: ``1 edge``, ``89 edges``."""
    return f"{number:,} {singular if number == 1 else several or singular + 's'}"


def seconds_text(seconds: float) -> str:
    """A duration: ``0.8 ms``, ``41 ms``, ``3.24 s``, ``2 min 05 s``, ``1 h 12 min``."""
    if seconds < 0.01:
        return f"{seconds * 1e3:.1f} ms"
    if seconds < 1:
        return f"{seconds * 1e3:.0f} ms"
    if seconds < 59.95:
        return f"{seconds:.2f} s" if seconds < 9.995 else f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02d} s"
    return f"{minutes // 60} h {minutes % 60:02d} min"


def bytes_text(size: float) -> str:
    """A number of bytes in binary units.

    Examples
    --------
    >>> bytes_text(1_536 * 1024), bytes_text(212 << 20)
    ('1.5 MiB', '212 MiB')
    """
    scaled = float(size)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if scaled < 1024:
            return f"{scaled:.0f} {unit}" if scaled >= 10 or unit == "B" else f"{scaled:.1f} {unit}"
        scaled /= 1024
    return f"{scaled:.1f} TiB"

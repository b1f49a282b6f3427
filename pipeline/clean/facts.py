"""What was read and what became of it; and how an integer is written."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["InputFacts", "written_integer"]


@dataclass(frozen=True, slots=True)
class InputFacts:
    """What was read and what became of it; published in the manifest.

    Attributes
    ----------
    source : str
        The path as given, or ``memory:<kind>``.
    format : str
        The format that was read.
    rows_read, rows_dropped_null, rows_dropped_weight, rows_dropped_time, duplicate_edges : int
        ``n_edges = rows_read - rows_dropped_* - duplicate_edges``.
    n_left, n_right, n_edges : int
    fingerprint : str
        Names the set of edges by their own keys, whatever their order or file format.
    events_fingerprint : str or None
        Names the rows with their weights and times, where an output asks for these and the input names them.
    warnings : tuple of str
        What reading had to do otherwise than asked, or could not check; a sentence each.
    """

    source: str
    format: str
    rows_read: int
    rows_dropped_null: int
    rows_dropped_weight: int
    rows_dropped_time: int
    duplicate_edges: int
    n_left: int
    n_right: int
    n_edges: int
    fingerprint: str
    warnings: tuple[str, ...] = ()
    events_fingerprint: str | None = None


def written_integer(text: str) -> int | None:
    """The integer within int64 that is written exactly so; None for every other text."""
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdigit() and str(int(text)) == text):
        return None
    return int(text) if -(2**63) <= int(text) < 2**63 else None

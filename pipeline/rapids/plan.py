"""How much device memory the way out takes, decided before anything is allocated. Needs no GPU library."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["LONG_FORM", "WritingPlan"]

_WRITERS = 4
_LARGEST_PART = 512 << 20
_SMALLEST_PART = 1 << 16
LONG_FORM = 6
"""How much larger `members/` is than the lists, on the device: key, name of the side with its offset, vertex."""


@dataclass(frozen=True, slots=True)
class WritingPlan:
    """How much device memory the way out may take, and how it is cut.

    Attributes
    ----------
    piece_bytes : int
        Rows that are named, summed up and made a frame at once, as bytes in memory; also a part's.
    sort_bytes : int
        Rows kept on the device where they are sorted.
    n_writers : int
        Files written at once.
    """

    piece_bytes: int
    sort_bytes: int
    n_writers: int

    @classmethod
    def of(cls, budget_bytes: int, members: bool) -> WritingPlan:
        """A plan within a budget.

        A part is in the works up to `2 * n_writers + 2` times: one being made, those that wait, those that are encoded,
        which take about three times their size.
        """
        shares = (2 + _WRITERS + 4 * _WRITERS) * (LONG_FORM if members else 1)
        piece_bytes = min(_LARGEST_PART, budget_bytes // 2 // shares)
        return cls(max(_SMALLEST_PART, piece_bytes), sort_bytes=budget_bytes // 2, n_writers=_WRITERS)

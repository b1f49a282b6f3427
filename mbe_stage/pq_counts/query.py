"""Queries for counts of (p, q)-bicliques."""

from __future__ import annotations

from dataclasses import dataclass

from mbe_stage.errors import InvalidArgument
from mbe_stage.integers import set_integers, set_vertices

LARGEST_SIZE = 1 << 20
"""Largest size of a side; a larger one is a typing error."""


@dataclass(frozen=True, slots=True)
class PqQuery:
    """A query for a table of counts: every p from `min_p` to `max_p` with every q from `min_q` to `max_q`.

    Attributes
    ----------
    min_p, max_p : int
        Number of left vertices of a biclique, at least 1.
    min_q, max_q : int
        Number of right vertices of a biclique, at least 1.
    containing_left, containing_right : tuple of int
        Dense ids of vertices that must all be members; they count towards p and q.

    Raises
    ------
    InvalidArgument
        A value is not an integer, a size is below 1 or above `LARGEST_SIZE`, or a maximum is below its minimum.
    """

    min_p: int
    max_p: int
    min_q: int
    max_q: int
    containing_left: tuple[int, ...] = ()
    containing_right: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        sizes = ("min_p", "max_p", "min_q", "max_q")
        set_integers(self, sizes)
        set_vertices(self, ("containing_left", "containing_right"))
        for name in sizes:
            size = getattr(self, name)
            if not 1 <= size <= LARGEST_SIZE:
                raise InvalidArgument(f"{name[-1]} is {size}: expected 1 to {LARGEST_SIZE:,} vertices of a side")
        for letter in ("p", "q"):
            fewest, most = getattr(self, f"min_{letter}"), getattr(self, f"max_{letter}")
            if most < fewest:
                raise InvalidArgument(f"max_{letter} is {most}, below min_{letter} = {fewest}: there is no such cell")

    @classmethod
    def of(cls, p: int, q: int) -> PqQuery:
        """Return the query for one cell."""
        return cls(p, p, q, q)

    @property
    def cells(self) -> list[tuple[int, int]]:
        """All cells ``(p, q)``, p by p."""
        return [(p, q) for p in range(self.min_p, self.max_p + 1) for q in range(self.min_q, self.max_q + 1)]

    @property
    def identity(self) -> tuple[list[int], list[list[int]]]:
        """Bounds and required members, which `mbe_stage.tasks.Roots` uses to distinguish searches."""
        sizes = [self.min_p, self.max_p, self.min_q, self.max_q]
        return sizes, [sorted(set(side)) for side in (self.containing_left, self.containing_right)]

    def swapped(self) -> PqQuery:
        """Return the query for the graph with its sides exchanged."""
        return PqQuery(self.min_q, self.max_q, self.min_p, self.max_p, self.containing_right, self.containing_left)

"""Queries for maximal bicliques."""

from __future__ import annotations

from dataclasses import dataclass

from mbe_stage.errors import InvalidArgument
from mbe_stage.integers import set_integers, set_vertices
from mbe_stage.options import NO_LIMIT


@dataclass(frozen=True, slots=True)
class BicliqueQuery:
    """A query for the maximal bicliques of the graph that satisfy every condition.

    Attributes
    ----------
    min_left, min_right : int
        Fewest vertices on each side, at least 1.
    max_left, max_right : int or None
        Most vertices on each side; None for no limit.
    min_edges : int
        Fewest edges, ``n_left * n_right``.
    containing_left, containing_right : tuple of int
        Dense ids of vertices that must all be members.

    Raises
    ------
    InvalidArgument
        A value is not an integer, a bound is below 1, or a maximum is below its minimum.
    """

    min_left: int = 1
    min_right: int = 1
    max_left: int | None = None
    max_right: int | None = None
    min_edges: int = 1
    containing_left: tuple[int, ...] = ()
    containing_right: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        minima, maxima = ("min_left", "min_right", "min_edges"), ("max_left", "max_right")
        set_integers(self, minima, or_none=maxima)
        set_vertices(self, ("containing_left", "containing_right"))
        for name in (*minima, *maxima):
            bound = getattr(self, name)
            if bound is not None and not 1 <= bound < NO_LIMIT:
                raise InvalidArgument(f"{name} is {bound}: expected 1 or more, and less than 2**62")
        for side in ("left", "right"):
            most, fewest = getattr(self, f"max_{side}"), getattr(self, f"min_{side}")
            if most is not None and most < fewest:
                raise InvalidArgument(f"max_{side} is {most}, below min_{side} = {fewest}: no biclique can match")

    @property
    def identity(self) -> tuple[list[int | None], list[list[int]]]:
        """Bounds and required members, which `mbe_stage.tasks.Roots` uses to distinguish searches."""
        bounds = [self.min_left, self.min_right, self.max_left, self.max_right, self.min_edges]
        return bounds, [sorted(set(side)) for side in (self.containing_left, self.containing_right)]

    def swapped(self) -> BicliqueQuery:
        """Return the query for the graph with its sides exchanged."""
        return BicliqueQuery(
            min_left=self.min_right,
            min_right=self.min_left,
            max_left=self.max_right,
            max_right=self.max_left,
            min_edges=self.min_edges,
            containing_left=self.containing_right,
            containing_right=self.containing_left,
        )

    def accepts(self, n_left: int, n_right: int) -> bool:
        """True if a biclique of this size satisfies the size constraints."""
        return (
            n_left >= self.min_left
            and n_right >= self.min_right
            and (self.max_left is None or n_left <= self.max_left)
            and (self.max_right is None or n_right <= self.max_right)
            and n_left * n_right >= self.min_edges
        )

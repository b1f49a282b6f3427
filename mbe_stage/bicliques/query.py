"""Queries for maximal bicliques.

Size constraints as numbers, for compiled code: one order of fields for all engines.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from mbe_stage.errors import InvalidArgument
from mbe_stage.integers import set_integers, set_vertices
from mbe_stage.options import NO_LIMIT

__all__ = [
    "ACTIVE",
    "MAX_LEFT",
    "MAX_RIGHT",
    "MIN_EDGES",
    "MIN_LEFT",
    "MIN_RIGHT",
    "BicliqueQuery",
    "are_met",
    "size_constraints",
]

# Fields.
ACTIVE, MIN_LEFT, MIN_RIGHT, MAX_LEFT, MAX_RIGHT, MIN_EDGES = range(6)


@dataclass(frozen=True, slots=True)
class BicliqueQuery:
    """A query for the maximal bicliques of the whole graph that satisfy every condition.

    Attributes
    ----------
    min_left, min_right : int
        Fewest vertices on a side, at least 1.
    max_left, max_right : int or None
        Most vertices on a side; None is no limit.
    min_edges : int
        Fewest edges, ``n_left * n_right``.
    containing_left, containing_right : tuple of int
        Dense ids that must all be members.

    Raises
    ------
    InvalidArgument
        A value is no integer, a bound is below 1, or a maximum is below its minimum.
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
        """Bounds and members, by which `mbe_stage.tasks.Roots` distinguishes searches."""
        bounds = [self.min_left, self.min_right, self.max_left, self.max_right, self.min_edges]
        return bounds, [sorted(set(side)) for side in (self.containing_left, self.containing_right)]

    def swapped(self) -> BicliqueQuery:
        """The same query for the graph with its sides exchanged."""
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


def size_constraints(query: BicliqueQuery) -> np.ndarray:
    """The constraints of a query whose left side are the columns, ``(6,) int64``.

    `ACTIVE` is 0 where all bicliques satisfy them.
    """
    most_left = NO_LIMIT if query.max_left is None else query.max_left
    most_right = NO_LIMIT if query.max_right is None else query.max_right
    constraints = (query.min_left, query.min_right, most_left, most_right, query.min_edges)
    active = constraints != (1, 1, NO_LIMIT, NO_LIMIT, 1)
    return np.array([active, *constraints], dtype=np.int64)


def are_met(n_left: Any, n_right: Any, constraints: Any) -> Any:
    """True if a biclique with these numbers of the user's vertices meets the constraints; compiled by each engine."""
    return (
        constraints[MIN_LEFT] <= n_left <= constraints[MAX_LEFT]
        and constraints[MIN_RIGHT] <= n_right <= constraints[MAX_RIGHT]
        and np.int64(n_left) * np.int64(n_right) >= constraints[MIN_EDGES]
    )

"""Queries for maximal cliques."""

from __future__ import annotations

from dataclasses import dataclass

from mbe_stage.errors import InvalidArgument
from mbe_stage.integers import set_integers, set_vertices
from mbe_stage.options import NO_LIMIT


@dataclass(frozen=True, slots=True)
class CliqueQuery:
    """A query for the maximal cliques of the graph that satisfy every condition.

    Attributes
    ----------
    min_size : int
        Fewest vertices, at least 1.
    max_size : int or None
        Most vertices; None for no limit. A smaller clique counts only if it is maximal in the whole graph.
    containing : tuple of int
        Dense ids of vertices that must all be members.

    Raises
    ------
    InvalidArgument
        A value is not an integer, a bound is below 1, or the maximum is below the minimum or the number of required
        vertices.
    """

    min_size: int = 1
    max_size: int | None = None
    containing: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        set_integers(self, ("min_size",), or_none=("max_size",))
        set_vertices(self, ("containing",))
        for name in ("min_size", "max_size"):
            bound = getattr(self, name)
            if bound is not None and not 1 <= bound < NO_LIMIT:
                raise InvalidArgument(f"{name} is {bound}: expected 1 or more, and less than 2**62")
        if self.max_size is None:
            return
        if self.max_size < self.min_size:
            raise InvalidArgument(f"max_size is {self.max_size}, below min_size = {self.min_size}: no clique can match")
        n_members = len(set(self.containing))
        if n_members > self.max_size:
            raise InvalidArgument(
                f"max_size is {self.max_size}, and containing holds {n_members} vertices: no clique can match"
            )

    @property
    def identity(self) -> tuple[list[int | None], list[int]]:
        """Bounds and required members, which `mbe_stage.tasks.Roots` uses to distinguish searches."""
        return [self.min_size, self.max_size], sorted(set(self.containing))

    def accepts(self, size: int) -> bool:
        """True if a clique of this size satisfies the size constraints."""
        return size >= self.min_size and (self.max_size is None or size <= self.max_size)

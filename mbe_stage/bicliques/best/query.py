"""Queries for the best maximal bicliques."""

from __future__ import annotations

from dataclasses import dataclass

from mbe_stage.errors import InvalidArgument
from mbe_stage.integers import set_integers

SCORES = ("edges", "vertices", "balance", "weight", "surprise")


@dataclass(frozen=True, slots=True)
class BestQuery:
    """A query for the `k` best maximal bicliques.

    The order is by score, then by more edges, then by key (`mbe_stage.bicliques.keys`), the smaller first.

    Attributes
    ----------
    by : str
        ``edges``, ``vertices``, ``balance`` (size of the smaller side), ``weight`` (sum of the edges' weights), or
        ``surprise`` (`mbe_stage.groups.NullModel`).
    k : int
    min_left, min_right : int
        Fewest vertices on a side. With 1, the best by edges is usually one vertex with all its neighbours.
    overlap : float
        Bicliques are taken by rank. One is left out if an earlier one that was taken has more than this share of its
        edges.

    Raises
    ------
    InvalidArgument
        An unknown score, or a number out of its range.
    """

    by: str = "edges"
    k: int = 10
    min_left: int = 2
    min_right: int = 2
    overlap: float = 1.0

    def __post_init__(self) -> None:
        set_integers(self, ("k", "min_left", "min_right"))
        if self.by not in SCORES:
            raise InvalidArgument(f"by is {self.by!r}: expected one of {', '.join(SCORES)}")
        for name in ("k", "min_left", "min_right"):
            if not 1 <= getattr(self, name) < 1 << 31:
                raise InvalidArgument(f"{name} is {getattr(self, name)}: expected 1 or more, and less than 2**31")
        if not 0 <= self.overlap <= 1:
            raise InvalidArgument(f"overlap is {self.overlap}: expected a share, from 0 to 1")

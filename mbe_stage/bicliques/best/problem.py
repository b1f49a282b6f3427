"""The problem of the best maximal bicliques.

This module is imported to list the installed problems, so it must not import arrays.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from mbe_stage.errors import InvalidArgument
from mbe_stage.integers import set_integers
from mbe_stage.problem import Problem

if TYPE_CHECKING:
    import numpy as np

    from mbe_stage.graphs.bipartite import BipartiteCSR

MOST_MISSING = 5
SCORES = ("edges", "vertices", "balance", "weight", "surprise")


@dataclass(frozen=True, slots=True)
class BestQuery:
    """A query for the `k` best maximal bicliques.

    Attributes
    ----------
    by, k, min_left, min_right, overlap, missing, weights
        As in `best_bicliques`. Weights are in the order of `graph.left_members`.
    hashes : pair of uint64 arrays, or None
        Salted hashes of the left and right vertices, for keys; by default hashes of their ids.

    Raises
    ------
    InvalidArgument
        An unknown score, or a number out of range.
    """

    by: str = "edges"
    k: int = 10
    min_left: int = 2
    min_right: int = 2
    overlap: float = 1.0
    missing: int = 0
    weights: np.ndarray | None = field(default=None, compare=False, repr=False)
    hashes: tuple[np.ndarray, np.ndarray] | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        set_integers(self, ("k", "min_left", "min_right", "missing"))
        if self.by not in SCORES:
            raise InvalidArgument(f"by is {self.by!r}: expected one of {', '.join(SCORES)}")
        for name in ("k", "min_left", "min_right"):
            if not 1 <= getattr(self, name) < 1 << 31:
                raise InvalidArgument(f"{name} is {getattr(self, name)}: expected 1 or more, and less than 2**31")
        if not 0 <= self.overlap <= 1:
            raise InvalidArgument(f"overlap is {self.overlap}: expected a share, from 0 to 1")
        if not 0 <= self.missing <= MOST_MISSING:
            raise InvalidArgument(f"missing is {self.missing}: expected 0 to {MOST_MISSING} edges")
        if self.missing and (self.by in ("weight", "surprise") or min(self.min_left, self.min_right) <= self.missing):
            raise InvalidArgument(
                f"missing is {self.missing}: expected by edges, vertices or balance, with at least {self.missing + 1} "
                "vertices on each side"
            )
        if (self.weights is None) != (self.by != "weight"):
            raise InvalidArgument(
                f"by is {self.by!r} and weights are {'missing' if self.weights is None else 'given'}: expected weights "
                "by 'weight', and only then"
            )


def _check(graph: BipartiteCSR, query: BestQuery) -> None:
    weights = query.weights
    if weights is None:
        return
    if weights.shape != (graph.n_edges,):
        raise InvalidArgument(f"weights have the shape {weights.shape}: expected ({graph.n_edges},), one for each edge")
    if not (0 <= weights.min(initial=0) <= weights.max(initial=0) < float("inf")):
        raise InvalidArgument("weights hold a negative number, NaN or infinity: expected finite numbers of at least 0")


PROBLEM = Problem(
    name="best",
    engines={
        "cuda": "mbe_stage.bicliques.best.engine_cuda",
        "cpu": "mbe_stage.bicliques.best.engine_cpu",
        "reference": "mbe_stage.bicliques.best.reference",
    },
    check=_check,
    limit=None,
    publication="mbe_stage.pipeline.problems.best.publication:PUBLICATION",
    about="Find the best maximal bicliques by edges, vertices, balance, weight or surprise.",
)

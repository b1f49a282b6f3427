"""The problem, as an entry point of the group `mbe_stage.problems` names it."""

from __future__ import annotations

from dataclasses import dataclass

from mbe_stage.errors import InvalidArgument
from mbe_stage.graphs.bipartite import BipartiteCSR
from mbe_stage.problem import Problem

__all__ = ["PROBLEM", "EdgeQuery"]


@dataclass(frozen=True, slots=True)
class EdgeQuery:
    """The edges that are in so many butterflies at least."""

    min_butterflies: int = 0


def _check(graph: BipartiteCSR, query: EdgeQuery) -> None:
    most = graph.n_left * graph.n_right
    if not 0 <= query.min_butterflies <= most:
        raise InvalidArgument(f"min_butterflies is {query.min_butterflies}: expected 0 to {most}")


PROBLEM = Problem(
    name="butterflies",
    engines={
        "cuda": "tests.toys.butterflies.engine_cuda",
        "cpu": "tests.toys.butterflies.engine_cpu",
        "reference": "tests.toys.butterflies.reference",
    },
    check=_check,
    limit=None,
)

"""The problem of shared neighbours.

This module is imported to list the installed problems, so it must not import arrays.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from mbe_stage.errors import InvalidArgument
from mbe_stage.problem import Problem

if TYPE_CHECKING:
    from mbe_stage.graphs.bipartite import BipartiteCSR


@dataclass(frozen=True, slots=True)
class SharedQuery:
    """A query for pairs of left vertices.

    Attributes
    ----------
    min_shared : int
        Fewest shared neighbours of a pair.
    """

    min_shared: int = 1


def _check(graph: BipartiteCSR, query: SharedQuery) -> None:  # noqa: ARG001 - the seam's signature
    if query.min_shared < 1:
        raise InvalidArgument(f"min_shared is {query.min_shared}: expected 1 or more shared neighbours")


PROBLEM = Problem(
    name="shared_neighbours",
    engines={
        "cuda": "mbe_stage.shared_neighbours.engine_cuda",
        "cpu": "mbe_stage.shared_neighbours.engine_cpu",
        "reference": "mbe_stage.shared_neighbours.reference",
    },
    check=_check,
    limit=None,
    publication="mbe_stage.pipeline.problems.shared_neighbours.publication:PUBLICATION",
    about="List the pairs of vertices of one side that share neighbours, with their similarity.",
    command="project",
)

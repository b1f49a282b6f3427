"""The problem, as named by an entry point of the group `mbe_stage.problems`.

Listing problems imports it, so arrays come with the engines.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mbe_stage.errors import InvalidArgument
from mbe_stage.problem import Problem

if TYPE_CHECKING:
    from mbe_stage.graphs.bipartite import BipartiteCSR

__all__ = ["PROBLEM", "EdgeQuery"]


@dataclass(frozen=True, slots=True)
class EdgeQuery:
    """Selects edges by their butterflies, and by the share of their possible ones."""

    min_butterflies: int = 0
    max_butterflies: int | None = None
    min_share: float = 0.0

    def accepts(self, butterflies: Any, possible: Any) -> Any:
        """Return whether edges are selected; takes numbers or arrays.

        Parameters
        ----------
        butterflies
            Butterflies of the edge.
        possible
            Its butterflies if all neighbours of its ends were joined.
        """
        wanted = (butterflies >= self.min_butterflies) & (butterflies >= self.min_share * possible)
        return wanted if self.max_butterflies is None else wanted & (butterflies <= self.max_butterflies)


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
    publication="tests.toys.butterflies.publication:PUBLICATION",
    about="How many butterflies, complete 2 x 2 subgraphs, each edge is in.",
)

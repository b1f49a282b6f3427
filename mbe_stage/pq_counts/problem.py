"""The problem of counting (p, q)-bicliques.

This module is imported to list the installed problems, so it must not import arrays.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mbe_stage.problem import Problem

if TYPE_CHECKING:
    from mbe_stage.graphs.bipartite import BipartiteCSR
    from mbe_stage.pq_counts.query import PqQuery


def _check(graph: BipartiteCSR, query: PqQuery) -> None:
    graph.check_containing(query.containing_left, query.containing_right)


PROBLEM = Problem(
    name="pq_counts",
    engines={
        "cuda": "mbe_stage.pq_counts.engine_cuda",
        "cpu": "mbe_stage.pq_counts.engine_cpu",
        "reference": "mbe_stage.pq_counts.reference",
    },
    check=_check,
    limit=None,
    publication="mbe_stage.pipeline.problems.pq_counts.publication:PUBLICATION",
    about="Count the (p, q)-bicliques, p left and q right vertices with every edge between them.",
    command="count-pq",
    passing="kinds of leaves of the search tree",
)

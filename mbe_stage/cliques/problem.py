"""The problem of maximal clique enumeration.

This module is imported to list the installed problems, so it must not import arrays.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mbe_stage.problem import Problem

if TYPE_CHECKING:
    from mbe_stage.cliques.query import CliqueQuery
    from mbe_stage.graphs.undirected import UndirectedCSR


def _check(graph: UndirectedCSR, query: CliqueQuery) -> None:
    graph.check_containing(query.containing)


PROBLEM = Problem(
    name="cliques",
    engines={
        "cuda": "mbe_stage.cliques.engine_cuda",
        "cpu": "mbe_stage.cliques.engine_cpu",
        "reference": "mbe_stage.cliques.reference",
    },
    check=_check,
    limit="max_cliques",
    publication="mbe_stage.pipeline.problems.cliques.publication:PUBLICATION",
    about="Enumerate the maximal cliques of an undirected graph.",
)

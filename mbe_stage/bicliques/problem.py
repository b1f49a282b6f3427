"""The description of the problem "maximal bicliques".

This module is imported to list the installed problems, so it must not import arrays.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mbe_stage.problem import Problem

if TYPE_CHECKING:
    from mbe_stage.bicliques.query import BicliqueQuery
    from mbe_stage.graphs.bipartite import BipartiteCSR


def _check(graph: BipartiteCSR, query: BicliqueQuery) -> None:
    graph.check_containing(query.containing_left, query.containing_right)


PROBLEM = Problem(
    name="bicliques",
    engines={
        "cuda": "mbe_stage.bicliques.engine_cuda",
        "cpu": "mbe_stage.bicliques.engine_cpu",
        "reference": "mbe_stage.bicliques.reference",
    },
    check=_check,
    limit="max_bicliques",
    sampler="mbe_stage.bicliques.estimation.sampler",
    publication="mbe_stage.pipeline.problems.bicliques.publication:PUBLICATION",
)

"""Bicliques, cliques and (p, q)-counts for programs with tables in device memory: cuDF in, cuDF out."""

from mbe_stage.pipeline.problems.bicliques.cudf_library import BicliqueTables, edges_of_graph, enumerate_bicliques
from mbe_stage.pipeline.problems.cliques.cudf_library import CliqueTables, enumerate_cliques
from mbe_stage.pipeline.problems.pq_counts.cudf_library import PqTables, count_pq_bicliques

__all__ = [
    "BicliqueTables",
    "CliqueTables",
    "PqTables",
    "count_pq_bicliques",
    "edges_of_graph",
    "enumerate_bicliques",
    "enumerate_cliques",
]

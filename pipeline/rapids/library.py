"""Bicliques, cliques and (p, q)-counts for a program whose tables are in device memory already: cuDF in, cuDF out."""

from pipeline.outputs.bicliques.cudf.library import BicliqueTables, edges_of_graph, enumerate_bicliques
from pipeline.outputs.cliques.cudf.library import CliqueTables, enumerate_cliques
from pipeline.outputs.pq_counts.cudf.library import PqTables, count_pq_bicliques

__all__ = [
    "BicliqueTables",
    "CliqueTables",
    "PqTables",
    "count_pq_bicliques",
    "edges_of_graph",
    "enumerate_bicliques",
    "enumerate_cliques",
]

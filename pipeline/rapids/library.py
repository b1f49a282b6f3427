"""Maximal bicliques for a program whose tables are in device memory already: cuDF in, cuDF out."""

from pipeline.outputs.bicliques.cudf.library import BicliqueTables, edges_of_graph, enumerate_bicliques

__all__ = ["BicliqueTables", "edges_of_graph", "enumerate_bicliques"]

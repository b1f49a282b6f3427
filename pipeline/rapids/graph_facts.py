"""Degrees and two-hop degrees of a graph on the device."""

from pipeline.backends.backend import GraphFacts
from pipeline.backends.cudf.graph_facts import graph_facts

__all__ = ["GraphFacts", "graph_facts"]

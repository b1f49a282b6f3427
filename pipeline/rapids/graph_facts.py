"""Degrees and two-hop degrees of a graph on the device."""

from mbe_stage.pipeline.backends.backend import GraphFacts
from mbe_stage.pipeline.backends.cudf.graph_facts import graph_facts

__all__ = ["GraphFacts", "graph_facts"]

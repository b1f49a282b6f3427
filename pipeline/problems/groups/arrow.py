"""The sink of candidates for blocks in host memory, and a run whose edges and graph are there."""

from __future__ import annotations

from mbe_stage.bicliques.keys import biclique_keys
from mbe_stage.graphs.bipartite import BipartiteCSR
from mbe_stage.groups.candidates import CandidateSink
from mbe_stage.groups.null_model import NullModel
from mbe_stage.pipeline.problems.base import Collecting

__all__ = ["biclique_keys", "null_model", "on_host", "sink_of"]


def null_model(graph: BipartiteCSR) -> NullModel:
    """The null of the graph."""
    return NullModel.of(graph)


def sink_of(model: NullModel, graph: BipartiteCSR) -> CandidateSink:
    """The sink of candidates."""
    return CandidateSink(model, graph.n_left, graph.n_right)


def on_host(collecting: Collecting) -> Collecting:
    """The run, edges and graph in host memory: as it is."""
    return collecting

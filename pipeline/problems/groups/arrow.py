"""The sink of candidates for blocks in host memory, and access to edges and graph in host memory."""

from __future__ import annotations

from mbe_stage.bicliques.keys import biclique_keys
from mbe_stage.graphs.bipartite import BipartiteCSR
from mbe_stage.groups.candidates import CandidateSink
from mbe_stage.groups.null_model import NullModel
from mbe_stage.pipeline.problems.base import Collecting

__all__ = ["biclique_keys", "null_model", "on_host", "sink_of"]


def null_model(graph: BipartiteCSR, n_graphs: int) -> NullModel:
    """Return the null model of the graph."""
    return NullModel.of(graph, n_graphs)


def sink_of(model: NullModel, graph: BipartiteCSR) -> CandidateSink:
    """Return the sink of candidates."""
    return CandidateSink(model, graph.n_left, graph.n_right)


def on_host(collecting: Collecting) -> Collecting:
    """Return the run unchanged: edges and graph are already in host memory."""
    return collecting

"""The sink of candidates for blocks in device memory, and copies of edges and graph in host memory.

The selected candidates are few, so the host makes the tables on every tier.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import cupy as cp

from mbe_stage.bicliques.cuda.keys import biclique_keys
from mbe_stage.graphs.bipartite import BipartiteCSR
from mbe_stage.groups.cuda import candidates
from mbe_stage.groups.cuda.candidates import DeviceCandidateSink
from mbe_stage.groups.null_model import NullModel
from mbe_stage.pipeline.problems.base import Collecting
from mbe_stage.runtime.compile_ahead import CompileStep

__all__ = ["biclique_keys", "compile_steps", "null_model", "on_host", "pool_bytes", "sink_of"]


def null_model(graph: BipartiteCSR, n_graphs: int) -> NullModel:
    """Return the null model of the graph; its logarithms equal the host's to the last bit."""
    return NullModel.of_degrees(cp.asnumpy(graph.left_degrees), cp.asnumpy(graph.right_degrees), n_graphs)


def sink_of(model: NullModel, graph: BipartiteCSR) -> DeviceCandidateSink:
    """Return the sink of candidates."""
    return DeviceCandidateSink(model, graph.n_left, graph.n_right)


def pool_bytes(collecting: Collecting) -> int:
    """Return the bytes that the sink will hold later: `mbe_stage.groups.cuda.candidates.pool_bytes`."""
    return candidates.pool_bytes(collecting.graph.n_left + collecting.graph.n_right)


def on_host(collecting: Collecting) -> Collecting:
    """Return the run with copies of edges and graph in host memory."""
    edges, graph = collecting.edges, collecting.graph
    lists = graph.left_offsets, graph.left_members, graph.right_offsets, graph.right_members
    return replace(
        collecting,
        # Hashes come along, because the host would have to compile a function for them.
        edges=replace(edges, hashes=edges.key_hashes()).to_host(),
        graph=BipartiteCSR(graph.n_left, graph.n_right, *map(cp.asnumpy, lists)),
    )


def compile_steps() -> Sequence[CompileStep]:
    """Return the compile steps of the sink's kernels."""
    return candidates.compile_steps()

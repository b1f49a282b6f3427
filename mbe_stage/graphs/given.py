"""Graphs as whoever calls gives them: made already, or as a pair of arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

from mbe_stage.errors import InvalidArgument
from mbe_stage.graphs.bipartite import BipartiteCSR
from mbe_stage.graphs.undirected import UndirectedCSR

__all__ = ["as_bipartite", "as_undirected"]


def as_bipartite(graph: BipartiteCSR | tuple[np.ndarray, np.ndarray]) -> BipartiteCSR:
    """The graph itself, or that of a pair ``(left_ids, right_ids)``.

    Raises
    ------
    InvalidArgument
        It is neither; or as `BipartiteCSR.from_edges`.
    """
    return graph if isinstance(graph, BipartiteCSR) else BipartiteCSR.from_edges(*_pair(graph, "left_ids, right_ids"))


def as_undirected(graph: UndirectedCSR | tuple[np.ndarray, np.ndarray]) -> UndirectedCSR:
    """The graph itself, or that of a pair ``(src, dst)``.

    Raises
    ------
    InvalidArgument
        It is neither; or as `UndirectedCSR.from_edges`.
    """
    return graph if isinstance(graph, UndirectedCSR) else UndirectedCSR.from_edges(*_pair(graph, "src, dst"))


def _pair(graph: Any, ends: str) -> tuple[Any, Any]:
    if isinstance(graph, tuple | list) and len(graph) == 2:
        return graph[0], graph[1]
    kind = type(graph).__name__
    made = "BipartiteCSR" if ends.startswith("left") else "UndirectedCSR"
    if isinstance(graph, np.ndarray):
        kind += f" of shape {graph.shape}"
    elif isinstance(graph, tuple | list):
        kind += f" of {len(graph)} entries"
    raise InvalidArgument(
        f"graph is of type {kind}: expected {made}, or a pair ({ends}) of arrays; of an array with an edge a row give "
        "(edges[:, 0], edges[:, 1]); pipeline.run takes networkx graphs, matrices, tables and files"
    )

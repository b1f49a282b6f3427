"""Graphs from the caller: ready-made, or a pair of arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

from mbe_stage.errors import InvalidArgument
from mbe_stage.graphs.bipartite import BipartiteCSR
from mbe_stage.graphs.undirected import UndirectedCSR


def as_bipartite(graph: BipartiteCSR | tuple[np.ndarray, np.ndarray]) -> BipartiteCSR:
    """Return the graph itself, or the graph of a pair ``(left_ids, right_ids)``.

    Raises
    ------
    InvalidArgument
        The argument is neither, or could be a list of two edges (`are_edges`), or `BipartiteCSR.from_edges` refuses it.
    """
    return graph if isinstance(graph, BipartiteCSR) else BipartiteCSR.from_edges(*_pair(graph, "left_ids, right_ids"))


def as_undirected(graph: UndirectedCSR | tuple[np.ndarray, np.ndarray]) -> UndirectedCSR:
    """Return the graph itself, or the graph of a pair ``(src, dst)``.

    Raises
    ------
    InvalidArgument
        The argument is neither, or could be a list of two edges (`are_edges`), or `UndirectedCSR.from_edges` refuses
        it.
    """
    return graph if isinstance(graph, UndirectedCSR) else UndirectedCSR.from_edges(*_pair(graph, "src, dst"))


def are_edges(pair: Any) -> bool:
    """True if a supposed pair of columns looks like two edges: two tuples of two, or a list of two lists of two.

    A tuple of two lists is a pair of columns, and so is any pair of arrays.

    Examples
    --------
    >>> are_edges([(0, 1), (1, 2)]), are_edges(((0, 1), (1, 2))), are_edges([[0, 1], [1, 2]])
    (True, True, True)
    >>> are_edges(([0, 1], [1, 2])), are_edges([(0, 1, 2), (1, 2, 0)])
    (False, False)
    """
    rows = tuple | list if isinstance(pair, list) else tuple
    return len(pair) == 2 and all(isinstance(row, rows) and len(row) == 2 for row in pair)


def _pair(graph: Any, ends: str) -> tuple[Any, Any]:
    if isinstance(graph, tuple | list) and len(graph) == 2:
        if are_edges(graph):
            raise InvalidArgument(
                f"graph is {graph!r}, which could be two edges or two columns: expected a pair ({ends}) of arrays; "
                f"give ({[row[0] for row in graph]}, {[row[1] for row in graph]}) if these are edges, else "
                f"({list(graph[0])}, {list(graph[1])})"
            )
        return graph[0], graph[1]
    kind = type(graph).__name__
    made = "BipartiteCSR" if ends.startswith("left") else "UndirectedCSR"
    if isinstance(graph, np.ndarray):
        kind += f" of shape {graph.shape}"
    elif isinstance(graph, tuple | list):
        kind += f" of {len(graph)} entries"
    raise InvalidArgument(
        f"graph is of type {kind}: expected {made}, or a pair ({ends}) of arrays; of an array with an edge a row give "
        "(edges[:, 0], edges[:, 1]); mbe_stage.pipeline.run takes other graphs, matrices, tables and files"
    )

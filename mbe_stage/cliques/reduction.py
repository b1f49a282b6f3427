"""The part of a graph that contains the wanted cliques: the common neighbourhood of the required vertices."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mbe_stage.cliques.query import CliqueQuery
from mbe_stage.graphs import csr
from mbe_stage.graphs.csr import filtered
from mbe_stage.graphs.undirected import UndirectedCSR
from mbe_stage.runtime.compile_ahead import CompileStep


@dataclass(frozen=True, slots=True, eq=False)
class CommonPart:
    """The part of the graph adjacent to all required vertices.

    Attributes
    ----------
    graph : UndirectedCSR
        The subgraph. Its maximal cliques together with `held` are the maximal cliques of the whole graph that contain
        `held`. If it has no vertices, and `held` is not empty, `held` alone is a maximal clique.
    vertices : (n,) int32
        The whole graph's vertex for each of its vertices, ascending.
    held : tuple of int
        The required vertices, ascending; empty if the query names none.
    is_possible : bool
        True if the required vertices form a clique.
    """

    graph: UndirectedCSR
    vertices: np.ndarray
    held: tuple[int, ...]
    is_possible: bool


def common_part(graph: UndirectedCSR, query: CliqueQuery) -> CommonPart:
    """Return the part of a host graph for a query."""
    held = tuple(sorted({int(vertex) for vertex in query.containing}))
    if not held:
        return CommonPart(graph, np.arange(graph.n, dtype=np.int32), held, True)
    n_adjacent = np.zeros(graph.n, np.int64)
    for vertex in held:
        n_adjacent[graph.neighbours(vertex)] += 1
    is_possible = bool((n_adjacent[list(held)] == len(held) - 1).all())
    is_common = (n_adjacent == len(held)) & is_possible
    offsets, members = filtered(graph.offsets, graph.members, is_common, is_common, np.cumsum(is_common) - 1)
    vertices = np.flatnonzero(is_common).astype(np.int32)
    return CommonPart(UndirectedCSR(vertices.size, offsets, members), vertices, held, is_possible)


def compile_steps() -> tuple[CompileStep, ...]:
    """Return the steps to compile for `common_part`."""
    return csr.compile_steps()

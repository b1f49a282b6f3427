"""What the roots of the search for maximal cliques are: vertices, in an order of the engine's own."""

from __future__ import annotations

import numpy as np

from mbe_stage.cliques.query import CliqueQuery
from mbe_stage.graphs.undirected import UndirectedCSR
from mbe_stage.tasks import Roots

__all__ = ["roots_of"]


def roots_of(graph: UndirectedCSR, query: CliqueQuery, vertices: np.ndarray) -> Roots:
    """The roots that these vertices are, in this order.

    Parameters
    ----------
    graph : UndirectedCSR
        The user's; its arrays may be CuPy's.
    vertices : (n_roots,) int32
        In ids of the user's graph.
    """
    sizes = [int(query.min_size), None if query.max_size is None else int(query.max_size)]
    members = sorted({int(vertex) for vertex in query.containing})
    return Roots.of("cliques", vertices, sizes, members, graph.n, graph.edges_checksum)

"""What the roots of the count are: the vertices of one side in an order of their own."""

from __future__ import annotations

import numpy as np

from mbe_stage.graphs.bipartite import BipartiteCSR
from mbe_stage.pq_counts.query import PqQuery
from mbe_stage.tasks import Roots

__all__ = ["roots_of"]


def roots_of(graph: BipartiteCSR, query: PqQuery, vertices: np.ndarray, *, are_left: bool) -> Roots:
    """The roots that these vertices are, in this order.

    Parameters
    ----------
    graph : BipartiteCSR
        The user's; its arrays may be CuPy's.
    vertices : (n_roots,) int32
        In ids of the user's graph.
    """
    sizes = [int(size) for size in (query.min_p, query.max_p, query.min_q, query.max_q)]
    members = [sorted({int(vertex) for vertex in side}) for side in (query.containing_left, query.containing_right)]
    return Roots.of("pq_counts", vertices, are_left, sizes, members, graph.n_right, graph.edges_checksum)

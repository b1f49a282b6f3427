"""What the roots of the search for maximal bicliques are: the vertices of one side, twins standing as one."""

from __future__ import annotations

import numpy as np

from mbe_stage.bicliques.query import BicliqueQuery
from mbe_stage.graphs.bipartite import BipartiteCSR
from mbe_stage.tasks import Roots

__all__ = ["roots_of"]


def roots_of(graph: BipartiteCSR, query: BicliqueQuery, vertices: np.ndarray, *, are_left: bool) -> Roots:
    """The roots that these vertices are, in this order.

    Parameters
    ----------
    graph : BipartiteCSR
        The user's; its arrays may be CuPy's.
    vertices : (n_roots,) int32
        The smallest of each root's twins, in ids of the user's graph.
    """
    bounds = (query.min_left, query.min_right, query.max_left, query.max_right, query.min_edges)
    members = [sorted({int(vertex) for vertex in side}) for side in (query.containing_left, query.containing_right)]
    asked = [None if bound is None else int(bound) for bound in bounds]
    return Roots.of("bicliques", vertices, are_left, asked, members, graph.n_right, graph.edges_checksum)

"""The first eigenvector of similarities: vertices are central if they resemble many central vertices.

A left vertex is a vector over its neighbours with the entry ``ln(n_left / d)`` for degree `d`, scaled to length 1
(tf-idf). The similarity of two vertices is the product of their vectors. The centrality of a vertex is its entry in the
eigenvector of the largest eigenvalue (Luceri et al., WWW 2024). Vertices resemble themselves, which does not change it.
The companion of a right vertex is the sum of its entries in the vectors, times the centrality.
"""

from __future__ import annotations

import numpy as np

from mbe_stage.graphs.bipartite import BipartiteCSR
from mbe_stage.groups.null_model import UNIT

N_ROUNDS, TOLERANCE = 100, 1e-6
_DIGITS = 20


def tfidf_eigenvector(graph: BipartiteCSR) -> tuple[np.ndarray, np.ndarray]:
    """Return the centrality of each left vertex, and the companion of each right vertex; the maximum of a side is 1.

    Power iteration starts from ones. So no entry is negative, and with equal eigenvalues the result is the projection
    of ones. It ends after 100 rounds, or if no entry changes by more than 1e-6 of the highest. Sums run over whole rows
    of the graph in ascending order, logarithms are rounded as in `null_model`, and results are rounded to 20 binary
    digits. So all machines get the same result.

    Parameters
    ----------
    graph : BipartiteCSR
        The graph, on the host.

    Returns
    -------
    (n_left,) and (n_right,) float64
        0 for a vertex that resembles no other central vertex, or whose neighbours are adjacent to all vertices.

    Examples
    --------
    >>> graph = BipartiteCSR.from_edges([0, 0, 1, 1, 2, 2, 3], [0, 1, 0, 1, 1, 2, 3])
    >>> [side.round(3).tolist() for side in tfidf_eigenvector(graph)]
    [[1.0, 1.0, 0.154, 0.0], [1.0, 0.432, 0.082, 0.0]]
    """
    from scipy import sparse

    ones = np.ones(graph.n_edges)
    of_left = sparse.csr_array((ones, graph.left_members, graph.left_offsets), shape=(graph.n_left, graph.n_right))
    of_right = sparse.csr_array((ones, graph.right_members, graph.right_offsets), shape=(graph.n_right, graph.n_left))
    # Vertices without edges are in no sum.
    weights = np.rint(np.log(max(graph.n_left, 1) / np.maximum(graph.right_degrees, 1)) * UNIT) / UNIT
    lengths = np.sqrt(of_left @ (weights * weights))
    scale = np.divide(1.0, lengths, out=np.zeros(graph.n_left), where=lengths > 0)
    left, right = np.ones(graph.n_left), np.zeros(graph.n_right)
    for _ in range(N_ROUNDS):
        before = left
        right = weights * (of_right @ (scale * left))
        left = _up_to_one(scale * (of_left @ (weights * right)))
        if np.abs(left - before).max(initial=0) <= TOLERANCE:
            break
    return _rounded(left), _rounded(_up_to_one(right))


def _up_to_one(values: np.ndarray) -> np.ndarray:
    """Divide by the maximum."""
    return values / (values.max(initial=0) or 1.0)


def _rounded(values: np.ndarray) -> np.ndarray:
    """Round to `_DIGITS` binary digits."""
    mantissas, exponents = np.frexp(values)
    return np.ldexp(np.rint(np.ldexp(mantissas, _DIGITS)), exponents - _DIGITS)

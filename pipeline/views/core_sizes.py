"""How much of a graph is left where every vertex needs some neighbours: its (p, q)-cores."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mbe_stage.graphs.bipartite import BipartiteCSR

__all__ = ["CoreSize", "core_size"]


@dataclass(frozen=True, slots=True)
class CoreSize:
    """What is left when every left vertex needs `min_right` neighbours and every right vertex `min_left`."""

    min_left: int
    min_right: int
    n_left: int
    n_right: int
    n_edges: int


def core_size(graph: BipartiteCSR, min_left: int, min_right: int) -> CoreSize:
    """Size of the core in which all bicliques with at least `min_left` x `min_right` vertices lie.

    Vertices with too few neighbours leave until none does.
    """
    left, right = graph.edges()
    while True:
        left_degrees = np.bincount(left, minlength=graph.n_left)
        right_degrees = np.bincount(right, minlength=graph.n_right)
        stays = (left_degrees[left] >= min_right) & (right_degrees[right] >= min_left)
        if stays.all():
            n_left, n_right = int(np.count_nonzero(left_degrees)), int(np.count_nonzero(right_degrees))
            return CoreSize(min_left, min_right, n_left, n_right, int(left.size))
        left, right = left[stays], right[stays]

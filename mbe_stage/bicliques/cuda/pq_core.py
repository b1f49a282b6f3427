"""What a query leaves of the graph, on the device: common neighbours of `containing_*`, then the (p, q)-core.

As `mbe_stage.bicliques.reduction` says it for the host. Vertices keep their ids; those that are left out have empty
lists.
"""

from __future__ import annotations

from collections.abc import Sequence

import cupy as cp
import numpy as np

from mbe_stage.bicliques.query import BicliqueQuery
from mbe_stage.device.core import core_of
from mbe_stage.graphs.bipartite import BipartiteCSR


def shrinks(query: BicliqueQuery) -> bool:
    """Whether a query leaves out vertices before anything is enumerated."""
    return bool(query.containing_left or query.containing_right or query.min_left > 1 or query.min_right > 1)


def shrunk(graph: BipartiteCSR, query: BicliqueQuery, n_blocks: int) -> BipartiteCSR:
    """The graph without the vertices that can be in no wanted biclique.

    Parameters
    ----------
    graph : BipartiteCSR
        Arrays are CuPy's.
    n_blocks : int
        Blocks that are resident.

    Returns
    -------
    BipartiteCSR
        With the same vertices; new arrays.
    """
    alive = cp.concatenate(
        (
            _common_neighbours(graph.right_offsets, graph.right_members, query.containing_right, graph.n_left),
            _common_neighbours(graph.left_offsets, graph.left_members, query.containing_left, graph.n_right),
        )
    )
    members = [*query.containing_left, *(graph.n_left + vertex for vertex in query.containing_right)]
    if members and not bool(alive[np.array(members)].all()):
        alive[:] = 0
    return core_of(graph, alive, query.min_right, query.min_left, n_blocks)


def _common_neighbours(offsets: cp.ndarray, members: cp.ndarray, vertices: Sequence[int], n: int) -> cp.ndarray:
    """1 for each of the `n` vertices of the other side that is a neighbour of all `vertices`, int32."""
    found = cp.zeros(n, cp.int32)
    for vertex in vertices:
        start, end = (int(offset) for offset in offsets[vertex : vertex + 2])
        found[members[start:end]] += 1
    return (found == len(vertices)).astype(cp.int32)

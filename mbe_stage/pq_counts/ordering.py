"""Choose the side of the roots for counting, and their order."""

from __future__ import annotations

import numpy as np

from mbe_stage.graphs.csr import reordered, transposed
from mbe_stage.pq_counts.reduction import Reduced

RowLists = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]
"""Row offsets, columns of each row, column offsets, rows of each column."""


_TRIPLES = 3
_PATHS_PER_PATH = 16
"""Factor by which the side of the triples may have more paths and still have the roots.

On youtube, lastfm_tag_artist, actor_movies and bookcrossing, (3, 5) and (3, 8) with roots on that side take a sixth to
a half of the time, with up to ten times the paths, or as long as from the other side.
"""


def left_vertices_are_roots(left_paths: int, right_paths: int, max_p: int, max_q: int) -> bool:
    """Return True if left vertices are the roots: usually the side with fewer two-step paths.

    Building the nodes below the roots walks these paths, and fewer paths also mean smaller nodes. If three vertices are
    chosen on one side, and more on the other, each root on that side leaves pairs, which are listed directly.

    Parameters
    ----------
    left_paths, right_paths : int
        Number of paths between left vertices, and between right vertices.
    max_p, max_q : int
        Sizes of the largest wanted bicliques.
    """
    if max_p == _TRIPLES < max_q:
        return left_paths < _PATHS_PER_PATH * right_paths
    if max_q == _TRIPLES < max_p:
        return _PATHS_PER_PATH * left_paths < right_paths
    return left_paths < right_paths


def roots_are_left(part: Reduced) -> bool:
    """Apply `left_vertices_are_roots` to a core."""
    graph = part.graph
    paths = int(np.sum(graph.right_degrees**2)), int(np.sum(graph.left_degrees**2))
    return left_vertices_are_roots(*paths, part.max_p, part.max_q)


def row_lists(part: Reduced) -> tuple[RowLists, np.ndarray]:
    """Return the graph with left vertices as rows, in the order of the roots: by ascending degree, then by id.

    A root with many neighbours comes late, when few rows follow (vertex priority: GBC, definition 2, with two-step
    neighbours instead of neighbours).

    Parameters
    ----------
    part : Reduced
        The part, with sides exchanged if the roots are right vertices.

    Returns
    -------
    lists : row offsets, columns, column offsets, rows
        int64, int32, int64, int32; lists ascend.
    order : (n_rows,) int64
        The left vertex for each row.
    """
    graph = part.graph
    order = np.argsort(graph.left_degrees, kind="stable")
    row_offsets, columns = reordered(graph.left_offsets, graph.left_members, order)
    rows = transposed(row_offsets, columns, graph.right_offsets)
    return (row_offsets, columns, graph.right_offsets, rows), order

"""Which side the roots of the count are of, and in which order."""

from __future__ import annotations

import numpy as np

from mbe_stage.graphs.csr import reordered, transposed
from mbe_stage.pq_counts.reduction import Reduced

__all__ = ["RowLists", "roots_are_left", "row_lists"]

RowLists = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]
"""Row offsets, columns of each row, column offsets, rows of each column."""


def roots_are_left(part: Reduced) -> bool:
    """Whether left vertices are the roots: where the two-step paths between them are fewer.

    Building the nodes below the roots walks these paths; a side with few of them has small nodes too.
    """
    graph = part.graph
    return int(np.sum(graph.right_degrees**2)) < int(np.sum(graph.left_degrees**2))


def row_lists(part: Reduced) -> tuple[RowLists, np.ndarray]:
    """The graph with its left vertices as rows, in the order of the roots: ascending degree, equal ones by id.

    A root with many neighbours comes late, where few rows come after it (vertex priority: GBC, definition 2, which
    takes two-step neighbours in place of neighbours).

    Parameters
    ----------
    part : Reduced
        Swapped where the roots are right vertices.

    Returns
    -------
    lists : row offsets, columns, column offsets, rows
        int64, int32, int64, int32; entries ascend.
    order : (n_rows,) int64
        The left vertex that each row is.
    """
    graph = part.graph
    order = np.argsort(graph.left_degrees, kind="stable")
    row_offsets, columns = reordered(graph.left_offsets, graph.left_members, order)
    rows = transposed(row_offsets, columns, graph.right_offsets)
    return (row_offsets, columns, graph.right_offsets, rows), order

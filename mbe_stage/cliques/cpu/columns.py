"""The vertices that the columns of a node of few candidates are, with those of its path where there is place."""

from __future__ import annotations

import numpy as np
from numba import njit

from mbe_stage.cliques.cpu import layout as at
from mbe_stage.cliques.cpu.layout import Path

_U = np.uint64
_ONE = _U(1)


@njit(inline="always")
def inserted(ints, path, vertex, into):
    """Write a path with one more vertex to another place, or in place."""
    start, n = path
    k = n
    while k > 0 and ints[start + k - 1] > vertex:
        ints[into + k] = ints[start + k - 1]
        k -= 1
    ints[into + k] = vertex
    for j in range(k):
        ints[into + j] = ints[start + j]
    return Path(into, n + 1)


@njit(inline="always")
def place_columns(worker, output, n_candidates, path):
    """Give candidates, and the path where members are wanted and it fits, columns in the order of the user's ids.

    Then a clique's members ascend as its columns do.

    Parameters
    ----------
    worker : WorkerState
        ``ids`` holds the candidates' vertices, ascending; afterwards those of all columns.

    Returns
    -------
    candidates, joined : uint64
        The candidates' columns, in the order of their vertices, and those of the path.
    """
    control, ids, ints = worker.control, worker.ids, worker.ints
    joined, columns = _U(0), ~_U(0) >> _U(at.WORD_BITS - n_candidates)
    start, n_path = path
    control[at.OUTER], control[at.N_OUTER] = start, n_path
    if output is not None and output.members.size > 0 and n_candidates + n_path <= at.WORD_BITS:
        control[at.N_OUTER] = 0
        # From the last one on: none is overwritten before it has moved.
        candidate, member = n_candidates - 1, n_path - 1
        for column in range(n_candidates + n_path - 1, -1, -1):
            if member >= 0 and (candidate < 0 or ints[start + member] > ids[candidate]):
                ids[column] = ints[start + member]
                joined |= _ONE << _U(column)
                member -= 1
            else:
                ids[column] = ids[candidate]
                candidate -= 1
        columns = ~joined & (~_U(0) >> _U(at.WORD_BITS - n_candidates - n_path))
    return columns, joined

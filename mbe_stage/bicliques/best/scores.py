"""Scores of bicliques as one number, their bounds, and the sizes that a score implies.

Ties in vertices and in the smaller side go to more edges. So the *code* of a score is ``primary * scale + edges``, with
a scale above every number of edges. It is monotone: a biclique inside another has a smaller code.
"""

from __future__ import annotations

import numpy as np
from numba import njit

EDGES, VERTICES, BALANCE, WEIGHT = range(4)
KINDS = {"edges": EDGES, "vertices": VERTICES, "balance": BALANCE, "weight": WEIGHT}


@njit(inline="always")
def code_of(kind, scale, n_left, n_right):
    """Return the code of a biclique of this size, float64; infinite by weight, which sizes do not bound."""
    edges = float(n_left) * float(n_right)
    if kind == EDGES:
        return edges
    if kind == VERTICES:
        return float(n_left + n_right) * scale + edges
    return float(min(n_left, n_right)) * scale + edges if kind == BALANCE else np.inf


@njit(inline="always")
def least_size(kind, scale, code, n_other):
    """A size that a side needs if the code is to be reached with at most `n_other` vertices on the other side.

    It may be too small by what the edges add, never too large.
    """
    if kind == EDGES:
        size = int(code / max(n_other, 1))
        return size + (size * max(n_other, 1) < code)
    if kind == VERTICES:
        return int(code / scale) - n_other
    return int(code / scale) if kind == BALANCE else 0

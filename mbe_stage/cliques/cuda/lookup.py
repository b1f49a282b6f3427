"""Looking up one vertex among the neighbours of another."""

from __future__ import annotations

import numpy as np
from numba import cuda

__all__ = ["is_among", "is_later"]

_L = np.int64


@cuda.jit(device=True, forceinline=True)
def is_among(vertex, place, end, members):
    """Whether a vertex is among ascending neighbours, from `place` to `end`; called by each lane for itself."""
    stop = end
    while place < end:
        middle = _L((place + end) >> 1)
        if members[middle] < vertex:
            place = _L(middle + 1)
        else:
            end = middle
    return place < stop and members[place] == vertex


@cuda.jit(device=True, forceinline=True)
def is_later(vertex, of, graph):
    """Whether a vertex is a later neighbour of another one; called by each lane for itself."""
    return is_among(vertex, graph.offsets[of], graph.later_ends[of], graph.members)

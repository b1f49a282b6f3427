"""Maximal cliques of a frame without rows of excluded vertices: the root's earlier neighbours are looked through.

That costs more at each clique, and nothing before (partial induced subgraphs; Almasri et al., 2022, III-D).
"""

from __future__ import annotations

import numpy as np
from numba import cuda

from mbe_stage.cliques.cuda import layout as at
from mbe_stage.cliques.cuda.lookup import is_later
from mbe_stage.cliques.cuda.small_ends import dominated
from mbe_stage.device.masks import first_of
from mbe_stage.device.warp import ALL, next_one, next_tile, or_all

__all__ = ["within_lists"]

_I = np.int32
_L = np.int64
_U = np.uint32
_W = np.uint64


@cuda.jit(device=True, forceinline=True)
def _is_adjacent_to_all(vertex, joined, frame, graph, words):
    """Whether the vertex of each lane (-1: none) is adjacent to the base and to what has joined."""
    is_adjacent = vertex >= 0
    # The first of the base is the root, whose neighbour it is.
    k = _I(1)
    while k < frame.n_base and cuda.any_sync(ALL, is_adjacent):
        if is_adjacent:
            is_adjacent = is_later(_I(words[frame.home + at.BASE_AT + 2 * k]), vertex, graph)
        k = next_one(k)
    while joined != _W(0) and cuda.any_sync(ALL, is_adjacent):
        column = first_of(joined)
        joined = _W(joined & _W(joined - _W(1)))
        if is_adjacent:
            is_adjacent = is_later(_I(words[frame.home + at.IDS_AT + column]), vertex, graph)
    return is_adjacent


@cuda.jit(device=True, forceinline=True)
def _row_of(vertex, candidates, frame, graph, words):
    """Which candidates a vertex is adjacent to, uint64; called by each lane for itself."""
    row = _W(0)
    while candidates != _W(0):
        column = first_of(candidates)
        bit = _W(candidates & _W(~candidates + _W(1)))
        candidates = _W(candidates & ~bit)
        if is_later(_I(words[frame.home + at.IDS_AT + column]), vertex, graph):
            row = _W(row | bit)
    return row


@cuda.jit(device=True, forceinline=True)
def within_lists(low, high, joined, candidates, six, frame, graph, words):
    """The sets of candidates that no earlier neighbour of the root dominates.

    Parameters
    ----------
    low, high : uint32
        Sets, as `maximal_sets` gave them.
    joined, candidates : uint64
    six : six uint64
        The candidates, each as a set.
    frame : Frame
    graph : Graph
    words : uint32, global

    Returns
    -------
    low, high : uint32
    """
    begin = graph.later_ends[frame.lists_of]
    n = _I(graph.offsets[frame.lists_of + 1] - begin)
    out_low, out_high = _U(0), _U(0)
    tile = _I(0)
    while tile < n and _U(low | high) != 0:
        k = _I(tile + _I(cuda.laneid))
        vertex = _I(graph.members[begin + _L(k)]) if k < n else _I(-1)
        if _is_adjacent_to_all(vertex, joined, frame, graph, words):
            row = _row_of(vertex, candidates, frame, graph, words)
            out_low, out_high = dominated(row, six)
        low, high = _U(low & ~or_all(out_low)), _U(high & ~or_all(out_high))
        tile = next_tile(tile)
    return low, high

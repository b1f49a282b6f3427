"""The base of a word node, where bicliques are written: every row that can be in a right side below it, in the arena of
words, with ids in the arena of ints. It bounds right sides, too.
"""

from __future__ import annotations

import numpy as np
from numba import cuda

from mbe_stage.bicliques.cuda import layout as at
from mbe_stage.bicliques.cuda.bounds import limits_hold
from mbe_stage.bicliques.cuda.rows import is_among
from mbe_stage.device.warp import ballot, count_bits, next_tile, rank, sum_small

__all__ = ["drop_from_base", "restrict_base", "set_base"]

_U = np.uint32
_NONE = _U(0)


@cuda.jit(device=True, forceinline=True)
def restrict_base(left, fewest, cursor, frame, own, pool, mode):
    """The rows of a frame's base that hold at least so many of `left`, at the tops of both arenas.

    Returns how many they are, and where there are limits how many of the user's vertices, those that hold all of `left`
    and all of them. Most rows hold one column only, and are in the right side of that column alone.

    Rows of the base that are smaller than `left` as numbers are left out. No left set that is found from the child on
    lies inside an excluded row, or it would have been found there before: so a row that lies inside an excluded one
    holds none of them. A row of the base holds the frame's whole left set, equals a candidate, or lies inside an
    excluded row. The first are not smaller. Candidates ascend: a smaller one is an earlier sibling, excluded itself.
    """
    lane = np.int32(cuda.laneid)
    base, n_base, base_ids = frame[at.BASE], frame[at.N_BASE], frame[at.BASE_IDS]
    top, ints_top = frame[at.WORDS_TOP], frame[at.INTS_TOP]
    has_limits = limits_hold(mode, pool)
    # The rows behind the only child of a first frame do not ascend from it; the first child has no earlier siblings.
    smallest = left if cursor > 0 else _NONE
    n_kept = np.int32(0)
    least = np.int32(0)
    most = np.int32(0)
    tile = np.int32(0)
    while tile < n_base:
        row = _NONE
        if np.int32(tile + lane) < n_base:
            row = own.words[_U(base + tile + lane)]
        keep = row >= smallest and count_bits(_U(row & left)) >= fewest
        mask = ballot(keep)
        if keep:
            row_id = own.ints[_U(base_ids + tile + lane)]
            place = np.int32(n_kept + rank(mask))
            own.words[_U(top + place)] = _U(row & left)
            own.ints[_U(ints_top + place)] = row_id
            if has_limits:
                weight = pool.row_weights[_U(row_id)]
                most = np.int32(most + weight)
                if _U(row & left) == left:
                    least = np.int32(least + weight)
        n_kept = np.int32(n_kept + count_bits(mask))
        tile = next_tile(tile)
    cuda.syncwarp()
    if has_limits:
        least, most = sum_small(least), sum_small(most)
    return n_kept, least, most


@cuda.jit(device=True, forceinline=True)
def drop_from_base(left, n_base, top, n_candidates, frame, own, pool):
    """Keep the rows of a child's base that hold all of `left` or are equal to a candidate: the others lie inside an
    excluded row, and hold nothing new below (see `restrict_base`).

    Returns how many they are, and how many of the user's vertices: no right side below the child is larger.
    """
    lane = np.int32(cuda.laneid)
    base, base_ids = frame[at.WORDS_TOP], frame[at.INTS_TOP]
    n_kept = np.int32(0)
    weight = np.int32(0)
    tile = np.int32(0)
    while tile < n_base:
        row = _NONE
        row_id = np.int32(0)
        if np.int32(tile + lane) < n_base:
            row = own.words[_U(base + tile + lane)]
            row_id = own.ints[_U(base_ids + tile + lane)]
        keep = row == left or (row != 0 and is_among(row, own.words, top, n_candidates))
        mask = ballot(keep)
        cuda.syncwarp()
        if keep:
            place = np.int32(n_kept + rank(mask))
            own.words[_U(base + place)] = row
            own.ints[_U(base_ids + place)] = row_id
            weight = np.int32(weight + pool.row_weights[_U(row_id)])
        n_kept = np.int32(n_kept + count_bits(mask))
        tile = next_tile(tile)
    cuda.syncwarp()
    return n_kept, sum_small(weight)


@cuda.jit(device=True, forceinline=True)
def set_base(frame, base, n_base, base_ids):
    """Say where a frame's base is; by one lane. The ids are the last thing that it owns in the arena of ints."""
    frame[at.BASE] = base
    frame[at.N_BASE] = n_base
    frame[at.BASE_IDS] = base_ids
    frame[at.INTS_TOP] = base_ids + n_base

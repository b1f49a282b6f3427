"""The superset of a bitset frame, where bicliques are written: every row that can be in a right side below it.

It stands in the arena of words, with ids in the arena of ints, and bounds right sides, too.
"""

from __future__ import annotations

import numpy as np
from numba import cuda

from mbe_stage.bicliques.cuda import layout as at
from mbe_stage.bicliques.cuda.bounds import has_constraints
from mbe_stage.bicliques.cuda.row_words import is_among
from mbe_stage.device.warp import ballot, count_bits, next_tile, rank, sum_small

_U = np.uint32
_NONE = _U(0)


@cuda.jit(device=True, forceinline=True)
def restrict_superset(left, fewest, cursor, frame, own, pool, mode):
    """The rows of a frame's superset that hold at least so many of `left`, at the tops of both arenas.

    Returns how many they are, and where there are constraints how many of the user's vertices, those that hold all of
    `left` and all of them. Most rows hold one column only, and are in the right side of that column alone.

    Rows of the superset that are smaller than `left` as numbers are left out. No left set that is found from the child
    on lies inside an excluded row, or it would have been found there before: so a row that lies inside an excluded one
    holds none of them. A row of the superset holds the frame's whole left set, equals a candidate, or lies inside an
    excluded row. The first are not smaller. Candidates ascend: a smaller one is an earlier sibling, excluded itself.

    Parameters
    ----------
    fewest : int32
        How many of it a row must hold.
    cursor : int32
        The child's place among the frame's rows.
    frame : (FRAME_FIELDS,) int32, global
    """
    lane = np.int32(cuda.laneid)
    superset, n_superset, superset_ids = frame[at.SUPERSET], frame[at.N_SUPERSET], frame[at.SUPERSET_IDS]
    top, ints_top = frame[at.WORDS_TOP], frame[at.INTS_TOP]
    is_constrained = has_constraints(mode, pool)
    # The rows behind the only child of a first frame do not ascend from it; the first child has no earlier siblings.
    smallest = left if cursor > 0 else _NONE
    n_kept = np.int32(0)
    least = np.int32(0)
    most = np.int32(0)
    tile = np.int32(0)
    while tile < n_superset:
        row = _NONE
        if np.int32(tile + lane) < n_superset:
            row = own.words[_U(superset + tile + lane)]
        keep = row >= smallest and count_bits(_U(row & left)) >= fewest
        mask = ballot(keep)
        if keep:
            row_id = own.ints[_U(superset_ids + tile + lane)]
            place = np.int32(n_kept + rank(mask))
            own.words[_U(top + place)] = _U(row & left)
            own.ints[_U(ints_top + place)] = row_id
            if is_constrained:
                multiplicity = pool.row_multiplicities[_U(row_id)]
                most = np.int32(most + multiplicity)
                if _U(row & left) == left:
                    least = np.int32(least + multiplicity)
        n_kept = np.int32(n_kept + count_bits(mask))
        tile = next_tile(tile)
    cuda.syncwarp()
    if is_constrained:
        least, most = sum_small(least), sum_small(most)
    return n_kept, least, most


@cuda.jit(device=True, forceinline=True)
def drop_from_superset(left, n_superset, top, n_candidates, frame, own, pool):
    """Keep the rows of a child's superset that hold all of `left` or are equal to a candidate.

    The others lie inside an excluded row, and hold nothing new below (see `restrict_superset`).

    Returns how many they are, and how many of the user's vertices: no right side below the child is larger.

    Parameters
    ----------
    n_superset : int32
        Rows of the child's superset.
    top : int32
        Where the child's candidates stand.
    frame : (FRAME_FIELDS,) int32, global
        The parent's.
    """
    lane = np.int32(cuda.laneid)
    superset, superset_ids = frame[at.WORDS_TOP], frame[at.INTS_TOP]
    n_kept = np.int32(0)
    multiplicity = np.int32(0)
    tile = np.int32(0)
    while tile < n_superset:
        row = _NONE
        row_id = np.int32(0)
        if np.int32(tile + lane) < n_superset:
            row = own.words[_U(superset + tile + lane)]
            row_id = own.ints[_U(superset_ids + tile + lane)]
        keep = row == left or (row != 0 and is_among(row, own.words, top, n_candidates))
        mask = ballot(keep)
        cuda.syncwarp()
        if keep:
            place = np.int32(n_kept + rank(mask))
            own.words[_U(superset + place)] = row
            own.ints[_U(superset_ids + place)] = row_id
            multiplicity = np.int32(multiplicity + pool.row_multiplicities[_U(row_id)])
        n_kept = np.int32(n_kept + count_bits(mask))
        tile = next_tile(tile)
    cuda.syncwarp()
    return n_kept, sum_small(multiplicity)


@cuda.jit(device=True, forceinline=True)
def set_superset(frame, superset, n_superset, superset_ids):
    """Say where a frame's superset is; by one lane. The ids are the last thing that it owns in the arena of ints."""
    frame[at.SUPERSET] = superset
    frame[at.N_SUPERSET] = n_superset
    frame[at.SUPERSET_IDS] = superset_ids
    frame[at.INTS_TOP] = superset_ids + n_superset

"""A child of a bitset frame: whether it is wanted, and what there is below it.

The closed sets of a small one are found at once; of another one its candidates are listed, distinct, ascending, none
dominated.
"""

from __future__ import annotations

import numpy as np
from numba import cuda

from mbe_stage.bicliques.constraints import MIN_LEFT
from mbe_stage.bicliques.cuda import layout as at
from mbe_stage.bicliques.cuda.bounds import has_constraints
from mbe_stage.bicliques.cuda.closed_sets import closed_sets, collect_subsets, moves_of, without_whole
from mbe_stage.bicliques.cuda.emit_bitsets import multiplicity_of_columns
from mbe_stage.bicliques.cuda.row_words import drop_dominated, inside_none, sort_distinct
from mbe_stage.bicliques.cuda.techniques import CLOSED_SETS, DOMINATED
from mbe_stage.bicliques.cuda.walk_bundles import Below, BitsetChild
from mbe_stage.device.warp import ballot, count_bits, next_tile, rank

_U = np.uint32
_ONE = _U(1)
_NONE = _U(0)
_NO_MOVES = (_NONE, _NONE, _NONE, _NONE, _NONE)


@cuda.jit(device=True, forceinline=True)
def next_candidate(cursor, frame, own, pool, launch):
    """The child at the cursor."""
    left = own.words[_U(frame[at.WORDS] + cursor)]
    left_most = multiplicity_of_columns(left, own) if has_constraints(launch.mode, pool) else np.int32(0)
    is_small = count_bits(left) <= at.CLOSED_SET_WIDTH and launch.techniques & CLOSED_SETS != 0
    kind = frame[at.KIND]
    return BitsetChild(cursor, left, left_most, kind, is_small, _is_written(kind, launch.mode, launch.techniques))


@cuda.jit(device=True, forceinline=True)
def is_wanted(child, frame, words, pool, launch):
    """Whether a child's left set is large enough, and inside no earlier row where dominated candidates are kept."""
    if has_constraints(launch.mode, pool) and child.left_most < pool.constraints[MIN_LEFT]:
        return False
    return launch.techniques & DOMINATED != 0 or not _is_excluded(child.left, child.cursor, frame, words)


@cuda.jit(device=True, forceinline=True)
def build_child(child, frame, own, launch):
    """The closed sets below a small child, the candidates of another; nothing that the frame owns is changed."""
    closed, moves = _NONE, _NO_MOVES
    top, n_kept, n_listed = np.int32(0), np.int32(0), np.int32(0)
    techniques = launch.techniques
    if child.is_small:
        closed, moves = _closed_sets_below(child, frame, own)
    else:
        # Where something is written, the superset will stand before the candidates.
        top = np.int32(frame[at.WORDS_TOP] + (frame[at.N_SUPERSET] if launch.mode > at.COUNTS else 0))
        n_kept = _candidates_of_child(child, frame, top, own.words, techniques)
        n_listed = n_kept
        if techniques & DOMINATED != 0:
            n_listed = _list_small(n_kept, child.cursor, frame, top, own.words)
    return Below(closed, moves, top, n_kept, n_listed)


@cuda.jit(device=True, forceinline=True)
def count_child(child, below, goes_below):
    """This lane's part of the bicliques that a child and what is finished below it are."""
    if child.is_small:
        return count_bits(below.closed)
    n_found = np.int32((child.kind != at.OF_LIST) + (0 if goes_below else below.n_listed))
    return n_found if cuda.laneid == 0 else np.int32(0)


@cuda.jit(device=True, forceinline=True)
def _is_written(kind, mode, techniques):
    """Whether a frame's children are in the output when they are visited.

    All candidates of a node are bicliques, and are written together, by the time a frame is made of them, where no
    dominated ones are among them.
    """
    return kind == at.OF_LIST or (mode > at.COUNTS and techniques & DOMINATED != 0 and kind == at.BELOW)


@cuda.jit(device=True, forceinline=True)
def _closed_sets_below(child, frame, own):
    """This lane's part of all left sides below a small child that are not written yet, and how they are packed."""
    width = count_bits(child.left)
    moves = moves_of(child.left)
    candidates, excluded = collect_subsets(
        child.left, moves, own.words, frame[at.WORDS], child.cursor, frame[at.N_ROWS], frame[at.N_EXCLUDED],
        _U(frame[at.SINGLES]), own.subsets
    )  # fmt: skip
    closed = closed_sets(candidates, excluded, width)
    if child.is_written:
        # Below a list child the columns of the word may be a left set again.
        closed = without_whole(closed, candidates if child.kind == at.OF_LIST else _NONE, width)
    return closed, moves


@cuda.jit(device=True, forceinline=True)
def _candidates_of_child(child, frame, top, words, techniques):
    """The later rows' restrictions to the child's left set, from `top` on: distinct, ascending, none dominated.

    A later row that holds all of it is in the right side of every biclique below. Where it is part of a larger left
    set, that of a list child, such a row is a candidate like the others: those that hold the whole set are not here.
    """
    lane = np.int32(cuda.laneid)
    left, cursor = child.left, child.cursor
    first, n_rows = frame[at.WORDS], frame[at.N_ROWS]
    n_raw = np.int32(0)
    tile = np.int32(cursor + 1)
    while tile < n_rows:
        row = _NONE
        if np.int32(tile + lane) < n_rows:
            row = _U(words[_U(first + tile + lane)] & left)
        keep = row != 0 and (child.kind == at.OF_LIST or row != left)
        mask = ballot(keep)
        if keep:
            words[_U(top + n_raw + rank(mask))] = row
        n_raw = np.int32(n_raw + count_bits(mask))
        tile = next_tile(tile)
    cuda.syncwarp()
    if n_raw == 0:
        return n_raw
    n_kept = n_raw
    if techniques & DOMINATED != 0:
        n_earlier = np.int32(cursor + frame[at.N_EXCLUDED])
        gap = np.int32(n_rows - cursor)
        n_kept = drop_dominated(words, top, n_raw, _U(frame[at.SINGLES]), first, cursor, gap, n_earlier)
    return sort_distinct(words, top, n_kept)


@cuda.jit(device=True, forceinline=True)
def _is_excluded(left, cursor, frame, words):
    """Whether an earlier row holds a child's whole left set; only where dominated candidates are kept is this asked."""
    is_single = _U(left & _U(left - _ONE)) == 0 and _U(left & _U(frame[at.SINGLES])) != 0
    n_earlier = np.int32(cursor + frame[at.N_EXCLUDED])
    gap = np.int32(frame[at.N_ROWS] - cursor)
    return is_single or inside_none(words, frame[at.WORDS], cursor, gap, n_earlier, left, _ONE) == 0


@cuda.jit(device=True, forceinline=True)
def _list_small(n_kept, cursor, frame, top, words):
    """Make the candidates of a child, where they are two at most, a list of all bicliques below it; returns its length.

    Each of them is one; what two have in common may be a third.
    """
    if n_kept != 2:
        return n_kept
    both = _U(words[_U(top)] & words[_U(top + 1)])
    is_single = _U(both & _U(both - _ONE)) == 0 and _U(both & _U(frame[at.SINGLES])) != 0
    if both == 0 or both == words[_U(top)] or is_single:
        return n_kept
    n_earlier = np.int32(cursor + frame[at.N_EXCLUDED])
    gap = np.int32(frame[at.N_ROWS] - cursor)
    alive = inside_none(words, frame[at.WORDS], cursor, gap, n_earlier, both, _ONE)
    cuda.syncwarp()
    if cuda.laneid == 0:
        words[_U(top + 2)] = both
    cuda.syncwarp()
    return np.int32(n_kept + count_bits(alive))

"""The child of a bitset frame: check if it is wanted, find its subtree, and the rows of its right sides.

The closed sets of a small child are found at once. Otherwise its candidates are listed: distinct, ascending, none
dominated. If bicliques are written, the superset of a frame holds every row that can be in a right side below it. It is
in the arena of words, its ids in the arena of ints, and it bounds right sides.
"""

from __future__ import annotations

import numpy as np
from numba import cuda

from mbe_stage.bicliques.constraints import MIN_LEFT
from mbe_stage.bicliques.cuda import layout
from mbe_stage.bicliques.cuda.closed_sets import closed_sets, collect_subsets, moves_of, widest, without_whole
from mbe_stage.bicliques.cuda.emit_bitsets import multiplicity_of_columns
from mbe_stage.bicliques.cuda.row_words import (
    append,
    drop_dominated,
    inside_none,
    is_among,
    is_single,
    sort_distinct,
    word_at,
)
from mbe_stage.bicliques.cuda.subgraph_parts import has_constraints
from mbe_stage.bicliques.cuda.techniques import DOMINATED
from mbe_stage.bicliques.cuda.walk_bundles import Below, BitsetChild, Earlier
from mbe_stage.device.warp import ballot, count_bits, next_tile, rank, sum_small

_U = np.uint32
_ONE = _U(1)
_NONE = _U(0)
NO_MOVES = (_NONE, _NONE, _NONE, _NONE, _NONE)


@cuda.jit(device=True, forceinline=True)
def next_candidate(cursor, frame, own, pool, launch):
    """The child at the cursor."""
    left = own.words[_U(frame[layout.WORDS] + cursor)]
    left_most = np.int32(0)
    if (
        launch.mode == layout.WITHIN
        and frame[layout.N_SUPERSET] == 0
        and count_bits(left) >= pool.constraints[MIN_LEFT]
    ):
        # The right side is settled (`count_within`), and each column has a vertex.
        left_most = count_bits(left)
    elif has_constraints(launch.mode, pool):
        left_most = multiplicity_of_columns(left, own)
    is_small = count_bits(left) <= widest(launch)
    kind = frame[layout.KIND]
    # All candidates of a node are bicliques. If bicliques are written, they are written together, before they become a
    # frame, unless dominated ones are among them.
    are_written = launch.mode >= layout.SIZES and launch.techniques & DOMINATED != 0 and kind == layout.BELOW
    return BitsetChild(cursor, left, left_most, kind, is_small, kind == layout.OF_LIST or are_written)


@cuda.jit(device=True, forceinline=True)
def is_wanted(child, frame, words, pool, launch):
    """True if a child's left set is large enough, and, if dominated candidates are kept, inside no earlier row."""
    if has_constraints(launch.mode, pool) and child.left_most < pool.constraints[MIN_LEFT]:
        return False
    if launch.techniques & DOMINATED != 0:
        return True
    earlier = earlier_rows(child.cursor, frame)
    return not is_single(child.left, _U(frame[layout.SINGLES])) and inside_none(words, earlier, child.left, _ONE) != 0


@cuda.jit(device=True, forceinline=True)
def build_child(child, frame, own, launch):
    """Find the closed sets below a small child, or the candidates of another; the frame's own data stays."""
    closed, moves = _NONE, NO_MOVES
    top, n_kept, n_listed = np.int32(0), np.int32(0), np.int32(0)
    techniques = launch.techniques
    if child.is_small:
        closed, moves = _closed_sets_below(child, frame, own)
    else:
        # If bicliques are written, the superset will be before the candidates.
        top = np.int32(frame[layout.WORDS_TOP] + (frame[layout.N_SUPERSET] if launch.mode > layout.COUNT else 0))
        n_kept = _candidates_of_child(child, frame, top, own.words, techniques)
        n_listed = n_kept
        if techniques & DOMINATED != 0:
            n_listed = _list_small(n_kept, child.cursor, frame, top, own.words)
    return Below(closed, moves, top, n_kept, n_listed)


@cuda.jit(device=True, forceinline=True)
def count_child(child, below, goes_below):
    """This lane's share of the bicliques of a child and of its finished subtree."""
    if child.is_small:
        return count_bits(below.closed)
    n_found = np.int32((child.kind != layout.OF_LIST) + (0 if goes_below else below.n_listed))
    return n_found if cuda.laneid == 0 else np.int32(0)


@cuda.jit(device=True, forceinline=True)
def _closed_sets_below(child, frame, own):
    """This lane's share of the unwritten left sides below a small child, and the moves that pack them."""
    width = count_bits(child.left)
    moves = moves_of(child.left)
    candidates, excluded = collect_subsets(child, moves, frame, own)
    closed = closed_sets(candidates, excluded, width)
    if child.is_written:
        # Below a list child, the columns of the word may be a left set again.
        closed = without_whole(closed, candidates if child.kind == layout.OF_LIST else _NONE, width)
    return closed, moves


@cuda.jit(device=True, forceinline=True)
def _candidates_of_child(child, frame, top, words, techniques):
    """List the restrictions of later rows to a child's left set, from `top` on: distinct, ascending, none dominated.

    A later row that holds all of it is in the right side of every biclique below. In a list child, whose left set is
    larger than the word, such a row is a candidate like the others. Rows with the whole left set are not here.
    """
    lane = np.int32(cuda.laneid)
    left, cursor = child.left, child.cursor
    first, n_rows = frame[layout.WORDS], frame[layout.N_ROWS]
    n_raw = np.int32(0)
    tile = np.int32(cursor + 1)
    while tile < n_rows:
        row = _NONE
        if np.int32(tile + lane) < n_rows:
            row = _U(words[_U(first + tile + lane)] & left)
        keep = row != 0 and (child.kind == layout.OF_LIST or row != left)
        n_raw = append(keep, row, top, n_raw, words)
        tile = next_tile(tile)
    cuda.syncwarp()
    if n_raw == 0:
        return n_raw
    n_kept = n_raw
    if techniques & DOMINATED != 0:
        n_kept = drop_dominated(words, top, n_raw, _U(frame[layout.SINGLES]), earlier_rows(cursor, frame))
    return sort_distinct(words, top, n_kept)


@cuda.jit(device=True, forceinline=True)
def earlier_rows(cursor, frame):
    """The excluded rows of a frame's child."""
    n = np.int32(cursor + frame[layout.N_EXCLUDED])
    gap = np.int32(frame[layout.N_ROWS] - cursor)
    return Earlier(frame[layout.WORDS], n, cursor, gap)


@cuda.jit(device=True, forceinline=True)
def _list_small(n_kept, cursor, frame, top, words):
    """Make the candidates of a child, at most two, a list of all bicliques below it; return its length.

    Each of them is one; their common columns may be a third.
    """
    if n_kept != 2:
        return n_kept
    both = _U(words[_U(top)] & words[_U(top + 1)])
    is_known = is_single(both, _U(frame[layout.SINGLES]))
    if both == 0 or both == words[_U(top)] or is_known:
        return n_kept
    alive = inside_none(words, earlier_rows(cursor, frame), both, _ONE)
    cuda.syncwarp()
    if cuda.laneid == 0:
        words[_U(top + 2)] = both
    cuda.syncwarp()
    return np.int32(n_kept + count_bits(alive))


@cuda.jit(device=True, forceinline=True)
def restrict_superset(left, fewest, cursor, frame, own, pool, mode):
    """Copy the rows of a frame's superset with at least `fewest` columns of `left` to the tops of both arenas.

    Returns their number, and, with constraints, numbers of the user's vertices: of rows that hold all of `left`, and of
    all of them. Most rows hold one column only, and are in the right side of that column alone.

    Rows of the superset that are smaller than `left` as numbers are left out. No left set from the child on lies inside
    an excluded row, or it would have been found there. So a row that lies inside an excluded one holds none of them. A
    row of the superset holds the frame's whole left set, equals a candidate, or lies inside an excluded row. The first
    are not smaller. Candidates ascend: a smaller one is an earlier sibling, excluded itself.
    """
    lane = np.int32(cuda.laneid)
    superset, n_superset, superset_ids = frame[layout.SUPERSET], frame[layout.N_SUPERSET], frame[layout.SUPERSET_IDS]
    top, ints_top = frame[layout.WORDS_TOP], frame[layout.INTS_TOP]
    is_constrained = has_constraints(mode, pool)
    # The rows behind the only child of a first frame do not ascend from it. The first child has no earlier siblings.
    smallest = left if cursor > 0 else _NONE
    n_kept = np.int32(0)
    least = np.int32(0)
    most = np.int32(0)
    tile = np.int32(0)
    while tile < n_superset:
        row = word_at(np.int32(tile + lane), n_superset, superset, own.words)
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

    The others lie inside an excluded row, and hold no further left set (see `restrict_superset`).

    Returns the number of rows, and of the user's vertices, which bounds right sides below the child. The candidates
    begin at `top`; `frame` is the parent's.
    """
    lane = np.int32(cuda.laneid)
    superset, superset_ids = frame[layout.WORDS_TOP], frame[layout.INTS_TOP]
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
def set_frame(frame, kind, end, n_rows, n_excluded, singles, first, words_top, superset):
    """Set a frame whose children are its rows up to `end`; by one lane.

    Its rows, with the child's row of a first frame, begin at `first`, with excluded ones behind them, and end the arena
    of words at `words_top`. The ids of the superset end that of ints. `singles` are the columns that are an excluded
    row by themselves.
    """
    frame[layout.CURSOR] = 0
    frame[layout.N_ROWS] = n_rows
    frame[layout.N_EXCLUDED] = n_excluded
    frame[layout.SINGLES] = np.int32(singles)
    frame[layout.WORDS] = first
    frame[layout.WORDS_TOP] = words_top
    frame[layout.SUPERSET] = superset.rows
    frame[layout.N_SUPERSET] = superset.n_rows
    frame[layout.SUPERSET_IDS] = superset.ids
    frame[layout.INTS_TOP] = superset.ids + superset.n_rows
    frame[layout.END] = end
    frame[layout.KIND] = kind

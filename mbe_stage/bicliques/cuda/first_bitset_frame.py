"""A subgraph's child with few columns: count its closed sets, or make it the first frame of the warp's stack.

Its rows are in `bits`. A bitmap child (at most 32 left vertices) is examined here for the first time: a row that holds
all of them is full. A list child is known to be maximal and is written already. Its full rows are in `counts`, and its
columns are those that its candidates hold.

The first frame has one child, which represents the subgraph's: its row is all columns. So bitset frames are processed,
and above all written, in one place.

GMBE+ IV-B switches to bitmaps at the same threshold, at most 32 vertices in L.
"""

from __future__ import annotations

import numpy as np
from numba import cuda

from mbe_stage.bicliques.cuda import layout
from mbe_stage.bicliques.cuda.bitset_children import set_superset
from mbe_stage.bicliques.cuda.bitset_walk import set_frame
from mbe_stage.bicliques.cuda.closed_sets import (
    add_subset,
    clear_subsets,
    closed_sets,
    subsets_of_lane,
    without_whole,
)
from mbe_stage.bicliques.cuda.row_words import restrict, union_of
from mbe_stage.bicliques.cuda.subgraph_parts import count_ids, entry, write_ids
from mbe_stage.bicliques.cuda.walk_bundles import FramePlaces
from mbe_stage.bicliques.cuda.work_donation import ask_for_words
from mbe_stage.device.warp import ALL, ballot, count_bits, lowest_bits, next_one, next_tile, rank, sum_small

_U = np.uint32
_ONE = _U(1)
_NONE = _U(0)
_EVERYTHING = _U(0xFFFFFFFF)


@cuda.jit(device=True, forceinline=True)
def count_small(child, n_columns, seen, own):
    """Count the bicliques of a child and its subtree, if its subsets of columns fit a closed-set bitmap."""
    subsets = own.subsets
    clear_subsets(subsets)
    tile = np.int32(0)
    while tile < seen.n_nonzero:
        row = _NONE
        other = np.int32(0)
        if np.int32(tile + cuda.laneid) < seen.n_nonzero:
            other = own.nonzero[_U(tile + cuda.laneid)]
            row = own.bits[_U(other)]
        add_subset(subsets, row, other < child.row)
        tile = next_tile(tile)
    column = _U(_ONE << _U(cuda.laneid))
    add_subset(subsets, _U(seen.singles.later & column), False)
    add_subset(subsets, _U(seen.singles.earlier & column), True)
    candidates, excluded = subsets_of_lane(subsets)
    closed = closed_sets(candidates, excluded, n_columns)
    if seen.is_list:
        closed = without_whole(closed, candidates, n_columns)
    return sum_small(count_bits(closed))


@cuda.jit(device=True, forceinline=True)
def open_bitset_frame(node, child, n_columns, seen, own, pool, launch):
    """Make the child the only child of a first frame, unless an earlier row holds its whole left set.

    Parameters
    ----------
    n_columns : int32
        Columns of the word in use.
    """
    words, mode = own.words, launch.mode
    # The excluded rows as given, the child, its candidates, the kept excluded rows; the superset.
    first = np.int32(seen.n_nonzero)
    superset = np.int32(first + 1 + seen.n_nonzero + layout.WORD_BITS)
    ints_at = np.int32(layout.HEADER_IDS)
    needed = superset
    if mode > layout.COUNT:
        ints_at = np.int32(ints_at + count_ids(node, child, own, pool.ints))
        needed = np.int32(max(superset, ints_at) + node.n_path + seen.n_nonzero)
    if not ask_for_words(needed, words, launch):
        return layout.PAUSED
    singles = seen.singles
    full = lowest_bits(n_columns)
    places = FramePlaces(first, superset, ints_at)
    n_candidates, n_excluded, n_superset, is_excluded = _split_rows(full, node, child, seen, places, own, pool, mode)
    # A single column is the whole left set only if there is no other.
    is_excluded = is_excluded or (n_columns == 1 and singles.earlier != 0)
    if is_excluded or (seen.is_list and n_candidates == 0):
        return layout.DONE
    if _U(singles.later & _U(_ONE << _U(cuda.laneid))) != 0:
        words[_U(first + 1 + n_candidates + rank(singles.later))] = _U(_ONE << _U(cuda.laneid))
    cuda.syncwarp()
    n_candidates = np.int32(n_candidates + count_bits(singles.later))
    excluded_at = np.int32(first + 1 + n_candidates)
    union = union_of(words, first + 1, n_candidates)
    n_excluded, excluded_singles = restrict(
        words, np.int32(0), n_excluded, np.int32(0), n_excluded, union, excluded_at, own.table
    )
    excluded_singles = _U(excluded_singles | (singles.earlier & union))
    if mode > layout.COUNT:
        _write_header(node, child, own, pool)
    if cuda.laneid == 0:
        frame = own.frames[0]
        words[_U(first)] = full
        set_frame(frame, 1 + n_candidates, n_excluded, excluded_singles, first, superset + n_superset)
        set_superset(frame, superset, n_superset, ints_at)
        frame[layout.END] = 1
        frame[layout.KIND] = layout.OF_LIST if seen.is_list else layout.OF_BITMAP
        own.state[layout.DEPTH] = 0
    cuda.syncwarp()
    return layout.DONE


@cuda.jit(device=True, forceinline=True)
def _split_rows(full, node, child, seen, places, own, pool, mode):
    """Move excluded rows to the bottom of the arena, and candidates behind the child's row.

    If bicliques are written, also move the superset: every row that can be in a right side below, those of the path and
    the later ones.

    Parameters
    ----------
    full : uint32
        The whole left set.

    Returns
    -------
    is_excluded : bool
        True if an excluded row holds the whole left set.
    """
    lane = np.int32(cuda.laneid)
    words, numbers = own.words, pool.ints
    candidates_at = np.int32(places.first + 1)
    n_candidates = np.int32(0)
    n_excluded = np.int32(0)
    n_superset = _lay_path(node, places, own, numbers) if mode > layout.COUNT else np.int32(0)
    is_excluded = False
    tile = np.int32(0)
    while tile < seen.n_nonzero:
        row = _NONE
        other = child.row
        is_full = False
        if np.int32(tile + lane) < seen.n_nonzero:
            other = own.nonzero[_U(tile + lane)]
            row = own.bits[_U(other)]
            is_full = own.counts[_U(other)] == child.n_left if seen.is_list else row == full
        if is_full and other < child.row:
            is_excluded = True
        is_later = row != 0 and not is_full and other > child.row
        is_earlier = row != 0 and not is_full and other < child.row
        later = ballot(is_later)
        earlier = ballot(is_earlier)
        if is_later:
            words[_U(candidates_at + n_candidates + rank(later))] = row
        if is_earlier:
            words[_U(n_excluded + rank(earlier))] = row
        if mode > layout.COUNT:
            in_superset = is_later or (is_full and other >= child.row)
            mask = ballot(in_superset)
            if in_superset:
                place = np.int32(n_superset + rank(mask))
                words[_U(places.superset + place)] = _EVERYTHING if is_full else row
                own.ints[_U(places.superset_ids + place)] = numbers[entry(node, node.row_ids + other)]
            n_superset = np.int32(n_superset + count_bits(mask))
        n_candidates = np.int32(n_candidates + count_bits(later))
        n_excluded = np.int32(n_excluded + count_bits(earlier))
        tile = next_tile(tile)
    cuda.syncwarp()
    return n_candidates, n_excluded, n_superset, cuda.any_sync(ALL, is_excluded)


@cuda.jit(device=True, forceinline=True)
def _lay_path(node, places, own, numbers):
    """Copy the rows of the path, which hold everything, to the beginning of the superset; return their number."""
    k = np.int32(cuda.laneid)
    while k < node.n_path:
        own.words[_U(places.superset + k)] = _EVERYTHING
        own.ints[_U(places.superset_ids + k)] = numbers[entry(node, node.path + k)]
        k = next_tile(k)
    return np.int32(node.n_path)


@cuda.jit(device=True, forceinline=True)
def _write_header(node, child, own, pool):
    """Write the vertices of the stack's columns: see `layout.HEADER_IDS`."""
    lane = np.int32(cuda.laneid)
    write_ids(
        node, child, own, own.ints, np.int64(0), np.int32(layout.WORD_BITS), np.int64(layout.HEADER_IDS), pool.ints
    )
    multiplicity = np.int32(0)
    k = own.ints[_U(lane)]
    end = own.ints[_U(lane + 1)]
    while k < end:
        multiplicity = np.int32(multiplicity + pool.column_multiplicities[_U(own.ints[_U(layout.HEADER_IDS + k)])])
        k = next_one(k)
    own.ints[_U(layout.HEADER_MULTIPLICITIES + lane)] = multiplicity
    cuda.syncwarp()

"""A sparse node's child with few columns: counted as a family, or made the first frame of the warp's stack.

Its rows stand in `bits`. A narrow child (at most 32 left vertices) is looked at here for the first time: a row that
holds all of them is a full one. A wide child is known to be maximal and has been written, its full rows stand in
`counts`, and its columns are those that its candidates hold.

The first frame has one child, which stands for the sparse node's: its row is all the columns. Everything that is done
with a word node, writing above all, is done in one place.
"""

from __future__ import annotations

import numpy as np
from numba import cuda

from mbe_stage.bicliques.cuda import layout as at
from mbe_stage.bicliques.cuda.base import set_base
from mbe_stage.bicliques.cuda.family import (
    add_to_family,
    clear_families,
    families_of_lane,
    maximal_family,
    without_whole,
)
from mbe_stage.bicliques.cuda.ids import count_ids, write_ids
from mbe_stage.bicliques.cuda.nodes import entry
from mbe_stage.bicliques.cuda.rows import restrict, union_of
from mbe_stage.bicliques.cuda.share import ask_for_words
from mbe_stage.bicliques.cuda.word_node import set_frame
from mbe_stage.device.warp import ALL, ballot, count_bits, lowest_bits, next_one, next_tile, rank, sum_small

__all__ = ["count_small", "open_word_frame"]

_U = np.uint32
_ONE = _U(1)
_NONE = _U(0)
_EVERYTHING = _U(0xFFFFFFFF)


@cuda.jit(device=True, forceinline=True)
def count_small(is_wide, child, n_columns, n_touched, singles, own):
    """How many bicliques a child whose subsets of columns fit a family is, with its whole subtree."""
    families = own.families
    clear_families(families)
    tile = np.int32(0)
    while tile < n_touched:
        row = _NONE
        other = np.int32(0)
        if np.int32(tile + cuda.laneid) < n_touched:
            other = own.touched[_U(tile + cuda.laneid)]
            row = own.bits[_U(other)]
        add_to_family(families, row, other < child.row)
        tile = next_tile(tile)
    column = _U(_ONE << _U(cuda.laneid))
    add_to_family(families, _U(singles.later & column), False)
    add_to_family(families, _U(singles.earlier & column), True)
    candidates, excluded = families_of_lane(families)
    family = maximal_family(candidates, excluded, n_columns)
    if is_wide:
        family = without_whole(family, candidates, n_columns)
    return sum_small(count_bits(family))


@cuda.jit(device=True, forceinline=True)
def open_word_frame(is_wide, node, child, n_columns, n_touched, singles, own, pool, control, wide_control, mode):
    """Make the child the only one of a first frame on the stack, unless an earlier row holds its whole left set."""
    words = own.words
    # The excluded rows as they are, the child, its candidates, the excluded rows as they are kept; the base.
    first = np.int32(n_touched)
    base = np.int32(first + 1 + n_touched + at.WORD_BITS)
    ints_at = np.int32(at.HEADER_IDS)
    needed = base
    if mode > at.COUNTS:
        ints_at = np.int32(ints_at + count_ids(node, child, own, pool.ints))
        needed = np.int32(max(base, ints_at) + node.n_path + n_touched)
    if not ask_for_words(needed, words, control, wide_control):
        return at.PAUSED
    full = lowest_bits(n_columns)
    n_candidates, n_excluded, n_base, is_excluded = _split_rows(
        is_wide, full, node, child, n_touched, first + 1, base, ints_at, own, pool, mode
    )
    # A single column is the whole left set only where there is no other.
    is_excluded = is_excluded or (n_columns == 1 and singles.earlier != 0)
    if is_excluded or (is_wide and n_candidates == 0):
        return at.DONE
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
    if mode > at.COUNTS:
        _write_header(node, child, own, pool)
    if cuda.laneid == 0:
        frame = own.frames[0]
        words[_U(first)] = full
        set_frame(frame, 1 + n_candidates, n_excluded, excluded_singles, first, base + n_base)
        set_base(frame, base, n_base, ints_at)
        frame[at.END] = 1
        frame[at.KIND] = at.WIDE if is_wide else at.NARROW
        own.state[at.DEPTH] = 0
    cuda.syncwarp()
    return at.DONE


@cuda.jit(device=True, forceinline=True)
def _split_rows(is_wide, full, node, child, n_touched, candidates_at, base, base_ids, own, pool, mode):
    """Excluded rows to the bottom of the arena, candidates to `candidates_at`, and where something is written the base:
    every row that can be in a right side below, those of the path and the later ones.

    Returns how many of each there are, and whether an excluded row holds the whole left set.
    """
    lane = np.int32(cuda.laneid)
    words, numbers = own.words, pool.ints
    n_candidates = np.int32(0)
    n_excluded = np.int32(0)
    n_base = _lay_path(node, base, base_ids, own, numbers) if mode > at.COUNTS else np.int32(0)
    is_excluded = False
    tile = np.int32(0)
    while tile < n_touched:
        row = _NONE
        other = child.row
        is_full = False
        if np.int32(tile + lane) < n_touched:
            other = own.touched[_U(tile + lane)]
            row = own.bits[_U(other)]
            is_full = own.counts[_U(other)] == child.n_left if is_wide else row == full
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
        if mode > at.COUNTS:
            in_base = is_later or (is_full and other >= child.row)
            mask = ballot(in_base)
            if in_base:
                place = np.int32(n_base + rank(mask))
                words[_U(base + place)] = _EVERYTHING if is_full else row
                own.ints[_U(base_ids + place)] = numbers[entry(node, node.row_ids + other)]
            n_base = np.int32(n_base + count_bits(mask))
        n_candidates = np.int32(n_candidates + count_bits(later))
        n_excluded = np.int32(n_excluded + count_bits(earlier))
        tile = next_tile(tile)
    cuda.syncwarp()
    return n_candidates, n_excluded, n_base, cuda.any_sync(ALL, is_excluded)


@cuda.jit(device=True, forceinline=True)
def _lay_path(node, base, base_ids, own, numbers):
    """The rows of the path, which hold everything, to the beginning of the base; returns how many there are."""
    k = np.int32(cuda.laneid)
    while k < node.n_path:
        own.words[_U(base + k)] = _EVERYTHING
        own.ints[_U(base_ids + k)] = numbers[entry(node, node.path + k)]
        k = next_tile(k)
    return np.int32(node.n_path)


@cuda.jit(device=True, forceinline=True)
def _write_header(node, child, own, pool):
    """What the columns of the stack stand for: see `layout.HEADER_IDS`."""
    lane = np.int32(cuda.laneid)
    write_ids(node, child, own, own.ints, np.int64(0), np.int32(at.WORD_BITS), np.int64(at.HEADER_IDS), pool.ints)
    weight = np.int32(0)
    k = own.ints[_U(lane)]
    end = own.ints[_U(lane + 1)]
    while k < end:
        weight = np.int32(weight + pool.column_weights[_U(own.ints[_U(at.HEADER_IDS + k)])])
        k = next_one(k)
    own.ints[_U(at.HEADER_WEIGHTS + lane)] = weight
    cuda.syncwarp()

"""A sparse node's child with few columns: finished as a family, or made the first frame of the warp's stack.

Its rows stand in `bits`. A narrow child (at most 32 left vertices) is looked at here for the first time: a row that
holds all of them is a full one. A wide child is known to be maximal and has been written, its full rows stand in
`counts`, and its columns are those that its candidates hold.
"""

from __future__ import annotations

import numpy as np
from numba import cuda

from mbe_stage.bicliques.cuda import layout as at
from mbe_stage.bicliques.cuda.columns import count_ids, write_ids
from mbe_stage.bicliques.cuda.emit import emit_family, emit_word
from mbe_stage.bicliques.cuda.family import (
    add_to_family,
    clear_families,
    families_of_lane,
    maximal_family,
    moves_of,
    without_whole,
)
from mbe_stage.bicliques.cuda.rows import drop_dominated, restrict, sort_distinct, union_of
from mbe_stage.bicliques.cuda.share import ask_for_words, ask_to_stop
from mbe_stage.bicliques.cuda.techniques import DOMINATED
from mbe_stage.bicliques.cuda.warp import ALL, ballot, count_bits, next_tile, rank, sum_small
from mbe_stage.bicliques.cuda.word_node import set_frame

__all__ = ["finish_small", "open_word_frame"]

_U = np.uint32
_ONE = _U(1)
_NONE = _U(0)


@cuda.jit(device=True, forceinline=True)
def _all_of(n_columns):
    return _U(_U(0xFFFFFFFF) >> _U(at.WORD_BITS - n_columns))


@cuda.jit(device=True, forceinline=True)
def finish_small(is_wide, node, child, n_columns, n_touched, own, pool, output, control, wide_control, mode):
    """A child whose subsets of columns fit a family: its whole subtree at once."""
    families = own.families
    clear_families(families)
    k = np.int32(cuda.laneid)
    while k < n_touched:
        other = own.touched[_U(k)]
        add_to_family(families, own.bits[_U(other)], other < child.row)
        k = next_tile(k)
    candidates, excluded = families_of_lane(families)
    family = maximal_family(candidates, excluded, n_columns)
    if is_wide:
        family = without_whole(family, candidates, n_columns)
    if mode == at.COUNTS:
        found = sum_small(count_bits(family))
        if cuda.laneid == 0:
            own.state[at.FOUND] += found
            own.state[at.N_FAMILIES] += 1
        return at.DONE
    if ballot(family != 0) == 0:
        return at.DONE
    ints_at = np.int32(at.HEADER_IDS + count_ids(node, child, own, pool.ints))
    if not ask_for_words(ints_at + node.n_path + n_touched, own.words, control, wide_control):
        return at.PAUSED
    _write_header(node, child, own, pool)
    n_base, _ = _lay_base(is_wide, node, child, n_touched, np.int32(0), ints_at, own, pool)
    full = _all_of(n_columns)
    before = np.int32(1 if is_wide else 0)
    if emit_family(
        family, full, moves_of(full), before, np.int32(0), n_base, ints_at, own, mode, pool, output, wide_control
    ):  # fmt: skip
        return at.DONE
    ask_to_stop(control, at.OUTPUT_FULL)
    return at.PAUSED


@cuda.jit(device=True, forceinline=True)
def open_word_frame(
    is_wide, node, child, n_columns, n_touched, own, pool, output, control, wide_control, mode, techniques
):  # fmt: skip
    """Make the child the first frame of the stack, unless nothing can come of it."""
    words, frames = own.words, own.frames
    base = np.int32(2 * n_touched)
    ints_at = np.int32(at.HEADER_IDS)
    needed = base
    if mode > at.COUNTS:
        ints_at = np.int32(ints_at + count_ids(node, child, own, pool.ints))
        needed = np.int32(max(base, ints_at) + node.n_path + n_touched)
    if not ask_for_words(needed, words, control, wide_control):
        return at.PAUSED
    full = _all_of(n_columns)
    n_raw, n_excluded, is_excluded = _split_rows(is_wide, full, child, n_touched, own)
    if is_excluded:
        return at.DONE
    n_base = np.int32(0)
    if mode > at.COUNTS:
        _write_header(node, child, own, pool)
        n_base, weight = _lay_base(is_wide, node, child, n_touched, base, ints_at, own, pool)
        if not is_wide and not emit_word(full, base, n_base, ints_at, own, mode, pool, output, wide_control):
            ask_to_stop(control, at.OUTPUT_FULL)
            return at.PAUSED
        if pool.limits[at.ACTIVE] != 0 and weight < pool.limits[at.MIN_RIGHT]:
            return at.DONE
    elif not is_wide and cuda.laneid == 0:
        own.state[at.FOUND] += 1
    if n_raw == 0:
        return at.DONE
    union = union_of(words, np.int32(0), n_raw)
    n_excluded, singles = restrict(words, n_touched, n_excluded, np.int32(0), n_excluded, union, n_touched, own.table)
    n_kept = n_raw
    if techniques & DOMINATED != 0:
        n_kept = drop_dominated(words, np.int32(0), n_raw, singles, n_touched, n_excluded, np.int32(0), n_excluded)
    n_kept = sort_distinct(words, np.int32(0), n_kept)
    if n_kept == 0:
        return at.DONE
    union = union_of(words, np.int32(0), n_kept)
    n_excluded, more_singles = restrict(
        words, n_touched, n_excluded, np.int32(0), n_excluded, union, n_kept, own.table
    )  # fmt: skip
    if cuda.laneid == 0:
        set_frame(frames[0], n_kept, n_excluded, _U(singles & union) | more_singles, np.int32(0), base, n_base, ints_at)
        if mode == at.COUNTS:
            frames[0, at.WORDS_TOP] = n_kept + n_excluded
        own.state[at.DEPTH] = 0
    cuda.syncwarp()
    return at.DONE


@cuda.jit(device=True, forceinline=True)
def _split_rows(is_wide, full, child, n_touched, own):
    """Candidates' rows to the bottom of the arena, excluded ones from `n_touched` on, and whether one holds `full`."""
    lane = np.int32(cuda.laneid)
    n_raw = np.int32(0)
    n_excluded = np.int32(0)
    is_excluded = False
    tile = np.int32(0)
    while tile < n_touched:
        row = _NONE
        other = child.row
        if np.int32(tile + lane) < n_touched:
            other = own.touched[_U(tile + lane)]
            row = own.bits[_U(other)]
        if not is_wide and row == full:
            row = _NONE
            if other < child.row:
                is_excluded = True
        later = ballot(row != 0 and other > child.row)
        earlier = ballot(row != 0 and other < child.row)
        if row != 0:
            if other > child.row:
                own.words[_U(n_raw + rank(later))] = row
            else:
                own.words[_U(n_touched + n_excluded + rank(earlier))] = row
        n_raw = np.int32(n_raw + count_bits(later))
        n_excluded = np.int32(n_excluded + count_bits(earlier))
        tile = next_tile(tile)
    cuda.syncwarp()
    return n_raw, n_excluded, cuda.any_sync(ALL, is_excluded)


@cuda.jit(device=True, forceinline=True)
def _write_header(node, child, own, pool):
    """What the columns of the stack stand for: see `layout.HEADER_IDS`."""
    lane = np.int32(cuda.laneid)
    write_ids(node, child, own, own.ints, np.int64(0), np.int32(at.WORD_BITS), np.int64(at.HEADER_IDS), pool.ints)
    weight = np.int32(0)
    for k in range(own.ints[_U(lane)], own.ints[_U(lane + 1)]):
        weight = np.int32(weight + pool.column_weights[_U(own.ints[_U(at.HEADER_IDS + k)])])
    own.ints[_U(at.HEADER_WEIGHTS + lane)] = weight
    cuda.syncwarp()


@cuda.jit(device=True, forceinline=True)
def _lay_base(is_wide, node, child, n_touched, base, base_ids, own, pool):
    """Every row that can be in a right side below: the path and the later rows; returns how many, and their weight."""
    lane = np.int32(cuda.laneid)
    words, ints, numbers = own.words, own.ints, pool.ints
    weight = np.int32(0)
    k = lane
    while k < node.n_path:
        row_id = numbers[np.uint64(node.path + k)]
        words[_U(base + k)] = _U(0xFFFFFFFF)
        ints[_U(base_ids + k)] = row_id
        weight = np.int32(weight + pool.row_weights[_U(row_id)])
        k = next_tile(k)
    n_base = np.int32(node.n_path)
    tile = np.int32(0)
    while tile < n_touched:
        row = _NONE
        other = np.int32(0)
        if np.int32(tile + lane) < n_touched:
            other = own.touched[_U(tile + lane)]
            if other >= child.row:
                row = own.bits[_U(other)]
                if is_wide and own.counts[_U(other)] == child.n_left:
                    row = _U(0xFFFFFFFF)
        mask = ballot(row != 0)
        if row != 0:
            place = np.int32(n_base + rank(mask))
            row_id = numbers[np.uint64(node.row_ids + other)]
            words[_U(base + place)] = row
            ints[_U(base_ids + place)] = row_id
            weight = np.int32(weight + pool.row_weights[_U(row_id)])
        n_base = np.int32(n_base + count_bits(mask))
        tile = next_tile(tile)
    cuda.syncwarp()
    return n_base, sum_small(weight)

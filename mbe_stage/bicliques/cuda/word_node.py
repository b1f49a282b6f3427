"""Nodes with at most 64 left vertices, on a warp's own stack: lanes over rows, one word a row.

In the arena of words a frame keeps its candidates' rows (distinct, ascending, none dominated), behind them the excluded
rows, and where bicliques are written, its *base*: every row that can be in a right side below, with ids in the arena of
ints. The columns of all frames of a stack are bits of the same 64 columns.
"""

from __future__ import annotations

import numpy as np
from numba import cuda

from mbe_stage.bicliques.cuda import layout as at
from mbe_stage.bicliques.cuda.emit import emit_family, emit_word, weight_of_columns
from mbe_stage.bicliques.cuda.family import (
    add_to_family,
    clear_family,
    lane_part,
    maximal_family,
    pack,
    positions_of,
)
from mbe_stage.bicliques.cuda.rows import clear_table, drop_dominated, inside_none, restrict, sort_distinct, union_of
from mbe_stage.bicliques.cuda.share import ask_to_stop, give_work, read_shared, stop_if_late
from mbe_stage.bicliques.cuda.warp import ballot, or_all, rank, sum_all

__all__ = ["set_frame", "walk_word_nodes"]

_U = np.uint64
_ONE = _U(1)
_POLL_EVERY = 4
_LOOK_AT_CLOCK_EVERY = 64


@cuda.jit(device=True, forceinline=True)
def walk_word_nodes(
    warp, words, ints, frames, state, table, candidates, forbidden, chunk, pool, warps, output, control,
    wide_control, deadline, mode
):  # fmt: skip
    """Work on the warp's stack of word frames until it is empty or the slice is to end; `PAUSED` says the latter."""
    lane = cuda.laneid
    depth = state[at.DEPTH]
    found = 0
    status = at.DONE
    n_visits = 0
    n_opened = 0
    n_families = 0
    while depth >= 0:
        frame = frames[depth]
        first, n_rows, n_excluded = frame[at.WORDS], frame[at.N_ROWS], frame[at.N_EXCLUDED]
        first_excluded = first + n_rows
        singles = _U(frame[at.SINGLES])
        cursor, end = frame[at.CURSOR], frame[at.END]
        pushed = False
        while cursor < end and not pushed:
            n_visits += 1
            if n_visits % _POLL_EVERY == 0:
                if n_visits % _LOOK_AT_CLOCK_EVERY == 0:
                    stop_if_late(control, deadline)
                signal = read_shared(control, at.SIGNAL)
                if signal >= at.STOP_BIT:
                    status = at.PAUSED
                    break
                if signal > 0:
                    if lane == 0:
                        frame[at.CURSOR] = cursor
                    cuda.syncwarp()
                    give_work(warp, depth, words, ints, frames, state, warps, control, mode)
                    end = frame[at.END]
            left = words[first + cursor]
            width = cuda.popc(left)
            checks = mode > at.COUNTS and pool.limits[at.ACTIVE] != 0
            if checks and weight_of_columns(left, ints, pool) < pool.limits[at.MIN_LEFT]:
                cursor += 1
                continue
            if width <= at.FAMILY_WIDTH:
                n_families += 1
                clear_family(candidates)
                clear_family(forbidden)
                cuda.syncwarp()
                positions = positions_of(left)
                for k in range(lane, n_rows, 32):
                    index = pack(words[first + k] & left, positions)
                    if k >= cursor:
                        add_to_family(candidates, index)
                    else:
                        add_to_family(forbidden, index)
                for k in range(lane, n_excluded, 32):
                    add_to_family(forbidden, pack(words[first_excluded + k] & left, positions))
                if lane < width and (pack(singles & left, positions) >> _U(lane)) & _ONE:
                    add_to_family(forbidden, _ONE << _U(lane))
                cuda.syncwarp()
                family = maximal_family(lane_part(candidates), lane_part(forbidden), width)
                cuda.syncwarp()
                if mode == at.COUNTS:
                    found += cuda.popc(family)
                elif not emit_family(
                    family, left, frame[at.BASE], frame[at.N_BASE], frame[at.BASE_IDS], words, ints, mode, chunk, pool,
                    output, wide_control, state
                ):  # fmt: skip
                    ask_to_stop(control, at.OUTPUT_FULL)
                    status = at.PAUSED
                    break
            else:
                n_opened += 1
                top = frame[at.WORDS_TOP]
                needed = top + n_rows + n_excluded
                if mode > at.COUNTS:
                    needed += frame[at.N_BASE]
                if needed > words.size:
                    if lane == 0:
                        cuda.atomic.max(wide_control, at.NEEDED_WORDS, needed)
                    ask_to_stop(control, at.WORDS_SHORT)
                    status = at.PAUSED
                    break
                if mode > at.COUNTS and not emit_word(
                    left, frame[at.BASE], frame[at.N_BASE], frame[at.BASE_IDS], words, ints, mode, chunk, pool, output,
                    wide_control, state
                ):  # fmt: skip
                    ask_to_stop(control, at.OUTPUT_FULL)
                    status = at.PAUSED
                    break
                n_kept = _candidates_of_child(
                    left, cursor, words, top, first, n_rows, first_excluded, n_excluded, singles
                )
                if mode == at.COUNTS:
                    if lane == 0:
                        found += 1 + min(n_kept, 2)
                    if n_kept == 2:
                        both = words[top] & words[top + 1]
                        if both != _U(0) and both != words[top]:
                            alive = np.uint32(1)
                            if both & (both - _ONE) == _U(0) and both & singles != _U(0):
                                alive = np.uint32(0)
                            if alive != 0:
                                alive = inside_none(words, first_excluded, n_excluded, both, alive)
                            if alive != 0:
                                alive = inside_none(words, first, cursor, both, alive)
                            if alive != 0 and lane == 0:
                                found += 1
                    pushed = n_kept > 2
                    if pushed and lane == 0:
                        found -= 2
                else:
                    pushed = n_kept > 0
                if pushed:
                    pushed = _push_child(
                        left, cursor, frame, frames[depth + 1], top, n_kept, words, ints, table, pool, mode
                    )
            cursor += 1
        cuda.syncwarp()
        if lane == 0:
            frame[at.CURSOR] = cursor
        cuda.syncwarp()
        if status == at.PAUSED:
            break
        if pushed:
            depth += 1
        else:
            depth -= 1
    found = sum_all(found)
    cuda.syncwarp()
    if lane == 0:
        state[at.DEPTH] = depth
        state[at.N_OPENED] += n_opened
        state[at.N_FAMILIES] += n_families
        if mode == at.COUNTS:
            state[at.FOUND] += found
    cuda.syncwarp()
    return status


@cuda.jit(device=True, forceinline=True)
def _candidates_of_child(left, cursor, words, top, first, n_rows, first_excluded, n_excluded, singles):
    """The later rows' restrictions to `left` at the arena's top: distinct, ascending, none dominated."""
    lane = cuda.laneid
    n_raw = 0
    for tile in range(cursor + 1, n_rows, 32):
        row = _U(0)
        if tile + lane < n_rows:
            row = words[first + tile + lane] & left
        keep = row != _U(0) and row != left
        mask = ballot(keep)
        if keep:
            words[top + n_raw + rank(mask)] = row
        n_raw += cuda.popc(np.uint32(mask))
    cuda.syncwarp()
    if n_raw == 0:
        return 0
    n_kept = drop_dominated(words, top, n_raw, singles, first_excluded, n_excluded, first, cursor)
    return sort_distinct(words, top, n_kept)


@cuda.jit(device=True, forceinline=True)
def _push_child(left, cursor, frame, child, top, n_kept, words, ints, table, pool, mode):
    """Make the child's frame; False where no biclique below it can be large enough."""
    lane = cuda.laneid
    first, n_rows = frame[at.WORDS], frame[at.N_ROWS]
    union = union_of(words, top, n_kept)
    singles = _U(0)
    clear_table(table)
    n_excluded, singles = restrict(words, first + n_rows, frame[at.N_EXCLUDED], union, top + n_kept, 0, singles, table)
    n_excluded, singles = restrict(words, first, cursor, union, top + n_kept, n_excluded, singles, table)
    singles = or_all(singles) | (_U(frame[at.SINGLES]) & union)
    words_top = top + n_kept + n_excluded
    ints_top = frame[at.INTS_TOP]
    n_base = 0
    if mode > at.COUNTS:
        base, base_ids = frame[at.BASE], frame[at.BASE_IDS]
        weight = 0
        for tile in range(0, frame[at.N_BASE], 32):
            row = _U(0)
            if tile + lane < frame[at.N_BASE]:
                row = words[base + tile + lane] & left
            mask = ballot(row != _U(0))
            if row != _U(0):
                row_id = ints[base_ids + tile + lane]
                place = n_base + rank(mask)
                words[words_top + place] = row
                ints[ints_top + place] = row_id
                weight += pool.row_weights[row_id]
            n_base += cuda.popc(np.uint32(mask))
        if pool.limits[at.ACTIVE] != 0 and sum_all(weight) < pool.limits[at.MIN_RIGHT]:
            return False
    cuda.syncwarp()
    if lane == 0:
        set_frame(child, n_kept, n_excluded, singles, top, words_top, n_base, ints_top)
    cuda.syncwarp()
    return True


@cuda.jit(device=True, forceinline=True)
def set_frame(frame, n_kept, n_excluded, singles, first, base, n_base, base_ids):
    """Fill in a frame whose base is the last thing it owns in both arenas; by one lane."""
    frame[at.CURSOR] = 0
    frame[at.END] = n_kept
    frame[at.N_ROWS] = n_kept
    frame[at.N_EXCLUDED] = n_excluded
    frame[at.WORDS] = first
    frame[at.WORDS_TOP] = base + n_base
    frame[at.BASE] = base
    frame[at.N_BASE] = n_base
    frame[at.BASE_IDS] = base_ids
    frame[at.INTS_TOP] = base_ids + n_base
    frame[at.SINGLES] = np.int64(singles)

"""Nodes with at most 32 left vertices, on a warp's own stack: lanes over rows, one word a row.

In the arena of words a frame keeps its candidates' rows (distinct, ascending, none dominated), behind them the
excluded rows, and where bicliques are written, its *base*: every row that can be in a right side below, with ids in the
arena of ints. The columns of all frames of a stack are bits of the same 32, the header of ints says what they are.
The first frame of a stack has one child only, the node that the stack is there for (`sparse_word`).
"""

from __future__ import annotations

import numpy as np
from numba import cuda

from mbe_stage.bicliques.cuda import layout as at
from mbe_stage.bicliques.cuda.base import drop_from_base, restrict_base, set_base
from mbe_stage.bicliques.cuda.bounds import allows, limits_hold
from mbe_stage.bicliques.cuda.emit import emit_below, weight_of_columns
from mbe_stage.bicliques.cuda.family import collect_families, fewest_members, maximal_family, moves_of, without_whole
from mbe_stage.bicliques.cuda.rows import drop_dominated, inside_none, restrict, sort_distinct, union_of
from mbe_stage.bicliques.cuda.share import ask_for_words, ask_to_stop, give_work, is_drawn, read_shared, stop_if_late
from mbe_stage.bicliques.cuda.techniques import DOMINATED, FAMILIES, SPLITTING
from mbe_stage.device.warp import ballot, count_bits, next_tile, rank, sum_small

__all__ = ["set_frame", "walk_word_nodes"]

_U = np.uint32
_ONE = _U(1)
_NONE = _U(0)
_NO_MOVES = (_NONE, _NONE, _NONE, _NONE, _NONE)
_LOOK_AT_CLOCK_EVERY = 64


@cuda.jit(device=True, forceinline=True)
def walk_word_nodes(warp, own, pool, warps, output, control, wide_control, deadline, mode, techniques):
    """Work on the warp's stack of word frames until it is empty or the slice is to end; `PAUSED` says the latter."""
    lane = np.int32(cuda.laneid)
    words, frames, state = own.words, own.frames, own.state
    depth = np.int32(state[at.DEPTH])
    found = np.int32(0)
    status = at.DONE
    n_visits = np.int32(0)
    n_opened = np.int32(0)
    n_families = np.int32(0)
    checks = limits_hold(mode, pool)
    while depth >= 0 and status == at.DONE:
        frame = frames[_U(depth)]
        first, cursor, end = frame[at.WORDS], frame[at.CURSOR], frame[at.END]
        pushed = False
        while cursor < end and not pushed:
            n_visits = np.int32(n_visits + 1)
            is_over, end = _look_around(
                warp, n_visits, cursor, end, depth, own, warps, control, deadline, mode, techniques
            )
            if is_over:
                status = at.PAUSED
                break
            left = words[_U(first + cursor)]
            width = count_bits(left)
            left_most = weight_of_columns(left, own) if checks else np.int32(0)
            if checks and left_most < pool.limits[at.MIN_LEFT]:
                cursor = np.int32(cursor + 1)
                continue
            if techniques & DOMINATED == 0 and _is_excluded(left, cursor, frame, words):
                cursor = np.int32(cursor + 1)
                continue
            is_small = width <= at.FAMILY_WIDTH and techniques & FAMILIES != 0
            kind = frame[at.KIND]
            is_written = _is_written(kind, mode, techniques)
            needs_room = mode > at.COUNTS or not is_small
            if needs_room and not _has_room_for_child(frame, words, control, wide_control, mode):
                status = at.PAUSED
                break
            family, moves = _NONE, _NO_MOVES
            top, n_kept, n_listed = np.int32(0), np.int32(0), np.int32(0)
            if is_small:
                family, moves = _family_below(left, width, cursor, kind, is_written, frame, own)
                n_families = np.int32(n_families + 1)
            else:
                # Where something is written, the base will stand before the candidates.
                top = np.int32(frame[at.WORDS_TOP] + (frame[at.N_BASE] if mode > at.COUNTS else 0))
                n_kept = _candidates_of_child(left, cursor, kind, frame, top, words, techniques)
                n_listed = _list_small(n_kept, cursor, frame, top, words) if techniques & DOMINATED != 0 else n_kept
                if kind != at.WIDE:
                    n_opened = np.int32(n_opened + 1)
            goes_below = n_kept > (2 if techniques & DOMINATED != 0 else 0)
            n_base, right_least = np.int32(0), np.int32(0)
            if mode == at.COUNTS:
                if is_small:
                    found = np.int32(found + count_bits(family))
                elif lane == 0:
                    found = np.int32(found + (kind != at.WIDE) + (0 if goes_below else n_listed))
            elif ballot(family != 0) != 0 if is_small else n_kept > 0 or not is_written:
                fewest = fewest_members(family) if is_small else np.int32(1)
                n_base, right_least, right_most = restrict_base(left, fewest, cursor, frame, own, pool, mode)
                if checks and not allows(left_most, right_least, right_most, pool):
                    cursor = np.int32(cursor + 1)
                    continue
                list_at = np.int32(top if techniques & DOMINATED != 0 else top + n_kept)
                n_new = np.int32(n_listed if techniques & DOMINATED != 0 else 0)
                if not is_small and not is_written:
                    if lane == 0:
                        words[_U(list_at + n_new)] = left
                    n_new = np.int32(n_new + 1)
                    cuda.syncwarp()
                if not emit_below(
                    is_small, family, left, moves, list_at, n_new, frame[at.WORDS_TOP], n_base, frame[at.INTS_TOP],
                    own, mode, pool, output, wide_control
                ):  # fmt: skip
                    ask_to_stop(control, at.OUTPUT_FULL)
                    status = at.PAUSED
                    break
            if goes_below and checks:
                n_base, right_most = drop_from_base(left, n_base, top, n_kept, frame, own, pool)
                goes_below = allows(left_most, right_least, right_most, pool)
            if goes_below:
                _push_child(cursor, frame, frames[_U(depth + 1)], top, n_kept, n_base, own)
                pushed = True
            cursor = np.int32(cursor + 1)
        cuda.syncwarp()
        if lane == 0:
            frame[at.CURSOR] = cursor
        cuda.syncwarp()
        if status == at.DONE:
            depth = np.int32(depth + (1 if pushed else -1))
    found = sum_small(found)
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
def _look_around(warp, n_visits, cursor, end, depth, own, warps, control, deadline, mode, techniques):
    """Whether the slice is to end; else an idle warp is given children, and where this warp's end now is said, too."""
    if n_visits % _LOOK_AT_CLOCK_EVERY == 0:
        stop_if_late(control, deadline)
    signal = read_shared(control, at.SIGNAL)
    if signal >= at.STOP_BIT:
        return True, end
    if signal > 0 and techniques & SPLITTING != 0 and is_drawn(warp, n_visits, signal, warps):
        frame = own.frames[_U(depth)]
        if cuda.laneid == 0:
            frame[at.CURSOR] = cursor
        cuda.syncwarp()
        give_work(warp, depth, own, warps, control, mode)
        end = frame[at.END]
    return False, end


@cuda.jit(device=True, forceinline=True)
def _is_written(kind, mode, techniques):
    """Whether a frame's children are in the output when they are visited: all candidates of a node are bicliques, and
    are written together, by the time a frame is made of them. That is so where no dominated ones are among them.
    """
    return kind == at.WIDE or (mode > at.COUNTS and techniques & DOMINATED != 0 and kind == at.BELOW)


@cuda.jit(device=True, forceinline=True)
def _family_below(left, width, cursor, kind, is_written, frame, own):
    """This lane's part of all left sides below a small child that are not written yet, and how they are packed."""
    moves = moves_of(left)
    candidates, excluded = collect_families(
        left, moves, own.words, frame[at.WORDS], cursor, frame[at.N_ROWS], frame[at.N_EXCLUDED],
        _U(frame[at.SINGLES]), own.families
    )  # fmt: skip
    family = maximal_family(candidates, excluded, width)
    if is_written:
        # Below a wide child the columns of the word may be a left set again.
        family = without_whole(family, candidates if kind == at.WIDE else _NONE, width)
    return family, moves


@cuda.jit(device=True, forceinline=True)
def _has_room_for_child(frame, words, control, wide_control, mode):
    # The candidates of the child, what two have in common, and the child itself; the excluded rows.
    needed = frame[at.WORDS_TOP] + frame[at.N_ROWS] + 2 + frame[at.N_EXCLUDED]
    if mode > at.COUNTS:
        needed = max(needed, frame[at.INTS_TOP]) + frame[at.N_BASE]
    return ask_for_words(needed, words, control, wide_control)


@cuda.jit(device=True, forceinline=True)
def _candidates_of_child(left, cursor, kind, frame, top, words, techniques):
    """The later rows' restrictions to `left`, from `top` on: distinct, ascending, none dominated.

    A later row that holds all of `left` is in the right side of every biclique below. Where `left` is part of a larger
    left set, that of a wide child, such a row is a candidate like the others: those that hold the whole set are not
    here.
    """
    lane = np.int32(cuda.laneid)
    first, n_rows = frame[at.WORDS], frame[at.N_ROWS]
    n_raw = np.int32(0)
    tile = np.int32(cursor + 1)
    while tile < n_rows:
        row = _NONE
        if np.int32(tile + lane) < n_rows:
            row = _U(words[_U(first + tile + lane)] & left)
        keep = row != 0 and (kind == at.WIDE or row != left)
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


@cuda.jit(device=True, forceinline=True)
def _push_child(cursor, frame, child, top, n_kept, n_base, own):
    """Make the child's frame: its base is laid already, its candidates begin at `top`, excluded rows behind them."""
    union = union_of(own.words, top, n_kept)
    n_earlier = np.int32(cursor + frame[at.N_EXCLUDED])
    gap = np.int32(frame[at.N_ROWS] - cursor)
    excluded_at = np.int32(top + n_kept)
    n_excluded, singles = restrict(own.words, frame[at.WORDS], cursor, gap, n_earlier, union, excluded_at, own.table)
    singles = _U(singles | (_U(frame[at.SINGLES]) & union))
    if cuda.laneid == 0:
        set_frame(child, n_kept, n_excluded, singles, top, excluded_at + n_excluded)
        set_base(child, frame[at.WORDS_TOP], n_base, frame[at.INTS_TOP])
        child[at.END] = n_kept
        child[at.KIND] = at.BELOW
    cuda.syncwarp()


@cuda.jit(device=True, forceinline=True)
def set_frame(frame, n_rows, n_excluded, singles, first, words_top):
    """Say where a frame's rows are, its excluded ones behind them, and where the arena of words is free; by one lane.

    Which children are ahead, and the base, are to be set too.
    """
    frame[at.CURSOR] = 0
    frame[at.N_ROWS] = n_rows
    frame[at.N_EXCLUDED] = n_excluded
    frame[at.SINGLES] = np.int32(singles)
    frame[at.WORDS] = first
    frame[at.WORDS_TOP] = words_top

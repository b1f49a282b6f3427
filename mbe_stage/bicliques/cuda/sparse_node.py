"""Nodes with many left vertices, and the whole graph itself: a child is found by counting over its two-step paths.

A row's paths are walked by lanes side by side, whatever the lengths of the columns: 32 columns at a time lay their
lists end to end, and each lane finds the column its path belongs to.
"""

from __future__ import annotations

import numpy as np
from numba import cuda

from mbe_stage.bicliques.cuda import layout as at
from mbe_stage.bicliques.cuda.emit import emit_family, emit_list, emit_word
from mbe_stage.bicliques.cuda.family import add_to_family, clear_family, lane_part, maximal_family
from mbe_stage.bicliques.cuda.rows import clear_table, drop_dominated, restrict, sort_distinct, union_of
from mbe_stage.bicliques.cuda.share import ask_to_stop
from mbe_stage.bicliques.cuda.sparse_build import build_sparse_node
from mbe_stage.bicliques.cuda.warp import ALL, ballot, inclusive_sum, or_all, owner_of, rank, sum_all
from mbe_stage.bicliques.cuda.word_node import set_frame

__all__ = ["visit_sparse_child"]

_U = np.uint64
_ONE = _U(1)


@cuda.jit(device=True, forceinline=True)
def visit_sparse_child(
    node, row, words, ints, frames, state, own_nodes, bits, counts, touched, columns, table, candidates,
    forbidden, chunk, pool, output, control, wide_control, mode
):  # fmt: skip
    """Visit a child of a sparse node; it may leave a word frame on the (empty) stack, or a new sparse node.

    `PAUSED` says that something was short: the child is to be visited again in the next slice.
    """
    lane = cuda.laneid
    fields = pool.nodes[node]
    n_columns, n_rows, n_edges = fields[at.NODE_COLUMNS], fields[at.NODE_ROWS], fields[at.NODE_EDGES]
    column_ids_at = fields[at.NODE_BASE]
    row_ids_at = column_ids_at + n_columns
    row_offsets_at = row_ids_at + n_rows
    column_offsets_at = row_offsets_at + n_rows + 1
    row_members_at = column_offsets_at + n_columns + 1
    column_members_at = row_members_at + n_edges
    path_at = column_members_at + n_edges
    n_path = fields[at.NODE_PATH]
    left_at = row_members_at + pool.ints[row_offsets_at + row]
    n_left = pool.ints[row_offsets_at + row + 1] - pool.ints[row_offsets_at + row]

    if pool.limits[at.ACTIVE] != 0:
        weight = 0
        for k in range(lane, n_left, 32):
            weight += pool.column_weights[pool.ints[column_ids_at + pool.ints[left_at + k]]]
        if sum_all(weight) < pool.limits[at.MIN_LEFT]:
            return at.DONE

    is_wide = n_left > at.WORD_BITS
    n_touched = 0
    for group in range(0, n_left, 32):
        length, shift = _lists_of(group, n_left, left_at, column_offsets_at, pool.ints)
        ends = inclusive_sum(length)
        shift += column_members_at - (ends - length)
        total = cuda.shfl_sync(ALL, ends, 31)
        for tile in range(0, total, 32):
            holder = owner_of(tile + lane, ends)
            start = cuda.shfl_sync(ALL, shift, holder)
            is_new = False
            other = 0
            if tile + lane < total:
                other = pool.ints[start + tile + lane]
                if is_wide:
                    is_new = cuda.atomic.add(counts, other, 1) == 0
                else:
                    is_new = cuda.atomic.or_(bits, other, _ONE << _U(group + holder)) == _U(0)
            mask = ballot(is_new)
            if is_new:
                touched[n_touched + rank(mask)] = other
            n_touched += cuda.popc(np.uint32(mask))
    cuda.syncwarp()

    status = at.DONE
    is_written = False
    if not is_wide and n_left <= at.FAMILY_WIDTH:
        status = _finish_narrow(
            row, n_left, left_at, path_at, n_path, column_ids_at, row_ids_at, n_touched, words, ints, state, bits,
            touched, candidates, forbidden, chunk, pool, output, control, wide_control, mode
        )  # fmt: skip
    elif not is_wide or not _wide_is_excluded(row, n_left, n_touched, counts, touched):
        n_kept_columns = n_left
        if is_wide:
            if mode == at.COUNTS:
                if lane == 0 and state[at.EMITTED] == 0:
                    state[at.FOUND] += 1
            elif state[at.EMITTED] == 0 and not emit_list(
                left_at, n_left, path_at, n_path, row_ids_at, touched, n_touched, counts, mode, chunk, pool, output,
                wide_control, state, column_ids_at
            ):  # fmt: skip
                ask_to_stop(control, at.OUTPUT_FULL)
                status = at.PAUSED
            is_written = status == at.DONE
            if is_written:
                n_kept_columns = _keep_columns(
                    row, n_left, left_at, column_offsets_at, column_members_at, counts, columns, pool.ints
                )
                if 0 < n_kept_columns <= at.WORD_BITS:
                    _mark_rows(n_left, left_at, column_offsets_at, column_members_at, bits, counts, columns, pool.ints)
        if status == at.DONE and 0 < n_kept_columns <= at.WORD_BITS:
            status = _open_word_frame(
                row, is_wide, n_left, left_at, path_at, n_path, column_ids_at, row_ids_at, n_touched, words, ints,
                frames, state, bits, counts, touched, columns, table, chunk, pool, output, control,
                wide_control, mode
            )  # fmt: skip
        elif status == at.DONE and n_kept_columns > at.WORD_BITS:
            status = build_sparse_node(
                row, n_left, left_at, path_at, n_path, column_ids_at, row_ids_at, column_offsets_at,
                column_members_at, n_kept_columns, n_touched, own_nodes, state, bits, counts, touched, columns, pool,
                control, wide_control
            )  # fmt: skip
        if is_wide:
            cuda.syncwarp()
            if lane == 0:
                state[at.N_WIDE] += 1
                # Once the biclique itself is out, a second visit only makes the node.
                if status == at.PAUSED and is_written:
                    state[at.EMITTED] = 1
    cuda.syncwarp()
    for k in range(lane, n_touched, 32):
        bits[touched[k]] = _U(0)
        if is_wide:
            counts[touched[k]] = 0
    if status == at.DONE and lane == 0:
        state[at.EMITTED] = 0
    cuda.syncwarp()
    return status


@cuda.jit(device=True, forceinline=True)
def _lists_of(group, n_left, left_at, column_offsets_at, numbers):
    """Length and start of the list of this lane's column, the `group + lane`-th of the left set."""
    k = group + cuda.laneid
    start = 0
    length = 0
    if k < n_left:
        column = numbers[left_at + k]
        start = numbers[column_offsets_at + column]
        length = numbers[column_offsets_at + column + 1] - start
    return length, np.int64(start)


@cuda.jit(device=True, forceinline=True)
def _wide_is_excluded(row, n_left, n_touched, counts, touched):
    """Whether an earlier row holds the whole left set."""
    excluded = False
    for k in range(cuda.laneid, n_touched, 32):
        other = touched[k]
        if other < row and counts[other] == n_left:
            excluded = True
    return cuda.any_sync(ALL, excluded) != 0


@cuda.jit(device=True, forceinline=True)
def _keep_columns(row, n_left, left_at, column_offsets_at, column_members_at, counts, columns, numbers):
    """Number, in `columns`, the columns that a later row (which does not hold them all) has; -1 for the others."""
    lane = cuda.laneid
    for k in range(lane, n_left, 32):
        columns[k] = 0
    cuda.syncwarp()
    for group in range(0, n_left, 32):
        length, shift = _lists_of(group, n_left, left_at, column_offsets_at, numbers)
        ends = inclusive_sum(length)
        shift += column_members_at - (ends - length)
        total = cuda.shfl_sync(ALL, ends, 31)
        for tile in range(0, total, 32):
            holder = owner_of(tile + lane, ends)
            start = cuda.shfl_sync(ALL, shift, holder)
            if tile + lane < total:
                other = numbers[start + tile + lane]
                if other > row and counts[other] != n_left:
                    columns[group + holder] = 1
    cuda.syncwarp()
    n_kept = 0
    for tile in range(0, n_left, 32):
        keep = False
        if tile + lane < n_left:
            keep = columns[tile + lane] == 1
        mask = ballot(keep)
        if tile + lane < n_left:
            columns[tile + lane] = n_kept + rank(mask) if keep else -1
        n_kept += cuda.popc(np.uint32(mask))
    cuda.syncwarp()
    return n_kept


@cuda.jit(device=True, forceinline=True)
def _mark_rows(n_left, left_at, column_offsets_at, column_members_at, bits, counts, columns, numbers):
    """Collect the kept columns of every touched row that does not hold them all in its word."""
    lane = cuda.laneid
    for group in range(0, n_left, 32):
        length, shift = _lists_of(group, n_left, left_at, column_offsets_at, numbers)
        place = -1
        if group + lane < n_left:
            place = columns[group + lane]
        if place < 0:
            length = 0
        ends = inclusive_sum(length)
        shift += column_members_at - (ends - length)
        total = cuda.shfl_sync(ALL, ends, 31)
        for tile in range(0, total, 32):
            holder = owner_of(tile + lane, ends)
            start = cuda.shfl_sync(ALL, shift, holder)
            bit = cuda.shfl_sync(ALL, place, holder)
            if tile + lane < total:
                other = numbers[start + tile + lane]
                if counts[other] != n_left:
                    cuda.atomic.or_(bits, other, _ONE << _U(bit))
    cuda.syncwarp()


@cuda.jit(device=True, forceinline=True)
def _lay_base(
    row, is_wide, n_left, path_at, n_path, row_ids_at, n_touched, base, words, ints, bits, counts, touched, pool
):
    """Every row that can be in a right side below: the path and the later rows; returns how many, and their weight."""
    lane = cuda.laneid
    weight = 0
    for k in range(lane, n_path, 32):
        words[base + k] = ~_U(0)
        ints[at.WORD_BITS + k] = pool.ints[path_at + k]
        weight += pool.row_weights[pool.ints[path_at + k]]
    n_base = n_path
    for tile in range(0, n_touched, 32):
        known = _U(0)
        other = 0
        if tile + lane < n_touched:
            other = touched[tile + lane]
            if other >= row:
                known = bits[other]
                if is_wide and counts[other] == n_left:
                    known = ~_U(0)
        mask = ballot(known != _U(0))
        if known != _U(0):
            row_id = pool.ints[row_ids_at + other]
            words[base + n_base + rank(mask)] = known
            ints[at.WORD_BITS + n_base + rank(mask)] = row_id
            weight += pool.row_weights[row_id]
        n_base += cuda.popc(np.uint32(mask))
    cuda.syncwarp()
    return n_base, sum_all(weight)


@cuda.jit(device=True, forceinline=True)
def _finish_narrow(
    row, n_left, left_at, path_at, n_path, column_ids_at, row_ids_at, n_touched, words, ints, state, bits, touched,
    candidates, forbidden, chunk, pool, output, control, wide_control, mode
):  # fmt: skip
    """The whole subtree of a child with few left vertices."""
    lane = cuda.laneid
    clear_family(candidates)
    clear_family(forbidden)
    cuda.syncwarp()
    for k in range(lane, n_touched, 32):
        other = touched[k]
        if other < row:
            add_to_family(forbidden, bits[other])
        else:
            add_to_family(candidates, bits[other])
    cuda.syncwarp()
    family = maximal_family(lane_part(candidates), lane_part(forbidden), n_left)
    cuda.syncwarp()
    if mode == at.COUNTS:
        found = sum_all(cuda.popc(family))
        if lane == 0:
            state[at.FOUND] += found
            state[at.N_FAMILIES] += 1
        return at.DONE
    if ballot(family != _U(0)) == 0:
        return at.DONE
    if n_path + n_touched > words.size:
        if lane == 0:
            cuda.atomic.max(wide_control, at.NEEDED_WORDS, n_path + n_touched)
        ask_to_stop(control, at.WORDS_SHORT)
        return at.PAUSED
    if lane < n_left:
        ints[lane] = pool.ints[column_ids_at + pool.ints[left_at + lane]]
    full = (_ONE << _U(n_left)) - _ONE
    n_base, _ = _lay_base(
        row, False, n_left, path_at, n_path, row_ids_at, n_touched, 0, words, ints, bits, bits, touched, pool
    )
    if emit_family(family, full, 0, n_base, at.WORD_BITS, words, ints, mode, chunk, pool, output, wide_control, state):
        return at.DONE
    ask_to_stop(control, at.OUTPUT_FULL)
    return at.PAUSED


@cuda.jit(device=True, forceinline=True)
def _open_word_frame(
    row, is_wide, n_left, left_at, path_at, n_path, column_ids_at, row_ids_at, n_touched, words, ints, frames, state,
    bits, counts, touched, columns, table, chunk, pool, output, control, wide_control, mode
):  # fmt: skip
    """Make a child whose candidates touch at most 64 columns the first frame of the stack, from the rows in `bits`.

    A wide child is known to be maximal and has been written; a narrow one is looked at here.
    """
    lane = cuda.laneid
    excluded_at = n_touched
    base = 2 * n_touched
    needed = base
    if mode > at.COUNTS:
        needed += n_path + n_touched
    if needed > words.size:
        if lane == 0:
            cuda.atomic.max(wide_control, at.NEEDED_WORDS, needed)
        ask_to_stop(control, at.WORDS_SHORT)
        return at.PAUSED
    full = ~_U(0) >> _U(at.WORD_BITS - min(n_left, at.WORD_BITS))
    n_raw = 0
    n_excluded = 0
    is_excluded = False
    for tile in range(0, n_touched, 32):
        known = _U(0)
        other = 0
        if tile + lane < n_touched:
            other = touched[tile + lane]
            known = bits[other]
        if not is_wide and known == full:
            known = _U(0)
            if other < row:
                is_excluded = True
        later = ballot(known != _U(0) and other > row)
        earlier = ballot(known != _U(0) and other < row)
        if known != _U(0):
            if other > row:
                words[n_raw + rank(later)] = known
            else:
                words[excluded_at + n_excluded + rank(earlier)] = known
        n_raw += cuda.popc(np.uint32(later))
        n_excluded += cuda.popc(np.uint32(earlier))
    cuda.syncwarp()
    if cuda.any_sync(ALL, is_excluded):
        return at.DONE

    n_base = 0
    if mode > at.COUNTS:
        if is_wide:
            for k in range(lane, n_left, 32):
                if columns[k] >= 0:
                    ints[columns[k]] = pool.ints[column_ids_at + pool.ints[left_at + k]]
        else:
            for k in range(lane, n_left, 32):
                ints[k] = pool.ints[column_ids_at + pool.ints[left_at + k]]
        n_base, weight = _lay_base(
            row, is_wide, n_left, path_at, n_path, row_ids_at, n_touched, base, words, ints, bits, counts,
            touched, pool
        )  # fmt: skip
        if not is_wide and not emit_word(
            full, base, n_base, at.WORD_BITS, words, ints, mode, chunk, pool, output, wide_control, state
        ):
            ask_to_stop(control, at.OUTPUT_FULL)
            return at.PAUSED
        if pool.limits[at.ACTIVE] != 0 and weight < pool.limits[at.MIN_RIGHT]:
            return at.DONE
    elif not is_wide and lane == 0:
        state[at.FOUND] += 1
    if n_raw == 0:
        return at.DONE
    union = union_of(words, 0, n_raw)
    clear_table(table)
    n_excluded, singles = restrict(words, excluded_at, n_excluded, union, excluded_at, 0, _U(0), table)
    singles = or_all(singles)
    n_kept = drop_dominated(words, 0, n_raw, singles, excluded_at, n_excluded, excluded_at, 0)
    n_kept = sort_distinct(words, 0, n_kept)
    if n_kept == 0:
        return at.DONE
    union = union_of(words, 0, n_kept)
    clear_table(table)
    n_excluded, more_singles = restrict(words, excluded_at, n_excluded, union, n_kept, 0, _U(0), table)
    singles = (singles & union) | or_all(more_singles)
    if lane == 0:
        set_frame(frames[0], n_kept, n_excluded, singles, 0, base, n_base, at.WORD_BITS)
        if mode == at.COUNTS:
            frames[0, at.WORDS_TOP] = n_kept + n_excluded
        state[at.DEPTH] = 0
    cuda.syncwarp()
    return at.DONE

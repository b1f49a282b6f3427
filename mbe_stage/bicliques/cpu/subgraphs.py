"""Make the subgraph of a list child: which rows stay, their order, both directions of the edges."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from mbe_stage.bicliques.constraints import ACTIVE, MAX_LEFT
from mbe_stage.bicliques.cpu import layout
from mbe_stage.bicliques.cpu.emit import is_hopeless, needs_weights, path_multiplicity, take_child
from mbe_stage.bicliques.cpu.merged_columns import write_column_ids, write_column_weights
from mbe_stage.runtime.jit import compiled
from mbe_stage.search.cpu.quanta import OK, OUTPUT_FULL

_parts = njit(inline="always")(layout.subgraph_parts)
_U = np.uint64
_ONE = _U(1)
# Numba compiles functions that are called with plain numbers once more, for those very numbers.
_NONE: Any = np.int64(0)


@compiled(nrt=False)
def open_subgraph(child, collected, n_path, n_edges, n_nonzero, worker, sizes, output):
    """Visit a child and push it as a subgraph over the columns that were collected.

    Excluded rows come first, candidates in ascending size: then no candidate is dominated by an earlier one, unless
    they are equal.

    Parameters
    ----------
    n_path : int
        Right members on the path, those that hold the whole left set included.
    n_edges, n_nonzero : int
        Entries of the new columns, and the rows in the accumulator, which holds how many columns they have.

    Returns
    -------
    int
        ``OK``, or the arena that is short: then nothing has changed.
    """
    words, ints = worker.words, worker.ints
    top = worker.frames[child.depth, layout.WORDS_TOP]
    start = collected.end
    n_ints = start + 3 * collected.n_columns + 2 * n_nonzero + 3 + 2 * n_edges + child.n_ids
    status = layout.shortage(top + n_nonzero + collected.n_columns, n_ints, worker)
    if status != OK:
        return status
    if not take_child(child, n_path, worker, sizes, output):
        return OUTPUT_FULL
    is_bounded = sizes.constraints[ACTIVE] != 0 if output is not None else needs_weights(n_path, sizes)
    if is_bounded and _is_hopeless_below(child, collected, n_path, n_nonzero, worker, sizes, output):
        return OK

    n_edges -= _drop_single_columns(
        collected, child.left_end - child.left_at, not is_bounded and output is None, worker
    )
    n_rows, n_excluded = _order_rows(child.row, top, n_nonzero, ints[start:], collected.n_columns, worker)
    end = _write_edges(child, collected, n_rows, n_edges, top, worker)
    n_left = child.left_end - child.left_at
    kept = layout.KeptColumns(
        ints, collected.scratch + 3 * n_left, collected.n_kept, collected.n_columns, collected.scratch + 4 * n_left
    )
    write_column_weights(child, kept, ints, start)
    if output is not None:
        end += write_column_ids(child, kept, ints, start + collected.n_columns, collected.n_columns + 1, end)
    # The scratch has done its work: move the node down over it.
    for k in range(end - start):
        ints[collected.scratch + k] = ints[start + k]
    end -= start - collected.scratch
    _push(child.depth + 1, n_excluded, n_rows, collected, end, top, n_path, worker)
    base = first_in_words(n_rows, n_excluded)
    write_last_rows(ints, collected.scratch, n_rows, collected.n_columns, base, words, top)
    return OK


@compiled(nrt=False)
def write_last_rows(node, offset, n_rows, n_columns, base, words, top):
    """Write a word per column of a subgraph, from ``words[top]`` on: which of its rows from `base` on hold it.

    Parameters
    ----------
    node, offset : int32, int
        The subgraph is at ``node[offset]``.
    """
    words[top : top + n_columns] = _U(0)
    row_offsets = offset + 2 * n_columns + 1 + n_rows
    row_members = row_offsets + n_rows + n_columns + 2
    for row in range(base, n_rows):
        bit = _ONE << _U(row - base)
        for j in range(row_members + node[row_offsets + row], row_members + node[row_offsets + row + 1]):
            words[top + node[j]] |= bit


@njit(inline="always")
def first_in_words(n_rows, n_excluded):
    """First row that has bits in the words of a subgraph's columns."""
    return max(n_excluded, n_rows - layout.WORD_BITS)


@njit(inline="always")
def _is_hopeless_below(child, collected, n_path, n_nonzero, worker, sizes, output):
    """True if no biclique below the child can satisfy the size constraints."""
    node, row, row_ids = child.node, child.row, child.row_ids
    bits, nonzero = worker.bits, worker.nonzero
    right_least = n_path if output is None else path_multiplicity(worker.path, n_path, sizes)
    right_most = right_least
    n_candidates = 0
    for k in range(n_nonzero):
        if bits[nonzero[k]] and nonzero[k] > row:
            n_candidates += 1
            right_most += sizes.right_multiplicities[node[row_ids + nonzero[k]]]
    if is_hopeless(child.n_left, right_least + 1, right_most, sizes.constraints):
        return True
    return sizes.are_exact and _common_weight(child, collected, n_candidates, worker) > sizes.constraints[MAX_LEFT]


@njit(inline="always")
def _common_weight(child, collected, n_candidates, worker):
    """The user's left vertices that all candidates have in common, so that every biclique below has them."""
    ints, n_left = worker.ints, child.left_end - child.left_at
    candidates_at, kept_at = collected.scratch + n_left, collected.scratch + 3 * n_left
    weight = np.int64(0)
    for k in range(collected.n_kept):
        if ints[candidates_at + ints[kept_at + n_left + k]] == n_candidates:
            weight += child.node[child.column_weights + ints[kept_at + k]]
    return weight


@njit(inline="always")
def _drop_single_columns(collected, n_left, drops_candidates, worker):
    """Drop rows that hold one of the new columns alone, but for what they say: no left set is that column alone.

    Of those of a column one stays if no other excluded row holds it. Excluded ones do not tell candidates apart, and
    candidates say no more than the first of them, unless weights are wanted.

    Returns
    -------
    int
        Number of entries dropped from the columns.
    """
    ints, bits = worker.ints, worker.bits
    candidates_at, excluded_at = collected.scratch + n_left, collected.scratch + 2 * n_left
    n_dropped = np.int64(0)
    for k in range(collected.n_columns):
        start = ints[collected.scratch + k]
        first = start + ints[candidates_at + k]
        last = first + ints[excluded_at + k]
        end = first
        for j in range(first, last):
            other = ints[j]
            ints[end] = other
            end += bits[other] != _ONE
            bits[other] = _U(0) if bits[other] == _ONE else bits[other]
        if end == first and last > first:
            bits[ints[first]] = _ONE
            end += 1
        n_dropped += last - end
        ints[excluded_at + k] = end - first
        if not drops_candidates and end == first:
            continue
        begin, lone = first, np.int64(-1)
        for j in range(first - 1, start - 1, -1):
            other = ints[j]
            ints[begin - 1] = other
            lone = np.int64(other) if bits[other] == _ONE else lone
            begin -= bits[other] != _ONE
            bits[other] = _U(0) if bits[other] == _ONE else bits[other]
        if lone >= 0 and end == first:
            begin -= 1
            ints[begin] = lone
            bits[lone] = _ONE
        n_dropped += begin - start
        ints[collected.scratch + k] = begin
        ints[candidates_at + k] = first - begin
    return n_dropped


@njit(inline="always")
def _order_rows(row, top, n_nonzero, places, n_columns, worker):
    """List the rows that hold something, from ``words[top]`` on; returns how many, and how many excluded ones.

    There are ``n_columns + 1`` `places` to count with.
    """
    words, bits, nonzero = worker.words, worker.bits, worker.nonzero
    n_rows = 0
    for k in range(n_nonzero):
        if bits[nonzero[k]] and nonzero[k] < row:
            words[top + n_rows] = _U(nonzero[k])
            n_rows += 1
    n_excluded = n_rows
    # A counting sort: sizes are few numbers.
    for size in range(n_columns + 1):
        places[size] = 0
    for k in range(n_nonzero):
        if nonzero[k] > row:
            places[bits[nonzero[k]]] += 1
    n_rows -= places[0]
    for size in range(n_columns + 1):
        n_before = n_rows
        n_rows += places[size]
        places[size] = n_before
    for k in range(n_nonzero):
        size = bits[nonzero[k]]
        if size and nonzero[k] > row:
            words[top + places[size]] = _U(nonzero[k])
            places[size] += 1
    return n_rows, n_excluded


@njit(inline="always")
def _write_edges(child, collected, n_rows, n_edges, top, worker):
    """Write row ids and both directions of the edges behind the scratch; return their end.

    Parameters
    ----------
    n_rows, n_edges : int
        Those of the new subgraph.
    top : int
        List of its rows in the arena of words.
    """
    ints, words, bits = worker.ints, worker.words, worker.bits
    n_columns, start, lists_at = collected.n_columns, collected.end, collected.scratch
    n_left = child.left_end - child.left_at
    candidates_at, excluded_at = lists_at + n_left, lists_at + 2 * n_left
    row_ids, row_offsets, column_offsets, row_members, column_members, end = _parts(n_rows, n_columns, n_edges)
    row_ids, row_offsets, column_offsets = start + row_ids, start + row_offsets, start + column_offsets
    row_members, column_members = start + row_members, start + column_members
    # Each offset is first the begin of its list and, after filling, its end: the begin of the next.
    ints[row_offsets] = 0
    filled = np.int64(0)
    for local in range(n_rows):
        other = np.int64(words[top + local])
        ints[row_ids + local] = child.node[child.row_ids + other]
        ints[row_offsets + local + 1] = filled
        filled += np.int64(bits[other])
        bits[other] = _U(local + 1)
    for k in range(n_columns):
        list_at = ints[lists_at + k]
        for j in range(list_at, list_at + ints[candidates_at + k] + ints[excluded_at + k]):
            place = row_offsets + np.int64(bits[ints[j]])
            ints[row_members + ints[place]] = k
            ints[place] += 1
    for k in range(n_columns + 1):
        ints[column_offsets + k] = 0
    for k in range(n_edges):
        ints[column_offsets + ints[row_members + k] + 1] += 1
    n_before = 0
    for k in range(column_offsets + 1, column_offsets + n_columns + 1):
        n = ints[k]
        ints[k] = n_before
        n_before += n
    for local in range(n_rows):
        for j in range(ints[row_offsets + local], ints[row_offsets + local + 1]):
            place = column_offsets + ints[row_members + j] + 1
            ints[column_members + ints[place]] = local
            ints[place] += 1
    return start + end


@njit(inline="always")
def _push(depth, n_excluded, n_rows, collected, end, top, n_path, worker):
    """Make the frame of a subgraph that stands in the scratch's place.

    Parameters
    ----------
    n_excluded, n_rows : int
        Its children are the rows behind the excluded ones.
    end, top : int
        Tops of the arenas of ints and of words.
    """
    frames = worker.frames
    frames[depth, layout.KIND] = layout.SUBGRAPH
    frames[depth, layout.FIRST] = n_excluded
    frames[depth, layout.CURSOR] = n_excluded
    frames[depth, layout.END] = n_rows
    frames[depth, layout.N_ROWS] = n_rows
    frames[depth, layout.N_EXCLUDED] = n_excluded
    frames[depth, layout.N_COLUMNS] = collected.n_columns
    frames[depth, layout.INTS] = collected.scratch
    frames[depth, layout.INTS_TOP] = end
    frames[depth, layout.WORDS] = top
    frames[depth, layout.WORDS_TOP] = top + collected.n_columns
    frames[depth, layout.N_PATH] = n_path
    worker.control[layout.DEPTH] = depth

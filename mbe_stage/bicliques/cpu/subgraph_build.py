"""Build a subgraph: the part of a graph that a left set sees, with local numbers."""

from __future__ import annotations

import numpy as np
from numba import njit

from mbe_stage.bicliques.constraints import ACTIVE
from mbe_stage.bicliques.cpu import layout
from mbe_stage.bicliques.cpu.emit import emit_list, is_hopeless, path_multiplicity
from mbe_stage.bicliques.cpu.merged_columns import write_column_ids
from mbe_stage.bicliques.cpu.row_words import sort_rows
from mbe_stage.runtime.jit import compiled
from mbe_stage.search.cpu.quanta import OK, OUTPUT_FULL

_U = np.uint64
_LOW = _U(0xFFFFFFFF)

_parts = njit(inline="always")(layout.subgraph_parts)


@compiled(nrt=False)
def open_subgraph(child, collected, n_path, n_nonzero, worker, output):
    """Visit a child and push it as a subgraph over the columns that were collected.

    Excluded rows come first, candidates in ascending size: then no candidate is dominated by an earlier one, unless
    they are equal.

    Parameters
    ----------
    n_path : int
        Right members on the path, those that hold the whole left set included.
    n_nonzero : int
        Rows in the accumulator.

    Returns
    -------
    int
        ``OK``, or the arena that is short: then nothing has changed.
    """
    words, ints, control = worker.words, worker.ints, worker.control
    top = worker.frames[child.depth, layout.WORDS_TOP]
    start = collected.end
    n_edges = _count_edges(child, collected, worker)
    needed = start + 2 * collected.n_columns + 2 * n_nonzero + 3 + 2 * n_edges + child.n_ids
    if needed > ints.size:
        control[layout.NEEDED] = needed
        return layout.INTS_SHORT
    if top + n_nonzero > words.size:
        control[layout.NEEDED] = top + n_nonzero
        return layout.WORDS_SHORT
    if output is None:
        control[layout.COUNT] += 1
    elif not emit_list(child, n_path, worker, output):
        return OUTPUT_FULL
    elif output.constraints[ACTIVE] and _is_hopeless_below(child, n_path, n_nonzero, worker, output):
        return OK

    n_rows, n_excluded = _order_rows(child.row, top, n_nonzero, worker)
    end = _write_edges(child, collected, n_rows, n_edges, top, worker)
    if output is not None:
        end += _write_ids(child, collected, start, end, ints)
    # The scratch has done its work: move the node down over it.
    for k in range(end - start):
        ints[collected.scratch + k] = ints[start + k]
    end -= start - collected.scratch
    _push(child.depth + 1, n_excluded, n_rows, collected, end, top, n_path, worker)
    return OK


@njit(inline="always")
def _count_edges(child, collected, worker):
    """Count in `bits` how many of the new columns each row holds; returns how many edges that are."""
    ints, bits = worker.ints, worker.bits
    n_left = child.left_end - child.left_at
    lists_at = collected.scratch
    candidates_at, excluded_at = lists_at + n_left, lists_at + 2 * n_left
    n_edges = 0
    for k in range(collected.n_columns):
        list_at = ints[lists_at + k]
        n_members = ints[candidates_at + k] + ints[excluded_at + k]
        for j in range(list_at, list_at + n_members):
            bits[ints[j]] += _U(1)
        n_edges += n_members
    return n_edges


@njit(inline="always")
def _is_hopeless_below(child, n_path, n_nonzero, worker, output):
    """True if no biclique from the child on can satisfy the size constraints."""
    node, row, row_ids = child.node, child.row, child.row_ids
    bits, nonzero = worker.bits, worker.nonzero
    right_least = right_most = path_multiplicity(worker.path, n_path, output.right_multiplicities)
    for k in range(n_nonzero):
        if bits[nonzero[k]] and nonzero[k] > row:
            right_most += output.right_multiplicities[node[row_ids + nonzero[k]]]
    left_most = 0
    for k in range(child.left_at, child.left_end):
        column = child.offset + node[k]
        for j in range(child.column_ids + node[column], child.column_ids + node[column + 1]):
            left_most += output.left_multiplicities[node[j]]
    return is_hopeless(left_most, right_least, right_most, output.constraints)


@njit(inline="always")
def _order_rows(row, top, n_nonzero, worker):
    """List the rows that hold something, from ``words[top]`` on; returns how many, and how many excluded ones."""
    words, bits, nonzero = worker.words, worker.bits, worker.nonzero
    n_rows = 0
    for k in range(n_nonzero):
        if bits[nonzero[k]] and nonzero[k] < row:
            words[top + n_rows] = _U(nonzero[k])
            n_rows += 1
    n_excluded = n_rows
    for k in range(n_nonzero):
        if bits[nonzero[k]] and nonzero[k] > row:
            words[top + n_rows] = (bits[nonzero[k]] << _U(32)) | _U(nonzero[k])
            n_rows += 1
    sort_rows(words, top + n_excluded, top + n_rows)
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
        other = np.int64(words[top + local] & _LOW)
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
def _write_ids(child, collected, start, end, ints):
    """Write starts and ids of the columns; returns how many ids there are."""
    n_left = child.left_end - child.left_at
    kept = layout.KeptColumns(ints, collected.scratch + 3 * n_left, collected.n_kept, collected.scratch + 4 * n_left)
    return write_column_ids(child, kept, ints, start, collected.n_columns + 1, end)


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
    frames[depth, layout.N_COLUMNS] = collected.n_columns
    frames[depth, layout.INTS] = collected.scratch
    frames[depth, layout.INTS_TOP] = end
    frames[depth, layout.WORDS] = top
    frames[depth, layout.WORDS_TOP] = top
    frames[depth, layout.N_PATH] = n_path
    worker.control[layout.DEPTH] = depth

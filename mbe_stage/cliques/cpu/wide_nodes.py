"""Nodes of more than 64 candidates: frames with their own matrix, several words a row."""

from __future__ import annotations

import numpy as np
from numba import njit

from mbe_stage.bits import lowest_bit_index
from mbe_stage.cliques.cpu import layout
from mbe_stage.cliques.cpu.emit import emit_path
from mbe_stage.cliques.cpu.layout import Path
from mbe_stage.cliques.cpu.techniques import DOMINATED, PIVOT_X, UNIVERSAL
from mbe_stage.cliques.cpu.wide_rows import fill, has_bit, holds_all, inserted, is_empty, n_common, n_in
from mbe_stage.runtime.jit import compiled

_U = np.uint64
_ZERO = _U(0)
_ONE = _U(1)


@njit(inline="always")
def words_of_frame(n, n_excluded, n_words):
    """Words of a frame: rows, candidates, and one more mask while it is made."""
    return (n + n_excluded + 2) * n_words


@njit(inline="always")
def ints_of_frame(n, n_path):
    """Ints of a frame: its path, the vertices of its columns, the path with the universal ones, branches."""
    return 2 * n_path + 3 * n


@compiled(nrt=False)
def begin_wide(worker, output, matrix, path):
    """Push a node on the stack of frames, unless it is finished at once.

    Parameters
    ----------
    worker : WorkerState
        Its arenas have room for the whole frame.
    path : Path
        Stands before the vertices of the columns.
    """
    control, words = worker.control, worker.words
    n, n_words, rows, excluded, top, ids = matrix
    for row in range(excluded, top, n_words):
        if n_in(words, row, n_words) == n:
            return
    new_path = _join_universal(worker, matrix, path)
    if is_empty(words, top, n_words):
        emit_path(worker, output, new_path)
        return
    # Dropped excluded rows leave a gap, into which the mask of the candidates moves.
    candidates = _keep_excluded(worker, matrix)
    for k in range(n_words):
        words[candidates + k] = words[top + k]
    branches = new_path.start + new_path.n
    n_branches = _branch(worker, matrix, candidates, branches)
    control[layout.DEPTH] += 1
    frame = worker.frames[control[layout.DEPTH]]
    frame[layout.KIND] = layout.WIDE
    frame[layout.FIRST], frame[layout.CURSOR], frame[layout.END] = 0, 0, n_branches
    frame[layout.N_COLUMNS], frame[layout.N_WORDS] = n, n_words
    frame[layout.CANDIDATES], frame[layout.ROWS] = candidates, rows
    frame[layout.EXCLUDED], frame[layout.N_EXCLUDED] = excluded, (candidates - excluded) // n_words
    frame[layout.WORDS_TOP] = candidates + n_words
    frame[layout.IDS], frame[layout.PATH], frame[layout.N_PATH] = ids, new_path.start, new_path.n
    frame[layout.BRANCHES], frame[layout.INTS_TOP] = branches, branches + n_branches


@njit(inline="always")
def _join_universal(worker, matrix, path):
    """Write the candidates without the universal ones behind the rows, and the path with them behind the ids."""
    words, ints = worker.words, worker.ints
    n, n_words, rows, _, candidates, ids = matrix
    new_path = Path(ids + n, path.n)
    for k in range(path.n):
        ints[new_path.start + k] = ints[path.start + k]
    fill(words, candidates, n)
    if UNIVERSAL:
        for column in range(n):
            if n_in(words, rows + column * n_words, n_words) == n - 1:
                words[candidates + (column >> 6)] ^= _ONE << _U(column & 63)
                new_path = inserted(ints, new_path, ints[ids + column], new_path.start)
    return new_path


@njit(inline="always")
def _keep_excluded(worker, matrix):
    """Keep excluded rows that contain every universal candidate and are not dominated; return the new end."""
    words = worker.words
    n, n_words, rows, excluded, top, _ = matrix
    candidates, universal = top, top + n_words
    fill(words, universal, n)
    for k in range(n_words):
        words[universal + k] ^= words[candidates + k]
    end = excluded
    for row in range(excluded, top, n_words):
        if not holds_all(words, row, universal, n_words):
            continue
        for k in range(n_words):
            words[end + k] = words[row + k] & words[candidates + k]
        if is_empty(words, end, n_words) or (DOMINATED and _is_dominated(words, end, rows, candidates, n_words)):
            continue
        end += n_words
    return end


@njit(inline="always")
def _is_dominated(words, row, rows, candidates, n_words):
    """Return True if some candidate is adjacent to all candidates of a row (`word_walk`)."""
    for k in range(n_words):
        common = words[candidates + k]
        for j in range(n_words):
            rest = words[row + j]
            while rest != _ZERO and common != _ZERO:
                common &= words[rows + (j * layout.WORD_BITS + lowest_bit_index(rest)) * n_words + k]
                rest &= rest - _ONE
        if common != _ZERO:
            return True
    return False


@njit(inline="always")
def _branch(worker, matrix, candidates, branches):
    """Write the candidates that are not adjacent to the pivot; return their number.

    The kept excluded rows end at the mask of the candidates.
    """
    words = worker.words
    n, n_words, rows, excluded, _, _ = matrix
    pivot, best = rows, np.int64(-1)
    for column in range(n):
        if has_bit(words, candidates, column):
            degree = n_common(words, rows + column * n_words, candidates, n_words)
            if degree > best:
                pivot, best = rows + column * n_words, degree
    if PIVOT_X:
        for row in range(excluded, candidates, n_words):
            degree = n_in(words, row, n_words)
            if degree > best:
                pivot, best = row, degree
    n_branches = 0
    for column in range(n):
        if has_bit(words, candidates, column) and not has_bit(words, pivot, column):
            worker.ints[branches + n_branches] = column
            n_branches += 1
    return n_branches

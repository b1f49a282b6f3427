"""Nodes with more than 64 candidates: frames, each with its own matrix of several words per row.

The children of such a node are packed to their own candidates.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from mbe_stage.bits import deposit_bits, lowest_bit_index
from mbe_stage.cliques.cpu import layout
from mbe_stage.cliques.cpu.emit import emit_path
from mbe_stage.cliques.cpu.layout import Excluded, Matrix, Path
from mbe_stage.cliques.cpu.pivot import branches_by_pivot
from mbe_stage.cliques.cpu.techniques import DOMINATED, UNIVERSAL, WORDS
from mbe_stage.cliques.cpu.wide_rows import (
    fill,
    has_bit,
    holds_all,
    inserted,
    is_empty,
    n_in,
    packed_row,
    packed_word,
    place_columns,
    set_bit,
)
from mbe_stage.cliques.cpu.word_walk import begin_words
from mbe_stage.runtime.jit import compiled
from mbe_stage.search.cpu.quanta import OK

_U = np.uint64
_ZERO = _U(0)
_ONE = _U(1)


@njit(inline="always")
def words_of_frame(n, n_excluded, n_words):
    """Return the number of words of a frame: rows, candidates, and another mask during construction."""
    return (n + n_excluded + 2) * n_words


@njit(inline="always")
def ints_of_frame(n, n_path):
    """Return the number of ints of a frame: path, the columns' vertices, path with universal candidates, branches."""
    return 2 * n_path + 3 * n


@compiled(nrt=False)
def begin_wide(worker, output, matrix, path):
    """Push a node on the stack of frames, unless it is finished at once.

    Parameters
    ----------
    worker : WorkerState
        Its arenas must have room for the whole frame.
    path : Path
        Stored directly before the columns' vertices.
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
    # Dropping excluded rows leaves a gap, so the mask of the candidates moves up.
    candidates = _keep_excluded(worker, matrix)
    for k in range(n_words):
        words[candidates + k] = words[top + k]
    branches = new_path.start + new_path.n
    n_branches = branches_by_pivot(worker, matrix, candidates, branches)
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
    """Write the candidates without universal ones after the rows, and the path with universal ones after the ids."""
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
    """Return True if some candidate is adjacent to all candidates of a row (see `word_walk`)."""
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


@compiled(nrt=False)
def visit_branch(worker, output, frame, cursor):
    """Begin or finish the child of a frame in which the branch's candidate has joined.

    Parameters
    ----------
    frame : (FRAME_FIELDS,) int64

    Returns
    -------
    int
        `OK`, or the status of the arena that is too small; then nothing has changed.
    """
    control, words, ints = worker.control, worker.words, worker.ints
    n_words, n_path = frame[layout.N_WORDS], frame[layout.N_PATH]
    column = np.int64(ints[frame[layout.BRANCHES] + cursor])
    candidates = frame[layout.WORDS_TOP]
    before = candidates + n_words
    n_most = words_of_frame(frame[layout.N_COLUMNS], frame[layout.N_EXCLUDED] + cursor, n_words)
    if before + n_words + n_most + layout.WORD_BITS > words.size:
        control[layout.NEEDED] = before + n_words + n_most + layout.WORD_BITS
        return layout.WORDS_SHORT
    top = frame[layout.INTS_TOP]
    if top + ints_of_frame(frame[layout.N_COLUMNS], n_path + 1) > ints.size:
        control[layout.NEEDED] = top + ints_of_frame(frame[layout.N_COLUMNS], n_path + 1)
        return layout.INTS_SHORT
    control[layout.VISITED] += 1
    control[layout.WORK] += n_words * (frame[layout.N_COLUMNS] + frame[layout.N_EXCLUDED])
    _mask(worker, frame, cursor, frame[layout.ROWS] + column * n_words)
    n = n_in(words, candidates, n_words)
    if n_path + 1 + n < control[layout.MIN_SIZE] or n_path + 1 > control[layout.MAX_SIZE]:
        return OK
    path = inserted(ints, Path(frame[layout.PATH], n_path), ints[frame[layout.IDS] + column], top)
    if n == 0:
        if is_empty(words, before, n_words) and not _is_excluded(worker, frame, column):
            emit_path(worker, output, path)
    elif WORDS and n <= layout.WORD_BITS:
        _begin_packed_words(worker, output, frame, column, path)
    else:
        _begin_packed(worker, output, frame, column, path)
    return OK


@njit(inline="always")
def _mask(worker, frame, cursor, row):
    """Write the masks of a child's candidates and of earlier branches, whose candidates are excluded."""
    words, n_words = worker.words, frame[layout.N_WORDS]
    candidates = frame[layout.WORDS_TOP]
    before = candidates + n_words
    words[before : before + n_words] = _ZERO
    for k in range(cursor):
        set_bit(words, before, worker.ints[frame[layout.BRANCHES] + k])
    for k in range(n_words):
        words[candidates + k] = words[frame[layout.CANDIDATES] + k] & words[row + k] & ~words[before + k]
        words[before + k] &= words[row + k]


@njit(inline="always")
def _is_excluded(worker, frame, column):
    """Return True if an excluded row contains a column."""
    for k in range(frame[layout.N_EXCLUDED]):
        if has_bit(worker.words, frame[layout.EXCLUDED] + k * frame[layout.N_WORDS], column):
            return True
    return False


@njit(inline="always")
def _begin_packed_words(worker, output, frame, column, path):
    """Begin the child as a node with few candidates; its mask and that of new excluded vertices follow the frame."""
    words, n_words = worker.words, frame[layout.N_WORDS]
    mask = frame[layout.WORDS_TOP]
    before, start = mask + n_words, mask + 2 * n_words
    n_ids = 0
    for k in range(n_words):
        rest = words[mask + k]
        while rest != _ZERO:
            worker.ids[n_ids] = worker.ints[frame[layout.IDS] + k * layout.WORD_BITS + lowest_bit_index(rest)]
            n_ids += 1
            rest &= rest - _ONE
    candidates, joined = place_columns(worker, output, np.int64(n_ids), path)
    places, top = candidates, start
    for k in range(n_words):
        rest = words[mask + k]
        while rest != _ZERO:
            row = frame[layout.ROWS] + (k * layout.WORD_BITS + lowest_bit_index(rest)) * n_words
            packed = packed_word(words, row, mask, n_words)
            worker.rows[lowest_bit_index(places)] = deposit_bits(packed, candidates)
            places &= places - _ONE
            rest &= rest - _ONE
        rest = words[before + k]
        while rest != _ZERO:
            row = frame[layout.ROWS] + (k * layout.WORD_BITS + lowest_bit_index(rest)) * n_words
            words[top] = deposit_bits(packed_word(words, row, mask, n_words), candidates)
            top += words[top] != _ZERO
            rest &= rest - _ONE
    for k in range(frame[layout.N_EXCLUDED]):
        row = frame[layout.EXCLUDED] + k * n_words
        if has_bit(words, row, column):
            words[top] = deposit_bits(packed_word(words, row, mask, n_words), candidates)
            top += words[top] != _ZERO
    begin_words(worker, output, candidates, joined, Excluded(start, top))


@njit(inline="always")
def _begin_packed(worker, output, frame, column, path):
    """Begin the child as a frame."""
    words, ints, n_words = worker.words, worker.ints, frame[layout.N_WORDS]
    mask = frame[layout.WORDS_TOP]
    before, rows = mask + n_words, mask + 2 * n_words
    n = n_in(words, mask, n_words)
    child_words = (n + layout.WORD_BITS - 1) >> 6
    ids = to_id = path.start + path.n
    to_row = rows
    for k in range(n_words):
        rest = words[mask + k]
        while rest != _ZERO:
            parent = k * layout.WORD_BITS + lowest_bit_index(rest)
            ints[to_id] = ints[frame[layout.IDS] + parent]
            to_id += 1
            packed_row(words, frame[layout.ROWS] + parent * n_words, mask, n_words, to_row)
            to_row += child_words
            rest &= rest - _ONE
    top = excluded = to_row
    for k in range(n_words):
        rest = words[before + k]
        while rest != _ZERO:
            parent = k * layout.WORD_BITS + lowest_bit_index(rest)
            packed_row(words, frame[layout.ROWS] + parent * n_words, mask, n_words, top)
            top += 0 if is_empty(words, top, child_words) else child_words
            rest &= rest - _ONE
    for k in range(frame[layout.N_EXCLUDED]):
        row = frame[layout.EXCLUDED] + k * n_words
        if has_bit(words, row, column):
            packed_row(words, row, mask, n_words, top)
            top += 0 if is_empty(words, top, child_words) else child_words
    begin_wide(worker, output, Matrix(n, child_words, rows, excluded, top, ids), path)

"""Children of a node of more than 64 candidates, packed to their own candidates."""

from __future__ import annotations

import numpy as np
from numba import njit

from mbe_stage.bits import deposit_bits, lowest_bit_index
from mbe_stage.cliques.cpu import layout
from mbe_stage.cliques.cpu.emit import emit_path
from mbe_stage.cliques.cpu.layout import Excluded, Matrix, Path
from mbe_stage.cliques.cpu.techniques import WORDS
from mbe_stage.cliques.cpu.wide_nodes import begin_wide, ints_of_frame, words_of_frame
from mbe_stage.cliques.cpu.wide_rows import (
    has_bit,
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


@compiled(nrt=False)
def visit_branch(worker, output, frame, cursor):
    """Begin the child of a frame in which a branch's candidate has joined, or finish it.

    Parameters
    ----------
    frame : (FRAME_FIELDS,) int64

    Returns
    -------
    int
        `OK`, or the arena that is short: then nothing has changed.
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
    """Write the mask of a child's candidates, and that of the candidates branched on before, which are excluded."""
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
    """True if an excluded row holds a column."""
    for k in range(frame[layout.N_EXCLUDED]):
        if has_bit(worker.words, frame[layout.EXCLUDED] + k * frame[layout.N_WORDS], column):
            return True
    return False


@njit(inline="always")
def _begin_packed_words(worker, output, frame, column, path):
    """Begin the child as a node of few candidates. Its mask and that of new excluded ones are behind the frame."""
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
    """Begin the child as a frame of its own."""
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

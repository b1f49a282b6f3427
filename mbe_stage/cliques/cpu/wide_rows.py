"""Rows of several words in the arena of words: count, compare, and pack to some of their columns.

Also sorts the columns of a node with few candidates by the user's ids.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from mbe_stage.bits import extract_bits, popcount
from mbe_stage.cliques.cpu import layout
from mbe_stage.cliques.cpu.layout import Path

_U = np.uint64
_ZERO = _U(0)
_ONE = _U(1)


@njit(inline="always")
def fill(words, row, n):
    """Set a row to the first `n` columns; it ends with them."""
    for k in range((n + layout.WORD_BITS - 1) >> 6):
        words[row + k] = ~_ZERO >> _U(max(0, layout.WORD_BITS * (k + 1) - n))


@njit(inline="always")
def set_bit(words, row, column):
    """Add a column to a row."""
    words[row + (column >> 6)] |= _ONE << _U(column & 63)


@njit(inline="always")
def has_bit(words, row, column):
    """Return True if a row contains a column."""
    return words[row + (column >> 6)] >> _U(column & 63) & _ONE != _ZERO


@njit(inline="always")
def n_in(words, row, n_words):
    """Return the number of columns in a row."""
    n = np.int64(0)
    for k in range(n_words):
        n += popcount(words[row + k])
    return n


@njit(inline="always")
def n_common(words, row, mask, n_words):
    """Return the number of columns of a mask that are in a row."""
    n = np.int64(0)
    for k in range(n_words):
        n += popcount(words[row + k] & words[mask + k])
    return n


@njit(inline="always")
def holds_all(words, row, mask, n_words):
    """Return True if a row contains all columns of a mask."""
    missing = _ZERO
    for k in range(n_words):
        missing |= words[mask + k] & ~words[row + k]
    return missing == _ZERO


@njit(inline="always")
def is_empty(words, row, n_words):
    """Return True if a row contains no column."""
    held = _ZERO
    for k in range(n_words):
        held |= words[row + k]
    return held == _ZERO


@njit(inline="always")
def packed_word(words, row, mask, n_words):
    """Pack a row's bits at the columns of a mask (at most 64) into one word."""
    packed, n = _ZERO, np.int64(0)
    for k in range(n_words):
        if words[mask + k] != _ZERO:
            packed |= extract_bits(words[row + k], words[mask + k]) << _U(n)
            n += popcount(words[mask + k])
    return packed


@njit(inline="always")
def packed_row(words, row, mask, n_words, into):
    """Pack a row's bits at the columns of a mask into a later row."""
    word, n = _ZERO, np.int64(0)
    for k in range(n_words):
        if words[mask + k] == _ZERO:
            continue
        found = extract_bits(words[row + k], words[mask + k])
        word |= found << _U(n)
        n += popcount(words[mask + k])
        if n >= layout.WORD_BITS:
            n -= layout.WORD_BITS
            words[into] = word
            into += 1
            # Bits that did not fit; zero if there are none, since a shift by 64 bits is undefined.
            word = found >> _U(popcount(words[mask + k]) - n) if n > 0 else _ZERO
    if n > 0:
        words[into] = word


@njit(inline="always")
def inserted(ints, path, vertex, into):
    """Insert a vertex into a path, in place or at another position."""
    start, n = path
    k = n
    while k > 0 and ints[start + k - 1] > vertex:
        ints[into + k] = ints[start + k - 1]
        k -= 1
    ints[into + k] = vertex
    for j in range(k):
        ints[into + j] = ints[start + j]
    return Path(into, n + 1)


@njit(inline="always")
def place_columns(worker, output, n_candidates, path):
    """Sort columns by the user's ids: candidates, and also the path if members are wanted and it fits.

    Then a clique's members ascend in the order of its columns.

    Parameters
    ----------
    worker : WorkerState
        At first ``ids`` has the candidates' vertices, ascending; afterwards those of all columns.

    Returns
    -------
    candidates, joined : uint64
        The candidates' columns in the order of their vertices, and the path's columns.
    """
    control, ids, ints = worker.control, worker.ids, worker.ints
    joined, columns = _U(0), ~_U(0) >> _U(layout.WORD_BITS - n_candidates)
    start, n_path = path
    control[layout.OUTER], control[layout.N_OUTER] = start, n_path
    if output is not None and output.members.size > 0 and n_candidates + n_path <= layout.WORD_BITS:
        control[layout.N_OUTER] = 0
        # Backwards, so that vertices are not overwritten before they are moved.
        candidate, member = n_candidates - 1, n_path - 1
        for column in range(n_candidates + n_path - 1, -1, -1):
            if member >= 0 and (candidate < 0 or ints[start + member] > ids[candidate]):
                ids[column] = ints[start + member]
                joined |= _ONE << _U(column)
                member -= 1
            else:
                ids[column] = ids[candidate]
                candidate -= 1
        columns = ~joined & (~_U(0) >> _U(layout.WORD_BITS - n_candidates - n_path))
    return columns, joined

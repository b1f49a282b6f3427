"""Weights in the search for the best by weight: those of a frame, and the bounds that their sums give.

A frame's floats are the weights of each column over the path, of each candidate, and of the candidates' entries.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from mbe_stage.bicliques.best.layout import FLOATS_AT, INTS_AT, N_COLUMNS, N_ROWS, WIDTH, WORDS_AT, reaches
from mbe_stage.bits import lowest_bit_index, popcount
from mbe_stage.runtime.jit import compiled

_U = np.uint64
_ONE = _U(1)


@compiled()
def weigh_root(graph, weights, state, n_columns, n_path, ints_at, n_candidates):
    """Write the weights of a root's frame: each column's over the path, each row's, and those of its entries.

    Returns
    -------
    float
        The weight of the root's own biclique.
    """
    floats, ints = state.floats, state.ints
    total, entry = 0.0, n_columns + n_candidates
    floats[:entry] = 0.0
    for k in range(n_path + n_candidates):
        row = state.path[k] if k < n_path else ints[ints_at + k - n_path]
        at, column = graph.row_offsets[row], 0
        if k >= n_path:
            ints[ints_at + 2 * n_candidates + k - n_path] = entry - n_columns - n_candidates
        while column < n_columns and at < graph.row_offsets[row + 1]:
            if graph.row_members[at] == ints[column]:
                weight = weights[at]
                if k < n_path:
                    floats[column] += weight
                    total += weight
                else:
                    floats[n_columns + k - n_path] += weight
                    floats[entry] = weight
                    entry += 1
                column += 1
                at += 1
            elif graph.row_members[at] < ints[column]:
                at += 1
            else:
                column += 1
    return total


@njit(inline="always")
def may_weigh(state, depth, i):
    """True if the path and all candidates from the i-th on together reach the threshold."""
    frames = state.frames
    start, n_columns = frames[depth, FLOATS_AT], frames[depth, N_COLUMNS]
    total = 0.0
    for k in range(n_columns):
        total += state.floats[start + k]
    for k in range(start + n_columns + i, start + n_columns + frames[depth, N_ROWS]):
        total += state.floats[k]
    return reaches(state, total)


@njit(inline="always")
def weigh_path(state, depth, i, n_columns, new_floats):
    """Write the weights of a child's columns over its path; return their sum."""
    frames, floats, words, ints = state.frames, state.floats, state.words, state.ints
    start, width, words_at = frames[depth, FLOATS_AT], frames[depth, WIDTH], frames[depth, WORDS_AT]
    n_rows, row_at = frames[depth, N_ROWS], frames[depth, WORDS_AT] + i * frames[depth, WIDTH]
    n = 0
    for w in range(width):
        bits = words[row_at + w]
        while bits != _U(0):
            floats[new_floats + n] = floats[start + 64 * w + lowest_bit_index(bits)]
            n += 1
            bits &= bits - _ONE
    entries = start + frames[depth, N_COLUMNS] + n_rows
    for j in range(i, n_rows):
        n = 0
        for w in range(width):
            n += popcount(words[row_at + w] & words[words_at + j * width + w])
        if n == n_columns:
            first = entries + ints[frames[depth, INTS_AT] + 2 * n_rows + j]
            _restrict(state, words_at + j * width, row_at, width, first, new_floats)
    total = 0.0
    for k in range(n_columns):
        total += floats[new_floats + k]
    return total


@njit(inline="always")
def weigh_rows(state, depth, i, new_ints, n_new, n_columns, new_floats, total):
    """Write the weights of a child's candidates, given by their numbers in its parent.

    Parameters
    ----------
    i : int
        The child's number.
    new_ints, n_new : int
        Where the candidates' numbers stand, and how many there are.
    n_columns, new_floats, total
        The child's columns, where its weights begin, and the weight of its path.

    Returns
    -------
    bool
        False if they and the path, whose weight is `total`, do not reach the threshold together.
    """
    frames, floats, ints = state.frames, state.floats, state.ints
    width, words_at, n_rows = frames[depth, WIDTH], frames[depth, WORDS_AT], frames[depth, N_ROWS]
    entries = frames[depth, FLOATS_AT] + frames[depth, N_COLUMNS] + n_rows
    new_entries = new_floats + n_columns + n_new
    to = new_entries
    for k in range(n_new):
        j, n = ints[new_ints + k], ints[new_ints + n_new + k]
        ints[new_ints + 2 * n_new + k] = to - new_entries
        floats[to : to + n] = 0.0
        first = entries + ints[frames[depth, INTS_AT] + 2 * n_rows + j]
        _restrict(state, words_at + j * width, words_at + i * width, width, first, to)
        weight = 0.0
        for e in range(to, to + n):
            weight += floats[e]
        floats[new_floats + n_columns + k] = weight
        total += weight
        to += n
    return reaches(state, total)


@njit(inline="always")
def _restrict(state, row_at, mask_at, width, first, to):
    """Add the weights of a row's entries, from `first` on, at the places of a mask's bits, from `to` on."""
    words, floats = state.words, state.floats
    for w in range(width):
        bits, mask = words[row_at + w], words[mask_at + w]
        while bits != _U(0):
            lowest = bits & (~bits + _ONE)
            if mask & lowest != _U(0):
                floats[to] += floats[first]
                to += 1
            first += 1
            bits ^= lowest

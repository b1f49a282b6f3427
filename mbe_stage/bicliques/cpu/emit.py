"""Count or write found bicliques, and bound the sizes of those below a node.

Functions that write members return False, with nothing written, if there is too little room.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from mbe_stage.bicliques.constraints import ACTIVE, MAX_RIGHT, MIN_EDGES, MIN_LEFT, MIN_RIGHT, are_met
from mbe_stage.bicliques.cpu import layout
from mbe_stage.bicliques.cpu.closed_sets import (
    spread,
    wide_subsets,
)
from mbe_stage.bicliques.cpu.word_vectors import weight_of_holders
from mbe_stage.bits import deposit_bits, lowest_bit_index, popcount
from mbe_stage.runtime.jit import compiled

_U = np.uint64
_ONE = _U(1)
UNWEIGHED = 3
"""Largest minimum of left vertices for which columns need no weights: a heavy column and any other one are enough."""

_accepts = njit(inline="always")(are_met)


@njit(inline="always")
def emit_word(left, columns, n_path, rows_at, rows_end, behind, worker, sizes, output):
    """Write one biclique whose left side is a word over the columns.

    Its right side is the path and the vertices of every row of ``words[rows_at:rows_end]`` that holds all of `left`.

    Parameters
    ----------
    n_path : int
        Right members on the path.
    rows_at : int
        First row in the arena of words.
    """
    control, words, ints = worker.control, worker.words, worker.ints
    out_left, out_right = output.left, output.right
    n_left = control[layout.LEFT_USED]
    n_right = control[layout.RIGHT_USED]
    if control[layout.N_OUT] == sizes.left_sizes.size:
        return False
    if n_right + n_path + rows_end - rows_at > out_right.size:
        return False
    rest, weight = left, 0
    if out_left.size == 0:
        rest, weight = _U(0), word_weight(left, columns, ints)
    while rest != _U(0):
        column = columns.at + layout.COLUMN_STARTS + lowest_bit_index(rest)
        start, end = columns.at + layout.COLUMN_IDS + ints[column], columns.at + layout.COLUMN_IDS + ints[column + 1]
        if n_left + end - start > out_left.size:
            return False
        for j in range(start, end):
            out_left[n_left] = ints[j]
            n_left += 1
        rest &= rest - _ONE
    for k in range(n_path):
        out_right[n_right + k] = worker.path[k]
    n_right += n_path
    for k in range(rows_end - rows_at):
        if left & ~words[rows_at + k] != _U(0):
            continue
        number = ints[behind.payload + k]
        if behind.groups == layout.NO_GROUPS:
            out_right[n_right] = number
            n_right += 1
            continue
        start, end = ints[behind.groups + number], ints[behind.groups + number + 1]
        if n_right + end - start + rows_end - rows_at > out_right.size:
            return False
        for j in range(behind.ids + start, behind.ids + end):
            out_right[n_right] = ints[j]
            n_right += 1
    _commit(n_left, n_right, weight, control, sizes, output)
    return True


@njit(inline="always")
def _commit(n_left, n_right, weight, control, sizes, output):
    """Turn the written members, and `weight` left vertices that are not, into a biclique, if its size is wanted."""
    left_start, right_start = control[layout.LEFT_USED], control[layout.RIGHT_USED]
    control[layout.WORK] += n_left - left_start + n_right - right_start
    if sizes.constraints[ACTIVE]:
        left_multiplicity, right_multiplicity = np.int64(weight), 0
        for k in range(left_start, n_left):
            left_multiplicity += sizes.left_multiplicities[output.left[k]]
        for k in range(right_start, n_right):
            right_multiplicity += sizes.right_multiplicities[output.right[k]]
        if not _accepts(left_multiplicity, right_multiplicity, sizes.constraints):
            return
    n_out = control[layout.N_OUT]
    sizes.left_sizes[n_out] = n_left - left_start + weight
    sizes.right_sizes[n_out] = n_right - right_start
    control[layout.N_OUT] = n_out + 1
    control[layout.LEFT_USED] = n_left
    control[layout.RIGHT_USED] = n_right
    control[layout.COUNT] += 1


@njit(inline="always")
def needs_weights(n_path, sizes):
    """True if the right vertices behind each row matter: any row would not be enough to the `n_path` on the path."""
    return sizes.are_exact or n_path + 1 < sizes.constraints[MIN_RIGHT]


@compiled(nrt=False, inlined=True)
def count_size(n_left, n_right, control, sizes):
    """Count a biclique of the user's, if its size is wanted, and write its size if that is asked for."""
    if sizes.constraints[ACTIVE] and not _accepts(n_left, n_right, sizes.constraints):
        return
    control[layout.COUNT] += 1
    if sizes.left_sizes.size:
        n_out = control[layout.N_OUT]
        sizes.left_sizes[n_out] = n_left
        sizes.right_sizes[n_out] = n_right
        control[layout.N_OUT] = n_out + 1


@compiled(nrt=False)
def right_weight(left, weighed, worker):
    """The user's right vertices of the biclique of a left set, a word."""
    start, end, weights_at, n_path = weighed
    return n_path + weight_of_holders(worker.words, start, end, left, worker.ints, weights_at)


@compiled(nrt=False, inlined=True)
def count_left_set(left, n_path, weighed, columns, worker, sizes):
    """Count the biclique of a left set that is wide enough, if its size is wanted, below a node with such a path."""
    if needs_weights(n_path, sizes):
        count_size(word_weight(left, columns, worker.ints), right_weight(left, weighed, worker), worker.control, sizes)
    else:
        worker.control[layout.COUNT] += 1


@compiled(nrt=False, inlined=True)
def count_closed_sets(closed, n_path, weighed, columns, worker, sizes):
    """Count the bicliques of a closed-set bitmap over the groups in ``worker.masks`` whose sizes are wanted.

    There are `n_path` right vertices on the path.
    """
    if needs_weights(n_path, sizes):
        count_each(closed, _U(0), weighed, columns, worker, sizes)
        return
    least = sizes.least_in_words
    narrow = closed & ~wide_subsets(least)
    worker.control[layout.COUNT] += popcount(closed ^ narrow)
    while narrow != _U(0):
        left = spread(_U(lowest_bit_index(narrow)), worker.masks)
        worker.control[layout.COUNT] += is_wide(left, columns, worker.ints, least)
        narrow &= narrow - _ONE


@compiled(nrt=False)
def count_each(closed, left, weighed, columns, worker, sizes):
    """Count the bicliques of a closed-set bitmap, as `count_closed_sets` does, after working out each one's size.

    `left` has all columns if the groups are single ones.
    """
    while closed != _U(0):
        subset = _U(lowest_bit_index(closed))
        word = deposit_bits(subset, left) if left != _U(0) else spread(subset, worker.masks)
        count_size(word_weight(word, columns, worker.ints), right_weight(word, weighed, worker), worker.control, sizes)
        closed &= closed - _ONE


@compiled(nrt=False, inlined=True)
def take_child(child, n_path, worker, sizes, output):
    """Count or write the biclique of a subgraph's child: its left set, and the path."""
    control, node = worker.control, child.node
    if output is None:
        count_size(child.n_left, n_path, control, sizes)
        return True
    n_left = control[layout.LEFT_USED]
    n_right = control[layout.RIGHT_USED]
    if control[layout.N_OUT] == sizes.left_sizes.size:
        return False
    if n_left + child.n_ids > output.left.size or n_right + n_path > output.right.size:
        return False
    writes_left = output.left.size > 0
    for k in range(child.left_at, child.left_end if writes_left else child.left_at):
        column = child.column_starts + node[k]
        for j in range(child.column_ids + node[column], child.column_ids + node[column + 1]):
            output.left[n_left] = node[j]
            n_left += 1
    for k in range(n_path):
        output.right[n_right + k] = worker.path[k]
    _commit(n_left, n_right + n_path, 0 if writes_left else child.n_left, control, sizes, output)
    return True


@compiled(nrt=False, inlined=True)
def take_closed_sets(closed, n_path, rows_at, rows_end, behind, weighed, columns, worker, sizes, output):
    """Count or write the bicliques of a closed-set bitmap over the groups in ``worker.masks``.

    Their right sides are as in `emit_word`.

    `n_path` counts the right members on the path, those of the user if they are counted. The candidates are
    ``worker.words[rows_at:rows_end]``.
    """
    if output is None:
        count_closed_sets(closed, n_path, weighed, columns, worker, sizes)
        return True
    while closed != _U(0):
        left = spread(_U(lowest_bit_index(closed)), worker.masks)
        if not emit_word(left, columns, n_path, rows_at, rows_end, behind, worker, sizes, output):
            return False
        closed &= closed - _ONE
    return True


@compiled(nrt=False)
def path_multiplicity(path, n_path, sizes):
    """Right vertices that every biclique from here down has."""
    multiplicity = 0
    for k in range(n_path):
        multiplicity += sizes.right_multiplicities[path[k]]
    return multiplicity


@compiled(nrt=False, inlined=True)
def word_weight(word, columns, ints):
    """The user's left vertices behind the columns in a word."""
    weight = popcount(word)
    word &= columns.heavy
    while word != _U(0):
        weight += ints[columns.at + lowest_bit_index(word)] - 1
        word &= word - _ONE
    return weight


@njit(inline="always")
def is_hopeless(left_most, right_least, right_most, constraints):
    """True if no biclique with at most `left_most` left and `right_least` to `right_most` right vertices is wanted."""
    return (
        left_most < constraints[MIN_LEFT]
        or right_most < constraints[MIN_RIGHT]
        or right_least > constraints[MAX_RIGHT]
        or left_most * right_most < constraints[MIN_EDGES]
    )


@compiled(nrt=False, inlined=True)
def is_wide(word, columns, ints, least):
    """True if the columns in a word stand for enough left vertices; a heavy one alone may be too few all the same."""
    if least > UNWEIGHED and medium_columns(word, columns) != _U(0):
        return popcount(word) >= least or word_weight(word, columns, ints) >= least
    # No branch on the word, since it would be unpredictable.
    return (popcount(word) >= least) | (word & columns.heavy != _U(0))


@compiled(nrt=False, inlined=True)
def medium_columns(word, columns):
    """The columns in a word that stand for several left vertices, but fewer than are wanted at least."""
    return word & columns.heavy & ~columns.wide

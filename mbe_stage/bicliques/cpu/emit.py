"""Write found bicliques to the output, and bound the sizes of those below a node.

Functions that write return False, with nothing written, if there is too little room.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from mbe_stage.bicliques.constraints import ACTIVE, MAX_RIGHT, MIN_EDGES, MIN_LEFT, MIN_RIGHT, are_met
from mbe_stage.bicliques.cpu import layout
from mbe_stage.bicliques.cpu.closed_sets import spread
from mbe_stage.bits import lowest_bit_index
from mbe_stage.runtime.jit import compiled

_U = np.uint64
_ONE = _U(1)

_accepts = njit(inline="always")(are_met)


@njit(inline="always")
def emit_word(left, columns_at, n_path, rows_at, rows_end, behind, worker, output):
    """Write one biclique whose left side is a word over the columns with starts and ids at ``ints[columns_at:]``.

    Its right side is the path and the vertices of every row of ``words[rows_at:rows_end]`` that holds all of `left`.

    Parameters
    ----------
    columns_at : int
        Position of the columns' starts and ids in the arena of ints.
    n_path : int
        Right members on the path.
    rows_at : int
        First row in the arena of words.
    """
    control, words, ints = worker.control, worker.words, worker.ints
    out_left, out_right = output.left, output.right
    n_left = control[layout.LEFT_USED]
    n_right = control[layout.RIGHT_USED]
    if control[layout.N_OUT] == output.left_sizes.size:
        return False
    if n_right + n_path + rows_end - rows_at > out_right.size:
        return False
    rest = left
    while rest != _U(0):
        column = columns_at + lowest_bit_index(rest)
        start, end = columns_at + layout.WORD_STARTS + ints[column], columns_at + layout.WORD_STARTS + ints[column + 1]
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
    _commit(n_left, n_right, control, output)
    return True


@compiled(nrt=False)
def emit_closed_sets(closed, columns_at, n_path, rows_at, rows_end, behind, worker, output):
    """All bicliques of a closed-set bitmap over the groups in ``worker.masks``; their right sides as in `emit_word`.

    Parameters
    ----------
    columns_at : int
        Position of the columns' starts and ids in the arena of ints.
    n_path : int
        Right members on the path.
    rows_at : int
        First row in the arena of words.
    """
    while closed != _U(0):
        left = spread(_U(lowest_bit_index(closed)), worker.masks)
        if not emit_word(left, columns_at, n_path, rows_at, rows_end, behind, worker, output):
            return False
        closed &= closed - _ONE
    return True


@compiled(nrt=False)
def emit_list(child, n_path, worker, output):
    """One biclique: the left set of a subgraph's child, and the path."""
    control, node = worker.control, child.node
    n_left = control[layout.LEFT_USED]
    n_right = control[layout.RIGHT_USED]
    if control[layout.N_OUT] == output.left_sizes.size:
        return False
    if n_left + child.n_ids > output.left.size or n_right + n_path > output.right.size:
        return False
    for k in range(child.left_at, child.left_end):
        column = child.offset + node[k]
        for j in range(child.column_ids + node[column], child.column_ids + node[column + 1]):
            output.left[n_left] = node[j]
            n_left += 1
    for k in range(n_path):
        output.right[n_right + k] = worker.path[k]
    _commit(n_left, n_right + n_path, control, output)
    return True


@njit(inline="always")
def _commit(n_left, n_right, control, output):
    """Turn the written members into a biclique, unless its size is not wanted."""
    left_start, right_start = control[layout.LEFT_USED], control[layout.RIGHT_USED]
    constraints = output.constraints
    if constraints[ACTIVE]:
        left_multiplicity = right_multiplicity = 0
        for k in range(left_start, n_left):
            left_multiplicity += output.left_multiplicities[output.left[k]]
        for k in range(right_start, n_right):
            right_multiplicity += output.right_multiplicities[output.right[k]]
        if not _accepts(left_multiplicity, right_multiplicity, constraints):
            return
    n_out = control[layout.N_OUT]
    output.left_sizes[n_out] = n_left - left_start
    output.right_sizes[n_out] = n_right - right_start
    control[layout.N_OUT] = n_out + 1
    control[layout.LEFT_USED] = n_left
    control[layout.RIGHT_USED] = n_right
    control[layout.COUNT] += 1


@compiled(nrt=False)
def path_multiplicity(path, n_path, right_multiplicities):
    """Right vertices that every biclique from here down has."""
    multiplicity = 0
    for k in range(n_path):
        multiplicity += right_multiplicities[path[k]]
    return multiplicity


@compiled(nrt=False)
def word_multiplicity(left, columns_at, ints, left_multiplicities):
    """Left vertices of a word over the columns at ``ints[columns_at:]``."""
    multiplicity = 0
    while left != _U(0):
        column = columns_at + lowest_bit_index(left)
        for k in range(ints[column], ints[column + 1]):
            multiplicity += left_multiplicities[ints[columns_at + layout.WORD_STARTS + k]]
        left &= left - _ONE
    return multiplicity


@njit(inline="always")
def is_hopeless(left_most, right_least, right_most, constraints):
    """True if no biclique with at most `left_most` left and `right_least` to `right_most` right vertices is wanted."""
    return (
        left_most < constraints[MIN_LEFT]
        or right_most < constraints[MIN_RIGHT]
        or right_least > constraints[MAX_RIGHT]
        or left_most * right_most < constraints[MIN_EDGES]
    )


@compiled(nrt=False)
def drop_too_small(words, start, end, columns_at, ints, payload_at, output):
    """Keep the rows with as many left vertices as are wanted at least, in place and in order; returns the new end.

    Below a narrower row there is nothing but narrower ones, and no wanted left set lies inside it: it is needed neither
    as a candidate, nor as excluded, nor among the right sides. The entries from ``ints[payload_at]`` on move along.

    Parameters
    ----------
    columns_at : int
        Position of the columns' starts and ids in the arena of ints.
    payload_at : int
        First of the entries in the arena of ints that move along.
    """
    least = output.constraints[MIN_LEFT]
    if not output.constraints[ACTIVE] or least == 1:
        return end
    kept = start
    shift = payload_at - start
    for k in range(start, end):
        if word_multiplicity(words[k], columns_at, ints, output.left_multiplicities) >= least:
            words[kept] = words[k]
            ints[shift + kept] = ints[shift + k]
            kept += 1
    return kept

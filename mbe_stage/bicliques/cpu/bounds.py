"""What the size constraints allow below a node. All of it is asked only where there are constraints."""

from __future__ import annotations

import numpy as np
from numba import njit

from mbe_stage.bicliques.constraints import ACTIVE, MAX_RIGHT, MIN_EDGES, MIN_LEFT, MIN_RIGHT
from mbe_stage.bicliques.cpu import layout as at
from mbe_stage.bits import lowest_bit_index
from mbe_stage.jit import compiled

_U = np.uint64
_ONE = _U(1)


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
            multiplicity += left_multiplicities[ints[columns_at + at.WORD_STARTS + k]]
        left &= left - _ONE
    return multiplicity


@njit(inline="always")
def is_hopeless(left_most, right_least, right_most, constraints):
    """Whether no biclique with at most `left_most` left and `right_least` to `right_most` right vertices is wanted."""
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
        Where starts and ids of the columns stand in the arena of ints.
    payload_at : int
        Where the entries that move along begin in the arena of ints.
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

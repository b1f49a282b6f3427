"""What the size conditions allow below a node. All of it is asked only where there are conditions."""

from __future__ import annotations

import numpy as np
from numba import njit

from mbe_stage.bicliques.cpu import layout as at
from mbe_stage.bicliques.cpu.bits import lowest_bit_index
from mbe_stage.jit import compiled

__all__ = ["drop_narrow", "is_hopeless", "path_weight", "word_weight"]

_U = np.uint64
_ONE = _U(1)


@compiled(nrt=False)
def path_weight(path, n_path, right_weights):
    """Right vertices that every biclique from here down has."""
    weight = 0
    for k in range(n_path):
        weight += right_weights[path[k]]
    return weight


@compiled(nrt=False)
def word_weight(left, columns_at, ints, left_weights):
    """Left vertices of a word over the columns at ``ints[columns_at:]``."""
    weight = 0
    while left != _U(0):
        column = columns_at + lowest_bit_index(left)
        for k in range(ints[column], ints[column + 1]):
            weight += left_weights[ints[columns_at + at.WORD_STARTS + k]]
        left &= left - _ONE
    return weight


@njit(inline="always")
def is_hopeless(left_most, right_least, right_most, limits):
    """Whether no biclique with at most `left_most` left and `right_least` to `right_most` right vertices is wanted."""
    return (
        left_most < limits[at.MIN_LEFT]
        or right_most < limits[at.MIN_RIGHT]
        or right_least > limits[at.MAX_RIGHT]
        or left_most * right_most < limits[at.MIN_EDGES]
    )


@compiled(nrt=False)
def drop_narrow(words, start, end, columns_at, ints, payload_at, output):
    """Keep the rows with as many left vertices as are wanted at least, in place and in order; returns the new end.

    Below a narrower row there is nothing but narrower ones, and no wanted left set lies inside it: it is needed neither
    as a candidate, nor as excluded, nor among the right sides. The entries from ``ints[payload_at]`` on move along.
    """
    least = output.limits[at.MIN_LEFT]
    if not output.limits[at.ACTIVE] or least == 1:
        return end
    kept = start
    shift = payload_at - start
    for k in range(start, end):
        if word_weight(words[k], columns_at, ints, output.left_weights) >= least:
            words[kept] = words[k]
            ints[shift + kept] = ints[shift + k]
            kept += 1
    return kept

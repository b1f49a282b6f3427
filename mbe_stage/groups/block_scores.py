"""Compiled code that scores the bicliques of a block, and updates the records of each vertex.

One pass reads each member twice: its degree for the score, then its record while the line is in the cache. A record has
the fields needed for every member; fields that only an improvement changes are stored separately.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import int64, types

from mbe_stage.groups.null_model import FIRST_PAIR, UNIT
from mbe_stage.groups.quasi_bicliques import log_choices, pair_weight
from mbe_stage.runtime.compile_ahead import CompileStep
from mbe_stage.runtime.jit import BYTES, INTS, LONGS, compiled, steps_of

FIELDS = 4
"""Number of fields of a vertex's record."""

LOG_DEGREE, BEST_SCORE, SHARE, N_BICLIQUES = (np.int64(i) for i in range(FIELDS))
"""The fields: ``ln d`` in units, the highest surprise, the largest share numerator, the number of bicliques."""

IMPROVES, IS_HIGH = np.uint8(1), np.uint8(2)
"""Marks of a biclique: it became the best of some vertex; it may be among the `top` best of all."""

FIRST_OF_BLOCK = np.int64(1 << 62)
"""Biclique `i` of the current block has row ``FIRST_OF_BLOCK + i`` until it gets a row in the pool."""


class Side(NamedTuple):
    """One side of a block, and the records of its vertices.

    Attributes
    ----------
    sizes : (n_bicliques,) int32
    members : int32
        Dense ids, biclique after biclique.
    at_least : (largest degree + 1,) int64
        Number of vertices with at least each degree.
    records : (n, FIELDS) int64
    best_keys : (n,) int64
        Key of the best biclique of each vertex.
    best_rows : (n,) int64
        Row of the best biclique; -1 for a vertex without bicliques.
    """

    sizes: Any
    members: Any
    at_least: Any
    records: Any
    best_keys: Any
    best_rows: Any


_SIDE = types.NamedTuple((INTS, INTS, LONGS, int64[:, ::1], LONGS, LONGS), Side)


def compile_steps() -> tuple[CompileStep, ...]:
    """Return the steps to compile the functions of this module."""
    return steps_of(score_block, drop_overtaken, settle)


class Null(NamedTuple):
    """Values shared by all bicliques.

    Attributes
    ----------
    factorials : int64
        ``ln k!`` in units.
    weights : int64
        `mbe_stage.groups.null_model.PAIR_WEIGHTS`.
    log_edges, class_cost : int64
        In units.
    """

    factorials: Any
    weights: Any
    log_edges: Any
    class_cost: Any


_NULL = types.NamedTuple((LONGS, LONGS, int64, int64), Null)


@compiled(nrt=False)
def _sum_of_logs(side, start, end):
    """Return sum, minimum and maximum of the logarithms of members' degrees; and the lowest of their best scores."""
    first = side.members[start]
    smallest = largest = total = side.records[first, LOG_DEGREE]
    best = side.records[first, BEST_SCORE]
    for k in range(start + 1, end):
        log_degree = side.records[side.members[k], LOG_DEGREE]
        total += log_degree
        smallest, largest = min(smallest, log_degree), max(largest, log_degree)
        best = min(best, side.records[side.members[k], BEST_SCORE])
    return total, smallest, largest, best


@compiled(nrt=False)
def _most_gain(n_edges, sum_of_logs, smallest, largest, weights):
    """Return an upper bound on `_gain_of_likely`: it is convex in ``ln z``, so all pairs are below the chord.

    Parameters
    ----------
    sum_of_logs, smallest, largest : int64
        Statistics of ``ln z`` over the pairs.
    """
    low, high = max(smallest, np.int64(FIRST_PAIR)), max(largest, np.int64(FIRST_PAIR))
    lowest, highest = low + pair_weight(low, weights), high + pair_weight(high, weights)
    slope = (highest - lowest) / max(largest - smallest, 1)
    # The last unit covers rounding errors, which are far below a nat.
    return n_edges * np.float64(lowest) + slope * (sum_of_logs - n_edges * smallest) + UNIT


@compiled(nrt=False)
def _gain_of_likely(left, right, left_start, left_end, right_start, right_end, null):
    """Return the excess of the weights of likely pairs over ``-ln z``."""
    gain = np.int64(0)
    for i in range(left_start, left_end):
        own = left.records[left.members[i], LOG_DEGREE] - null.log_edges
        for k in range(right_start, right_end):
            log_expected = own + right.records[right.members[k], LOG_DEGREE]
            if log_expected >= FIRST_PAIR:
                gain += log_expected + pair_weight(log_expected, null.weights)
    return gain


@compiled(nrt=False)
def _take_in(side, start, end, score, key, row, share):
    """Update the records of a biclique's members on one side; return True if it is the best so far of any member.

    Parameters
    ----------
    start, end : int64
        Range of its members.
    share : int64
        Its share numerator on this side.
    """
    improves = False
    for k in range(start, end):
        vertex = side.members[k]
        side.records[vertex, N_BICLIQUES] += 1
        if share > side.records[vertex, SHARE]:
            side.records[vertex, SHARE] = share
        best = side.records[vertex, BEST_SCORE]
        if score > best or (score == best and key < side.best_keys[vertex]):
            side.records[vertex, BEST_SCORE] = score
            side.best_keys[vertex] = key
            side.best_rows[vertex] = row
            improves = True
    return improves


@compiled(_SIDE, _SIDE, LONGS, _NULL, int64, int64, LONGS, BYTES, nrt=False, seconds=2.0)
def score_block(left, right, keys, null, threshold_score, threshold_key, scores, marks):
    """Score the bicliques of a block, and update the records of each vertex.

    Parameters
    ----------
    left, right : Side
        Records, best keys and best rows are changed in place.
    keys : (n,) int64
    null : Null
    threshold_score, threshold_key : int64
        A biclique is marked `IS_HIGH` if its score is higher, or equal with a lower key.
    scores : (n,) int64
        Receives the surprise in units; a lower bound for bicliques that get no mark.
    marks : (n,) uint8
        Receives the marks.
    """
    left_end = right_end = np.int64(0)
    for i in range(keys.size):
        n_left, n_right = np.int64(left.sizes[i]), np.int64(right.sizes[i])
        left_start, left_end = left_end, left_end + n_left
        right_start, right_end = right_end, right_end + n_right
        key, row, n_edges = keys[i], FIRST_OF_BLOCK + i, n_left * n_right
        left_sum, left_low, left_high, left_best = _sum_of_logs(left, left_start, left_end)
        right_sum, right_low, right_high, right_best = _sum_of_logs(right, right_start, right_end)
        sum_of_logs = n_right * left_sum + n_left * right_sum - n_edges * null.log_edges
        score = -sum_of_logs - null.class_cost
        score -= log_choices(null.factorials, left.at_least[n_right], n_left)
        score -= log_choices(null.factorials, right.at_least[n_left], n_right)
        low, high = left_low + right_low - null.log_edges, left_high + right_high - null.log_edges
        if high >= FIRST_PAIR:
            # No exact score is needed for a biclique that cannot be a vertex's best or among the highest.
            wanted = min(left_best, right_best, threshold_score)
            if score + _most_gain(n_edges, sum_of_logs, low, high, null.weights) >= wanted:
                score += _gain_of_likely(left, right, left_start, left_end, right_start, right_end, null)
        improves_left = _take_in(left, left_start, left_end, score, key, row, n_edges * n_right)
        improves_right = _take_in(right, right_start, right_end, score, key, row, n_edges * n_left)
        mark = np.uint8(0)
        if improves_left or improves_right:
            mark |= IMPROVES
        if score > threshold_score or (score == threshold_score and key < threshold_key):
            mark |= IS_HIGH
        scores[i], marks[i] = score, mark


@compiled(nrt=False)
def _is_best_of_some(side, start, end, row):
    k = start
    while k < end and side.best_rows[side.members[k]] != row:
        k += 1
    return k < end


@compiled(_SIDE, _SIDE, BYTES, nrt=False)
def drop_overtaken(left, right, marks):
    """Clear `IMPROVES` for bicliques that later ones of the block have overtaken at every vertex.

    Parameters
    ----------
    marks : (n,) uint8
        Changed in place.
    """
    left_end = right_end = np.int64(0)
    for i in range(marks.size):
        left_start, left_end = left_end, left_end + left.sizes[i]
        right_start, right_end = right_end, right_end + right.sizes[i]
        if marks[i] & IMPROVES:
            row = FIRST_OF_BLOCK + i
            is_best = _is_best_of_some(left, left_start, left_end, row)
            if not is_best and not _is_best_of_some(right, right_start, right_end, row):
                marks[i] &= IS_HIGH


@compiled(LONGS, INTS, LONGS, LONGS, int64, nrt=False)
def settle(offsets, members, best_rows, rows, first_row):
    """Set the rows in the pool of bicliques of the block, for the vertices with these as their best.

    Parameters
    ----------
    offsets, members : (n + 1,) int64 and int32
        Members of these bicliques on one side.
    best_rows : (n_vertices,) int64
        Changed in place.
    rows : (n,) int64
        Indices of these bicliques in the block.
    first_row : int64
        Row of the first biclique in the pool; the others follow.
    """
    for i in range(rows.size):
        row_of_block = FIRST_OF_BLOCK + rows[i]
        for k in range(offsets[i], offsets[i + 1]):
            if best_rows[members[k]] == row_of_block:
                best_rows[members[k]] = first_row + i

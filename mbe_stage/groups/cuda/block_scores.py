"""Kernels that score the bicliques of a block and update the records of each vertex, with a warp for each biclique.

The single pass of `mbe_stage.groups.block_scores` takes three kernels here, because no biclique waits for another. A
vertex's lowest key among best bicliques is known after its highest score, and its best biclique after the keys. All
steps are sums, maxima and minima of integers, so the result does not depend on their order.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numba import cuda

from mbe_stage.device.grid import this_warp
from mbe_stage.device.jit import I32, I64, I64_2D, INT, U8, bundle, compile_steps_of, kernel
from mbe_stage.device.warp import ballot, max_long, sum_all
from mbe_stage.groups.block_scores import BEST_SCORE, IMPROVES, IS_HIGH, LOG_DEGREE, N_BICLIQUES, SHARE
from mbe_stage.groups.null_model import FIRST_PAIR, LAST_PAIR, PAIR_BITS
from mbe_stage.runtime.compile_ahead import CompileStep

HIGHEST = np.int64(2**63 - 1)
"""Best key of a vertex without bicliques, or whose best score has just increased."""


class Side(NamedTuple):
    """One side of a block, and the records of its vertices.

    Attributes
    ----------
    offsets : (n_bicliques + 1,) int64, global
    members : int32, global
        Dense ids, biclique after biclique.
    at_least : (largest degree + 1,) int64, global
        Number of vertices with at least each degree.
    records : (n, FIELDS) int64, global
        As in `mbe_stage.groups.block_scores`: 32 bytes, the size of a device's memory transaction.
    best_keys : (n,) int64, global
        Key of the best biclique of each vertex; `HIGHEST` if there is none.
    """

    offsets: Any
    members: Any
    at_least: Any
    records: Any
    best_keys: Any


class Tables(NamedTuple):
    """``ln k!`` in units, and `mbe_stage.groups.null_model.PAIR_WEIGHTS`: int64, global."""

    factorials: Any
    weights: Any


_SIDE, _TABLES = bundle(Side, I64, I32, I64, I64_2D, I64), bundle(Tables, I64, I64)


def compile_steps() -> Sequence[CompileStep]:
    """Return the steps to compile the kernels for the current device."""
    return compile_steps_of(score_warp_per_biclique, lower_keys_warp_per_biclique, drop_overtaken_warp_per_biclique)


@cuda.jit(device=True, forceinline=True)
def _sum_of_logs(side, index):
    """Return sum and maximum of the logarithms of the members' degrees."""
    total, largest = np.int64(0), np.int64(-(1 << 61))
    for k in range(side.offsets[index] + cuda.laneid, side.offsets[index + 1], 32):
        log_degree = side.records[side.members[k], LOG_DEGREE]
        total += log_degree
        largest = max(largest, log_degree)
    return sum_all(total), max_long(largest)


@cuda.jit(device=True, forceinline=True)
def _gain_of_likely(side, other, index, log_edges, weights):
    """Return the excess of the weights of likely pairs over ``-ln z``; the lanes share the members of `side`."""
    gain = np.int64(0)
    for i in range(side.offsets[index] + cuda.laneid, side.offsets[index + 1], 32):
        own = side.records[side.members[i], LOG_DEGREE] - log_edges
        for k in range(other.offsets[index], other.offsets[index + 1]):
            log_expected = own + other.records[other.members[k], LOG_DEGREE]
            if log_expected >= FIRST_PAIR:
                above = min(log_expected - FIRST_PAIR, np.int64(LAST_PAIR))
                first, then = weights[above >> PAIR_BITS], weights[(above >> PAIR_BITS) + 1]
                gain += log_expected + first + ((then - first) * (above & ((1 << PAIR_BITS) - 1)) >> PAIR_BITS)
    return sum_all(gain)


@cuda.jit(device=True, forceinline=True)
def _cost_of_members(side, other_size, size, factorials):
    """Return ``ln C(n, size)``, where `n` is the number of vertices with at least `other_size` edges."""
    n = side.at_least[other_size]
    return factorials[n] - factorials[size] - factorials[n - size]


@cuda.jit(device=True, forceinline=True)
def _take_in(side, index, score, share):
    """Update the records of a biclique's members on one side; return True if it may be a best of this lane's members.

    Parameters
    ----------
    share : int64
        Its share numerator on this side.
    """
    may_be_best = False
    for k in range(side.offsets[index] + cuda.laneid, side.offsets[index + 1], 32):
        vertex = side.members[k]
        cuda.atomic.add(side.records, (vertex, N_BICLIQUES), 1)
        # Values only grow. A stale value is only too small, and this check avoids nearly all atomics.
        if side.records[vertex, SHARE] < share:
            cuda.atomic.max(side.records, (vertex, SHARE), share)
        if side.records[vertex, BEST_SCORE] <= score:
            may_be_best = True
            if cuda.atomic.max(side.records, (vertex, BEST_SCORE), score) < score:
                # The old key belongs to a lower score. No other key is written before the next kernel.
                side.best_keys[vertex] = HIGHEST
    return may_be_best


@kernel(_SIDE, _SIDE, _TABLES, I64, INT, INT, INT, INT, I64, U8)
def score_warp_per_biclique(
    left, right, tables, keys, log_edges, class_cost, threshold_score, threshold_key, scores, marks
):
    """Score a biclique, and update the records of its vertices except the keys.

    Parameters
    ----------
    keys : (n,) int64, global
    log_edges, class_cost : int64
        In units.
    threshold_score, threshold_key : int64
        A biclique is marked `IS_HIGH` if its score is higher, or equal with a lower key.
    scores : (n,) int64, global
        Receives the surprise in units.
    marks : (n,) uint8, global
        Receives the marks: `IMPROVES` if it may be the best of some vertex, which the next two kernels decide.
    """
    index = this_warp()
    if index >= keys.size:
        return
    n_left = left.offsets[index + 1] - left.offsets[index]
    n_right = right.offsets[index + 1] - right.offsets[index]
    n_edges = n_left * n_right
    left_sum, left_log = _sum_of_logs(left, index)
    right_sum, right_log = _sum_of_logs(right, index)
    score = n_edges * log_edges - n_right * left_sum - n_left * right_sum - class_cost
    score -= _cost_of_members(left, n_right, n_left, tables.factorials)
    score -= _cost_of_members(right, n_left, n_right, tables.factorials)
    if left_log + right_log - log_edges >= FIRST_PAIR:
        if n_left >= n_right:
            score += _gain_of_likely(left, right, index, log_edges, tables.weights)
        else:
            score += _gain_of_likely(right, left, index, log_edges, tables.weights)
    of_left = _take_in(left, index, score, n_edges * n_right)
    of_right = _take_in(right, index, score, n_edges * n_left)
    may_be_best = ballot(of_left or of_right) != 0
    if cuda.laneid == 0:
        mark = np.uint8(0)
        if may_be_best:
            mark = IMPROVES
        if score > threshold_score or (score == threshold_score and keys[index] < threshold_key):
            mark = np.uint8(mark | IS_HIGH)
        scores[index], marks[index] = score, mark


@cuda.jit(device=True, forceinline=True)
def _lower_keys(side, index, score, key):
    """Lower the best key of the members on one side that have this as their best score."""
    for k in range(side.offsets[index] + cuda.laneid, side.offsets[index + 1], 32):
        vertex = side.members[k]
        if side.records[vertex, BEST_SCORE] == score and side.best_keys[vertex] > key:
            cuda.atomic.min(side.best_keys, vertex, key)


@kernel(_SIDE, _SIDE, I64, I64, U8)
def lower_keys_warp_per_biclique(left, right, keys, scores, marks):
    """Set each vertex's best key to the lowest among its bicliques with the best score, including this block's.

    Parameters
    ----------
    keys, scores : (n,) int64, global
    marks : (n,) uint8, global
        Bicliques without `IMPROVES` are skipped.
    """
    index = this_warp()
    if index >= keys.size or not marks[index] & IMPROVES:
        return
    _lower_keys(left, index, scores[index], keys[index])
    _lower_keys(right, index, scores[index], keys[index])


@cuda.jit(device=True, forceinline=True)
def _is_best_of_some(side, index, score, key):
    """Return True if the biclique is the best of one of this lane's members."""
    found = False
    for k in range(side.offsets[index] + cuda.laneid, side.offsets[index + 1], 32):
        vertex = side.members[k]
        found |= side.records[vertex, BEST_SCORE] == score and side.best_keys[vertex] == key
    return found


@kernel(_SIDE, _SIDE, I64, I64, U8)
def drop_overtaken_warp_per_biclique(left, right, keys, scores, marks):
    """Clear `IMPROVES` for bicliques that are not the best of any vertex.

    Parameters
    ----------
    keys, scores : (n,) int64, global
    marks : (n,) uint8, global
        Changed in place.
    """
    index = this_warp()
    if index >= keys.size or not marks[index] & IMPROVES:
        return
    of_left = _is_best_of_some(left, index, scores[index], keys[index])
    of_right = _is_best_of_some(right, index, scores[index], keys[index])
    if ballot(of_left or of_right) == 0 and cuda.laneid == 0:
        marks[index] &= IS_HIGH

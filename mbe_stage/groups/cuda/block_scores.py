"""Kernels that score the bicliques of a block, and update the records of each vertex; a warp to each biclique.

The one pass of `mbe_stage.groups.block_scores` takes three here, because no biclique waits for another. The lowest key
among a vertex's best bicliques is known after its highest score, and the best bicliques are known after the keys. All
steps are sums, maxima and minima of integers, so the result does not depend on their order.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numba import cuda

from mbe_stage.device.grid import this_warp
from mbe_stage.device.jit import I32, I64, I64_2D, INT, U8, bundle, compile_steps_of, kernel
from mbe_stage.device.warp import ballot, sum_all
from mbe_stage.groups.block_scores import BEST_SCORE, IMPROVES, IS_HIGH, LOG_DEGREE, N_BICLIQUES, SHARE
from mbe_stage.runtime.compile_ahead import CompileStep

HIGHEST = np.int64(2**63 - 1)
"""Best key of a vertex without bicliques so far, or with a best score that has just increased."""


class Side(NamedTuple):
    """One side of a block, and what is kept of its vertices.

    Attributes
    ----------
    offsets : (n_bicliques + 1,) int64, global
    members : int32, global
        Dense ids, biclique after biclique.
    costs : int64, global
        ``ln C(n, size)`` in units, by size.
    records : (n, FIELDS) int64, global
        As in `mbe_stage.groups.block_scores`: 32 bytes, which is what a device reads at once.
    best_keys : (n,) int64, global
        Key of the best biclique of each vertex; `HIGHEST` where there is none.
    """

    offsets: Any
    members: Any
    costs: Any
    records: Any
    best_keys: Any


_SIDE = bundle(Side, I64, I32, I64, I64_2D, I64)


def compile_steps() -> Sequence[CompileStep]:
    """Compile the kernels for the current device."""
    return compile_steps_of(score_warp_per_biclique, lower_keys_warp_per_biclique, drop_overtaken_warp_per_biclique)


@cuda.jit(device=True, forceinline=True)
def _sum_of_logs(side, index):
    total = np.int64(0)
    for k in range(side.offsets[index] + cuda.laneid, side.offsets[index + 1], 32):
        total += side.records[side.members[k], LOG_DEGREE]
    return sum_all(total)


@cuda.jit(device=True, forceinline=True)
def _take_in(side, index, score, share):
    """Take a biclique into the records of its members of one side; whether this lane's may have found their best.

    Parameters
    ----------
    share : int64
        Its share numerator on this side.
    """
    may_be_best = False
    for k in range(side.offsets[index] + cuda.laneid, side.offsets[index + 1], 32):
        vertex = side.members[k]
        cuda.atomic.add(side.records, (vertex, N_BICLIQUES), 1)
        # Both figures only grow, so one read too early is only too small, and nearly all are spared the atomic.
        if side.records[vertex, SHARE] < share:
            cuda.atomic.max(side.records, (vertex, SHARE), share)
        if side.records[vertex, BEST_SCORE] <= score:
            may_be_best = True
            if cuda.atomic.max(side.records, (vertex, BEST_SCORE), score) < score:
                # The key belongs to a lower score. No other key is written before the next kernel.
                side.best_keys[vertex] = HIGHEST
    return may_be_best


@kernel(_SIDE, _SIDE, I64, INT, INT, INT, I64, U8)
def score_warp_per_biclique(left, right, keys, log_edges, threshold_score, threshold_key, scores, marks):
    """Score a biclique, and take it into what is kept of each vertex but the keys.

    Parameters
    ----------
    keys : (n,) int64, global
    log_edges : int64
        ``ln E`` in units.
    threshold_score, threshold_key : int64
        A biclique is marked `IS_HIGH` when its score is higher, or as high and its key lower.
    scores : (n,) int64, global
        Written: surprise in units.
    marks : (n,) uint8, global
        Written: `IMPROVES` where it may be the best of some vertex, which the next two kernels decide.
    """
    index = this_warp()
    if index >= keys.size:
        return
    n_left = left.offsets[index + 1] - left.offsets[index]
    n_right = right.offsets[index + 1] - right.offsets[index]
    n_edges = n_left * n_right
    score = n_edges * log_edges - left.costs[n_left] - right.costs[n_right]
    score -= n_right * _sum_of_logs(left, index)
    score -= n_left * _sum_of_logs(right, index)
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
    """Offer a key to those members of one side whose best score this is."""
    for k in range(side.offsets[index] + cuda.laneid, side.offsets[index + 1], 32):
        vertex = side.members[k]
        if side.records[vertex, BEST_SCORE] == score and side.best_keys[vertex] > key:
            cuda.atomic.min(side.best_keys, vertex, key)


@kernel(_SIDE, _SIDE, I64, I64, U8)
def lower_keys_warp_per_biclique(left, right, keys, scores, marks):
    """Make each best key the lowest among the bicliques of the vertex's best score, those of this block included.

    Parameters
    ----------
    keys, scores : (n,) int64, global
    marks : (n,) uint8, global
        Bicliques without `IMPROVES` are passed over.
    """
    index = this_warp()
    if index >= keys.size or not marks[index] & IMPROVES:
        return
    _lower_keys(left, index, scores[index], keys[index])
    _lower_keys(right, index, scores[index], keys[index])


@cuda.jit(device=True, forceinline=True)
def _is_best_of_some(side, index, score, key):
    """True if this lane's members of one side have one whose best it is."""
    found = False
    for k in range(side.offsets[index] + cuda.laneid, side.offsets[index + 1], 32):
        vertex = side.members[k]
        found |= side.records[vertex, BEST_SCORE] == score and side.best_keys[vertex] == key
    return found


@kernel(_SIDE, _SIDE, I64, I64, U8)
def drop_overtaken_warp_per_biclique(left, right, keys, scores, marks):
    """Take the mark `IMPROVES` from bicliques that are not the best of any vertex.

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

"""The vertices of the reduced graph behind the columns of a sparse node."""

from __future__ import annotations

import numpy as np
from numba import cuda

from mbe_stage.bicliques.cuda.nodes import entry
from mbe_stage.bicliques.cuda.paths import NO_COLUMN
from mbe_stage.device.warp import ALL, inclusive_sum, next_one, next_tile, sum_small

__all__ = ["count_ids", "exclusive_sums", "ids_of", "weight_of_ids", "write_ids"]

_U = np.uint32


@cuda.jit(device=True, forceinline=True)
def exclusive_sums(numbers, first, n):
    """Replace each of n numbers by the sum of those before it."""
    lane = np.int32(cuda.laneid)
    before = np.int32(0)
    tile = np.int32(0)
    while tile < n:
        value = np.int32(0)
        if np.int32(tile + lane) < n:
            value = np.int32(numbers[np.uint64(first + tile + lane)])
        ends = inclusive_sum(value)
        if np.int32(tile + lane) < n:
            numbers[np.uint64(first + tile + lane)] = np.int32(before + ends - value)
        before = np.int32(before + cuda.shfl_sync(ALL, ends, 31))
        tile = next_tile(tile)
    cuda.syncwarp()


@cuda.jit(device=True, forceinline=True)
def count_ids(node, child, own, numbers):
    """How many vertices of the reduced graph are behind the kept columns."""
    n_ids = np.int32(0)
    k = np.int32(cuda.laneid)
    while k < child.n_left:
        if own.columns[_U(k)] >= 0:
            first, end = ids_of(node, numbers[entry(node, child.left_at + k)], numbers)
            n_ids = np.int32(n_ids + (end - first))
        k = next_tile(k)
    return sum_small(n_ids)


@cuda.jit(device=True, forceinline=True)
def write_ids(node, child, own, target, offsets, n_columns, ids, numbers):
    """Write, for the columns numbered in `columns`, which vertices of the reduced graph are behind each of them.

    ``target[offsets:]`` receives `n_columns` + 1 offsets, ``target[ids:]`` the vertices.
    """
    lane = np.int32(cuda.laneid)
    k = lane
    while k <= n_columns:
        target[np.uint64(offsets + k)] = 0
        k = next_tile(k)
    cuda.syncwarp()
    tile = np.int32(0)
    while tile < child.n_left:
        column, first, end = _ids_at(tile, node, child, own, numbers)
        if column >= 0:
            cuda.atomic.add(target, np.uint64(offsets + 1 + column), np.int32(end - first))
        tile = next_tile(tile)
    cuda.syncwarp()
    # Each offset first stands where its list begins and, filling done, where it ends: the next one's beginning.
    exclusive_sums(target, np.int64(offsets + 1), n_columns)
    tile = np.int32(0)
    while tile < child.n_left:
        column, first, end = _ids_at(tile, node, child, own, numbers)
        if column >= 0:
            place = cuda.atomic.add(target, np.uint64(offsets + 1 + column), np.int32(end - first))
            to = np.int64(ids + place - first)
            while first < end:
                target[np.uint64(to + first)] = numbers[entry(node, node.ids + first)]
                first = next_one(first)
        tile = next_tile(tile)
    cuda.syncwarp()


@cuda.jit(device=True, forceinline=True)
def _ids_at(tile, node, child, own, numbers):
    """The new column at this lane's place in the left set, -1 for none, and where the vertices behind it are."""
    k = np.int32(tile + cuda.laneid)
    column = np.int32(NO_COLUMN)
    first, end = np.int32(0), np.int32(0)
    if k < child.n_left:
        column = own.columns[_U(k)]
        first, end = ids_of(node, numbers[entry(node, child.left_at + k)], numbers)
    return column, first, end


@cuda.jit(device=True, forceinline=True)
def ids_of(node, column, numbers):
    """Where the vertices of the reduced graph behind a node's column begin and end among the node's ids."""
    return numbers[entry(node, column)], numbers[entry(node, column + 1)]


@cuda.jit(device=True, forceinline=True)
def weight_of_ids(first, end, node, pool):
    """How many of the user's vertices stand behind so many of the node's ids."""
    weight = np.int32(0)
    while first < end:
        weight = np.int32(weight + pool.column_weights[_U(pool.ints[entry(node, node.ids + first)])])
        first = next_one(first)
    return weight

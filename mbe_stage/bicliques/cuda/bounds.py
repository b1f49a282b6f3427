"""What the size conditions allow below a child of a sparse node. Asked only where there are conditions."""

from __future__ import annotations

import numpy as np
from numba import cuda

from mbe_stage.bicliques.cuda import layout as at
from mbe_stage.bicliques.cuda.ids import ids_of, weight_of_ids
from mbe_stage.bicliques.cuda.nodes import entry
from mbe_stage.bicliques.cuda.warp import next_tile, sum_small

__all__ = ["allows_enough", "are_enough", "left_weight", "limits_hold"]

_U = np.uint32


@cuda.jit(device=True, forceinline=True)
def limits_hold(mode, pool):
    """Whether there are conditions; what only counts or writes members is compiled without a thought of them."""
    return (mode == at.SIZES or mode == at.WITHIN) and pool.limits[at.ACTIVE] != 0


@cuda.jit(device=True, forceinline=True)
def left_weight(node, child, pool):
    """How many of the user's vertices a child's left set stands for."""
    numbers = pool.ints
    weight = np.int32(0)
    k = np.int32(cuda.laneid)
    while k < child.n_left:
        first, end = ids_of(node, numbers[entry(node, child.left_at + k)], numbers)
        weight = np.int32(weight + weight_of_ids(first, end, node, pool))
        k = next_tile(k)
    return sum_small(weight)


@cuda.jit(device=True, forceinline=True)
def allows_enough(left_most, node, child, n_touched, own, pool):
    """Whether the path, the child and all later rows that see its left set are right vertices enough, and edges.

    An earlier row is on no right side below: where it holds a left set, that was found before. Without this, the rows
    that a large minimum on the right leaves no choice about would be tried in all their subsets.
    """
    numbers = pool.ints
    weight = np.int32(0)
    k = np.int32(cuda.laneid)
    while k < node.n_path:
        weight = np.int32(weight + pool.row_weights[_U(numbers[entry(node, node.path + k)])])
        k = next_tile(k)
    k = np.int32(cuda.laneid)
    while k < n_touched:
        other = own.touched[_U(k)]
        if other >= child.row:
            weight = np.int32(weight + pool.row_weights[_U(numbers[entry(node, node.row_ids + other)])])
        k = next_tile(k)
    return are_enough(left_most, sum_small(weight), pool)


@cuda.jit(device=True, forceinline=True)
def are_enough(left_most, right_most, pool):
    """Whether sides of so many of the user's vertices at most allow enough on the right, and edges."""
    return right_most >= pool.limits[at.MIN_RIGHT] and np.int64(left_most) * right_most >= pool.limits[at.MIN_EDGES]

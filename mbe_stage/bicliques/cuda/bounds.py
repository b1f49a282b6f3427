"""What the size conditions allow below a child of a sparse node. Asked only where there are conditions."""

from __future__ import annotations

import numpy as np
from numba import cuda

from mbe_stage.bicliques.cuda import layout as at
from mbe_stage.bicliques.cuda.ids import ids_of, weight_of_ids
from mbe_stage.bicliques.cuda.nodes import entry
from mbe_stage.device.warp import lowest_bits, next_tile, sum_small

__all__ = ["allows", "left_weight", "limits_hold", "right_bounds"]

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
def right_bounds(is_wide, node, child, n_touched, own, pool):
    """How many of the user's right vertices every biclique from a child on has at least, and at most.

    At least: the path, the child and the later rows that hold all of its left set. At most: all later rows that see it,
    too. An earlier row is on no right side below: where it holds a left set, that was found before. Without these
    bounds, the rows that a large minimum on the right leaves no choice about would be tried in all their subsets, and
    below a small maximum there would be all that is larger.
    """
    numbers = pool.ints
    least = np.int32(0)
    more = np.int32(0)
    k = np.int32(cuda.laneid)
    while k < node.n_path:
        least = np.int32(least + pool.row_weights[_U(numbers[entry(node, node.path + k)])])
        k = next_tile(k)
    whole = child.n_left if is_wide else np.int32(lowest_bits(child.n_left))
    k = np.int32(cuda.laneid)
    while k < n_touched:
        other = own.touched[_U(k)]
        if other >= child.row:
            weight = pool.row_weights[_U(numbers[entry(node, node.row_ids + other)])]
            held = own.counts[_U(other)] if is_wide else np.int32(own.bits[_U(other)])
            if held == whole:
                least = np.int32(least + weight)
            else:
                more = np.int32(more + weight)
        k = next_tile(k)
    least = sum_small(least)
    return least, np.int32(least + sum_small(more))


@cuda.jit(device=True, forceinline=True)
def allows(left_most, right_least, right_most, pool):
    """Whether sides within these bounds, in the user's vertices, may be of a wanted size on the right, with the edges
    wanted."""
    return (
        right_least <= pool.limits[at.MAX_RIGHT]
        and right_most >= pool.limits[at.MIN_RIGHT]
        and np.int64(left_most) * right_most >= pool.limits[at.MIN_EDGES]
    )

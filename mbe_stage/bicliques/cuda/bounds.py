"""What the size constraints allow below a child of a subgraph. Asked only where there are constraints."""

from __future__ import annotations

import numpy as np
from numba import cuda

from mbe_stage.bicliques.constraints import ACTIVE, MAX_RIGHT, MIN_EDGES, MIN_RIGHT
from mbe_stage.bicliques.cuda import layout as at
from mbe_stage.bicliques.cuda.subgraph_parts import entry, ids_of, multiplicity_of_ids
from mbe_stage.device.warp import lowest_bits, next_tile, sum_small

_U = np.uint32


@cuda.jit(device=True, forceinline=True)
def has_constraints(mode, pool):
    """Whether there are constraints; what only counts or writes members is compiled without a thought of them."""
    return (mode == at.SIZES or mode == at.CONSTRAINED) and pool.constraints[ACTIVE] != 0


@cuda.jit(device=True, forceinline=True)
def left_multiplicity(node, child, pool):
    """How many of the user's vertices a child's left set stands for."""
    numbers = pool.ints
    multiplicity = np.int32(0)
    k = np.int32(cuda.laneid)
    while k < child.n_left:
        first, end = ids_of(node, numbers[entry(node, child.left_at + k)], numbers)
        multiplicity = np.int32(multiplicity + multiplicity_of_ids(first, end, node, pool))
        k = next_tile(k)
    return sum_small(multiplicity)


@cuda.jit(device=True, forceinline=True)
def right_bounds(seen, node, child, own, pool):
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
        least = np.int32(least + pool.row_multiplicities[_U(numbers[entry(node, node.path + k)])])
        k = next_tile(k)
    whole = child.n_left if seen.is_list else np.int32(lowest_bits(child.n_left))
    k = np.int32(cuda.laneid)
    while k < seen.n_nonzero:
        other = own.nonzero[_U(k)]
        if other >= child.row:
            multiplicity = pool.row_multiplicities[_U(numbers[entry(node, node.row_ids + other)])]
            held = own.counts[_U(other)] if seen.is_list else np.int32(own.bits[_U(other)])
            if held == whole:
                least = np.int32(least + multiplicity)
            else:
                more = np.int32(more + multiplicity)
        k = next_tile(k)
    least = sum_small(least)
    return least, np.int32(least + sum_small(more))


@cuda.jit(device=True, forceinline=True)
def allows(left_most, right_least, right_most, pool):
    """Whether sides within these bounds, in the user's vertices, may have a wanted right size and edges enough."""
    return (
        right_least <= pool.constraints[MAX_RIGHT]
        and right_most >= pool.constraints[MIN_RIGHT]
        and np.int64(left_most) * right_most >= pool.constraints[MIN_EDGES]
    )

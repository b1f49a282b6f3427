"""Count within size constraints: a biclique is weighed only if no bound decides for all of its subtree.

A subtree is *settled* once its left sets are small enough, and its right sides are large enough, whatever they are:
right sides grow, and the path and the rows that hold the whole left set are on all of them. Then only minimum left
sizes remain to be checked, and its frames keep no superset. Every set below a child has a right vertex more than it.
"""

from __future__ import annotations

import numpy as np
from numba import cuda

from mbe_stage.bicliques.constraints import MAX_LEFT, MAX_RIGHT, MIN_EDGES, MIN_LEFT, MIN_RIGHT
from mbe_stage.bicliques.cuda import layout
from mbe_stage.bicliques.cuda.bitset_children import restrict_superset
from mbe_stage.bicliques.cuda.closed_sets import fewer_members, fewest_members, pack, with_some, without_whole
from mbe_stage.bicliques.cuda.emit_bitsets import accepts, emit_below, size_of_word
from mbe_stage.bicliques.cuda.subgraph_parts import allows
from mbe_stage.bicliques.cuda.techniques import SETTLING
from mbe_stage.bicliques.cuda.walk_bundles import Superset
from mbe_stage.device.warp import ALL, ballot, count_bits, lowest_bit, nth_bit
from mbe_stage.options import NO_LIMIT

_U = np.uint32
_ONE = _U(1)
_NONE = _U(0)
_LOWER = np.int32(5)
"""Columns of a subset that are bits within a word; the others are the lane."""


@cuda.jit(device=True, forceinline=True)
def is_settled(left_most, right_least, pool, launch):
    """True if bicliques with these bounds, in the user's vertices, and enough left vertices are wanted."""
    constraints = pool.constraints
    return (
        launch.techniques & SETTLING != 0
        and left_most <= constraints[MAX_LEFT]
        and constraints[MAX_RIGHT] == NO_LIMIT
        and right_least >= constraints[MIN_RIGHT]
        and np.int64(right_least) * constraints[MIN_LEFT] >= constraints[MIN_EDGES]
    )


@cuda.jit(device=True, forceinline=True)
def with_few(closed, pool):
    """The subsets with fewer columns than the smallest left side has vertices. All others are large enough."""
    return _U(closed & fewer_members(np.int32(pool.constraints[MIN_LEFT] - count_bits(_U(cuda.laneid)))))


@cuda.jit(device=True, forceinline=True)
def large_enough(closed, few, left, moves, multiplicity, pool):
    """Keep the subsets of `left`, packed by `moves`, with enough of the user's left vertices.

    Only those in `few` (`with_few`) may have too few; this lane's column of the word stands for `multiplicity`
    vertices.
    """
    lane = np.int32(cuda.laneid)
    least = np.int32(pool.constraints[MIN_LEFT])
    several = pack(_U(ballot(multiplicity > 1) & left), moves)
    more = with_some(several)
    closed = _U(closed & ~_U(few & ~more))
    rest = ballot(_U(few & more) != 0)
    if least <= 2 or rest == 0:
        return closed
    multiplicity = cuda.shfl_sync(ALL, multiplicity, nth_bit(left, lane))
    size = count_bits(_U(lane))
    lower, upper = size, size
    while several != 0:
        column, several = lowest_bit(several)
        more = np.int32(cuda.shfl_sync(ALL, multiplicity, column) - 1)
        if column < _LOWER:
            lower = np.int32(lower + (more if _U(_U(lane) >> _U(column)) & _ONE != 0 else 0))
        else:
            upper = np.int32(upper + (more if _U(_U(lane) >> _U(column - _LOWER)) & _ONE != 0 else 0))
    while rest != 0:
        holder, rest = lowest_bit(rest)
        enough = ballot(lower >= np.int32(least - cuda.shfl_sync(ALL, upper, holder)))
        if lane == holder:
            closed = _U(closed & enough)
    return closed


@cuda.jit(device=True, forceinline=True)
def count_child_within(child, below, goes_below, cursor, frame, own, pool, output, launch):
    """Count a bitset frame's child and its finished subtree, within the constraints.

    Returns this lane's share of the bicliques, but those that are weighed are added to ``state[FOUND]``; the rows of
    its superset, 0 if it is settled; if it is not, its fewest right vertices, the user's; and True if nothing is wanted
    from the child on.
    """
    lane = np.int32(cuda.laneid)
    no = np.int32(0)
    is_new = child.kind != layout.OF_LIST
    is_wanted = is_new
    n_superset, right_least = no, no
    if frame[layout.N_SUPERSET] > 0:
        fewest = fewest_members(below.closed) if child.is_small else np.int32(1)
        n_superset, right_least, right_most = restrict_superset(
            child.left, fewest, cursor, frame, own, pool, launch.mode
        )
        if not allows(child.left_most, right_least, right_most, pool):
            return no, no, no, True
        is_wanted = is_new and accepts(child.left_most, right_least, pool.constraints)
        if is_settled(child.left_most, np.int32(right_least + is_new), pool, launch):
            n_superset = no
    n_found = no
    if n_superset > 0 and (child.is_small or not goes_below):
        superset = Superset(frame[layout.WORDS_TOP], n_superset, frame[layout.INTS_TOP])
        emit_below(child, below, below.top, below.n_listed, superset, own, pool, output, launch)
    elif child.is_small:
        closed = below.closed
        if is_new and not is_wanted:
            closed = without_whole(closed, _NONE, count_bits(child.left))
        few = with_few(closed, pool)
        if cuda.any_sync(ALL, few != 0):
            multiplicity = own.ints[_U(layout.HEADER_MULTIPLICITIES + lane)]
            closed = large_enough(closed, few, child.left, below.moves, multiplicity, pool)
        n_found = count_bits(closed)
    elif not goes_below:
        word = own.words[_U(below.top + lane)] if lane < below.n_listed else _NONE
        size = count_bits(word)
        if cuda.any_sync(ALL, word != 0 and size < pool.constraints[MIN_LEFT]):
            size = size_of_word(word, own.ints[_U(layout.HEADER_MULTIPLICITIES + lane)])
        n_found = np.int32(size >= pool.constraints[MIN_LEFT])
    if is_wanted and not child.is_small and lane == 0:
        n_found = np.int32(n_found + 1)
    return n_found, n_superset, right_least, False

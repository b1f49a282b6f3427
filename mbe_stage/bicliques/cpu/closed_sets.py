"""Finish whole subtrees at once: six left vertices have only 64 subsets, and one word holds a set of subsets.

A set of subsets is a bitmap: a uint64 whose bit ``s`` says whether the subset with index ``s`` (bit ``b`` of ``s``:
vertex ``b``) is in it. For a node whose candidates' rows are the subsets F and whose excluded rows are the subsets Q,
the left sides of all maximal bicliques below it are the non-empty sets S that

- are an intersection of members of F: S lies in one, and every vertex outside S is missing in one that holds S;
- lie inside no member of Q.

Both are a few shifts: the down-set of a bitmap (all subsets of its members) takes one step per vertex.

Columns with the same candidates are in the same left sets. So the six "vertices" may be six groups of columns, each
given by its mask. A candidate's row holds all of a group or none of it. An excluded row counts as holding a group only
if it holds all of it.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from mbe_stage.bits import (
    WITHOUT_0,
    WITHOUT_1,
    WITHOUT_2,
    WITHOUT_3,
    WITHOUT_4,
    WITHOUT_5,
    deposit_bits,
    down_set,
    extract_bits,
)
from mbe_stage.runtime.jit import compiled

CLOSED_SET_WIDTH = 6
"""Most groups of columns whose subsets fit one word."""

_U = np.uint64
_ONE = _U(1)
_NO_GROUP = ~_U(0)
"""Stands for a group that is not there: no restricted row has all 64 columns."""
TOUCHING = np.array([sum(1 << other for other in range(64) if other & s) for s in range(64)], np.uint64)
"""The subsets that hold any column of a subset, by its index."""
_WIDE_SUBSETS = np.array([sum(1 << s for s in range(64) if s.bit_count() >= n) for n in range(8)], np.uint64)
_SINGLE_SUBSETS = _U(sum(1 << (1 << k) for k in range(CLOSED_SET_WIDTH)))


@compiled(nrt=False)
def closed_sets(candidates, excluded):
    """The left sides of all maximal bicliques that contain a candidate, as a bitmap.

    Parameters
    ----------
    candidates, excluded : uint64
        Bitmaps of rows; the node's own left set counts as a candidate if it should be among the results.

    Returns
    -------
    uint64
    """
    closed = ~WITHOUT_0 | down_set(candidates & WITHOUT_0)
    closed &= ~WITHOUT_1 | down_set(candidates & WITHOUT_1)
    closed &= ~WITHOUT_2 | down_set(candidates & WITHOUT_2)
    closed &= ~WITHOUT_3 | down_set(candidates & WITHOUT_3)
    closed &= ~WITHOUT_4 | down_set(candidates & WITHOUT_4)
    closed &= ~WITHOUT_5 | down_set(candidates & WITHOUT_5)
    return closed & down_set(candidates) & ~_ONE & ~down_set(excluded)


@njit(inline="always")
def wide_subsets(least):
    """Return the subsets with at least this number of columns."""
    return _WIDE_SUBSETS[min(least, CLOSED_SET_WIDTH + 1)]


@compiled(nrt=False)
def column_groups(words, start, end, masks):
    """Fill `masks`, (6,) uint64, with the groups of columns that the rows ``words[start:end]`` cannot tell apart.

    Returns
    -------
    bool
        False if there are more than six. Columns in no row belong to no group.
    """
    n_groups = 0
    covered = _U(0)
    for k in range(CLOSED_SET_WIDTH):
        masks[k] = _NO_GROUP
    for k in range(start, end):
        row = words[k]
        for g in range(n_groups):
            inside = masks[g] & row
            if inside != _U(0) and inside != masks[g]:
                if n_groups == CLOSED_SET_WIDTH:
                    return False
                masks[n_groups] = masks[g] ^ inside
                masks[g] = inside
                n_groups += 1
        fresh = row & ~covered
        if fresh != _U(0):
            if n_groups == CLOSED_SET_WIDTH:
                return False
            masks[n_groups] = fresh
            n_groups += 1
            covered |= row
    return True


@compiled(nrt=False)
def subsets_of(words, start, end, left, masks):
    """The subsets that are ``words[start:end]`` restricted to `left`: the groups that each row holds.

    There are no branches, so it is vector code.
    """
    groups = masks[0], masks[1], masks[2], masks[3], masks[4], masks[5]
    subsets = _U(0)
    for k in range(start, end):
        subsets |= _ONE << subset_of(words[k] & left, groups)
    return subsets


@compiled(nrt=False, inlined=True)
def subset_of(row, groups):
    """Index of the subset of groups that a row holds all of."""
    return (
        (_ONE if row & groups[0] == groups[0] else _U(0))
        | (_U(2) if row & groups[1] == groups[1] else _U(0))
        | (_U(4) if row & groups[2] == groups[2] else _U(0))
        | (_U(8) if row & groups[3] == groups[3] else _U(0))
        | (_U(16) if row & groups[4] == groups[4] else _U(0))
        | (_U(32) if row & groups[5] == groups[5] else _U(0))
    )


@compiled(nrt=False)
def subsets_inside(words, start, end, left):
    """The subsets of a word of at most six columns that the rows ``words[start:end]`` hold of it."""
    subsets = _U(0)
    for k in range(start, end):
        subsets |= _ONE << extract_bits(words[k], left)
    return subsets


@njit(inline="always")
def subsets_of_singles(columns, masks):
    """The subsets that are rows of one column each, given as a word: a group counts only if it is one of them."""
    subsets = _U(0)
    for k in range(CLOSED_SET_WIDTH):
        if masks[k] & columns == masks[k] and masks[k] & (masks[k] - _ONE) == _U(0):
            subsets |= _ONE << (_ONE << _U(k))
    return subsets


@njit(inline="always")
def singles_inside(columns, left):
    """The subsets of a word of at most six columns that are one of the `columns`."""
    return deposit_bits(extract_bits(columns, left), _SINGLE_SUBSETS)


@njit(inline="always")
def spread(subset, masks):
    """The columns of all groups in the subset with this index."""
    word = _U(0)
    for k in range(CLOSED_SET_WIDTH):
        if subset >> _U(k) & _ONE:
            word |= masks[k]
    return word

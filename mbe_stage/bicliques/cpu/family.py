"""Whole subtrees at once: at most six left vertices have only 64 subsets, and one word holds a set of subsets.

A *family* is a uint64 whose bit ``s`` says whether the subset with index ``s`` (bit ``b`` of ``s``: vertex ``b``) is in
it. For a node with left set X, |X| <= 6, whose candidates' rows form the family F (with X itself in it) and whose
excluded rows form the family Q, the maximal bicliques of the whole subtree are the non-empty sets S that

- are an intersection of members of F: every vertex outside S is missing in some member of F that holds S;
- lie inside no member of Q.

Both are a few shifts: the down-set of a family (all subsets of its members) takes one step per vertex.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from mbe_stage.bicliques.cpu.bits import lowest_bit_index

__all__ = ["FAMILY_WIDTH", "family_of", "family_of_singles", "maximal_family", "positions_of", "spread"]

FAMILY_WIDTH = 6
"""Most left vertices whose subsets fit one word."""

_U = np.uint64
# Subsets without vertex 0, 1, ... 5.
_WITHOUT_0 = _U(0x5555555555555555)
_WITHOUT_1 = _U(0x3333333333333333)
_WITHOUT_2 = _U(0x0F0F0F0F0F0F0F0F)
_WITHOUT_3 = _U(0x00FF00FF00FF00FF)
_WITHOUT_4 = _U(0x0000FFFF0000FFFF)
_WITHOUT_5 = _U(0x00000000FFFFFFFF)
_ONE = _U(1)


@njit(inline="always")
def _down_set(family):
    family |= (family & ~_WITHOUT_0) >> _U(1)
    family |= (family & ~_WITHOUT_1) >> _U(2)
    family |= (family & ~_WITHOUT_2) >> _U(4)
    family |= (family & ~_WITHOUT_3) >> _U(8)
    family |= (family & ~_WITHOUT_4) >> _U(16)
    family |= (family & ~_WITHOUT_5) >> _U(32)
    return family


@njit(cache=True, nogil=True)
def maximal_family(candidates, excluded, width):
    """The left sides of all maximal bicliques of the subtree, as a family.

    Parameters
    ----------
    candidates, excluded : uint64
        Families of the rows restricted to X; the whole of X is added to `candidates`.
    width : int
        |X|, 1 to 6.

    Returns
    -------
    uint64
        A family; it holds X itself unless an excluded row does.
    """
    size = _U(1) << _U(width)
    candidates |= _ONE << (size - _ONE)
    closed = ~_WITHOUT_0 | _down_set(candidates & _WITHOUT_0)
    closed &= ~_WITHOUT_1 | _down_set(candidates & _WITHOUT_1)
    closed &= ~_WITHOUT_2 | _down_set(candidates & _WITHOUT_2)
    closed &= ~_WITHOUT_3 | _down_set(candidates & _WITHOUT_3)
    closed &= ~_WITHOUT_4 | _down_set(candidates & _WITHOUT_4)
    closed &= ~_WITHOUT_5 | _down_set(candidates & _WITHOUT_5)
    # Below six vertices the indices above 2**width name no subset of X; index 0 is the empty set.
    universe = ~_U(0) if width == 6 else (_ONE << size) - _ONE
    return closed & universe & ~_ONE & ~_down_set(excluded)


@njit(inline="always")
def positions_of(word):
    """Positions of the (at most six) set bits of a word; missing ones point at a clear bit."""
    clear = _U(lowest_bit_index(~word))
    p0 = clear if word == _U(0) else _U(lowest_bit_index(word))
    word &= word - _ONE
    p1 = clear if word == _U(0) else _U(lowest_bit_index(word))
    word &= word - _ONE
    p2 = clear if word == _U(0) else _U(lowest_bit_index(word))
    word &= word - _ONE
    p3 = clear if word == _U(0) else _U(lowest_bit_index(word))
    word &= word - _ONE
    p4 = clear if word == _U(0) else _U(lowest_bit_index(word))
    word &= word - _ONE
    p5 = clear if word == _U(0) else _U(lowest_bit_index(word))
    return p0, p1, p2, p3, p4, p5


@njit(cache=True, nogil=True)
def family_of(rows, mask, positions):
    """Family of the rows restricted to `mask`, whose bits stand at `positions` (a loop without branches: it is
    compiled to vector instructions)."""
    p0, p1, p2, p3, p4, p5 = positions
    family = _U(0)
    for k in range(rows.size):
        row = rows[k] & mask
        index = (
            ((row >> p0) & _ONE)
            | (((row >> p1) & _ONE) << _U(1))
            | (((row >> p2) & _ONE) << _U(2))
            | (((row >> p3) & _ONE) << _U(3))
            | (((row >> p4) & _ONE) << _U(4))
            | (((row >> p5) & _ONE) << _U(5))
        )
        family |= _ONE << index
    return family


@njit(inline="always")
def family_of_singles(columns, positions):
    """Family of the one-element sets of `columns`."""
    p0, p1, p2, p3, p4, p5 = positions
    return (
        (((columns >> p0) & _ONE) << _U(1))
        | (((columns >> p1) & _ONE) << _U(2))
        | (((columns >> p2) & _ONE) << _U(4))
        | (((columns >> p3) & _ONE) << _U(8))
        | (((columns >> p4) & _ONE) << _U(16))
        | (((columns >> p5) & _ONE) << _U(32))
    )


@njit(inline="always")
def spread(subset, positions):
    """The word whose bits stand where the subset with this index says: the inverse of the index in `family_of`."""
    p0, p1, p2, p3, p4, p5 = positions
    word = _U(0)
    if subset & _U(1):
        word |= _ONE << p0
    if subset & _U(2):
        word |= _ONE << p1
    if subset & _U(4):
        word |= _ONE << p2
    if subset & _U(8):
        word |= _ONE << p3
    if subset & _U(16):
        word |= _ONE << p4
    if subset & _U(32):
        word |= _ONE << p5
    return word

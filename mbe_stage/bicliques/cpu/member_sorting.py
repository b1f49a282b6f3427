"""Sorting the members of one biclique: distinct ids, nearly always a few of them."""

from __future__ import annotations

import numpy as np
from numba import njit

from mbe_stage.bits import lowest_bit_index
from mbe_stage.jit import compiled

SORT_SLACK = 16
"""Entries behind the last id that `sort_ids` may overwrite."""

_U = np.uint64
_ONE = _U(1)
_LARGEST = np.int32(2**31 - 1)
_INSERTION_MOST = 48
# A pass over a bitmap of all vertices is worth it for a set with at least one id in so many of its words.
_WORDS_PER_ID = 8


@compiled()
def sort_ids(ids, start, end, bitmap):
    """Sort ``ids[start:end]``, distinct and not negative; ``ids[end : end + SORT_SLACK]`` is lost.

    Up to 16 ids go through a sorting network, which takes no branches that depend on them; large sets through a bitmap
    of all vertices, whose words are zero before and after.
    """
    n = end - start
    if n <= 8:
        _pad(ids, end, start + 8)
        _sort_8(ids, _U(start))
    elif n <= 16:
        _pad(ids, end, start + 16)
        _sort_8(ids, _U(start))
        _sort_8(ids, _U(start + 8))
        _merge_16(ids, _U(start))
    elif n <= _INSERTION_MOST:
        _insertion_sort(ids, start, end)
    else:
        _sort_many(ids, start, end, bitmap)


# By itself: the frame that a quicksort needs would be set up for the few ids as well.
@compiled()
def _sort_many(ids, start, end, bitmap):
    if (end - start) * _WORDS_PER_ID >= bitmap.size:
        _bitmap_sort(ids, start, end, bitmap)
    else:
        ids[start:end].sort()


@njit(inline="always")
def _pad(ids, start, end):
    for k in range(start, end):
        ids[k] = _LARGEST


@njit(inline="always")
def _ordered(one, other):
    return min(one, other), max(one, other)


@njit(inline="always")
def _eight(ids, start):
    return (
        ids[start],
        ids[start + _U(1)],
        ids[start + _U(2)],
        ids[start + _U(3)],
        ids[start + _U(4)],
        ids[start + _U(5)],
        ids[start + _U(6)],
        ids[start + _U(7)],
    )


@njit(inline="always")
def _put_eight(ids, start, values):
    ids[start] = values[0]
    ids[start + _U(1)] = values[1]
    ids[start + _U(2)] = values[2]
    ids[start + _U(3)] = values[3]
    ids[start + _U(4)] = values[4]
    ids[start + _U(5)] = values[5]
    ids[start + _U(6)] = values[6]
    ids[start + _U(7)] = values[7]


@compiled(nrt=False)
def _sort_8(ids, start):
    """The network of 19 comparisons for ``ids[start : start + 8]``, one paragraph a layer."""
    a0, a1, a2, a3, a4, a5, a6, a7 = _eight(ids, start)

    a0, a2 = _ordered(a0, a2)
    a1, a3 = _ordered(a1, a3)
    a4, a6 = _ordered(a4, a6)
    a5, a7 = _ordered(a5, a7)

    a0, a4 = _ordered(a0, a4)
    a1, a5 = _ordered(a1, a5)
    a2, a6 = _ordered(a2, a6)
    a3, a7 = _ordered(a3, a7)

    a0, a1 = _ordered(a0, a1)
    a2, a3 = _ordered(a2, a3)
    a4, a5 = _ordered(a4, a5)
    a6, a7 = _ordered(a6, a7)

    a2, a4 = _ordered(a2, a4)
    a3, a5 = _ordered(a3, a5)

    a1, a4 = _ordered(a1, a4)
    a3, a6 = _ordered(a3, a6)

    a1, a2 = _ordered(a1, a2)
    a3, a4 = _ordered(a3, a4)
    a5, a6 = _ordered(a5, a6)

    _put_eight(ids, start, (a0, a1, a2, a3, a4, a5, a6, a7))


@compiled(nrt=False)
def _merge_16(ids, start):
    """Batcher's odd-even merge of ``ids[start : start + 8]`` and the 8 ids behind."""
    a0, a1, a2, a3, a4, a5, a6, a7 = _eight(ids, start)
    a8, a9, a10, a11, a12, a13, a14, a15 = _eight(ids, start + _U(8))

    a0, a8 = _ordered(a0, a8)
    a1, a9 = _ordered(a1, a9)
    a2, a10 = _ordered(a2, a10)
    a3, a11 = _ordered(a3, a11)
    a4, a12 = _ordered(a4, a12)
    a5, a13 = _ordered(a5, a13)
    a6, a14 = _ordered(a6, a14)
    a7, a15 = _ordered(a7, a15)

    a4, a8 = _ordered(a4, a8)
    a5, a9 = _ordered(a5, a9)
    a6, a10 = _ordered(a6, a10)
    a7, a11 = _ordered(a7, a11)

    a2, a4 = _ordered(a2, a4)
    a3, a5 = _ordered(a3, a5)
    a6, a8 = _ordered(a6, a8)
    a7, a9 = _ordered(a7, a9)
    a10, a12 = _ordered(a10, a12)
    a11, a13 = _ordered(a11, a13)

    a1, a2 = _ordered(a1, a2)
    a3, a4 = _ordered(a3, a4)
    a5, a6 = _ordered(a5, a6)
    a7, a8 = _ordered(a7, a8)
    a9, a10 = _ordered(a9, a10)
    a11, a12 = _ordered(a11, a12)
    a13, a14 = _ordered(a13, a14)

    _put_eight(ids, start, (a0, a1, a2, a3, a4, a5, a6, a7))
    _put_eight(ids, start + _U(8), (a8, a9, a10, a11, a12, a13, a14, a15))


@compiled(nrt=False)
def _insertion_sort(ids, start, end):
    for k in range(start + 1, end):
        value = ids[k]
        j = k
        while j > start and ids[j - 1] > value:
            ids[j] = ids[j - 1]
            j -= 1
        ids[j] = value


@compiled(nrt=False)
def _bitmap_sort(ids, start, end, bitmap):
    first, last = bitmap.size, -1
    for k in range(start, end):
        word = ids[k] >> 6
        bitmap[word] |= _ONE << _U(ids[k] & 63)
        first, last = min(first, word), max(last, word)
    k = start
    for word in range(first, last + 1):
        rest = bitmap[word]
        bitmap[word] = _U(0)
        while rest != _U(0):
            ids[k] = (word << 6) + lowest_bit_index(rest)
            k += 1
            rest &= rest - _ONE

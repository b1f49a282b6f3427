"""Turn bicliques of the reduced graph into blocks of the user's: expand twins, translate ids, sort members."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numba import njit

from mbe_stage.bicliques.reduction import Groups
from mbe_stage.bicliques.results import BicliqueBlock, Detail
from mbe_stage.bits import lowest_bit_index
from mbe_stage.runtime.compile_ahead import CompileStep
from mbe_stage.runtime.jit import INTS, LONGS, WORDS, compiled, steps_of

SORT_SLACK = 16
"""Entries behind the last id that `sort_ids` may overwrite."""

_U = np.uint64
_ONE = _U(1)
_LARGEST = np.int32(2**31 - 1)
_INSERTION_MOST = 48
# A pass over a bitmap of all vertices pays for a set with at least one id in this many of its words.
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
def _order(ids, start, low, high):
    """Put two ids in order; LLVM keeps the ids of a network in registers."""
    one, other = ids[start + _U(low)], ids[start + _U(high)]
    ids[start + _U(low)], ids[start + _U(high)] = min(one, other), max(one, other)


@compiled(nrt=False)
def _sort_8(ids, start):
    """The network of 19 comparisons for ``ids[start : start + 8]``, one paragraph a layer."""
    _order(ids, start, 0, 2)
    _order(ids, start, 1, 3)
    _order(ids, start, 4, 6)
    _order(ids, start, 5, 7)

    _order(ids, start, 0, 4)
    _order(ids, start, 1, 5)
    _order(ids, start, 2, 6)
    _order(ids, start, 3, 7)

    _order(ids, start, 0, 1)
    _order(ids, start, 2, 3)
    _order(ids, start, 4, 5)
    _order(ids, start, 6, 7)

    _order(ids, start, 2, 4)
    _order(ids, start, 3, 5)

    _order(ids, start, 1, 4)
    _order(ids, start, 3, 6)

    _order(ids, start, 1, 2)
    _order(ids, start, 3, 4)
    _order(ids, start, 5, 6)


@compiled(nrt=False)
def _merge_16(ids, start):
    """Batcher's odd-even merge of ``ids[start : start + 8]`` and the 8 ids behind."""
    _order(ids, start, 0, 8)
    _order(ids, start, 1, 9)
    _order(ids, start, 2, 10)
    _order(ids, start, 3, 11)
    _order(ids, start, 4, 12)
    _order(ids, start, 5, 13)
    _order(ids, start, 6, 14)
    _order(ids, start, 7, 15)

    _order(ids, start, 4, 8)
    _order(ids, start, 5, 9)
    _order(ids, start, 6, 10)
    _order(ids, start, 7, 11)

    _order(ids, start, 2, 4)
    _order(ids, start, 3, 5)
    _order(ids, start, 6, 8)
    _order(ids, start, 7, 9)
    _order(ids, start, 10, 12)
    _order(ids, start, 11, 13)

    _order(ids, start, 1, 2)
    _order(ids, start, 3, 4)
    _order(ids, start, 5, 6)
    _order(ids, start, 7, 8)
    _order(ids, start, 9, 10)
    _order(ids, start, 11, 12)
    _order(ids, start, 13, 14)


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


@dataclass(frozen=True, slots=True, eq=False)
class Translation:
    """The user's ids behind each vertex of one side of the reduced graph.

    Attributes
    ----------
    multiplicities : (n_groups,) int32
        Vertices of each group.
    only : (n_groups,) int32
        The vertex of a group of one, -1 for a larger group: nearly all members are translated by one look-up.
    """

    groups: Groups
    multiplicities: np.ndarray
    only: np.ndarray

    @classmethod
    def of(cls, groups: Groups) -> Translation:
        """The translation of a side with these groups."""
        multiplicities = groups.multiplicities
        only = np.where(multiplicities == 1, groups.first_members, np.int32(-1)).astype(np.int32)
        return cls(groups, multiplicities, only)

    @property
    def has_twins(self) -> bool:
        """True if some group holds several vertices."""
        return self.multiplicities.size < self.groups.members.size


@dataclass(frozen=True, slots=True, eq=False)
class Found:
    """One side of some bicliques of the reduced graph.

    Attributes
    ----------
    members : int32
        Vertices of the reduced graph, biclique after biclique, in any order.
    sizes : (n,) int32
    translation : Translation or None
        None if there are no members, and the sizes are the user's.
    """

    members: np.ndarray
    sizes: np.ndarray
    translation: Translation | None

    def full_sizes(self) -> np.ndarray:
        """Number of the user's vertices of each biclique, ``(n,) int32``; never a view."""
        if self.translation is None or not self.translation.has_twins:
            return self.sizes.copy()
        sums = np.empty_like(self.sizes)
        _sum_multiplicities(self.members, self.sizes, self.translation.multiplicities, sums)
        return sums


def expand_blocks(left: Found, right: Found, block_bytes: int, work_done: float) -> Iterator[BicliqueBlock]:
    """Blocks of at most `block_bytes`, a larger biclique alone in its own; each is made when it is asked for.

    Parameters
    ----------
    block_bytes : int
        Bytes of members and sizes.
    work_done : float
        Share of the work for the blocks to report.
    """
    left_sizes, right_sizes = left.full_sizes(), right.full_sizes()
    n = left_sizes.size
    if n == 0:
        yield BicliqueBlock(0, left_sizes, right_sizes, left.members, right.members, work_done)
    listed = [sizes for of, sizes in ((left, left_sizes), (right, right_sizes)) if of.translation is not None]
    ends = np.cumsum(sum(listed, np.full(n, 2, np.int64))) * 4
    first = left_at = right_at = 0
    while first < n:
        before = ends[first - 1] if first else 0
        stop = max(first + 1, int(np.searchsorted(ends, before + block_bytes, side="right")))
        part = slice(first, stop)
        left_members, left_at = _full_members(left, left_at, part, left_sizes)
        right_members, right_at = _full_members(right, right_at, part, right_sizes)
        yield BicliqueBlock(
            stop - first, left_sizes[part], right_sizes[part], left_members, right_members, work_done=work_done
        )
        first = stop


def compile_steps(detail: Detail) -> tuple[CompileStep, ...]:
    """Compile the functions that make blocks of a detail."""
    return steps_of(*((_sum_multiplicities, _translate) if detail >= Detail.MEMBERS else ()))


def _full_members(found: Found, start: int, part: slice, full_sizes: np.ndarray) -> tuple[np.ndarray | None, int]:
    """The user's vertices of some of the bicliques, whose members begin at `start`, and where the next ones begin."""
    if found.translation is None:
        return None, start
    sizes, groups = found.sizes[part], found.translation.groups
    end = start + int(sizes.sum(dtype=np.int64))
    n_members = int(full_sizes[part].sum(dtype=np.int64))
    full = np.empty(n_members + SORT_SLACK, np.int32)
    bitmap = np.zeros(int(groups.members.max(initial=0)) // 64 + 1, np.uint64)
    _translate(found.members[start:end], sizes, found.translation.only, groups.offsets, groups.members, full, bitmap)
    return full[:n_members], end


@compiled(INTS, INTS, INTS, INTS, nrt=False)
def _sum_multiplicities(members, sizes, multiplicities, sums):
    read = 0
    for i in range(sizes.size):
        total = 0
        for k in range(read, read + sizes[i]):
            total += multiplicities[members[k]]
        read += sizes[i]
        sums[i] = total


@compiled(INTS, INTS, INTS, LONGS, INTS, INTS, WORDS, seconds=5.0)
def _translate(members, sizes, only, group_offsets, group_members, full, bitmap):
    """Write the user's vertices of each biclique to `full`, ascending.

    Parameters
    ----------
    members : int32
        Vertices of the reduced graph, biclique after biclique.
    sizes : (n,) int32
        Number of them in each biclique.
    only : (n_groups,) int32
        As in `Translation`.
    group_offsets : (n_groups + 1,) int64
    full : int32
        Receives the user's vertices; `SORT_SLACK` longer.
    bitmap : uint64
        Zeros, one bit per vertex.
    """
    # Typed: `sort_ids` would be compiled once more for each place where a plain 0 may reach it.
    read = written = np.int64(0)
    for i in range(sizes.size):
        start = written
        previous = np.int32(-1)
        ascending = True
        for _ in range(sizes[i]):
            group = members[read]
            read += 1
            vertex = only[group]
            if vertex >= 0:
                full[written] = vertex
                written += 1
                ascending &= vertex > previous
                previous = vertex
                continue
            for k in range(group_offsets[group], group_offsets[group + 1]):
                vertex = group_members[k]
                full[written] = vertex
                written += 1
                ascending &= vertex > previous
                previous = vertex
        if not ascending:
            sort_ids(full, start, written, bitmap)

"""Rows as 64-bit words: sort, merge equal ones, drop dominated ones.

A row that is a subset of another is also the smaller number, so ascending order puts no row behind one it lies in:
no child can then be dominated by an earlier sibling.

All functions take a piece of an arena as ``words, start, end``.

`drop_dominated` contains the pruning by local neighbourhood size of GMBE+ IV-A 2: a candidate that a traversed
sibling's child left as it was lies inside that sibling's row, which is excluded.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from mbe_stage.bicliques.cpu.techniques import DISTINCT_EXCLUDED
from mbe_stage.bicliques.cpu.word_vectors import is_inside_any, restrict_eight
from mbe_stage.bits import lowest_bit_index, popcount
from mbe_stage.runtime.jit import compiled

_U = np.uint64
_ONE = _U(1)
_HASH_FACTOR = _U(0x9E3779B97F4A7C15)
_WIDEST = 2
_SEVERAL = 8


@compiled(nrt=False)
def sort_rows(words, start, end, ints, payload_at):
    """Sort rows ascending, in place, and move the entries from ``ints[payload_at]`` on along, unless `ints` is None.

    Shell sort: it needs no memory, and rows are few.
    """
    gap, shift, carried = 1, payload_at - start, 0
    while gap < (end - start) // 3:
        gap = 3 * gap + 1
    while gap >= 1:
        for k in range(start + gap, end):
            row = words[k]
            if ints is not None:
                carried = ints[shift + k]
            j = k
            while j >= start + gap and words[j - gap] > row:
                words[j] = words[j - gap]
                if ints is not None:
                    ints[shift + j] = ints[shift + j - gap]
                j -= gap
            words[j] = row
            if ints is not None:
                ints[shift + j] = carried
        gap //= 3


@njit(inline="always")
def merge_equal(words, start, end):
    """Keep the first of each run of equal (sorted) rows, in place; returns the new end."""
    kept = start
    for k in range(start, end):
        if k == start or words[k] != words[kept - 1]:
            words[kept] = words[k]
            kept += 1
    return kept


@njit(inline="always")
def is_excluded(row, words, excluded):
    """True if `row` lies inside an excluded row: one of two lists, or is a single column of `singles`."""
    if row & (row - _ONE) == _U(0) and row & excluded.singles != _U(0):
        return True
    if is_inside_any(row, words, excluded.siblings, excluded.siblings_end):
        return True
    return is_inside_any(row, words, excluded.start, excluded.end)


@njit(inline="always")
def drop_dominated(words, start, end, excluded, ints, payload_at):
    """Keep the rows that lie inside no excluded row, in place and in order; returns the new end.

    Dropped rows never yield a maximal biclique below this node: every left set inside them lies inside the excluded
    row, too. The entries from ``ints[payload_at]`` on move along, unless `ints` is None.
    """
    kept = start
    shift = payload_at - start
    for k in range(start, end):
        row = words[k]
        if not is_excluded(row, words, excluded):
            words[kept] = row
            if ints is not None:
                ints[shift + kept] = ints[shift + k]
            kept += 1
    return kept


@compiled(nrt=False)
def table_size(n_rows):
    """Places of a hash table of `n_rows` entries: a power of two, at most half of them get used."""
    size = 16
    while size < 2 * n_rows:
        size *= 2
    return size


@compiled(nrt=False)
def restrict_distinct(words, excluded, mask, kept_at, heavy, least):
    """Write the distinct restrictions of excluded rows to `mask`, as far as a wanted left set may lie inside.

    Restrictions to a single column are not written: most excluded rows end as one. Nor are those inside the widest, a
    half to two thirds of the others. The widest come first, because most left sets that are not wanted lie inside them.
    Behind ``words[kept_at]`` there must be room for all rows and `table_size` of them. The hash table has no chains: a
    row takes the place of another one, which may then stay twice. That costs less than a branch.

    Parameters
    ----------
    mask : uint64
        Columns that are kept.
    heavy : uint64
        Columns that are not counted: a row with any of them is kept.
    least : int
        Fewest columns of a row that is kept.

    Returns
    -------
    kept_end : int
    singles : uint64
        Columns that any excluded row holds.
    """
    n_all = excluded.end - excluded.start + excluded.siblings_end - excluded.siblings
    none, everything = _U(0), ~_U(0)
    kept_end, singles = _restrict(words, excluded.start, excluded.end, mask, none, kept_at, heavy, least)
    kept_end, more = _restrict(words, excluded.siblings, excluded.siblings_end, mask, none, kept_end, heavy, least)
    singles |= more | (excluded.singles & mask)
    if not DISTINCT_EXCLUDED:
        return kept_end, singles
    for first in range(kept_at, kept_at + _WIDEST):
        if kept_end - first > _SEVERAL:
            widest = _widest(words, first, kept_end)
            kept_end, _ = _restrict(words, first, kept_end, everything, widest, first, heavy, least)
            words[kept_end] = words[first]
            words[first] = widest
            kept_end += 1
    size = table_size(kept_end - kept_at)
    table_at, shift = kept_at + n_all, _U(64 - lowest_bit_index(_U(size)))
    words[table_at : table_at + size] = _U(0)
    raw_end, kept_end = kept_end, kept_at
    for k in range(kept_at, raw_end):
        row = words[k]
        place = table_at + np.int64((row * _HASH_FACTOR) >> shift)
        words[kept_end] = row
        kept_end += words[place] != row
        words[place] = row
        singles |= row
    return kept_end, singles


@njit(inline="always")
def _widest(words, start, end):
    """The row with most columns."""
    widest = np.int64(0)
    for k in range(start, end):
        widest = max(widest, np.int64(popcount(words[k])) << 32 | (k - start))
    return words[start + (widest & 0xFFFFFFFF)]


@njit(inline="always")
def _restrict(words, start, end, mask, inside, kept_end, heavy, least):
    """Append restricted rows, those of a single column as bits of a word; returns the new end, and the word.

    Without branches, since the number of remaining columns is unpredictable.

    Parameters
    ----------
    start, end : int
        The rows.
    mask, heavy : uint64
    least : int
        As in `restrict_distinct`.
    inside : uint64
        Rows inside this one are left out.
    kept_end : int
        Where restricted rows are written.
    """
    start, kept_end, singles = restrict_eight(words, start, end, mask, inside, kept_end, heavy, least)
    for k in range(start, end):
        row = words[k] & mask
        is_single = row & (row - _ONE) == _U(0)
        words[kept_end] = row
        is_wide = (popcount(row) >= least) | (row & heavy != _U(0))
        kept_end += (not is_single) & is_wide & (row & ~inside != _U(0))
        singles |= row if is_single else _U(0)
    return kept_end, singles

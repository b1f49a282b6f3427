"""Rows as 64-bit words: sorting, merging equal ones, dropping dominated ones.

A row that is a subset of another is also the smaller number, so ascending order puts no row behind one it lies in:
no child can then be dominated by an earlier sibling.
"""

from __future__ import annotations

import numpy as np
from numba import njit

__all__ = ["drop_dominated", "is_excluded", "is_inside_any", "merge_equal", "restrict_distinct", "sort_rows"]

_U = np.uint64
_ONE = _U(1)
_BATCH = 32
_HASH_FACTOR = _U(0x9E3779B97F4A7C15)


@njit(cache=True, nogil=True)
def sort_rows(rows, payload):
    """Sort rows ascending, in place; `payload` (int32, or None) goes along. Shell sort: no memory, few rows."""
    n = rows.size
    gap = 1
    while gap < n // 3:
        gap = 3 * gap + 1
    while gap >= 1:
        for k in range(gap, n):
            row = rows[k]
            if payload is not None:
                carried = payload[k]
            j = k
            while j >= gap and rows[j - gap] > row:
                rows[j] = rows[j - gap]
                if payload is not None:
                    payload[j] = payload[j - gap]
                j -= gap
            rows[j] = row
            if payload is not None:
                payload[j] = carried
        gap //= 3


@njit(inline="always")
def is_inside_any(row, rows):
    """Whether `row` is a subset of one of `rows`; whole batches without branches, so that they are vector code."""
    n = rows.size
    done = 0
    while done + _BATCH <= n:
        hits = 0
        for k in range(done, done + _BATCH):
            hits += (row & ~rows[k]) == _U(0)
        if hits != 0:
            return True
        done += _BATCH
    hits = 0
    for k in range(done, n):
        hits += (row & ~rows[k]) == _U(0)
    return hits != 0


@njit(cache=True, nogil=True)
def merge_equal(rows):
    """Keep the first of each run of equal (sorted) rows, in place; returns how many are left."""
    kept = 0
    for k in range(rows.size):
        if k == 0 or rows[k] != rows[kept - 1]:
            rows[kept] = rows[k]
            kept += 1
    return kept


@njit(inline="always")
def is_excluded(row, excluded, singles, more_excluded):
    """Whether `row` lies inside an excluded row: one of two lists, or a single column of `singles`."""
    if row & (row - _ONE) == _U(0) and row & singles != _U(0):
        return True
    return is_inside_any(row, more_excluded) or is_inside_any(row, excluded)


@njit(cache=True, nogil=True)
def drop_dominated(rows, excluded, singles, more_excluded):
    """Keep the rows that lie inside no excluded row, in place and in order; returns how many are left.

    What is dropped can never yield a maximal biclique below this node: every left set inside it lies inside the
    excluded row too.
    """
    kept = 0
    for k in range(rows.size):
        row = rows[k]
        if not is_excluded(row, excluded, singles, more_excluded):
            rows[kept] = row
            kept += 1
    return kept


@njit(cache=True, nogil=True)
def restrict_distinct(rows, mask, kept, n_kept, singles, table):
    """Append the distinct restrictions of `rows` to `mask` that have two columns or more to ``kept[:n_kept]``.

    Restrictions to a single column are collected in the word `singles` instead: most excluded rows end as one.
    `table` is a hash table of what is kept, a power of two in size and never full; 0 marks a free place.

    Returns
    -------
    n_kept : int
    singles : uint64
    """
    last = _U(table.size - 1)
    # First without branches, in place behind what is kept: how many columns are left is anybody's guess.
    n_several = n_kept
    for k in range(rows.size):
        row = rows[k] & mask
        several = row & (row - _ONE) != _U(0)
        kept[n_several] = row
        n_several += several
        singles |= _U(0) if several else row
    for k in range(n_kept, n_several):
        row = kept[k]
        place = (row * _HASH_FACTOR) >> _U(32) & last
        while table[place] != _U(0) and table[place] != row:
            place = (place + _ONE) & last
        if table[place] == _U(0):
            table[place] = row
            kept[n_kept] = row
            n_kept += 1
    return n_kept, singles

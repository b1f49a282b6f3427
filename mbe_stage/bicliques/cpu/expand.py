"""From bicliques of the reduced graph to blocks of the user's: twins put back, ids translated, members sorted."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numba import njit

from mbe_stage.reduction import Groups
from mbe_stage.results import BicliqueBlock, Detail

__all__ = ["expand_blocks"]

_INSERTION_SORT_MAX = 48


def expand_blocks(
    left: np.ndarray,
    left_sizes: np.ndarray,
    left_groups: Groups,
    right: np.ndarray,
    right_sizes: np.ndarray,
    right_groups: Groups,
    detail: Detail,
    block_bytes: int,
    work_done: float,
) -> Iterator[BicliqueBlock]:
    """Blocks of at most `block_bytes`, a larger biclique alone in its own.

    Parameters
    ----------
    left, right : int32
        Members in ids of the reduced graph, biclique after biclique.
    left_sizes, right_sizes : (n,) int32
    left_groups, right_groups : Groups
        The user's ids behind each of them.
    detail : Detail
        SIZES or MEMBERS.
    block_bytes : int
        Bytes of members and sizes.
    work_done : float
        What the blocks report.
    """
    full_left = _expanded_sizes(left, left_sizes, left_groups.offsets)
    full_right = _expanded_sizes(right, right_sizes, right_groups.offsets)
    n = full_left.size
    if detail < Detail.MEMBERS:
        yield BicliqueBlock(n, full_left, full_right, work_done=work_done)
        return
    ends = np.cumsum(full_left.astype(np.int64) + full_right + 2) * 4
    left_ends = np.concatenate([[0], np.cumsum(left_sizes, dtype=np.int64)])
    right_ends = np.concatenate([[0], np.cumsum(right_sizes, dtype=np.int64)])
    first = 0
    if n == 0:
        yield BicliqueBlock(0, full_left, full_right, left, right, work_done)
    while first < n:
        before = ends[first - 1] if first else 0
        stop = max(first + 1, int(np.searchsorted(ends, before + block_bytes, side="right")))
        part = slice(first, stop)
        yield BicliqueBlock(
            n_bicliques=stop - first,
            left_sizes=full_left[part],
            right_sizes=full_right[part],
            left_members=_expanded_members(
                left[left_ends[first] : left_ends[stop]],
                left_sizes[part],
                full_left[part],
                left_groups.offsets,
                left_groups.members,
            ),
            right_members=_expanded_members(
                right[right_ends[first] : right_ends[stop]],
                right_sizes[part],
                full_right[part],
                right_groups.offsets,
                right_groups.members,
            ),
            work_done=work_done,
        )
        first = stop


@njit(cache=True, nogil=True)
def _expanded_sizes(members, sizes, group_offsets):
    expanded = np.empty(sizes.size, np.int32)
    position = 0
    for i in range(sizes.size):
        total = 0
        for _ in range(sizes[i]):
            group = members[position]
            total += group_offsets[group + 1] - group_offsets[group]
            position += 1
        expanded[i] = total
    return expanded


@njit(cache=True, nogil=True)
def _expanded_members(members, sizes, expanded_sizes, group_offsets, group_members):
    expanded = np.empty(np.sum(expanded_sizes.astype(np.int64)), np.int32)
    read = written = 0
    for i in range(sizes.size):
        start = written
        for _ in range(sizes[i]):
            group = members[read]
            read += 1
            for k in range(group_offsets[group], group_offsets[group + 1]):
                expanded[written] = group_members[k]
                written += 1
        if written - start > _INSERTION_SORT_MAX:
            expanded[start:written].sort()
        else:
            _sort_few(expanded, start, written)
    return expanded


@njit(cache=True, nogil=True, _nrt=False)
def _sort_few(values, start, end):
    for k in range(start + 1, end):
        value = values[k]
        j = k
        while j > start and values[j - 1] > value:
            values[j] = values[j - 1]
            j -= 1
        values[j] = value

"""Leave out near copies: groups whose left members are nearly those of a better group that stays.

A near copy has a Jaccard similarity of left sides of at least a threshold `t`. An inverted list from left vertices to
remaining groups gives the groups to compare. Two known filters leave few of them (Bayardo, Ma and Srikant, WWW 2007;
Xiao et al., PPJoin, WWW 2008):

- Order all members. If sets `x` and `y` have similarity `t` or more, the first ``|x| - ceil(t |x|) + 1`` members of `x`
  and the first ``|y| - ceil(t |y|) + 1`` of `y` have one in common. Rare members come first, to keep lists short.
- The smaller set has at least `t` times as many members as the larger one.

All comparisons are of integers, since the threshold is a fraction.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from numba import int64, types

from mbe_stage.errors import InvalidArgument
from mbe_stage.groups.members import GroupMembers
from mbe_stage.runtime.compile_ahead import CompileStep
from mbe_stage.runtime.jit import INTS, LONGS, compiled, steps_of

# With larger denominators, products with sizes of sides could exceed 64 bits.
_MOST_DENOMINATOR = 1_000_000


def without_near_copies(
    members: GroupMembers, *, max_overlap: float = 0.5, worth: np.ndarray | None = None
) -> np.ndarray:
    """Return the rows of groups that are not near copies of an earlier group that stays.

    Parameters
    ----------
    members : GroupMembers
        Groups, best first; each with at least one left member.
    max_overlap : float
        The threshold, above 0 and at most 1; rounded to the nearest fraction with a denominator of at most a million.
    worth : (n,) int64, optional
        A group with more worth than its earlier near copies stays, unless one has the same left members and gets its
        worth.

    Returns
    -------
    (m,) int64
        Row numbers, ascending.

    Raises
    ------
    InvalidArgument

    Examples
    --------
    >>> members = GroupMembers.of([([0, 1, 2], [0]), ([0, 1], [0, 1]), ([0, 5], [1])])
    >>> without_near_copies(members).tolist()
    [0, 2]
    """
    overlap = overlap_fraction(max_overlap)
    worth = np.zeros(len(members), np.int64) if worth is None else worth.copy()
    by_rarity = _rare_first(members.left_offsets, members.left_members)
    n_vertices = int(by_rarity.max(initial=-1)) + 1
    return _keep(members.left_offsets, by_rarity, n_vertices, (overlap.numerator, overlap.denominator), worth)


def count_near_copies(groups: GroupMembers, others: GroupMembers, max_overlap: float) -> np.ndarray:
    """Count, for each group, the other groups that are near copies of it and of no group before it; ``(n,) int64``.

    Examples
    --------
    >>> groups = GroupMembers.of([([0, 1, 2], [0]), ([0, 5], [1])])
    >>> count_near_copies(groups, GroupMembers.of([([0, 1], [2]), ([0, 1, 5], [3]), ([8, 9], [4])]), 0.5).tolist()
    [2, 0]
    """
    members, owners = others.side(0)
    by_member = np.argsort(members, kind="stable")
    sorted_members, owners = members[by_member], owners[by_member]
    is_free, sizes, overlap = np.ones(len(others), np.bool_), others.left_sizes, overlap_fraction(max_overlap)
    counts = np.zeros(len(groups), np.int64)
    for group, (left, _) in enumerate(groups):
        starts, ends = (np.searchsorted(sorted_members, left, side) for side in ("left", "right"))
        sharing = np.concatenate([np.empty(0, np.int64), *(owners[i:j] for i, j in zip(starts, ends, strict=True))])
        found, common = np.unique(sharing, return_counts=True)
        union = left.size + sizes[found] - common
        is_near = common * overlap.denominator >= overlap.numerator * union
        copies = found[is_near & is_free[found]]
        counts[group] = copies.size
        is_free[copies] = False
    return counts


def overlap_fraction(max_overlap: float) -> Fraction:
    """Return the threshold as a fraction.

    Raises
    ------
    InvalidArgument
        The threshold is not above 0 and at most 1.
    """
    if not 0 < max_overlap <= 1:
        raise InvalidArgument(f"max_overlap is {max_overlap}: expected a share above 0 and at most 1")
    # Smaller thresholds become the smallest fraction.
    return max(Fraction(max_overlap).limit_denominator(_MOST_DENOMINATOR), Fraction(1, _MOST_DENOMINATOR))


def compile_steps() -> tuple[CompileStep, ...]:
    """Return the steps to compile the functions of this module."""
    return steps_of(_keep)


def _rare_first(offsets: np.ndarray, members: np.ndarray) -> np.ndarray:
    """Return the members of each group as ranks, ascending, ``int32``; rank 0 is the vertex in the fewest groups."""
    if members.size == 0:
        return members
    n_groups_of = np.bincount(members)
    ranks = np.empty(n_groups_of.size, np.int64)
    ranks[np.argsort(n_groups_of, kind="stable")] = np.arange(n_groups_of.size)
    of_group = np.repeat(np.arange(offsets.size - 1), np.diff(offsets))
    # Sort all members at once, with the group in the upper half of each code.
    return (np.sort(of_group << 32 | ranks[members]) & 0xFFFFFFFF).astype(np.int32)


@compiled(LONGS, INTS, int64, types.UniTuple(int64, 2), LONGS, seconds=1.0)
def _keep(offsets, members, n_vertices, threshold, worth):
    """Return the rows of groups that are not near copies of an earlier group that stays.

    Parameters
    ----------
    offsets, members : (n + 1,) int64 and int32
        Members of each group, ascending; rare ones have small ids.
    n_vertices : int
        All ids are below it.
    threshold : (int, int)
        The least similarity of near copies, as a fraction.
    worth : (n,) int64
        As in `without_near_copies`; changed in place.

    Returns
    -------
    (m,) int64
    """
    n = offsets.size - 1
    numerator, denominator = threshold
    # Inverted lists of prefixes: the last entry of each vertex; the group and the previous entry of each entry.
    last, before = np.full(n_vertices, -1, np.int64), np.empty(members.size, np.int64)
    groups, places = np.empty(members.size, np.int64), np.empty(members.size, np.int64)
    seen_by = np.full(n, -1, np.int64)
    kept, n_kept, n_entries = np.empty(n, np.int64), 0, 0
    for row in range(n):
        start, end = offsets[row], offsets[row + 1]
        size = end - start
        prefix_end = min(end, end - (size * numerator + denominator - 1) // denominator + 1)
        is_copy, same = False, -1
        for i in range(start, prefix_end):
            entry = last[members[i]]
            while entry >= 0 and not is_copy:
                other, place = groups[entry], places[entry]
                entry = before[entry]
                other_size = offsets[other + 1] - offsets[other]
                if seen_by[other] == row or (worth[other] < worth[row] and other_size != size):
                    continue
                seen_by[other] = row
                # No earlier member is in both sets: it would have been found before.
                # shared / (both - shared) >= t  <=>  shared >= t both / (1 + t)
                needed = (numerator * (size + other_size) + numerator + denominator - 1) // (numerator + denominator)
                if worth[other] >= worth[row]:
                    is_copy = _shares(members, i, end, place, offsets[other + 1], needed)
                elif _shares(members, i, end, place, offsets[other + 1], size):
                    same = other
            if is_copy:
                break
        if not is_copy and same >= 0:
            worth[same] = worth[row]
        if is_copy or same >= 0:
            continue
        kept[n_kept] = row
        n_kept += 1
        for i in range(start, prefix_end):
            groups[n_entries], places[n_entries], before[n_entries] = row, i, last[members[i]]
            last[members[i]] = n_entries
            n_entries += 1
    return kept[:n_kept]


@compiled()
def _shares(members, i, i_end, k, k_end, needed):
    """Return True if two ascending parts of `members` have at least `needed` members in common."""
    while needed > 0:
        # The rest of one part is too short.
        if i_end - i < needed or k_end - k < needed:
            return False
        if members[i] == members[k]:
            needed -= 1
            i += 1
            k += 1
        elif members[i] < members[k]:
            i += 1
        else:
            k += 1
    return True

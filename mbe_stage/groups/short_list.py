"""The short list: the best candidates, without near copies of better ones.

A near copy is one whose left side overlaps with that of a better one on the list: its Jaccard similarity is at least a
threshold `t`. An inverted list, left vertex -> groups on the list, gives the groups to compare. Two known facts leave
few of them (Bayardo, Ma and Srikant, WWW 2007; Xiao et al., PPJoin, WWW 2008):

- Sets `x` and `y` of similarity `t` or more share one of the first ``|x| - ceil(t |x|) + 1`` members of `x`, and one of
  as many of `y`, for any common order of members. Rare ones come first here, which keeps lists short.
- The smaller set has at least `t` times as many members as the larger one.

All comparisons are of integers: the threshold is a fraction.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Literal, get_args

import numpy as np
from numba import int64, types

from mbe_stage.errors import InvalidArgument
from mbe_stage.groups.candidates import Candidates
from mbe_stage.groups.members import GroupMembers
from mbe_stage.groups.null_model import SIGNIFICANT, NullModel
from mbe_stage.runtime.compile_ahead import CompileStep
from mbe_stage.runtime.jit import INTS, LONGS, compiled, steps_of

RankBy = Literal["surprise", "surprise_per_vertex", "surprise_per_edge", "evidence"]

# Larger denominators would leave 64 bits beside sizes of sides.
_MOST_DENOMINATOR = 1_000_000


def short_list(
    candidates: Candidates,
    *,
    rank_by: RankBy = "surprise",
    max_overlap: float = 0.5,
    limit: int | None = None,
    model: NullModel | None = None,
    arrange: Callable[[np.ndarray, GroupMembers], np.ndarray] | None = None,
) -> np.ndarray:
    """The significant candidates, best first, without near copies of better ones.

    Parameters
    ----------
    rank_by : str
        ``surprise``, or ``surprise_per_vertex``: surprise divided by the number of members, compared exactly. Ties go
        to the lower key.
    max_overlap : float
        Left sides whose Jaccard similarity with one that is already on the list is this or more are left out; above 0
        and at most 1, taken as the nearest fraction whose denominator is at most a million.
    model : NullModel, optional
        Of the graph; ``evidence`` needs it.
    arrange : callable, optional
        Takes the ranked rows and the members of all candidates; returns them in the order of the list.

    Returns
    -------
    (m,) int64
        Rows of the candidates.

    Raises
    ------
    InvalidArgument
        An argument is not one of these.
    """
    order = ranked(candidates, rank_by, model)
    if arrange is not None:
        order = arrange(order, candidates.members)
    return order[without_near_copies(candidates.members.take(order), max_overlap=max_overlap, limit=limit)]


def ranked(candidates: Candidates, rank_by: RankBy = "surprise", model: NullModel | None = None) -> np.ndarray:
    """Rows of the significant candidates, best first, ties by key; ``(m,) int64``; see `short_list`."""
    rows = np.flatnonzero(candidates.surprise > SIGNIFICANT)
    keys, surprise = candidates.keys[rows], candidates.surprise[rows]
    left_sizes, right_sizes = candidates.members.left_sizes[rows], candidates.members.right_sizes[rows]
    if rank_by == "surprise":
        return rows[np.lexsort((keys, -surprise))]
    if rank_by == "evidence":
        if model is None:
            raise InvalidArgument("rank_by is 'evidence', and model is None: expected the null model of the graph")
        evidence = surprise + model.naming_costs(left_sizes, right_sizes)
        return rows[np.lexsort((keys, -evidence))]
    if rank_by == "surprise_per_vertex":
        parts = left_sizes + right_sizes
    elif rank_by == "surprise_per_edge":
        parts = left_sizes * right_sizes
    else:
        raise InvalidArgument(f"rank_by is {rank_by!r}: expected {', '.join(map(repr, get_args(RankBy)))}")
    # The quotient and 84 binary digits behind its point: fractions differ there whose denominators are below 2^42, and
    # the edges of a biclique are below `MOST_EDGES`, which is less than 2^35: no shift leaves 64 bits.
    digits, rest = [], surprise
    for _ in range(4):
        digit, rest = np.divmod(rest, parts)
        digits.append(-digit)
        rest = rest << 28
    return rows[np.lexsort((keys, *reversed(digits)))]


def without_near_copies(members: GroupMembers, *, max_overlap: float = 0.5, limit: int | None = None) -> np.ndarray:
    """Rows of the groups that are no near copy of an earlier one that stays; see `short_list`.

    Parameters
    ----------
    members : GroupMembers
        Best first; each with at least one left member.

    Returns
    -------
    (m,) int64
        Ascending.

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
    if limit is not None and limit < 0:
        raise InvalidArgument(f"limit is {limit}: expected 0 or more, or None for no limit")
    most = len(members) if limit is None else min(limit, len(members))
    by_rarity = _rare_first(members.left_offsets, members.left_members)
    n_vertices = int(by_rarity.max(initial=-1)) + 1
    return _keep(members.left_offsets, by_rarity, n_vertices, (overlap.numerator, overlap.denominator), most)


def overlap_fraction(max_overlap: float) -> Fraction:
    """The threshold as it is compared.

    Raises
    ------
    InvalidArgument
        It is not above 0 and at most 1.
    """
    if not 0 < max_overlap <= 1:
        raise InvalidArgument(f"max_overlap is {max_overlap}: expected a share above 0 and at most 1")
    # The smallest that there is stands for what is smaller still.
    return max(Fraction(max_overlap).limit_denominator(_MOST_DENOMINATOR), Fraction(1, _MOST_DENOMINATOR))


def compile_steps() -> tuple[CompileStep, ...]:
    """Everything here."""
    return steps_of(_keep)


def _rare_first(offsets: np.ndarray, members: np.ndarray) -> np.ndarray:
    """The members of each group as ranks, ascending: 0 is the vertex in the fewest groups; ``int32``."""
    if members.size == 0:
        return members
    n_groups_of = np.bincount(members)
    ranks = np.empty(n_groups_of.size, np.int64)
    ranks[np.argsort(n_groups_of, kind="stable")] = np.arange(n_groups_of.size)
    of_group = np.repeat(np.arange(offsets.size - 1), np.diff(offsets))
    # One sort of all: the group in the upper half.
    return (np.sort(of_group << 32 | ranks[members]) & 0xFFFFFFFF).astype(np.int32)


@compiled(LONGS, INTS, int64, types.UniTuple(int64, 2), int64, seconds=1.0)
def _keep(offsets, members, n_vertices, threshold, limit):
    """Rows of the groups that are no near copy of an earlier one that stays.

    Parameters
    ----------
    offsets, members : (n + 1,) int64 and int32
        Members of each group ascending; small ids are the rare ones.
    n_vertices : int
        Ids are below.
    threshold : (int, int)
        The similarity that a near copy has, as a fraction.

    Returns
    -------
    (m,) int64
    """
    n = offsets.size - 1
    numerator, denominator = threshold
    # Inverted lists of prefixes: of each vertex the last entry, of each entry the group and the entry before.
    last, before = np.full(n_vertices, -1, np.int64), np.empty(members.size, np.int64)
    groups, places = np.empty(members.size, np.int64), np.empty(members.size, np.int64)
    seen_by = np.full(n, -1, np.int64)
    kept, n_kept, n_entries = np.empty(min(n, limit), np.int64), 0, 0
    for row in range(n):
        if n_kept == kept.size:
            break
        start, end = offsets[row], offsets[row + 1]
        size = end - start
        prefix_end = min(end, end - (size * numerator + denominator - 1) // denominator + 1)
        is_copy = False
        for i in range(start, prefix_end):
            entry = last[members[i]]
            while entry >= 0 and not is_copy:
                other, place = groups[entry], places[entry]
                entry = before[entry]
                if seen_by[other] == row:
                    continue
                seen_by[other] = row
                # Nothing before these two places is in both: it would have been met before.
                both = size + offsets[other + 1] - offsets[other]
                # shared / (both - shared) >= t  <=>  shared >= t both / (1 + t)
                needed = (numerator * both + numerator + denominator - 1) // (numerator + denominator)
                is_copy = _shares(members, i, end, place, offsets[other + 1], needed)
            if is_copy:
                break
        if is_copy:
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
    """True if two ascending pieces of `members` share so many."""
    while needed > 0:
        # What is left of the shorter piece would not do.
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

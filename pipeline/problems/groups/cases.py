"""Cases: groups that overlap a better one by half. An investigator reads them together.

They are found on the host: the list is short for a graph of any size.
"""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from fractions import Fraction
from types import MappingProxyType

import numpy as np

from mbe_stage.groups.members import GroupMembers


def case_numbers(members: GroupMembers, edges: Sequence[np.ndarray], is_muted: np.ndarray) -> np.ndarray:
    """Return the case of each group: 0, 1, 2 ... in the order of their first groups.

    The first group of a case is its head. A group belongs to the first case whose head it overlaps: they share at least
    half of the left members and half of the edges of the smaller one. Else it is the head of a new case. So one popular
    account, or a chain of groups, connects nothing. Muted groups form cases of their own, so known good accounts
    connect no suspects.

    Parameters
    ----------
    members : GroupMembers
        By rank.
    edges : sequence of (m,) int64
        The distinct edges of each group, ascending, as numbers that are the same in all groups.
    is_muted : (n,) bool

    Returns
    -------
    (n,) int64

    Examples
    --------
    >>> groups = GroupMembers.of([([0, 1, 2], [0, 1]), ([1, 2, 3], [0, 1]), ([3, 4], [1]), ([2], [5])])
    >>> edges = [np.array([10 * u + v for u in left for v in right]) for left, right in groups]
    >>> case_numbers(groups, edges, np.zeros(4, bool)).tolist()
    [0, 0, 1, 2]
    """
    heads: list[int] = []
    cases_of: defaultdict[tuple[int, bool], list[int]] = defaultdict(list)
    numbers = np.empty(len(members), np.int64)
    left_sizes = members.left_sizes.tolist()
    for row, ((left, _), muted) in enumerate(zip(members, is_muted.tolist(), strict=True)):
        accounts = [(account, muted) for account in left.tolist()]
        shared = Counter(case for account in accounts for case in cases_of.get(account, ()))
        for case in sorted(shared):
            smaller = min(row, heads[case], key=lambda group: (left_sizes[group], edges[group].size))
            if 2 * shared[case] < left_sizes[smaller]:
                continue
            common = np.intersect1d(edges[row], edges[heads[case]], assume_unique=True)
            if 2 * common.size >= edges[smaller].size:
                numbers[row] = case
                break
        else:
            numbers[row] = len(heads)
            for account in accounts:
                cases_of[account].append(len(heads))
            heads.append(row)
    return numbers


def members_of_cases(numbers: np.ndarray, owners: np.ndarray, hashes: np.ndarray) -> list[np.ndarray]:
    """Return the distinct left members of each case, as ascending hashes of their keys.

    Parameters
    ----------
    numbers : (n,) int64
        The case of each group: 0, 1, 2 ... without a gap.
    owners : (m,) int64
        The group of each left member.
    hashes : (m,) uint64
        The hash of its key (`EdgeData.key_hashes`).
    """
    cases = numbers[owners]
    order = np.argsort(cases, kind="stable")
    ends = np.cumsum(np.bincount(cases, minlength=int(numbers.max(initial=-1)) + 1))
    return [np.unique(part) for part in np.split(hashes[order], ends[:-1])] if numbers.size else []


def case_ids(members: Sequence[np.ndarray], known: Mapping[int, str] = MappingProxyType({})) -> list[str]:
    """Return the id of each case: its earlier id, or 16 hexadecimal digits of a SHA-256 of its members.

    Parameters
    ----------
    members : sequence of uint64
        As `members_of_cases` gives them.
    known : mapping of int to str
        Ids that some of these cases have already, by position. They are not given to other cases.
    """
    used, ids = set(known.values()), []
    for case, hashes in enumerate(members):
        if case not in known:
            content = hashes.astype("<u8").tobytes()
            name = _digest(content)
            while name in used:
                # Two cases can have the same members: an earlier one, or one of muted groups and one of others.
                content += b"+"
                name = _digest(content)
            used.add(name)
        ids.append(known.get(case) or name)
    return ids


def inherited_ids(
    members: Sequence[np.ndarray], before: Sequence[np.ndarray], ids_before: Sequence[str]
) -> dict[int, str]:
    """Return the ids that cases keep from the run before, by position.

    A case keeps the id of an earlier case if it has more than half of its left members. Among several, it takes the one
    with most of them, then the larger Jaccard similarity, then the smaller id.

    Parameters
    ----------
    members, before : sequence of uint64
        Members of the cases of both runs, as `members_of_cases` returns them.
    ids_before : sequence of str
        Ids of the earlier cases.
    """
    places: dict[int, list[int]] = {}
    for case, hashes in enumerate(members):
        for account in hashes.tolist():
            places.setdefault(account, []).append(case)
    pairs = []
    for old, hashes in enumerate(before):
        counts = Counter(case for account in hashes.tolist() for case in places.get(account, ()))
        for case, n in counts.items():
            if 2 * n > hashes.size:
                jaccard = Fraction(n, hashes.size + members[case].size - n)
                pairs.append((-n, -jaccard, ids_before[old], case))
    kept: dict[int, str] = {}
    given: set[str] = set()
    for _, _, name, case in sorted(pairs):
        if case not in kept and name not in given:
            kept[case] = name
            given.add(name)
    return kept


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]

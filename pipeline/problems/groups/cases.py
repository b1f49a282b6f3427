"""Cases: groups that overlap a better one by half. An investigator reads them together.

They are found on the host: the list is short for a graph of any size.
"""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from types import MappingProxyType

import numpy as np

from mbe_stage.groups.members import GroupMembers
from mbe_stage.pipeline.problems.groups.overlaps import Held, overlaps


def case_numbers(members: GroupMembers, edges: Sequence[np.ndarray], is_muted: np.ndarray) -> np.ndarray:
    """Return the case of each group: 0, 1, 2 ... in the order of their first groups.

    The first group of a case is its head. A group belongs to the first case whose head it overlaps: they share at least
    half of the left members and half of the edges of the smaller one. Else it is the head of a new case. So one popular
    account, or a chain of groups, connects nothing. Muted groups form cases of their own, so known good accounts
    connect no suspects.

    Parameters
    ----------
    members : GroupMembers
        The groups by rank.
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
    near: defaultdict[int, list[int]] = defaultdict(list)
    for row, other in _near(members, edges, is_muted):
        near[row].append(other)
    numbers = np.empty(len(members), np.int64)
    cases: dict[int, int] = {}
    for row in range(len(members)):
        head = min((other for other in near[row] if other in cases), default=row)
        numbers[row] = cases.setdefault(head, len(cases))
    return numbers


def _near(members: GroupMembers, edges: Sequence[np.ndarray], is_muted: np.ndarray) -> Iterator[tuple[int, int]]:
    """Yield the pairs of groups that overlap by half, the later one first."""
    left_sizes, n_edges = members.left_sizes, np.array([of.size for of in edges], np.int64)
    held = Held(len(edges), np.repeat(np.arange(len(edges)), n_edges), np.concatenate([np.empty(0, np.int64), *edges]))
    for rows, others, common in overlaps(held, held):
        a, b = left_sizes[rows], left_sizes[others]
        is_smaller = np.where(a == b, n_edges[rows] < n_edges[others], a < b)
        smaller = np.where(is_smaller, rows, others)
        kept = (rows > others) & (is_muted[rows] == is_muted[others]) & (2 * common >= n_edges[smaller])
        for row, other, least in np.column_stack([rows, others, left_sizes[smaller]])[kept].tolist():
            if 2 * np.intersect1d(members[row][0], members[other][0], assume_unique=True).size >= least:
                yield row, other


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
        Members of each case, from `members_of_cases`.
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

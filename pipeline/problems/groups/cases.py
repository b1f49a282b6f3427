"""Cases: groups connected by shared left members. An investigator of an account needs all of its groups at once.

Cases are connected components, found on the host: the list is short for a graph of any size.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from fractions import Fraction
from types import MappingProxyType

import numpy as np
from scipy import sparse
from scipy.sparse import csgraph

from mbe_stage.groups.members import GroupMembers


def case_numbers(members: GroupMembers, is_muted: np.ndarray) -> np.ndarray:
    """Return the case of each group: 0, 1, 2 ... in the order of their first groups.

    Groups belong to one case if a chain of groups connects them, each sharing a left member with the next. A muted
    group connects muted ones only, so known good accounts connect no suspects.

    Parameters
    ----------
    is_muted : (n,) bool

    Returns
    -------
    (n,) int64

    Examples
    --------
    >>> groups = GroupMembers.of([([0, 1], [0]), ([5], [0]), ([1, 2], [3]), ([2, 7], [0])])
    >>> case_numbers(groups, np.array([False, False, False, False])).tolist()
    [0, 1, 0, 0]
    """
    n = len(members)
    if n == 0:
        return np.empty(0, np.int64)
    owners = np.repeat(np.arange(n), members.left_sizes)
    accounts = 2 * members.left_members.astype(np.int64) + is_muted[owners]
    distinct, places = np.unique(accounts, return_inverse=True)
    ones = np.ones(owners.size, np.int8)
    size = n + distinct.size
    graph = sparse.coo_array((ones, (owners, n + places)), shape=(size, size))
    _, components = csgraph.connected_components(graph, directed=False)
    _, first, of_group = np.unique(components[:n], return_index=True, return_inverse=True)
    ranks = np.empty(first.size, np.int64)
    ranks[np.argsort(first)] = np.arange(first.size)
    return ranks[of_group]


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

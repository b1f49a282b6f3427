"""Count common members for all pairs of groups that have any."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from scipy import sparse

PAIRS_AT_ONCE = 1 << 22


@dataclass(frozen=True, slots=True, eq=False)
class Held:
    """Some numbers for each of `n` groups, each number once for a group.

    Attributes
    ----------
    owners : (m,) int64
        The group of each number.
    numbers : (m,) integers
    """

    n: int
    owners: np.ndarray
    numbers: np.ndarray


def overlaps(groups: Held, others: Held) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Yield pairs in batches: rows of `groups`, rows of `others`, and the number of common values.

    Batches bound the memory: a value in many groups makes many pairs, and callers keep few of them.
    """
    distinct = np.unique(np.concatenate([groups.numbers, others.numbers]))
    one, other = (
        sparse.csr_array(
            (np.ones(of.owners.size, np.int64), (of.owners, np.searchsorted(distinct, of.numbers))),
            shape=(of.n, distinct.size),
        )
        for of in (groups, others)
    )
    n_pairs = np.cumsum(one @ other.sum(axis=0))
    cuts = np.flatnonzero(np.diff(n_pairs // PAIRS_AT_ONCE, prepend=0))
    for start, stop in pairwise([0, *cuts.tolist(), groups.n]):
        common = (one[start:stop] @ other.T).tocoo()
        rows, partners = common.coords
        yield rows.astype(np.int64) + start, partners.astype(np.int64), common.data

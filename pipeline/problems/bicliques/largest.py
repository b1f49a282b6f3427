"""The largest bicliques of a run, kept while results stream past, so the report does not read the table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from mbe_stage.bicliques.results import BicliqueBlock
from mbe_stage.pipeline.config.model import OutputConfig
from mbe_stage.pipeline.views.near_copies import LOOKED_THROUGH
from mbe_stage.pipeline.views.top import BicliqueIds
from mbe_stage.runtime.compile_ahead import CompileStep
from mbe_stage.runtime.jit import INTS, LONGS, compiled, steps_of

FEWEST = (1, 2, 3)
"""Minimum numbers of vertices on both sides. Each has its own list, because the largest of all may be stars."""

# Candidates to choose from without near copies; fewer if they have more members than this.
_MOST = 1000
_MOST_MEMBERS = 4 << 20


def n_shown(output: OutputConfig) -> int:
    """Return how many of the largest bicliques the report shows; none without their table."""
    return output.top if output.report and output.bicliques else 0


class Bounds(NamedTuple):
    """Lower bounds that a biclique has to reach to be kept, for one kind.

    Attributes
    ----------
    fewest : int
        Minimum number of vertices on each side.
    n_at_least, n_most : int
        Number of bicliques that are always kept, and the maximum.
    most_members : int
        Maximum of members that the bicliques beyond `n_at_least` have together.
    least, last : int
        Minimum number of edges; bicliques with exactly this many need a key of at most `last`.
    """

    fewest: int
    n_at_least: int
    n_most: int
    most_members: int
    least: int
    last: int


class Largest:
    """The bicliques with the most edges, ties by smaller key; for each of `FEWEST` an initial part of that order.

    Parameters
    ----------
    n_shown : int
        Number of bicliques on a page. Twice as many are kept, regardless of their members.
    """

    def __init__(self, n_shown: int = 20) -> None:
        self._kept = {fewest: _Kept(LOOKED_THROUGH * n_shown) for fewest in FEWEST}

    def first(self, fewest: int) -> tuple[Sequence[BicliqueIds], bool]:
        """Return the kept bicliques with at least `fewest` vertices a side, largest first, and whether they are all."""
        kept = self._kept[fewest]
        return [
            BicliqueIds(key, left, right, n_edges)
            for key, n_edges, (left, right) in zip(kept.keys.tolist(), kept.edges.tolist(), kept.members, strict=True)
        ], kept.floor is None

    def merge(self, other: Largest) -> None:
        """Add the kept bicliques of a disjoint part of the results."""
        for fewest, kept in self._kept.items():
            kept.merge(other._kept[fewest])

    def bounds(self) -> list[Bounds]:
        """Return the bounds of the bicliques that `add` may keep, for each of `FEWEST`."""
        return [
            Bounds(fewest, kept.n_at_least, kept.n_most, _MOST_MEMBERS, *(kept.floor or (0, 0)))
            for fewest, kept in self._kept.items()
        ]

    def add(self, block: BicliqueBlock, n_edges: np.ndarray, keys: np.ndarray) -> None:
        """Add the bicliques of a block that are large enough.

        Parameters
        ----------
        block : BicliqueBlock
            A block with `Detail.MEMBERS`.
        n_edges, keys : (n_bicliques,) int64
        """
        assert block.left_sizes is not None
        assert block.right_sizes is not None
        least, last = np.array([each.floor or (0, 0) for each in self._kept.values()]).T.copy()
        rows = _no_worse(block.left_sizes, block.right_sizes, n_edges, keys, least, last)
        if not rows.size:
            return
        narrow, edges, named = np.minimum(block.left_sizes[rows], block.right_sizes[rows]), n_edges[rows], keys[rows]
        for fewest, kept in self._kept.items():
            chosen = np.flatnonzero((edges >= kept.least) & (narrow >= fewest))
            if chosen.size:
                kept.add(block, rows[chosen], edges[chosen], named[chosen])


def compile_steps() -> tuple[CompileStep, ...]:
    """Return the compile steps of `add`."""
    return steps_of(_no_worse)


@compiled(INTS, INTS, LONGS, LONGS, LONGS, LONGS)
def _no_worse(left_sizes, right_sizes, n_edges, keys, least, last):
    """Return the rows that reach the floor of at least one kind.

    Parameters
    ----------
    least, last : (3,) int64
        Edges and key of the floor of each kind: the first is for 1 vertex or more on both sides, the second for 2, and
        so on.
    """
    rows = np.empty(n_edges.size, np.int64)
    n = 0
    for row in range(n_edges.size):
        edges = n_edges[row]
        for kind in range(min(left_sizes[row], right_sizes[row], least.size)):
            if edges > least[kind] or (edges == least[kind] and keys[row] <= last[kind]):
                rows[n] = row
                n += 1
                break
    return rows[:n].copy()


@dataclass(slots=True)
class _Kept:
    """The first bicliques by edges and key. Once one was dropped, `floor` keeps out all worse ones.

    Attributes
    ----------
    edges, keys : (n,) int64
        Best first.
    members : list of (left, right)
        Ascending ids, int32.
    floor : (int, int) or None
        Edges and key of the worst biclique that may be kept; None if nothing was dropped.
    """

    n_at_least: int
    edges: np.ndarray = field(default_factory=lambda: np.empty(0, np.int64))
    keys: np.ndarray = field(default_factory=lambda: np.empty(0, np.int64))
    members: list[tuple[np.ndarray, np.ndarray]] = field(default_factory=list)
    floor: tuple[int, int] | None = None

    @property
    def n_most(self) -> int:
        """The maximum number to keep."""
        return max(_MOST, self.n_at_least)

    @property
    def least(self) -> int:
        """The minimum number of edges to keep."""
        return 0 if self.floor is None else self.floor[0]

    def add(self, block: BicliqueBlock, rows: np.ndarray, edges: np.ndarray, keys: np.ndarray) -> None:
        """Add the bicliques in these rows of a block, with their edges and keys."""
        most = self.n_most
        if rows.size > most:
            # A partition does not depend on the order of the rows. Ties with the last one stay for the sort by key.
            best = edges >= np.partition(edges, rows.size - most)[rows.size - most]
            rows, edges, keys = rows[best], edges[best], keys[best]
        order = np.lexsort((keys, -edges))[:most]
        assert block.left_members is not None
        assert block.right_members is not None
        left = _lists(block.left_members, block.left_offsets, rows[order])
        right = _lists(block.right_members, block.right_offsets, rows[order])
        self._merge(edges[order], keys[order], list(zip(left, right, strict=True)))

    def merge(self, other: _Kept) -> None:
        """Add the kept bicliques of another part of the results."""
        if other.floor is not None:
            self.floor = other.floor if self.floor is None else max(self.floor, other.floor, key=_goodness)
        self._merge(other.edges, other.keys, other.members)

    def _merge(self, edges: np.ndarray, keys: np.ndarray, members: list[tuple[np.ndarray, np.ndarray]]) -> None:
        edges, keys = np.concatenate([self.edges, edges]), np.concatenate([self.keys, keys])
        order = np.lexsort((keys, -edges))
        if self.floor is not None:
            least, last = self.floor
            order = order[(edges[order] > least) | ((edges[order] == least) & (keys[order] <= last))]
        both = [*self.members, *members]
        sizes = np.cumsum([both[i][0].size + both[i][1].size for i in order])
        n = min(len(order), self.n_most)
        n = min(n, max(self.n_at_least, int(np.searchsorted(sizes, _MOST_MEMBERS, side="right"))))
        # If the list is full, worse ones may have been dropped before.
        if n < len(order) or n == self.n_most:
            last_kept = order[n - 1]
            self.floor = int(edges[last_kept]), int(keys[last_kept])
        order = order[:n]
        self.edges, self.keys = edges[order], keys[order]
        self.members = [both[i] for i in order.tolist()]


def _lists(members: np.ndarray, offsets: np.ndarray, rows: np.ndarray) -> list[np.ndarray]:
    """Copy the members of some bicliques; a slice would keep the whole block in memory."""
    return [members[offsets[row] : offsets[row + 1]].copy() for row in rows]


def _goodness(floor: tuple[int, int]) -> tuple[int, int]:
    """Return a sort key: more edges are better, then a smaller key."""
    return floor[0], -floor[1]

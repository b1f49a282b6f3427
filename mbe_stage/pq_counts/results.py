"""What a search for (p, q)-bicliques finds, block by block, and the sinks that make counts of it.

The search does not visit each biclique. A leaf of its tree stands for many at once: all of its held vertices, with any
of its optional ones (node pivots: Ye et al., arXiv 2412.16485, section 3; for cliques Jain and Seshadhri, WSDM 2020).
A leaf with h held and o optional left vertices, and g held and r optional right ones, is ``C(o, p - h) * C(r, q - g)``
bicliques of p left and q right vertices. Engines only count equal leaves, in 64 bits. What the leaves amount to is
worked out here, in integers of any size: no count overflows, whatever the graph.
"""

from __future__ import annotations

import enum
from collections import Counter
from dataclasses import dataclass, field
from math import comb

import numpy as np

from mbe_stage.pq_counts.digits import sums_of_digits
from mbe_stage.pq_counts.query import PqQuery

__all__ = ["Detail", "Leaves", "LocalCounts", "PqBlock", "PqSink"]


class Detail(enum.IntEnum):
    """How much an engine has to say; the less, the faster."""

    COUNTS = 0
    VERTICES = 1
    EDGES = 2


@dataclass(frozen=True, slots=True, eq=False)
class Leaves:
    """Leaves of the search tree, equal ones as one.

    Attributes
    ----------
    held_left, optional_left, held_right, optional_right : (n,) int64
        Vertices of each leaf.
    times : (n,) int64
        How many such leaves.
    min_p, min_q : int
        Sizes from which on they count: a leaf says nothing of smaller bicliques, though it may hold some.
    """

    held_left: np.ndarray
    optional_left: np.ndarray
    held_right: np.ndarray
    optional_right: np.ndarray
    times: np.ndarray
    min_p: int = 1
    min_q: int = 1

    @classmethod
    def none(cls) -> Leaves:
        """No leaf."""
        nothing = np.empty(0, np.int64)
        return cls(nothing, nothing, nothing, nothing, nothing)

    def __len__(self) -> int:
        return self.times.size

    def swapped(self) -> Leaves:
        """The same of the graph with its sides exchanged."""
        return Leaves(
            self.held_right, self.optional_right, self.held_left, self.optional_left, self.times, self.min_q, self.min_p
        )


@dataclass(frozen=True, slots=True, eq=False)
class LocalCounts:
    """In how many (p, q)-bicliques each vertex is, or how many some of the work finds it in; and each edge.

    Attributes
    ----------
    p, q : int
    left : (n_left, n_digits) uint64
        Digits of 32 bits, the lowest first, for each left vertex of the user's graph (`mbe_stage.pq_counts.digits`).
    right : (n_right, n_digits) uint64
    edges : (n_edges, n_digits) uint64 or None
        In the order of `BipartiteCSR.left_members`; None below `Detail.EDGES`.
    """

    p: int
    q: int
    left: np.ndarray
    right: np.ndarray
    edges: np.ndarray | None = None


@dataclass(frozen=True, slots=True, eq=False)
class PqBlock:
    """What an engine hands over.

    Attributes
    ----------
    leaves : Leaves
        That no other block has.
    local : LocalCounts or None
        What the bicliques of some leaves amount to for each vertex or edge; None where nothing new is known. Those of
        several blocks add up.
    work_done : float
        Share of the whole work that is finished with this block, 0 to 1 (an estimate).
    """

    leaves: Leaves
    local: LocalCounts | None = None
    work_done: float = 0.0

    def __len__(self) -> int:
        """Kinds of leaves: zero is allowed, such a block only reports progress."""
        return len(self.leaves)

    def first(self, n: int) -> PqBlock:
        """Not to be had: what is counted in part is no count."""
        raise NotImplementedError("a block of counts cannot be cut")


@dataclass(slots=True, eq=False)
class PqSink:
    """Adds leaves, and what each vertex and edge is in; `counts` says what they amount to.

    Attributes
    ----------
    query : PqQuery
        Which cells.
    detail : Detail
    """

    query: PqQuery
    detail: Detail = Detail.COUNTS
    _leaves: Counter[tuple[int, int, int, int, int, int]] = field(default_factory=Counter)
    _local: dict[tuple[int, int], LocalCounts] = field(default_factory=dict)

    def accept(self, block: PqBlock) -> None:
        """Take one block in."""
        leaves = block.leaves
        columns = (leaves.held_left, leaves.optional_left, leaves.held_right, leaves.optional_right)
        for *kind, times in zip(*(column.tolist() for column in (*columns, leaves.times)), strict=True):
            self._leaves[(leaves.min_p, leaves.min_q, *kind)] += times
        if block.local is not None:
            self._add(block.local)

    def merge(self, other: PqSink) -> None:
        """Take in what another sink has been given of other tasks."""
        self._leaves.update(other._leaves)
        for local in other._local.values():
            self._add(local)

    def counts(self) -> dict[tuple[int, int], int]:
        """The number of bicliques of each cell, ``(p, q) -> count``; lower bounds while blocks are missing.

        Leaves are summed up by their left sides first: many differ on the right side only.
        """
        asked = self.query
        ps, qs = range(asked.min_p, asked.max_p + 1), range(asked.min_q, asked.max_q + 1)
        by_left: dict[tuple[int, int, int], list[int]] = {}
        for (min_p, min_q, held_left, optional_left, held, optional), times in self._leaves.items():
            row = by_left.setdefault((min_p, held_left, optional_left), [0] * len(qs))
            for i, q in enumerate(qs):
                if q >= held and q >= min_q:
                    row[i] += times * comb(optional, q - held)
        counts = dict.fromkeys(asked.cells, 0)
        for (min_p, held, optional), row in by_left.items():
            for p in ps:
                ways = comb(optional, p - held) if p >= held and p >= min_p else 0
                if ways:
                    for q, n in zip(qs, row, strict=True):
                        counts[p, q] += ways * n
        return counts

    def local_counts(self) -> dict[tuple[int, int], LocalCounts]:
        """Those of each cell, digits as they carry; empty at `Detail.COUNTS`."""
        return dict(self._local)

    def _add(self, local: LocalCounts) -> None:
        known = self._local.get((local.p, local.q))
        if known is None:
            self._local[local.p, local.q] = local
            return
        edges = known.edges
        if edges is not None and local.edges is not None:
            edges = sums_of_digits(edges, local.edges)
        self._local[local.p, local.q] = LocalCounts(
            local.p, local.q, sums_of_digits(known.left, local.left), sums_of_digits(known.right, local.right), edges
        )

"""Blocks of a search for (p, q)-bicliques, and the sinks that turn them into counts.

The search does not visit each biclique. A leaf of its tree represents many: all of its held vertices, with any of its
optional vertices. (Node pivots: Ye et al., arXiv 2412.16485, section 3. For cliques, Jain and Seshadhri, WSDM 2020,
call them hold and pivot vertices.) A leaf with h held and o optional left vertices, and g held and r optional right
vertices, represents ``C(o, p - h) * C(r, q - g)`` bicliques of p left and q right vertices. These four numbers are its
*signature*. Engines only count equal leaves, in 64 bits. This module computes the counts of bicliques in integers of
any size, so they never overflow.
"""

from __future__ import annotations

import enum
import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import comb

import numpy as np

from mbe_stage.pq_counts.digits import sums_of_digits
from mbe_stage.pq_counts.query import PqQuery
from mbe_stage.tasks import Remaining

_MOST_IN_64_BITS = int(np.iinfo(np.int64).max)
# Most blocks, and most leaf signatures, that wait before equal ones are merged.
_NEW_PARTS, _NEW_LEAVES = 64, 1 << 16
_OF_LEAVES = ("held_left", "optional_left", "held_right", "optional_right", "times")
_OF_LOCAL = ("left", "right", "edges")


@dataclass(frozen=True, slots=True, eq=False)
class Leaves:
    """Leaves of the search tree; equal leaves are one entry.

    Attributes
    ----------
    held_left, optional_left, held_right, optional_right : (n,) int64
        Numbers of vertices of each leaf: its *signature*.
    times : (n,) int64
        Number of leaves with this signature.
    min_p, min_q : int
        Smallest sizes that the leaves count for; a leaf may contain smaller bicliques, but does not count for them.
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
        """Return no leaves."""
        nothing = np.empty(0, np.int64)
        return cls(nothing, nothing, nothing, nothing, nothing)

    def __len__(self) -> int:
        return self.times.size

    def swapped(self) -> Leaves:
        """Return the leaves for the graph with its sides exchanged."""
        return Leaves(
            self.held_right, self.optional_right, self.held_left, self.optional_left, self.times, self.min_q, self.min_p
        )


def together(parts: Sequence[Leaves]) -> Leaves:
    """Merge equal leaves, for leaves with the same minimum sizes; sort them by left sides.

    Each leaf took a visit or the count of a vertex, so sums of `times` stay far below 2^64.
    """
    names = ("held_left", "optional_left", "held_right", "optional_right", "times")
    *columns, times = (np.concatenate([getattr(part, name) for part in parts]) for name in names)
    widths = [int(column.max(initial=0)).bit_length() for column in columns]
    if sum(widths) < 64:
        order, firsts, kinds = _packed(columns, widths)
    else:
        order = np.lexsort(columns[::-1])
        ordered = np.stack(columns)[:, order]
        firsts = _firsts(ordered)
        kinds = list(ordered[:, firsts])
    sums = np.add.reduceat(times[order], firsts) if firsts.size else times
    return Leaves(kinds[0], kinds[1], kinds[2], kinds[3], sums, parts[0].min_p, parts[0].min_q)


def _packed(columns: Sequence[np.ndarray], widths: Sequence[int]) -> tuple[np.ndarray, np.ndarray, list[np.ndarray]]:
    """Return the order of leaves, the first of each kind, and the kinds, by sorting one packed word per leaf.

    Parameters
    ----------
    columns : sequence of (n,) int64
    widths : sequence of int
        Bits for each column, in total below 64.
    """
    words = np.zeros(columns[0].size, np.int64)
    for column, width in zip(columns, widths, strict=True):
        words = words << width | column
    order = np.argsort(words)
    words = words[order]
    firsts = _firsts(words[None])
    words, kinds = words[firsts], []
    for width in reversed(widths):
        kinds.append(words & ((1 << width) - 1))
        words = words >> width
    return order, firsts, kinds[::-1]


def bicliques_of(leaves: Leaves, ps: range, qs: range) -> list[list[int]]:
    """Count the bicliques of leaves, for each of `ps` left vertices with each of `qs` right vertices.

    Leaves with the same left side are summed first, since many differ on the right side only.

    Parameters
    ----------
    leaves : Leaves
        Result of `together`.
    """
    if len(leaves) == 0:
        return [[0] * len(qs) for _ in ps]
    firsts = _firsts(np.stack([leaves.held_left, leaves.optional_left]))
    left = list(zip(leaves.held_left[firsts].tolist(), leaves.optional_left[firsts].tolist(), strict=True))
    # Both numbers of vertices are below 2^31.
    keys, of_leaf = np.unique(leaves.held_right << 32 | leaves.optional_right, return_inverse=True)
    right = list(zip((keys >> 32).tolist(), (keys & 0xFFFFFFFF).tolist(), strict=True))
    total = sum(leaves.times.tolist())
    by_left = []
    for q in qs:
        ways = _ways(right, q if q >= leaves.min_q else -1)
        dtype: type = np.int64 if total * max(ways) <= _MOST_IN_64_BITS else object
        bicliques: np.ndarray = np.array(ways, dtype)[of_leaf] * leaves.times.astype(dtype)
        by_left.append(np.add.reduceat(bicliques, firsts).tolist())
    counts = []
    for p in ps:
        ways = _ways(left, p if p >= leaves.min_p else -1)
        counts.append([sum(map(int.__mul__, ways, of_left)) for of_left in by_left])
    return counts


def _firsts(kinds: np.ndarray) -> np.ndarray:
    """Return the positions of columns of a (n_rows, n) array that differ from the column before."""
    is_first = np.ones(kinds.shape[1], np.bool_)
    is_first[1:] = (kinds[:, 1:] != kinds[:, :-1]).any(axis=0)
    return np.flatnonzero(is_first)


def _ways(sides: Sequence[tuple[int, int]], size: int) -> list[int]:
    """Return, for each side, the number of sets of `size` vertices with all held and some optional ones."""
    return [comb(optional, size - held) if size >= held else 0 for held, optional in sides]


class Detail(enum.IntEnum):
    """Amount of detail that an engine reports; less is faster."""

    COUNTS = 0
    VERTICES = 1
    EDGES = 2


@dataclass(frozen=True, slots=True, eq=False)
class LocalCounts:
    """Numbers of (p, q)-bicliques that contain each vertex and each edge, among all or among the searched ones.

    Attributes
    ----------
    left : (n_left, n_digits) uint64
        Number for each left vertex of the user's graph, in digits of 32 bits, the lowest first
        (`mbe_stage.pq_counts.digits`).
    right : (n_right, n_digits) uint64
    edges : (n_edges, n_digits) uint64 or None
        Number for each edge, in the order of `BipartiteCSR.left_members`; None below `Detail.EDGES`.
    """

    p: int
    q: int
    left: np.ndarray
    right: np.ndarray
    edges: np.ndarray | None = None


@dataclass(frozen=True, slots=True, eq=False)
class PqBlock:
    """A block of results from an engine.

    Attributes
    ----------
    leaves : Leaves
        Leaves that are in no other block.
    local : LocalCounts or None
        Numbers of bicliques for each vertex or edge, over some leaves; None if there are no new numbers. The numbers of
        several blocks add up.
    work_done : float
        Estimated share of the whole work finished with this block, 0 to 1.
    remaining : tuple of Task or OpenWork, or None
        The remaining tasks or saved work, in an empty block that marks a barrier after all other results; otherwise
        None.
    """

    leaves: Leaves
    local: LocalCounts | None = None
    work_done: float = 0.0
    remaining: Remaining | None = None

    def __len__(self) -> int:
        """Number of leaf signatures. Zero is allowed: such a block only reports progress."""
        return len(self.leaves)

    def first(self, n: int) -> PqBlock:
        """Return the block without results: a part of the counts would not be a count."""
        if n == 0:
            return PqBlock(Leaves.none(), work_done=self.work_done)
        raise NotImplementedError("a block of counts cannot be cut")

    def totals(self) -> PqTotals:
        """Return an empty sum for blocks like this one (`mbe_stage.stream.Block`)."""
        return PqTotals()


@dataclass(slots=True, eq=False)
class PqTotals:
    """Sums of leaves, and of local counts."""

    _leaves: dict[tuple[int, int], list[Leaves]] = field(default_factory=dict, init=False)
    _local: dict[tuple[int, int], LocalCounts] = field(default_factory=dict, init=False)

    def accept(self, block: PqBlock) -> None:
        """Add a block to the sums."""
        if len(block):
            self._keep(block.leaves)
        if block.local is not None:
            self._add(block.local)

    def blocks(self) -> Iterator[PqBlock]:
        """Return the sums in as few blocks as possible; one empty block if there are none."""
        for parts in self._leaves.values():
            yield PqBlock(together(parts))
        for local in self._local.values():
            yield PqBlock(Leaves.none(), local)
        if not self._leaves and not self._local:
            yield PqBlock(Leaves.none())

    def merge(self, other: PqTotals) -> None:
        """Add the sums of other tasks."""
        for leaves in itertools.chain.from_iterable(other._leaves.values()):
            self._keep(leaves)
        for local in other._local.values():
            self._add(local)

    def sums(self) -> dict[str, np.ndarray]:
        """Return the sums as arrays, for `restore`."""
        found = {
            f"leaves {p} {q}": np.stack([getattr(together(parts), name) for name in _OF_LEAVES])
            for (p, q), parts in self._leaves.items()
        }
        for (p, q), local in self._local.items():
            found |= {f"{name} {p} {q}": digits for name in _OF_LOCAL if (digits := getattr(local, name)) is not None}
        return found

    def restore(self, sums: Mapping[str, np.ndarray]) -> None:
        """Restore the result of `sums`, from other tasks of the same query and detail."""
        local: dict[tuple[int, int], dict[str, np.ndarray]] = {}
        for key, array in sums.items():
            name, p, q = key.split()
            if name == "leaves":
                self._keep(Leaves(**dict(zip(_OF_LEAVES, array, strict=True)), min_p=int(p), min_q=int(q)))
            else:
                local.setdefault((int(p), int(q)), {})[name] = array
        for cell, digits in local.items():
            self._add(LocalCounts(*cell, digits["left"], digits["right"], digits.get("edges")))

    @property
    def n_signatures(self) -> int:
        """Number of leaf signatures kept; equal signatures may be counted more than once."""
        return sum(len(part) for parts in self._leaves.values() for part in parts)

    def _keep(self, leaves: Leaves) -> None:
        """Keep leaves; merge equal ones from time to time, so that memory does not grow with every block."""
        parts = self._leaves.setdefault((leaves.min_p, leaves.min_q), [])
        parts.append(leaves)
        if len(parts) > _NEW_PARTS or sum(map(len, parts[1:])) > max(_NEW_LEAVES, len(parts[0])):
            parts[:] = [together(parts)]

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


@dataclass(slots=True, eq=False)
class PqSink(PqTotals):
    """Sums of leaves, and of local counts; `counts` turns them into numbers of bicliques.

    Attributes
    ----------
    query : PqQuery
        The cells.
    detail : Detail
    """

    query: PqQuery
    detail: Detail = Detail.COUNTS

    def counts(self) -> dict[tuple[int, int], int]:
        """Return the number of bicliques of each cell, ``(p, q) -> count``; lower bounds while blocks are missing."""
        wanted = self.query
        ps, qs = range(wanted.min_p, wanted.max_p + 1), range(wanted.min_q, wanted.max_q + 1)
        found = [bicliques_of(together(parts), ps, qs) for parts in self._leaves.values()]
        return {(p, q): sum(counts[i][j] for counts in found) for i, p in enumerate(ps) for j, q in enumerate(qs)}

    def local_counts(self) -> dict[tuple[int, int], LocalCounts]:
        """Local counts of each cell, with carried digits; empty at `Detail.COUNTS`."""
        return dict(self._local)

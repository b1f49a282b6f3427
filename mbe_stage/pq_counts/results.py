"""Blocks of a search for (p, q)-bicliques, and the sinks that turn them into counts.

The search does not visit each biclique. A leaf of its tree stands for many at once: all of its held vertices, with any
of its optional ones. (Node pivots: Ye et al., arXiv 2412.16485, section 3. For cliques, Jain and Seshadhri, WSDM 2020,
call them hold and pivot vertices.) A leaf with h held and o optional left vertices, and g held and r optional right
ones, is ``C(o, p - h) * C(r, q - g)`` bicliques of p left and q right vertices. These four numbers are its *signature*.
Engines only count equal leaves, in 64 bits. The counts of bicliques are computed here, in integers of any size, so no
count overflows.
"""

from __future__ import annotations

import enum
import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np

from mbe_stage.pq_counts.digits import sums_of_digits
from mbe_stage.pq_counts.leaves import Leaves, bicliques_of, together
from mbe_stage.pq_counts.query import PqQuery
from mbe_stage.tasks import Task

__all__ = ["Detail", "Leaves", "LocalCounts", "PqBlock", "PqSink", "PqTotals"]

# Blocks, and leaf signatures, that wait at most before equal ones are merged.
_NEW_PARTS, _NEW_LEAVES = 64, 1 << 16
_OF_LEAVES = ("held_left", "optional_left", "held_right", "optional_right", "times")
_OF_LOCAL = ("left", "right", "edges")


class Detail(enum.IntEnum):
    """Amount of detail that an engine reports; the less, the faster."""

    COUNTS = 0
    VERTICES = 1
    EDGES = 2


@dataclass(frozen=True, slots=True, eq=False)
class LocalCounts:
    """Numbers of (p, q)-bicliques that contain each vertex and each edge, among all or among the searched ones.

    Attributes
    ----------
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
    """A block of results, as an engine delivers it.

    Attributes
    ----------
    leaves : Leaves
        Leaves in no other block.
    local : LocalCounts or None
        Bicliques of some leaves for each vertex or edge; None if there are no new numbers. Those of several blocks add
        up.
    work_done : float
        Share of the whole work that is finished with this block, 0 to 1 (an estimate).
    remaining : tuple of Task or None
        The remaining tasks, in an empty block that marks a barrier after all other results. None in other blocks.
    """

    leaves: Leaves
    local: LocalCounts | None = None
    work_done: float = 0.0
    remaining: tuple[Task, ...] | None = None

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
        """Add one block."""
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
        """Add other sums, of other tasks."""
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
        """Number of leaf signatures kept, some perhaps more than once."""
        return sum(len(part) for parts in self._leaves.values() for part in parts)

    def _keep(self, leaves: Leaves) -> None:
        """Merge equal leaves now and then, so that memory does not grow with the number of blocks."""
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
        """Number of bicliques of each cell, ``(p, q) -> count``; lower bounds while blocks are missing."""
        wanted = self.query
        ps, qs = range(wanted.min_p, wanted.max_p + 1), range(wanted.min_q, wanted.max_q + 1)
        found = [bicliques_of(together(parts), ps, qs) for parts in self._leaves.values()]
        return {(p, q): sum(counts[i][j] for counts in found) for i, p in enumerate(ps) for j, q in enumerate(qs)}

    def local_counts(self) -> dict[tuple[int, int], LocalCounts]:
        """Local counts of each cell, with carried digits; empty at `Detail.COUNTS`."""
        return dict(self._local)

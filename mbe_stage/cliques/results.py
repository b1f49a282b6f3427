"""Blocks of cliques from engines, and the sinks that take them."""

from __future__ import annotations

import enum
from collections import Counter
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from mbe_stage.ragged import KeptArrays, long_offsets, offsets_of
from mbe_stage.tasks import Remaining


class Detail(enum.IntEnum):
    """Amount of detail that an engine reports about each clique; less is faster."""

    COUNT = 0
    SIZES = 1
    MEMBERS = 2


@dataclass(frozen=True, slots=True, eq=False)
class CliqueBlock:
    """A block of cliques from an engine.

    Attributes
    ----------
    n_cliques : int
        Number of cliques. A block with none only reports progress.
    sizes : (n_cliques,) int32 or None
        Number of members of each clique; None at `Detail.COUNT`.
    members : int32 or None
        Dense ids, clique after clique, ascending within each; None below `Detail.MEMBERS`.
    work_done : float
        Estimated share of the whole work finished with this block, 0 to 1.
    remaining : tuple of Task or OpenWork, or None
        The remaining tasks or saved work, in an empty block that marks a barrier after all other results; otherwise
        None.
    """

    n_cliques: int
    sizes: np.ndarray | None = None
    members: np.ndarray | None = None
    work_done: float = 0.0
    remaining: Remaining | None = None

    @classmethod
    def empty(cls, detail: Detail, work_done: float, remaining: Remaining | None = None) -> CliqueBlock:
        """Make a block without cliques, which only reports progress or marks a barrier."""
        none = np.empty(0, np.int32)
        sizes = none if detail >= Detail.SIZES else None
        return cls(0, sizes, none if detail >= Detail.MEMBERS else None, work_done, remaining)

    def __len__(self) -> int:
        return self.n_cliques

    @property
    def offsets(self) -> np.ndarray:
        """Offset of each clique's members, ``(n_cliques + 1,)``; int32, or int64 from 2^31 members on."""
        if self.sizes is None:
            raise TypeError("this block only counts its cliques: ask the engine for Detail.SIZES or Detail.MEMBERS")
        # Blocks of members stay below 2^31 (`Execution.block_bytes`); blocks of sizes need not.
        return offsets_of(self.sizes)

    def first(self, n: int) -> CliqueBlock:
        """Return the first `n` cliques of this block, as views."""
        if n >= self.n_cliques:
            return self
        return CliqueBlock(
            n_cliques=n,
            sizes=None if self.sizes is None else self.sizes[:n],
            members=None if self.members is None else self.members[: self.offsets[n]],
            work_done=self.work_done,
        )


class CliqueSink(Protocol):
    """Takes blocks one at a time, in the order of arrival, from one thread."""

    @property
    def detail(self) -> Detail:
        """Detail of each clique that the sink needs."""

    def accept(self, block: CliqueBlock) -> None:
        """Take in a block; its arrays may be kept."""


class CliqueCountSink:
    """Counts cliques, and stores nothing."""

    detail = Detail.COUNT

    def __init__(self) -> None:
        self.n_cliques = 0

    def accept(self, block: CliqueBlock) -> None:
        """Take in a block."""
        self.n_cliques += block.n_cliques

    def merge(self, other: CliqueCountSink) -> None:
        """Add the count of another sink, which took other tasks."""
        self.n_cliques += other.n_cliques


class CliqueHistogramSink:
    """Counts the cliques of each size.

    Attributes
    ----------
    counts : Counter
        ``size -> number of cliques``.
    """

    detail = Detail.SIZES

    def __init__(self) -> None:
        self.counts: Counter[int] = Counter()

    def accept(self, block: CliqueBlock) -> None:
        """Take in a block."""
        if block.n_cliques == 0:
            return
        assert block.sizes is not None
        # No clique is larger than a degree plus one, so the array of counts is small.
        self.add_counts(np.bincount(block.sizes))

    def add_counts(self, counts: np.ndarray) -> None:
        """Add the number of cliques of each size; a size is the position."""
        sizes = np.flatnonzero(counts)
        self.counts.update(dict(zip(sizes.tolist(), counts[sizes].tolist(), strict=True)))

    def sorted_rows(self) -> tuple[np.ndarray, np.ndarray]:
        """Return ``(size, n_cliques)`` of every size that occurs, ascending: (n,) int32 and (n,) int64."""
        sizes = sorted(self.counts)
        return np.array(sizes, np.int32), np.array([self.counts[size] for size in sizes], np.int64)

    def merge(self, other: CliqueHistogramSink) -> None:
        """Add the counts of another sink, which took other tasks."""
        self.counts.update(other.counts)


@dataclass(frozen=True, slots=True, eq=False)
class CliqueTable:
    """Cliques in memory, as a ragged array.

    Attributes
    ----------
    offsets : (n_cliques + 1,) int64
    members : int32
        Dense ids, ascending within each clique.
    """

    offsets: np.ndarray
    members: np.ndarray

    def __len__(self) -> int:
        return self.offsets.size - 1

    def __getitem__(self, index: int) -> np.ndarray:
        """Return the members of one clique (a view)."""
        if not -len(self) <= index < len(self):
            raise IndexError(f"clique {index} of {len(self)}")
        index %= len(self)
        return self.members[self.offsets[index] : self.offsets[index + 1]]

    @property
    def sizes(self) -> np.ndarray:
        """Number of members of each clique, ``(n_cliques,) int64``."""
        return np.diff(self.offsets)

    def as_set(self) -> set[tuple[int, ...]]:
        """Return all cliques as tuples of their members, for tests and small results."""
        return {tuple(self[i].tolist()) for i in range(len(self))}


class CliqueTableSink(KeptArrays):
    """Keeps every clique in memory."""

    detail = Detail.MEMBERS
    names = "sizes", "members"

    def table(self) -> CliqueTable:
        """Return the cliques so far; later ones do not change the table."""
        sizes, members = (array.values() for array in self._arrays)
        return CliqueTable(long_offsets(sizes), members)

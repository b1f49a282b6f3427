"""Blocks of bicliques from engines, and the sinks that take them."""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol

import numpy as np

from mbe_stage.ragged import KeptArrays, long_offsets, offsets_of

if TYPE_CHECKING:
    from mbe_stage.bicliques.cuda.blocks import DeviceBlock
    from mbe_stage.tasks import Remaining


class Detail(enum.IntEnum):
    """Amount of detail that an engine reports about each biclique; less is faster."""

    COUNT = 0
    SIZES = 1
    MEMBERS = 2
    RIGHT = 3
    """As `MEMBERS`, but the engine may report only the number of left members, which is faster."""


@dataclass(frozen=True, slots=True, eq=False)
class BicliqueBlock:
    """A block of bicliques from an engine.

    Attributes
    ----------
    n_bicliques : int
        Number of bicliques. A block with none only reports progress.
    left_sizes, right_sizes : (n_bicliques,) int32 or None
        Number of members on each side; None at `Detail.COUNT`.
    left_members, right_members : int32 or None
        Dense ids, biclique after biclique, ascending within each; None below `Detail.MEMBERS`.
    work_done : float
        Estimated share of the whole work finished with this block, 0 to 1.
    remaining : tuple of Task or OpenWork, or None
        The remaining tasks or saved work, in an empty block that marks a barrier after all other results; otherwise
        None.
    """

    n_bicliques: int
    left_sizes: np.ndarray | None = None
    right_sizes: np.ndarray | None = None
    left_members: np.ndarray | None = None
    right_members: np.ndarray | None = None
    work_done: float = 0.0
    remaining: Remaining | None = None

    @classmethod
    def empty(cls, detail: Detail, work_done: float, remaining: Remaining | None = None) -> BicliqueBlock:
        """Make a block without bicliques, which only reports progress or marks a barrier."""
        none = np.empty(0, np.int32)
        sizes = none if detail >= Detail.SIZES else None
        members = none if detail >= Detail.MEMBERS else None
        return cls(0, sizes, sizes, members, members, work_done, remaining)

    def __len__(self) -> int:
        return self.n_bicliques

    @property
    def left_offsets(self) -> np.ndarray:
        """Offset of each biclique's left members, ``(n_bicliques + 1,)``; int32, or int64 from 2^31 members on."""
        return _offsets(self.left_sizes)

    @property
    def right_offsets(self) -> np.ndarray:
        """Offset of each biclique's right members, ``(n_bicliques + 1,)``; int32, or int64 from 2^31 members on."""
        return _offsets(self.right_sizes)

    def first(self, n: int) -> BicliqueBlock:
        """Return the first `n` bicliques of this block, as views."""
        if n >= self.n_bicliques:
            return self
        return BicliqueBlock(
            n_bicliques=n,
            left_sizes=None if self.left_sizes is None else self.left_sizes[:n],
            right_sizes=None if self.right_sizes is None else self.right_sizes[:n],
            left_members=None if self.left_members is None else self.left_members[: self.left_offsets[n]],
            right_members=None if self.right_members is None else self.right_members[: self.right_offsets[n]],
            work_done=self.work_done,
        )


def _offsets(sizes: np.ndarray | None) -> np.ndarray:
    if sizes is None:
        raise TypeError("this block only counts its bicliques: ask the engine for Detail.SIZES or Detail.MEMBERS")
    return offsets_of(sizes)


class Sink(Protocol):
    """Takes blocks one at a time, in the order of arrival, from one thread."""

    @property
    def detail(self) -> Detail:
        """Detail of each biclique that the sink needs."""

    def accept(self, block: BicliqueBlock) -> None:
        """Take in a block; its arrays may be kept."""


class DeviceSink(Protocol):
    """A `Sink` for blocks of CuPy arrays with members; nothing passes through the host."""

    @property
    def detail(self) -> Literal[Detail.MEMBERS]:
        """Always `Detail.MEMBERS`."""

    @property
    def on_device(self) -> Literal[True]:
        """Marks the sink as one for device memory."""

    def accept(self, block: DeviceBlock) -> None:
        """Take in a block; its arrays may be kept."""


class CountSink:
    """Counts bicliques, and stores nothing."""

    detail = Detail.COUNT

    def __init__(self) -> None:
        self.n_bicliques = 0

    def accept(self, block: BicliqueBlock) -> None:
        """Take in a block."""
        self.n_bicliques += len(block)

    def merge(self, other: CountSink) -> None:
        """Add the count of another sink, which took other tasks."""
        self.n_bicliques += other.n_bicliques


class HistogramSink:
    """Counts the bicliques of each size.

    Attributes
    ----------
    counts : Counter
        ``(n_left, n_right) -> number of bicliques``, a new one at each access.
    """

    detail = Detail.SIZES

    def __init__(self) -> None:
        # Other sinks need no compiled code, and importing Numba takes long.
        from mbe_stage.bicliques.vertex_statistics import SizeCounts

        self._sizes = SizeCounts()

    @property
    def counts(self) -> Counter[tuple[int, int]]:
        """Return the number of bicliques of each size."""
        left, right, numbers = (each.tolist() for each in self._sizes.sorted_rows())
        return Counter(dict(zip(zip(left, right, strict=True), numbers, strict=True)))

    def accept(self, block: BicliqueBlock) -> None:
        """Take in a block."""
        if block.n_bicliques == 0:
            return
        assert block.left_sizes is not None
        assert block.right_sizes is not None
        self._sizes.add(block.left_sizes, block.right_sizes)

    def merge(self, other: HistogramSink) -> None:
        """Add the counts of another sink, which took other tasks."""
        self._sizes.merge(other._sizes)


@dataclass(frozen=True, slots=True, eq=False)
class BicliqueTable:
    """Bicliques in memory, as two ragged arrays.

    Attributes
    ----------
    left_offsets, right_offsets : (n_bicliques + 1,) int64
    left_members, right_members : int32
        Dense ids, ascending within each biclique.
    """

    left_offsets: np.ndarray
    left_members: np.ndarray
    right_offsets: np.ndarray
    right_members: np.ndarray

    def __len__(self) -> int:
        return self.left_offsets.size - 1

    def __getitem__(self, index: int) -> tuple[np.ndarray, np.ndarray]:
        """Return left and right members of one biclique (views)."""
        if not -len(self) <= index < len(self):
            raise IndexError(f"biclique {index} of {len(self)}")
        index %= len(self)
        return (
            self.left_members[self.left_offsets[index] : self.left_offsets[index + 1]],
            self.right_members[self.right_offsets[index] : self.right_offsets[index + 1]],
        )

    def __iter__(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        return (self[i] for i in range(len(self)))

    @property
    def left_sizes(self) -> np.ndarray:
        """Number of left members of each biclique, ``(n,) int64``."""
        return np.diff(self.left_offsets)

    @property
    def right_sizes(self) -> np.ndarray:
        """Number of right members of each biclique, ``(n,) int64``."""
        return np.diff(self.right_offsets)

    def as_set(self) -> set[tuple[tuple[int, ...], tuple[int, ...]]]:
        """Return all bicliques as hashable pairs of member tuples, for tests and small results."""
        return {(tuple(left.tolist()), tuple(right.tolist())) for left, right in self}


class TableSink(KeptArrays):
    """Keeps every biclique in memory."""

    detail = Detail.MEMBERS
    names = "left_sizes", "left_members", "right_sizes", "right_members"

    def table(self) -> BicliqueTable:
        """Return the bicliques so far; later ones do not change the table."""
        left_sizes, left_members, right_sizes, right_members = (array.values() for array in self._arrays)
        return BicliqueTable(long_offsets(left_sizes), left_members, long_offsets(right_sizes), right_members)


class RightSink(KeptArrays):
    """Keeps the right members of bicliques in memory, and the number of left members.

    Parameters
    ----------
    choose : callable, optional
        Takes each block, with all members, and returns the bicliques to keep; by default all are kept.
    """

    names = "left_sizes", "right_sizes", "right_members"

    def __init__(self, choose: Callable[[BicliqueBlock], BicliqueBlock] | None = None) -> None:
        super().__init__()
        self.detail = Detail.RIGHT if choose is None else Detail.MEMBERS
        self._choose = choose

    def accept(self, block: BicliqueBlock) -> None:
        """Take in a block; its arrays are copied."""
        super().accept(block if self._choose is None or not len(block) else self._choose(block))

    def arrays(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return left sizes, right offsets and right members so far: int32, (n_bicliques + 1,) int64 and int32."""
        left_sizes, right_sizes, right_members = (array.values() for array in self._arrays)
        return left_sizes, long_offsets(right_sizes), right_members

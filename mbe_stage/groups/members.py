"""The members of groups, as two ragged arrays."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from mbe_stage.bicliques.results import BicliqueTable
from mbe_stage.ragged import long_offsets
from mbe_stage.runtime.compile_ahead import CompileStep
from mbe_stage.runtime.jit import INTS, LONGS, compiled, steps_of
from mbe_stage.splitmix import finalised


@dataclass(frozen=True, slots=True, eq=False)
class GroupMembers(BicliqueTable):
    """Groups of left and right vertices."""

    @classmethod
    def of(cls, groups: Iterable[tuple[Sequence[int], Sequence[int]]]) -> GroupMembers:
        """Return groups from pairs of ascending ids, for examples, tests and small numbers of groups.

        Examples
        --------
        >>> members = GroupMembers.of([([0, 4], [1]), ([2], [0, 1, 3])])
        >>> len(members), members.left_sizes.tolist(), [ids.tolist() for ids in members[1]]
        (2, [2, 1], [[2], [0, 1, 3]])
        """
        pairs = list(groups)
        left, right = ([np.asarray(pair[side], np.int32) for pair in pairs] for side in (0, 1))
        return cls(*_joined(left), *_joined(right))

    @classmethod
    def joined(cls, parts: Sequence[BicliqueTable]) -> GroupMembers:
        """Concatenate groups."""
        none = np.empty(0, np.int32)
        return cls(
            long_offsets(np.concatenate([none, *(part.left_sizes for part in parts)])),
            np.concatenate([none, *(part.left_members for part in parts)]),
            long_offsets(np.concatenate([none, *(part.right_sizes for part in parts)])),
            np.concatenate([none, *(part.right_members for part in parts)]),
        )

    def side(self, side: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the left (0) or right (1) members of all groups, and the group of each, ``(m,) int64``."""
        members, sizes = (self.right_members, self.right_sizes) if side else (self.left_members, self.left_sizes)
        return members, np.repeat(np.arange(len(self)), sizes)

    @property
    def nbytes(self) -> int:
        """Bytes of the four arrays."""
        return (
            self.left_offsets.nbytes + self.left_members.nbytes + self.right_offsets.nbytes + self.right_members.nbytes
        )

    def take(self, indices: np.ndarray) -> GroupMembers:
        """Return groups in the order of `indices`.

        Parameters
        ----------
        indices : (m,) integers
            Rows from 0 to n - 1, possibly repeated.

        Examples
        --------
        >>> members = GroupMembers.of([([0, 4], [1]), ([2], [0, 1, 3])])
        >>> members.take(np.array([1, 0])).left_members.tolist()
        [2, 0, 4]
        """
        return GroupMembers(
            *_taken(self.left_offsets, self.left_members, indices),
            *_taken(self.right_offsets, self.right_members, indices),
        )


def group_hashes(members: GroupMembers) -> np.ndarray:
    """Return a hash of each group's members; groups with equal hashes are taken to be the same."""
    left, right = (
        np.diff(np.append(np.uint64(0), np.cumsum(finalised(ids.astype(np.uint64) + salt)))[offsets])
        for ids, offsets, salt in (
            (members.left_members, members.left_offsets, np.uint64(1)),
            (members.right_members, members.right_offsets, np.uint64(1 << 32)),
        )
    )
    return finalised(left + finalised(right))


def _joined(parts: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    sizes = np.array([part.size for part in parts], np.int64)
    return long_offsets(sizes), np.concatenate([np.empty(0, np.int32), *parts])


def compile_steps() -> tuple[CompileStep, ...]:
    """Return the steps to compile for `GroupMembers.take`."""
    return steps_of(_gather)


def _taken(offsets: np.ndarray, members: np.ndarray, indices: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    rows = np.ascontiguousarray(indices, np.int64)
    taken = long_offsets(offsets[rows + 1] - offsets[rows])
    gathered = np.empty(int(taken[-1]), np.int32)
    _gather(offsets, np.ascontiguousarray(members, np.int32), rows, gathered)
    return taken, gathered


@compiled(LONGS, INTS, LONGS, INTS, nrt=False)
def _gather(offsets, members, rows, gathered):
    """Concatenate the members of some groups.

    An index array for NumPy would take three times the bytes of the members.

    Parameters
    ----------
    offsets, members : (n + 1,) int64 and int32
    rows : (m,) int64
    gathered : int32
        Receives the members.
    """
    place = np.int64(0)
    for i in range(rows.size):
        for k in range(offsets[rows[i]], offsets[rows[i] + 1]):
            gathered[place] = members[k]
            place += 1


@compiled(nrt=False)
def first_not_below(ascending, start, end, value):
    """Return the position of the first entry from `start` on that is not below `value`, by galloping search."""
    stride = np.int64(1)
    low = start
    high = start
    while high < end and ascending[high] < value:
        low = high + 1
        high += stride
        stride *= 2
    high = min(high, end)
    while low < high:
        middle = (low + high) // 2
        if ascending[middle] < value:
            low = middle + 1
        else:
            high = middle
    return low

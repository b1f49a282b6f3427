"""The differing rows in compact form: sizes in memory, members on disk, read in stretches."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numba import types

from mbe_stage.pipeline.publish.reading import bicliques_parts, check_members, open_part, reading
from mbe_stage.pipeline.views.diff.keys import KeySet
from mbe_stage.pipeline.views.diff.vertices import SharedVertices
from mbe_stage.runtime.compile_ahead import CompileStep
from mbe_stage.runtime.jit import INTS, LONGS, WORDS, compiled, readonly, steps_of

# Rows with member lists to decode at once.
_DECODED_ROWS = 1 << 15


@dataclass(frozen=True, slots=True, eq=False)
class Side:
    """The bicliques of only one of the two runs, in file order.

    Attributes
    ----------
    keys : (n,) int64
    n_left, n_right : (n,) int32
    """

    run_path: Path
    keys: np.ndarray
    n_left: np.ndarray
    n_right: np.ndarray

    def __len__(self) -> int:
        return self.keys.size


@dataclass(frozen=True, slots=True, eq=False)
class Stretch:
    """Some consecutive `Rows` with their members; arrays have one entry per row unless stated otherwise.

    Attributes
    ----------
    first : int
        Position of the first row in the `Rows`.
    offsets : (n + 1,) int64
        Offsets into `members`.
    members : int32
        Shared vertices, left before right in each row.
    keys, n_left, n_right
        See `Side`.
    shared_left, shared_right : int32
        Number of members that are shared vertices.
    """

    first: int
    offsets: np.ndarray
    members: np.ndarray
    keys: np.ndarray
    n_left: np.ndarray
    n_right: np.ndarray
    shared_left: np.ndarray
    shared_right: np.ndarray

    def __len__(self) -> int:
        return self.keys.size


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """Some rows of a `Side`, with their shared members in a file of int32.

    Attributes
    ----------
    which : (n,) int32
        Positions in `side`, ascending.
    shared_left, shared_right : (n,) int32
    sums : (n,) uint64, or empty
        Sum of the hashes of each row's shared members.
    path : Path
        Members of all these rows, row by row.
    """

    side: Side
    which: np.ndarray
    shared_left: np.ndarray
    shared_right: np.ndarray
    sums: np.ndarray
    path: Path

    def __len__(self) -> int:
        return self.which.size

    @property
    def n_members(self) -> int:
        """Return the number of shared members of all rows."""
        return int(self.shared_left.sum(dtype=np.int64) + self.shared_right.sum(dtype=np.int64))

    def stretches(self, most_members: int) -> Iterator[Stretch]:
        """Yield all rows in stretches of bounded size, with at least one row each."""
        first = 0
        with open(self.path, "rb") as file:
            while first < len(self):
                ahead = slice(first, first + most_members // 2)
                ends = np.cumsum(self.shared_left[ahead], dtype=np.int64)
                ends += np.cumsum(self.shared_right[ahead], dtype=np.int64)
                last = first + max(1, int(np.searchsorted(ends, most_members, side="right")))
                offsets = np.concatenate([np.zeros(1, np.int64), ends[: last - first]])
                chosen = slice(first, last)
                which = self.which[chosen]
                yield Stretch(
                    first=first,
                    offsets=offsets,
                    members=np.fromfile(file, np.int32, int(offsets[-1])),
                    keys=self.side.keys[which],
                    n_left=self.side.n_left[which],
                    n_right=self.side.n_right[which],
                    shared_left=self.shared_left[chosen],
                    shared_right=self.shared_right[chosen],
                )
                first = last

    def subset(self, kept: np.ndarray, path: Path) -> Rows:
        """Return the rows where `kept` is true, with their members in a new file."""
        if kept.all():
            return self
        with open(path, "wb") as file:
            for stretch in self.stretches(1 << 22):
                here = kept[stretch.first : stretch.first + len(stretch)]
                stretch.members[np.repeat(here, np.diff(stretch.offsets))].tofile(file)
        return Rows(
            side=self.side,
            which=self.which[kept],
            shared_left=self.shared_left[kept],
            shared_right=self.shared_right[kept],
            sums=self.sums[kept] if self.sums.size else self.sums,
            path=path,
        )

    def without_sums(self) -> Rows:
        """Return the same rows without sums, to free memory."""
        return Rows(self.side, self.which, self.shared_left, self.shared_right, np.zeros(0, np.uint64), self.path)


def read_sizes(run_path: Path, keys: np.ndarray) -> Side:
    """Return the rows of a run with these (ascending) keys, without their members."""
    side = _empty_side(run_path, keys.size)
    if not keys.size:
        return side
    wanted, end = KeySet(keys), 0
    for batch in _batches(run_path, ["biclique_key", "n_left", "n_right"], 1 << 18):
        end = _take_in(side, end, batch, wanted.positions_in(batch.column("biclique_key").to_numpy()))
    return side


def read_side(
    run_path: Path,
    keys: np.ndarray,
    shared: SharedVertices,
    translation: tuple[np.ndarray, np.ndarray],
    path: Path,
    on_progress: Callable[[float], None] | None = None,
) -> Rows:
    """Return the rows of a run with these (ascending) keys, with their members in the file `path`.

    Parameters
    ----------
    keys : (n,) int64
    translation : pair of int32 arrays
        `shared.old` or `shared.new`.
    on_progress : callable, optional
        Called with the share of the run read.
    """
    side = _empty_side(run_path, keys.size)
    shared_left, shared_right = np.empty(keys.size, np.int32), np.empty(keys.size, np.int32)
    sums = np.empty(keys.size, np.uint64)
    columns = ["biclique_key", "left", "right", "n_left", "n_right"]
    n_rows = sum(pq.read_metadata(part).num_rows for part in bicliques_parts(run_path))
    wanted, end, read = KeySet(keys), 0, 0
    with open(path, "wb") as file:
        for batch in _batches(run_path, columns, _DECODED_ROWS):
            at = wanted.positions_in(batch.column("biclique_key").to_numpy())
            start, end = end, _take_in(side, end, batch, at)
            if at.size:
                check_members(run_path, batch, "left", translation[0].size)
                check_members(run_path, batch, "right", translation[1].size)
                members = _translated(
                    at,
                    _Members(*_lists(batch.column("left")), translation[0]),
                    _Members(*_lists(batch.column("right")), translation[1]),
                    shared.hashes,
                    shared_left[start:end],
                    shared_right[start:end],
                    sums[start:end],
                )
                members.tofile(file)
            read += batch.num_rows
            if on_progress is not None:
                on_progress(read / n_rows)
    return Rows(side, np.arange(keys.size, dtype=np.int32), shared_left, shared_right, sums, path)


def _empty_side(run_path: Path, n: int) -> Side:
    return Side(run_path, np.empty(n, np.int64), np.empty(n, np.int32), np.empty(n, np.int32))


def _take_in(side: Side, end: int, batch: pa.RecordBatch, at: np.ndarray) -> int:
    chosen = slice(end, end + at.size)
    side.keys[chosen] = batch.column("biclique_key").to_numpy()[at]
    side.n_left[chosen] = batch.column("n_left").to_numpy()[at]
    side.n_right[chosen] = batch.column("n_right").to_numpy()[at]
    return end + at.size


def _batches(run_path: Path, columns: list[str], n_rows: int) -> Iterator[pa.RecordBatch]:
    with reading(run_path):
        for part in bicliques_parts(run_path):
            with open_part(part) as file:
                yield from file.iter_batches(n_rows, columns=columns)


def _lists(column: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    """Return offsets and values of a list column without nulls, even if it is a slice."""
    return column.offsets.to_numpy(), column.values.to_numpy()


class _Members(NamedTuple):
    """The members on one side of a batch's rows.

    Attributes
    ----------
    offsets, ids : int32
        Offsets and values of a list column, with ids of the run.
    numbers : (n_vertices,) int32
        For each id its number among the shared vertices; negative if the other run does not have the vertex.
    """

    offsets: np.ndarray
    ids: np.ndarray
    numbers: np.ndarray


_MEMBERS = types.NamedTuple((readonly(INTS), readonly(INTS), INTS), _Members)


@compiled(LONGS, _MEMBERS, _MEMBERS, WORDS, INTS, INTS, WORDS, seconds=1.0)
def _translated(rows, left, right, hashes, shared_left, shared_right, sums):
    """Return the shared members of the chosen rows; write their numbers and hash sums into the last three arrays.

    Parameters
    ----------
    rows : int64
        Positions in the batch.
    left, right : _Members
        Members of the batch.
    hashes : uint64
        Hashes by shared number.
    shared_left, shared_right, sums
        The result, one per row.
    """
    most = 0
    for row in rows:
        most += left.offsets[row + 1] - left.offsets[row] + right.offsets[row + 1] - right.offsets[row]
    members = np.empty(most, np.int32)
    end = 0
    for i in range(rows.size):
        row = rows[i]
        start = end
        total = np.uint64(0)
        for k in range(left.offsets[row], left.offsets[row + 1]):
            number = left.numbers[left.ids[k]]
            if number >= 0:
                members[end] = number
                total += hashes[number]
                end += 1
        shared_left[i] = end - start
        for k in range(right.offsets[row], right.offsets[row + 1]):
            number = right.numbers[right.ids[k]]
            if number >= 0:
                members[end] = number
                total += hashes[number]
                end += 1
        shared_right[i] = end - start - shared_left[i]
        sums[i] = total
    return members[:end]


def compile_steps() -> tuple[CompileStep, ...]:
    """List the compiled functions of this module."""
    return steps_of(_translated)

"""Rows in the order of a key, sorted out of core.

The key names what a row holds, so the order says nothing about engine, threads or blocks: the same result gives the
same files, byte for byte (up to a collision of two 64-bit keys in one run). Keys are uniform hashes, so equal ranges of
keys hold nearly equally many rows:

1. rows are collected until they fill the memory, then written to a spill file, cut into 1024 ranges of keys;
2. consecutive ranges that together make one row group are read back from all spill files, sorted, and handed on.

A result that never fills the memory is never spilled, and is cut into the same row groups.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from mbe_stage.pipeline.backends.arrow.parts import next_number

__all__ = ["GROUP_BYTES", "N_RANGES", "RANGE_BITS", "KeyOrder", "Spill", "SpillOrder", "range_groups", "spilled"]

RANGE_BITS = 10
N_RANGES = 1 << RANGE_BITS
_MEMORY_BYTES = 128 << 20
GROUP_BYTES = 64 << 20
"""Rows sorted and handed on at once, where nothing else is asked for."""
# Of a batch in a spill: small enough that few rows are read twice, large enough that batches cost nothing.
_BATCH_BYTES = 128 << 10
# Temporary and read once: LZ4 costs less than the disk traffic it saves.
_SPILL = pa.ipc.IpcWriteOptions(compression="lz4")


@dataclass(frozen=True, slots=True)
class Spill:
    """Rows in order that another process has left.

    Attributes
    ----------
    range_bytes : (N_RANGES,) int64
        Of the rows of each range of keys, in memory.
    n_bytes : int
        Of the file.
    """

    path: Path
    range_bytes: np.ndarray
    n_bytes: int


class KeyOrder:
    """Takes rows in and gives them back in the order of a key.

    Parameters
    ----------
    scratch : Path
        Directory for spill files; made when first needed, removed when the last row has been given back, unless there
        was a checkpoint.
    schema : pa.Schema
        Of the rows.
    key : str
        The column to sort by: int64, uniformly distributed.
    row_bytes : callable
        Bytes in memory of each row of a batch, (n,) int64; from the values alone, so that it does not depend on how the
        rows came in.
    memory_bytes : int
        Rows kept before they are spilled; about three times as much is in use while they are.
    group_bytes : int
        Rows sorted and handed on at once; about three times as much is in use.
    """

    def __init__(
        self,
        scratch: Path,
        schema: pa.Schema,
        key: str,
        row_bytes: Callable[[pa.RecordBatch], np.ndarray],
        memory_bytes: int = _MEMORY_BYTES,
        group_bytes: int = GROUP_BYTES,
    ) -> None:
        self._scratch = scratch
        self._schema = schema
        self._key = key
        self._row_bytes = row_bytes
        self._memory_bytes = memory_bytes
        self._group_bytes = group_bytes
        self._pending: list[pa.RecordBatch] = []
        self._pending_bytes = 0
        self._spills: list[Path] = []
        self._n_kept = 0
        self._range_bytes = np.zeros(N_RANGES, np.int64)

    def add(self, batch: pa.RecordBatch) -> None:
        """Take in some rows."""
        self._pending.append(batch)
        self._pending_bytes += batch.nbytes
        self._range_bytes += self._bytes_per_range(batch)
        if self._pending_bytes >= self._memory_bytes:
            self._spill()

    def checkpoint(self) -> list[Path]:
        """Have all rows in spill files, and leave these where they are; returns those that are new since the last."""
        if self._pending:
            self._spill()
        new, self._n_kept = self._spills[self._n_kept :], len(self._spills)
        return new

    def restore(self, spill: Path) -> Iterator[pa.RecordBatch]:
        """Take in what an earlier process has spilled, and left there; yields its rows."""
        for batch in spilled(spill):
            self._range_bytes += self._bytes_per_range(batch)
            yield batch
        self._spills.append(spill)
        self._n_kept = len(self._spills)

    def adopt(self, spill: Spill) -> None:
        """Take in what another process has spilled: the file is moved, and none of its rows is read before the end."""
        self._scratch.mkdir(exist_ok=True)
        path = self._next_path()
        os.replace(spill.path, path)
        self._range_bytes += spill.range_bytes
        self._spills.append(path)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """All rows, ascending by key, one row group at a time."""
        if self._spills and self._pending:
            self._spill()
        kept, order, bounds = self._take_pending()
        for first, last in range_groups(self._range_bytes, self._group_bytes):
            if self._spills:
                yield self._read(first, last)
            else:
                yield self._rows(kept, order[bounds[first] : bounds[last]])
        if self._n_kept:
            return
        for spill in self._spills:
            spill.unlink()
        if self._spills:
            self._scratch.rmdir()

    def _take_pending(self) -> tuple[pa.RecordBatch, np.ndarray, np.ndarray]:
        """The pending rows in one batch, their order, and where each range begins in that order."""
        batch = self._joined(self._pending)
        self._pending, self._pending_bytes = [], 0
        keys = batch[self._key].to_numpy()
        order = np.argsort(keys)
        bounds = np.searchsorted(_ranges(keys)[order], np.arange(N_RANGES + 1))
        return batch, order, bounds

    def _spill(self) -> None:
        batch, order, bounds = self._take_pending()
        ordered = self._rows(batch, order)
        del batch
        self._scratch.mkdir(exist_ok=True)
        path = self._next_path()
        step = _ranges_per_batch(ordered.nbytes)
        with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, self._schema, options=_SPILL) as writer:
            for first in range(0, N_RANGES, step):
                writer.write_batch(ordered.slice(bounds[first], bounds[first + step] - bounds[first]))
        self._spills.append(path)

    def _next_path(self) -> Path:
        return self._scratch / f"spill-{next_number(self._scratch):05d}.arrow"

    def _read(self, first: int, last: int) -> pa.RecordBatch:
        parts = []
        for spill in self._spills:
            with pa.OSFile(str(spill)) as file, pa.ipc.open_file(file) as reader:
                step = N_RANGES // reader.num_record_batches
                batches = (reader.get_batch(i) for i in range(first // step, -(-last // step)))
                parts += [self._within(batch, first, last) for batch in batches]
        batch = self._joined(parts)
        return self._rows(batch, np.argsort(batch[self._key].to_numpy()))

    def _within(self, batch: pa.RecordBatch, first: int, last: int) -> pa.RecordBatch:
        """The rows of an ordered batch that are in these ranges."""
        start, stop = np.searchsorted(_ranges(batch[self._key].to_numpy()), (first, last))
        return batch.slice(start, stop - start)

    def _bytes_per_range(self, batch: pa.RecordBatch) -> np.ndarray:
        ranges = _ranges(batch[self._key].to_numpy())
        return np.bincount(ranges, weights=self._row_bytes(batch), minlength=N_RANGES).astype(np.int64)

    def _rows(self, batch: pa.RecordBatch, positions: np.ndarray) -> pa.RecordBatch:
        # Column by column: RecordBatch.take needs four times as long for the same rows (pyarrow 26).
        indices = pa.array(positions)
        return pa.RecordBatch.from_arrays([column.take(indices) for column in batch.columns], schema=self._schema)

    def _joined(self, batches: list[pa.RecordBatch]) -> pa.RecordBatch:
        if not batches:
            return pa.RecordBatch.from_pylist([], schema=self._schema)
        return pa.concat_batches(batches)


class SpillOrder(KeyOrder):
    """Gives no rows back, and leaves all of them in spill files, for whoever puts those of several in order.

    Attributes
    ----------
    spills : tuple of Spill
        Known once the rows have been asked for.
    """

    spills: tuple[Spill, ...] = ()

    def batches(self) -> Iterator[pa.RecordBatch]:
        """None."""
        paths = self.checkpoint()
        # What a range takes is known of all together: the first file stands for the others.
        others = [np.zeros_like(self._range_bytes) for _ in paths[1:]]
        self.spills = tuple(map(Spill, paths, [self._range_bytes, *others], [path.stat().st_size for path in paths]))
        yield from ()


def spilled(spill: Path) -> Iterator[pa.RecordBatch]:
    """The rows of a spill file, some at a time."""
    with pa.OSFile(str(spill)) as file, pa.ipc.open_file(file) as reader:
        for i in range(reader.num_record_batches):
            yield reader.get_batch(i)


def _ranges_per_batch(n_bytes: int) -> int:
    """How many ranges, a power of two, go into a batch of so many bytes of rows: keys are distributed uniformly."""
    n_batches = 1 << max(0, n_bytes // _BATCH_BYTES).bit_length()
    return N_RANGES // min(N_RANGES, n_batches)


def _ranges(keys: np.ndarray) -> np.ndarray:
    """Which range each key is in; ranges ascend as the signed keys do."""
    return (keys >> (64 - RANGE_BITS)) + N_RANGES // 2


def range_groups(range_bytes: np.ndarray, group_bytes: int) -> Iterator[tuple[int, int]]:
    """Consecutive ranges, as few groups as fit; a range above the limit is a group by itself."""
    first, size = 0, 0
    for i in range(N_RANGES):
        if size and size + range_bytes[i] > group_bytes:
            yield first, i
            first, size = i, 0
        size += int(range_bytes[i])
    if size:
        yield first, N_RANGES

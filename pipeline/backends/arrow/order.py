"""Sort rows by a key, out of core.

The key identifies a row's content, so the order does not depend on engine, threads or blocks. The same result gives the
same files, byte for byte (up to a collision of two 64-bit keys in one run). Keys are uniform hashes, so equal ranges of
keys hold nearly equally many rows:

1. rows are collected until they fill the memory, then written to a spill file, cut into 1024 ranges of keys;
2. consecutive ranges that together make one row group are read back from all spill files, sorted, and passed on.

A result that never fills the memory is not spilled, and is cut into the same row groups.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from mbe_stage.pipeline.backends.arrow.parts import next_number

RANGE_BITS = 10
N_RANGES = 1 << RANGE_BITS
_MEMORY_BYTES = 128 << 20
GROUP_BYTES = 64 << 20
"""Default bytes of rows to sort and pass on at once."""
# Bytes of a batch in a spill: small enough that few rows are read twice, large enough for negligible overhead.
_BATCH_BYTES = 128 << 10
# Temporary and read once: LZ4 costs less than the disk traffic it saves.
_SPILL = pa.ipc.IpcWriteOptions(compression="lz4")


@dataclass(frozen=True, slots=True)
class Spill:
    """Sorted rows that another process has written.

    Attributes
    ----------
    range_bytes : (N_RANGES,) int64
        In-memory bytes of the rows in each range of keys.
    n_bytes : int
        Size of the file.
    """

    path: Path
    range_bytes: np.ndarray
    n_bytes: int


class KeyOrder:
    """Takes rows and returns them sorted by a key.

    Parameters
    ----------
    scratch : Path
        Directory for spill files; made when first needed, and removed after the last row, unless there was a
        checkpoint.
    schema : pa.Schema
        Schema of the rows.
    key : str
        The column to sort by: int64, uniformly distributed.
    row_bytes : callable
        Returns the in-memory bytes of each row of a batch, (n,) int64. They depend only on the row's values, not on its
        batch.
    memory_bytes : int
        Bytes of rows to keep before spilling; spilling uses about three times as much.
    group_bytes : int
        Bytes of rows to sort and pass on at once; about three times as much is in use.
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
        """Add some rows."""
        self._pending.append(batch)
        self._pending_bytes += batch.nbytes
        self._range_bytes += self._bytes_per_range(batch)
        if self._pending_bytes >= self._memory_bytes:
            self._spill()

    def checkpoint(self) -> list[Path]:
        """Write all rows to spill files that stay, and return the files that are new since the last checkpoint."""
        if self._pending:
            self._spill()
        new, self._n_kept = self._spills[self._n_kept :], len(self._spills)
        return new

    def restore(self, spill: Path) -> Iterator[pa.RecordBatch]:
        """Add the rows that an earlier process has spilled, keep the file, and yield the rows."""
        for batch in spilled(spill):
            self._range_bytes += self._bytes_per_range(batch)
            yield batch
        self._spills.append(spill)
        self._n_kept = len(self._spills)

    def adopt(self, spill: Spill) -> None:
        """Move another process's spill file here; its rows are only read at the end."""
        self._scratch.mkdir(exist_ok=True)
        path = self._next_path()
        os.replace(spill.path, path)
        self._range_bytes += spill.range_bytes
        self._spills.append(path)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield all rows, ascending by key, one row group at a time."""
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
        """Return the pending rows in one batch, their order, and the start of each range in that order."""
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
        """Return the rows of an ordered batch in these ranges."""
        start, stop = np.searchsorted(_ranges(batch[self._key].to_numpy()), (first, last))
        return batch.slice(start, stop - start)

    def _bytes_per_range(self, batch: pa.RecordBatch) -> np.ndarray:
        ranges = _ranges(batch[self._key].to_numpy())
        return np.bincount(ranges, weights=self._row_bytes(batch), minlength=N_RANGES).astype(np.int64)

    def _rows(self, batch: pa.RecordBatch, positions: np.ndarray) -> pa.RecordBatch:
        # Column by column, because RecordBatch.take needs four times as long for the same rows (pyarrow 26).
        indices = pa.array(positions)
        return pa.RecordBatch.from_arrays([column.take(indices) for column in batch.columns], schema=self._schema)

    def _joined(self, batches: list[pa.RecordBatch]) -> pa.RecordBatch:
        if not batches:
            return pa.RecordBatch.from_pylist([], schema=self._schema)
        return pa.concat_batches(batches)


class SpillOrder(KeyOrder):
    """An order that leaves all rows in spill files, to be merged with those of other workers.

    Attributes
    ----------
    spills : tuple of Spill
        The spill files, once `batches` was called.
    """

    spills: tuple[Spill, ...] = ()

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Write all rows to spill files, and yield none."""
        paths = self.checkpoint()
        # Only the total of a range matters: the first file stands for the others.
        others = [np.zeros_like(self._range_bytes) for _ in paths[1:]]
        self.spills = tuple(map(Spill, paths, [self._range_bytes, *others], [path.stat().st_size for path in paths]))
        yield from ()


def spilled(spill: Path) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a spill file, some at a time."""
    with pa.OSFile(str(spill)) as file, pa.ipc.open_file(file) as reader:
        for i in range(reader.num_record_batches):
            yield reader.get_batch(i)


def _ranges_per_batch(n_bytes: int) -> int:
    """Return how many ranges, a power of two, go into a batch, given the bytes of all rows."""
    n_batches = 1 << max(0, n_bytes // _BATCH_BYTES).bit_length()
    return N_RANGES // min(N_RANGES, n_batches)


def _ranges(keys: np.ndarray) -> np.ndarray:
    """Return the range of each key; ranges ascend like the signed keys."""
    return (keys >> (64 - RANGE_BITS)) + N_RANGES // 2


def range_groups(range_bytes: np.ndarray, group_bytes: int) -> Iterator[tuple[int, int]]:
    """Group consecutive ranges into as few groups as fit; a range above the limit is a group by itself."""
    first, size = 0, 0
    for i in range(N_RANGES):
        if size and size + range_bytes[i] > group_bytes:
            yield first, i
            first, size = i, 0
        size += int(range_bytes[i])
    if size:
        yield first, N_RANGES

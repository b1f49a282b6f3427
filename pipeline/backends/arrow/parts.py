"""Parquet data sets in parts: row groups and files of bounded size, and the encoding of each column."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

ROW_GROUP_BYTES = 16 << 20
_FILE_BYTES = 512 << 20
# Unordered small numbers: bit packing takes half the time of a dictionary, and no more space.
_SIZES = ("n_left", "n_right", "n_edges")


class PartNames:
    """Names for the parts of one data set, ``part-00000.parquet`` and so on, for any number of writers.

    Parameters
    ----------
    directory : Path
        Made here; must not exist, unless `is_begun`.
    is_begun : bool
        Parts of an earlier process exist; new numbers follow theirs.

    Attributes
    ----------
    name : str
        Name of the data set.
    n_taken : int
    """

    def __init__(self, directory: Path, *, is_begun: bool = False) -> None:
        directory.mkdir(exist_ok=is_begun)
        self.name, self._directory = directory.name, directory
        self._lock = threading.Lock()
        self._complete: list[Path] = []
        self.n_taken = next_number(directory)

    def take(self) -> Path:
        """Return the path of a new part."""
        with self._lock:
            number, self.n_taken = self.n_taken, self.n_taken + 1
        return self._directory / f"part-{number:05d}.parquet"

    def complete(self, path: Path) -> None:
        """Record that a part is closed."""
        with self._lock:
            self._complete.append(path)

    def take_complete(self) -> list[Path]:
        """Return the parts that were closed since the last call."""
        with self._lock:
            complete, self._complete = self._complete, []
        return complete


def next_number(directory: Path) -> int:
    """Return the next number after those at the ends of a directory's file names; 0 if there are none."""
    return 1 + max((int(path.stem.rpartition("-")[2]) for path in directory.glob("*-*.*")), default=-1)


class PartWriter:
    """Writes record batches to consecutive parts of a data set.

    Parameters
    ----------
    names : PartNames
        Shared by all writers of the data set.
    compression : str
        ``zstd``, ``snappy``, ``lz4`` or ``none``.
    row_group_bytes : int
        Batches are collected up to this size in memory, and then written as one row group.
    file_bytes : int
        A part that has reached this size on disk is closed.
    """

    def __init__(
        self,
        names: PartNames,
        schema: pa.Schema,
        compression: str,
        row_group_bytes: int = ROW_GROUP_BYTES,
        file_bytes: int = _FILE_BYTES,
    ) -> None:
        self._names = names
        self._schema = schema
        self._compression = compression
        self._row_group_bytes = row_group_bytes
        self._file_bytes = file_bytes
        self._pending: list[pa.RecordBatch] = []
        self._pending_bytes = 0
        self._path: Path | None = None
        self._file: pa.OSFile | None = None
        self._writer: pq.ParquetWriter | None = None

    def write(self, batch: pa.RecordBatch) -> None:
        """Add some rows."""
        self._pending.append(batch)
        self._pending_bytes += batch.nbytes
        if self._pending_bytes >= self._row_group_bytes:
            self._flush()

    def close(self) -> None:
        """Write pending rows and complete the part; without rows there is no part."""
        if self._pending:
            self._flush()
        self._close_part()

    def abort(self) -> None:
        """Close the useless open file after a reported failure."""
        self._pending.clear()
        # Closing writes the footer, which also fails on a full disk.
        with suppress(OSError):
            self._close_part()

    def _flush(self) -> None:
        table = pa.Table.from_batches(self._pending, self._schema)
        self._pending, self._pending_bytes = [], 0
        if self._writer is None or self._file is None:
            self._path = self._names.take()
            self._file = pa.OSFile(str(self._path), "wb")
            self._writer = pq.ParquetWriter(self._file, self._schema, **_options(self._schema, self._compression))
        self._writer.write_table(table, row_group_size=table.num_rows)
        if self._file.tell() >= self._file_bytes:
            self._close_part()

    def _close_part(self) -> None:
        writer, self._writer = self._writer, None
        if writer is None or self._file is None:
            return
        try:
            writer.close()
        finally:
            # If the footer cannot be written, pyarrow keeps the file open and tries again at collection.
            writer.is_open = False
            self._file.close()
        assert self._path is not None
        self._names.complete(self._path)


def batches_of(path: Path) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a part, one row group at a time, because a batch across groups could be most of the file."""
    with pq.ParquetFile(path) as file:
        for group in range(file.num_row_groups):
            yield from file.iter_batches(row_groups=[group])


def row_group_of(path: Path, number: int) -> list[pa.RecordBatch]:
    """Return the rows of one row group of a part, in as few batches as the reader has."""
    with pq.ParquetFile(path) as file:
        return [batch for batch in file.read_row_group(number, use_threads=False).to_batches() if batch.num_rows]


def write_table(table: pa.Table, path: Path, compression: str) -> None:
    """Write a table as one file."""
    pq.write_table(table, path, **_options(table.schema, compression))


def write_batches(batches: Iterable[pa.RecordBatch], schema: pa.Schema, path: Path, compression: str) -> None:
    """Write rows as one file while they are produced, a row group each; only one is in memory."""
    with pq.ParquetWriter(path, schema, **_options(schema, compression)) as writer:
        for batch in batches:
            writer.write_table(pa.Table.from_batches([batch], schema), row_group_size=max(1, batch.num_rows))


def _options(schema: pa.Schema, compression: str) -> dict[str, Any]:
    return {
        "compression": compression,
        "compression_level": 1 if compression == "zstd" else None,
        # For any other column a dictionary would be built, found too large, and thrown away.
        "use_dictionary": ["side"] if "side" in schema.names else False,
        "column_encoding": {name: "DELTA_BINARY_PACKED" for name in _SIZES if name in schema.names} or None,
        # Lets readers detect a damaged page wherever the file goes, for one pass over compressed bytes.
        "write_page_checksum": True,
        "write_statistics": [field.name for field in schema if not pa.types.is_list(field.type)],
    }

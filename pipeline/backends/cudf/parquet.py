"""cuDF frames as Parquet files with the published schemas, written by libcudf."""

from __future__ import annotations

import base64
import io
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import cudf
import cupy as cp
import pyarrow as pa
import pylibcudf as plc
from rmm.pylibrmm.stream import CudaStreamFlags, Stream

from mbe_stage.pipeline.backends.arrow.parts import write_table
from mbe_stage.pipeline.publish.schemas import SIZE_HISTOGRAM

if TYPE_CHECKING:
    from mbe_stage.pipeline.backends.cudf.memory import DevicePool

_COMPRESSIONS = {
    "zstd": plc.io.types.CompressionType.ZSTD,
    "snappy": plc.io.types.CompressionType.SNAPPY,
    # libcudf writes LZ4_RAW, as pyarrow does.
    "lz4": plc.io.types.CompressionType.LZ4,
    "none": plc.io.types.CompressionType.NONE,
}
_ARROW = {plc.TypeId.INT32: pa.int32(), plc.TypeId.INT64: pa.int64(), plc.TypeId.STRING: pa.string()}
# Four times the host's size: a row group is encoded at once, and the device needs enough work.
_ROW_GROUP_BYTES = 64 << 20
# Columns of few distinct values.
_REPEATING_COLUMNS = ("n_left", "n_right", "n_edges", "side", "size")
_PAGE_BYTES = 512 << 10
_PAGE_ROWS = 1 << 17


def write_frame(frame: cudf.DataFrame, path: Path, schema: pa.Schema, compression: str) -> None:
    """Write a frame as one file that reads like pyarrow's own with the same schema.

    May be called from several threads at once: each call uses its own stream. The frame's columns must be complete,
    that is, their stream must be synchronised.

    Parameters
    ----------
    frame : cudf.DataFrame
        A frame with the columns of the schema, in that order.
    compression : str
        ``zstd``, ``snappy``, ``lz4`` or ``none``.

    Raises
    ------
    OSError
        The file cannot be written.
    TypeError
        The frame does not match the schema, which is a bug of the caller.
    """
    _check(frame, schema)
    table, _ = frame.to_pylibcudf()
    with _HostFile(path) as file:
        options = (
            plc.io.parquet.ParquetWriterOptions.builder(plc.io.SinkInfo([file]), table)
            .metadata(_metadata(table, schema))
            .key_value_metadata([{"ARROW:schema": base64.b64encode(schema.serialize()).decode()}])
            .compression(_COMPRESSIONS[compression])
            .stats_level(plc.io.types.StatisticsFreq.STATISTICS_ROWGROUP)
            .write_arrow_schema(False)
            .build()
        )
        options.set_row_group_size_bytes(_ROW_GROUP_BYTES)
        options.set_row_group_size_rows(2**31 - 1)
        options.set_max_page_size_bytes(_PAGE_BYTES)
        options.set_max_page_size_rows(_PAGE_ROWS)
        plc.io.parquet.write_parquet(options, stream=Stream(flags=CudaStreamFlags.NON_BLOCKING))


def write_frame_on_host(frame: cudf.DataFrame, path: Path, schema: pa.Schema, compression: str) -> None:
    """Write the same file with pyarrow's encoding and compression, which needs time instead of device memory.

    Raises
    ------
    OSError, TypeError
        See `write_frame`.
    """
    _check(frame, schema)
    columns = [_as(frame[field.name].to_arrow(), field.type) for field in schema]
    write_table(pa.table(columns, schema=schema), path, compression)


def read_frame(path: Path) -> cudf.DataFrame:
    """Return the rows of one file."""
    return cudf.read_parquet(path)


def encoder_bytes(pool: DevicePool, compression: str) -> int | None:
    """Return the device memory that `write_frame` needs for even a tiny frame; None if the pool has less.

    nvCOMP's zstd needs a gigabyte even for a few pages. The size depends on the device, so it is measured.
    """
    numbers = cp.arange(_PAGE_ROWS, dtype=cp.int32)
    columns = (numbers, numbers, numbers.astype(cp.int64))
    frame = cudf.DataFrame(dict(zip(SIZE_HISTOGRAM.names, columns, strict=True)))
    # The writer uses its own stream.
    cp.cuda.get_current_stream().synchronize()
    try:
        return pool.bytes_for(lambda: write_frame(frame, Path(os.devnull), SIZE_HISTOGRAM, compression))
    except MemoryError:
        return None


class _HostFile(io.RawIOBase):
    """A file that libcudf can write to.

    libcudf's own files do not check if a write succeeded, and its adaptor for Python files loses exceptions. On a full
    disk both would silently leave a short file. This class keeps the first error, and raises it at the exit of the
    context.
    """

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._file = open(path, "wb", buffering=0)  # noqa: SIM115 - closed by __exit__
        self._written = 0
        self._error: OSError | None = None

    def write(self, data: Any) -> int:
        """Write all data."""
        rest = memoryview(data)
        while len(rest) and self._error is None:
            try:
                rest = rest[self._file.write(rest) :]
            except OSError as error:
                self._error = error
        self._written += len(data)
        return len(data)

    def tell(self) -> int:
        """Return the bytes written so far."""
        return self._written

    def flush(self) -> None:
        """Do nothing: nothing is buffered."""

    def writable(self) -> bool:
        """Return True."""
        return True

    def __enter__(self) -> _HostFile:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._file.close()
        if kind is None and self._error is not None:
            raise self._error


def _metadata(table: plc.Table, schema: pa.Schema) -> plc.io.types.TableInputMetadata:
    """Return names, nullability and encoding; libcudf columns have neither names nor nullability."""
    metadata = plc.io.types.TableInputMetadata(table)
    for field, column in zip(schema, metadata.column_metadata, strict=True):
        column.set_name(field.name).set_nullability(field.nullable)
        if pa.types.is_list(field.type):
            # Child 0 is the offsets.
            element = field.type.value_field
            column = column.child(1).set_name(element.name).set_nullability(element.nullable)
        if field.name not in _REPEATING_COLUMNS:
            # For any other column a dictionary would be built, found too large, and thrown away. zstd compresses plain
            # members better than delta encoded ones (docs/explanation/rapids.md).
            column.set_encoding(plc.io.types.ColumnEncoding.PLAIN)
    return metadata


def _check(frame: cudf.DataFrame, schema: pa.Schema) -> None:
    if list(frame.columns) != schema.names:
        raise TypeError(f"the frame has the columns {list(frame.columns)}: expected {schema.names}")
    for field in schema:
        column = frame[field.name]
        if not field.nullable and column.null_count:
            raise TypeError(f"column {field.name!r} holds {column.null_count} nulls: expected none")
        if _arrow_type(column.to_pylibcudf()[0]) != _plain(field.type):
            raise TypeError(f"column {field.name!r} has type {column.dtype}: expected {_plain(field.type)}")


def _as(values: pa.Array, kind: pa.DataType) -> pa.Array:
    return (values.dictionary_encode() if pa.types.is_dictionary(kind) else values).cast(kind)


def _arrow_type(column: plc.Column) -> pa.DataType | None:
    kind = column.type().id()
    if kind == plc.TypeId.LIST:
        return pa.list_(_arrow_type(column.child(1)))
    return _ARROW.get(kind)


def _plain(kind: pa.DataType) -> pa.DataType:
    """Return cuDF's form of a published type, as an Arrow type."""
    if pa.types.is_dictionary(kind):
        return kind.value_type
    return pa.list_(kind.value_type) if pa.types.is_list(kind) else kind

"""Output of the cuDF backend with a small cuDF stand-in over Arrow, for scripts that run kernels on the emulator.

It runs the path from blocks to files without a GPU. libcudf's own work (shared memory of columns, sorting, encoding) is
replaced here and tested on a GPU.
"""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tests.rapids.on_arrow import PACKAGE, Series, TypeId, kind_of, module_of, text_buffers, values_of

__all__ = ["Frame", "install", "pool"]


class Frame:
    """A table with the few methods that the output uses."""

    def __init__(self, columns: dict[str, Any]) -> None:
        self.table = pa.table({name: _array(column) for name, column in columns.items()})

    @classmethod
    def from_arrow(cls, table: pa.Table) -> Frame:
        return cls({name: Series(table[name].combine_chunks()) for name in table.column_names})

    def to_arrow(self, preserve_index: bool) -> pa.Table:
        assert not preserve_index
        return self.table

    @property
    def columns(self) -> list[str]:
        return self.table.column_names

    def __len__(self) -> int:
        return self.table.num_rows

    def __getitem__(self, name: str) -> Series:
        return Series(self.table[name].combine_chunks())

    def sort_values(self, key: str, ignore_index: bool) -> Frame:
        assert ignore_index
        return Frame.from_arrow(self.table.take(pc.sort_indices(self.table[key])))

    def memory_usage(self, index: bool) -> Any:
        assert not index
        return np.array([column.nbytes for column in self.table.columns])

    @property
    def iloc(self) -> Any:
        table = self.table

        class Rows:
            def __getitem__(self, rows: slice) -> Frame:
                return Frame.from_arrow(table.slice(rows.start, rows.stop - rows.start))

        return Rows()


def _array(column: Any) -> pa.Array:
    return column.array if isinstance(column, Series) else pa.array(np.array(column))


def concatenated(frames: Any, ignore_index: bool = True) -> Frame:
    assert ignore_index
    return Frame.from_arrow(pa.concat_tables([frame.table for frame in frames]))


def list_column(offsets: np.ndarray, members: np.ndarray) -> Series:
    assert offsets[0] == 0
    assert offsets[-1] == members.size
    assert members.dtype == np.int32
    return Series(pa.ListArray.from_arrays(pa.array(offsets.astype(np.int32)), pa.array(members)))


def named(codes: np.ndarray, names: Any) -> Series:
    return Series(pa.array(names, pa.string()).take(pa.array(np.array(codes))))


def nullable(values: np.ndarray, is_valid: np.ndarray) -> Series:
    return Series(pa.array(values, mask=~is_valid))


def write_frame(frame: Frame, path: Path, schema: pa.Schema, compression: str) -> None:
    """Write a frame; check its columns against the schema, except names and nulls, unknown to libcudf."""
    from mbe_stage.pipeline.backends.arrow.parts import write_table

    assert frame.columns == schema.names
    for field in schema:
        column = frame.table[field.name]
        assert field.nullable or column.null_count == 0, field
        assert _plain(column.type) == _plain(field.type), field
    write_table(frame.table.cast(schema), path, compression)


def _plain(kind: pa.DataType) -> pa.DataType:
    # cuDF uses large text for text from the host; both types are text.
    if pa.types.is_large_string(kind):
        return pa.string()
    if pa.types.is_dictionary(kind):
        return kind.value_type
    return pa.list_(kind.value_type) if pa.types.is_list(kind) else kind


def pool(limit_bytes: int) -> Any:
    left = SimpleNamespace(limit_bytes=limit_bytes, used_bytes=lambda: 0, left_bytes=lambda: limit_bytes)
    return SimpleNamespace(**vars(left), peak_bytes=lambda: limit_bytes)


def install() -> None:
    """Install the stand-in; call it after the emulator has replaced CuPy and before importing the backend."""
    import cupy

    cupy.cuda, cupy.__version__ = MagicMock(alloc_pinned_memory=bytearray), "0"
    cudf = module_of("cudf", Series=Series, DataFrame=Frame, concat=concatenated, __version__="0")
    frames = module_of(
        "frames",
        Frame=Frame,
        Series=Series,
        MOST_CHILDREN=2**31 - 1,
        MOST_BYTES=4 * (2**31 - 1),
        concatenated=concatenated,
        frame_of=Frame,
        list_column=list_column,
        named=named,
        nullable=nullable,
    )
    parquet = module_of(
        "parquet",
        encoder_bytes=lambda _pool, _compression: 0,
        write_frame=write_frame,
        write_frame_on_host=write_frame,
        read_frame=None,
    )
    buffers = module_of(
        "buffers",
        INTEGERS=frozenset(),
        SIGNED_INTEGERS=frozenset(),
        is_text=lambda column: kind_of(column) == TypeId.STRING,
        published_type=lambda column: pa.string() if kind_of(column) == TypeId.STRING else pa.int64(),
        kind_of=kind_of,
        values_of=values_of,
        text_buffers=text_buffers,
    )
    mocks = ("rmm", "rmm.pylibrmm", "rmm.pylibrmm.stream", "pylibcugraph", f"{PACKAGE}.text")
    stand_ins = {name: MagicMock(__version__="0") for name in mocks}
    stand_ins |= {"cudf": cudf, "pylibcudf": MagicMock(TypeId=TypeId)}
    stand_ins |= {f"{PACKAGE}.{module.__name__}": module for module in (frames, parquet, buffers)}
    sys.modules.update(stand_ins)

"""cuDF columns as CuPy arrays on the same memory."""

from __future__ import annotations

import cudf
import cupy as cp
import numpy as np
import pyarrow as pa
import pylibcudf as plc

_DTYPES = {
    plc.TypeId.INT8: np.int8,
    plc.TypeId.INT16: np.int16,
    plc.TypeId.INT32: np.int32,
    plc.TypeId.INT64: np.int64,
    plc.TypeId.UINT8: np.uint8,
    plc.TypeId.UINT16: np.uint16,
    plc.TypeId.UINT32: np.uint32,
    plc.TypeId.UINT64: np.uint64,
    plc.TypeId.FLOAT32: np.float32,
    plc.TypeId.FLOAT64: np.float64,
    plc.TypeId.TIMESTAMP_SECONDS: np.int64,
    plc.TypeId.TIMESTAMP_MILLISECONDS: np.int64,
    plc.TypeId.TIMESTAMP_MICROSECONDS: np.int64,
    plc.TypeId.TIMESTAMP_NANOSECONDS: np.int64,
}
SIGNED_INTEGERS = frozenset({plc.TypeId.INT8, plc.TypeId.INT16, plc.TypeId.INT32, plc.TypeId.INT64})
INTEGERS = SIGNED_INTEGERS | {plc.TypeId.UINT8, plc.TypeId.UINT16, plc.TypeId.UINT32, plc.TypeId.UINT64}


def kind_of(column: cudf.Series) -> plc.TypeId:
    """Return libcudf's type of a column."""
    return column.to_pylibcudf()[0].type().id()


def is_text(column: cudf.Series) -> bool:
    """Return whether a column is text."""
    return kind_of(column) == plc.TypeId.STRING


def published_type(keys: cudf.Series) -> pa.DataType:
    """Return the type of a key column in the published tables."""
    return pa.string() if is_text(keys) else pa.int64()


def values_of(column: cudf.Series) -> cp.ndarray:
    """Return integers, floats, or the ticks of timestamps without a copy; values at nulls are undefined."""
    inner = column.to_pylibcudf()[0]
    return _view(inner.data(), _DTYPES[inner.type().id()], inner.offset(), inner.size(), column)


def text_buffers(texts: cudf.Series) -> tuple[cp.ndarray, cp.ndarray]:
    """Return the offsets and bytes of a text column, as in Arrow, without a copy.

    Returns
    -------
    offsets : (n + 1,) int32 or int64
        int64 if all bytes together exceed 2 GiB.
    data : uint8
    """
    inner = texts.to_pylibcudf()[0]
    if inner.num_children() == 0:
        # All values are null, or there are no rows.
        return cp.zeros(inner.size() + 1, np.int32), cp.zeros(0, np.uint8)
    ends = inner.child(0)
    if ends.size() == 0:
        return cp.zeros(1, np.int32), cp.zeros(0, np.uint8)
    offsets = _view(ends.data(), _DTYPES[ends.type().id()], inner.offset(), inner.size() + 1, texts)
    data = inner.data()
    return offsets, cp.zeros(0, np.uint8) if data is None else _view(data, np.uint8, 0, data.size, texts)


def _view(span: object, dtype: type, offset: int, size: int, owner: object) -> cp.ndarray:
    if size == 0 or span is None:
        return cp.zeros(0, dtype)
    memory = cp.cuda.UnownedMemory(span.ptr, span.size, (span, owner))  # type: ignore[attr-defined]
    return cp.ndarray((size,), dtype, cp.cuda.MemoryPointer(memory, offset * np.dtype(dtype).itemsize))

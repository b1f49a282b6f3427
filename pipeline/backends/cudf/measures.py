"""Columns of weights and times, and their comparison; the host handles cases that need a message."""

from __future__ import annotations

from collections.abc import Callable

import cudf
import cupy as cp
import numpy as np
import pyarrow as pa
import pylibcudf as plc

from mbe_stage.pipeline.backends.arrow.measures import as_numbers, as_times
from mbe_stage.pipeline.backends.backend import Column, HostNeeded, Refusal
from mbe_stage.pipeline.backends.cudf.buffers import INTEGERS, kind_of, values_of
from mbe_stage.pipeline.backends.cudf.text import non_empty, ranks_of_texts, written_integers

_FLOATS = (plc.TypeId.FLOAT32, plc.TypeId.FLOAT64)
_TICKS_IN_MICROSECONDS = {
    plc.TypeId.TIMESTAMP_SECONDS: 1_000_000,
    plc.TypeId.TIMESTAMP_MILLISECONDS: 1000,
    plc.TypeId.TIMESTAMP_MICROSECONDS: 1,
}
_LARGEST = 2**63 - 1


def weights_of(column: cudf.Series) -> Column:
    """Return a column of weights."""
    if kind_of(column) == plc.TypeId.STRING:
        return _measure_of_text(column, as_numbers)
    return _numbers(column)


def times_of(column: cudf.Series) -> Column:
    """Return a column of times."""
    kind = kind_of(column)
    if kind == plc.TypeId.STRING:
        return _measure_of_text(column, as_times)
    if kind == plc.TypeId.TIMESTAMP_NANOSECONDS:
        # Rounded down, also before 1970, so that rows stay on their side of a bound.
        return Column(values_of(column) // 1000, column.notnull().values, moments=True)
    if kind in _TICKS_IN_MICROSECONDS:
        ticks, present, unit = values_of(column), column.notnull().values, _TICKS_IN_MICROSECONDS[kind]
        ticks = cp.where(present, ticks, 0)
        if bool(((ticks > _LARGEST // unit) | (ticks < -(_LARGEST // unit))).any()):
            raise HostNeeded("moments beyond what microseconds can hold")
        return Column(ticks * unit, present, moments=True)
    return _numbers(column)


def at_least(values: cp.ndarray, bound: int | float) -> cp.ndarray:
    """Return a mask of numbers that are at least the bound."""
    values, bound = _comparable(values, bound)
    return values >= bound


def below(values: cp.ndarray, bound: int | float) -> cp.ndarray:
    """Return a mask of numbers below the bound."""
    values, bound = _comparable(values, bound)
    return values < bound


def largest(values: cp.ndarray) -> float:
    """Return the largest magnitude; 0 without numbers."""
    return float(cp.abs(values).max()) if values.size else 0.0


def _comparable(values: cp.ndarray, bound: int | float) -> tuple[cp.ndarray, int | float]:
    """Convert for comparison as NumPy does: integers with integers exactly, everything else as float64."""
    if values.dtype.kind == "f" or isinstance(bound, float) or not -(2**63) <= bound <= _LARGEST:
        return values.astype(np.float64, copy=False), float(bound)
    return values, bound


def _refuse(row: int | None, *, found: str, expected: str, remedy: str) -> HostNeeded:  # noqa: ARG001 - a Refusal
    """Ask for the host, which makes the refusal because it knows the row in the file."""
    return HostNeeded(found)


def _numbers(column: cudf.Series) -> Column:
    kind, present = kind_of(column), column.notnull().values
    if kind in _FLOATS:
        values = values_of(column).astype(np.float64, copy=False)
        return Column(values, present & ~cp.isnan(values))
    if kind == plc.TypeId.UINT64 and bool((values_of(column)[present] > np.uint64(_LARGEST)).any()):
        raise HostNeeded("numbers beyond int64")
    if kind in INTEGERS:
        return Column(values_of(column).astype(np.int64, copy=False), present)
    raise HostNeeded(f"numbers or times of type {column.dtype}")


def _measure_of_text(column: cudf.Series, convert: Callable[[pa.ChunkedArray, Refusal], pa.Array]) -> Column:
    """Read integers on the device; the host's rules read each distinct other text once.

    libcudf's own readers of fractions and moments differ from the host's in the last digit and in the forms they
    accept.
    """
    present = non_empty(column)
    integers, written_so = written_integers(column)
    if bool((written_so | ~present).all()):
        return Column(integers, present)
    codes, distinct = ranks_of_texts(column)
    texts = pa.chunked_array([distinct.to_arrow()])
    values = convert(texts, _refuse)
    valid = values.is_valid().to_numpy(zero_copy_only=False)
    moments = pa.types.is_timestamp(values.type)
    numbers = (values.cast(pa.int64()) if moments else values).fill_null(0).to_numpy(zero_copy_only=False)
    # Nulls have the rank -1, which selects the entry added at the end.
    numbers = np.append(numbers, numbers.dtype.type(0))
    valid = np.append(valid, False)
    return Column(cp.asarray(numbers)[codes], cp.asarray(valid)[codes], moments)

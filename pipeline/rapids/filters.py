"""Weights and times on the device: the rules of `pipeline.filters`, for what needs no message."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import cudf
import cupy as cp
import numpy as np
import pyarrow as pa
import pylibcudf as plc

from pipeline.config import InputConfig
from pipeline.filters import as_numbers, as_times, window_bounds
from pipeline.ids import Refusal
from pipeline.rapids.buffers import INTEGERS, kind_of, values_of
from pipeline.rapids.refusals import HostNeeded
from pipeline.rapids.text import non_empty, written_integers

__all__ = ["Measure", "heavy_enough", "in_window", "times_of", "weights_of"]

_FLOATS = (plc.TypeId.FLOAT32, plc.TypeId.FLOAT64)
_TICKS_IN_MICROSECONDS = {
    plc.TypeId.TIMESTAMP_SECONDS: 1_000_000,
    plc.TypeId.TIMESTAMP_MILLISECONDS: 1000,
    plc.TypeId.TIMESTAMP_MICROSECONDS: 1,
}
_LARGEST = 2**63 - 1


@dataclass(frozen=True, slots=True, eq=False)
class Measure:
    """A column that a filter looks at.

    Attributes
    ----------
    values : (n,) int64 or float64
    present : (n,) bool
        False for nulls, NaNs and empty text.
    moments : bool
        Whether the values are microseconds since 1970, and not plain numbers.
    """

    values: cp.ndarray
    present: cp.ndarray
    moments: bool = False


def weights_of(column: cudf.Series) -> Measure:
    """A column of weights.

    Raises
    ------
    HostNeeded
        Values that are no numbers, or of a kind that only the host takes.
    """
    if kind_of(column) == plc.TypeId.STRING:
        return _measure_of_text(column, as_numbers)
    return _numbers(column)


def times_of(column: cudf.Series) -> Measure:
    """A column of times.

    Raises
    ------
    HostNeeded
        Values that are no times, or of a kind that only the host takes.
    """
    kind = kind_of(column)
    if kind == plc.TypeId.STRING:
        return _measure_of_text(column, as_times)
    if kind == plc.TypeId.TIMESTAMP_NANOSECONDS:
        # Rounded down, also before 1970, so that no row changes its side of a bound.
        return Measure(values_of(column) // 1000, column.notnull().values, moments=True)
    if kind in _TICKS_IN_MICROSECONDS:
        ticks, present, unit = values_of(column), column.notnull().values, _TICKS_IN_MICROSECONDS[kind]
        ticks = cp.where(present, ticks, 0)
        if bool(((ticks > _LARGEST // unit) | (ticks < -(_LARGEST // unit))).any()):
            raise HostNeeded("moments beyond what microseconds can hold")
        return Measure(ticks * unit, present, moments=True)
    return _numbers(column)


def heavy_enough(weights: cp.ndarray, minimum: float) -> cp.ndarray:
    """Which rows weigh at least the minimum."""
    values, bound = _comparable(weights, float(minimum))
    return values >= bound


def in_window(times: cp.ndarray, moments: bool, config: InputConfig) -> cp.ndarray:
    """Which rows lie in the window of the configuration.

    Raises
    ------
    HostNeeded
        A bound cannot be compared with this column.
    """
    first, end = window_bounds(config, moments, lambda: _largest(times), _refuse)  # type: ignore[arg-type]
    inside = cp.ones(times.size, bool)
    if first is not None:
        values, bound = _comparable(times, first)
        inside &= values >= bound
    if end is not None:
        values, bound = _comparable(times, end)
        inside &= values < bound
    return inside


def _largest(times: cp.ndarray) -> float:
    return float(cp.abs(times).max()) if times.size else 0.0


def _comparable(values: cp.ndarray, bound: int | float) -> tuple[cp.ndarray, int | float]:
    """As NumPy compares: integers with integers exactly, everything else as float64."""
    if values.dtype.kind == "f" or isinstance(bound, float) or not -(2**63) <= bound <= _LARGEST:
        return values.astype(np.float64, copy=False), float(bound)
    return values, bound


def _refuse(row: int | None, *, found: str, expected: str, remedy: str) -> HostNeeded:  # noqa: ARG001 - a Refusal
    """Stands in for the refusal, which is made once the host has looked: it knows the row in the file."""
    return HostNeeded(found)


def _numbers(column: cudf.Series) -> Measure:
    kind, present = kind_of(column), column.notnull().values
    if kind in _FLOATS:
        values = values_of(column).astype(np.float64, copy=False)
        return Measure(values, present & ~cp.isnan(values))
    if kind == plc.TypeId.UINT64 and bool((values_of(column)[present] > np.uint64(_LARGEST)).any()):
        raise HostNeeded("numbers beyond int64")
    if kind in INTEGERS:
        return Measure(values_of(column).astype(np.int64, copy=False), present)
    raise HostNeeded(f"numbers or times of type {column.dtype}")


def _measure_of_text(column: cudf.Series, convert: Callable[[pa.ChunkedArray, Refusal], pa.Array]) -> Measure:
    """Integers are read on the device; of other text each distinct one is read by the host's rules, once.

    libcudf's own readers of fractions and moments differ from the host's in the last digit, and in what they accept.
    """
    present = non_empty(column)
    integers, written_so = written_integers(column)
    if bool((written_so | ~present).all()):
        return Measure(integers, present)
    codes, distinct = column.factorize()
    texts = pa.chunked_array([distinct.to_arrow()])
    values = convert(texts, _refuse)  # type: ignore[arg-type]
    valid = values.is_valid().to_numpy(zero_copy_only=False)
    moments = pa.types.is_timestamp(values.type)
    numbers = (values.cast(pa.int64()) if moments else values).fill_null(0).to_numpy(zero_copy_only=False)
    # Nulls have the code -1, which finds the entry that is added at the end.
    numbers = np.append(numbers, numbers.dtype.type(0))
    valid = np.append(valid, False)
    return Measure(cp.asarray(numbers)[codes], cp.asarray(valid)[codes], moments)

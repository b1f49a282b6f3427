"""Columns of weights and times: numbers, or moments in microseconds."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from mbe_stage.pipeline.backends.arrow.keys import first_true, without_empty
from mbe_stage.pipeline.backends.arrow.plain import as_plain
from mbe_stage.pipeline.backends.backend import Refusal
from mbe_stage.pipeline.io.raw import shortened

_NUMBER = r"^\s*[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?\s*$"
_SPECIAL_NUMBER = r"(?i)^([+-]?inf(inity)?|nan)$"
_ZONED = r"(Z|[+-][0-9]{2}(:?[0-9]{2})?)$"
_MICROSECONDS = pa.timestamp("us")


def as_numbers(column: pa.ChunkedArray, refuse: Refusal) -> pa.Array:
    """Return a column as float64 or int64; NaN and empty text become nulls."""
    values = as_plain(column)
    kind = values.type
    if pa.types.is_large_string(kind):
        return _numbers_of_text(values, refuse)
    if pa.types.is_null(kind) or pa.types.is_decimal(kind):
        return values.cast(pa.float64())
    if pa.types.is_floating(kind):
        values = values.cast(pa.float64())
        return pc.if_else(pc.is_nan(values), pa.scalar(None, pa.float64()), values)
    if pa.types.is_integer(kind):
        return values
    remedy = "choose another column, or convert this one"
    raise refuse(None, found=f"values of type {kind}", expected="numbers", remedy=remedy)


def has_numbers(column: pa.ChunkedArray) -> bool:
    """Return whether all texts of a column are numbers, but for empty ones."""
    return first_true(pc.invert(pc.match_substring_regex(without_empty(as_plain(column)), _NUMBER))) is None


def as_times(column: pa.ChunkedArray, refuse: Refusal, are_numbers: bool | None = None) -> pa.Array:
    """Return a column as numbers, or as timestamps in microseconds UTC; NaN and empty text become nulls.

    `are_numbers` is the result of `has_numbers`, of more rows than these.
    """
    values = as_plain(column)
    kind = values.type
    if pa.types.is_large_string(kind):
        are_numbers = has_numbers(column) if are_numbers is None else are_numbers
        return (_numbers_of_text if are_numbers else _moments_of_text)(without_empty(values), refuse)
    if pa.types.is_timestamp(kind):
        return _microseconds(values, refuse)
    if pa.types.is_date(kind):
        return _microseconds(values.cast(pa.timestamp("s") if pa.types.is_date32(kind) else pa.timestamp("ms")), refuse)
    return as_numbers(column, refuse)


def _numbers_of_text(values: pa.Array, refuse: Refusal) -> pa.Array:
    values = without_empty(pc.utf8_trim_whitespace(values))
    row = first_true(pc.invert(pc.match_substring_regex(values, f"{_NUMBER}|{_SPECIAL_NUMBER}")))
    if row is not None:
        found, remedy = shortened(values[row].as_py()), "correct it, or choose another column"
        raise refuse(row, found=found, expected="a number", remedy=remedy)
    numbers = pc.replace_substring_regex(values, r"^\+", "")
    try:
        # Integers stay exact: floats cannot represent epochs in nanoseconds.
        return numbers.cast(pa.int64())
    except pa.ArrowInvalid:
        return as_numbers(pa.chunked_array([numbers.cast(pa.float64())]), refuse)


def _moments_of_text(values: pa.Array, refuse: Refusal) -> pa.Array:
    """Parse ISO-8601 text into microseconds; moments without a zone are UTC."""
    zoned = pc.and_(pc.match_substring_regex(values, _ZONED), pc.match_substring(values, ":"))
    none = pa.scalar(None, values.type)
    try:
        with_zone = pc.if_else(zoned, values, none).cast(pa.timestamp("us", "UTC")).cast(pa.int64())
        without = pc.if_else(zoned, none, values).cast(_MICROSECONDS).cast(pa.int64())
    except pa.ArrowInvalid:
        row = next(i for i, value in enumerate(values) if value.is_valid and not _is_moment(value, zoned[i].as_py()))
        found, expected = shortened(values[row].as_py()), "a number, or a moment in ISO-8601"
        remedy = "write it as 2024-01-31T12:00:00, or choose another column"
        raise refuse(row, found=found, expected=expected, remedy=remedy) from None
    return pc.coalesce(with_zone, without).cast(_MICROSECONDS)


def _is_moment(value: pa.Scalar, zoned: bool) -> bool:
    try:
        value.cast(pa.timestamp("us", "UTC" if zoned else None))
    except pa.ArrowInvalid:
        return False
    return True


def _microseconds(values: pa.Array, refuse: Refusal) -> pa.Array:
    if values.type.unit == "ns":
        # Rounded down, also before 1970, so that rows stay on their side of a bound.
        present = values.cast(pa.int64())
        numbers = present.fill_null(0).to_numpy() // 1000
        return pa.array(numbers, mask=values.is_null().to_numpy(zero_copy_only=False)).cast(_MICROSECONDS)
    try:
        return values.cast(pa.timestamp("us", values.type.tz)).cast(pa.int64()).cast(_MICROSECONDS)
    except pa.ArrowInvalid as error:
        found = f"moments beyond what microseconds can hold ({error})"
        raise refuse(None, found=found, expected="years up to 290000", remedy="correct them") from None

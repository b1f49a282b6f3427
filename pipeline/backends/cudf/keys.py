"""Key columns in the cases that need no message; the host handles the others."""

from __future__ import annotations

from collections.abc import Sequence

import cudf
import cupy as cp
import numpy as np
import pylibcudf as plc

from mbe_stage.device.graph import pair_codes, pairs_of
from mbe_stage.pipeline.backends.backend import Column, HostNeeded, KeyType
from mbe_stage.pipeline.backends.cudf.buffers import INTEGERS, is_text, kind_of, text_buffers, values_of
from mbe_stage.pipeline.backends.cudf.text import (
    integer_values,
    non_empty,
    ranks_of_texts,
    texts_of_integers,
    written_integers,
)

_EXACT_FLOATS = 2.0**53
_FEWEST_DIGITS_BEYOND = 19
_FIRST_PRINTED = 32
# Ranks use a table of the value range if the range has at most this many numbers per row.
_MOST_NUMBERS_PER_ROW = 4
_FLOATS = (plc.TypeId.FLOAT32, plc.TypeId.FLOAT64)


def keys_of(column: cudf.Series, key_type: KeyType) -> Column:
    """Return a column of keys."""
    kind = kind_of(column)
    if kind == plc.TypeId.STRING:
        return Column(column, non_empty(column))
    if kind in INTEGERS:
        present = column.notnull().values
        if key_type == "string":
            return Column(texts_of_integers(column), present)
        if kind == plc.TypeId.UINT64 and bool((values_of(column)[present] > np.uint64(2**63 - 1)).any()):
            raise HostNeeded("integers beyond int64")
        return Column(column.astype("int64"), present)
    if kind in _FLOATS:
        numbers, present = _whole_floats(column)
        return Column(texts_of_integers(numbers) if key_type == "string" else numbers, present)
    raise HostNeeded(f"keys of type {column.dtype}")


def factorised(values: cudf.Series) -> tuple[cp.ndarray, cudf.Series]:
    """Implement `Backend.factorised`, in ascending order."""
    return ranks_of_texts(values) if kind_of(values) == plc.TypeId.STRING else _ranks(values_of(values))


def ranked(codes: cp.ndarray, distinct: cudf.Series) -> tuple[cp.ndarray, cudf.Series]:
    """Implement `Backend.ranked`: `factorised` has already ranked the keys."""
    return codes.astype(np.int32, copy=False), distinct


def merged(codes: cp.ndarray, integers: cp.ndarray) -> tuple[cp.ndarray, cudf.Series]:
    """Implement `Backend.merged`."""
    ordered, rank = cp.unique(integers, return_inverse=True)
    return rank.astype(np.int32)[codes], cudf.Series(ordered)


def distinct_pairs(first: cp.ndarray, second: cp.ndarray) -> tuple[cp.ndarray, cp.ndarray]:
    """Implement `Backend.distinct_pairs`."""
    codes = pair_codes(first, second)
    if bool((codes[:-1] < codes[1:]).all()):
        return first, second
    # `cp.unique` would copy them first.
    codes.sort()
    return pairs_of(codes[_differ(codes)])


def _ranks(numbers: cp.ndarray) -> tuple[cp.ndarray, cudf.Series]:
    """Return the rank of each number, int32, and the distinct numbers, ascending."""
    low, high = (int(bound) for bound in (numbers.min(), numbers.max())) if numbers.size else (0, -1)
    if high - low < _MOST_NUMBERS_PER_ROW * numbers.size:
        # A table of the whole range: looking a number up costs one access, and a binary search two dozen.
        numbers = numbers - low
        is_there = cp.zeros(high - low + 1, np.bool_)
        is_there[numbers] = True
        ranks = cp.cumsum(is_there, dtype=np.int32)
        ranks -= np.int32(1)
        return ranks[numbers], cudf.Series(cp.flatnonzero(is_there) + low)
    ordered = cp.sort(numbers)
    ordered = ordered[_differ(ordered)]
    return cp.searchsorted(ordered, numbers).astype(np.int32), cudf.Series(ordered)


def _differ(ordered: cp.ndarray) -> cp.ndarray:
    """Return a mask of the numbers that differ from the one before."""
    mask = cp.ones(ordered.size, np.bool_)
    cp.not_equal(ordered[1:], ordered[:-1], out=mask[1:])
    return mask


def as_integers(texts: cudf.Series, must: bool) -> cp.ndarray | None:
    """Implement `Backend.as_integers`; the host makes refusals."""
    numbers, written_so = written_integers(texts)
    if bool(written_so.all()):
        return numbers
    if must:
        numbers = integer_values(texts)
        if numbers is None:
            raise HostNeeded("keys that are no integers, or beyond int64")
        return numbers
    others = texts[cudf.Series(~written_so)]
    plain = ~others.str.contains("[^-0-9]")
    may_be_beyond = plain & (others.str.byte_count() >= _FEWEST_DIGITS_BEYOND)
    if bool(may_be_beyond.all()):
        raise HostNeeded("keys that may be integers beyond int64")
    return None


def as_json(keys: cudf.Series) -> cudf.Series:
    """Implement `Backend.as_json`."""
    if not is_text(keys):
        return texts_of_integers(keys)
    if bool((text_buffers(keys)[1] < _FIRST_PRINTED).any()):
        raise HostNeeded("control characters in keys of several columns")
    escaped = keys.str.replace("\\", "\\\\", regex=False).str.replace('"', '\\"', regex=False)
    return '"' + escaped + '"'


def json_arrays(columns: Sequence[cudf.Series]) -> cudf.Series:
    """Implement `Backend.json_arrays`."""
    joined, *others = columns
    for column in others:
        joined = joined + "," + column
    return "[" + joined + "]"


def _whole_floats(column: cudf.Series) -> tuple[cudf.Series, cp.ndarray]:
    values = values_of(column).astype(np.float64)
    present = column.notnull().values & ~cp.isnan(values)
    values = cp.where(present, values, 0.0)
    if bool(((cp.trunc(values) != values) | (cp.abs(values) > _EXACT_FLOATS)).any()):
        raise HostNeeded("floats that are no whole numbers, or too large to be exact")
    return cudf.Series(values.astype(np.int64)), present

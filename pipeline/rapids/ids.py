"""Keys and dense ids on the device: the rules of `pipeline.ids`, for what needs no message."""

from __future__ import annotations

import cudf
import cupy as cp
import numpy as np
import pylibcudf as plc

from mbe_stage.bicliques.cuda.keys import hash_integers, hash_text, vertex_hashes
from pipeline.ids import KeyType
from pipeline.rapids.buffers import INTEGERS, kind_of, text_buffers, values_of
from pipeline.rapids.refusals import HostNeeded
from pipeline.rapids.text import integer_values, non_empty, texts_of_integers, written_integers

__all__ = ["as_keys", "key_hashes", "number_keys"]

_EXACT_FLOATS = 2.0**53
_FEWEST_DIGITS_BEYOND = 19
_FLOATS = (plc.TypeId.FLOAT32, plc.TypeId.FLOAT64)


def key_hashes(keys: cudf.Series, side: str) -> cp.ndarray:
    """The vertex hash of each key, ``(n,) uint64``: those of `pipeline.ids.key_hashes`.

    Parameters
    ----------
    keys : cudf.Series
        Integers or text, none of them null.
    side : {"left", "right"}
    """
    if kind_of(keys) == plc.TypeId.STRING:
        return vertex_hashes(hash_text(*text_buffers(keys)), side)
    return vertex_hashes(hash_integers(values_of(keys).astype(np.int64, copy=False)), side)


def as_keys(column: cudf.Series, key_type: KeyType) -> tuple[cudf.Series, cp.ndarray]:
    """A column as int64 or text, and where it has a value.

    Returns
    -------
    values : cudf.Series
        What stands at a null is undefined.
    present : (n,) bool
        False for nulls, NaNs and empty text.

    Raises
    ------
    HostNeeded
        Values that cannot be keys, or of a kind that only the host takes.
    """
    kind = kind_of(column)
    if kind == plc.TypeId.STRING:
        return column, non_empty(column)
    if kind in INTEGERS:
        present = column.notnull().values
        if key_type == "string":
            return texts_of_integers(column), present
        return _within_int64(column, present), present
    if kind in _FLOATS:
        numbers, present = _whole_floats(column)
        return (texts_of_integers(numbers) if key_type == "string" else numbers), present
    raise HostNeeded(f"keys of type {column.dtype}")


def number_keys(values: cudf.Series, key_type: KeyType, origin: str) -> tuple[cp.ndarray, cudf.Series]:
    """Number the keys densely.

    Parameters
    ----------
    values : cudf.Series
        int64 or text, without nulls.
    key_type, origin
        As for `pipeline.ids.number_keys`.

    Returns
    -------
    ids : (n,) int32
    keys : cudf.Series
        int64 or text, ascending and distinct; ``keys[ids[i]]`` is ``values[i]``.

    Raises
    ------
    HostNeeded
        Text that has to be an integer may be none, or be beyond int64.
    """
    if kind_of(values) != plc.TypeId.STRING:
        numbers = values_of(values)
        ordered = cp.unique(numbers)
        return cp.searchsorted(ordered, numbers).astype(np.int32), cudf.Series(ordered)
    codes, distinct = values.factorize(sort=True)
    texts = distinct.to_series().reset_index(drop=True)
    integers = _maybe_integers(texts, key_type, origin)
    if integers is None:
        return codes.astype(np.int32), texts
    # Different texts may be one integer ("007" and "7" with key_type: integer).
    ordered, rank = cp.unique(integers, return_inverse=True)
    return rank.astype(np.int32)[codes], cudf.Series(ordered)


def _within_int64(column: cudf.Series, present: cp.ndarray) -> cudf.Series:
    if kind_of(column) == plc.TypeId.UINT64 and bool((values_of(column)[present] > np.uint64(2**63 - 1)).any()):
        raise HostNeeded("integers beyond int64")
    return column.astype("int64")


def _whole_floats(column: cudf.Series) -> tuple[cudf.Series, cp.ndarray]:
    values = values_of(column).astype(np.float64)
    present = column.notnull().values & ~cp.isnan(values)
    values = cp.where(present, values, 0.0)
    if bool(((cp.trunc(values) != values) | (cp.abs(values) > _EXACT_FLOATS)).any()):
        raise HostNeeded("floats that are no whole numbers, or too large to be exact")
    return cudf.Series(values.astype(np.int64)), present


def _maybe_integers(texts: cudf.Series, key_type: KeyType, origin: str) -> cp.ndarray | None:
    """Distinct texts as integers where the configuration or the format says so, or where all of them look like it."""
    must = key_type == "integer" or (key_type == "auto" and origin == "integers")
    if not must and (key_type == "string" or origin == "typed"):
        return None
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

"""Properties of whole text columns, computed on the device."""

from __future__ import annotations

import cudf
import cupy as cp
import numpy as np
import pylibcudf as plc
from pylibcudf.strings.convert.convert_integers import from_integers, is_integer, to_integers

from mbe_stage.pipeline.backends.cudf.buffers import text_buffers, values_of

_INT64 = plc.DataType(plc.TypeId.INT64)


def non_empty(texts: cudf.Series) -> cp.ndarray:
    """Return a mask of texts with at least one byte, ``(n,) bool``; False for nulls."""
    offsets, _ = text_buffers(texts)
    return (cp.diff(offsets) > 0) & texts.notnull().values


def ranks_of_texts(texts: cudf.Series) -> tuple[cp.ndarray, cudf.Series]:
    """Return the rank of each text, ``(n,) int32``, -1 for nulls; and the distinct texts, ascending.

    Without the sort by which `cudf.Series.factorize` brings codes back into the order of the rows.
    """
    table, types = plc.Table([texts.to_pylibcudf()[0]]), plc.types
    keep, equal = plc.stream_compaction.DuplicateKeepOption.KEEP_ANY, types.NullEquality.EQUAL
    distinct = plc.stream_compaction.distinct(table, [0], keep, equal, types.NanEquality.ALL_EQUAL)
    distinct = plc.stream_compaction.drop_nulls(distinct, [0], 1)
    distinct = plc.sorting.sort(distinct, [types.Order.ASCENDING], [types.NullOrder.AFTER])
    rows, found = map(cudf.Series.from_pylibcudf, plc.join.inner_join(table, distinct, types.NullEquality.UNEQUAL))
    ranks = cp.full(len(texts), -1, np.int32)
    ranks[values_of(rows)] = values_of(found)
    return ranks, cudf.Series.from_pylibcudf(distinct.columns()[0])


def written_integers(texts: cudf.Series) -> tuple[cp.ndarray, cp.ndarray]:
    """Convert texts that are the canonical form of an integer within int64.

    Returns
    -------
    values : (n,) int64
        The integers; undefined for other texts.
    written_so : (n,) bool
        False for "007", "+7", "-0", " 7" and everything beyond int64.
    """
    column = texts.to_pylibcudf()[0]
    numbers = to_integers(column, _INT64)
    # Converted back and compared: libcudf's result for other text never converts back to it.
    again = cudf.Series.from_pylibcudf(from_integers(numbers))
    same = (again == cudf.Series.from_pylibcudf(column)).fillna(False)
    return values_of(cudf.Series.from_pylibcudf(numbers)), same.values


def integer_values(texts: cudf.Series) -> cp.ndarray | None:
    """Return texts of an optional minus and digits as ``(n,) int64``; None if any text is not, or is beyond int64."""
    column = texts.to_pylibcudf()[0]
    within = cudf.Series.from_pylibcudf(is_integer(column, _INT64))
    if not bool(within.all()) or bool(texts.str.startswith("+").any()):
        return None
    return values_of(cudf.Series.from_pylibcudf(to_integers(column, _INT64)))


def texts_of_integers(numbers: cudf.Series) -> cudf.Series:
    """Return integers as decimal text, with nulls kept."""
    return cudf.Series.from_pylibcudf(from_integers(numbers.to_pylibcudf()[0]))

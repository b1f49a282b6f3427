"""Columns of tables that have the vertices of both sides, one after the other."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

SIDE = pa.dictionary(pa.int8(), pa.string())
"""The type of a column that says which side a vertex is of."""

# Plain strings hold so many bytes in one array.
_MOST_TEXT = 1 << 31


def key_type(key_types: tuple[pa.DataType, pa.DataType]) -> pa.DataType:
    """The type of keys of both sides in one column: their own, or text where it differs."""
    left, right = key_types
    return left if left == right else pa.string()


def keys_of_both_sides(left: pa.Array, right: pa.Array) -> pa.Array:
    """The left keys, then the right ones, in one column: their own type, or text where it differs."""
    kind = left.type
    if kind != right.type or not pa.types.is_integer(kind):
        text = [keys.cast(pa.large_string()) for keys in (left, right)]
        kind = pa.string() if sum(keys.nbytes for keys in text) < _MOST_TEXT else pa.large_string()
        left, right = (keys.cast(kind) for keys in text)
    return pa.concat_arrays([left, right])


def sides(is_right: np.ndarray) -> pa.Array:
    """``left`` or ``right`` for each: (n,) bool."""
    # Made here and not once at the top: the first `pa.array` of Python values looks for pandas, which takes long.
    return pa.DictionaryArray.from_arrays(pa.array(is_right.astype(np.int8)), pa.array(["left", "right"], pa.string()))


def is_right_of(table: pa.Table) -> np.ndarray:
    """Return True for each row of a right vertex, in a table with a column `side`; ``(n,) bool``."""
    return pc.equal(table["side"].cast(pa.string()), "right").to_numpy(zero_copy_only=False)

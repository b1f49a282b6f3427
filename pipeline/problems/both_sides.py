"""Table columns with the vertices of both sides, the left ones first."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

SIDE = pa.dictionary(pa.int8(), pa.string())
"""The type of a column that names the side of a vertex."""

# Limit of bytes of a plain string array.
_MOST_TEXT = 1 << 31


def key_type(key_types: tuple[pa.DataType, pa.DataType]) -> pa.DataType:
    """Return the type of a column with the keys of both sides: their common type, or else text."""
    left, right = key_types
    return left if left == right else pa.string()


def keys_of_both_sides(left: pa.Array, right: pa.Array) -> pa.Array:
    """Return the left keys, then the right ones, in one column: of their common type, or else text."""
    kind = left.type
    if kind != right.type or not pa.types.is_integer(kind):
        text = [keys.cast(pa.large_string()) for keys in (left, right)]
        kind = pa.string() if sum(keys.nbytes for keys in text) < _MOST_TEXT else pa.large_string()
        left, right = (keys.cast(kind) for keys in text)
    return pa.concat_arrays([left, right])


def sides(is_right: np.ndarray) -> pa.Array:
    """Return ``left`` or ``right`` for each entry of (n,) bool."""
    # Not at module level: the first `pa.array` of Python values imports pandas, which takes long.
    return pa.DictionaryArray.from_arrays(pa.array(is_right.astype(np.int8)), pa.array(["left", "right"], pa.string()))


def is_right_of(table: pa.Table) -> np.ndarray:
    """Return True for each row of a right vertex, in a table with a column `side`; ``(n,) bool``."""
    return pc.equal(table["side"].cast(pa.string()), "right").to_numpy(zero_copy_only=False)

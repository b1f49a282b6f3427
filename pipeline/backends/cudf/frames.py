"""CuPy arrays as columns and frames of cuDF, without a copy where it can be."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import cudf
import cupy as cp
import pylibcudf as plc

__all__ = [
    "MOST_BYTES",
    "MOST_CHILDREN",
    "Frame",
    "Series",
    "concatenated",
    "frame_of",
    "list_column",
    "named",
    "nullable",
]

Frame = cudf.DataFrame
Series = cudf.Series

MOST_CHILDREN = 2**31 - 1
"""Values below one list column: libcudf counts with int32."""
MOST_BYTES = 4 * MOST_CHILDREN


def list_column(offsets: cp.ndarray, members: cp.ndarray) -> cudf.Series:
    """Ragged arrays as a column of lists; the members are not copied.

    Work on `members` that is still under way on the current stream is waited for.

    Parameters
    ----------
    offsets : (n + 1,) int64 or int32
        Where each list begins, from 0 to ``members.size``.

    Returns
    -------
    cudf.Series
        n lists of int32.

    Raises
    ------
    OverflowError
        More members than a column can hold: cut them first.
    """
    if members.size > MOST_CHILDREN:
        raise OverflowError(
            f"{members.size} members: a list column holds at most {MOST_CHILDREN}; cut it with pieces()"
        )
    children = [
        plc.Column.from_cuda_array_interface(array) for array in (offsets.astype(cp.int32, copy=False), members)
    ]
    # libcudf works on a stream of its own choice.
    cp.cuda.get_current_stream().synchronize()
    column = plc.Column(plc.DataType(plc.TypeId.LIST), offsets.size - 1, None, None, 0, 0, children)
    return cudf.Series.from_pylibcudf(column)


def frame_of(columns: Mapping[str, Any]) -> cudf.DataFrame:
    """A frame of arrays and columns, which are not copied."""
    return cudf.DataFrame(dict(columns))


def concatenated(frames: Sequence[cudf.DataFrame]) -> cudf.DataFrame:
    """The rows of all, one frame after the other."""
    return cudf.concat(list(frames), ignore_index=True)


def named(codes: cp.ndarray, names: Sequence[str]) -> cudf.Series:
    """The name of each code."""
    return cudf.Series(list(names)).take(codes).reset_index(drop=True)


def nullable(values: cp.ndarray, is_valid: cp.ndarray) -> cudf.Series:
    """The values, null where they are not valid."""
    column, valid = (plc.Column.from_cuda_array_interface(array) for array in (values, is_valid))
    cp.cuda.get_current_stream().synchronize()
    return cudf.Series.from_pylibcudf(column.with_mask(*plc.transform.bools_to_mask(valid)))

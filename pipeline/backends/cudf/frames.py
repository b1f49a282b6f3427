"""CuPy arrays as cuDF columns and frames, without a copy if possible."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import cudf
import cupy as cp
import pylibcudf as plc

Frame = cudf.DataFrame
Series = cudf.Series

MOST_CHILDREN = 2**31 - 1
"""Most values in one list column: libcudf counts with int32."""
MOST_BYTES = 4 * MOST_CHILDREN


def list_column(offsets: cp.ndarray, members: cp.ndarray) -> cudf.Series:
    """Return ragged arrays as a column of lists; the members are not copied.

    This waits for pending work on `members` in the current stream.

    Parameters
    ----------
    offsets : (n + 1,) int64 or int32
        Start of each list, from 0 to ``members.size``.

    Returns
    -------
    cudf.Series
        n lists of int32.

    Raises
    ------
    OverflowError
        There are more members than a column can hold: cut them first.
    """
    if members.size > MOST_CHILDREN:
        raise OverflowError(
            f"{members.size} members: a list column holds at most {MOST_CHILDREN}; cut it with pieces()"
        )
    children = [
        plc.Column.from_cuda_array_interface(array) for array in (offsets.astype(cp.int32, copy=False), members)
    ]
    # libcudf chooses its own stream.
    cp.cuda.get_current_stream().synchronize()
    column = plc.Column(plc.DataType(plc.TypeId.LIST), offsets.size - 1, None, None, 0, 0, children)
    return cudf.Series.from_pylibcudf(column)


def frame_of(columns: Mapping[str, Any]) -> cudf.DataFrame:
    """Return a frame of arrays and columns, without copies."""
    return cudf.DataFrame(dict(columns))


def concatenated(frames: Sequence[cudf.DataFrame]) -> cudf.DataFrame:
    """Concatenate the rows of all frames."""
    return cudf.concat(list(frames), ignore_index=True)


def named(codes: cp.ndarray, names: Sequence[str]) -> cudf.Series:
    """Return the name of each code."""
    return cudf.Series(list(names)).take(codes).reset_index(drop=True)


def nullable(values: cp.ndarray, is_valid: cp.ndarray) -> cudf.Series:
    """Return the values, with nulls at invalid positions."""
    column, valid = (plc.Column.from_cuda_array_interface(array) for array in (values, is_valid))
    cp.cuda.get_current_stream().synchronize()
    return cudf.Series.from_pylibcudf(column.with_mask(*plc.transform.bools_to_mask(valid)))

"""What the footers of Parquet files say of a column, to hold against what was read.

libcudf takes damage inside a page without a word where the host's reader fails on it: values come out that nobody
wrote. The footers stand apart from the pages, and name the bounds of each column.
"""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow.parquet as pq

__all__ = ["integer_bounds"]


def integer_bounds(name: str, footers: Iterable[pq.FileMetaData]) -> tuple[int, int, int] | None:
    """Least value, largest value and number of nulls of a column of signed integers.

    Parameters
    ----------
    name : str
    footers : iterable of pq.FileMetaData
        Of all files.

    Returns
    -------
    tuple or None
        None where a footer does not say, or where all values are null.
    """
    least, largest, n_nulls = [], [], 0
    for footer in footers:
        position = [footer.schema.column(i).path for i in range(footer.num_columns)].index(name)
        for group in range(footer.num_row_groups):
            chunk = footer.row_group(group).column(position)
            statistics = chunk.statistics
            if statistics is None or not statistics.has_null_count:
                return None
            n_nulls += statistics.null_count
            if statistics.null_count == chunk.num_values:
                continue
            if not statistics.has_min_max:
                return None
            least.append(int(statistics.min))
            largest.append(int(statistics.max))
    return (min(least), max(largest), n_nulls) if least else None

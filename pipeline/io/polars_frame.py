"""polars frames, lazy ones too: only the columns that are chosen are collected and converted."""

from __future__ import annotations

from typing import Any

import polars
import pyarrow as pa
from polars import selectors

from pipeline import lack_of_memory
from pipeline.config import InputConfig
from pipeline.errors import InputError
from pipeline.io.layout import MATRIX_SAMPLE
from pipeline.io.raw import choose_columns

__all__ = ["as_table"]


def as_table(frame: Any, config: InputConfig) -> pa.Table:
    """Return the frame as an Arrow table; of columns that are not chosen, nulls stand below the first rows.

    Raises
    ------
    InputError
        The query of a lazy frame fails, a column is not there, or Arrow has no type for it.
    """
    try:
        names = frame.collect_schema().names()
        positions = set(range(len(names)))
        if config.format != "biadjacency":
            positions = set(choose_columns(names, config, "memory:polars").values())
        chosen = [names[position] for position in positions]
        taken = frame.lazy().select(selectors.by_name(chosen)).collect()
        columns = {name: _column(taken[name]) for name in chosen}
    except (polars.exceptions.PolarsError, pa.ArrowException, TypeError, OSError) as error:
        lack_of_memory.pass_on(error)
        raise InputError.at(
            "memory:polars",
            found=f"a frame that Arrow cannot take ({' '.join(str(error).split())})",
            expected="a query that succeeds, and columns of integers or text",
            remedy="check frame.lazy().collect(), and convert other columns, for example with "
            ".map_elements(str, polars.String)",
        ) from None
    for name in names:
        if name not in columns:
            columns[name] = _first_rows(frame, name, taken.height, config)
    return pa.Table.from_arrays([columns[name] for name in names], names=names)


def _first_rows(frame: Any, name: str, height: int, config: InputConfig) -> pa.ChunkedArray:
    """What `refuse_matrix_table` looks at of a column that is not read; only nulls where it cannot be read."""
    unread = pa.chunked_array([pa.nulls(height)])
    if config.names_columns:
        return unread
    try:
        head = _column(frame.lazy().select(selectors.by_name(name)).head(MATRIX_SAMPLE).collect()[name])
        return pa.chunked_array([*head.chunks, pa.nulls(height - len(head), head.type)])
    except (polars.exceptions.PolarsError, pa.ArrowException, TypeError, OSError) as error:
        lack_of_memory.pass_on(error)
        return unread


def _column(values: Any) -> pa.ChunkedArray:
    if values.dtype == polars.Object:
        # It would hand over the addresses of the objects.
        raise TypeError(f"column {values.name!r} holds Python objects")
    if str(values.dtype) in ("Int128", "UInt128"):
        # Arrow has no integers of 128 bits: they become the first of int64 and decimals that holds them.
        fits = values.drop_nulls().is_between(-(2**63), 2**63 - 1).all()
        values = values.cast(polars.Int64 if fits else polars.Decimal(38, 0))
    return pa.chunked_array(values)

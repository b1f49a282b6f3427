"""polars frames, lazy ones too: only the columns that are chosen are collected and converted."""

from __future__ import annotations

from typing import Any

import polars
import pyarrow as pa
from polars import selectors

from pipeline import lack_of_memory
from pipeline.config import InputConfig
from pipeline.errors import InputError
from pipeline.io.raw import choose_columns

__all__ = ["as_table"]


def as_table(frame: Any, config: InputConfig) -> pa.Table:
    """Return the frame as an Arrow table; columns that are not chosen hold nulls.

    Raises
    ------
    InputError
        The query of a lazy frame fails, a column is not there, or Arrow has no type for it.
    """
    try:
        names = frame.collect_schema().names()
        chosen = [names[position] for position in set(choose_columns(names, config, "memory:polars").values())]
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
    unread = pa.nulls(taken.height)
    return pa.Table.from_arrays([columns.get(name, unread) for name in names], names=names)


def _column(values: Any) -> pa.ChunkedArray:
    if values.dtype == polars.Object:
        # It would hand over the addresses of the objects.
        raise TypeError(f"column {values.name!r} holds Python objects")
    if str(values.dtype) in ("Int128", "UInt128"):
        # Arrow has no integers of 128 bits: they become the first of int64 and decimals that holds them.
        fits = values.drop_nulls().is_between(-(2**63), 2**63 - 1).all()
        values = values.cast(polars.Int64 if fits else polars.Decimal(38, 0))
    return pa.chunked_array(values)

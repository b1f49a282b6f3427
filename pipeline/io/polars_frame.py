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

_SOURCE = "memory:polars"


def as_table(frame: Any, config: InputConfig) -> pa.Table:
    """Return the frame as an Arrow table; columns that are not chosen hold nulls.

    Raises
    ------
    InputError
        The query of a lazy frame fails, a column is not there, or Arrow has no type for it.
    """
    try:
        names = frame.collect_schema().names()
        chosen = [names[position] for position in sorted(set(choose_columns(names, config, _SOURCE).values()))]
        taken = frame.lazy().select(selectors.by_name(chosen)).collect()
    except (polars.exceptions.PolarsError, OSError) as error:
        raise InputError.at(
            _SOURCE,
            found=f"a query that fails ({' '.join(str(error).split())})",
            expected="a frame that can be collected",
            remedy="call .collect() on it to see where it fails",
        ) from None
    columns = {name: _column(taken[name]) for name in chosen}
    unread = pa.nulls(taken.height)
    return pa.Table.from_arrays([columns.get(name, unread) for name in names], names=names)


def _column(values: Any) -> pa.ChunkedArray:
    """Arrow has no integers of 128 bits: they become the first of int64 and decimals that holds them."""
    try:
        if str(values.dtype) in ("Int128", "UInt128"):
            fits = values.drop_nulls().is_between(-(2**63), 2**63 - 1).all()
            values = values.cast(polars.Int64 if fits else polars.Decimal(38, 0))
        if values.dtype == polars.Object:
            # It would hand over the addresses of the objects.
            raise TypeError("Python objects")
        return pa.chunked_array(values)
    except (pa.ArrowException, polars.exceptions.PolarsError, TypeError) as error:
        lack_of_memory.pass_on(error)
        raise InputError.at(
            _SOURCE,
            column=values.name,
            found=f"values of type {values.dtype} that Arrow does not take ({' '.join(str(error).split())})",
            expected="integers or text",
            remedy="convert it with .map_elements(str, polars.String)",
        ) from None

"""CSV for graph databases: UTF-8, RFC 4180, a header of names and types, and values as they are.

Other than CSV for spreadsheets, nothing guards against formulas: a database would store the guard as a part of a key.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from mbe_stage.pipeline.cases.key_columns import distinct_names

Types = Mapping[str, str]
"""The database's name of `integer`, `number`, `truth`, `time` and `text`."""


def write_csv(
    path: Path, tables: Iterable[pa.Table], header: Callable[[str, str], str], types: Types, first: int = 0
) -> int:
    """Write tables of one schema as one file, in batches; return the number of rows.

    Parameters
    ----------
    tables : iterable of pa.Table
        At least one.
    header : callable
        Takes the plain name of a property and its type; returns its field of the header.
    first : int
        Number of first columns whose names are written as they are.
    """
    n_rows = 0
    writer: pyarrow.csv.CSVWriter | None = None
    # Values of text are in quotes, so an empty text differs from none.
    options = pyarrow.csv.WriteOptions(include_header=False, quoting_style="needed")
    with path.open("wb") as file:
        for table in tables:
            if writer is None:
                names = zip(plain_names(table.column_names[first:]), table.columns[first:], strict=True)
                fields = [*table.column_names[:first], *(header(name, types[_kind(of.type)]) for name, of in names)]
                file.write((",".join(fields) + "\n").encode())
                written = [_written(column) for column in table.columns]
                schema = pa.schema([(name, column.type) for name, column in zip(fields, written, strict=True)])
                writer = pyarrow.csv.CSVWriter(file, schema, write_options=options)
            columns = [_written(column).cast(field.type) for column, field in zip(table.columns, schema, strict=True)]
            writer.write_table(pa.Table.from_arrays(columns, schema=schema))
            n_rows += len(table)
        if writer is not None:
            writer.close()
    return n_rows


def plain_names(names: Iterable[str]) -> tuple[str, ...]:
    """Return names of letters, digits and underscores, which no header needs to escape; none appears twice.

    Examples
    --------
    >>> plain_names(["rating", "a:b, c", "a b  c", "~id", "größe"])
    ('rating', 'a_b_c', 'a_b_c_2', '_id', 'größe')
    """
    return distinct_names([re.sub(r"\W+", "_", name) or "_" for name in names])


def _kind(of_type: pa.DataType) -> str:
    if pa.types.is_boolean(of_type):
        return "truth"
    if pa.types.is_integer(of_type):
        return "integer"
    if pa.types.is_floating(of_type):
        return "number"
    return "time" if pa.types.is_timestamp(of_type) else "text"


def _written(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return values as the file has them: times as ISO-8601 in UTC, and nothing for NaN."""
    kind = _kind(column.type)
    if kind == "time":
        seconds = pc.floor_temporal(column, unit="second").cast(pa.timestamp("s"))
        return pc.strftime(seconds, format="%Y-%m-%dT%H:%M:%SZ")
    if kind == "number":
        return pc.if_else(pc.is_finite(column), column, pa.scalar(None, column.type))
    return column.cast(pa.large_string()) if kind == "text" else column

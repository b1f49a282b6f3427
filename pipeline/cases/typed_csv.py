"""CSV for graph databases: UTF-8, RFC 4180, a header of names and types, and values as they are.

Other than CSV for spreadsheets, nothing guards against formulas: a database would store the guard as a part of a key.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from mbe_stage.pipeline.cases.key_columns import distinct_names

Types = Mapping[str, str]
"""The database's name of `integer`, `number`, `truth`, `time` and `text`."""


def write_csv(path: Path, tables: Iterable[pa.Table], types: Types | None = None, *, first: int) -> None:
    """Write tables of one schema as one file, in batches.

    Parameters
    ----------
    tables : iterable of pa.Table
        At least one.
    types : mapping, optional
        Of the properties, which the header has as ``name:type``.
    first : int
        Number of first columns, which are no properties: the header has their names as they are.
    """
    parts = iter(tables)
    head = next(parts)
    fields = [*head.column_names[:first]]
    for name, column in zip(plain_names(head.column_names[first:]), head.columns[first:], strict=True):
        fields.append(f"{name}:{(types or {})[_kind(column.type)]}")
    schema = pa.schema([(name, _written(column).type) for name, column in zip(fields, head.columns, strict=True)])
    # Values of text are in quotes, so an empty text differs from none.
    options = pyarrow.csv.WriteOptions(include_header=False, quoting_style="needed")
    with path.open("wb") as file:
        file.write((",".join(fields) + "\n").encode())
        with pyarrow.csv.CSVWriter(file, schema, write_options=options) as writer:
            for table in itertools.chain([head], parts):
                pairs = zip(table.columns, schema, strict=True)
                columns = [_written(column).cast(field.type) for column, field in pairs]
                writer.write_table(pa.Table.from_arrays(columns, schema=schema))


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

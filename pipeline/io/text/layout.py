"""The meaning of a row in a text table: an edge, a matrix row, a transaction of items, or a first line of counts.

If the first rows may not be edges, the user is asked. Naming the edge columns confirms that rows are edges.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from mbe_stage.pipeline.backends.arrow.plain import plain_type
from mbe_stage.pipeline.config.model import InputConfig
from mbe_stage.pipeline.config.setting_names import setting
from mbe_stage.pipeline.errors import InputError
from mbe_stage.pipeline.io.raw import shortened
from mbe_stage.pipeline.io.text.dialect import Dialect

EMPTY = frozenset({"", "0", "0.0", "false", "f", "no", "n", "-", ".", "nan", "na", "none", "null"})
"""Cells of a matrix for "no edge", in lower case."""
FLAGS = EMPTY | {"1", "1.0", "true", "t", "yes", "y", "x", "+", "*"}
"""Cells of a matrix that says for each pair if there is an edge."""
_NUMBER = re.compile(r"\d+(\.\d+)?")
_WIDE = 3
_ITEMS = 5
MATRIX_SAMPLE = 1000
"""Rows of a typed table to check."""
_NO_CELLS = (pa.types.is_nested, pa.types.is_temporal, pa.types.is_null)
_ZEROS = 0.2
# Settings for rows that are edges in the first two columns.
_EDGES: dict[str, object] = {"input.left": "0", "input.right": "1"}
_SHARED = 0.25


def refuse_other_layout(path: Path, config: InputConfig, dialect: Dialect) -> None:
    """Ask the user if a table may be a matrix or a list of transactions."""
    if config.names_columns or dialect.n_columns < _WIDE or not dialect.rows:
        return
    rows = [[cell.strip() for cell in row] for row in dialect.rows if len(row) == dialect.n_columns]
    columns = list(zip(*rows, strict=True))
    if is_matrix(columns, has_names=dialect.has_header):
        raise refuse_matrix(path, shortened(", ".join(dialect.rows[0])))
    if _are_transactions(rows, columns, has_names=dialect.has_header):
        raise InputError.at(
            path,
            line=dialect.n_skipped + 1,
            found=f"{shortened(', '.join(dialect.rows[0]))}, which may be a transaction of items, or an edge in its "
            "first two columns",
            remedy=f"set {setting('input.format')} to fimi for transactions, or name the columns of the edges with "
            f"{setting('input.left')} and {setting('input.right')}",
            settings=[{"input.format": "fimi", "input.delimiter": dialect.delimiter}, _EDGES],
        )


def refuse_matrix(source: object, found: str) -> InputError:
    """Return the question whether a table is a biadjacency matrix."""
    return InputError.at(
        source,
        found=f"{found}, which may be a row of a matrix, or an edge in its first two columns",
        remedy=f"set {setting('input.format')} to biadjacency for a matrix, or name the columns of the edges with "
        f"{setting('input.left')} and {setting('input.right')}",
        settings=[{"input.format": "biadjacency"}, _EDGES],
    )


def refuse_matrix_table(table: pa.Table, source: object, config: InputConfig, rows: pa.Array | None = None) -> None:
    """Ask the user if a typed table may be a biadjacency matrix, with or without row names."""
    columns = [*([] if rows is None else [rows]), *table.columns]
    if config.names_columns or len(columns) < _WIDE or not table.num_rows:
        return
    if any(tests(plain_type(column.type)) for column in columns[1:] for tests in _NO_CELLS):
        return
    cells = (column[:MATRIX_SAMPLE].to_pylist() for column in columns[1:])
    # The first column may be names, whatever they are.
    texts = [[], *(["" if value is None else str(value) for value in column] for column in cells)]
    if is_matrix(texts, has_names=True):
        raise refuse_matrix(source, f"columns {', '.join(map(repr, table.column_names[:4]))} of 0s and other values")


def is_matrix(columns: Sequence[Sequence[str]], *, has_names: bool) -> bool:
    """Return whether text columns look like a biadjacency matrix; the first may hold row names."""
    if len(columns) < _WIDE:
        return False
    body = columns[1:]
    if all(cell.lower() in FLAGS for column in body for cell in column):
        return any(cell.lower() in EMPTY for column in body for cell in column) or has_names
    first_is_names = has_names or not all(_NUMBER.fullmatch(cell) for cell in columns[0])
    judged = body if first_is_names else columns
    cells = [cell for column in judged for cell in column]
    if not all(_NUMBER.fullmatch(cell) or not cell for cell in cells):
        return False
    with_zeros = sum(any(cell in EMPTY for cell in column) for column in judged)
    return sum(cell in EMPTY for cell in cells) >= _ZEROS * len(cells) and with_zeros * 2 > len(judged)


def _are_transactions(rows: list[list[str]], columns: list[tuple[str, ...]], *, has_names: bool) -> bool:
    if counts_items(rows) or _are_padded(rows):
        return True
    if all(_NUMBER.fullmatch(cell) for row in rows for cell in row):
        numbers = [list(map(float, column)) for column in columns]
        within = len(rows) > 1 and rising(numbers) and min(numbers[2]) <= max(numbers[0])
        return not has_names and (len(columns) >= _ITEMS or within)
    words = [set(column) - {""} for column in columns if not any(_NUMBER.fullmatch(cell) for cell in column)]
    words = [each for each in words if not {cell.lower() for cell in each} <= FLAGS]
    every = set().union(*words)
    shared = sum(sum(cell in column for column in words) > 1 for cell in every)
    return len(words) >= _WIDE and shared >= _SHARED * len(every)


def counts_items(rows: list[list[str]]) -> bool:
    """Return whether the first field of every row is the number of its other non-empty fields."""
    return all(row[0].isdecimal() and int(row[0]) == sum(map(bool, row[1:])) for row in rows)


def _are_padded(rows: list[list[str]]) -> bool:
    """Return whether empty fields occur only at the ends of rows, after different numbers of items."""
    lengths = [max((i for i, cell in enumerate(row, start=1) if cell), default=0) for row in rows]
    if len(rows[0]) <= _WIDE or len(set(lengths)) < _WIDE:
        return False
    return all(all(row[:length]) for row, length in zip(rows, lengths, strict=True))


def rising(columns: Sequence[Sequence[float]]) -> bool:
    """Return whether every row rises from left to right, as sorted items do."""
    return all(a < b for row in zip(*columns, strict=True) for a, b in itertools.pairwise(row))


def refuse_count_line(
    path: object, config: InputConfig, first: Sequence[Sequence[str]], n_above: int, table: pa.Table
) -> None:
    """Refuse a first line that may be counts, such as ``4 5 7`` above seven edges; `skip_lines` settles it.

    `first` has the fields of the first row, or nothing, with `n_above` lines above it; the table has all rows.
    """
    if config.skip_lines is not None or not may_be_counts(first, table.num_rows):
        return
    fields = [field.strip() for field in first[0][:3]]
    most_left = int(fields[0])
    most_right = most_left + (int(fields[1]) if len(fields) > 2 else 0)
    if _largest(table, "left") > most_left or _largest(table, "right") > most_right:
        # The graph has more vertices than such a line would say.
        return
    raise InputError.at(
        path,
        line=n_above + 1,
        found=f"{shortened(' '.join(first[0]))}, which may be counts: {table.num_rows - 1} lines follow",
        remedy=f"set {setting('input.skip_lines')} to {n_above + 1} if it is not an edge, to 0 if it is",
        settings=[{"input.skip_lines": n_above + 1}, {"input.skip_lines": 0}],
    )


def may_be_counts(first: Sequence[Sequence[str]], n_rows: int) -> bool:
    """Return whether the first row's second or third number is the number of rows that follow."""
    fields = [field.strip() for field in first[0][:3]] if first else []
    return (
        n_rows > 1 and len(fields) > 1 and all(field.isdecimal() for field in fields) and str(n_rows - 1) in fields[1:]
    )


def _largest(table: pa.Table, role: str) -> float:
    """Return the largest key below the first row: infinite if one is negative, 0 if keys are not integers."""
    if role not in table.column_names:
        return 0
    below = pc.utf8_trim_whitespace(table.column(role).slice(1).cast(pa.string()))
    if not pc.all(pc.match_substring_regex(below, r"^-?\d{1,18}$")).as_py():
        return 0
    bounds = pc.min_max(below.cast(pa.int64())).as_py()
    return bounds["max"] if bounds["min"] >= 0 else math.inf

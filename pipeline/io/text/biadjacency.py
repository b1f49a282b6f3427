"""Biadjacency matrices: a row is a left vertex, a column a right vertex, and a cell says whether they are joined.

Cells hold 0 and 1, true and false, yes and no, ``x`` and nothing, or numbers. A non-zero number is an edge with that
weight. The first column holds the row names if it has no name or its values are not cells. `left` overrides this: a
column by name or position, or ``row`` for row numbers. The header names the columns. Row and column numbers start at 1
in text and at 0 in memory, as in Matrix Market and NumPy.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mbe_stage.pipeline.backends.arrow.plain import as_plain
from mbe_stage.pipeline.config.model import InputConfig
from mbe_stage.pipeline.config.setting_names import setting
from mbe_stage.pipeline.errors import InputError
from mbe_stage.pipeline.io import compression
from mbe_stage.pipeline.io.raw import Place, RawEdges, all_columns, refuse_repeated, refuse_several, shortened
from mbe_stage.pipeline.io.text.delimited import read_columns
from mbe_stage.pipeline.io.text.dialect import Dialect, find_dialect, header_or, names_column
from mbe_stage.pipeline.io.text.faults import find_fault
from mbe_stage.pipeline.io.text.layout import EMPTY, FLAGS

_ROWS = "row"


def read(path: Path, config: InputConfig) -> RawEdges:
    """Read a matrix from delimited text or from Parquet."""
    with compression.open_bytes(path) as stream:
        is_parquet = stream.peek(4)[:4] == b"PAR1"
    if is_parquet:
        from mbe_stage.pipeline.io import parquet

        raw = parquet.read(path, config, all_columns)
        return matrix_of_table(raw.header, raw.table.columns, config, str(path), has_names=True)
    dialect = find_dialect(path, config.model_copy(update={"left": 0, "right": 1}))
    if dialect.is_ragged:
        find_fault(path, config, dialect)
    if config.header is None and not dialect.has_header:
        _ask_for_header(path, dialect)
    columns = read_columns(path, config, dialect, all_columns(dialect.names, str(path)).positions)
    names, has_names = dialect.names, dialect.has_header
    return matrix_of_table(names, list(columns.values()), config, str(path), has_names=has_names, dialect=dialect.text)


def matrix_of_table(
    names: Sequence[str],
    columns: Sequence[Any],
    config: InputConfig,
    source: str,
    *,
    has_names: bool,
    in_memory: bool = False,
    dialect: str = "",
) -> RawEdges:
    """Return the edges of a table whose columns are right vertices.

    Parameters
    ----------
    columns : sequence of pa.Array or pa.ChunkedArray
        Booleans, numbers or text.
    has_names : bool
        True if the table names its columns.
    """
    # The number of the first row and column, if they have no names.
    first = int(not in_memory)
    refuse_several(config, source, "a matrix, whose columns are the right vertices")
    key = _key_column(names, columns, config, source, has_names=has_names)
    body = [i for i in range(len(names)) if i != key]
    keys = pa.array(range(first, len(columns[0]) + first)) if key is None else _plain(columns[key])
    right: list[Any] = [names[i] for i in body] if has_names else list(range(first, len(body) + first))
    refuse_repeated(right, "columns", source, "rename one")
    if pc.count_distinct(keys, mode="all").as_py() < len(keys):
        raise InputError.at(
            source,
            column=names[key or 0],
            found="repeated row names",
            expected="one row per left vertex",
            remedy=f"set {setting('input.left')} to {_ROWS} for row numbers",
            settings=[{"input.format": "biadjacency", "input.left": _ROWS}],
        )
    rows, of_column, weights = _edges(names, columns, body, source)
    wanted = {"left": keys.take(pa.array(rows)), "right": pa.array(right).take(pa.array(of_column))}
    if config.weight is not None:
        wanted["weight"] = pa.array(weights)
    return RawEdges(
        table=pa.table(wanted),
        source=source,
        format="memory" if in_memory else "biadjacency",
        names={"left": "row" if key is None else names[key], "right": "column", "weight": "value"},
        locate=lambda row: Place(f"{source}, row {rows[row] + 1}, column {names[body[of_column[row]]]!r}"),
        keys="inferred",
        dialect=f"{dialect}{', ' if dialect else ''}rows named by {'number' if key is None else repr(names[key])}",
        n_columns=None,
    )


def _ask_for_header(path: Path, dialect: Dialect) -> None:
    """Ask the user if the first row may name columns by numbers, as in tables made by pandas."""
    (corner, *cells), *below = [[cell.strip().lower() for cell in row] for row in dialect.rows]
    numbers = [number for number in map(_as_number, cells) if number is not None]
    if not below or len(cells) < 2 or not all(cells) or len(numbers) < len(cells) or len(set(cells)) < len(cells):
        return
    has_corner = not corner or (_as_number(corner) is None and names_column(corner, [row[0] for row in below]))
    others = {cell for row in below for cell in row[1:]}
    if has_corner or not (set(cells) <= FLAGS or (others - FLAGS and numbers != sorted(numbers))):
        way = {"input.format": "biadjacency"}
        raise header_or(path, dialect.rows[0], "a row of the matrix", line=dialect.n_skipped + 1, **way)


def _plain(column: Any) -> Any:
    return as_plain(column if isinstance(column, pa.ChunkedArray) else pa.chunked_array([column]))


def _key_column(
    names: Sequence[str], columns: Sequence[Any], config: InputConfig, source: str, *, has_names: bool
) -> int | None:
    """Return the column with the row names; None if rows are numbered."""
    if config.left == _ROWS and _ROWS not in names:
        return None
    if config.left != 0:
        if config.left in names:
            return list(names).index(str(config.left))
        if str(config.left).isdecimal() and int(config.left) < len(names):
            return int(config.left)
        raise InputError.at(
            source,
            found=f"no column {config.left!r} for {setting('input.left')}",
            expected=f"the column with the names of the rows, or {_ROWS}",
            remedy=f"set {setting('input.left')} to the name or position of that column",
        )
    values = {str(value).strip().lower() for value in _plain(columns[0]).to_pylist()}
    if (has_names and not names[0]) or any(_as_number(value) is None for value in values):
        return 0
    if not has_names or len(values) < len(columns[0]) or (values <= FLAGS and not values <= {"0", "1"}):
        return None
    raise InputError.at(
        source,
        column=names[0],
        found="numbers, which may be row names or values",
        remedy=f"set {setting('input.left')} to '0' for names, or to {_ROWS} for values",
        settings=[{"input.format": "biadjacency", "input.left": left} for left in ("0", _ROWS)],
    )


def _edges(
    names: Sequence[str], columns: Sequence[Any], body: list[int], source: str
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the row and column of each edge, from 0, and its weight."""
    parts = []
    for n, i in enumerate(body):
        values = _values(_plain(columns[i]), names[i], source)
        present = np.flatnonzero(values)
        parts.append((present, np.full(len(present), n), values[present]))
    rows, of_column, weights = map(np.concatenate, zip(*parts, strict=True))
    order = np.argsort(rows, kind="stable")
    return rows[order], of_column[order], weights[order]


def _values(column: Any, name: str, source: str) -> np.ndarray:
    """Return the numbers of a column, with 0 for no edge."""
    if not (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
        try:
            return np.nan_to_num(column.cast(pa.float64()).fill_null(0).to_numpy(zero_copy_only=False))
        except pa.ArrowException:
            pass
    coded = column.cast(pa.string()).dictionary_encode()
    texts = [str(text).strip().lower() for text in coded.dictionary.to_pylist()]
    numbers = np.array([_as_number(text) for text in texts] + [0.0], object)
    codes = coded.indices.fill_null(len(texts)).to_numpy(zero_copy_only=False)
    wrong = [i for i, number in enumerate(numbers) if number is None]
    if wrong:
        row = int(np.flatnonzero(np.isin(codes, wrong))[0])
        raise InputError.at(
            f"{source}, row {row + 1}",
            column=name,
            found=f"the cell {shortened(coded.dictionary[codes[row]].as_py())}",
            expected="0 or 1, true or false, yes or no, x or nothing, or a number",
            remedy=f"correct it, or name the columns of the edges with {setting('input.left')} and "
            f"{setting('input.right')}",
        )
    return numbers[codes].astype(np.float64)


def _as_number(text: str) -> float | None:
    if text in FLAGS:
        return float(text not in EMPTY)
    try:
        return float(text)
    except ValueError:
        return None

"""CSV, TSV and any other text with a delimiter between fields, read by pyarrow.

An empty field is a null; ``NA`` and ``null`` are ordinary keys. Quoted fields (``"``) may contain the delimiter,
doubled quotes and line breaks. Blanks that only pad fields are removed.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial, reduce
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from mbe_stage.pipeline.backends.arrow.key_encoder import NewColumn, new_column, plain_column
from mbe_stage.pipeline.backends.backend import is_key
from mbe_stage.pipeline.config.model import InputConfig
from mbe_stage.pipeline.config.setting_names import setting, switch
from mbe_stage.pipeline.errors import InputError
from mbe_stage.pipeline.execution import lack_of_memory
from mbe_stage.pipeline.io.raw import Choose, RawEdges, choose_columns, with_all_columns
from mbe_stage.pipeline.io.text.arrow_csv import read_csv
from mbe_stage.pipeline.io.text.decoding import open_text
from mbe_stage.pipeline.io.text.dialect import WHITESPACE, Dialect, find_dialect, rows_of
from mbe_stage.pipeline.io.text.faults import find_fault, place_of_row
from mbe_stage.pipeline.io.text.layout import refuse_count_line, refuse_other_layout
from mbe_stage.pipeline.io.text.whitespace import IteratorStream, line_blocks, one_blank

_BLOCK_BYTES = 8 << 20
_UNIT_SEPARATOR = "\x1f"


def without_padding(raw: RawEdges, config: InputConfig) -> RawEdges:
    """Return the same rows without blanks that pad their fields.

    Blanks are padding around weights and times. They are also padding if all values of the column are equally wide, or
    if every value begins or ends with a blank.
    """
    if config.trim is False:
        return raw
    columns = {role: _unpadded(raw, role, raw.table.column(role), config) for role in raw.table.column_names}
    return replace(raw, table=pa.table(columns))


def _unpadded(raw: RawEdges, role: str, values: pa.ChunkedArray, config: InputConfig) -> pa.ChunkedArray:
    if pa.types.is_dictionary(values.type):
        keys = values.chunk(0).dictionary
        # A look at each key is enough, and most files pad none.
        if pa.types.is_integer(keys.type) or not pc.any(pc.match_substring_regex(keys, r"^[ \t]|[ \t]$")).as_py():
            return values
        values = values.cast(pa.string())
    try:
        trimmed = pc.utf8_trim(values, " \t")
    except pa.ArrowInvalid:
        # Not UTF-8: the check of the keys names the row.
        return values
    is_padded = pc.not_equal(trimmed, values)
    if not pc.any(is_padded).as_py():
        return values
    # A field of blanks alone has no value.
    trimmed = pc.if_else(pc.equal(trimmed, ""), None, trimmed)
    if config.trim or not is_key(role):
        return trimmed
    if pc.count_distinct(trimmed).as_py() == pc.count_distinct(values).as_py():
        return trimmed if _aligns(values) else values
    row = int(pc.index(is_padded, True).as_py())
    raise InputError.at(
        raw.locate(row).where,
        column=raw.names[role],
        found=f"the key {values[row].as_py()!r}, which differs from others only in blanks around it",
        remedy=f"say with {switch('input.trim')} whether to remove blanks around keys",
        settings=[{"input.trim": True}, {"input.trim": False}],
    )


def _aligns(values: pa.ChunkedArray) -> bool:
    """Return whether all values are equally wide, or all have a blank on one side."""
    widths, blank_at = pc.min_max(pc.utf8_length(values)).as_py(), (pc.starts_with, pc.ends_with)
    return widths["min"] == widths["max"] or any(pc.all(affix(values, " ")).as_py() for affix in blank_at)


def read(path: Path, config: InputConfig, choose: Choose | None = None, new_column: NewColumn = new_column) -> RawEdges:
    """Read a delimited file; `choose` selects the columns, by default those of edges (at least two)."""
    dialect = find_dialect(path, config, fewest=2 if choose is None else 1)
    if choose is None:
        if dialect.is_ragged:
            find_fault(path, config, dialect)
        look, are_named = (lambda at: (row[at] for row in dialect.rows)), dialect.has_header
        chosen = with_all_columns(choose_columns(dialect.names, config, path, look, are_named=are_named), config)
        refuse_other_layout(path, config, dialect)
    else:
        chosen = choose(dialect.names, str(path))
    raw = chosen.edges(
        "csv",
        read_columns(path, config, dialect, chosen.positions, new_column if choose is None else plain_column),
        partial(place_of_row, path, config, dialect),
        keys="inferred",
        dialect=dialect.text,
        n_columns=dialect.n_columns,
        header=tuple(dialect.names) if dialect.has_header else (),
    )
    if choose is None and dialect.has_header:
        _refuse_header_again(raw)
    if choose is None and (not dialect.has_header or dialect.is_named_by_comment):
        refuse_count_line(path, config, dialect.rows[:1], dialect.n_skipped, raw.table)
    return without_padding(raw, config) if dialect.may_pad or config.trim else raw


def _refuse_header_again(raw: RawEdges) -> None:
    """Refuse a header among the rows, which appears when files are concatenated."""
    columns = {name: raw.table.column(role) for role, name in raw.names.items()}
    # Usually the name is not among the keys, which needs no look at the rows.
    for name, column in columns.items():
        keys = column.chunk(0).dictionary if pa.types.is_dictionary(column.type) and column.num_chunks == 1 else None
        if keys is not None and (
            pa.types.is_integer(keys.type) or pc.index(keys, pa.scalar(name, keys.type)).as_py() < 0
        ):
            return
    again = reduce(pc.and_, [pc.equal(column.cast(pa.string()), name) for name, column in columns.items()])
    row = pc.index(again, True).as_py()
    if row >= 0:
        raise raw.refusal(
            row,
            "left" if "left" in raw.names else next(iter(raw.names)),
            found="the header again",
            expected="one header, on the first line",
            remedy="remove the line, or give the files one by one or as a pattern instead of concatenating them",
        )


def read_columns(
    path: Path, config: InputConfig, dialect: Dialect, chosen: Mapping[str, int], new_column: NewColumn = new_column
) -> dict[str, pa.Array | pa.ChunkedArray]:
    """Read the columns of roles block by block, as text or as `new_column` keeps it."""
    if dialect.pads_quotes:
        find_fault(path, config, dialect)
        rows = [row for _, row in rows_of(path, config, dialect)]
        return {role: pa.array([row[at] or None for row in rows], pa.string()) for role, at in chosen.items()}
    # Generated names, because those in the file may repeat.
    names = [str(i) for i in range(dialect.n_columns)]
    # A column that is both a key and a weight is read as the key.
    of_roles = {names[at]: role for role, at in sorted(chosen.items(), key=lambda one: is_key(one[0]))}
    columns = {at: new_column(role, pa.string(), config.key_type != "string") for at, role in of_roles.items()}
    delimiter = _UNIT_SEPARATOR if dialect.delimiter == "::" else " " if dialect.delimiter == WHITESPACE else ""
    stream = open_text(path, config, blank=dialect.n_skipped)
    if delimiter:
        separated = IteratorStream(_separated(stream, dialect.delimiter, path), stream)
        stream = io.BufferedReader(separated, _BLOCK_BYTES)
    try:
        table, counted = read_csv(
            stream,
            columns,
            read_options=csv.ReadOptions(column_names=names, block_size=_BLOCK_BYTES),
            parse_options=csv.ParseOptions(
                delimiter=delimiter or dialect.delimiter,
                quote_char=False if delimiter else '"',
                newlines_in_values=not delimiter,
            ),
            convert_options=csv.ConvertOptions(
                column_types=dict.fromkeys(columns, pa.string()),
                include_columns=list(columns),
                null_values=[""],
                strings_can_be_null=True,
            ),
        )
    except pa.ArrowException as error:
        lack_of_memory.pass_on(error)
        find_fault(path, config, dialect)
        raise _unreadable(path, error) from None
    finally:
        stream.close()
    # pyarrow reads an unclosed quote as a field that spans the following lines. Line counts reveal swallowed lines;
    # then the file is read again, strictly.
    if counted.n_quotes % 2 or (counted.n_quotes and counted.n_lines != table.num_rows + dialect.n_skipped):
        find_fault(path, config, dialect)
    return {role: table.column(names[at]) for role, at in chosen.items()}


def _separated(stream: io.BufferedReader, delimiter: str, path: Path) -> Iterator[bytes]:
    """Yield the same lines with one character between fields."""
    for block in line_blocks(stream, str(path)):
        if delimiter == WHITESPACE:
            yield one_blank(block)
            continue
        if _UNIT_SEPARATOR.encode() in block:
            found, expected = f"the control character {_UNIT_SEPARATOR!r}", f"text between {delimiter!r}"
            raise InputError.at(path, found=found, expected=expected, remedy="remove it from the file")
        yield block.replace(delimiter.encode(), _UNIT_SEPARATOR.encode())


def _unreadable(path: Path, error: pa.ArrowException) -> InputError:
    cause = " ".join(str(error).split())
    if "straddling" in cause:
        cause = f"a row of more than {_BLOCK_BYTES >> 20} MiB"
    found, remedy = f"unreadable text ({cause})", f"check {setting('input.format')}"
    return InputError.at(path, found=found, expected="delimited text", remedy=remedy)

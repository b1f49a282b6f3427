"""The place of a fault in a delimited text, found by a strict and slow second reading."""

from __future__ import annotations

import csv
import itertools
from pathlib import Path

from mbe_stage.pipeline.config.model import InputConfig
from mbe_stage.pipeline.config.setting_names import setting, switch
from mbe_stage.pipeline.errors import InputError
from mbe_stage.pipeline.io.raw import Place, shortened
from mbe_stage.pipeline.io.text.decoding import not_in_encoding, read_sample
from mbe_stage.pipeline.io.text.dialect import WHITESPACE, Dialect, names_rows, rows_of


def place_of_row(path: Path, config: InputConfig, dialect: Dialect, row: int) -> Place:
    """Return the place of a data row."""
    try:
        line, fields = next(itertools.islice(rows_of(path, config, dialect), row, None))
    except csv.Error:
        return Place(f"{path}, row {row + 1}")
    text = " ".join(fields) if dialect.delimiter == WHITESPACE else ", ".join(fields)
    return Place(f"{path}, line {line}", text if len(fields) > 1 else None)


def find_fault(path: Path, config: InputConfig, dialect: Dialect) -> None:
    """Read strictly and refuse the first faulty row; return if there is none."""
    line = dialect.n_skipped
    n_good = 0
    try:
        for line, row in rows_of(path, config, dialect):
            if len(row) != dialect.n_columns:
                raise _ragged(path, config, dialect, (line, row), n_good)
            if not all(is_text(field) for field in row):
                raise not_in_encoding(path, line, f" in the line {shortened(', '.join(row))}")
            n_good += 1
    except csv.Error as error:
        raise quote_fault(path, error, line + 1) from None


def quote_fault(path: Path, error: csv.Error, line: int | None = None) -> InputError:
    """Return the refusal of a quote that is not closed, or does not end its field."""
    return InputError.at(
        path,
        line=line,
        found=f'a quote (") that is not closed or not at the end of its field ({error}), on this line or after it',
        expected='fields quoted as in "a ""quoted"" field"',
        remedy="correct the quotes",
    )


def _ragged(path: Path, config: InputConfig, dialect: Dialect, at: tuple[int, list[str]], n_before: int) -> InputError:
    """Return the refusal of a row with another number of fields, with the possible explanations."""
    line, row = at
    between = " " if dialect.delimiter == WHITESPACE else dialect.delimiter
    settings: list[dict[str, object]] = [{"input.format": "fimi", "input.delimiter": dialect.delimiter}]
    ways = f"set {setting('input.format')} to fimi if each line is a transaction of items"
    if row and row[0].lstrip()[:1] in ("#", "%", "!") and config.comment is None:
        settings.insert(0, {"input.comment": row[0].lstrip()[0]})
        ways = f"set {setting('input.comment')} to {row[0].lstrip()[0]!r} if this line is a comment, or {ways}"
    above = [text.lstrip()[:1] for text in read_sample(path, config).lines[: dialect.n_skipped]]
    marks = [mark for mark in above if mark in ("#", "%")]
    if marks and config.comment is None:
        # Transactions have no comments unless configured.
        settings[-1]["input.comment"] = marks[0]
    lengths = [(number, len(each)) for number, each in itertools.islice(rows_of(path, config, dialect), 1000)]
    skipped = _odd_lines_above(lengths)
    if config.header is None and names_rows([length for _, length in lengths]):
        settings.insert(0, {"input.header": True, "input.delimiter": dialect.delimiter})
        ways = f"say with {switch('input.header')} that the first line names all columns but the first, or {ways}"
    elif skipped:
        # Counts above a table are likelier than a short first transaction.
        is_counts = all(each.isdecimal() for each in row) or len(row) == 1
        settings.insert(0 if is_counts else len(settings), {"input.skip_lines": skipped})
        ways = f"set {setting('input.skip_lines')} to {skipped} if the table begins below, or {ways}"
    fields = "one field" if len(row) == 1 else f"{len(row)} fields"
    wanted = "the first line" if n_before else "most lines"
    return InputError.at(
        path,
        line=line,
        found=f"{fields} in the line {shortened(between.join(row))}",
        expected=f"{dialect.n_columns} fields, as in {wanted}",
        remedy=f"correct the line, quote fields that hold the delimiter, set {setting('input.delimiter')}, or {ways}",
        settings=settings,
    )


def _odd_lines_above(rows: list[tuple[int, int]]) -> int:
    """Return the number of lines above a table of equally long rows; 0 if there is no such table.

    `rows` has the line number and the length of each of the first rows.
    """
    length = rows[-1][1]
    n_odd = max((n for n, (_, each) in enumerate(rows, start=1) if each != length), default=0)
    return rows[n_odd][0] - 1 if length > 1 and len(rows) - n_odd >= max(2, n_odd) else 0


def is_text(field: str) -> bool:
    """Return False for bytes that are not UTF-8, which were decoded to lone surrogates."""
    return field.isascii() or not any("\udc80" <= character <= "\udcff" for character in field)

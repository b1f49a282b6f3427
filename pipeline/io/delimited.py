"""CSV, TSV and every other text with one delimiter between fields, read by pyarrow.

Keys are taken as they stand, blanks at their ends included; an empty field is a null, ``NA`` and ``null`` are keys like
any other. Fields may be quoted with ``"`` and then hold the delimiter, doubled quotes and line breaks.
"""

from __future__ import annotations

import csv as standard_csv
import io
import itertools
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import csv

from pipeline import lack_of_memory
from pipeline.config import InputConfig
from pipeline.errors import InputError
from pipeline.io.arrow_csv import read_csv
from pipeline.io.compression import open_bytes
from pipeline.io.dialect import Dialect, find_dialect, joined, rows_of
from pipeline.io.raw import Choose, Place, RawEdges, choose_columns, columns_meant, shortened
from pipeline.naming import setting

__all__ = ["read"]

_BLOCK_BYTES = 8 << 20


def read(path: Path, config: InputConfig, choose: Choose | None = None) -> RawEdges:
    """Read a delimited file; `choose` says which columns, by default those of edges, which are two at least."""
    dialect = find_dialect(path, config, fewest=2 if choose is None else 1)
    chosen = choose_columns(dialect.names, config, str(path)) if choose is None else choose(dialect.names, str(path))
    has_names = dialect.n_skipped > 0
    meant = () if choose else columns_meant(dialect.names, config, str(path), are_named=has_names)
    counted = _Counted(open_bytes(path))
    try:
        # Names of our own making: those in the file may repeat.
        names = [str(i) for i in range(dialect.n_columns)]
        wanted = [names[position] for position in chosen.values()]
        table = read_csv(
            counted,
            read_options=csv.ReadOptions(
                column_names=names, skip_rows_after_names=dialect.n_skipped, block_size=_BLOCK_BYTES
            ),
            parse_options=csv.ParseOptions(delimiter=dialect.delimiter, newlines_in_values=True),
            convert_options=csv.ConvertOptions(
                column_types=dict.fromkeys(wanted, pa.string()),
                include_columns=wanted,
                null_values=[""],
                strings_can_be_null=True,
            ),
        )
    except pa.ArrowException as error:
        lack_of_memory.pass_on(error)
        _find_fault(path, dialect)
        raise _unreadable(path, error) from None
    finally:
        counted.close()
    # pyarrow takes an unclosed quote for a field that spans the lines that follow. Swallowed lines show in the numbers;
    # then the file is read again, strictly.
    if counted.n_quotes % 2 or (counted.n_quotes and counted.n_lines != table.num_rows + dialect.n_skipped):
        _find_fault(path, dialect)
    return RawEdges(
        table=pa.table(dict(zip(chosen, table.columns, strict=True))),
        source=str(path),
        format="csv",
        names={role: dialect.names[position] for role, position in chosen.items()},
        locate=lambda row: _nth(path, dialect, row),
        keys="inferred",
        input_columns=meant,
        dialect=dialect.text,
        n_columns=dialect.n_columns,
        header=tuple(dialect.names) if has_names else (),
    )


class _Counted(io.RawIOBase):
    """A stream that counts the lines and the quotes that pass."""

    def __init__(self, inner: io.BufferedReader) -> None:
        self._inner = inner
        self._last = b"\n"
        self.n_quotes = 0
        self._n_feeds = 0

    @property
    def n_lines(self) -> int:
        """Lines so far, the last counted whether or not it is ended."""
        return self._n_feeds + (self._last != b"\n")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self._inner.read(len(buffer))
        if data:
            self.n_quotes += data.count(b'"')
            self._n_feeds += data.count(b"\n")
            self._last = data[-1:]
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        self._inner.close()
        super().close()


def _data_rows(path: Path, dialect: Dialect) -> Any:
    header_rows = 1 if dialect.n_skipped else 0
    return itertools.islice(rows_of(path, dialect.delimiter), header_rows, None)


def _nth(path: Path, dialect: Dialect, row: int) -> Place:
    try:
        line, fields = next(itertools.islice(_data_rows(path, dialect), row, None))
    except standard_csv.Error:
        return Place(f"{path}, row {row + 1}")
    return Place(f"{path}, line {line}", joined(fields) if len(fields) > 1 else None)


def _find_fault(path: Path, dialect: Dialect) -> None:
    """Read strictly and refuse the first row at fault; return where the file is sound."""
    line = dialect.n_skipped
    try:
        for line, row in rows_of(path, dialect.delimiter):
            if len(row) != dialect.n_columns:
                fields = "one field" if len(row) == 1 else f"{len(row)} fields"
                raise InputError.at(
                    path,
                    line=line,
                    found=f"{fields} in the line {shortened(dialect.delimiter.join(row))}",
                    expected=f"{dialect.n_columns} fields, as in the first line",
                    remedy="correct the line, quote fields that hold the delimiter, or set "
                    + setting("input.delimiter"),
                )
            if not all(_is_text(field) for field in row):
                raise InputError.at(
                    path,
                    line=line,
                    found=f"bytes that are not UTF-8 in the line {shortened(joined(row))}",
                    expected="UTF-8 text",
                    remedy="convert the file to UTF-8",
                )
    except standard_csv.Error as error:
        raise InputError.at(
            path,
            line=line + 1,
            found=f'a quote (") that is not closed or not at the end of its field ({error}), on this line or after it',
            expected='fields quoted as in "a ""quoted"" field"',
            remedy="correct the quotes",
        ) from None


def _is_text(field: str) -> bool:
    # Bytes that are not UTF-8 were read as lone surrogates.
    return field.isascii() or not any("\udc80" <= character <= "\udcff" for character in field)


def _unreadable(path: Path, error: pa.ArrowException) -> InputError:
    cause = " ".join(str(error).split())
    if "straddling" in cause:
        cause = f"a row of more than {_BLOCK_BYTES >> 20} MiB"
    return InputError.at(
        path, found=f"unreadable text ({cause})", expected="delimited text", remedy=f"check {setting('input.format')}"
    )

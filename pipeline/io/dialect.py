"""How a delimited file is written: which delimiter, and whether its first row names the columns."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pipeline.config import InputConfig
from pipeline.errors import InputError
from pipeline.io.compression import open_bytes, plain_name
from pipeline.io.raw import shortened
from pipeline.naming import setting, switch

__all__ = ["DELIMITERS", "Dialect", "find_dialect", "joined", "rows_of", "sample_rows", "splitting_delimiter"]

DELIMITERS = (",", "\t", ";", "|", " ")
_SPELLED = {"\\t": "\t", "tab": "\t", "space": " ", "comma": ",", "semicolon": ";", "pipe": "|"}
_SAMPLE_BYTES = 256 << 10
_NUMBER = re.compile(r"\s*[+-]?\d")
# A number or a day, whole.
_VALUE = re.compile(r"\s*([+-]?\d+(\.\d*)?([eE][+-]?\d+)?|\d{4}-\d\d-\d\d.*)\s*")
# Words that name columns and are hardly ever keys themselves.
_HEADER_WORDS = frozenset(
    {"left", "right", "source", "target", "src", "dst", "from", "to", "u", "v", "node", "nodes", "vertex", "id", "ids"}
    | {"uid", "key", "keys", "name", "names", "user", "users", "item", "items", "weight", "timestamp", "time", "date"}
    | {"customer", "account", "product", "merchant", "author", "paper", "title", "actor", "movie", "film", "group"}
)
# How files write that there is no value; above numbers, it says nothing.
_NOTHING = frozenset({"", "-", "?", "na", "n/a", "nan", "nil", "none", "null", "\\n"})


@dataclass(frozen=True, slots=True)
class Dialect:
    """How the file is written.

    Attributes
    ----------
    delimiter : str
    names : list of str
        From the first row, or ``column 0``, ``column 1``, ... where it is data.
    n_skipped : int
        Rows before the first data row, blank ones counted.
    """

    delimiter: str
    names: list[str]
    n_skipped: int

    @property
    def n_columns(self) -> int:
        """Fields in a row."""
        return len(self.names)

    @property
    def text(self) -> str:
        """In words, such as ``comma, header``."""
        names = {"\t": "tab", ",": "comma", ";": "semicolon", "|": "pipe", " ": "blank"}
        header = "header" if self.n_skipped else "no header"
        return f"{names.get(self.delimiter, repr(self.delimiter))}, {header}"


def find_dialect(path: Path, config: InputConfig, fewest: int = 2) -> Dialect:
    """Work out the dialect from the configuration, the file's name and its first rows.

    Parameters
    ----------
    path : Path
    config : InputConfig
    fewest : int
        Columns that there have to be.

    Raises
    ------
    InputError
        There are fewer columns, the delimiter is not one ASCII character, or nothing tells a header from data.
    """
    with open_bytes(path) as stream:
        head = stream.read(_SAMPLE_BYTES)
    text = _decoded(head, path)
    whole = len(head) < _SAMPLE_BYTES
    delimiter = _delimiter(path, config, text, whole)
    rows = sample_rows(text, delimiter, whole=whole)
    filled = [index for index, row in enumerate(rows) if row]
    if not filled:
        raise InputError.at(path, found="no rows", expected="one edge a row", remedy="check that the file is complete")
    first = rows[filled[0]]
    if len(first) < fewest:
        raise _one_column(path, delimiter, text, filled[0] + 1)
    header = config.header if config.header is not None else _is_header(path, config, rows, filled)
    if header:
        return Dialect(delimiter, first, filled[0] + 1)
    return Dialect(delimiter, [f"column {i}" for i in range(len(first))], 0)


def sample_rows(text: str, delimiter: str, *, whole: bool) -> list[list[str]]:
    """The rows of the beginning of a file; its last row is left out where it may be cut off (unless `whole`)."""
    try:
        rows = list(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter))
    except csv.Error:
        # A field longer than the module's limit: the first lines are enough to see the dialect.
        rows = [line.split(delimiter) for line in text.splitlines()]
    return rows if whole or len(rows) < 2 else rows[:-1]


def splitting_delimiter(text: str, *, whole: bool) -> str | None:
    """The delimiter that splits the sample's rows into equally many fields, at least two; None where none does."""
    best, most = None, 0
    for delimiter in DELIMITERS:
        rows = [row for row in sample_rows(text, delimiter, whole=whole) if row]
        agreeing = sum(len(row) == len(rows[0]) for row in rows) if rows and len(rows[0]) > 1 else 0
        if agreeing > most:
            best, most = delimiter, agreeing
    return best


def rows_of(path: Path, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """Each row that is not blank with the line it begins on, read strictly; slow, for the way to an error.

    Raises
    ------
    csv.Error
        A quote is not closed, or text follows a closing quote.
    """
    limit = csv.field_size_limit(2**31 - 1)
    try:
        with open_bytes(path) as stream:
            text = io.TextIOWrapper(stream, encoding="utf-8-sig", errors="surrogateescape", newline="")
            reader = csv.reader(text, delimiter=delimiter, strict=True)
            line = 1
            for row in reader:
                if row:
                    yield line, row
                line = reader.line_num + 1
    finally:
        csv.field_size_limit(limit)


def _decoded(head: bytes, path: Path) -> str:
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise InputError.at(path, line=1, found="UTF-16", expected="UTF-8", remedy="convert the file to UTF-8")
    return head.decode("utf-8-sig", errors="replace")


def _delimiter(path: Path, config: InputConfig, text: str, whole: bool) -> str:
    if config.delimiter is not None:
        delimiter = _SPELLED.get(config.delimiter, config.delimiter)
        if len(delimiter) != 1 or not delimiter.isascii() or delimiter in '"\r\n\0':
            raise InputError.at(
                path,
                found=f"{setting('input.delimiter')} {config.delimiter!r}",
                expected="one ASCII character, or tab, space, comma, semicolon, pipe",
                remedy=f"set {setting('input.delimiter')}, for example to ';'",
            )
        return delimiter
    if plain_name(path).endswith((".tsv", ".tab")):
        return "\t"
    return splitting_delimiter(text, whole=whole) or ","


def _one_column(path: Path, delimiter: str, text: str, line: int) -> InputError:
    first = next((row for row in text.splitlines() if row), "")
    other = splitting_delimiter(text, whole=False)
    remedy = (
        f"set {setting('input.delimiter')}: {other!r} splits it"
        if other
        else f"set {setting('input.delimiter')}, or {setting('input.format')}"
    )
    return InputError.at(
        path,
        line=line,
        found=f"one column with the delimiter {delimiter!r}: {shortened(first)}",
        expected="at least two columns",
        remedy=remedy,
    )


def _is_header(path: Path, config: InputConfig, rows: list[list[str]], filled: list[int]) -> bool:
    """Whether the first row names the columns; refuses to guess where nothing tells.

    The chosen columns speak first; where they do not tell, the others do, unless they contradict each other.
    """
    first, below = rows[filled[0]], [rows[index] for index in filled[1:]]
    chosen = [key for key in (config.left, *config.right_columns, config.weight, config.timestamp) if key is not None]
    if any(isinstance(key, str) and not key.isdecimal() and key in first for key in chosen):
        return True
    positions = [int(key) for key in chosen if str(key).isdecimal() and int(key) < len(first)]
    if not positions:
        return True
    told = _told_by([(first[position], _column(below, position)) for position in positions])
    if told is not None:
        return told
    others = [
        position
        for position, cell in enumerate(first)
        if position not in positions and cell.strip().lower() not in _NOTHING
    ]
    verdicts = {_told_by([(first[position], _column(below, position))]) for position in others} - {None}
    if len(verdicts) == 1:
        return verdicts == {True}
    raise InputError.at(
        path,
        line=filled[0] + 1,
        found=f"{shortened(joined(first))}, which may be a header or an edge",
        expected="a first line that tells, or to be told",
        remedy=f"say which with {switch('input.header')}",
    )


def _column(rows: list[list[str]], position: int) -> list[str]:
    """What stands in a column, empty fields left out."""
    return [row[position] for row in rows if position < len(row) and row[position]]


def _told_by(columns: list[tuple[str, list[str]]]) -> bool | None:
    """Whether the first row is a header by cells of it and what stands below each; None where they do not tell."""
    if any(_NUMBER.match(cell) for cell, _ in columns):
        return False
    for cell, below in columns:
        if below and all(_VALUE.fullmatch(value) for value in below):
            return True
        if cell in below:
            return False
    words = {word for cell, _ in columns for word in re.split(r"[^a-z]+", cell.lower())}
    return True if words & _HEADER_WORDS else None


def joined(row: list[str]) -> str:
    """A row as one would read it."""
    return ", ".join(row)

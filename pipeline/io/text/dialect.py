"""The dialect of a delimited text: comment lines above the table, the delimiter and the header.

Uncertain cases become a question: an `InputError` whose settings are the possible answers.
"""

from __future__ import annotations

import csv
import io
import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from mbe_stage.pipeline.config.model import InputConfig
from mbe_stage.pipeline.config.setting_names import setting, switch
from mbe_stage.pipeline.errors import InputError
from mbe_stage.pipeline.io.raw import shortened
from mbe_stage.pipeline.io.text.decoding import lines_of, open_text, read_sample

WHITESPACE = "whitespace"
DELIMITER_NAMES = {
    "\t": "tab",
    ",": "comma",
    ";": "semicolon",
    "|": "pipe",
    "::": "::",
    " ": "blank",
    WHITESPACE: "blanks",
}
MARKS = ("\t", ",", ";", "|")
"""One-character delimiters that rarely occur in keys."""
_SPELLED = {name: each for each, name in DELIMITER_NAMES.items()} | {"\\t": "\t", "space": " ", WHITESPACE: WHITESPACE}
SEPARATOR_LINE = re.compile(r'\s*"?sep=(.)"?\s*')
# Smallest share of rows with the common length for a table with odd lines.
_MOST_ROWS = 0.5
_NUMBER = re.compile(r"\s*[+-]?\d")
# A whole field that is a number or a date.
_VALUE = re.compile(r"\s*([+-]?\d+(\.\d*)?([eE][+-]?\d+)?|\d{4}-\d\d-\d\d.*)\s*")
# Words that name columns and are rarely keys themselves.
_HEADER_WORDS = frozenset(
    {"left", "right", "source", "target", "src", "dst", "from", "to", "u", "v", "node", "nodes", "vertex", "id", "ids"}
    | {"uid", "key", "keys", "name", "names", "user", "users", "item", "items", "weight", "timestamp", "time", "date"}
    | {"customer", "account", "product", "merchant", "author", "paper", "title", "actor", "movie", "film", "group"}
)
# Spellings of a missing value. Above numbers, they do not indicate a header.
_NOTHING = frozenset({"", "-", "?", "na", "n/a", "nan", "nil", "none", "null", "\\n"})


@dataclass(frozen=True, slots=True)
class Dialect:
    """The layout of the file.

    Attributes
    ----------
    delimiter : str
        One character, ``::``, or ``whitespace`` for runs of blanks and tabs.
    names : list of str
        From the header, or ``column 0``, ``column 1``, ... without one.
    n_skipped : int
        Lines before the first data row: comments, header, blank lines.
    rows : list of list of str
        The first data rows.
    pads_quotes : bool
        True if blanks precede opening quotes.
    is_named_by_comment : bool
        True if the header is a comment line.
    may_pad : bool
        True if blanks around fields may be padding: some stand outside quotes, or there are no quotes.
    """

    delimiter: str
    names: list[str]
    n_skipped: int
    has_header: bool = False
    rows: list[list[str]] = field(default_factory=list)
    pads_quotes: bool = False
    may_pad: bool = True
    is_named_by_comment: bool = False

    @property
    def n_columns(self) -> int:
        """Fields in a row."""
        return len(self.names)

    @property
    def is_ragged(self) -> bool:
        """Return whether the first rows have different numbers of fields."""
        return any(len(row) != self.n_columns for row in self.rows)

    @property
    def text(self) -> str:
        """A description such as ``comma, header``."""
        name = DELIMITER_NAMES.get(self.delimiter, repr(self.delimiter))
        return f"{name}, {'header' if self.has_header else 'no header'}"


def find_dialect(path: Path, config: InputConfig, fewest: int = 2) -> Dialect:
    """Determine the dialect, of at least `fewest` columns, from the configuration and the first lines."""
    lines = read_sample(path, config).lines
    n_lead, separator = _lead(lines, config)
    body = "\n".join(lines[n_lead:])
    if not body.strip():
        first_key = next((n for n, line in enumerate(lines) if re.match(r"\s*[#%]\S", line)), None)
        if first_key is not None and config.comment is None:
            raise _may_be_comment(path, first_key + 1, lines[first_key].strip())
        found = "no rows" if not any(line.strip() for line in lines) else "no rows below the comment lines"
        raise InputError.at(path, found=found, expected="one edge a row", remedy="check that the file is complete")
    delimiter = separator_of(path, config) or separator or _delimiter(path, body, n_lead)
    rows = split_rows(body, delimiter)
    filled = [index for index, row in enumerate(rows) if row]
    data = [rows[index] for index in filled]
    line = n_lead + _lines_before(body, delimiter, filled[0]) + 1
    if config.header and names_rows(list(map(len, data))):
        # R writes no name for the column of row names.
        data[0].insert(0, "")
    if fewest > 1 and len({len(row) for row in data}) > 1:
        # Ask nothing yet: the reader refuses the file and names the first odd row.
        most, share = agreeing(body, delimiter)
        width = most if share >= _MOST_ROWS else len(data[0])
        return Dialect(delimiter, _numbered(max(width, fewest)), n_lead, rows=data)
    if len(data[0]) < fewest:
        raise _one_column(path, delimiter, body, line)
    padded = delimiter not in (" ", WHITESPACE) and re.search(re.escape(delimiter) + ' +"', body) is not None
    may_pad = '"' not in body or _pads_unquoted(body, delimiter)
    named = _names_in_comment(path, lines[:n_lead], delimiter, data, config)
    if config.header if config.header is not None else named is None and _is_header(path, config, data, line):
        last = n_lead + _lines_before(body, delimiter, filled[0] + 1)
        names = [cell.strip() for cell in data[0]]
        return Dialect(delimiter, names, last, has_header=True, rows=data[1:], pads_quotes=padded, may_pad=may_pad)
    names = named or _numbered(len(data[0]))
    is_named = named is not None
    return Dialect(delimiter, names, n_lead, is_named, data, padded, may_pad, is_named_by_comment=is_named)


def separator_of(path: Path, config: InputConfig) -> str | None:
    """Return the configured delimiter."""
    if config.delimiter is None:
        return None
    delimiter = _SPELLED.get(config.delimiter, config.delimiter)
    if delimiter not in DELIMITER_NAMES and (len(delimiter) != 1 or not delimiter.isascii() or delimiter in '"\r\n\0'):
        raise InputError.at(
            path,
            found=f"{setting('input.delimiter')} {config.delimiter!r}",
            expected="one ASCII character, '::', or tab, space, whitespace, comma, semicolon, pipe",
            remedy=f"set {setting('input.delimiter')}, for example to ';'",
        )
    return delimiter


def split_rows(text: str, delimiter: str) -> list[list[str]]:
    """Split a text into rows; a blank line is an empty row."""
    if delimiter in (WHITESPACE, "::"):
        separator = None if delimiter == WHITESPACE else delimiter
        return [line.split(separator) if line.strip() else [] for line in lines_of(text)]
    try:
        between = io.StringIO(text, newline="")
        return list(csv.reader(between, delimiter=delimiter, skipinitialspace=delimiter != " "))
    except csv.Error:
        # A field exceeds the module's limit. The first lines are enough to see the dialect.
        return [line.split(delimiter) if line else [] for line in lines_of(text)]


def uniform_delimiters(text: str) -> list[str]:
    """Return the delimiters that split every row into equally many fields, at least two.

    A tab takes precedence, then any other delimiter, then blanks, which may be part of keys.
    """
    found = [delimiter for delimiter in DELIMITER_NAMES if agreeing(text, delimiter)[1] == 1.0]
    if "\t" in found:
        return ["\t"]
    strong = [delimiter for delimiter in found if delimiter not in (" ", WHITESPACE)]
    return strong or found[:1]


def rows_of(path: Path, config: InputConfig, dialect: Dialect) -> Iterator[tuple[int, list[str]]]:
    """Yield each data row with its first line number, read strictly; slow, so only for odd dialects and errors.

    A quote that is not closed, or text after a closing quote, raises `csv.Error`.
    """
    limit = csv.field_size_limit(2**31 - 1)
    try:
        with open_text(path, config, blank=dialect.n_skipped) as stream:
            text = io.TextIOWrapper(stream, encoding="utf-8-sig", errors="surrogateescape", newline="")
            if dialect.delimiter in (WHITESPACE, "::"):
                split = None if dialect.delimiter == WHITESPACE else dialect.delimiter
                stripped = (line.rstrip("\r\n") for line in text)
                yield from ((n, line.split(split)) for n, line in enumerate(stripped, start=1) if line.strip())
                return
            # A quote after blanks opens a field if the sample has such fields.
            reader = csv.reader(text, delimiter=dialect.delimiter, strict=True, skipinitialspace=dialect.pads_quotes)
            line = 1
            for row in reader:
                if row:
                    yield line, row
                line = reader.line_num + 1
    finally:
        csv.field_size_limit(limit)


def _pads_unquoted(body: str, delimiter: str) -> bool:
    fields = (field for line in lines_of(body) for field in line.split(delimiter) if '"' not in field and field.strip())
    return any(field != field.strip(" \t") for field in fields)


def _numbered(n: int) -> list[str]:
    return [f"column {i}" for i in range(n)]


def header_or(
    path: Path,
    row: list[str],
    other: str,
    expected: str = "an explicit setting",
    line: int | None = None,
    **also: object,
) -> InputError:
    """Return the question whether a row is a header, with the settings that are needed in addition."""
    return InputError.at(
        path,
        line=line,
        found=f"{shortened(', '.join(row))}, which may be a header or {other}",
        expected=expected,
        remedy=f"say which with {switch('input.header')}",
        settings=[{**also, "input.header": each} for each in (True, False)],
    )


def _lead(lines: list[str], config: InputConfig) -> tuple[int, str | None]:
    """Return the number of lines above the table, and the delimiter from Excel's line ``sep=;``."""
    comments = ("#", "%") if config.comment is None else ()
    separator = None
    n = 0
    for line in lines:
        match = SEPARATOR_LINE.fullmatch(line)
        if match and separator is None and any(match[1] in below for below in lines[n + 1 :][:1]):
            separator = match[1]
        elif line.strip() and not (comments and line.lstrip().startswith(comments)):
            break
        n += 1
    return n, separator


def _delimiter(path: Path, body: str, n_lead: int) -> str:
    found = uniform_delimiters(body)
    if len(found) > 1:
        names = " or ".join(DELIMITER_NAMES[each] for each in found)
        raise InputError.at(
            path,
            line=n_lead + 1,
            found=f"{shortened(lines_of(body.lstrip())[0])}, which {names} may split",
            expected="a single delimiter that splits all lines into equally many fields",
            remedy=f"set {setting('input.delimiter')} to {names}",
            settings=[{"input.delimiter": each} for each in found],
        )
    if found and found[0] not in (" ", WHITESPACE):
        return found[0]
    if found:
        marks = [mark for mark in MARKS if mark in body]
        if '"' in body or not marks or marks == ["\t"]:
            # Runs of blanks, unless only single blanks split all rows, as with quoted or empty fields.
            is_run = found[0] == WHITESPACE or ('"' not in body and agreeing(body, WHITESPACE)[1] == 1.0)
            return WHITESPACE if is_run else " "
        ways: list[dict[str, object]] = [{"input.format": "fimi", "input.delimiter": mark} for mark in marks]
        raise InputError.at(
            path,
            line=n_lead + 1,
            found=f"{shortened(lines_of(body.lstrip())[0])}, which blanks split, or "
            + " or ".join(DELIMITER_NAMES[mark] for mark in marks),
            expected="an explicit delimiter",
            remedy=f"set {setting('input.delimiter')} to whitespace for edges, or {setting('input.format')} to fimi "
            "for transactions",
            settings=[{"input.delimiter": WHITESPACE}, *ways],
        )
    best = max(DELIMITER_NAMES, key=lambda each: agreeing(body, each)[1])
    if best == " " and '"' not in body:
        return WHITESPACE
    return best if agreeing(body, best)[1] else ","


def names_rows(lengths: list[int]) -> bool:
    """Return whether only the first row is one field shorter, as in tables that R writes with row names."""
    return len(lengths) > 2 and set(lengths[1:]) == {lengths[0] + 1}


def agreeing(text: str, delimiter: str) -> tuple[int, float]:
    """Return the most common number of fields and the share of rows that have it; a share of 0 for one field."""
    rows = [row for row in split_rows(text, delimiter) if row]
    lengths = [len(row) for row in rows]
    quotes_within = '"' in text and '""' not in text and any('"' in cell for row in rows for cell in row)
    if not lengths or (quotes_within and delimiter != WHITESPACE):
        return 0, 0.0
    most = max(set(lengths), key=lengths.count)
    return most, lengths.count(most) / len(lengths) if most > 1 else 0.0


def _lines_before(body: str, delimiter: str, n_rows: int) -> int:
    """Count the lines of the first rows; quoted fields may span several."""
    if delimiter in (WHITESPACE, "::"):
        return n_rows
    reader = csv.reader(io.StringIO(body, newline=""), delimiter=delimiter)
    try:
        for _ in itertools.islice(reader, n_rows):
            pass
    except csv.Error:
        return n_rows
    return reader.line_num


def _one_column(path: Path, delimiter: str, text: str, line: int) -> InputError:
    first = next((row for row in lines_of(text) if row.strip()), "")
    others = [each for each in uniform_delimiters(text) if each != delimiter]
    remedy = f"set {setting('input.delimiter')}, or {setting('input.format')} to fimi if each line is a transaction"
    if others:
        names = " or ".join(DELIMITER_NAMES[each] for each in others)
        remedy = f"set {setting('input.delimiter')} to {names}, which splits it"
    return InputError.at(
        path,
        line=line,
        found=f"one column with the delimiter {delimiter!r}: {shortened(first)}",
        expected="at least two columns",
        remedy=remedy,
        settings=[{"input.delimiter": each} for each in others] or [{"input.format": "fimi"}],
    )


def _names_in_comment(
    path: Path, lead: list[str], delimiter: str, data: list[list[str]], config: InputConfig
) -> list[str] | None:
    """Return the column names if the last comment line above the table is a header; ask if it is unclear."""
    comments = [(n, line.strip()) for n, line in enumerate(lead, start=1) if line.lstrip().startswith(("#", "%"))]
    if not comments or config.header is not None or config.comment is not None:
        return None
    line, text = comments[-1]
    bare = text.lstrip("#%")
    later = next((row for row in data if row[0].lstrip()[:1] == text[0]), None)
    if later is not None:
        raise _may_be_comment(path, line + bare[:1].isspace(), ", ".join(later), text[0])
    cells = next(iter(split_rows(bare.strip(), delimiter)), [])
    if len(cells) != len(data[0]):
        return None
    if _judged([(cell, _column(data, i)) for i, cell in enumerate(cells)]):
        return [cell.strip() for cell in cells]
    if bare[:1].isspace():
        return None
    raise _may_be_comment(path, line, text)


def _may_be_comment(path: Path, line: int, text: str, mark: str = "") -> InputError:
    mark = mark or text[0]
    no_comments: dict[str, object] = {"input.comment": ""}
    below = {"input.skip_lines": line - 1, **no_comments}
    return InputError.at(
        path,
        line=line,
        found=f"{shortened(text)}, which may be a comment, or a row whose first key begins with {mark!r}",
        remedy=f"set {setting('input.comment')} to {mark!r} for a comment; for a row set it to '' and "
        f"{setting('input.skip_lines')} to {line - 1}",
        settings=[{"input.comment": mark}, below, {**below, "input.header": False}],
    )


def _is_header(path: Path, config: InputConfig, data: list[list[str]], line: int) -> bool:
    """Return whether the first row names the columns; ask if it is unclear.

    The chosen columns decide. If they do not, the other columns do, unless they contradict each other.
    """
    first, below = data[0], data[1:]
    named = (config.left, *config.right_columns, config.weight, config.timestamp, config.by)
    chosen = [key for key in named if key is not None]
    stripped = [cell.strip() for cell in first]
    if any(isinstance(key, str) and not key.isdecimal() and key in stripped for key in chosen):
        return True
    positions = [int(key) for key in chosen if str(key).isdecimal() and int(key) < len(first)]
    if not positions:
        return True
    if first in below and all(_names_a_column(first[position]) for position in positions):
        # Concatenated files: the reader refuses the second header.
        return True
    verdict = _judged([(first[position], _column(below, position)) for position in positions])
    if verdict is not None:
        return verdict
    others = {position for position, cell in enumerate(stripped) if cell.lower() not in _NOTHING} - {*positions}
    verdicts = {_judged([(first[position], _column(below, position))]) for position in others} - {None}
    if len(verdicts) == 1:
        return verdicts == {True}
    raise header_or(path, first, "an edge", "an unambiguous first line, or an explicit setting", line)


def _column(rows: list[list[str]], position: int) -> list[str]:
    """Return the non-empty fields of a column."""
    return [row[position] for row in rows if position < len(row) and row[position]]


def _judged(columns: list[tuple[str, list[str]]]) -> bool | None:
    """Return whether the first row is a header, judged by its cells and the values below; None if unclear."""
    if any(_NUMBER.match(cell) for cell, _ in columns):
        return False
    verdicts = {names_column(cell, below) for cell, below in columns} - {None}
    return verdicts.pop() if len(verdicts) == 1 else None


def names_column(cell: str, below: list[str]) -> bool | None:
    """Return whether a cell names the column of the cells below it; None if unclear."""
    if below and all(_VALUE.fullmatch(value) for value in below):
        return True
    has_digits = any(character.isdigit() for character in cell)
    alike = sum(_shape(value) == _shape(cell) for value in below) if has_digits else 0
    if cell in below or alike * 2 > len(below):
        return False
    return True if _names_a_column(cell) and not has_digits else None


def _names_a_column(cell: str) -> bool:
    return not _HEADER_WORDS.isdisjoint(re.split(r"[^a-z]+", cell.lower()))


def _shape(text: str) -> str:
    """Replace each number in a text, so that keys such as ``user_17`` have one shape."""
    return re.sub(r"\d+", "0", text)

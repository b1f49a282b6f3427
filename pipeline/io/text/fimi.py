"""Transactions in FIMI format: one transaction per line, with items separated by blanks or a delimiter.

The left key is the line number from 1, as in an editor, so a group can be looked up in the file. A blank line is a
transaction without items: it keeps its number and has no edge. Empty fields are not items. The columns are
`transaction` (0) and `item` (1). The left key may also be `id`, if the first field names the transaction, or `count`,
if the first field is the number of items.
"""

from __future__ import annotations

import csv
import itertools
import re
from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mbe_stage.pipeline import run_state
from mbe_stage.pipeline.config.model import InputConfig
from mbe_stage.pipeline.config.setting_names import setting
from mbe_stage.pipeline.errors import InputError
from mbe_stage.pipeline.execution import lack_of_memory
from mbe_stage.pipeline.io.raw import Place, RawEdges, choose_columns, refuse_several, refuse_two_sets, shortened
from mbe_stage.pipeline.io.text.decoding import not_in_encoding, open_text, read_sample
from mbe_stage.pipeline.io.text.dialect import (
    DELIMITER_NAMES,
    MARKS,
    WHITESPACE,
    Dialect,
    header_or,
    rows_of,
    separator_of,
    split_rows,
)
from mbe_stage.pipeline.io.text.faults import is_text, quote_fault
from mbe_stage.pipeline.io.text.layout import counts_items
from mbe_stage.pipeline.io.text.whitespace import line_blocks

_NAMES = ["transaction", "item", "id", "count"]
_NUMBERED = re.compile(r"(.*?)[ _-]?(\d+)")


def read(path: Path, config: InputConfig) -> RawEdges:
    """Read transactions."""
    refuse_several(config, str(path), "transactions of items")
    refuse_two_sets(config, str(path), "transactions of items, which are two kinds of vertices")
    chosen = choose_columns(_NAMES, config, path, are_named=False)
    of_left = _NAMES[chosen.positions["left"]]
    lines = read_sample(path, config).lines
    if not any(map(str.strip, lines)):
        raise _no_items(path)
    delimiter = separator_of(path, config) or _delimiter(path, lines)
    rows = [row for row in split_rows("\n".join(lines), delimiter) if any(map(str.strip, row))]
    if not rows:
        raise _no_items(path)
    if config.header is None:
        _ask_for_header(path, rows)
    has_header = bool(config.header)
    rows = rows[1:] if has_header and len(rows) > 1 else rows
    if config.left == 0:
        _ask_for_first_field(path, rows)
    if delimiter == WHITESPACE and not has_header and of_left == "transaction":
        numbers, items = _read_blocks(path, config)
    else:
        numbers, items = _read_rows(path, config, delimiter, has_header=has_header)
    left = pa.chunked_array([pa.array(numbers)])
    if of_left in ("id", "count"):
        numbers, left, items = _without_first(path, numbers, items, keeps=of_left == "id")
    return chosen.edges(
        "fimi",
        chosen.of([left, items, left, left]),
        lambda row: _place(path, config, int(numbers[row])),
        keys="integers" if delimiter == WHITESPACE and config.delimiter is None else "inferred",
        dialect=DELIMITER_NAMES.get(delimiter, repr(delimiter)) + (", header" if has_header else ""),
    )


def _delimiter(path: Path, lines: list[str]) -> str:
    """Return blanks or, if the lines have none, the one delimiter in them."""
    text = "\n".join(lines)
    others = [each for each in MARKS if each in text]
    if not others or (others == ["\t"] and " " not in text):
        return WHITESPACE
    if len(others) == 1 and " " not in text:
        return others[0]
    ways = [*others, WHITESPACE]
    raise InputError.at(
        path,
        found=f"{shortened(next(line for line in lines if line.strip()))}, which may hold items between "
        + " or ".join(DELIMITER_NAMES[each] for each in ways),
        expected="an explicit delimiter",
        remedy=f"set {setting('input.delimiter')}, for example to {DELIMITER_NAMES[others[0]]}",
        settings=[{"input.delimiter": each} for each in ways],
    )


def _numbers_columns(first: list[str]) -> bool:
    """Return whether a row counts columns: ``Item 1, Item 2, ...``, possibly after one other name."""
    matches = [_NUMBERED.fullmatch(cell.strip()) for cell in first]
    for start in (0, 1):
        found = [match for match in matches[start:] if match]
        if len(found) == len(matches) - start >= 2 and found[0][1]:
            return len({(match[1], int(match[2]) - at) for at, match in enumerate(found)}) == 1
    return False


def _ask_for_header(path: Path, rows: list[list[str]]) -> None:
    """Ask the user if the first row may count columns."""
    below = {cell for row in rows[1:] for cell in row}
    if len(rows) > 1 and _numbers_columns(rows[0]) and below.isdisjoint(rows[0]):
        raise header_or(path, rows[0], "a transaction")


def _ask_for_first_field(path: Path, rows: list[list[str]]) -> None:
    """Ask the user if the first field of each row may count the items or name the transaction."""
    cells = [[cell.strip() for cell in row] for row in rows]
    first = [row[0] for row in cells]
    others = Counter(cell for row in cells for cell in row[1:] if cell)
    if counts_items(cells):
        what, left = "the number of items", "count"
    elif 1 < len(first) == len({*first} - others.keys()) and max(others.values(), default=0) > 1:
        what, left = "the transaction's own name", "id"
    else:
        return
    raise InputError.at(
        path,
        found=f"{shortened(first[0])} before {shortened(', '.join(rows[0][1:]))}, which may be an item or {what}",
        remedy=f"set {setting('input.left')} to {left}, or to transaction if the first field is an item",
        settings=[{"input.left": left}, {"input.left": "transaction"}],
    )


def _read_blocks(path: Path, config: InputConfig) -> tuple[np.ndarray, pa.ChunkedArray]:
    """Return the line and the text of each item between blanks."""
    numbers, items, n_lines = list[np.ndarray](), list[pa.Array](), 0
    with open_text(path, config) as stream:
        for block in line_blocks(stream, str(path)):
            lines = block[:-1].split(b"\n")
            try:
                fields = pc.ascii_split_whitespace(pa.array(lines, pa.binary()).cast(pa.string()))
            except pa.ArrowException as error:
                lack_of_memory.pass_on(error)
                raise _not_text(path, block, n_lines, error) from None
            # Blanks around a line make empty fields.
            is_item = pc.not_equal(found := fields.flatten(), "")
            items.append(found.filter(is_item))
            numbers.append(fields.value_parent_indices().filter(is_item).to_numpy() + (n_lines + 1))
            n_lines += len(lines)
            run_state.count_edges_read(len(items[-1]))
    return np.concatenate(numbers), pa.chunked_array(items)


def _read_rows(
    path: Path, config: InputConfig, delimiter: str, *, has_header: bool
) -> tuple[np.ndarray, pa.ChunkedArray]:
    """Return the line and the text of each item between delimiters; items may be quoted."""
    dialect = Dialect(delimiter, [], config.skip_lines or 0)
    rows = rows_of(path, config, dialect)
    try:
        of_lines = itertools.islice(rows, int(has_header), None)
        found = [(line, item) for line, row in of_lines for item in map(str.strip, row) if item]
    except csv.Error as error:
        raise quote_fault(path, error) from None
    for line, item in found:
        if not is_text(item):
            raise not_in_encoding(path, line)
    if not found:
        raise _no_items(path)
    lines, items = zip(*found, strict=True)
    return np.array(lines), pa.chunked_array([pa.array(items, pa.string())])


def _no_items(path: Path) -> InputError:
    return InputError.at(path, found="no items", expected="lines of items", remedy="check that the file is complete")


def _without_first(
    path: Path, numbers: np.ndarray, items: pa.ChunkedArray, *, keeps: bool
) -> tuple[np.ndarray, pa.ChunkedArray, pa.ChunkedArray]:
    """Remove the first item of each line and return lines, left keys and items.

    If `keeps`, the removed item is the left key.
    """
    first = np.flatnonzero(np.diff(numbers, prepend=-1))
    rest = np.ones(len(numbers), bool)
    rest[first] = False
    of_row = np.cumsum(~rest) - 1
    counts = np.bincount(of_row, rest)
    ids = items.take(pa.array(first))
    for i, text in enumerate(() if keeps else ids.to_pylist()):
        if not text.isdecimal() or int(text) != int(counts[i]):
            raise InputError.at(
                path,
                line=int(numbers[first[i]]),
                found=f"the first field {shortened(text)} above {int(counts[i])} items",
                expected="the number of items of the line",
                remedy=f"correct the line, or set {setting('input.left')} to transaction if the first field is an item",
                settings=[{"input.left": "transaction"}],
            )
    lines = numbers[rest]
    left = ids.take(pa.array(of_row[rest])) if keeps else pa.chunked_array([pa.array(lines)])
    return lines, left, items.filter(pa.array(rest))


def _place(path: Path, config: InputConfig, line: int) -> Place:
    with open_text(path, config) as stream:
        text = next(itertools.islice(stream, line - 1, None), b"")
    return Place(f"{path}, line {line}", text.strip().decode(errors="replace"))


def _not_text(path: Path, block: bytes, n_above: int, error: pa.ArrowException) -> InputError:
    try:
        block.decode()
    except UnicodeDecodeError as wrong:
        return not_in_encoding(path, n_above + block.count(b"\n", 0, wrong.start) + 1)
    found, remedy = f"unreadable ({' '.join(str(error).split())})", f"check {setting('input.format')}"
    return InputError.at(path, found=found, expected="lines of items", remedy=remedy)

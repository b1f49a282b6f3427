"""FIMI transactions: each line is a transaction, its items separated by blanks.

The left key is the number of the line, counted from 1 as an editor counts, so that a group can be looked up in the
file; a blank line is a transaction without items, which keeps its number and has no edge. Column 0 is `transaction`,
column 1 `item`.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa

from pipeline import lack_of_memory
from pipeline.config import InputConfig
from pipeline.errors import InputError
from pipeline.io.compression import open_bytes
from pipeline.io.raw import Place, RawEdges, choose_columns, columns_meant, refuse_several, refuse_two_sets
from pipeline.io.whitespace import line_blocks, read_strings
from pipeline.naming import setting

__all__ = ["read"]

_NAMES = ["transaction", "item"]
_ONE_A_LINE = bytes.maketrans(b" \t\x0b\x0c", b"\n\n\n\n")
_LINE_FEED, _BLANK = ord("\n"), ord(" ")


def read(path: Path, config: InputConfig) -> RawEdges:
    """Read transactions."""
    refuse_several(config, str(path), "transactions of items")
    refuse_two_sets(config, str(path), "transactions of items, which are two kinds of vertices")
    chosen = choose_columns(_NAMES, config, str(path))
    numbers: list[np.ndarray] = []
    with open_bytes(path) as stream:
        blocks = line_blocks(stream, str(path))
        pieces = (piece for piece in _items(blocks, numbers) if piece.strip())
        first = next(pieces, None)
        if first is None:
            raise InputError.at(
                path, found="no items", expected="lines of items", remedy="check that the file is complete"
            )
        try:
            items = read_strings(itertools.chain([first], pieces), ["item"], ["item"])[0]
        except pa.ArrowException as error:
            lack_of_memory.pass_on(error)
            raise _not_text(path, error) from None
    lines = np.concatenate(numbers)
    columns = {"transaction": pa.chunked_array([pa.array(lines)]), "item": items}
    return RawEdges(
        table=pa.table({role: columns[_NAMES[i]] for role, i in chosen.items()}),
        source=str(path),
        format="fimi",
        names={role: _NAMES[i] for role, i in chosen.items()},
        locate=lambda row: _place(path, int(lines[row])),
        keys="integers",
        input_columns=columns_meant(_NAMES, config, str(path), are_named=False),
    )


def _items(blocks: Iterator[bytes], numbers: list[np.ndarray]) -> Iterator[bytes]:
    """One item a line; the number of each item's own line goes into `numbers`."""
    n_lines = 0
    for block in blocks:
        characters = np.frombuffer(block, np.uint8)
        ends = characters == _LINE_FEED
        blank = ends | (characters == _BLANK) | ((characters >= 9) & (characters <= 12))
        starts = ~blank
        starts[1:] &= blank[:-1]
        line_of = np.cumsum(ends)
        numbers.append(n_lines + 1 + line_of[starts])
        n_lines += int(line_of[-1])
        yield block.translate(_ONE_A_LINE)


def _place(path: Path, line: int) -> Place:
    with open_bytes(path) as stream:
        text = next(itertools.islice(stream, line - 1, None))
    return Place(f"{path}, line {line}", text.strip().decode(errors="replace"))


def _not_text(path: Path, error: pa.ArrowException) -> InputError:
    with open_bytes(path) as stream:
        for number, line in enumerate(stream, start=1):
            try:
                line.decode()
            except UnicodeDecodeError:
                return InputError.at(
                    path,
                    line=number,
                    found="bytes that are not UTF-8",
                    expected="lines of items",
                    remedy=f"check {setting('input.format')}",
                )
    cause = " ".join(str(error).split())
    return InputError.at(
        path, found=f"unreadable ({cause})", expected="lines of items", remedy=f"check {setting('input.format')}"
    )

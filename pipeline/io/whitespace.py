"""Text with fields separated by runs of blanks or tabs: what KONECT, SNAP and FIMI files are made of.

pyarrow's CSV reader wants exactly one delimiter between fields. So the bytes are brought into that shape in blocks of
whole lines, which costs far less than splitting lines in Python; line numbers are only worked out, from the file
itself, on the way to an error.
"""

from __future__ import annotations

import io
import itertools
import re
from collections.abc import Callable, Iterable, Iterator

import pyarrow as pa
from pyarrow import csv

from pipeline import lack_of_memory
from pipeline.config import InputConfig
from pipeline.errors import InputError
from pipeline.io.arrow_csv import read_csv
from pipeline.io.counts import refuse_count_line
from pipeline.io.raw import Place, RawEdges, choose_columns, columns_meant, shortened
from pipeline.naming import setting

__all__ = ["PARSE", "IteratorStream", "line_blocks", "one_blank", "read_fields", "read_strings"]

_BLOCK_BYTES = 4 << 20
_LONGEST_LINE = 64 << 20
_BLANKS = bytes.maketrans(b"\t\x0b\x0c", b"   ")
_NAMES = ("left", "right", "weight", "timestamp")
PARSE = csv.ParseOptions(delimiter=" ", quote_char=False, double_quote=False, newlines_in_values=False)

Open = Callable[[], io.BufferedReader]


def read_fields(open_source: Open, source: str, format_name: str, comment: bytes, config: InputConfig) -> RawEdges:
    """Read `left right [weight [timestamp]]` lines.

    Parameters
    ----------
    open_source : callable
        Opens the decompressed bytes; called again where an error needs its line number.
    comment : bytes
        Lines that begin with this byte, blanks before it or not, are skipped, as are blank lines.

    Raises
    ------
    InputError
        Lines have different numbers of fields, bytes are not UTF-8, or there is no data line at all.
    """
    with open_source() as stream:
        blocks = (one_blank(block, comment) for block in line_blocks(stream, source))
        first = next((block for block in blocks if block.strip()), None)
        if first is None:
            raise InputError.at(
                source, found="no data line", expected="lines of left and right ids", remedy="check that it is complete"
            )
        n_fields = len(first.lstrip(b"\n").partition(b"\n")[0].split(b" "))
        if n_fields < 2:
            raise _malformed(open_source, source, comment, n_fields)
        available = [*_NAMES, *(f"field {i}" for i in range(4, n_fields))][:n_fields]
        columns = choose_columns(available, config, source)
        try:
            read = read_strings(itertools.chain([first], blocks), available, [available[i] for i in columns.values()])
        except pa.ArrowException as error:
            lack_of_memory.pass_on(error)
            raise _malformed(open_source, source, comment, n_fields, error) from None
    table = pa.table(dict(zip(columns, read, strict=True)))
    number, line = next(_data_lines(open_source, comment))
    refuse_count_line(source, config, [line.decode(errors="replace").split()], number - 1, table)
    return RawEdges(
        table=table,
        source=source,
        format=format_name,
        names={role: available[i] for role, i in columns.items()},
        locate=lambda row: _nth(open_source, source, comment, row),
        keys="integers",
        input_columns=columns_meant(available, config, source, are_named=False),
        n_columns=n_fields,
    )


def read_strings(blocks: Iterable[bytes], names: list[str], wanted: list[str]) -> list[pa.ChunkedArray]:
    """Parse blocks whose fields are separated by exactly one blank; the wanted columns as strings."""
    options = csv.ReadOptions(column_names=names, block_size=_BLOCK_BYTES)
    convert = csv.ConvertOptions(column_types=dict.fromkeys(wanted, pa.string()), include_columns=wanted)
    table = read_csv(IteratorStream(blocks), read_options=options, parse_options=PARSE, convert_options=convert)
    return table.columns


def line_blocks(stream: io.BufferedReader, source: str) -> Iterator[bytes]:
    """Blocks of whole lines, each line ended by a line feed."""
    rest = b""
    while chunk := stream.read(_BLOCK_BYTES):
        chunk = rest + chunk
        end = chunk.rfind(b"\n") + 1
        rest = chunk[end:]
        if end:
            yield _unix_lines(chunk[:end], source)
        if len(rest) > _LONGEST_LINE:
            raise InputError.at(
                source,
                found=f"a line of more than {_LONGEST_LINE >> 20} MiB",
                expected="text, one edge a line",
                remedy=f"check {setting('input.format')}",
            )
    if rest:
        yield _unix_lines(rest + b"\n", source)


class IteratorStream(io.RawIOBase):
    """A readable stream over pieces of bytes, made one at a time."""

    def __init__(self, pieces: Iterable[bytes]) -> None:
        self._pieces = iter(pieces)
        self._rest = memoryview(b"")

    def readable(self) -> bool:
        """It is."""
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        """Fill the buffer from the next piece; returns how much, 0 at the end."""
        if self.closed:
            raise ValueError("nobody reads any more")
        while not self._rest:
            piece = next(self._pieces, None)
            if piece is None:
                return 0
            self._rest = memoryview(piece)
        size = min(len(buffer), len(self._rest))
        buffer[:size] = self._rest[:size]
        self._rest = self._rest[size:]
        return size


def _unix_lines(block: bytes, source: str) -> bytes:
    if b"\r" not in block:
        return block
    block = block.replace(b"\r\n", b"\n")
    if b"\r" in block:
        raise InputError.at(
            source,
            found="a carriage return without a line feed",
            expected="lines ended by LF or CR LF",
            remedy="convert the line ends, for example with: tr '\\r' '\\n'",
        )
    return block


def one_blank(block: bytes, comment: bytes = b"") -> bytes:
    """Fields separated by one blank, no blanks at either end of a line, no comment lines."""
    block = block.translate(_BLANKS)
    if b"  " in block:
        block = re.sub(rb"  +", b" ", block)
    block = block.replace(b" \n", b"\n").replace(b"\n ", b"\n").removeprefix(b" ")
    if comment and comment in block:
        block = re.sub(rb"(?m)^" + re.escape(comment) + rb"[^\n]*\n", b"", block)
    return block


def _data_lines(open_source: Open, comment: bytes) -> Iterator[tuple[int, bytes]]:
    with open_source() as stream:
        for number, line in enumerate(stream, start=1):
            stripped = line.strip()
            if stripped and not stripped.startswith(comment):
                yield number, stripped


def _nth(open_source: Open, source: str, comment: bytes, row: int) -> Place:
    number, line = next(itertools.islice(_data_lines(open_source, comment), row, None))
    return Place(f"{source}, line {number}", line.decode(errors="replace"))


def _malformed(
    open_source: Open, source: str, comment: bytes, n_fields: int, error: pa.ArrowException | None = None
) -> InputError:
    """The refusal that names the first line at fault."""
    head = [(number, len(line.split())) for number, line in itertools.islice(_data_lines(open_source, comment), 1000)]
    below = {n for _, n in head[1:]}
    # The first line alone is odd, such as one of counts.
    skipped = head[0][0] if len(below) == 1 and head[0][1] not in below and below != {1} else 0
    for number, line in _data_lines(open_source, comment):
        text = shortened(line.decode(errors="replace"))
        found = len(line.split())
        if found != n_fields or found < 2:
            fields = "one field" if found == 1 else f"{found} fields"
            expected = f"{n_fields} fields, as in the first line" if n_fields > 1 else "at least a left and a right id"
            ways = f", set {setting('input.skip_lines')} to {skipped} if the edges begin below" if skipped else ""
            return InputError.at(
                source,
                line=number,
                found=f"{fields} in the line {text}",
                expected=f"{expected}, separated by blanks",
                remedy=f"correct the line{ways}, or set {setting('input.format')}",
                settings=[{"input.skip_lines": skipped}] if skipped else [],
            )
        try:
            line.decode()
        except UnicodeDecodeError:
            return InputError.at(
                source,
                line=number,
                found=f"bytes that are not UTF-8 in the line {text}",
                expected="UTF-8 text",
                remedy="convert the file to UTF-8",
            )
    cause = " ".join(str(error).split())
    return InputError.at(
        source,
        found=f"unreadable text ({cause})",
        expected="text, one edge a line",
        remedy=f"check {setting('input.format')}",
    )

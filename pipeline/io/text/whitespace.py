"""Text with fields separated by runs of blanks or tabs, as in KONECT, SNAP and FIMI files.

pyarrow's CSV reader needs exactly one delimiter between fields. Blocks of whole lines are rewritten into that form,
which is much cheaper than splitting lines in Python.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any

from mbe_stage.pipeline.config.setting_names import setting
from mbe_stage.pipeline.errors import InputError

_BLOCK_BYTES = 4 << 20
_LONGEST_LINE = 64 << 20
_BLANKS = bytes.maketrans(b"\t\x0b\x0c", b"   ")


def whole_lines(chunks: Iterable[bytes], source: object) -> Iterator[bytes]:
    """Yield the same text in blocks of whole lines."""
    rest = b""
    for chunk in chunks:
        block, line_feed, rest = (rest + chunk).rpartition(b"\n")
        if line_feed:
            yield block + line_feed
        if len(rest) > _LONGEST_LINE:
            found, remedy = f"a line of more than {_LONGEST_LINE >> 20} MiB", f"check {setting('input.format')}"
            raise InputError.at(source, found=found, expected="text, one edge per line", remedy=remedy)
    if rest:
        yield rest


def line_blocks(stream: io.BufferedReader, source: str) -> Iterator[bytes]:
    """Yield blocks of whole lines, each line ended by a line feed."""
    for block in whole_lines(iter(partial(stream.read, _BLOCK_BYTES), b""), source):
        if b"\r" in block and b"\r" in (block := block.replace(b"\r\n", b"\n")):
            found, expected = "a carriage return without a line feed", "lines ended by LF or CR LF"
            remedy = "convert the line endings, for example with: tr '\\r' '\\n'"
            raise InputError.at(source, found=found, expected=expected, remedy=remedy)
        yield block if block.endswith(b"\n") else block + b"\n"


class IteratorStream(io.RawIOBase):
    """A readable stream over byte pieces that are produced on demand; it closes other streams with itself."""

    def __init__(self, pieces: Iterable[bytes], *owned: Any) -> None:
        self._pieces, self._owned = iter(pieces), owned
        self._rest = memoryview(b"")

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        """Fill the buffer from the next piece; return the number of bytes, 0 at the end."""
        if self.closed:
            raise ValueError("the reader has stopped")
        while not self._rest:
            piece = next(self._pieces, None)
            if piece is None:
                return 0
            self._rest = memoryview(piece)
        size = min(len(buffer), len(self._rest))
        buffer[:size] = self._rest[:size]
        self._rest = self._rest[size:]
        return size

    def close(self) -> None:
        """Close all streams."""
        for stream in () if self.closed else self._owned:
            stream.close()
        super().close()


def one_blank(block: bytes) -> bytes:
    """Return fields separated by single blanks, without blanks at the ends of lines."""
    block = block.translate(_BLANKS)
    if b"  " in block:
        block = re.sub(rb"  +", b" ", block)
    return block.replace(b" \n", b"\n").replace(b"\n ", b"\n").removeprefix(b" ")

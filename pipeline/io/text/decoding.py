"""The text of a file as UTF-8 lines; skipped lines and comments become blank lines, so line numbers are kept."""

from __future__ import annotations

import codecs
import io
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from mbe_stage.pipeline.config.model import InputConfig
from mbe_stage.pipeline.config.setting_names import setting
from mbe_stage.pipeline.errors import InputError
from mbe_stage.pipeline.io.compression import open_konect
from mbe_stage.pipeline.io.text.whitespace import IteratorStream, whole_lines

_BLOCK_BYTES = 4 << 20
_SAMPLE_BYTES = 64 << 10
_LONGEST_SAMPLE = 64 << 20
_LINE_END = re.compile("\r\n|\n|\r")
_MARKS = (
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
# Text that begins with ASCII has a zero in every other byte.
_UNMARKED = (("utf-16-le", rb"(?:[\t\n\r -~]\0){8}"), ("utf-16-be", rb"(?:\0[\t\n\r -~]){8}"))


class Sample(NamedTuple):
    """The beginning of a text, and its lines: at least two, if there are two, without one that may be cut off."""

    text: str
    lines: list[str]


def lines_of(text: str) -> list[str]:
    """Split lines as editors do; unlike `str.splitlines`, only CR and LF end one."""
    lines = _LINE_END.split(text)
    return lines[:-1] if lines[-1] == "" else lines


def read_sample(path: Path, config: InputConfig) -> Sample:
    """Read the beginning of a text, as `open_text` gives it."""
    with open_text(path, config) as stream:
        head = stream.read(_SAMPLE_BYTES)
        while head.count(b"\n") < 2 and len(head) < _LONGEST_SAMPLE and (more := stream.read(len(head) or 1)):
            head += more
        text = head.decode(errors="replace")
        lines = lines_of(text)
        return Sample(text, lines[:-1] if len(lines) > 1 and stream.read(1) else lines)


def read_text(path: Path, config: InputConfig, errors: str = "strict") -> str:
    """Read a whole text; refuse bytes that are not UTF-8, unless `errors` decodes them."""
    with open_text(path, config) as stream:
        content = stream.read()
    try:
        return content.decode(errors=errors)
    except UnicodeDecodeError as error:
        raise not_in_encoding(path, content[: error.start].count(b"\n") + 1) from None


def open_text(path: Path, config: InputConfig, blank: int = 0) -> io.BufferedReader:
    """Open a text as UTF-8 without a byte order mark; for an archive, open its member ``out.*``.

    Parameters
    ----------
    config : InputConfig
        `encoding`, `skip_lines` and `comment` are applied: skipped lines become blank lines.
    blank : int
        Number of first lines to make blank, regardless of `skip_lines`.
    """
    stream = open_konect(path)
    start = stream.peek(_BLOCK_BYTES)
    encoding = encoding_of(path, start, config)
    n_blank = max(blank, config.skip_lines or 0)
    comment = (config.comment or "").encode()
    is_old_mac = encoding == "utf-8" and b"\r" in start[:-1] and b"\n" not in start
    if encoding == "utf-8" and not (n_blank or comment or is_old_mac):
        return stream
    chunks = _decoded(stream, path, encoding)
    if is_old_mac:
        chunks = (chunk.replace(b"\r", b"\n") for chunk in chunks)
    if n_blank:
        chunks = _without_first(chunks, n_blank)
    if comment:
        pattern = re.compile(rb"(?m)^[ \t]*" + re.escape(comment) + rb"[^\r\n]*")
        chunks = (pattern.sub(b"", block) if comment in block else block for block in whole_lines(chunks, path))
    return io.BufferedReader(IteratorStream(chunks), _BLOCK_BYTES)


def encoding_of(path: Path, head: bytes, config: InputConfig) -> str:
    """Return the encoding of a text: the configured one, the one of its byte order mark, or UTF-8."""
    marked = next((name for mark, name in _MARKS if head.startswith(mark)), None)
    if config.encoding is None:
        return marked or next((name for name, start in _UNMARKED if re.match(start, head)), "utf-8")
    try:
        name = codecs.lookup(config.encoding).name
        "".encode(name).decode(name)
    except (LookupError, ValueError):
        name = setting("input.encoding")
        found = f"{name} {config.encoding!r}, which is not a text encoding"
        expected = "one such as utf-8, cp1252, latin-1 or utf-16"
        raise InputError.at(path, found=found, expected=expected, remedy=f"correct {name}") from None
    return "utf-8-sig" if name == "utf-8" and marked == "utf-8-sig" else name


def not_in_encoding(path: object, line: int, text: str = "") -> InputError:
    """Return the refusal of bytes that are not UTF-8, with encodings to try."""
    return InputError.at(
        path,
        line=line,
        found=f"bytes that are not UTF-8{text}",
        expected="UTF-8 text",
        remedy=f"convert the file to UTF-8, or set {setting('input.encoding')}, for example to cp1252",
        settings=[{"input.encoding": name} for name in ("cp1252", "latin-1")],
    )


def _decoded(stream: io.BufferedReader, path: Path, encoding: str) -> Iterator[bytes]:
    pieces = iter(lambda: stream.read(_BLOCK_BYTES), b"")
    with stream:
        if encoding == "utf-8-sig":
            stream.read(len(codecs.BOM_UTF8))
        if encoding.startswith("utf-8"):
            # Passed through unchanged: the parser names a line that is not UTF-8.
            yield from pieces
            return
        try:
            yield from (text.encode() for text in codecs.iterdecode(pieces, encoding))
        except UnicodeError as error:
            found = f"bytes that are not {encoding} ({error})"
            remedy = f"set {setting('input.encoding')} to another encoding"
            raise InputError.at(path, found=found, expected=f"text in {encoding}", remedy=remedy) from None


def _without_first(chunks: Iterator[bytes], n: int) -> Iterator[bytes]:
    """Yield the same text with its first `n` lines blank."""
    for chunk in chunks:
        ends = [match.end() for match, _ in zip(re.finditer(b"\n", chunk), range(n), strict=False)]
        n -= len(ends)
        yield b"\n" * len(ends) + (b"" if n else chunk[max(ends, default=0) :])

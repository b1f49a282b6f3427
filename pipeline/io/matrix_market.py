"""Matrix Market files, read by SciPy: rows are left, columns are right, values are weights.

Keys are row and column numbers as in the file, from 1. An entry with the value 0 is not an edge, so dense and sparse
storage mean the same. Symmetric storage holds one of the entries (i, j) and (j, i). It is expanded, except for
undirected graphs, where each entry is read once.

SciPy reads `0.5` as 0 in a matrix of integers, `1e-400` as 0, `0,5` as 0 and `1D5` as 1, and refuses integers beyond 64
bits. Without a weight, values only have to be zero or non-zero. With a weight, such values are refused.
"""

from __future__ import annotations

import io
import re
from pathlib import Path

import numpy as np
import scipy.sparse
from scipy import io as scipy_io

from mbe_stage.pipeline.config.model import InputConfig
from mbe_stage.pipeline.errors import InputError
from mbe_stage.pipeline.io.compression import open_bytes
from mbe_stage.pipeline.io.raw import RawEdges, shortened
from mbe_stage.pipeline.io.sparse import matrix_edges

# SciPy's reader raises ValueError or OverflowError for bad text. A wrong size line ends in MemoryError.
_UNREADABLE = (ValueError, OverflowError, TypeError, MemoryError, IndexError)
_REAL = rb"[-+]?(?:(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d{1,%d})?|[iI][nN][fF]|[nN][aA][nN])"
_ZERO = re.compile(rb"(?:[-+]?(?:0+\.?0*|\.0+)(?:[eEdD][-+]?\d+)?[ \t]*)+")


def read(path: Path, config: InputConfig) -> RawEdges:
    """Read a Matrix Market file."""
    with open_bytes(path) as stream:
        text = stream.read()
    content = _safe(path, text)
    weights = config.weight is not None and (config.min_weight is not None or config.keeps_events)
    if weights and (odd := _odd_line(content.getvalue(), most_exponent=9)):
        raise _unreadable(path, content, f"Line {odd}: the value is not a number of the type in line 1")
    cause = ""
    try:
        matrix = scipy_io.mmread(content)
        is_certain = weights or bool(np.all(matrix.data if scipy.sparse.issparse(matrix) else matrix))
        is_certain = is_certain or not _odd_line(content.getvalue(), most_exponent=2)
    except _UNREADABLE as error:
        matrix, is_certain, cause = None, weights, str(error) or type(error).__name__
    if not is_certain:
        try:
            matrix = scipy_io.mmread(io.BytesIO(_with_flags(content.getvalue())))
        except _UNREADABLE as error:
            matrix, cause = None, cause or str(error)
    if matrix is None:
        raise _unreadable(path, content, cause)
    one_of_two = config.is_undirected and text.partition(b"\n")[0].split()[-1].lower() != b"general"
    return matrix_edges(matrix, str(path), "matrix_market", config, one_of_two=one_of_two)


def _odd_line(text: bytes, *, most_exponent: int) -> int | None:
    """Return the number of the first line whose value SciPy may misread.

    Exponents of up to `most_exponent` digits are safe.
    """
    is_array, field, start = _header(text)
    real = _REAL % most_exponent
    value = {b"real": real, b"complex": real + rb"[ \t]+" + real, b"pattern": b""}.get(field, rb"[-+]?\d+")
    entry = value if is_array else rb"\d+[ \t]+\d+" + (rb"[ \t]+" + value if value else b"")
    odd = re.compile(rb"^(?![ \t]*(?:%.*|" + entry + rb")?[ \t]*\r?$)", re.MULTILINE).search(text, start)
    return None if odd is None else text.count(b"\n", 0, odd.start()) + 1


def _with_flags(text: bytes) -> bytes:
    """Return the same matrix with every non-zero value replaced by 1."""
    is_array, field, start = _header(text)
    if field not in (b"real", b"complex", b"integer", b"unsigned-integer"):
        return text
    place = b"()" if is_array else rb"(\d+[ \t]+\d+)[ \t]+"
    value = rb"(\S+[ \t]+\S+)" if field == b"complex" else rb"(\S+)"
    entry = re.compile(rb"^[ \t]*" + place + value + rb"[ \t]*\r?$", re.MULTILINE)
    body = entry.sub(lambda found: found[1] + (b" 0" if _ZERO.fullmatch(found[2]) else b" 1"), text[start:])
    first, end, others = text[:start].partition(b"\n")
    words = first.lower().replace(field, b"integer").replace(b"hermitian", b"symmetric").split()
    return b" ".join([first.split()[0], *words[1:]]) + end + others + body


def _header(text: bytes) -> tuple[bool, bytes, int]:
    """Return whether zeros are stored, the field type of the entries, and the offset of the first entry."""
    words = [*text.partition(b"\n")[0].lower().split(), b"", b"", b"", b""]
    size = re.compile(rb"^[ \t]*[^%\s].*\n", re.MULTILINE).search(text)
    return words[2] == b"array", words[3], size.end() if size else len(text)


def _safe(path: Path, text: bytes) -> io.BytesIO:
    """Return the text as a stream that SciPy's reader survives.

    The reader looks for line ends as in a C string: a NUL or the end of the text before a line end makes it read
    foreign memory. It also seeks in its stream when collected, and aborts the process if the stream was closed.
    """
    if (position := text.find(b"\0")) >= 0:
        line, remedy = text.count(b"\n", 0, position) + 1, "check that the file is complete"
        raise InputError.at(path, line=line, found="a NUL byte", expected="Matrix Market text", remedy=remedy)
    return io.BytesIO(text if text.endswith(b"\n") else text + b"\n")


def _unreadable(path: Path, content: io.BytesIO, cause: str) -> InputError:
    cause = " ".join(cause.split())
    number, line = None, ""
    if place := re.match(r"Line (\d+): ", cause):
        number, cause = int(place[1]), cause[place.end() :]
        lines = content.getvalue().splitlines()
        if number <= len(lines):
            line = f" in the line {shortened(lines[number - 1].decode(errors='replace'))}"
    return InputError.at(
        path,
        line=number,
        found=f"not a readable matrix ({cause}){line}",
        expected="Matrix Market text: a %%MatrixMarket line, a size line, one entry a line",
        remedy="correct that line, or check that the file is complete",
    )

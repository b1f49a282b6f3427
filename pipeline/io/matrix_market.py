"""Matrix Market files, read by SciPy: rows are left, columns right, the value is the weight.

Keys are row and column numbers as the file writes them, from 1. An entry whose value is 0 is no edge: a matrix means
the same whether it is stored dense or sparse. Symmetric storage, where the file has one of the entries (i, j) and
(j, i), is expanded; where edges have no direction its entries are the edges, and each is read once.
"""

from __future__ import annotations

import io
import re
from pathlib import Path

from scipy import io as scipy_io

from pipeline.config import InputConfig
from pipeline.errors import InputError
from pipeline.io.compression import open_bytes
from pipeline.io.raw import RawEdges, shortened
from pipeline.io.sparse import matrix_edges

__all__ = ["read"]


def read(path: Path, config: InputConfig) -> RawEdges:
    """Read a Matrix Market file."""
    with open_bytes(path) as stream:
        text = stream.read()
    content = _safe(path, text)
    try:
        matrix = scipy_io.mmread(content)
    # SciPy's reader says ValueError or OverflowError for bad text; a size line that lies ends in MemoryError.
    except (ValueError, OverflowError, TypeError, MemoryError, IndexError) as error:
        raise _unreadable(path, content, error) from None
    content.seek(0)
    stands_for_two = content.readline().split()[-1].lower() != b"general"
    one_of_two = stands_for_two and config.is_undirected
    return matrix_edges(matrix, str(path), "matrix_market", config, first=1, one_of_two=one_of_two)


def _safe(path: Path, text: bytes) -> io.BytesIO:
    """The text as a stream that SciPy's reader survives.

    It searches for the end of a line as in a C string, and reads on into foreign memory where a NUL or the end of the
    text comes first; and it seeks in its stream when it is collected, and aborts the process where that was closed.
    """
    position = text.find(b"\0")
    if position >= 0:
        raise InputError.at(
            path,
            line=text.count(b"\n", 0, position) + 1,
            found="a NUL byte",
            expected="Matrix Market text",
            remedy="check that the file is complete",
        )
    return io.BytesIO(text if text.endswith(b"\n") else text + b"\n")


def _unreadable(path: Path, content: io.BytesIO, error: Exception) -> InputError:
    cause = " ".join(str(error).split()) or type(error).__name__
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

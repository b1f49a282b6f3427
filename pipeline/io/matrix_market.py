"""Matrix Market files, read by SciPy: rows are left, columns right, the value is the weight.

Keys are row and column numbers as the file writes them, from 1. An entry whose value is 0 is no edge: a matrix means
the same whether it is stored dense or sparse. Symmetric storage is expanded.
"""

from __future__ import annotations

import io
from pathlib import Path

from scipy import io as scipy_io

from pipeline.config import InputConfig
from pipeline.errors import InputError
from pipeline.io.compression import open_bytes
from pipeline.io.raw import RawEdges
from pipeline.io.sparse import matrix_edges

__all__ = ["read"]


def read(path: Path, config: InputConfig) -> RawEdges:
    """Read a Matrix Market file."""
    with open_bytes(path) as stream:
        # SciPy's reader seeks in its stream when it is collected, and aborts the process where that was closed: give it
        # one in memory, which nobody closes.
        content = io.BytesIO(stream.read())
    try:
        matrix = scipy_io.mmread(content)
    # SciPy's reader says ValueError or OverflowError for bad text; a size line that lies ends in MemoryError.
    except (ValueError, OverflowError, TypeError, MemoryError, IndexError) as error:
        cause = " ".join(str(error).split()) or type(error).__name__
        raise InputError.at(
            path,
            found=f"not a readable matrix ({cause})",
            expected="Matrix Market text: a %%MatrixMarket line, a size line, one entry a line",
            remedy="correct that line, or check that the file is complete",
        ) from None
    return matrix_edges(matrix, str(path), "matrix_market", config, first=1)

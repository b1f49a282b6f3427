"""The edges of a matrix: every non-zero entry."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import scipy.sparse

from mbe_stage.pipeline.config.model import InputConfig
from mbe_stage.pipeline.config.setting_names import setting
from mbe_stage.pipeline.errors import InputError
from mbe_stage.pipeline.io.raw import Place, RawEdges, choose_columns, refuse_several, refuse_two_sets

_NAMES = ["row", "column", "weight"]


def matrix_edges(
    matrix: Any, source: str, format_name: str, config: InputConfig, *, one_of_two: bool = False
) -> RawEdges:
    """Read a matrix: rows are left, columns right, values weights; stored zeros are not edges.

    With `one_of_two`, read only the entries on and below the diagonal, as in symmetric storage.
    """
    # The key of the first row and column.
    first = int(format_name == "matrix_market")
    refuse_several(config, source, "a matrix, whose entries have one row and one column")
    chosen = choose_columns(_NAMES, config, source, are_named=False)
    shape = " x ".join(map(str, matrix.shape))
    if matrix.ndim != 2 or 0 in matrix.shape:
        raise InputError.at(
            source,
            found=f"a matrix of shape {shape}: there is nothing on {'one side' if matrix.ndim == 2 else 'two sides'}",
            expected="a matrix with rows (left) and columns (right)",
            remedy="check how it was made",
        )
    if matrix.shape[0] != matrix.shape[1]:
        refuse_two_sets(config, source, f"a matrix of shape {shape}, whose rows and columns are not the same vertices")
    try:
        if hasattr(matrix, "check_format"):
            # SciPy trusts index arrays; wrong ones would make it write out of bounds.
            matrix.check_format(full_check=True)
        entries = scipy.sparse.coo_array(matrix)
    except (ValueError, TypeError, IndexError, MemoryError) as error:
        found = f"a matrix that contradicts itself ({' '.join(str(error).split())})"
        remedy = "write it again with scipy.sparse.save_npz"
        raise InputError.at(source, found=found, expected="consistent index arrays", remedy=remedy) from None
    present = entries.data != 0
    if one_of_two:
        present &= entries.row >= entries.col
    rows, columns = entries.row[present], entries.col[present]
    values = [pa.array(ends.astype(np.int64) + first) for ends in (rows, columns)]
    if "weight" in chosen.positions:
        if entries.data.dtype.kind not in "iufb":
            found = f"values of type {entries.data.dtype}"
            remedy = f"leave out {setting('input.weight')}, or store real weights"
            raise InputError.at(source, column="weight", found=found, expected="real numbers", remedy=remedy)
        values.append(pa.array(entries.data[present].astype(np.float64)))

    def locate(row: int) -> Place:
        return Place(f"{source}, entry ({rows[row] + first}, {columns[row] + first})")

    return chosen.edges(format_name, chosen.of(values), locate)

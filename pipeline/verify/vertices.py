"""The tables of vertices: which key a dense id stands for."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from mbe_stage.pipeline.cli.terminal import shortened
from mbe_stage.pipeline.errors import VerificationError

__all__ = ["check_vertex_ids", "check_vertex_table"]


def check_vertex_ids(run: Path, side: str, n_expected: int) -> pa.ChunkedArray:
    """Ids of a side are 0, 1, 2, ..., keys ascend; returns the keys."""
    return check_vertex_table(run / f"{side}_vertices.parquet", n_expected, f"{side} vertices")


def check_vertex_table(path: Path, n_expected: int, what: str) -> pa.ChunkedArray:
    """Ids are 0, 1, 2, ..., keys ascend; returns the keys. `what` the manifest counts so many of."""
    table = pq.read_table(path, columns=["vertex", "key"])
    if table.num_rows != n_expected:
        raise VerificationError(f"{path}: has {table.num_rows} rows; the manifest counts {n_expected} {what}")
    ids = table["vertex"].to_numpy()
    if (wrong := np.flatnonzero(ids != np.arange(ids.size))).size:
        raise VerificationError(f"{path}, row {wrong[0]}: vertex is {ids[wrong[0]]}; expected {wrong[0]}")
    keys = table["key"]
    if keys.null_count:
        raise VerificationError(f"{path}: {keys.null_count} keys are null; expected none")
    descends = np.flatnonzero(~pc.less(keys.slice(0, max(0, len(keys) - 1)), keys.slice(1)).to_numpy())
    if descends.size:
        row = int(descends[0])
        raise VerificationError(
            f"{path}, row {row + 1}: key {shortened(repr(keys[row + 1].as_py()), 80)} follows "
            f"{shortened(repr(keys[row].as_py()), 80)}; "
            "expected ascending, distinct keys"
        )
    return keys

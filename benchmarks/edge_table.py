"""The listed graphs as the users' kind of file: a Parquet table of edges."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.graphs import find_graph

__all__ = ["edges_as_parquet"]


def edges_as_parquet(graph: str, directory: Path) -> Path:
    """Write the edges of a graph to ``<directory>/<name>.parquet``; other files are used as they are.

    Returns
    -------
    Path
        Columns `left` and `right`, int64, as a table of keys has them.
    """
    source, _ = find_graph(graph)
    if source.suffix != ".npz":
        return source
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / f"{source.stem}.parquet"
    with np.load(source) as arrays:
        pq.write_table(pa.table({"left": arrays["u"].astype(np.int64), "right": arrays["v"].astype(np.int64)}), path)
    return path

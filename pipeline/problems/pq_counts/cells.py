"""The counts of a published run, read back, and the local ones that are largest."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from mbe_stage.pipeline.large_numbers import number_of

__all__ = ["read_cells", "top_rows"]

_BATCH_ROWS = 1 << 17


def read_cells(run_path: Path) -> dict[tuple[int, int], int]:
    """``(p, q) -> count``, in the order of the table `pq_counts`.

    Raises
    ------
    ValueError
        A count is no number.
    """
    table = pq.read_table(run_path / "pq_counts.parquet", columns=["p", "q", "count_text"])
    found = {}
    for p, q, text in zip(*(table.column(name).to_pylist() for name in ("p", "q", "count_text")), strict=True):
        number = number_of(text)
        if number is None:
            raise ValueError(f"{run_path / 'pq_counts.parquet'}: count_text of ({p}, {q}) is no number")
        found[p, q] = number
    return found


def top_rows(path: Path, cell: tuple[int, int], limit: int, side: str | None = None) -> list[dict[str, Any]]:
    """The rows of a cell with the largest counts above zero, most first, of equals those that come first.

    Parameters
    ----------
    path : Path
        `pq_vertices` or `pq_edges`.
    cell : (int, int)
    side : str, optional
        Of the vertices.
    """
    best: pa.Table | None = None
    p, q = cell
    with pq.ParquetFile(path) as file:
        for batch in file.iter_batches(batch_size=_BATCH_ROWS):
            rows = pa.Table.from_batches([batch])
            is_wanted = pc.and_(pc.equal(rows["p"], p), pc.equal(rows["q"], q))
            if side is not None:
                is_wanted = pc.and_(is_wanted, pc.equal(rows["side"].cast(pa.string()), side))
            rows = rows.filter(pc.and_(is_wanted, pc.not_equal(rows["count_text"], "0")))
            best = _larger(rows if best is None else pa.concat_tables([best, rows]), limit)
    return [] if best is None else best.to_pylist()


def _larger(rows: pa.Table, limit: int) -> pa.Table:
    """Those of most digits first, and of as many digits those whose text comes last: the order of whole numbers."""
    text = rows["count_text"].combine_chunks()
    lengths, ranks = pc.utf8_length(text).to_numpy(zero_copy_only=False), _ranks(text)
    order = np.lexsort((np.arange(len(text)), -ranks, -lengths))[:limit]
    return rows.take(pa.array(order))


def _ranks(text: pa.Array) -> np.ndarray:
    return pc.rank(text, tiebreaker="dense").to_numpy(zero_copy_only=False).astype(np.int64)

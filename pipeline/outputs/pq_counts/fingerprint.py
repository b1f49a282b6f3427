"""What names the counts of a run: SHA-256 of the sums of its tables, in hexadecimal, a line each.

The sum of a table is SHA-256 of lines of text, in the order of its rows. Of `pq_counts` they are ``p q count``. Of
`pq_vertices` first each left key and each right key, as text in JSON, then the counts. Of `pq_edges` first the dense
ids of each edge, ``left right``, then the counts.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping

import pyarrow as pa
import pyarrow.compute as pc

from pipeline.backends.arrow.edges import EdgeData
from pipeline.large_numbers import digits_text

__all__ = ["TableSum", "sum_of_counts", "sum_of_edges", "sum_of_vertices", "whole"]


class TableSum:
    """The sum of a table whose rows pass."""

    def __init__(self, lines: Iterable[str]) -> None:
        self._sum = hashlib.sha256()
        for line in lines:
            self._sum.update(f"{line}\n".encode())

    def passing(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The same batches; their counts are taken in when they pass."""
        for batch in batches:
            lines = pc.binary_join_element_wise(batch.column("count_text"), "", "\n")
            _, offsets, text = lines.buffers()
            first, end = memoryview(offsets).cast("i")[lines.offset], memoryview(offsets).cast("i")[len(lines)]
            self._sum.update(memoryview(text)[first:end])
            yield batch

    def __str__(self) -> str:
        return self._sum.hexdigest()


def sum_of_counts(counts: Mapping[tuple[int, int], int]) -> TableSum:
    """That of `pq_counts`."""
    return TableSum(f"{p} {q} {digits_text(count)}" for (p, q), count in counts.items())


def sum_of_vertices(edges: EdgeData) -> TableSum:
    """That of `pq_vertices` before its first row."""
    keys = (key for side in (edges.left_keys, edges.right_keys) for key in side.to_pylist())
    return TableSum(json.dumps(str(key), ensure_ascii=False) for key in keys)


def sum_of_edges(edges: EdgeData) -> TableSum:
    """That of `pq_edges` before its first row."""
    ends = zip(edges.left_ids.tolist(), edges.right_ids.tolist(), strict=True)
    return TableSum(f"{left} {right}" for left, right in ends)


def whole(sums: Iterable[TableSum]) -> str:
    """What names all of it."""
    return hashlib.sha256("\n".join(map(str, sums)).encode()).hexdigest()

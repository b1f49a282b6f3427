"""Counts as tables, row group by row group: local counts take much more room as text than as digits."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import numpy as np
import pyarrow as pa

from mbe_stage.pq_counts.results import LocalCounts
from pipeline.backends.arrow.edges import EdgeData
from pipeline.outputs.both_sides import keys_of_both_sides, sides
from pipeline.outputs.pq_counts.columns import columns_of_digits, columns_of_integers
from pipeline.outputs.pq_counts.schemas import PQ_COUNTS, pq_edges, pq_vertices

__all__ = ["BATCH_BYTES", "counts_table", "edge_batches", "vertex_batches"]

BATCH_BYTES = 32 << 20
"""Of the digits of a row group as text, about."""

_MOST_ROWS = 1 << 17
# Decimal digits in one of 32 bits.
_DECIMALS = 9.64


def counts_table(counts: Mapping[tuple[int, int], int]) -> pa.Table:
    """`pq_counts`, in the order of the mapping."""
    cells = np.array(list(counts), np.int64).reshape(-1, 2)
    columns = [pa.array(cells[:, 0]), pa.array(cells[:, 1]), *columns_of_integers(list(counts.values()))]
    return pa.Table.from_arrays(columns, schema=PQ_COUNTS)


def vertex_batches(
    local: Mapping[tuple[int, int], LocalCounts], cells: Iterable[tuple[int, int]], edges: EdgeData
) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
    """`pq_vertices`: its schema, and its rows."""
    keys, n_left = keys_of_both_sides(edges.left_keys, edges.right_keys), len(edges.left_keys)
    schema = pq_vertices(keys.type)

    def rows() -> Iterator[pa.RecordBatch]:
        for cell in cells:
            digits = _of_vertices(local.get(cell), n_left, len(keys) - n_left)
            for part in _parts(digits):
                place = np.arange(part.start, part.stop)
                is_right = place >= n_left
                vertices = (place - np.where(is_right, n_left, 0)).astype(np.int32)
                named = [sides(is_right), pa.array(vertices), keys.slice(part.start, place.size)]
                yield pa.RecordBatch.from_arrays([*named, *_counted(cell, digits[part])], schema=schema)

    return schema, rows()


def edge_batches(
    local: Mapping[tuple[int, int], LocalCounts], cells: Iterable[tuple[int, int]], edges: EdgeData
) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
    """`pq_edges`: its schema, and its rows."""
    schema = pq_edges(edges.left_keys.type, edges.right_keys.type)

    def rows() -> Iterator[pa.RecordBatch]:
        for cell in cells:
            known = local.get(cell)
            digits = np.zeros((edges.left_ids.size, 1), np.uint64) if known is None else known.edges
            assert digits is not None, "the engine was asked for edges"
            for part in _parts(digits):
                keys = [
                    edges.left_keys.take(pa.array(edges.left_ids[part])),
                    edges.right_keys.take(pa.array(edges.right_ids[part])),
                ]
                yield pa.RecordBatch.from_arrays([*keys, *_counted(cell, digits[part])], schema=schema)

    return schema, rows()


def _of_vertices(known: LocalCounts | None, n_left: int, n_right: int) -> np.ndarray:
    """Digits of the left vertices and then of the right ones; zeros where no engine had anything to say."""
    if known is None:
        return np.zeros((n_left + n_right, 1), np.uint64)
    both = [known.left, known.right]
    width = max(each.shape[1] for each in both)
    return np.concatenate([np.pad(each, ((0, 0), (0, width - each.shape[1]))) for each in both])


def _parts(digits: np.ndarray) -> Iterator[slice]:
    n_rows = max(1, min(_MOST_ROWS, int(BATCH_BYTES / (_DECIMALS * digits.shape[1]))))
    for first in range(0, digits.shape[0], n_rows):
        yield slice(first, min(first + n_rows, digits.shape[0]))


def _counted(cell: tuple[int, int], digits: np.ndarray) -> list[pa.Array]:
    p, q = (pa.array(np.full(digits.shape[0], size, np.int64)) for size in cell)
    return [p, q, *columns_of_digits(digits)]

"""Counts as tables, one row group at a time: local counts take much more memory as text than as digits."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mbe_stage.pipeline.backends.arrow.edges import EdgeData
from mbe_stage.pipeline.large_numbers import digits_text
from mbe_stage.pipeline.problems.both_sides import keys_of_both_sides, sides
from mbe_stage.pipeline.problems.pq_counts.schemas import COUNT, PQ_COUNTS, pq_edges, pq_vertices
from mbe_stage.pq_counts.digits import BITS, carried, digits_of, integers, n_digits
from mbe_stage.pq_counts.results import LocalCounts

# The first number of 39 digits, as two words.
_HIGH, _LOW = divmod(10**38, 1 << 64)
_DIGITS_OF_TWO_WORDS = 128 // BITS

BATCH_BYTES = 32 << 20
"""Approximate bytes of the digits of a row group as text."""
_MOST_ROWS = 1 << 17
# Decimal digits per digit of 32 bits.
_DECIMALS = 9.64


def columns_of_integers(numbers: list[int]) -> tuple[pa.Array, pa.Array]:
    """Return `count` and `count_text` of Python integers."""
    return columns_of_digits(digits_of(numbers, n_digits(max(numbers, default=0))))


def columns_of_digits(digits: np.ndarray) -> tuple[pa.Array, pa.Array]:
    """Return `count` and `count_text` of digits: (n, n_digits) uint64, carried or not."""
    low, high, fits = _words(carried(digits))
    words = np.column_stack([np.where(fits, low, 0), np.where(fits, high, 0)]).astype("<u8")
    is_valid = pa.py_buffer(np.packbits(fits, bitorder="little"))
    count = pa.Array.from_buffers(COUNT, fits.size, [is_valid, pa.py_buffer(np.ascontiguousarray(words))])
    text = pc.cast(count, pa.string())
    if not fits.all():
        others = pa.array([digits_text(number) for number in integers(digits[~fits])], pa.string())
        text = pc.replace_with_mask(text, pa.array(~fits), others)
    return count, text


def _words(digits: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the low and the high word of 64 bits of each number, and whether it has at most 38 decimal digits."""
    shift = np.uint64(BITS)
    lowest = np.zeros((digits.shape[0], _DIGITS_OF_TWO_WORDS), np.uint64)
    lowest[:, : digits.shape[1]] = digits[:, :_DIGITS_OF_TWO_WORDS]
    low, high = (lowest[:, i] | lowest[:, i + 1] << shift for i in (0, 2))
    fits = (high < _HIGH) | ((high == _HIGH) & (low < _LOW))
    return low, high, fits & ~digits[:, _DIGITS_OF_TWO_WORDS:].any(axis=1)


def counts_table(counts: Mapping[tuple[int, int], int]) -> pa.Table:
    """Build `pq_counts`, in the order of the mapping."""
    cells = np.array(list(counts), np.int64).reshape(-1, 2)
    columns = [pa.array(cells[:, 0]), pa.array(cells[:, 1]), *columns_of_integers(list(counts.values()))]
    return pa.Table.from_arrays(columns, schema=PQ_COUNTS)


def vertex_batches(
    local: Mapping[tuple[int, int], LocalCounts], cells: Iterable[tuple[int, int]], edges: EdgeData
) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
    """Return the schema of `pq_vertices` and its rows."""
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
    """Return the schema of `pq_edges` and its rows."""
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
    """Return the digits of the left vertices, then of the right ones; zeros if no engine returned counts."""
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

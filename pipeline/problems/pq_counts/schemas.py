"""The tables of (p, q)-counts, column by column.

`count` is null for counts of more than 38 digits; `count_text` always has all digits.
"""

from __future__ import annotations

import pyarrow as pa

from mbe_stage.pipeline.problems.both_sides import SIDE

COUNT = pa.decimal128(38, 0)
"""The type of counts: whole numbers of at most 38 digits."""

_CELL = [pa.field("p", pa.int64(), nullable=False), pa.field("q", pa.int64(), nullable=False)]
_NUMBER = [pa.field("count", COUNT, nullable=True), pa.field("count_text", pa.string(), nullable=False)]

# By p, then q.
PQ_COUNTS = pa.schema([*_CELL, *_NUMBER])


def pq_vertices(keys: pa.DataType) -> pa.Schema:
    """Schema of `pq_vertices`: every vertex; by p, q, the left side before the right, ascending by `vertex`."""
    return pa.schema(
        [
            pa.field("side", SIDE, nullable=False),
            # Rank of the key on its side.
            pa.field("vertex", pa.int32(), nullable=False),
            pa.field("key", keys, nullable=False),
            *_CELL,
            *_NUMBER,
        ]
    )


def pq_edges(left_keys: pa.DataType, right_keys: pa.DataType) -> pa.Schema:
    """Schema of `pq_edges`: every edge; by p, q, then ascending by the left and the right key."""
    keys = [
        pa.field("left_key", left_keys, nullable=False),
        pa.field("right_key", right_keys, nullable=False),
    ]
    return pa.schema([*keys, *_CELL, *_NUMBER])

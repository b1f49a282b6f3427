"""The tables of cliques, column by column."""

from __future__ import annotations

import pyarrow as pa

CLIQUES = pa.schema(
    [
        pa.field("clique_key", pa.int64(), nullable=False),
        # Rows of `vertices`, ascending.
        pa.field("vertices", pa.list_(pa.field("element", pa.int32(), nullable=False)), nullable=False),
        pa.field("size", pa.int32(), nullable=False),
    ]
)

# Ascending by size.
SIZE_HISTOGRAM = pa.schema(
    [
        pa.field("size", pa.int32(), nullable=False),
        pa.field("n_cliques", pa.int64(), nullable=False),
    ]
)


def vertices(key_type: pa.DataType) -> pa.Schema:
    """Schema of `vertices`: every vertex of the graph that was searched; the user's keys are int64 or string.

    `vertex` is the dense id, the rank of the key. `core_number` is the largest k for which the vertex is in a subgraph
    where each vertex has k neighbours. `largest_clique_key` names the largest clique of the vertex; ties go to the
    smallest key. Vertices in no published clique have 0, null and 0 in the last three columns.
    """
    return pa.schema(
        [
            pa.field("vertex", pa.int32(), nullable=False),
            pa.field("key", key_type, nullable=False),
            pa.field("degree", pa.int64(), nullable=False),
            pa.field("core_number", pa.int32(), nullable=False),
            pa.field("n_cliques", pa.int64(), nullable=False),
            pa.field("largest_clique_key", pa.int64(), nullable=True),
            pa.field("largest_clique_size", pa.int32(), nullable=False),
        ]
    )

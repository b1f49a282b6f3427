"""The published tables, column by column; any change needs a new `pipeline.publish.run_files.SCHEMA_VERSION`."""

from __future__ import annotations

import pyarrow as pa

BICLIQUES = pa.schema(
    [
        pa.field("biclique_key", pa.int64(), nullable=False),
        pa.field("left", pa.list_(pa.field("element", pa.int32(), nullable=False)), nullable=False),
        pa.field("right", pa.list_(pa.field("element", pa.int32(), nullable=False)), nullable=False),
        pa.field("n_left", pa.int32(), nullable=False),
        pa.field("n_right", pa.int32(), nullable=False),
        pa.field("n_edges", pa.int64(), nullable=False),
    ]
)

GRAPH = pa.field("graph", pa.string(), nullable=False)
"""The last column of `bicliques` in a run with `input.by`: its value, as text."""

MEMBERS = pa.schema(
    [
        pa.field("biclique_key", pa.int64(), nullable=False),
        pa.field("side", pa.dictionary(pa.int8(), pa.string()), nullable=False),
        pa.field("vertex", pa.int32(), nullable=False),
    ]
)

SIZE_HISTOGRAM = pa.schema(
    [
        pa.field("n_left", pa.int32(), nullable=False),
        pa.field("n_right", pa.int32(), nullable=False),
        pa.field("n_bicliques", pa.int64(), nullable=False),
    ]
)


def vertices(key_type: pa.DataType) -> pa.Schema:
    """Schema of `left_vertices` and `right_vertices`; the user's keys are int64 or string.

    `vertex` is the dense id, the rank of the key among the side's keys (integers by value, strings by bytes).
    `two_hop_degree` is the number of other vertices of the side that share a neighbour with the vertex; all null if
    counting would take more steps than `InputFacts.most_two_hop_steps`.
    `largest_biclique_key` names the vertex's biclique with the most edges; ties go to the smallest key. Vertices in no
    published biclique have 0, null and 0 in the last three columns.
    """
    return pa.schema(
        [
            pa.field("vertex", pa.int32(), nullable=False),
            pa.field("key", key_type, nullable=False),
            pa.field("degree", pa.int64(), nullable=False),
            pa.field("two_hop_degree", pa.int64(), nullable=True),
            pa.field("n_bicliques", pa.int64(), nullable=False),
            pa.field("largest_biclique_key", pa.int64(), nullable=True),
            pa.field("largest_biclique_edges", pa.int64(), nullable=False),
        ]
    )

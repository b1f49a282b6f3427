"""The tables of groups, column by column."""

from __future__ import annotations

import pyarrow as pa

from mbe_stage.pipeline.problems.both_sides import SIDE

# Without a zone, which neither cuDF's frames nor all readers of Parquet have.
MOMENT = pa.timestamp("us")
"""The type of times, which are UTC."""

GROUPS = pa.schema(
    [
        # The key that a biclique of these members has (`mbe_stage.bicliques.keys`).
        pa.field("group_key", pa.int64(), nullable=False),
        # 1, 2, 3 ... in the order of the rows.
        pa.field("rank", pa.int32(), nullable=False),
        pa.field("kind", pa.string(), nullable=False),
        pa.field("n_left", pa.int32(), nullable=False),
        pa.field("n_right", pa.int32(), nullable=False),
        pa.field("n_edges", pa.int64(), nullable=False),
        # n_edges / (n_left * n_right)
        pa.field("density", pa.float64(), nullable=False),
        # In nats; whole multiples of 2^-24.
        pa.field("surprise", pa.float64(), nullable=False),
        # In nats, of what is grown: what the group adds to those before it. Null in a short list.
        pa.field("residual_gain", pa.float64(), nullable=True),
        # Sum of the left members' degrees times that of the right members', by the edges of the graph.
        pa.field("expected_edges", pa.float64(), nullable=False),
        # n_edges by the sum of the left members' degrees.
        pa.field("left_edge_share", pa.float64(), nullable=False),
        pa.field("median_right_degree", pa.float64(), nullable=False),
        pa.field("seed_biclique_key", pa.int64(), nullable=False),
        # Itself and the candidates that were left out because they overlap it; each counts for the best such group. Of
        # what is grown: the seeds that have grown to it.
        pa.field("n_bicliques", pa.int64(), nullable=False),
        # Whether the surprise is above 0; nothing else is listed.
        pa.field("significant", pa.bool_(), nullable=False),
        # In nats: the surprise without what naming the group costs.
        pa.field("evidence", pa.float64(), nullable=False),
        # Of the edges' weights, where the input has some; that of an edge is the sum of its rows'.
        pa.field("weight_total", pa.float64(), nullable=True),
        pa.field("weight_median", pa.float64(), nullable=True),
        # Of the rows behind the edges, where the input has times; see `pipeline.problems.groups.times.GroupEvents`.
        pa.field("first_time", MOMENT, nullable=True),
        pa.field("last_time", MOMENT, nullable=True),
        pa.field("busiest_share", pa.float64(), nullable=True),
        # "1h", "1d", "3d" or "7d".
        pa.field("busiest_window", pa.string(), nullable=True),
        pa.field("busiest_start", MOMENT, nullable=True),
        # With buckets of time: whether it was found with those that begin half a bucket later. Null without buckets.
        pa.field("half_later", pa.bool_(), nullable=True),
        # 16 hexadecimal digits that groups share which a chain of common left members connects.
        pa.field("case", pa.string(), nullable=False),
        # new, grown, shrunk, changed or same, beside the last run; null where there is none to compare with.
        pa.field("since", pa.string(), nullable=True),
        # Known cases among the members, their share of the members that are counted, and the chance of so many; the
        # first is null without labels, the others too where none of the members is counted.
        pa.field("n_known", pa.int64(), nullable=True),
        pa.field("known_share", pa.float64(), nullable=True),
        pa.field("known_p_value", pa.float64(), nullable=True),
        # All its left members, or all its right ones, are known good.
        pa.field("is_muted", pa.bool_(), nullable=False),
        pa.field("explanation", pa.string(), nullable=False),
    ]
)

# With buckets of time: the right vertices of those that begin half a bucket later, which only groups have. Their ids
# follow those of `right_vertices`, in the order of the keys; degrees are those of their own graph.
HALF_LATER_VERTICES = pa.schema(
    [
        pa.field("vertex", pa.int32(), nullable=False),
        pa.field("key", pa.string(), nullable=False),
        pa.field("degree", pa.int64(), nullable=False),
    ]
)

# Of grown groups, which have not every edge: those that they have, by rank, then ascending by vertices.
GROUP_EDGES = pa.schema(
    [
        pa.field("group_key", pa.int64(), nullable=False),
        pa.field("left", pa.int32(), nullable=False),
        pa.field("right", pa.int32(), nullable=False),
    ]
)

# Where the input names times: how many rows stand behind a group's edges from `start` on, for so many seconds; by rank,
# then ascending by `start`. Parts without any are left out.
GROUP_TIMES = pa.schema(
    [
        pa.field("group_key", pa.int64(), nullable=False),
        pa.field("start", MOMENT, nullable=False),
        pa.field("seconds", pa.int64(), nullable=False),
        pa.field("n_events", pa.int64(), nullable=False),
    ]
)

# What `groups.labels` and `groups.allow` say, in this order; ascending by side and key, each once in a list.
KNOWN_KEYS = pa.schema(
    [
        # labels or allow
        pa.field("list", pa.string(), nullable=False),
        pa.field("side", SIDE, nullable=False),
        # As text.
        pa.field("key", pa.large_string(), nullable=False),
        # Null in the allow list.
        pa.field("class", pa.large_string(), nullable=True),
        # Of the vertex with this key; null where the graph has none.
        pa.field("vertex", pa.int32(), nullable=True),
    ]
)


def group_members(keys: pa.DataType) -> pa.Schema:
    """Schema of `group_members`: rows by rank, the left members before the right ones, ascending by `vertex`."""
    return pa.schema(
        [
            pa.field("group_key", pa.int64(), nullable=False),
            pa.field("side", SIDE, nullable=False),
            pa.field("vertex", pa.int32(), nullable=False),
            pa.field("key", keys, nullable=False),
            # Of the member, to members of the group's other side; and by all that it has.
            pa.field("n_edges", pa.int64(), nullable=False),
            pa.field("edge_share", pa.float64(), nullable=False),
            # The member's class in `groups.labels`; null without.
            pa.field("label", pa.string(), nullable=True),
        ]
    )


def vertex_scores(keys: pa.DataType) -> pa.Schema:
    """Schema of `vertex_scores`: every vertex, the left ones first, ascending by `vertex`."""
    return pa.schema(
        [
            pa.field("side", SIDE, nullable=False),
            pa.field("vertex", pa.int32(), nullable=False),
            pa.field("key", keys, nullable=False),
            # The score to begin with: `edge_share`.
            pa.field("score", pa.float64(), nullable=False),
            # Of the groups that hold the vertex, the one that ranks first; null where none does.
            pa.field("group_key", pa.int64(), nullable=True),
            pa.field("n_groups", pa.int64(), nullable=False),
            # Of the vertex's edges, those that lie in some group.
            pa.field("group_edge_share", pa.float64(), nullable=False),
            pa.field("degree", pa.int64(), nullable=False),
            # Share of the side's vertices with a smaller degree, and half of those with the same.
            pa.field("degree_percentile", pa.float64(), nullable=False),
            # See `mbe_stage.groups.vertex_scores`; all are 0 of a vertex that is in no biclique.
            pa.field("share_size", pa.float64(), nullable=False),
            pa.field("edge_share", pa.float64(), nullable=False),
            pa.field("edge_sqrt", pa.float64(), nullable=False),
            # With known cases (`pipeline.problems.groups.association`); null of vertices with a label, and without any.
            pa.field("association", pa.float64(), nullable=True),
        ]
    )

"""The tables of groups, column by column."""

from __future__ import annotations

import pyarrow as pa

from mbe_stage.pipeline.problems.both_sides import SIDE

# Without a time zone, because cuDF and some Parquet readers do not support one.
MOMENT = pa.timestamp("us")
"""The type of times, which are UTC."""

GROUPS = pa.schema(
    [
        # The biclique key of these members (`mbe_stage.bicliques.keys`).
        pa.field("group_key", pa.int64(), nullable=False),
        # 1, 2, 3 ... in the order of the rows.
        pa.field("rank", pa.int32(), nullable=False),
        # short_list for a biclique, grown_cover for a group that may lack some edges.
        pa.field("kind", pa.string(), nullable=False),
        pa.field("n_left", pa.int32(), nullable=False),
        pa.field("n_right", pa.int32(), nullable=False),
        pa.field("n_edges", pa.int64(), nullable=False),
        # n_edges / (n_left * n_right)
        pa.field("density", pa.float64(), nullable=False),
        # In nats; whole multiples of 2^-24.
        pa.field("surprise", pa.float64(), nullable=False),
        # Sum of the left members' degrees times that of the right members', divided by the edges of the graph; with
        # effective degrees (`mbe_stage.groups.null_model`) the sum of the probabilities of all pairs.
        pa.field("expected_edges", pa.float64(), nullable=False),
        # n_edges divided by the sum of the left members' degrees.
        pa.field("left_edge_share", pa.float64(), nullable=False),
        pa.field("median_right_degree", pa.float64(), nullable=False),
        # The best significant biclique inside the group: itself for a biclique; null without one.
        pa.field("core_key", pa.int64(), nullable=True),
        # Significant bicliques: the group itself if it is one, and the near copies of it; each counts for the best
        # such group.
        pa.field("n_bicliques", pa.int64(), nullable=False),
        # True if p_bound is below 0.05. Only such groups are listed.
        pa.field("significant", pa.bool_(), nullable=False),
        # exp(-surprise): bounds the chance that a random graph with these degrees has a group of this surprise.
        pa.field("p_bound", pa.float64(), nullable=False),
        # strong if the evidence pays for naming the members among all vertices of the graph; else significant.
        pa.field("level", pa.string(), nullable=False),
        # (1 + random copies whose best group has at least this surprise) / (1 + copies); null without copies.
        pa.field("chance_p_value", pa.float64(), nullable=True),
        # In nats: the surprise without the cost of naming the group.
        pa.field("evidence", pa.float64(), nullable=False),
        # Edge weights, if the input has weights. An edge's weight is the sum over its rows.
        pa.field("weight_total", pa.float64(), nullable=True),
        pa.field("weight_median", pa.float64(), nullable=True),
        # Times of the rows behind the edges, if the input has times; see `pipeline.problems.groups.times.GroupEvents`.
        pa.field("first_time", MOMENT, nullable=True),
        pa.field("last_time", MOMENT, nullable=True),
        pa.field("busiest_share", pa.float64(), nullable=True),
        # "1h", "1d", "3d" or "7d".
        pa.field("busiest_window", pa.string(), nullable=True),
        pa.field("busiest_start", MOMENT, nullable=True),
        pa.field("busiest_item_share", pa.float64(), nullable=True),
        # If several right keys were tried: the group's key, "items" for the right vertices alone, or the names of what
        # narrows them, such as "rating x 1d". Else null.
        pa.field("key", pa.string(), nullable=True),
        # With time buckets, named or tried: true if the group was found in the graph whose buckets begin half a bucket
        # later. Else null.
        pa.field("half_later", pa.bool_(), nullable=True),
        # 16 hexadecimal digits, the same for groups that overlap the first group of the case by half.
        pa.field("case", pa.string(), nullable=False),
        # new, grown, shrunk, changed or same, compared with the last run; null without such a run.
        pa.field("since", pa.string(), nullable=True),
        # Known cases among the members, their share of the counted members, and the p-value. All are null without
        # labels; the last two also if no member is counted.
        pa.field("n_known", pa.int64(), nullable=True),
        pa.field("known_share", pa.float64(), nullable=True),
        pa.field("known_p_value", pa.float64(), nullable=True),
        # The verdict on the case: fraud, fine or open; null without one (`pipeline.problems.groups.decided`).
        pa.field("verdict", pa.string(), nullable=True),
        # True if all left members, or all right members, are known good, or the case is fine.
        pa.field("is_muted", pa.bool_(), nullable=False),
        pa.field("explanation", pa.string(), nullable=False),
    ]
)

# With time buckets: the right vertices of the buckets that begin half a bucket later; only groups use them. Their ids
# follow those of `right_vertices`, in key order. Degrees are those of their own graph.
HALF_LATER_VERTICES = pa.schema(
    [
        pa.field("vertex", pa.int32(), nullable=False),
        pa.field("key", pa.string(), nullable=False),
        pa.field("degree", pa.int64(), nullable=False),
    ]
)

# If right keys are tried: each graph other than that of the items, in the order of the search.
GROUP_KEYS = pa.schema(
    [
        pa.field("key", pa.string(), nullable=False),
        # As in `groups`.
        pa.field("half_later", pa.bool_(), nullable=True),
        # searched, truncated, or not tried because the time ran out.
        pa.field("status", pa.string(), nullable=False),
        # Null if it was not tried.
        pa.field("n_right", pa.int64(), nullable=True),
        pa.field("n_edges", pa.int64(), nullable=True),
        pa.field("n_bicliques", pa.int64(), nullable=True),
    ]
)

# The edges of all groups; by rank, then ascending by vertices.
GROUP_EDGES = pa.schema(
    [
        pa.field("group_key", pa.int64(), nullable=False),
        pa.field("left", pa.int32(), nullable=False),
        pa.field("right", pa.int32(), nullable=False),
        # As in `group_members`, of the right end.
        pa.field("key_value", pa.string(), nullable=True),
    ]
)

# If the input has times: the rows behind a group's edges within `seconds` from `start`; by rank, then ascending by
# `start`. Empty intervals are left out.
GROUP_TIMES = pa.schema(
    [
        pa.field("group_key", pa.int64(), nullable=False),
        pa.field("start", MOMENT, nullable=False),
        pa.field("seconds", pa.int64(), nullable=False),
        pa.field("n_events", pa.int64(), nullable=False),
    ]
)

# The rows of `groups.labels`, then of `groups.allow`; ascending by side and key, each once per list.
KNOWN_KEYS = pa.schema(
    [
        # labels or allow
        pa.field("list", pa.string(), nullable=False),
        pa.field("side", SIDE, nullable=False),
        # As text.
        pa.field("key", pa.large_string(), nullable=False),
        # Null in the allow list.
        pa.field("class", pa.large_string(), nullable=True),
        # The vertex with this key; null if the graph has none.
        pa.field("vertex", pa.int32(), nullable=True),
    ]
)

# The newest verdict on each case, as read by this run, with the members of the case at the time: one row a member. By
# time of the decision, then ascending by side and key. Empty without verdicts.
VERDICTS = pa.schema(
    [
        # The id of the case in the run that was decided on.
        pa.field("case", pa.string(), nullable=False),
        # fraud, fine or open
        pa.field("verdict", pa.string(), nullable=False),
        pa.field("note", pa.string(), nullable=False),
        pa.field("who", pa.string(), nullable=False),
        pa.field("at", MOMENT, nullable=False),
        pa.field("run", pa.string(), nullable=False),
        pa.field("side", SIDE, nullable=False),
        # As text.
        pa.field("key", pa.large_string(), nullable=False),
        # The member's class in `groups.labels` at the time; null without.
        pa.field("label", pa.large_string(), nullable=True),
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
            # The member's edges inside the group, and their share of its degree.
            pa.field("n_edges", pa.int64(), nullable=False),
            pa.field("edge_share", pa.float64(), nullable=False),
            # The member's class in `groups.labels`; null without.
            pa.field("label", pa.string(), nullable=True),
            # For a right member of a group whose key narrows the items: the value added to the item in `vertex` and
            # `key`, as a JSON array; such rows ascend by item key and value as JSON text.
            pa.field("key_value", pa.string(), nullable=True),
            # A member of the group's core (`core_key`).
            pa.field("is_core", pa.bool_(), nullable=False),
        ]
    )


def group_halo(keys: pa.DataType) -> pa.Schema:
    """Schema of `group_halo`: the next vertices to join each grown group; by rank, side and place.

    These are leads: nothing is said about their significance.
    """
    return pa.schema(
        [
            pa.field("group_key", pa.int64(), nullable=False),
            pa.field("side", SIDE, nullable=False),
            # 1, 2, 3 ... on each side.
            pa.field("place", pa.int32(), nullable=False),
            pa.field("vertex", pa.int32(), nullable=False),
            pa.field("key", keys, nullable=False),
            # In nats: the evidence of its edges into the group and its halo, minus that of the missing edges.
            pa.field("gain", pa.float64(), nullable=False),
            # Edges into the group itself.
            pa.field("n_edges", pa.int64(), nullable=False),
            # As in `group_members`.
            pa.field("key_value", pa.string(), nullable=True),
        ]
    )


def vertex_scores(keys: pa.DataType) -> pa.Schema:
    """Schema of `vertex_scores`: every vertex, the left ones first, ascending by `vertex`."""
    return pa.schema(
        [
            pa.field("side", SIDE, nullable=False),
            pa.field("vertex", pa.int32(), nullable=False),
            pa.field("key", keys, nullable=False),
            # The recommended score: percentile of the mean of the ranks of `edge_share` and `grown_surprise`.
            pa.field("score", pa.float64(), nullable=False),
            # The best-ranked group of the vertex; null without one.
            pa.field("group_key", pa.int64(), nullable=True),
            pa.field("n_groups", pa.int64(), nullable=False),
            # The vertex's edges that lie in some group.
            pa.field("group_edge_share", pa.float64(), nullable=False),
            pa.field("degree", pa.int64(), nullable=False),
            # Share of the side's vertices with a smaller degree, plus half of those with the same degree.
            pa.field("degree_percentile", pa.float64(), nullable=False),
            # See `mbe_stage.groups.vertex_scores`; all are 0 for a vertex in no biclique.
            pa.field("share_size", pa.float64(), nullable=False),
            pa.field("edge_share", pa.float64(), nullable=False),
            pa.field("edge_sqrt", pa.float64(), nullable=False),
            # See `pipeline.problems.groups.association`; null for labelled vertices, and without labels.
            pa.field("association", pa.float64(), nullable=True),
            # The largest surprise of a grown group of the vertex, listed or not, in nats; 0 without one.
            pa.field("grown_surprise", pa.float64(), nullable=False),
            # See `mbe_stage.groups.eigenvector`.
            pa.field("tfidf_eigenvector", pa.float64(), nullable=False),
        ]
    )

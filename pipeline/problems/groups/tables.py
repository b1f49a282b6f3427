"""The chosen groups and the scores of all vertices as tables; see `pipeline.problems.groups.schemas`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from mbe_stage.graphs.bipartite import BipartiteCSR
from mbe_stage.groups.eigenvector import tfidf_eigenvector
from mbe_stage.groups.halo import halos
from mbe_stage.groups.members import GroupMembers
from mbe_stage.groups.null_model import SIGNIFICANT, UNIT, NullModel
from mbe_stage.groups.selection import SCHEDULE
from mbe_stage.groups.vertex_scores import degree_percentiles, rank_score
from mbe_stage.pipeline.problems.both_sides import sides
from mbe_stage.pipeline.problems.groups.chosen import GROWN_COVER, SHORT_LIST, Chosen, GroupEdges
from mbe_stage.pipeline.problems.groups.schemas import GROUP_EDGES, GROUPS, group_halo, group_members, vertex_scores
from mbe_stage.pipeline.problems.groups.times import GroupEvents, within_words
from mbe_stage.pipeline.wording import percent_text, plural

# Minimum share of the events for a window to be mentioned.
_WORTH_TELLING = 0.5

Pair = tuple[np.ndarray, np.ndarray]
_OF_EVENTS = (
    "weight_total",
    "weight_median",
    "first_time",
    "last_time",
    "busiest_share",
    "busiest_window",
    "busiest_start",
    "busiest_item_share",
)


def explanation(
    n_left: int,
    n_right: int,
    n_edges: int,
    expected_edges: float,
    left_edge_share: float,
    within: tuple[float, float, str] | None = None,
) -> str:
    """Return the sentence that explains a group.

    Parameters
    ----------
    expected_edges : float
        Expected from the members' degrees.
    left_edge_share : float
        The group's edges divided by all edges of its left members.
    within : (float, float, str), optional
        The largest shares of its events, and of all events of its items, within a window, and the window's width. Left
        out if the group's share is below one half, or not the larger one.

    Examples
    --------
    >>> print(explanation(109, 23, 825, 14.3, 0.94, (0.8, 0.35, "3 days")))
    109 left x 23 right members, 825 of 2,507 possible edges; by their degrees 14 would be expected; 94 % of the left \
members' edges are among them; 80 % within 3 days (all edges of these items: 35 %)
    >>> print(explanation(1, 3, 3, 0.02, 1.0))
    1 left x 3 right members, all of 3 possible edges; by their degrees fewer than 0.1 would be expected; 100 % of the \
left members' edges are among them
    """
    possible = n_left * n_right
    edges = "all" if n_edges == possible else f"{n_edges:,}"
    in_time = ""
    if within is not None and within[0] >= _WORTH_TELLING and within[0] > within[1]:
        share, of_items, window = percent_text(within[0]), percent_text(within[1]), within[2]
        in_time = f"; {share} within {window} (all edges of these items: {of_items})"
    return (
        f"{n_left:,} left x {n_right:,} right members, {edges} of {plural(possible, 'possible edge')}; "
        f"by their degrees {_number(expected_edges)} would be expected; "
        f"{percent_text(left_edge_share)} of the left members' edges are among them{in_time}"
    )


def _number(value: float) -> str:
    if value >= 10:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 0.1 else "fewer than 0.1"


def groups_table(
    chosen: Chosen,
    edges: GroupEdges,
    graph: BipartiteCSR,
    model: NullModel,
    events: list[GroupEvents],
) -> pa.Table:
    """Build `groups`: one row per group, by rank. Columns that are made elsewhere are all null."""
    members = chosen.members
    left_degrees, right_degrees = (
        [degrees[part] for part in parts]
        for degrees, parts in (
            (graph.left_degrees, [left for left, _ in members]),
            (graph.right_degrees, [right for _, right in members]),
        )
    )
    # Exact integers, divided once, give the same result on every machine.
    left_sums, right_sums = ([int(part.sum()) for part in of] for of in (left_degrees, right_degrees))
    n_edges, n_left, n_right = edges.n_edges.tolist(), members.left_sizes.tolist(), members.right_sizes.tolist()
    expected = [left * right / graph.n_edges for left, right in zip(left_sums, right_sums, strict=True)]
    if model.is_fitted:
        expected = [model.expected_edges(left, right) for left, right in members]
    is_strong = model.is_strong(members, chosen.evidence, is_grown=chosen.is_grown)
    shares = [found / degrees for found, degrees in zip(n_edges, left_sums, strict=True)]
    within = [within_words(group) for group in events]
    columns = {
        "group_key": chosen.keys,
        "rank": (chosen.places + 1).astype(np.int32),
        "kind": np.where(chosen.is_grown, GROWN_COVER, SHORT_LIST),
        "n_left": n_left,
        "n_right": n_right,
        "n_edges": n_edges,
        "density": [found / (a * b) for found, a, b in zip(n_edges, n_left, n_right, strict=True)],
        "surprise": chosen.surprise / UNIT,
        "expected_edges": expected,
        "left_edge_share": shares,
        "median_right_degree": [float(np.median(part)) for part in right_degrees],
        "core_key": pa.array(chosen.core_keys, mask=chosen.cores.left_sizes == 0),
        "n_bicliques": chosen.n_bicliques,
        "significant": chosen.surprise > SIGNIFICANT,
        "p_bound": np.exp(-chosen.surprise / UNIT),
        "level": np.where(is_strong, "strong", "significant"),
        "evidence": chosen.evidence / UNIT,
        **{name: [getattr(group, name) for group in events] for name in _OF_EVENTS},
        "explanation": [
            explanation(*row) for row in zip(n_left, n_right, n_edges, expected, shares, within, strict=True)
        ],
    }
    arrays = [pa.array(columns.get(field.name, [None] * len(members)), field.type) for field in GROUPS]
    return pa.Table.from_arrays(arrays, schema=GROUPS)


def edges_table(chosen: Chosen, edges: GroupEdges) -> pa.Table:
    """Build `group_edges`: the edges of each group."""
    none = pa.nulls(edges.left.size, pa.string())
    columns = [pa.array(np.repeat(chosen.keys, edges.n_edges)), pa.array(edges.left), pa.array(edges.right), none]
    return pa.Table.from_arrays(columns, schema=GROUP_EDGES)


def members_table(chosen: Chosen, edges: GroupEdges, graph: BipartiteCSR, keys: pa.Array) -> pa.Table:
    """Build `group_members` without labels: the left members of each group, then the right ones.

    Parameters
    ----------
    keys : pa.Array
        Keys from `keys_of_both_sides`.
    """
    groups, is_right, vertices = _in_order(chosen.members)
    core_groups, core_is_right, core_vertices = _in_order(chosen.cores)
    n_edges = np.empty(is_right.size, np.int64)
    n_edges[~is_right], n_edges[is_right] = edges.of_left, edges.of_right
    degrees = np.concatenate([graph.left_degrees, graph.right_degrees])
    places = vertices + np.where(is_right, graph.n_left, 0)
    none = pa.nulls(vertices.size, pa.string())
    columns = [
        pa.array(chosen.keys[groups]),
        sides(is_right),
        pa.array(vertices),
        keys.take(pa.array(places)),
        pa.array(n_edges),
        pa.array(n_edges / degrees[places]),
        none,
        none,
        pa.array(
            np.isin((2 * groups + is_right) << 32 | vertices, (2 * core_groups + core_is_right) << 32 | core_vertices)
        ),
    ]
    return pa.Table.from_arrays(columns, schema=group_members(keys.type))


def _in_order(members: GroupMembers) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return group, side and vertex of each member, group by group, left members first."""
    sizes = np.column_stack([members.left_sizes, members.right_sizes]).ravel()
    owners = np.repeat(np.arange(sizes.size), sizes)
    is_right = owners % 2 == 1
    vertices = np.empty(owners.size, np.int32)
    vertices[~is_right], vertices[is_right] = members.left_members, members.right_members
    return owners // 2, is_right, vertices


def halo_table(chosen: Chosen, graph: BipartiteCSR, model: NullModel, keys: pa.Array) -> pa.Table:
    """Build `group_halo`: for each grown group the left vertices of its halo, then the right ones, best first.

    Parameters
    ----------
    keys : pa.Array
        Keys from `keys_of_both_sides`.
    """
    rows = np.flatnonzero(chosen.is_grown)
    members = chosen.members.take(rows)
    none = np.empty(0, np.int64)
    columns: list[list[np.ndarray]] = [[none], [none], [none], [none], [none], [none]]
    found = halos(graph, members, model, SCHEDULE)
    for row, (left, right) in enumerate(members):
        for side, others in enumerate((right, left)):
            part = slice(*found[side].offsets[row : row + 2])
            vertices = found[side].vertices[part].astype(np.int64)
            of_vertex = graph.neighbours_of_right if side else graph.neighbours_of_left
            ends = [of_vertex(vertex) for vertex in vertices]
            inside = np.isin(np.concatenate([none, *ends]), others)
            owners = np.repeat(np.arange(vertices.size), [each.size for each in ends])
            n_edges = np.bincount(owners[inside], minlength=vertices.size)
            sizes = np.full(vertices.size, rows[row]), np.full(vertices.size, side), np.arange(1, vertices.size + 1)
            for column, values in zip(columns, (*sizes, vertices, found[side].gains[part], n_edges), strict=True):
                column.append(values)
    group, side_of, place, vertices, gains, n_edges = (np.concatenate(column) for column in columns)
    return pa.Table.from_arrays(
        [
            pa.array(chosen.keys[group]),
            sides(side_of == 1),
            pa.array(place.astype(np.int32)),
            pa.array(vertices.astype(np.int32)),
            keys.take(pa.array(vertices + side_of * graph.n_left)),
            pa.array(gains / UNIT),
            pa.array(n_edges),
            pa.nulls(group.size, pa.string()),
        ],
        schema=group_halo(keys.type),
    )


def scores_table(
    parts: Sequence[Chosen],
    scores: Sequence[Mapping[str, Pair]],
    graph: BipartiteCSR,
    keys: pa.Array,
    association: pa.Array | None,
) -> pa.Table:
    """Build `vertex_scores`: every vertex of the run's graph, the left ones first.

    Left vertices are in all graphs: they have the best of their scores, and all their groups.

    Parameters
    ----------
    parts : sequence of Chosen
        The groups of each graph, that of the run first.
    scores : sequence of mapping
        The scores of each graph's left and right vertices, by the names of their columns.
    keys : pa.Array
        Keys from `keys_of_both_sides`.
    """
    best = {name: [np.max([of[name][0] for of in scores], axis=0), right] for name, (_, right) in scores[0].items()}
    degrees = graph.left_degrees, graph.right_degrees
    # The entry behind the last rank means no group.
    group_keys = np.zeros(sum(of.places.size for of in parts) + 1, np.int64)
    ranks = [np.full(of.size, group_keys.size - 1) for of in degrees]
    n_groups = [np.zeros(of.size, np.int64) for of in degrees]
    for i, of in enumerate(parts):
        group_keys[of.places] = of.keys
        for side in (0,) if i else (0, 1):
            members, owners = of.members.side(side)
            np.minimum.at(ranks[side], members, of.places[owners])
            n_groups[side] += np.bincount(members, minlength=degrees[side].size)
    rank = np.concatenate(ranks)
    columns = {
        "side": sides(np.arange(len(keys)) >= graph.n_left),
        "vertex": np.concatenate([np.arange(of.size, dtype=np.int32) for of in degrees]),
        "key": keys,
        "score": np.concatenate(list(map(rank_score, best["edge_share"], best["grown_surprise"]))),
        "group_key": pa.array(group_keys[rank], mask=rank == group_keys.size - 1),
        "n_groups": np.concatenate(n_groups),
        "degree": np.concatenate(degrees).astype(np.int64),
        "degree_percentile": np.concatenate([degree_percentiles(of) for of in degrees]),
        **{name: np.concatenate(of_sides) for name, of_sides in best.items()},
        "association": pa.nulls(len(keys), pa.float64()) if association is None else association.slice(0, len(keys)),
        "tfidf_eigenvector": np.concatenate(tfidf_eigenvector(graph)),
    }
    schema = vertex_scores(keys.type)
    return pa.Table.from_arrays([pa.array(columns[name]) for name in schema.names], schema=schema)

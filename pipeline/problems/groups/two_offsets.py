"""One list of groups from several graphs: those of both offsets of the time buckets.

The graphs have the same left vertices and the same input rows behind their edges. Each group belongs to one graph, and
its figures use the degrees of that graph. Near copies are dropped by their left members, between graphs as within one,
so a group found in both appears once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import accumulate, pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mbe_stage.groups.members import GroupMembers
from mbe_stage.groups.selection import GrownGroups, seed_rows
from mbe_stage.groups.together import grown_together, together
from mbe_stage.pipeline.problems.groups.chosen import (
    GROWN_COVER,
    Chosen,
    GroupEdges,
    chosen_of_grown,
    cover_of,
    short_list_of,
)
from mbe_stage.pipeline.problems.groups.known import Known, up_to_limit
from mbe_stage.pipeline.problems.groups.schemas import HALF_LATER_VERTICES
from mbe_stage.pipeline.problems.groups.searched import Searched

Ranked = tuple[np.ndarray, Chosen]
"""Groups of one graph, with its own ids, and their positions in the common list, from 0."""

# Columns for which a left vertex, present in both graphs, keeps the better value.
_BEST_OF = ("share_size", "edge_share", "edge_sqrt", "grown_surprise", "tfidf_eigenvector", "group_edge_share")
# The last part of a right key with a time bucket.
_BUCKET = r',"[^"]*"\]$'


def choose(searches: Sequence[Searched], grown: Sequence[GrownGroups], known: Known) -> list[Ranked]:
    """Choose the listed groups of each graph; muted ones do not use up the limit.

    Parameters
    ----------
    grown : sequence of GrownGroups
        Of each graph.
    known : Known
        Known keys of the vertices of all graphs; right ids of a later graph follow those of earlier ones.
    """
    section = searches[0].collecting.config.section("groups")
    if section.kind == GROWN_COVER:
        return _grown(searches, grown, section.limit, known)
    starts = _starts(searches)
    candidates = together([(one.candidates, one.collecting.graph.n_right) for one in searches])
    chosen = short_list_of(candidates, section, searches[0].model if len(searches) == 1 else None, known)
    first = chosen.members.right_members[chosen.members.right_offsets[:-1]]
    ranked = []
    for (start, end), one in zip(pairwise(starts), searches, strict=True):
        rows = np.flatnonzero((first >= start) & (first < end))
        ranked.append((rows, chosen.take(rows).moved(-start).with_evidence(one.model)))
    return ranked


def seeds_of(search: Searched) -> np.ndarray:
    """Return the rows of the candidates that groups grow from."""
    return seed_rows(len(search.candidates), search.sink.left_best, search.sink.right_best)


def listed(searches: Sequence[Searched], ranked: Sequence[Ranked]) -> GroupMembers:
    """Return the members of all groups by rank; right ids of a later graph follow those of earlier ones."""
    moved = [chosen.moved(start).members for start, (_, chosen) in zip(_starts(searches), ranked, strict=False)]
    return GroupMembers.joined(moved).take(np.argsort(np.concatenate([rows for rows, _ in ranked])))


def keys_of_all(searches: Sequence[Searched]) -> pa.Array:
    """Return the right keys of all graphs, in the order of those ids."""
    keys = [one.collecting.edges.right_keys for one in searches]
    return keys[0] if len(keys) == 1 else pa.concat_arrays([each.cast(pa.large_string()) for each in keys])


def edges_by_rank(
    searches: Sequence[Searched], ranked: Sequence[Ranked], edges: Sequence[GroupEdges]
) -> list[np.ndarray]:
    """Return the edges of each group by rank, as ascending numbers that are the same in all graphs.

    Graphs of different buckets have no edge in common, so an edge is a left member and an item: a right key without its
    time bucket.
    """
    keys = keys_of_all(searches)
    items = np.arange(len(keys))
    if len(searches) > 1:
        without_bucket = pc.replace_substring_regex(keys, pattern=_BUCKET, replacement="]")
        items = without_bucket.dictionary_encode().indices.to_numpy().astype(np.int64)
    found: dict[int, np.ndarray] = {}
    for start, (rows, _), of in zip(_starts(searches), ranked, edges, strict=False):
        numbers = of.left.astype(np.int64) << 32 | items[of.right + start]
        parts = np.split(numbers, np.cumsum(of.n_edges[:-1]))
        found.update(zip(rows.tolist(), map(np.unique, parts), strict=False))
    return [found[row] for row in range(len(found))]


def with_columns(table: pa.Table, columns: Mapping[str, pa.Array | None]) -> pa.Table:
    """Replace values of some columns, from the first row on; None leaves a column unchanged."""
    for name, values in columns.items():
        if values is not None:
            table = _set(table, name, values.slice(0, table.num_rows))
    return table


def merged(parts: Sequence[Mapping[str, pa.Table]], ranked: Sequence[Ranked]) -> dict[str, pa.Table]:
    """Merge the tables of each graph's groups into those of one list.

    Parameters
    ----------
    parts : sequence of mapping
        The tables by name; right ids are those of the graph.

    Returns
    -------
    dict
        Right ids of the second graph follow those of the first. `vertex_scores` has the vertices of the first.
    """
    n_right = int(np.count_nonzero(_is_right(parts[0]["vertex_scores"])))
    scores = _merged_scores(parts, ranked)
    tables = {}
    for name in parts[0]:
        if name == "vertex_scores":
            tables[name] = scores
            continue
        shifted = [_with_right_from(part[name], name, n_right * i) for i, part in enumerate(parts)]
        joined = pa.concat_tables(shifted, promote_options="permissive")
        ranks = np.concatenate([_rank_of_rows(part[name], *of) for part, of in zip(parts, ranked, strict=True)])
        tables[name] = joined.take(pa.array(np.argsort(ranks, kind="stable")))
    groups = tables["groups"]
    later = np.repeat(np.arange(len(parts)), [part["groups"].num_rows for part in parts]) > 0
    later = later[np.argsort(np.concatenate([rows for rows, _ in ranked]), kind="stable")]
    groups = _set(groups, "rank", pa.array(np.arange(1, groups.num_rows + 1, dtype=np.int32)))
    tables["groups"] = _set(groups, "half_later", pa.array(later))
    return tables


def half_later_vertices(first: Searched, later: Searched | None = None) -> pa.Table:
    """Build the table of the later buckets' right vertices; their ids follow those of the first graph.

    Parameters
    ----------
    later : Searched, optional
        None if it was not searched.
    """
    if later is None:
        return HALF_LATER_VERTICES.empty_table()
    n, graph = first.collecting.graph.n_right, later.collecting.graph
    columns = [
        pa.array(np.arange(n, n + graph.n_right, dtype=np.int32)),
        later.collecting.edges.right_keys.cast(pa.string()),
        pa.array(graph.right_degrees.astype(np.int64)),
    ]
    return pa.Table.from_arrays(columns, schema=HALF_LATER_VERTICES)


def _starts(searches: Sequence[Searched]) -> list[int]:
    """Return the first right id of each graph, then the end of the last."""
    return [0, *accumulate(one.collecting.graph.n_right for one in searches)]


def _grown(searches: Sequence[Searched], grown: Sequence[GrownGroups], limit: int, known: Known) -> list[Ranked]:
    """Return the cover of one graph, or the groups of several without near copies of more surprising ones."""
    if len(searches) == 1:
        first = searches[0]
        chosen = cover_of(grown[0], first.candidates, first.collecting, first.model, known)
        return [(np.arange(len(chosen.members)), chosen)]
    starts = _starts(searches)

    def is_muted(found: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
        muted = np.zeros(found[0].size, np.bool_)
        for i, of_graph in enumerate(grown):
            members = of_graph.members.take(found[1][found[0] == i])
            moved = replace(members, right_members=members.right_members + np.int32(starts[i]))
            muted[found[0] == i] = known.is_muted(moved)
        return muted

    (graphs, rows), n = up_to_limit(limit, lambda most: grown_together(grown, most), is_muted)
    ranked = []
    for i, one in enumerate(searches):
        places = np.flatnonzero(graphs[:n] == i)
        own = grown[i].take(rows[places])
        ranked.append((places, chosen_of_grown(own, None, one.candidates, one.collecting)))
    return ranked


def _rank_of_rows(table: pa.Table, ranks: np.ndarray, chosen: Chosen) -> np.ndarray:
    """Return the list position of each row's group."""
    order = np.argsort(chosen.keys)
    keys = table["group_key"].to_numpy()
    return ranks[order[np.searchsorted(chosen.keys, keys, sorter=order)]]


def _with_right_from(table: pa.Table, name: str, start: int) -> pa.Table:
    """Shift the right ids of a table."""
    if name == "group_members":
        moved = table["vertex"].to_numpy() + np.where(_is_right(table), np.int32(start), np.int32(0))
        return _set(table, "vertex", pa.array(moved.astype(np.int32)))
    if name == "group_edges":
        return _set(table, "right", pa.array((table["right"].to_numpy() + start).astype(np.int32)))
    return table


def _merged_scores(parts: Sequence[Mapping[str, pa.Table]], ranked: Sequence[Ranked]) -> pa.Table:
    """Return `vertex_scores` of the first graph; a left vertex keeps its best values and all its groups."""
    tables = [part["vertex_scores"] for part in parts]
    n_left = int(np.count_nonzero(~_is_right(tables[0])))
    found = tables[0]
    for name in _BEST_OF:
        best = np.max([table[name].to_numpy()[:n_left] for table in tables], axis=0)
        found = _set(found, name, pa.array(np.concatenate([best, found[name].to_numpy()[n_left:]])))
    n_groups = np.sum([table["n_groups"].to_numpy()[:n_left] for table in tables], axis=0)
    found = _set(found, "n_groups", pa.array(np.concatenate([n_groups, found["n_groups"].to_numpy()[n_left:]])))
    # The entry after the last rank means no group.
    keys = np.zeros(sum(rows.size for rows, _ in ranked) + 1, np.int64)
    for rows, chosen in ranked:
        keys[rows] = chosen.keys
    first = np.full(n_left, keys.size - 1)
    for rows, chosen in ranked:
        np.minimum.at(first, chosen.members.left_members, np.repeat(rows, chosen.members.left_sizes))
    of_left = pa.array(keys[first], mask=first == keys.size - 1)
    of_right = found["group_key"].slice(n_left).combine_chunks()
    return _set(found, "group_key", pa.concat_arrays([of_left, of_right]))


def _is_right(table: pa.Table) -> np.ndarray:
    return pc.equal(table["side"].cast(pa.string()), "right").to_numpy(zero_copy_only=False)


def _set(table: pa.Table, name: str, values: pa.Array) -> pa.Table:
    place = table.schema.get_field_index(name)
    field = table.schema.field(name)
    return table.set_column(place, field, values.cast(field.type))

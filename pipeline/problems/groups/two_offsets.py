"""One list of groups from several graphs: those of both offsets of the time buckets, or of the keys that are tried.

The graphs have the same left vertices and the same input rows behind their edges. Each group belongs to one graph, and
its figures use the degrees of that graph. Near copies are dropped by their left members, between graphs as within one,
so a group found in both appears once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate, pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mbe_stage.groups.bystanders import GrownGroups
from mbe_stage.groups.members import GroupMembers
from mbe_stage.groups.selection import seed_rows
from mbe_stage.groups.together import arranged, grown_together, together
from mbe_stage.pipeline.problems.groups.chosen import (
    GROWN_COVER,
    Chosen,
    GroupEdges,
    chosen_of_grown,
    cover_of,
    short_list_of,
    with_items,
)
from mbe_stage.pipeline.problems.groups.known import Known, up_to_limit
from mbe_stage.pipeline.problems.groups.schemas import HALF_LATER_VERTICES
from mbe_stage.pipeline.problems.groups.searched import Searched
from mbe_stage.pipeline.problems.groups.tried_keys import PLAIN, values_of

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
    arrange, items = _arrangement(searches)
    if section.kind == GROWN_COVER:
        return _grown(searches, grown, section.limit, known, arrange)
    starts = _starts(searches)
    candidates = together([(one.candidates, one.n_right) for one in searches])

    def by_first_right(order: np.ndarray, members: GroupMembers) -> np.ndarray:
        first = members.right_members[members.right_offsets[:-1]]
        assert arrange is not None
        return arrange(order, members, np.searchsorted(starts, first, side="right") - 1)

    model = searches[0].model if len(searches) == 1 else None
    chosen = short_list_of(candidates, section, model, known, by_first_right if arrange else None, items)
    first = chosen.members.right_members[chosen.members.right_offsets[:-1]]
    ranked = []
    for (start, end), one in zip(pairwise(starts), searches, strict=True):
        rows = np.flatnonzero((first >= start) & (first < end))
        ranked.append((rows, chosen.take(rows).moved(-start).with_evidence(one.model)))
    return ranked


def seeds_of(search: Searched) -> np.ndarray:
    """Return the rows of the candidates that groups grow from."""
    return seed_rows(len(search.candidates), search.sink.left_best, search.sink.right_best)


def _arrangement(searches: Sequence[Searched]) -> tuple[Callable[..., np.ndarray] | None, np.ndarray | None]:
    """Return the order of the list and the item of each right id, if keys were tried."""
    if all(one.key is None for one in searches):
        return None, None
    n_right = [one.n_right for one in searches]
    items = [np.arange(one.n_right, dtype=np.int32) if one.items is None else one.items for one in searches]
    return lambda order, members, graphs: arranged(order, members, graphs, n_right), np.concatenate(items)


def listed(searches: Sequence[Searched], ranked: Sequence[Ranked]) -> GroupMembers:
    """Return the members of all groups by rank; right ids of a later graph follow those of earlier ones.

    Right members of tried keys are items.
    """
    moved = [
        chosen.moved(start).members if one.items is None else with_items(chosen.members, one.items)
        for one, start, (_, chosen) in zip(searches, _starts(searches), ranked, strict=False)
    ]
    return GroupMembers.joined(moved).take(np.argsort(np.concatenate([rows for rows, _ in ranked])))


def keys_of_all(searches: Sequence[Searched]) -> pa.Array:
    """Return the right keys of all graphs, in the order of those ids; those of tried keys are items."""
    keys = [one.collecting.edges.right_keys for one in searches if one.items is None]
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
    if sum(one.items is None for one in searches) > 1:
        without_bucket = pc.replace_substring_regex(keys, pattern=_BUCKET, replacement="]")
        items = without_bucket.dictionary_encode().indices.to_numpy().astype(np.int64)
    found: dict[int, np.ndarray] = {}
    for one, start, (rows, _), of in zip(searches, _starts(searches), ranked, edges, strict=False):
        right = of.right + start if one.items is None else one.items[of.right]
        numbers = of.left.astype(np.int64) << 32 | items[right]
        parts = np.split(numbers, np.cumsum(of.n_edges[:-1]))
        found.update(zip(rows.tolist(), map(np.unique, parts), strict=False))
    return [found[row] for row in range(len(found))]


def with_columns(table: pa.Table, columns: Mapping[str, pa.Array | None]) -> pa.Table:
    """Replace values of some columns, from the first row on; None leaves a column unchanged."""
    for name, values in columns.items():
        if values is not None:
            table = _set(table, name, values.slice(0, table.num_rows))
    return table


def narrowed(tables: Mapping[str, pa.Table], search: Searched) -> dict[str, pa.Table]:
    """Replace the right vertices of a tried key by their items, with what the key adds to these.

    Parameters
    ----------
    tables : mapping
        As of the graph of that key; keys of right vertices are those of the items already.
    """
    assert search.items is not None
    keys, changed = search.collecting.edges.right_keys, dict(tables)
    for name, column in (("group_members", "vertex"), ("group_edges", "right")):
        if name not in tables:
            continue
        table = tables[name]
        ids, is_right = table[column].to_numpy().copy(), np.ones(table.num_rows, np.bool_)
        if name == "group_members":
            is_right = _is_right(table)
        own, places = np.unique(ids[is_right], return_inverse=True)
        of_right = values_of(keys.take(pa.array(own))).take(pa.array(places))
        rows = np.cumsum(is_right) - 1
        values = of_right.take(pa.array(rows, mask=~is_right))
        ids[is_right] = search.items[ids[is_right]]
        changed[name] = _set(_set(table, column, pa.array(ids)), "key_value", values)
    return changed


def merged(
    parts: Sequence[Mapping[str, pa.Table]],
    ranked: Sequence[Ranked],
    searches: Sequence[Searched],
    *,
    of_keys: bool,
) -> dict[str, pa.Table]:
    """Merge the tables of each graph's groups into those of one list.

    Parameters
    ----------
    parts : sequence of mapping
        The tables by name; right ids are those of the graph.
    of_keys : bool
        The graphs are those of keys, whether or not there was time for more than one.

    Returns
    -------
    dict
        Right ids of shifted buckets follow those of the first graph. `vertex_scores` has the vertices of the first.
    """
    starts = [0 if one.items is not None else start for one, start in zip(searches, _starts(searches), strict=False)]
    scores = _merged_scores(parts, ranked)
    tables = {}
    for name in parts[0]:
        if name == "vertex_scores":
            tables[name] = scores
            continue
        shifted = [_with_right_from(part[name], name, start) for part, start in zip(parts, starts, strict=True)]
        joined = pa.concat_tables(shifted, promote_options="permissive")
        ranks = np.concatenate([_rank_of_rows(part[name], *of) for part, of in zip(parts, ranked, strict=True)])
        tables[name] = joined.take(pa.array(np.argsort(ranks, kind="stable")))
    groups = tables["groups"]
    of_graph = np.repeat(np.arange(len(parts)), [part["groups"].num_rows for part in parts])
    of_graph = pa.array(of_graph[np.argsort(np.concatenate([rows for rows, _ in ranked]), kind="stable")])
    later: list[bool | None] = [i > 0 for i in range(len(parts))]
    names: list[str | None] = [None] * len(parts)
    if of_keys:
        later = [one.half_later for one in searches]
        names = [PLAIN if one.key is None else one.key.name for one in searches]
    groups = _set(groups, "rank", pa.array(np.arange(1, groups.num_rows + 1, dtype=np.int32)))
    groups = _set(groups, "key", pa.array(names, pa.string()).take(of_graph))
    tables["groups"] = _set(groups, "half_later", pa.array(later, pa.bool_()).take(of_graph))
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
    return [0, *accumulate(one.n_right for one in searches)]


def _grown(
    searches: Sequence[Searched],
    grown: Sequence[GrownGroups],
    limit: int,
    known: Known,
    arrange: Callable[..., np.ndarray] | None,
) -> list[Ranked]:
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
            items = searches[i].items
            moved = replace(members, right_members=members.right_members + np.int32(starts[i] if items is None else 0))
            muted[found[0] == i] = known.is_muted(with_items(moved, items))
        return muted

    of_graph = np.repeat(np.arange(len(grown)), [len(one.members) for one in grown])
    by_graph = None if arrange is None else (lambda order, members: arrange(order, members, of_graph))
    (graphs, rows), n = up_to_limit(limit, lambda most: grown_together(grown, most, by_graph), is_muted)
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

"""One list of groups from several graphs: one per offset of the time buckets, or per tried key.

The graphs have the same left vertices and the same input rows behind their edges. Each group belongs to one graph, and
its figures use the degrees of that graph. Near copies are dropped by their left members, between graphs as within one,
so a group found in both appears once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import accumulate
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mbe_stage.bicliques.keys import biclique_keys
from mbe_stage.bicliques.results import BicliqueBlock
from mbe_stage.groups.listing import Pool, arranged, cores, listed, ranked
from mbe_stage.groups.members import GroupMembers
from mbe_stage.groups.near_copies import count_near_copies
from mbe_stage.pipeline.problems.both_sides import is_right_of
from mbe_stage.pipeline.problems.groups.chosen import GROWN_COVER, SHORT_LIST, Chosen, GroupEdges
from mbe_stage.pipeline.problems.groups.known import Known
from mbe_stage.pipeline.problems.groups.schemas import HALF_LATER_VERTICES
from mbe_stage.pipeline.problems.groups.searched import Searched
from mbe_stage.pipeline.problems.groups.tried_keys import PLAIN, values_of

# The last part of a right key with a time bucket.
_BUCKET = r',"[^"]*"\]$'


def choose(searches: Sequence[Searched], known: Known) -> tuple[list[Chosen], GroupMembers]:
    """Choose the listed groups of each graph; muted ones do not use up the limit.

    Parameters
    ----------
    known : Known
        Known keys of the vertices, with the right ids of `items_of`.

    Returns
    -------
    parts : list of Chosen
        The groups of each graph.
    members : GroupMembers
        Members of all groups, by rank, with the right ids of `items_of`.
    """
    section = searches[0].collecting.config.section("groups")
    pool = Pool.joined([_pool(i, one) for i, one in enumerate(searches)])
    best_first = ranked(pool, section.rank_by)
    order = best_first
    if section.kind in (SHORT_LIST, GROWN_COVER):
        order = order[pool.is_grown[order] == (section.kind == GROWN_COVER)]
    has_keys = any(one.key is not None for one in searches)
    order = arranged(order, pool, [one.n_right for one in searches] if has_keys else None)
    starts, items = np.array(_starts(searches)), items_of(searches)
    right = pool.members.right_members + np.repeat(starts[pool.graphs], pool.members.right_sizes)
    by_item = replace(pool.members, right_members=items[right])
    rows = listed(
        order, best_first, pool, known.is_muted(by_item), max_overlap=section.max_overlap, limit=section.limit
    )
    others = np.setdiff1d(np.flatnonzero(~pool.is_grown), rows)
    members = pool.members.take(rows)
    n_copies = count_near_copies(members, pool.members.take(others), section.max_overlap)
    core = cores(best_first, pool, rows)
    # The extra entry has no members.
    with_none = GroupMembers.joined([pool.members, GroupMembers.of([((), ())])])
    parts = []
    for graph in range(len(searches)):
        places = np.flatnonzero(pool.graphs[rows] == graph)
        own, of_core = rows[places], core[places]
        parts.append(
            Chosen(
                places=places,
                is_grown=pool.is_grown[own],
                keys=pool.keys[own],
                surprise=pool.surprise[own],
                evidence=pool.evidence[own],
                n_bicliques=n_copies[places] + ~pool.is_grown[own],
                core_keys=pool.keys[of_core] if own.size else own,
                cores=with_none.take(np.where(of_core < 0, len(pool), of_core)),
                members=pool.members.take(own),
            )
        )
    return parts, by_item.take(rows)


def _pool(graph: int, search: Searched) -> Pool:
    """Return the significant groups of a graph."""
    of = search.grown.members
    left_sizes, right_sizes = (each.astype(np.int32) for each in (of.left_sizes, of.right_sizes))
    block = BicliqueBlock(len(of), left_sizes, right_sizes, of.left_members, of.right_members)
    keys = biclique_keys(block, *search.collecting.edges.key_hashes())
    return Pool.of(graph, search.candidates, search.grown, keys, search.model)


def items_of(searches: Sequence[Searched]) -> np.ndarray:
    """Return the item of each right id, the ids of a later graph after those of earlier ones; ``(n,) int32``.

    The items of tried keys are right vertices of the run; other right vertices are their own items.
    """
    starts = _starts(searches)
    items = [
        np.arange(start, start + one.n_right, dtype=np.int32) if one.items is None else one.items
        for start, one in zip(starts, searches, strict=False)
    ]
    return np.concatenate(items)


def keys_of_all(searches: Sequence[Searched]) -> pa.Array:
    """Return the right keys of all graphs in the order of those ids; for tried keys, the keys of their items."""
    keys = [one.collecting.edges.right_keys for one in searches if one.items is None]
    return keys[0] if len(keys) == 1 else pa.concat_arrays([each.cast(pa.large_string()) for each in keys])


def edges_by_rank(
    searches: Sequence[Searched], parts: Sequence[Chosen], edges: Sequence[GroupEdges]
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
    of_right = items[items_of(searches)]
    for start, part, of in zip(_starts(searches), parts, edges, strict=False):
        numbers = of.left.astype(np.int64) << 32 | of_right[of.right + start]
        own = np.split(numbers, np.cumsum(of.n_edges[:-1]))
        found.update(zip(part.places.tolist(), map(np.unique, own), strict=False))
    return [found[place] for place in range(len(found))]


def with_columns(table: pa.Table, columns: Mapping[str, Any]) -> pa.Table:
    """Replace the values of some columns."""
    for name, values in columns.items():
        place = table.schema.get_field_index(name)
        field = table.schema.field(name)
        table = table.set_column(place, field, values.cast(field.type))
    return table


def merged(
    parts: Sequence[Mapping[str, pa.Table]],
    chosen: Sequence[Chosen],
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
        The graphs belong to tried keys, even if there was time for only one.

    Returns
    -------
    dict
        Right ids of shifted buckets follow those of the first graph.
    """
    parts = [_with_common_ids(*of) for of in zip(parts, searches, _starts(searches), strict=False)]
    tables = {}
    for name in parts[0]:
        joined = pa.concat_tables([part[name] for part in parts], promote_options="permissive")
        ranks = np.concatenate([_rank_of_rows(part[name], of) for part, of in zip(parts, chosen, strict=True)])
        tables[name] = joined.take(pa.array(np.argsort(ranks, kind="stable")))
    of_graph = np.empty(tables["groups"].num_rows, np.int64)
    for graph, of in enumerate(chosen):
        of_graph[of.places] = graph
    names = [None if not of_keys else PLAIN if one.key is None else one.key.name for one in searches]
    labels = {
        "key": pa.array(names, pa.string()).take(pa.array(of_graph)),
        "half_later": pa.array([one.half_later for one in searches], pa.bool_()).take(pa.array(of_graph)),
    }
    return tables | {"groups": with_columns(tables["groups"], labels)}


def half_later_vertices(first: Searched, later: Searched | None = None) -> pa.Table:
    """Build the table of the later buckets' right vertices; their ids follow those of the first graph.

    Parameters
    ----------
    later : Searched, optional
        The graph of the later buckets; None if it was not searched.
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


def _rank_of_rows(table: pa.Table, chosen: Chosen) -> np.ndarray:
    """Return the list position of each row's group."""
    order = np.argsort(chosen.keys)
    keys = table["group_key"].to_numpy()
    return chosen.places[order[np.searchsorted(chosen.keys, keys, sorter=order)]]


def _with_common_ids(tables: Mapping[str, pa.Table], search: Searched, start: int) -> dict[str, pa.Table]:
    """Replace the right vertices of a tried key by items and added values; other right ids move by `start`."""
    keys, changed = search.collecting.edges.right_keys, dict(tables)
    for name, column in (("group_members", "vertex"), ("group_halo", "vertex"), ("group_edges", "right")):
        table = tables[name]
        is_right = is_right_of(table) if "side" in table.column_names else np.ones(table.num_rows, np.bool_)
        ids = table[column].to_numpy().copy()
        if search.items is None:
            ids[is_right] += np.int32(start)
        else:
            own, places = np.unique(ids[is_right], return_inverse=True)
            values = values_of(keys.take(pa.array(own))).take(pa.array(places))
            ids[is_right] = search.items[ids[is_right]]
            values = values.take(pa.array(np.cumsum(is_right) - 1, mask=~is_right))
            table = with_columns(table, {"key_value": values})
        changed[name] = with_columns(table, {column: pa.array(ids)})
    return changed

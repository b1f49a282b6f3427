"""The graph of the groups, or several if the input has time buckets or keys were tried; and their groups as one list.

The first graph is the run's; its bicliques are published or enumerated again. The second has buckets that begin half a
bucket later. It is read from the input with the first, and enumerated again if that is affordable (`half_later`). Ids
of its right vertices follow those of the first (`half_later_vertices`). The graphs of tried keys are made of the rows
of the input, as the run made them, and are treated in the same way.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from mbe_stage.groups import reference
from mbe_stage.groups.reference import Best, Bicliques, EdgeScores, Null, Pair, tfidf_eigenvector
from mbe_stage.groups.reference_selection import arranged
from mbe_stage.pipeline.backends.arrow.keys import as_json
from mbe_stage.pipeline.edges import EdgeData
from mbe_stage.pipeline.errors import VerificationError
from mbe_stage.pipeline.problems.groups.tried_keys import PLAIN, TriedKey, are_tried, edges_of_key, keys_of, n_tries
from mbe_stage.pipeline.verify import closure
from mbe_stage.pipeline.verify.bicliques import enumerated_again
from mbe_stage.pipeline.verify.closure import Keys, adjacency, check_distinct, check_nothing_missing, judge_rows
from mbe_stage.pipeline.verify.files import table_parts
from mbe_stage.pipeline.verify.group_tables import (
    Groups,
    Narrowed,
    Within,
    compare,
    every_edge,
    read_degrees,
    read_groups,
    refuse_first,
)
from mbe_stage.pipeline.verify.group_tables import within as within_groups
from mbe_stage.pipeline.verify.job import Job
from mbe_stage.pipeline.verify.recipe import vertex_hashes
from mbe_stage.pipeline.verify.rows import RowRules, batches, check_rows, rules_of
from mbe_stage.runtime.jit import readonly_view

_NOT_CHECKED = (
    "groups: that no better one is missing, n_bicliques, seeds, significant_candidates, and counts of "
    "skipped steps; vertex scores: all but lower bounds of the scores: the bicliques are not available"
)


def bicliques_again(later: Job, n: int, is_truncated: bool, name: str) -> Path | None:
    """Find a directory with the table `bicliques` of a further graph; None if they are not available.

    Parameters
    ----------
    later : Job
        With the edges, keys and hashes of that graph.
    n : int
        The stated number.
    name : str
        Of the graph.

    Raises
    ------
    VerificationError
        Their number differs from the manifest, or they are not those of the graph.
    """
    assert later.edges is not None
    assert later.keys is not None
    assert later.hashes is not None
    if is_truncated:
        why = "a limit stopped their search, and another search would stop elsewhere"
    elif n > later.sample:
        why = f"{n:,} are more than {later.sample:,}, the most that are enumerated again (--sample)"
    else:
        rules = rules_of(later.manifest, later.keys, later.hashes)
        directory = enumerated_again(later, later.edges, rules, n)
        n_looked_up = _check(later, later.edges, rules, later.keys, directory, n, name)
        later.passed(
            f"{name} bicliques",
            f"all {n:,}, enumerated again: complete and maximal, distinct; {n_looked_up:,} looked up are present",
        )
        return directory
    later.not_checked(f"{name} bicliques: {why}")
    return None


def _check(later: Job, edges: EdgeData, rules: RowRules, keys: Keys, directory: Path, n_stated: int, name: str) -> int:
    """Check the enumerated bicliques against the graph; return the number looked up.

    Parameters
    ----------
    keys : pair of pa.ChunkedArray
        Keys of the vertices.
    directory : Path
        The directory with the table.
    n_stated : int
        The number that the run states.
    """
    graph, found = adjacency(edges), [np.empty(0, np.int64)]
    for batch in batches(table_parts(directory, "bicliques")):
        check_rows(batch, rules)
        judge_rows(graph, batch, np.arange(batch.keys.size), keys, later.threads)
        found.append(batch.keys)
    sorted_keys = np.sort(np.concatenate(found))
    if sorted_keys.size != n_stated:
        n_found = f"{sorted_keys.size:,}" if sorted_keys.size < n_stated else "more"
        raise VerificationError(f"{later.run}: {name.replace(' ', '_')}_bicliques is {n_stated:,}; found {n_found}")
    check_distinct(f"{name} bicliques", sorted_keys)
    return check_nothing_missing(later, graph, rules, sorted_keys, keys)


@dataclass(frozen=True, slots=True, eq=False)
class OneGraph:
    """The groups of one graph, as if it had its own run.

    Attributes
    ----------
    job : Job
        With the graph's edges and keys.
    groups : Groups
        With the graph's own ids, ranked among themselves.
    rows : (n,) int64
        Positions of these groups in the list of all.
    degrees : pair of (n_vertices,) int64
    null : Null
    first_right : int
        The id of its first right vertex in the list of all groups.
    whose : str
        Prefix for its groups in the report.
    """

    job: Job
    groups: Groups
    rows: np.ndarray
    degrees: tuple[np.ndarray, np.ndarray]
    null: Null
    first_right: int = 0
    whose: str = ""

    def scored(self) -> Scored:
        """Return the scores of its bicliques, or of the groups if the bicliques are not available."""
        return score(self.job, self.groups, self.null, self.whose)

    def every_edge(self) -> Within:
        """Return all possible edges of the groups, which must be complete."""
        return every_edge(self.groups, (self.degrees[0].size, self.degrees[1].size))

    def edges_of(self, found: Within) -> Within:
        """Return the graph's part of the edges of all groups, as returned by `read_edges`."""
        of_row = np.repeat(np.arange(found.n_edges.size), found.n_edges)
        own = np.flatnonzero(np.isin(of_row, self.rows))
        sizes = self.degrees[0].size, self.degrees[1].size
        right = found.right[own] - self.first_right
        return within_groups(self.groups, sizes, np.searchsorted(self.rows, of_row[own]), found.left[own], right)


@dataclass(frozen=True, slots=True, eq=False)
class Graphs:
    """Groups of one or several graphs, with one range of right ids, and the groups of each graph.

    Attributes
    ----------
    job : Job
        With the edges and keys of all graphs.
    parts : tuple of OneGraph
    items : (n_right,) int64 or None
        If keys were tried, the right vertex of the run for each right id.
    narrowed : callable or None
        As for `read_groups`.
    """

    job: Job
    groups: Groups
    parts: tuple[OneGraph, ...]
    items: np.ndarray | None = None
    narrowed: Narrowed | None = None

    def arranged(self, order: Sequence[int], lefts: Sequence[Sequence[int]], rights: Sequence[int]) -> list[int]:
        """Return groups, best first, in the order of the list; `rights` has a right member of each."""
        if self.items is None or len(self.parts) == 1:
            return list(order)
        graphs = np.searchsorted([part.first_right for part in self.parts], rights, side="right") - 1
        return arranged(order, lefts, graphs.tolist(), [part.degrees[1].size for part in self.parts])

    def by_item(self) -> Groups:
        """Return the groups with the items of right members that narrow one."""
        if self.items is None:
            return self.groups
        vertices, is_right = self.groups.vertices.copy(), self.groups.is_right
        vertices[is_right] = self.items[vertices[is_right]]
        return replace(self.groups, vertices=vertices)

    @property
    def n_right(self) -> int:
        """Number of right vertices of the first graph."""
        return self.parts[0].degrees[1].size

    def of_first(self) -> Groups:
        """Return the groups without the right members that exist only in the second graph."""
        kept = ~self.groups.is_right | (self.groups.vertices < self.n_right)
        arrays = {name: getattr(self.groups, name)[kept] for name in ("of_row", "is_right", "vertices", "places")}
        return replace(self.groups, members=self.groups.members.filter(pa.array(kept)), **arrays)

    def shares_explained(self, edges: list[Within]) -> tuple[np.ndarray, np.ndarray]:
        """Return, per vertex, the number of edges in the first graph that matches the share explained by groups.

        A left vertex has the larger of its two shares; right vertices are those of the first graph.
        """
        return self._largest([each.explained[0] for each in edges]), edges[0].explained[1]

    def share_numerators(self, found: list[Scored]) -> tuple[np.ndarray, np.ndarray]:
        """Return `Scored.share_numerators`, combined in the same way."""
        return self._largest([each.share_numerators[0] for each in found]), found[0].share_numerators[1]

    def by_edge(self, found: list[Scored]) -> EdgeScores:
        """Return scores of the vertices of the first graph; a left vertex has the better of its two."""
        of_parts = [each.by_edge for each in found]
        sqrt, share = (np.maximum.reduce([getattr(each, name)[0] for each in of_parts]) for name in ("sqrt", "share"))
        n_left_out = sum(each.n_left_out for each in of_parts)
        return EdgeScores((sqrt, of_parts[0].sqrt[1]), (share, of_parts[0].share[1]), n_left_out)

    def eigenvector(self) -> Pair | None:
        """Return the first eigenvector, combined in the same way; None without the input."""
        found = []
        for part in self.parts:
            if part.job.edges is None:
                return None
            ends = part.job.edges.left_ids, part.job.edges.right_ids
            found.append(tfidf_eigenvector(*ends, (part.degrees[0].size, part.degrees[1].size)))
        return np.maximum.reduce([left for left, _ in found]), found[0][1]

    def _largest(self, numerators: list[np.ndarray]) -> np.ndarray:
        """Return numerators of the largest share of the vertex's degree; the degrees of the two graphs differ."""
        degrees = [part.degrees[0] for part in self.parts]
        return np.maximum.reduce([of / own for of, own in zip(numerators, degrees, strict=True)]) * degrees[0]


def has_two_graphs(job: Job) -> bool:
    """Return whether groups were searched in two graphs."""
    return job.manifest.config.input.time_bucket is not None


def read_graphs(job: Job) -> Graphs | None:
    """Read the groups of all graphs; None if there are two and no input, after the checks that need none.

    Raises
    ------
    VerificationError
        Members are not vertices, a group belongs to both graphs, or the vertices of the second are not those of the
        input.
    """
    degrees = read_degrees(job.run, "left"), read_degrees(job.run, "right")
    if has_two_graphs(job):
        return _read_two(job, degrees)
    if (facts := read_facts(job)) is not None and facts.num_rows:
        return _read_keys(job, degrees, facts)
    groups = read_groups(job, degrees)
    for name, what in (("half_later", "time buckets"), ("key", "tried keys")):
        is_stated = groups.table[name].is_valid().to_numpy()
        refuse_first(groups.path, is_stated, f"{name} is set without {what}")
    if facts is not None and job.edges is not None and keys_of(job.edges.events, job.manifest.config):
        raise VerificationError(f"{job.run / 'group_keys.parquet'}: is empty, but the input has further columns")
    part = OneGraph(job, groups, np.arange(len(groups)), degrees, Null(degrees, job.manifest.input.n_edges))
    return Graphs(job, groups, (part,))


def read_facts(job: Job) -> pa.Table | None:
    """Read `group_keys`; None if no keys are tried."""
    return pq.read_table(job.run / "group_keys.parquet") if are_tried(job.manifest.config) else None


def _read_keys(job: Job, degrees: tuple[np.ndarray, np.ndarray], facts: pa.Table) -> Graphs | None:
    """Read the groups of the graphs of all keys."""
    assert job.keys is not None
    assert job.hashes is not None
    if job.edges is None or job.edges.events is None:
        job.not_checked("groups and vertex scores: the graphs of the tried keys need the input, which is not given")
        return None
    tried = [(key, later) for key in keys_of(job.edges.events, job.manifest.config) for later in key.offsets]
    later_of = [later if key.bucket is not None else None for key, later in tried]
    rows, made = _graphs_of_keys(job, job.edges, facts, tried, later_of)
    every = [degrees, *((_degrees(edges, 0), _degrees(edges, 1)) for edges, _ in made)]
    starts = np.cumsum([0, *(right.size for _, right in every)]).tolist()
    items = np.concatenate([np.arange(degrees[1].size), *(items for _, items in made)])
    names = {(PLAIN, None): 0, **{(tried[row][0].name, later_of[row]): 1 + i for i, row in enumerate(rows)}}
    stated = pq.read_table(job.run / "groups.parquet", columns=["key", "half_later"]).to_pylist()
    of_group = np.array([names.get((row["key"], row["half_later"]), -1) for row in stated], np.int64)
    refuse_first(job.run / "groups.parquet", of_group < 0, "key and half_later are not those of a graph")
    item_keys = as_json(pa.chunked_array([job.edges.right_keys]).combine_chunks())
    narrowed = partial(_narrowed, of_group, item_keys, [edges.right_keys for edges, _ in made], starts)
    whole = copy(job)
    whole.hashes = (
        job.hashes[0],
        np.concatenate([job.hashes[1], *(vertex_hashes(edges.right_keys, "right") for edges, _ in made)]),
    )
    groups = read_groups(whole, (degrees[0], np.concatenate([right for _, right in every])), narrowed)
    n_graphs = n_tries(tuple(dict.fromkeys(key for key, _ in tried)))
    parts = [OneGraph(job, *_part(groups, of_group == 0, 0), degrees, Null(degrees, job.edges.left_ids.size, n_graphs))]
    for i, ((edges, of_right), row) in enumerate(zip(made, rows, strict=True), start=1):
        name = tried[row][0].name + (" half later" if later_of[row] else "")
        own = copy(job)
        own.edges, own.keys = edges, (job.keys[0], pa.chunked_array([edges.right_keys]))
        own.hashes = job.hashes[0], whole.hashes[1][starts[i] : starts[i + 1]]
        of_facts = facts.slice(row, 1).to_pylist()[0]
        own.results = bicliques_again(own, of_facts["n_bicliques"] or 0, of_facts["status"] == "truncated", name)
        # Members are named by their items.
        own.keys = job.keys[0], job.keys[1].take(pa.array(of_right))
        null = Null(every[i], edges.left_ids.size, n_graphs)
        parts.append(OneGraph(own, *_part(groups, of_group == i, starts[i]), every[i], null, starts[i], f"{name} "))
    used = [0, *(i for i in range(1, len(parts)) if parts[i].rows.size)]
    whole.edges = _joined([parts[i].job.edges for i in used], [starts[i] for i in used])
    return Graphs(whole, groups, tuple(parts), items, narrowed)


def _graphs_of_keys(
    job: Job, edges: EdgeData, facts: pa.Table, tried: list[tuple[TriedKey, bool]], later_of: list[bool | None]
) -> tuple[list[int], list[tuple[Any, np.ndarray]]]:
    """Check `group_keys`; return the rows of the keys that were tried, and the edges and items of their graphs."""
    path = job.run / "group_keys.parquet"
    if facts.num_rows != len(tried):
        raise VerificationError(f"{path}: has {facts.num_rows} rows; expected {len(tried)}, one for each graph")
    compare(path, "key", facts["key"].to_pylist(), [key.name for key, _ in tried])
    if facts["half_later"].to_pylist() != later_of:
        raise VerificationError(f"{path}: half_later is not that of the keys")
    rows = [row for row, status in enumerate(facts["status"].to_pylist()) if status != "not tried"]
    made = [edges_of_key(edges, tried[row][0], half_later=tried[row][1]) for row in rows]
    for name, sizes in (
        ("n_right", [len(found.right_keys) for found, _ in made]),
        ("n_edges", [found.left_ids.size for found, _ in made]),
    ):
        compare(path, name, [facts[name][row].as_py() for row in rows], sizes)
    return rows, made


def _narrowed(
    of_group: np.ndarray,
    item_keys: pa.Array,
    right_keys: Sequence[pa.Array],
    starts: Sequence[int],
    table: Path,
    of_row: np.ndarray,
    vertices: np.ndarray,
    values: list[str | None],
) -> np.ndarray:
    """Return the ids of items and values in the graphs of their groups.

    Parameters
    ----------
    of_group : (n,) int64
        The graph of each group; 0 is that of the items alone.
    item_keys : pa.Array
        As JSON.
    right_keys : sequence of pa.Array
        Of each graph but the first.
    starts : sequence of int
        The first right id of each graph.
    table, of_row, vertices, values
        As for `pipeline.verify.group_tables.Narrowed`.
    """
    graphs, found = of_group[of_row], vertices.copy()
    is_set = np.array([value is not None for value in values], np.bool_)
    refuse_first(table, is_set != (graphs > 0), "key_value must be set exactly for keys that narrow items")
    for graph in np.unique(graphs[graphs > 0]).tolist():
        own = np.flatnonzero(graphs == graph)
        heads = item_keys.take(pa.array(vertices[own])).to_pylist()
        wanted = [f"[{head},{(values[row] or '')[1:]}" for head, row in zip(heads, own.tolist(), strict=True)]
        keys = right_keys[graph - 1]
        places = pc.fill_null(pc.index_in(pa.array(wanted, keys.type), keys), -1).to_numpy()
        refuse_first(table, places < 0, "a right member is no vertex of the group's key")
        found[own] = places + starts[graph]
    return found


def _degrees(edges: EdgeData, side: int) -> np.ndarray:
    keys, ids = ((edges.left_keys, edges.left_ids), (edges.right_keys, edges.right_ids))[side]
    return np.bincount(ids, minlength=len(keys))


def _read_two(job: Job, degrees: tuple[np.ndarray, np.ndarray]) -> Graphs | None:
    assert job.keys is not None
    assert job.hashes is not None
    path, n_right = job.run / "half_later_vertices.parquet", degrees[1].size
    table = pq.read_table(path)
    compare(path, "vertex", table["vertex"].to_numpy(), np.arange(n_right, n_right + table.num_rows))
    later_keys, later_degrees = table["key"], table["degree"].to_numpy()
    both = copy(job)
    both.keys = job.keys[0], pa.chunked_array([*_text(job.keys[1]).chunks, *_text(later_keys).chunks])
    both.hashes = job.hashes[0], np.concatenate([job.hashes[1], vertex_hashes(later_keys, "right")])
    groups = read_groups(both, (degrees[0], np.concatenate([degrees[1], later_degrees])))
    is_later = _is_later(groups, n_right)
    edges, later = job.edges, None if job.edges is None else job.edges.half_later
    if edges is None or later is None:
        job.not_checked(
            "groups except for their keys and members, and vertex scores: time buckets make two graphs, and the "
            "input is not given with both"
        )
        return None
    _check_vertices(job, later, later_keys, later_degrees)
    both.edges = _joined([edges, later], [0, n_right])
    of_later = copy(job)
    of_later.edges = later
    of_later.keys, of_later.hashes = (job.keys[0], later_keys), (job.hashes[0], both.hashes[1][n_right:])
    stated = job.manifest.derived["groups"]
    n, is_truncated = stated.get("half_later_bicliques", 0), bool(stated.get("half_later_truncated"))
    of_later.results = bicliques_again(of_later, n, is_truncated, "half later")
    later_degrees = np.bincount(later.left_ids, minlength=degrees[0].size), later_degrees
    nulls = Null(degrees, job.manifest.input.n_edges, 2), Null(later_degrees, later.facts.n_edges, 2)
    first = OneGraph(job, *_part(groups, ~is_later, 0), degrees, nulls[0])
    second = _part(groups, is_later, n_right)
    return Graphs(both, groups, (first, OneGraph(of_later, *second, later_degrees, nulls[1], n_right, "half later ")))


def _is_later(groups: Groups, n_right: int) -> np.ndarray:
    """Return which groups belong to the second graph; check that each belongs to the graph it states."""
    of_side = groups.is_right
    later = np.bincount(groups.of_row[of_side], groups.vertices[of_side] >= n_right, minlength=len(groups))
    sizes = np.bincount(groups.of_row[of_side], minlength=len(groups))
    refuse_first(groups.path, (later > 0) & (later < sizes), "has right members of both graphs")
    compare(groups.path, "half_later", groups.column("half_later"), (later > 0).tolist())
    return later > 0


def _part(groups: Groups, chosen: np.ndarray, n_right_before: int) -> tuple[Groups, np.ndarray]:
    """Return some of the groups, ranked among themselves, with their own right ids; and their positions."""
    rows = np.flatnonzero(chosen)
    kept = chosen[groups.of_row]
    is_right = groups.is_right[kept]
    of_row = np.searchsorted(rows, groups.of_row[kept])
    vertices = groups.vertices[kept] - np.where(is_right, n_right_before, 0)
    table = groups.table.filter(pa.array(chosen))
    place = table.schema.get_field_index("rank")
    table = table.set_column(place, "rank", pa.array(np.arange(1, rows.size + 1, dtype=np.int32)))
    part = replace(
        groups,
        table=table,
        members=groups.members.filter(pa.array(kept)),
        of_row=of_row,
        is_right=is_right,
        vertices=vertices,
        places=(2 * of_row + is_right) << 32 | vertices,
    )
    return part, rows


def _check_vertices(job: Job, later: EdgeData, keys: pa.ChunkedArray, degrees: np.ndarray) -> None:
    path = job.run / "half_later_vertices.parquet"
    if _text(keys).combine_chunks() != _text(pa.chunked_array([later.right_keys])).combine_chunks():
        raise VerificationError(f"{path}: its keys are not those of {later.facts.source} half a bucket later")
    compare(path, "degree", degrees, np.bincount(later.right_ids, minlength=len(keys)))
    job.passed("half later vertices", f"{len(keys):,} right vertices")


def _joined(graphs: Sequence[Any], starts: Sequence[int]) -> EdgeData:
    """Return the edges of several graphs, and their rows, with one range of right ids.

    Parameters
    ----------
    graphs : sequence of EdgeData
    starts : sequence of int
        The first right id of each.
    """
    left = np.concatenate([each.left_ids for each in graphs])
    right = np.concatenate([each.right_ids + np.int32(start) for each, start in zip(graphs, starts, strict=True)])
    order = np.lexsort((right, left))
    events = [each.events for each in graphs]
    rows = {
        name: np.concatenate([getattr(each, name) for each in events])
        for name in ("left", "weights", "times")
        if getattr(events[0], name) is not None
    }
    right_of_rows = np.concatenate([each.right + np.int32(start) for each, start in zip(events, starts, strict=True)])
    n_right = max(start + len(each.right_keys) for each, start in zip(graphs, starts, strict=True))
    first: EdgeData = graphs[0]
    return replace(
        first,
        left_ids=left[order],
        right_ids=right[order],
        # Only their number is used.
        right_keys=pa.nulls(n_right),
        hashes=None,
        events=replace(events[0], right=right_of_rows, **rows),
        half_later=None,
    )


def _text(keys: pa.ChunkedArray) -> pa.ChunkedArray:
    return keys.cast(pa.large_string())


@dataclass(frozen=True, slots=True, eq=False)
class Scored:
    """Summary of the scores of all bicliques of a graph.

    Attributes
    ----------
    candidates : Bicliques
        Best first.
    surprise, evidence : (n,) int64
        For each candidate.
    seed_keys : int64
        Keys of the bicliques that groups grow from.
    best : int
        The largest surprise, positive or not.
    share_numerators : pair of (n_vertices,) int64
        As `Best.numerators`.
    is_whole : bool
        True if these are all bicliques of the run; false if they are only the groups, which allow fewer checks.
    """

    candidates: Bicliques
    surprise: np.ndarray
    evidence: np.ndarray
    seed_keys: np.ndarray
    best: int
    share_numerators: tuple[np.ndarray, np.ndarray]
    by_edge: EdgeScores
    is_whole: bool


def score(job: Job, groups: Groups, null: Null, whose: str = "") -> Scored:
    """Two passes over the bicliques of a run: the first finds the candidates, the second reads their members.

    If the bicliques are not available, the groups of a short list are used. `whose` names the graph in messages if
    there are two.

    Raises
    ------
    VerificationError
        The bicliques are not available but the input is, and a group is not a maximal biclique of it.
    """
    alone = None
    if job.results is None:
        job.not_checked(whose + _NOT_CHECKED)
        alone = _rows_of(job, groups)
        _check_against_input(job, groups, alone, whose)
    best = Best(null, reference.TOP)
    for rows in _bicliques(job, alone):
        best.add(rows)
    keys = best.candidate_keys()
    found = (rows.take(np.flatnonzero(np.isin(rows.keys, keys))) for rows in _bicliques(job, alone))
    candidates = Bicliques.joined(list(found))
    candidates = candidates.take(np.lexsort((candidates.keys, -null.surprise(candidates))))
    return Scored(
        candidates=candidates,
        surprise=null.surprise(candidates),
        evidence=null.evidence(candidates),
        seed_keys=best.candidate_keys(reference.SEEDS),
        best=int(best.surprise[0].max(initial=np.iinfo(np.int64).min)),
        share_numerators=(best.numerators[0], best.numerators[1]),
        by_edge=reference.edge_scores(candidates, null),
        is_whole=alone is None,
    )


def _bicliques(job: Job, alone: Bicliques | None) -> Iterable[Bicliques]:
    if alone is not None:
        return [alone] if alone.keys.size else []
    assert job.results is not None
    parts = table_parts(job.results, "bicliques")
    return (Bicliques(batch.keys, batch.offsets, batch.members) for batch in batches(parts))


def _rows_of(job: Job, groups: Groups) -> Bicliques:
    """Return the groups as bicliques; none if they are grown, since those are not bicliques."""
    if job.manifest.config.section("groups").kind == "grown_cover":
        return Bicliques.joined([])
    (left_offsets, left), (right_offsets, right) = groups.side(0), groups.side(1)
    keys = np.array(groups.column("group_key"), np.int64)
    return Bicliques(keys, (left_offsets, right_offsets), (left, right))


def _check_against_input(job: Job, groups: Groups, rows: Bicliques, whose: str) -> None:
    if job.edges is None or not rows.keys.size:
        return
    edges = job.edges
    graph = closure.Adjacency.of(edges.left_ids, edges.right_ids, len(edges.left_keys), len(edges.right_keys))
    # The type of published bicliques, for which the check was compiled.
    left, right = (readonly_view(members.astype(np.int32)) for members in rows.members)
    verdicts = closure.judge(graph, np.arange(len(groups)), rows.offsets[0], left, rows.offsets[1], right, job.threads)
    refuse_first(groups.path, verdicts[:, 0] != 0, "is not a maximal biclique of the input")
    job.passed(f"{whose}groups complete and maximal", f"all {len(groups):,}")

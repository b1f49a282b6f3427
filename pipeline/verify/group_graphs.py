"""The graph of the groups, or several if the input has time buckets or keys were tried; and their groups as one list.

The first graph is the run's; its bicliques are published or enumerated again. Further ones are made of the rows of the
input, as the run made them: with buckets that begin half a bucket later, or of tried keys. They are enumerated again if
that is affordable. Ids of right vertices of a further graph follow those of the graphs before it.
"""

from __future__ import annotations

import json
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
from mbe_stage.groups.reference import Best, Bicliques, EdgeScores, Null, Pair
from mbe_stage.groups.reference_selection import Sets, arranged
from mbe_stage.pipeline.edges import EdgeData
from mbe_stage.pipeline.errors import VerificationError
from mbe_stage.pipeline.problems.groups.tried_keys import PLAIN, are_tried, edges_of_key, keys_of
from mbe_stage.pipeline.verify import closure
from mbe_stage.pipeline.verify.bicliques import enumerated_again
from mbe_stage.pipeline.verify.closure import adjacency, check_distinct, check_nothing_missing, judge_rows
from mbe_stage.pipeline.verify.files import table_parts
from mbe_stage.pipeline.verify.group_tables import (
    GROWN,
    Groups,
    Ids,
    Within,
    compare,
    read_degrees,
    read_groups,
    refuse_first,
)
from mbe_stage.pipeline.verify.group_tables import within as within_groups
from mbe_stage.pipeline.verify.job import Job
from mbe_stage.pipeline.verify.recipe import vertex_hashes
from mbe_stage.pipeline.verify.rows import batches, check_rows, rules_of
from mbe_stage.runtime.jit import readonly_view

_NOT_CHECKED = (
    "groups: that no better one is missing, cores, n_bicliques, significant_candidates, and counts of "
    "skipped steps; vertex scores: all but lower bounds of the scores: the bicliques are not available"
)


@dataclass(frozen=True, slots=True, eq=False)
class _Further:
    """A graph besides the run's: its name, `key` and `half_later` of its groups, and the run's facts about it."""

    name: str
    label: tuple[str | None, bool | None]
    edges: EdgeData
    n_bicliques: int
    is_truncated: bool
    items: np.ndarray | None = None


def _bicliques_again(job: Job, graph: _Further) -> Path | None:
    """Enumerate and check the bicliques of a further graph; return a directory with the table, None if there is none.

    `job` has the keys and hashes of that graph.
    """
    assert job.keys is not None
    assert job.hashes is not None
    n, name = graph.n_bicliques, f"{graph.name} bicliques"
    if graph.is_truncated:
        job.not_checked(f"{name}: a limit stopped their search, and another search would stop elsewhere")
        return None
    if n > job.sample:
        why = f"{n:,} are more than {job.sample:,}, the most that are enumerated again (--sample)"
        job.not_checked(f"{name}: {why}")
        return None
    rules = rules_of(job.manifest, job.keys, job.hashes)
    directory = enumerated_again(job, graph.edges, rules, n)
    adjacent, found = adjacency(graph.edges), [np.empty(0, np.int64)]
    for batch in batches(table_parts(directory, "bicliques")):
        check_rows(batch, rules)
        judge_rows(adjacent, batch, np.arange(batch.keys.size), job.keys, job.threads)
        found.append(batch.keys)
    sorted_keys = np.sort(np.concatenate(found))
    if sorted_keys.size != n:
        n_found = f"{sorted_keys.size:,}" if sorted_keys.size < n else "more"
        raise VerificationError(f"{job.run}: {name.replace(' ', '_')} is {n:,}; found {n_found}")
    check_distinct(name, sorted_keys)
    n_looked_up = check_nothing_missing(job, adjacent, rules, sorted_keys, job.keys)
    how = f"enumerated again: complete and maximal, distinct; {n_looked_up:,} looked up are present"
    job.passed(name, f"all {n:,}, {how}")
    return directory


@dataclass(frozen=True, slots=True, eq=False)
class OneGraph:
    """The groups of one graph, as if it had its own run.

    Attributes
    ----------
    job : Job
        A job with the graph's edges and keys.
    groups : Groups
        The groups, with the graph's own ids.
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
    degrees: Pair
    null: Null
    first_right: int = 0
    whose: str = ""

    def scored(self) -> Scored:
        """Return the scores of its bicliques, or of the groups if the bicliques are not available."""
        return score(self.job, self.groups, self.null, self.whose)

    def grown(self) -> list[tuple[int, tuple[list[int], list[int]]]]:
        """Return the grown groups, and their positions in the list of all."""
        kinds, members = self.groups.column("kind"), zip(*map(self.groups.members_of, (0, 1)), strict=True)
        rows = zip(self.rows.tolist(), kinds, members, strict=True)
        return [(row, group) for row, kind, group in rows if kind == GROWN]

    def edges_of(self, of_row: np.ndarray, left: np.ndarray, right: np.ndarray) -> Within:
        """Return the edges within its groups, given the edges of all groups."""
        own = np.isin(of_row, self.rows)
        sizes = self.degrees[0].size, self.degrees[1].size
        rows = np.searchsorted(self.rows, of_row[own])
        return within_groups(self.groups, sizes, rows, left[own], right[own] - self.first_right)


@dataclass(frozen=True, slots=True, eq=False)
class Graphs:
    """Groups of one or several graphs, with one range of right ids, and the groups of each graph.

    Attributes
    ----------
    job : Job
        A job with the keys and events of all graphs.
    parts : tuple of OneGraph
    ids : callable
        The function for `read_groups`.
    items : (n_right,) int64 or None
        If keys were tried, the right vertex of the run for each right id.
    """

    job: Job
    groups: Groups
    parts: tuple[OneGraph, ...]
    ids: Ids
    items: np.ndarray | None = None

    def arranged(self, order: list[int], groups: Sequence[Sets], n_grown: int) -> list[int]:
        """Return groups, best first, in the order of the list."""
        starts, rights = [part.first_right for part in self.parts], [next(iter(right)) for _, right in groups]
        graphs = (np.searchsorted(starts, rights, side="right") - 1).tolist()
        n_right = [part.degrees[1].size for part in self.parts]
        return arranged(order, groups, n_grown, graphs, n_right if self.items is not None and len(starts) > 1 else None)

    def by_item(self) -> Groups:
        """Return the groups with right members replaced by their items, if keys were tried."""
        if self.items is None:
            return self.groups
        vertices, is_right = self.groups.vertices.copy(), self.groups.is_right
        vertices[is_right] = self.items[vertices[is_right]]
        return replace(self.groups, vertices=vertices)


def has_two_graphs(job: Job) -> bool:
    """Return whether groups were searched in two graphs."""
    return job.manifest.config.input.time_bucket is not None


def read_facts(job: Job) -> list[dict[str, Any]]:
    """Read `group_keys`; empty if no keys are tried."""
    return pq.read_table(job.run / "group_keys.parquet").to_pylist() if are_tried(job.manifest.config) else []


def read_graphs(job: Job) -> Graphs | None:
    """Read the groups of all graphs; None if there are several and no input.

    Raises
    ------
    VerificationError
        Members are not vertices of the group's graph, or the graphs are not those of the input.
    """
    assert job.keys is not None
    assert job.hashes is not None
    has_two, facts = has_two_graphs(job), read_facts(job)
    given = None if job.edges is None else job.edges.half_later if has_two else job.edges.events
    if (has_two or facts) and given is None:
        job.not_checked("groups and vertex scores: there are several graphs, and the input is not given with all")
        return None
    further = [_half_later(job)] if has_two else _of_keys(job, facts)
    degrees = [(read_degrees(job.run, "left"), read_degrees(job.run, "right"))]
    degrees += [(_degrees(each.edges, 0), _degrees(each.edges, 1)) for each in further]
    starts = np.cumsum([0, *(right.size for _, right in degrees)]).tolist()
    labels = {(PLAIN if facts else None, False if has_two else None): 0}
    labels |= {each.label: i for i, each in enumerate(further, 1)}
    path = job.run / "groups.parquet"
    stated = pq.read_table(path, columns=["key", "half_later"]).to_pylist()
    of_group = np.array([labels.get((row["key"], row["half_later"]), -1) for row in stated], np.int64)
    refuse_first(path, of_group < 0, "key and half_later are not those of a graph")
    whole, right_keys = copy(job), [each.edges.right_keys for each in further]
    hashes = [job.hashes[1], *(vertex_hashes(each, "right") for each in right_keys)]
    whole.hashes = job.hashes[0], np.concatenate(hashes)
    items = None
    if facts:
        items = np.concatenate([np.arange(degrees[0][1].size), *(each.items for each in further)])
    elif has_two:
        whole.keys = (
            job.keys[0],
            pa.chunked_array(_text(job.keys[1]).chunks + _text(pa.chunked_array(right_keys)).chunks),
        )
    ids = partial(_ids, job, of_group, None if items is None else right_keys, starts)
    groups, parts = read_groups(whole, ids), list[OneGraph]()
    n_graphs = 1 + max(len(facts), has_two)
    for i, each in enumerate([None, *further]):
        own = job if each is None else _job_of(job, each, hashes[i])
        null = Null(degrees[i], job.manifest.input.n_edges if each is None else each.edges.left_ids.size, n_graphs)
        of_graph = _part(groups, of_group == i, starts[i])
        parts.append(OneGraph(own, *of_graph, degrees[i], null, starts[i], "" if each is None else f"{each.name} "))
    used = [part for part in parts if part.rows.size or part is parts[0]]
    if len(used) > 1:
        whole.edges = _joined([part.job.edges for part in used], [part.first_right for part in used])
    return Graphs(whole, groups, tuple(parts), ids, items)


def _half_later(job: Job) -> _Further:
    """Check `half_later_vertices`; return the graph of buckets that begin half a bucket later."""
    assert job.edges is not None
    assert job.edges.half_later is not None
    path, later = job.run / "half_later_vertices.parquet", job.edges.half_later
    table, n_right = pq.read_table(path), len(job.edges.right_keys)
    if _text(table["key"]).combine_chunks() != _text(pa.chunked_array([later.right_keys])).combine_chunks():
        raise VerificationError(f"{path}: its keys are not those of {later.facts.source} half a bucket later")
    compare(path, "vertex", table["vertex"].to_numpy(), np.arange(n_right, n_right + table.num_rows))
    compare(path, "degree", table["degree"].to_numpy(), _degrees(later, 1))
    job.passed("half later vertices", f"{table.num_rows:,} right vertices")
    stated = job.manifest.derived["groups"]
    n, is_truncated = stated.get("half_later_bicliques", 0), bool(stated.get("half_later_truncated"))
    return _Further("half later", (None, True), later, n, is_truncated)


def _of_keys(job: Job, facts: list[dict[str, Any]]) -> list[_Further]:
    """Check `group_keys`; return the graphs of the keys that were tried."""
    edges, path, found = job.edges, job.run / "group_keys.parquet", list[_Further]()
    if edges is None:
        return found
    tried = [(key, later) for key in keys_of(edges.events, job.manifest.config) for later in key.offsets]
    if len(facts) != len(tried):
        raise VerificationError(f"{path}: has {len(facts)} rows; expected {len(tried)}, one for each graph")
    for row, (stated, (key, later)) in enumerate(zip(facts, tried, strict=True)):
        label = key.name, later if key.bucket is not None else None
        expected: dict[str, Any] = {"key": label[0], "half_later": label[1], "n_right": None, "n_edges": None}
        if stated["status"] in ("searched", "truncated"):
            made, items = edges_of_key(edges, key, half_later=later)
            expected |= {"n_right": len(made.right_keys), "n_edges": made.left_ids.size}
            name, n = key.name + " half later" * later, stated["n_bicliques"] or 0
            found.append(_Further(name, label, made, n, stated["status"] == "truncated", items))
        elif stated["status"] != "not tried" or stated["n_bicliques"] is not None:
            raise VerificationError(f"{path}, row {row}: the status is {stated['status']!r:.80}")
        if (known := {name: stated[name] for name in expected}) != expected:
            raise VerificationError(f"{path}, row {row}: states {known}; recomputed {expected}")
    return found


def _job_of(job: Job, graph: _Further, hashes: np.ndarray) -> Job:
    """Return a job with the edges, keys, hashes and bicliques of a further graph."""
    assert job.keys is not None
    assert job.hashes is not None
    own = copy(job)
    own.edges, own.hashes = graph.edges, (job.hashes[0], hashes)
    own.keys = job.keys[0], pa.chunked_array([graph.edges.right_keys])
    own.results = _bicliques_again(own, graph)
    if graph.items is not None:
        # Members are named by their items.
        own.keys = job.keys[0], job.keys[1].take(pa.array(graph.items))
    return own


def _ids(
    job: Job,
    of_group: np.ndarray,
    right_keys: Sequence[pa.Array] | None,
    starts: Sequence[int],
    table: Path,
    of_row: np.ndarray,
    is_right: np.ndarray,
    vertices: np.ndarray,
    values: pa.ChunkedArray,
) -> np.ndarray:
    """Return the ids of members; ids of a further graph's right vertices follow those of earlier graphs.

    With tried keys, `right_keys` are given, and right vertices are identified by items and values. `starts` has the
    first right id of each graph, and the end. Further parameters are those of `pipeline.verify.group_tables.Ids`.
    """
    graphs, found = of_group[of_row], vertices.astype(np.int64)
    is_narrow = is_right & (graphs > 0) & (right_keys is not None)
    is_wrong = values.is_valid().to_numpy() != is_narrow
    refuse_first(table, is_wrong, "key_value must be set exactly for keys that narrow items")
    first, end = (np.where(is_right & ~is_narrow, np.array(starts)[graphs + i], 0) for i in (0, 1))
    end = np.where(is_narrow, starts[1], np.where(is_right, end, job.manifest.input.n_left))
    refuse_first(table, (found < first) | (found >= end), lambda row: f"there is no vertex {found[row]} in its graph")
    for graph in np.unique(graphs[is_narrow]).tolist():
        assert job.keys is not None
        assert right_keys is not None
        own, keys = np.flatnonzero(is_narrow & (graphs == graph)), right_keys[graph - 1]
        heads = job.keys[1].take(pa.array(found[own])).to_pylist()
        pairs = zip(heads, values.take(pa.array(own)).to_pylist(), strict=True)
        wanted = [f"[{json.dumps(head, ensure_ascii=False)},{value[1:]}" for head, value in pairs]
        places = pc.fill_null(pc.index_in(pa.array(wanted, keys.type), keys), -1).to_numpy()
        refuse_first(table, places < 0, "a right member is no vertex of the group's key")
        found[own] = places + starts[graph]
    return found


def _degrees(edges: EdgeData, side: int) -> np.ndarray:
    keys, ids = ((edges.left_keys, edges.left_ids), (edges.right_keys, edges.right_ids))[side]
    return np.bincount(ids, minlength=len(keys))


def _part(groups: Groups, chosen: np.ndarray, n_right_before: int) -> tuple[Groups, np.ndarray]:
    """Return some of the groups, with their own right ids; and their positions."""
    rows = np.flatnonzero(chosen)
    kept = groups.only(chosen[groups.of_row])
    of_row = np.searchsorted(rows, kept.of_row)
    vertices = kept.vertices - np.where(kept.is_right, n_right_before, 0)
    places = (2 * of_row + kept.is_right) << 32 | vertices
    table = groups.table.filter(pa.array(chosen))
    return replace(kept, table=table, of_row=of_row, vertices=vertices, places=places), rows


def _joined(graphs: Sequence[Any], starts: Sequence[int]) -> EdgeData:
    """Return the first of several graphs with the rows of all; `starts` are their first right ids."""
    first, events = graphs[0], [each.events for each in graphs]
    rows = {
        name: np.concatenate([getattr(each, name) for each in events])
        for name in ("left", "weights", "times")
        if getattr(events[0], name) is not None
    }
    right = np.concatenate([each.right + np.int32(start) for each, start in zip(events, starts, strict=True)])
    edges: EdgeData = replace(first, events=replace(events[0], right=right, **rows))
    return edges


def _text(keys: pa.ChunkedArray) -> pa.ChunkedArray:
    return keys.cast(pa.large_string())


@dataclass(frozen=True, slots=True, eq=False)
class Scored:
    """Summary of the scores of all bicliques of a graph.

    Attributes
    ----------
    candidates : Bicliques
        Candidates, best first.
    surprise, evidence : (n,) int64
        Scores of the candidates.
    best : int
        The largest surprise, positive or not.
    share_numerators : pair of (n_vertices,) int64
        See `Best.numerators`.
    is_whole : bool
        True if these are all bicliques of the run; false if they are only the groups, which allow fewer checks.
    """

    candidates: Bicliques
    surprise: np.ndarray
    evidence: np.ndarray
    best: int
    share_numerators: tuple[np.ndarray, np.ndarray]
    by_edge: EdgeScores
    is_whole: bool


def score(job: Job, groups: Groups, null: Null, whose: str = "") -> Scored:
    """Score the bicliques of a run, or its groups, in two passes: the second reads the members of candidates.

    Raises
    ------
    VerificationError
        The bicliques are not available but the input is, and a group is not a maximal biclique of it.
    """
    alone = None
    if job.results is None:
        job.not_checked(whose + _NOT_CHECKED)
        alone = groups.bicliques(is_grown=False)
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


def _check_against_input(job: Job, groups: Groups, rows: Bicliques, whose: str) -> None:
    if job.edges is None or not rows.keys.size:
        return
    graph = adjacency(job.edges)
    # The type of published bicliques, for which the check was compiled.
    left, right = (readonly_view(members.astype(np.int32)) for members in rows.members)
    numbers = np.arange(rows.keys.size)
    verdicts = closure.judge(graph, numbers, rows.offsets[0], left, rows.offsets[1], right, job.threads)
    refuse_first(groups.path, verdicts[:, 0] != 0, "is not a maximal biclique of the input")
    job.passed(f"{whose}groups complete and maximal", f"all {rows.keys.size:,}")

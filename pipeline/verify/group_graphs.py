"""The graph of the groups, or two graphs if the input has time buckets, and their groups as one list.

The first graph is the run's; its bicliques are published or enumerated again. The second has buckets that begin half a
bucket later. It is read from the input with the first, and enumerated again if that is affordable (`half_later`). Ids
of its right vertices follow those of the first (`half_later_vertices`).
"""

from __future__ import annotations

from collections.abc import Iterable
from copy import copy
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from mbe_stage.groups import reference
from mbe_stage.groups.reference import Best, Bicliques, EdgeScores, Null, Pair, tfidf_eigenvector
from mbe_stage.pipeline.edges import EdgeData
from mbe_stage.pipeline.errors import VerificationError
from mbe_stage.pipeline.verify import closure
from mbe_stage.pipeline.verify.bicliques import enumerated_again
from mbe_stage.pipeline.verify.closure import Keys, adjacency, check_distinct, check_nothing_missing, judge_rows
from mbe_stage.pipeline.verify.files import table_parts
from mbe_stage.pipeline.verify.group_tables import (
    Groups,
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


def later_bicliques(later: Job) -> Path | None:
    """Find a directory with the table `bicliques` of the later buckets; None if they are not available.

    Parameters
    ----------
    later : Job
        With the edges, keys and hashes of the second graph.

    Raises
    ------
    VerificationError
        Their number differs from the manifest, or they are not those of the graph.
    """
    assert later.edges is not None
    assert later.keys is not None
    assert later.hashes is not None
    stated = later.manifest.derived["groups"]
    n = stated.get("half_later_bicliques", 0)
    if stated.get("half_later_truncated"):
        why = "a limit stopped their search, and another search would stop elsewhere"
    elif n > later.sample:
        why = f"{n:,} are more than {later.sample:,}, the most that are enumerated again (--sample)"
    else:
        rules = rules_of(later.manifest, later.keys, later.hashes)
        directory = enumerated_again(later, later.edges, rules, n)
        n_looked_up = _check(later, later.edges, rules, later.keys, directory, n)
        later.passed(
            "half later bicliques",
            f"all {n:,}, enumerated again: complete and maximal, distinct; {n_looked_up:,} looked up are present",
        )
        return directory
    later.not_checked(f"half later bicliques: {why}")
    return None


def _check(later: Job, edges: EdgeData, rules: RowRules, keys: Keys, directory: Path, n_stated: int) -> int:
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
        raise VerificationError(
            f"{later.run / 'manifest.json'}: derived.groups.half_later_bicliques is {n_stated:,}; found {n_found}"
        )
    check_distinct("the buckets shifted by half", sorted_keys)
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
    """Groups of one or two graphs, with one range of right ids, and the groups of each graph.

    Attributes
    ----------
    job : Job
        With the edges and keys of all graphs.
    parts : tuple of OneGraph
        One or two.
    """

    job: Job
    groups: Groups
    parts: tuple[OneGraph, ...]

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
    groups = read_groups(job, degrees)
    is_stated = groups.table["half_later"].is_valid().to_numpy()
    refuse_first(groups.path, is_stated, "half_later is set without time buckets")
    part = OneGraph(job, groups, np.arange(len(groups)), degrees, Null(degrees, job.manifest.input.n_edges))
    return Graphs(job, groups, (part,))


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
    both.edges = _joined(edges, later)
    of_later = copy(job)
    of_later.edges = later
    of_later.keys, of_later.hashes = (job.keys[0], later_keys), (job.hashes[0], both.hashes[1][n_right:])
    of_later.results = later_bicliques(of_later)
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


def _joined(first: EdgeData, later: EdgeData) -> EdgeData:
    """Return the edges of both graphs, and their rows, with one range of right ids."""
    n_right = len(first.right_keys)
    left = np.concatenate([first.left_ids, later.left_ids])
    right = np.concatenate([first.right_ids, later.right_ids + np.int32(n_right)])
    order = np.lexsort((right, left))
    assert first.events is not None
    assert later.events is not None
    rows = {
        name: np.concatenate([getattr(first.events, name), getattr(later.events, name)])
        for name in ("left", "weights", "times")
        if getattr(first.events, name) is not None
    }
    right_of_rows = np.concatenate([first.events.right, later.events.right + np.int32(n_right)])
    keys = pa.concat_arrays([each.right_keys.cast(pa.large_string()) for each in (first, later)])
    return replace(
        first,
        left_ids=left[order],
        right_ids=right[order],
        right_keys=keys,
        hashes=None,
        events=replace(first.events, right=right_of_rows, **rows),
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

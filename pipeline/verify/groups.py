"""Check the tables of groups against the published bicliques and vertex degrees, which were checked before.

`mbe_stage.groups.reference` and `reference_selection` define candidates, scores and the list, `reference_halo` halos.
Groups that were grown may lack edges; they are checked without growing them again.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from scipy import sparse

from mbe_stage.groups.reference import SIGNIFICANT, UNIT, Bicliques, Null, Pair, tfidf_eigenvector
from mbe_stage.groups.reference_halo import halo
from mbe_stage.groups.reference_selection import NullOfEdges, listed, overlap_fraction, ranked
from mbe_stage.pipeline.errors import VerificationError
from mbe_stage.pipeline.verify.group_graphs import Graphs, OneGraph, Scored, has_two_graphs, read_facts, read_graphs
from mbe_stage.pipeline.verify.group_known import Known, check_association, check_known_figures, read_known
from mbe_stage.pipeline.verify.group_tables import (
    GROWN,
    SHORT,
    Groups,
    Within,
    check_keys,
    check_members,
    check_scores,
    compare,
    is_right_of,
    refuse_first,
    rows_of,
    without_nulls,
)
from mbe_stage.pipeline.verify.group_times import check_times
from mbe_stage.pipeline.verify.job import Job

# Scores of vertices that need all bicliques, and tolerance: another machine may round logarithms differently.
_SCORES = {"share_size": 1e-12, "edge_share": 1e-6, "edge_sqrt": 1e-6}
_OF_LATER = ("half_later_bicliques", "half_later_truncated")
# Tolerance, in units, of a sum of logarithms, which another machine may round differently.
_UNSURE = 8


def check(job: Job) -> None:
    """Check the tables of groups against the published bicliques and vertices.

    Raises
    ------
    VerificationError
        The first error found.
    """
    graphs = read_graphs(job)
    if graphs is None:
        return
    groups, parts = graphs.groups, graphs.parts
    by_item, of_known = graphs.by_item(), graphs.job if graphs.items is None else job
    known = read_known(of_known)
    found = [part.scored() for part in parts]
    is_whole, edges = all(each.is_whole for each in found), _read_edges(graphs)
    n_candidates = _check_list(graphs, found, edges, known)
    which = "of buckets shifted by half" if graphs.items is None else "of keys that narrow the items"
    of_later = f", {len(groups) - parts[0].rows.size:,} of them {which}" if len(parts) > 1 else ""
    job.passed("groups", f"{len(groups):,}{f' of {n_candidates:,} candidates' * is_whole}{of_later}")
    check_times(graphs.job, groups, by_item)
    check_known_figures(of_known, by_item, known)
    for part, of_groups in zip(parts, edges, strict=True):
        assert part.job.keys is not None
        _check_figures(part.groups, of_groups, part.null)
        _check_levels(part.groups, part.null)
        check_members(part.groups, of_groups, part.job.keys, part.degrees)
    job.passed("group members", f"{groups.vertices.size:,} rows")
    _check_halos(graphs, of_known)
    columns, degrees = _scores_of_vertices(graphs, found, edges), parts[0].degrees
    of_first = groups.only(~groups.is_right | (groups.vertices < degrees[1].size))
    job.passed("vertex scores", check_scores(job, of_first, degrees, columns, _SCORES, is_whole=is_whole))
    job.not_checked("groups and vertex scores: that no other grown group is better: growing is not repeated")
    if "tfidf_eigenvector" not in columns:
        job.not_checked("halos; edges of groups; vertex scores: tfidf_eigenvector: the input is not given")
    check_association(job, by_item, known, degrees[1].size)
    _check_counts(job, groups, found, known)


def _check_list(graphs: Graphs, found: list[Scored], edges: list[Within], known: Known) -> int:
    """Check the list, its cores and what it leaves out; return the number of significant candidates."""
    groups, section = graphs.groups, graphs.job.manifest.config.section("groups")
    grown = groups.bicliques(is_grown=True)
    n_grown = grown.keys.size
    candidates = [
        replace(of.candidates, members=(of.candidates.members[0], of.candidates.members[1] + part.first_right))
        for of, part in zip(found, graphs.parts, strict=True)
    ]
    scores = [_scores_of_grown(graphs, edges), *(np.stack([of.surprise, of.evidence]) for of in found)]
    surprise, evidence = np.concatenate(scores, axis=1)
    high = np.flatnonzero(surprise > SIGNIFICANT)
    rows, surprise, evidence = Bicliques.joined([grown, *candidates]).take(high), surprise[high], evidence[high]
    values, per = {
        "surprise": (surprise, None),
        "surprise_per_vertex": (surprise, (rows.sizes(0) + rows.sizes(1)).tolist()),
        "surprise_per_edge": (surprise, (rows.sizes(0) * rows.sizes(1)).tolist()),
        "evidence": (evidence, None),
    }[section.rank_by]
    # If a grown group and a biclique have the same members, the grown group is first.
    best_first = ranked(rows.keys.tolist(), values.tolist(), per)
    sides = list(zip(map(frozenset, rows.side(0)), map(frozenset, rows.side(1)), strict=True))
    pool = [row for row in best_first if section.kind != (SHORT if row < n_grown else GROWN)]

    @cache
    def is_muted(row: int) -> bool:
        left, right = map(list, sides[row])
        return known.is_muted((left, right if graphs.items is None else graphs.items[right].tolist()))

    arranged, overlap = graphs.arranged(pool, sides, n_grown), overlap_fraction(section.max_overlap)
    expected = listed(sides, n_grown, best_first, arranged, overlap, section.limit, is_muted)
    places = [row for row, _, _ in expected]
    _check_keys(groups, rows.keys, places, section.limit)
    compare(groups.path, "rank", groups.column("rank"), list(range(1, len(groups) + 1)))
    compare(groups.path, "kind", groups.column("kind"), [GROWN if row < n_grown else SHORT for row in places])
    for name, units in (("surprise", surprise[places]), ("evidence", evidence[places])):
        _check_units(groups.path, name, groups.table[name].to_numpy(), units, _UNSURE + _unsure_of_rounding(graphs))
    if all(of.is_whole for of in found):
        compare(groups.path, "n_bicliques", groups.column("n_bicliques"), [n for _, _, n in expected])
        keys: Any = [None if core is None else int(rows.keys[core]) for _, core, _ in expected]
        compare(groups.path, "core_key", groups.column("core_key"), keys)
        of_cores = [
            (2 * row + side) << 32 | vertex
            for row, (_, core, _) in enumerate(expected)
            for side, members in enumerate(((), ()) if core is None else sides[core])
            for vertex in members
        ]
        is_core = np.isin(groups.places, np.array(of_cores, np.int64))
        compare(groups.members_path, "is_core", groups.members["is_core"].to_numpy(), is_core)
    return high.size - n_grown


def _scores_of_grown(graphs: Graphs, edges: list[Within]) -> np.ndarray:
    """Return surprise and evidence of the grown groups, ``(2, n) int64``; check that they may be listed."""
    groups, query = graphs.groups, graphs.job.manifest.config.query
    for name, least in (("n_left", query.min_left), ("n_right", query.min_right)):
        is_below = groups.table[name].to_numpy() < least
        refuse_first(groups.path, is_below, f"{name} is below {least}, the query's minimum")
    found: dict[int, tuple[int, int]] = {}
    for part, within in zip(graphs.parts, edges, strict=True):
        null = NullOfEdges(within.left, within.right, part.null)
        for row, group in part.grown():
            score = null.score(group)
            found[row] = score, score + null.cost(group)
            if score <= SIGNIFICANT or not null.has_more_than_expected(group):
                raise groups.refuse(row, "is not significant, or has no more edges than are expected")
    return np.array([found[row] for row in sorted(found)], np.int64).reshape(-1, 2).T


def _check_keys(groups: Groups, keys: np.ndarray, listed: list[int], limit: int) -> None:
    """Check that the groups are those of the list, in its order."""
    stated, expected = groups.column("group_key"), keys[listed].tolist()
    for row, (key, wanted) in enumerate(zip(stated, expected, strict=False)):
        if key not in keys:
            what = "is not a candidate: among the best of a vertex or of all, with significant surprise"
            raise groups.refuse(row, f"{key} {what}")
        if key != wanted:
            raise groups.refuse(row, f"group_key is {key}; recomputed {wanted}, which has this rank by the run's query")
    if len(stated) > len(expected):
        what = f"one group too many: it exceeds groups.limit ({limit}), or a better one overlaps it"
        raise groups.refuse(len(expected), what)
    if len(stated) < len(expected):
        key = expected[len(stated)]
        raise VerificationError(f"{groups.path}: the biclique {key} is missing: it overlaps no better group")


def _check_units(path: Path, name: str, stated: np.ndarray, units: np.ndarray, unsure: int | np.ndarray) -> None:
    # NaN counts as different too.
    is_near = np.abs(stated - units / UNIT) * UNIT <= unsure
    refuse_first(path, ~is_near, lambda row: f"{name} is {stated[row]}; recomputed {units[row] / UNIT}")


def _unsure_of_rounding(graphs: Graphs) -> np.ndarray:
    """Return the tolerance of sums over edges, in units: each edge's share or effective degree is rounded once."""
    n_left, n_right, kinds = (graphs.groups.table[name].to_numpy() for name in ("n_left", "n_right", "kind"))
    is_fitted = any(part.null.is_fitted for part in graphs.parts)
    return 2 * n_left.astype(np.int64) * n_right * ((kinds == GROWN) | is_fitted)


def _check_levels(groups: Groups, null: Null) -> None:
    """Check the columns that follow from surprise and evidence."""
    surprise, evidence = (groups.table[name].to_numpy() for name in ("surprise", "evidence"))
    compare(groups.path, "significant", groups.column("significant"), np.rint(surprise * UNIT) > SIGNIFICANT)
    p_bound = groups.table["p_bound"].to_numpy()
    wrong = ~np.isclose(p_bound, np.exp(-surprise), rtol=1e-9, atol=0)
    refuse_first(groups.path, wrong, lambda row: f"p_bound is {p_bound[row]}; recomputed {np.exp(-surprise[row])}")
    levels = []
    for row, kind in enumerate(groups.column("kind")):
        names = null.class_cost if kind == GROWN else 0
        for side, name in enumerate(("n_left", "n_right")):
            names += int(null.cost_of_members(side, 0, groups.table[name][row].as_py()))
        levels.append("strong" if evidence[row] * UNIT > names else "significant")
    compare(groups.path, "level", groups.column("level"), levels)


def _check_figures(groups: Groups, edges: Within, null: Null) -> None:
    """Check the figures of each group other than its rank."""
    degrees, stated = null.degrees, groups.table["expected_edges"].to_pylist()
    expected: dict[str, list[Any]] = {name: [] for name in _FIGURES}
    members = tuple([np.array(of, np.int64) for of in groups.members_of(side)] for side in (0, 1))
    for row, (left, right) in enumerate(zip(*members, strict=True)):
        of_left, of_right = degrees[0][left], degrees[1][right]
        n_within = int(edges.n_edges[row])
        by_chance = float(Fraction(int(of_left.sum()) * int(of_right.sum()), null.n_edges))
        if null.is_fitted:
            of_model = null.expected_edges(left, right)
            # Another machine may round the sum of exponentials differently.
            by_chance = stated[row] if np.isclose(stated[row], of_model, rtol=1e-6, atol=0) else of_model
        share = n_within / int(of_left.sum())
        figures = (
            n_within,
            n_within / (of_left.size * of_right.size),
            by_chance,
            share,
            float(np.median(of_right)),
            _sentence(of_left.size, of_right.size, n_within, by_chance, share) + _in_time(groups, row),
        )
        for name, value in zip(_FIGURES, figures, strict=True):
            expected[name].append(value)
    for name, values in expected.items():
        compare(groups.path, name, groups.column(name), values)


_FIGURES = ("n_edges", "density", "expected_edges", "left_edge_share", "median_right_degree", "explanation")


def _sentence(n_left: int, n_right: int, n_edges: int, by_chance: float, share: float) -> str:
    possible = n_left * n_right
    within = "all" if n_edges == possible else format(n_edges, ",")
    edges = "edge" if possible == 1 else "edges"
    chance = "fewer than 0.1" if by_chance < 0.1 else format(by_chance, ",.0f" if by_chance >= 10 else ".1f")
    return (
        f"{n_left:,} left x {n_right:,} right members, {within} of {possible:,} possible {edges}; by their degrees "
        f"{chance} would be expected; {_hundredths(100 * share)} of the left members' edges are among them"
    )


_IN_WORDS = {"1h": "1 hour", "1d": "1 day", "3d": "3 days", "7d": "7 days"}


def _in_time(groups: Groups, row: int) -> str:
    names = "busiest_share", "busiest_item_share", "busiest_window"
    share, of_items, window = (groups.table[name][row].as_py() for name in names)
    if share is None or share < 0.5 or share <= of_items:
        return ""
    items = f"all edges of these items: {_hundredths(100 * of_items)}"
    return f"; {_hundredths(100 * share)} within {_IN_WORDS[window]} ({items})"


def _hundredths(percent: float) -> str:
    if 99.9 < percent < 100:
        return "over 99.9 %"
    n_digits = 0 if percent == 100 or 10 <= percent < 99.5 else 1
    return "under 0.1 %" if percent < 0.1 else f"{percent:.{n_digits}f} %"


def _check_counts(job: Job, groups: Groups, found: list[Scored], known: Known) -> None:
    """Check the counts of the manifest; if nothing else gives a count, only that it is present and not too small."""
    stated: Mapping[str, int] = job.manifest.derived["groups"]
    is_whole, metadata = all(each.is_whole for each in found), pq.read_schema(groups.path).metadata or {}
    best, stated_best = max(each.best for each in found) / UNIT, metadata.get(b"best_surprise", b"nan")
    if is_whole and any(each.candidates.keys.size for each in found) and not abs(float(stated_best) - best) <= 1e-6:
        raise VerificationError(f"{groups.path}: best_surprise is {stated_best.decode():.80}; recomputed {best}")
    # Growing is not repeated; its seeds are some candidates, and two pairs for each left vertex.
    n_seeds = sum(of.candidates.keys.size + 2 * of.share_numerators[0].size for of in found)
    counts = {
        "groups": len(groups),
        "left_members": int(np.unique(groups.side(0)[1]).size),
        "right_members": int(np.unique(groups.side(1)[1]).size),
        "significant_candidates": sum(int((of_graph.surprise > SIGNIFICANT).sum()) for of_graph in found),
        "candidates_not_scored": sum(of.by_edge.n_left_out for of in found),
        "seeds_not_grown": max(0, min(stated.get("seeds_not_grown", -1), n_seeds)),
        **known.counts(groups, has_verdicts="verdicts" in job.manifest.derived_inputs.get("groups", {})),
    }
    if not is_whole:
        # Only those candidates that are groups are known.
        least = {"significant_candidates": counts["significant_candidates"]}
        least |= {"candidates_not_scored": 0, "seeds_not_grown": 0}
        counts |= {name: max(n, stated.get(name, -1)) for name, n in least.items()}
    if has_two_graphs(job):
        # The first was compared with the enumerated bicliques, if these are available.
        counts |= {name: max(0, stated.get(name, -1)) for name in _OF_LATER}
    counts |= _check_chance(job, groups)
    if rows := read_facts(job):
        counts["keys"] = 1 + len({row["key"] for row in rows})
        counts["keys_not_searched"] = len({row["key"] for row in rows if row["status"] != "searched"})
        counts["key_bicliques"] = sum(row["n_bicliques"] or 0 for row in rows)
    if dict(stated) != counts:
        raise VerificationError(f"{job.run / 'manifest.json'}: derived.groups is {dict(stated)}; recomputed {counts}")


def _check_chance(job: Job, groups: Groups) -> dict[str, int]:
    """Check the p-values against the stated copies; return their count."""
    stated = (pq.read_schema(groups.path).metadata or {}).get(b"chance_copies")
    copies = [] if stated is None else [copy["best_surprise"] for copy in json.loads(stated)]
    expected = [
        (1 + sum(best >= surprise for best in copies)) / (1 + len(copies)) if copies else None
        for surprise in groups.column("surprise")
    ]
    if groups.column("chance_p_value") != expected:
        raise VerificationError(f"{groups.path}: chance_p_value is not that of the stated random copies")
    if copies:
        job.not_checked("groups: random copies: they are not searched again")
    return {} if stated is None else {"chance_copies": len(copies)}


def _read_edges(graphs: Graphs) -> list[Within]:
    """Read `group_edges`; check that rows are edges within their groups and, with the input, that none is missing."""
    groups = graphs.groups
    path = groups.path.with_name("group_edges.parquet")
    table = without_nulls(path, but=("key_value",))
    of_row = rows_of(path, table, groups.column("group_key"))
    ends = []
    for side, name in enumerate(("left", "right")):
        values = table["key_value"] if side else pa.chunked_array([pa.nulls(of_row.size, pa.string())])
        ends.append(graphs.ids(path, of_row, np.full(of_row.size, bool(side)), table[name].to_numpy(), values))
        is_member = np.isin((2 * of_row + side) << 32 | ends[side], groups.places)
        refuse_first(path, ~is_member, f"the {name} vertex is not a member")
    steps = np.diff(of_row << 32 | ends[0], prepend=-1)
    is_behind = (steps < 0) | ((steps == 0) & (np.diff(ends[1], prepend=-1) <= 0))
    refuse_first(path, is_behind, "out of order; expected rows by rank, left and right")
    found = [part.edges_of(of_row, *ends) for part in graphs.parts]
    for part, within in zip(graphs.parts, found, strict=True):
        n_cells = part.groups.table["n_left"].to_numpy() * part.groups.table["n_right"].to_numpy().astype(np.int64)
        is_whole = (part.groups.table["kind"].to_numpy() == GROWN) | (within.n_edges == n_cells)
        refuse_first(path, ~is_whole, "a biclique lacks edges", numbers=part.rows)
        if part.job.edges is not None and part.rows.size:
            graph, members = _matrix(part), zip(*map(part.groups.members_of, (0, 1)), strict=True)
            codes = np.repeat(np.arange(graph.shape[0]) << 32, np.diff(graph.indptr)) | graph.indices
            refuse_first(path, ~np.isin(within.left << 32 | within.right, codes), "is not an edge of the input")
            n_edges = [graph[left][:, right].nnz for left, right in members]
            compare(path, "the number of edges", within.n_edges, n_edges)
    return found


def _scores_of_vertices(graphs: Graphs, found: list[Scored], edges: list[Within]) -> dict[str, Pair]:
    """Return scores of the vertices of the first graph; a left one has the best of all graphs."""
    every = list[dict[str, Pair]]()
    for part, of, within in zip(graphs.parts, found, edges, strict=True):
        columns = {"edge_share": of.by_edge.share, "edge_sqrt": of.by_edge.sqrt}
        for name, (left, right) in (("group_edge_share", within.explained), ("share_size", of.share_numerators)):
            columns[name] = left / part.degrees[0], right / part.degrees[1]
        columns["share_size"] = np.sqrt(columns["share_size"][0]), np.sqrt(columns["share_size"][1])
        every.append(columns)
    best = {name: (np.maximum.reduce([of[name][0] for of in every]), right) for name, (_, right) in every[0].items()}
    first = graphs.parts[0]
    if (own := first.job.edges) is not None:
        sizes = first.degrees[0].size, first.degrees[1].size
        best["tfidf_eigenvector"] = tfidf_eigenvector(own.left_ids, own.right_ids, sizes)
    return best


def _check_halos(graphs: Graphs, of_keys: Job) -> None:
    """Check the halos of grown groups; `of_keys` has the keys of their vertices, or of the items of these."""
    groups, path = graphs.groups, graphs.groups.path.with_name("group_halo.parquet")
    table = without_nulls(path, but=("key_value",))
    if graphs.job.edges is None:
        return
    assert of_keys.keys is not None
    expected = sorted(row for part in graphs.parts for row in _halo_rows(part))
    if len(expected) != table.num_rows:
        raise VerificationError(f"{path}: has {table.num_rows} rows; recomputed {len(expected)}")
    of_row, side, place, vertices, gains, n_edges = np.array(expected, np.int64).reshape(-1, 6).T
    compare(path, "group_key", rows_of(path, table, groups.column("group_key")), of_row)
    compare(path, "side", is_right_of(path, table["side"]), side == 1)
    compare(path, "place", table["place"].to_numpy(), place)
    found = graphs.ids(path, of_row, side == 1, table["vertex"].to_numpy(), table["key_value"])
    compare(path, "vertex", found, vertices)
    compare(path, "n_edges", table["n_edges"].to_numpy(), n_edges)
    _check_units(path, "gain", table["gain"].to_numpy(), gains, _UNSURE + 1e-6 * np.abs(gains))
    for i in (0, 1):
        rows = np.flatnonzero(side == i)
        keys = of_keys.keys[i].take(table["vertex"].take(pa.array(rows)).combine_chunks())
        check_keys(path, table["key"].take(pa.array(rows)), keys, rows)
    graphs.job.passed("halos", f"{table.num_rows:,} vertices")


def _halo_rows(part: OneGraph) -> list[tuple[int, ...]]:
    """Return row of the group, side, place, vertex, gain in units, and edges of each row of a graph's halos."""
    grown, found = part.grown(), list[tuple[int, ...]]()
    graphs = [graph := _matrix(part), graph.T.tocsr()] if grown else []
    neighbours = [dict(enumerate(np.split(of.indices, of.indptr[1:-1]))) for of in graphs]
    for row, group in grown:
        for side, gains in enumerate(halo(part.null, (neighbours[0], neighbours[1]), group)):
            for place, (vertex, gain) in enumerate(gains.items(), 1):
                n_edges = int(np.isin(neighbours[side][vertex], group[1 - side]).sum())
                found.append((row, side, place, int(vertex) + side * part.first_right, gain, n_edges))
    return found


def _matrix(part: OneGraph) -> sparse.csr_matrix:
    assert part.job.edges is not None
    edges, shape = part.job.edges, (part.degrees[0].size, part.degrees[1].size)
    return sparse.csr_matrix((np.ones(edges.left_ids.size, np.int64), (edges.left_ids, edges.right_ids)), shape=shape)

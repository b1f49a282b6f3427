"""Check the tables of groups against the published bicliques and vertex degrees, which were checked before.

`mbe_stage.groups.reference` and `reference_selection` define candidates, scores and the list. Groups grown from
bicliques may lack edges; they are checked without growing them again.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow.parquet as pq
from scipy import sparse

from mbe_stage.groups.reference import SIGNIFICANT, UNIT, Bicliques, Null
from mbe_stage.groups.reference_selection import NearCopies, NullOfEdges, overlap_fraction, ranked, without_near_copies
from mbe_stage.pipeline.edges import EdgeData
from mbe_stage.pipeline.errors import VerificationError
from mbe_stage.pipeline.verify.group_graphs import Graphs, OneGraph, Scored, has_two_graphs, read_facts, read_graphs
from mbe_stage.pipeline.verify.group_known import Known, check_association, check_known, check_known_figures
from mbe_stage.pipeline.verify.group_tables import (
    Groups,
    Narrowed,
    Within,
    check_members,
    check_scores,
    compare,
    is_earlier,
    refuse_first,
    within,
    without_nulls,
)
from mbe_stage.pipeline.verify.group_times import check_times
from mbe_stage.pipeline.verify.job import Job

_BEST = b"best_surprise"
_OF_LATER = ("half_later_bicliques", "half_later_truncated")
# Tolerance, in units, of a sum of four logarithms, which another machine may round differently.
_UNSURE = 4
# Tolerance, in units, of a sum of logarithms, which another machine may round differently.
_UNSURE_SUMS = 8


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
    known = check_known(of_known, by_item)
    found = [part.scored() for part in parts]
    if job.manifest.config.section("groups").kind == "grown_cover":
        edges, how = _check_grown(graphs, found, known), ", grown from bicliques of this run"
    else:
        n_candidates = _check_list(graphs, found, known)
        edges = [part.every_edge() for part in parts]
        how = f" of {n_candidates:,} candidates" if all(each.is_whole for each in found) else ""
    which = "of buckets shifted by half" if graphs.items is None else "of keys that narrow the items"
    n_others = len(groups) - parts[0].rows.size
    of_later = f", {n_others:,} of them {which}" if len(parts) > 1 else ""
    job.passed("groups", f"{len(groups):,}{how}{of_later}")
    check_times(graphs.job, groups)
    check_known_figures(of_known, by_item, known)
    for part, of_groups in zip(parts, edges, strict=True):
        assert part.job.keys is not None
        _check_figures(part.groups, of_groups, part.null)
        _check_levels(part.groups, part.null)
        check_members(part.groups, of_groups, part.job.keys, part.degrees)
    job.passed("group members", f"{groups.vertices.size:,} rows")
    n_vertices = check_scores(
        job,
        graphs.of_first(),
        graphs.share_numerators(found),
        by_edge := graphs.by_edge(found),
        all(each.is_whole for each in found),
        graphs.shares_explained(edges),
        parts[0].degrees,
        eigenvector := None if is_earlier(job) else graphs.eigenvector(),
    )
    job.passed("vertex scores", n_vertices)
    if not is_earlier(job):
        job.not_checked("vertex scores: grown_surprise of groups that are not listed: growing is not repeated")
        if eigenvector is None:
            job.not_checked("vertex scores: tfidf_eigenvector: the input is not given")
    check_association(job, by_item, known, graphs.n_right)
    _check_counts(job, groups, found, by_edge.n_left_out, known)


def _check_grown(graphs: Graphs, found: list[Scored], known: Known) -> list[Within]:
    """Check grown groups; return the edges of each graph's groups."""
    groups = graphs.groups
    of_all = read_edges(graphs.job, groups, graphs.narrowed)
    edges = [part.edges_of(of_all) for part in graphs.parts]
    for part, of_part, of_groups in zip(graphs.parts, found, edges, strict=True):
        check_grown(part, of_part, of_groups, known.n_listed(groups), has_gains=len(graphs.parts) == 1)
    if len(graphs.parts) > 1:
        surprise, lefts = groups.table["surprise"].to_numpy(), groups.members_of(0)
        compare(groups.path, "rank", groups.column("rank"), list(range(1, len(groups) + 1)))
        best_first = np.argsort(-surprise, kind="stable").tolist()
        order = graphs.arranged(best_first, lefts, [right[0] for right in groups.members_of(1)])
        places = np.array([*order, *[-1] * (len(groups) - len(order))], np.int64)
        refuse_first(groups.path, places != np.arange(len(groups)), "has not the rank of its surprise and key")
        kept = without_near_copies(groups.members_of(0), Fraction(1, 2))
        is_copy = ~np.isin(np.arange(len(groups)), kept)
        refuse_first(groups.path, is_copy, "shares half or more of the left members with a better group")
    graphs.job.not_checked("groups: n_bicliques, and that no other group adds more: growing is not repeated")
    return edges


def _check_list(graphs: Graphs, found: list[Scored], known: Known) -> int:
    """Check the list of the candidates and their surprise; return the number of significant ones."""
    groups, section = graphs.groups, graphs.job.manifest.config.section("groups")
    rows = Bicliques.joined(
        [
            replace(of.candidates, members=(of.candidates.members[0], of.candidates.members[1] + part.first_right))
            for of, part in zip(found, graphs.parts, strict=True)
        ]
    )
    surprise, evidence = (np.concatenate([getattr(of, name) for of in found]) for name in ("surprise", "evidence"))
    high = np.flatnonzero(surprise > SIGNIFICANT)
    rows, surprise, evidence = rows.take(high), surprise[high], evidence[high]
    values, parts = {
        "surprise": (surprise, None),
        "surprise_per_vertex": (surprise, (rows.sizes(0) + rows.sizes(1)).tolist()),
        "surprise_per_edge": (surprise, (rows.sizes(0) * rows.sizes(1)).tolist()),
        "evidence": (evidence, None),
    }[section.rank_by]
    order = ranked(rows.keys.tolist(), values.tolist(), parts)
    every, order = order, graphs.arranged(order, rows.side(0), [right[0] for right in rows.side(1)])
    copies, listed, n_bicliques, n_unmuted = (
        NearCopies(overlap_fraction(section.max_overlap)),
        list[int](),
        list[int](),
        0,
    )
    left, right = rows.side(0), rows.side(1)
    for row in order:
        if (near := copies.first(left[row])) is not None:
            n_bicliques[near] += 1
        elif n_unmuted < section.limit:
            copies.keep(left[row])
            listed.append(row)
            n_bicliques.append(1)
            items = right[row] if graphs.items is None else graphs.items[right[row]]
            n_unmuted += not known.is_muted((left[row], items))
    for row in set(every).difference(order):
        if (near := copies.first(left[row])) is not None:
            n_bicliques[near] += 1
    _check_keys(groups, rows.keys, listed, section.limit)
    n = len(groups)
    compare(groups.path, "rank", groups.column("rank"), list(range(1, n + 1)))
    compare(groups.path, "kind", groups.column("kind"), ["short_list"] * n)
    compare(groups.path, "seed_biclique_key", groups.column("seed_biclique_key"), groups.column("group_key"))
    if n_gains := n - groups.table["residual_gain"].null_count:
        raise VerificationError(f"{groups.path}: residual_gain of {n_gains} groups of a short list; expected null")
    for name, units in (("surprise", surprise[listed]), ("evidence", evidence[listed])):
        _check_units(groups, name, units, _UNSURE + _unsure_of_fitted(graphs, groups))
    if all(of.is_whole for of in found):
        compare(groups.path, "n_bicliques", groups.column("n_bicliques"), n_bicliques)
    return high.size


def _check_keys(groups: Groups, keys: np.ndarray, listed: list[int], limit: int) -> None:
    """Check that the groups are those of the list, in its order."""
    stated, expected = groups.column("group_key"), keys[listed].tolist()
    for row, (key, wanted) in enumerate(zip(stated, expected, strict=False)):
        if key == wanted:
            continue
        if key not in keys:
            raise groups.refuse(
                row, f"{key} is not a candidate: among the best of a vertex or of all, with significant surprise"
            )
        raise groups.refuse(row, f"group_key is {key}; recomputed {wanted}, which has this rank by the run's query")
    if len(stated) > len(expected):
        raise groups.refuse(
            len(expected), f"one group too many: it exceeds groups.limit ({limit}), or a better one overlaps it"
        )
    if len(stated) < len(expected):
        key = expected[len(stated)]
        raise VerificationError(f"{groups.path}: the biclique {key} is missing: it overlaps no better group")


def _check_units(groups: Groups, name: str, units: np.ndarray, unsure: int | np.ndarray) -> None:
    stated = groups.table[name].to_numpy()
    # NaN counts as different too.
    is_near = np.abs(stated - units / UNIT) * UNIT <= unsure
    refuse_first(groups.path, ~is_near, lambda row: f"{name} is {stated[row]}; recomputed {units[row] / UNIT}")


def _unsure_of_fitted(graphs: Graphs, groups: Groups) -> np.ndarray | int:
    """Tolerance where effective degrees were computed: a unit for each edge and end."""
    is_fitted = any(part.null.is_fitted for part in graphs.parts)
    return 2 * groups.table["n_left"].to_numpy() * groups.table["n_right"].to_numpy() * is_fitted


def _check_levels(groups: Groups, null: Null) -> None:
    """Check the columns that follow from surprise and evidence."""
    surprise, evidence = (groups.table[name].to_numpy() for name in ("surprise", "evidence"))
    compare(groups.path, "significant", groups.column("significant"), np.rint(surprise * UNIT) > SIGNIFICANT)
    p_bound = groups.table["p_bound"].to_numpy()
    wrong = ~np.isclose(p_bound, np.exp(-surprise), rtol=1e-9, atol=0)
    refuse_first(groups.path, wrong, lambda row: f"p_bound is {p_bound[row]}; recomputed {np.exp(-surprise[row])}")
    levels = []
    for row, kind in enumerate(groups.column("kind")):
        names = null.class_cost if kind == "grown_cover" else 0
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
    share, window = (groups.table[name][row].as_py() for name in ("busiest_share", "busiest_window"))
    return "" if share is None or share < 0.5 else f"; {_hundredths(100 * share)} within {_IN_WORDS[window]}"


def _hundredths(percent: float) -> str:
    if 99.9 < percent < 100:
        return "over 99.9 %"
    n_digits = 0 if percent == 100 or 10 <= percent < 99.5 else 1
    return "under 0.1 %" if percent < 0.1 else f"{percent:.{n_digits}f} %"


def _check_counts(job: Job, groups: Groups, found: list[Scored], n_not_scored: int, known: Known) -> None:
    """Check the counts of the manifest; if nothing else gives a count, only that it is present and not too small.

    Parameters
    ----------
    found : list of Scored
        One per graph.
    n_not_scored : int
        Candidates not scored because the steps ran out.
    """
    stated: Mapping[str, int] = job.manifest.derived["groups"]
    best, stated_best = max(each.best for each in found) / UNIT, (pq.read_schema(groups.path).metadata or {}).get(_BEST)
    # Earlier versions do not store it.
    if stated_best is not None and all(each.is_whole for each in found) and abs(float(stated_best) - best) > 1e-6:
        raise VerificationError(f"{groups.path}: best_surprise is {stated_best.decode():.80}; recomputed {best}")
    n_seeds = sum(of_graph.seed_keys.size for of_graph in found)
    counts = {
        "groups": len(groups),
        "left_members": int(np.unique(groups.side(0)[1]).size),
        "right_members": int(np.unique(groups.side(1)[1]).size),
        "significant_candidates": sum(int((of_graph.surprise > SIGNIFICANT).sum()) for of_graph in found),
        "candidates_not_scored": n_not_scored,
        # Growing is not repeated: the seeds are an upper bound.
        "seeds_not_grown": max(0, min(stated.get("seeds_not_grown", -1), n_seeds)),
        **known.counts(groups),
    }
    if not all(of_graph.is_whole for of_graph in found):
        # Only the groups are known of the candidates.
        counts["significant_candidates"] = max(len(groups), stated.get("significant_candidates", 0))
        for name in ("candidates_not_scored", "seeds_not_grown"):
            counts[name] = max(0, stated.get(name, -1))
    if has_two_graphs(job):
        # The first was compared with the enumerated bicliques, if these are available.
        counts |= {name: max(0, stated.get(name, -1)) for name in _OF_LATER}
    counts |= _check_chance(job, groups)
    if (facts := read_facts(job)) is not None and facts.num_rows:
        rows = facts.to_pylist()
        further: dict[str, int] = {
            "keys": 1 + len({row["key"] for row in rows}),
            "keys_not_searched": len({row["key"] for row in rows if row["status"] != "searched"}),
            "key_bicliques": sum(row["n_bicliques"] or 0 for row in rows),
        }
        counts |= further
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


def read_edges(job: Job, groups: Groups, narrowed: Narrowed | None = None) -> Within:
    """Read `group_edges`; check the order, that ends are members and, with the input, that the edges are the graph's.

    Raises
    ------
    VerificationError
        An edge is wrong.
    """
    path = job.run / "group_edges.parquet"
    table = without_nulls(path, but=("key_value",))
    keys, left, right = (table[name].to_numpy().astype(np.int64) for name in ("group_key", "left", "right"))
    position = {key: row for row, key in enumerate(groups.column("group_key"))}
    of_row = np.array([position.get(key, -1) for key in keys.tolist()], np.int64)
    refuse_first(path, of_row < 0, "its group_key is not in groups")
    if narrowed is not None:
        right = narrowed(path, of_row, right, table["key_value"].to_pylist())
    for side, vertices in enumerate((left, right)):
        places = (2 * of_row + side) << 32 | vertices
        at = np.minimum(np.searchsorted(groups.places, places), groups.places.size - 1)
        refuse_first(path, groups.places[at] != places, f"the {('left', 'right')[side]} vertex is not a member")
    steps = np.diff(of_row << 32 | left)
    ascends = (steps > 0) | ((steps == 0) & (np.diff(right) > 0))
    refuse_first(path, np.concatenate([[False], ~ascends]), "out of order; expected rows by rank, left and right")
    n_right = job.manifest.input.n_right if job.edges is None else len(job.edges.right_keys)
    found = within(groups, (job.manifest.input.n_left, n_right), of_row, left, right)
    if job.edges is None:
        job.not_checked("edges of groups: the input is not given")
    else:
        _check_against_input(job.edges, groups, found)
    return found


def _check_against_input(edges: EdgeData, groups: Groups, found: Within) -> None:
    n_right = len(edges.right_keys)
    codes = edges.left_ids.astype(np.int64) * n_right + edges.right_ids
    stated = found.left * n_right + found.right
    at = np.minimum(np.searchsorted(codes, stated), codes.size - 1)
    path = groups.path.with_name("group_edges.parquet")
    refuse_first(path, codes[at] != stated, "is not an edge of the input")
    graph = sparse.csr_matrix(
        (np.ones(codes.size, np.int64), (edges.left_ids, edges.right_ids)), shape=(len(edges.left_keys), n_right)
    )
    (left_offsets, left), (right_offsets, right) = groups.side(0), groups.side(1)
    for row in range(len(groups)):
        is_member = np.zeros(n_right, np.int64)
        is_member[right[right_offsets[row] : right_offsets[row + 1]]] = 1
        n_edges = int((graph[left[left_offsets[row] : left_offsets[row + 1]]] @ is_member).sum())
        if n_edges != found.n_edges[row]:
            raise groups.refuse(row, f"has {found.n_edges[row]} edges in {path}, but {n_edges} in the input")


def check_grown(part: OneGraph, bicliques: Scored, found: Within, n_listed: int, *, has_gains: bool) -> None:
    """Check ranks, sizes, seeds, surprise and gain of each group.

    Parameters
    ----------
    found : Within
        The edges of its groups, as returned by `read_edges`.
    n_listed : int
        The maximum number of groups.
    has_gains : bool
        True if the graph is the only one; groups of two graphs have no gain.

    Raises
    ------
    VerificationError
        The first error found.
    """
    groups = part.groups
    config, n = part.job.manifest.config, len(groups)
    limit = config.section("groups").limit
    if n > n_listed:
        raise groups.refuse(n_listed, f"one group too many; groups.limit is {limit}")
    compare(groups.path, "rank", groups.column("rank"), np.arange(1, n + 1))
    compare(groups.path, "kind", groups.column("kind"), ["grown_cover"] * n)
    for name, least in (("n_left", config.query.min_left), ("n_right", config.query.min_right)):
        sizes = groups.table[name].to_numpy()
        refuse_first(groups.path, sizes < least, f"{name} is below {least}, the query's minimum")
    if bicliques.is_whole:
        _check_seeds(groups, bicliques)
    surprise, evidence, gains = _scores(part, found)
    checked = {"surprise": surprise, "evidence": evidence}
    if has_gains:
        checked["residual_gain"] = gains
    elif groups.table["residual_gain"].null_count < n:
        raise VerificationError(f"{groups.path}: residual_gain of groups of two graphs; expected null")
    for name, units in checked.items():
        # Shares of known edges are rounded once and summed often.
        _check_units(groups, name, np.array(units), _UNSURE_SUMS + 2 * found.n_edges)
        floor = SIGNIFICANT / UNIT if name == "surprise" else 0.0
        refuse_first(groups.path, ~(groups.table[name].to_numpy() > floor), f"{name} is not above {floor:.3g}")
    refuse_first(groups.path, groups.table["n_bicliques"].to_numpy() < 1, "n_bicliques is below 1")


def _check_seeds(groups: Groups, bicliques: Scored) -> None:
    seeds = np.array(groups.column("seed_biclique_key"), np.int64)
    is_there = np.isin(seeds, bicliques.seed_keys)
    refuse_first(
        groups.path,
        ~is_there,
        "seed_biclique_key is neither the best biclique of a vertex nor among the 2,000 best of all",
    )


def _scores(part: OneGraph, found: Within) -> tuple[list[int], list[int], list[int]]:
    """Return surprise, evidence and gain of each group, in units."""
    null = NullOfEdges(found.left, found.right, part.null)
    explained: set[tuple[int, int]] = set()
    surprise, evidence, gains = list[int](), list[int](), list[int]()
    for row, group in enumerate(zip(part.groups.members_of(0), part.groups.members_of(1), strict=True)):
        if not null.has_more_than_expected(group):
            raise part.groups.refuse(row, "has no more edges than are expected")
        surprise.append(null.score(group))
        evidence.append(surprise[-1] + null.cost(group))
        gains.append(null.gain(group, explained))
        explained |= null.present(group)
    return surprise, evidence, gains

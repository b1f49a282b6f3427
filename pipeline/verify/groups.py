"""The tables of groups, recomputed from the published bicliques, the degrees of the vertices and the tables' own words.

A check of `pipeline.problems.base.DerivedPublication`. The bicliques and the degrees were held against the input
before;
here the groups are: that each is a candidate, as surprising as it says, in its place, and that no better one is
missing (`surprise` defines the words); and everything that is said of their members and of all vertices
(`group_tables`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from mbe_stage.pipeline.errors import VerificationError
from mbe_stage.pipeline.verify.edge_scores import edge_scores
from mbe_stage.pipeline.verify.group_known import Known, check_association, check_known, check_known_figures
from mbe_stage.pipeline.verify.group_tables import (
    Groups,
    Within,
    check_members,
    check_scores,
    compare,
    every_edge,
    read_degrees,
    read_groups,
    refuse_first,
)
from mbe_stage.pipeline.verify.group_times import check_times
from mbe_stage.pipeline.verify.groups_alone import score_groups
from mbe_stage.pipeline.verify.groups_of_two_graphs import (
    bicliques_of,
    in_the_run,
    only_of_first,
    read_two_graphs,
    shares_explained,
    together,
)
from mbe_stage.pipeline.verify.grown_groups import check_grown, read_edges
from mbe_stage.pipeline.verify.job import Job
from mbe_stage.pipeline.verify.surprise import UNIT, Found, Null, Wanted, score_bicliques

__all__ = ["check"]

_NOT_GROWN = "groups: n_bicliques, and that no other group adds more; the bicliques are not grown again"
_BEST = b"best_surprise"
_OF_LATER = ("half_later_bicliques", "half_later_truncated")
# Units by which a sum of four rounded logarithms may differ where another machine rounds one of them otherwise.
_UNSURE = 4


def check(job: Job) -> None:
    """Hold the tables of groups against the published bicliques and vertices.

    Raises
    ------
    VerificationError
        The first thing that is not as it should be.
    """
    assert job.keys is not None
    if in_the_run(job):
        _check_two_graphs(job)
        return
    degrees = read_degrees(job.run, "left"), read_degrees(job.run, "right")
    groups = read_groups(job, degrees)
    asked = job.manifest.config.section("groups")
    known = check_known(job, groups)
    null = Null(degrees, job.manifest.input.n_edges)
    # Groups of a cover may overlap.
    wanted = Wanted.none() if asked.kind == "grown_cover" else Wanted(*groups.side(0), asked.max_overlap)
    if job.results is None:
        found = score_groups(job, groups, null, wanted)
    else:
        found = score_bicliques(bicliques_of(job, groups), null, wanted)
    if asked.kind == "grown_cover":
        edges = read_edges(job, groups)
        check_grown(job, groups, found, edges, degrees, known.n_listed(groups))
        job.passed("groups", f"{len(groups):,}, grown from bicliques of this run")
        job.not_checked(_NOT_GROWN)
    else:
        edges = every_edge(groups, (degrees[0].size, degrees[1].size))
        _check_chosen(groups, found, known.n_listed(groups), asked.limit, _Order(found, asked.rank_by))
        of_all = f" of {int(found.is_candidate.sum()):,} candidates" if found.is_whole else ""
        job.passed("groups", f"{len(groups):,}{of_all}")
    compare(groups.path, "significant", groups.column("significant"), groups.table["surprise"].to_numpy() > 0)
    is_told = groups.table["half_later"].is_valid().to_numpy()
    refuse_first(groups.path, is_told, "half_later is there without buckets of time")
    check_times(job, groups)
    check_known_figures(job, groups, known)
    _check_figures(groups, edges, degrees, job.manifest.input.n_edges)
    check_members(groups, edges, job.keys, degrees)
    job.passed("group members", f"{groups.vertices.size:,} rows")
    by_edge = edge_scores(bicliques_of(job, groups), null, found, degrees)
    job.passed("vertex scores", check_scores(job, groups, found, by_edge, edges.explained, degrees))
    check_association(job, groups, known)
    _check_counts(job, groups, [found], by_edge.n_left_out, known)


def _check_two_graphs(job: Job) -> None:
    """The same of a run with buckets of time, whose groups are of two graphs."""
    graphs = read_two_graphs(job)
    if graphs is None:
        return
    asked, groups = job.manifest.config.section("groups"), graphs.groups
    known, is_grown = check_known(graphs.job, groups), asked.kind == "grown_cover"
    of_parts = graphs.scored(Wanted.none() if is_grown else Wanted(*groups.side(0), asked.max_overlap))
    found = together(*of_parts)
    if is_grown:
        of_all = read_edges(graphs.job, groups)
        starts = 0, graphs.n_right
        edges = [part.edges_of(of_all, start) for part, start in zip(graphs.parts, starts, strict=True)]
        for part, of_part, within in zip(graphs.parts, of_parts, edges, strict=True):
            n_listed = known.n_listed(groups)
            check_grown(part.job, part.groups, of_part, within, part.degrees, n_listed, n_edges=part.n_edges)
        _check_ranks_of_grown(groups)
        job.not_checked(_NOT_GROWN)
    else:
        edges = [part.every_edge() for part in graphs.parts]
        _check_chosen(groups, found, known.n_listed(groups), asked.limit, _Order(found, asked.rank_by))
    job.passed("groups", f"{len(groups):,}, {graphs.parts[1].rows.size:,} of them of buckets that begin half later")
    compare(groups.path, "significant", groups.column("significant"), groups.table["surprise"].to_numpy() > 0)
    check_times(graphs.job, groups)
    check_known_figures(graphs.job, groups, known)
    for part, within in zip(graphs.parts, edges, strict=True):
        assert part.job.keys is not None
        _check_figures(part.groups, within, part.degrees, part.n_edges)
        check_members(part.groups, within, part.job.keys, part.degrees)
    job.passed("group members", f"{groups.vertices.size:,} rows")
    explained = shares_explained(graphs, (edges[0], edges[1]))
    of_first = only_of_first(groups, graphs.n_right)
    by_size, by_edge = graphs.scores_of_vertices(*of_parts)
    job.passed("vertex scores", check_scores(job, of_first, by_size, by_edge, explained, graphs.parts[0].degrees))
    check_association(job, groups, known, graphs.n_right)
    _check_counts(job, groups, of_parts, by_edge.n_left_out, known)


def _check_ranks_of_grown(groups: Groups) -> None:
    """Those of two graphs: by surprise, none a near copy of a better one."""
    surprise = groups.table["surprise"].to_numpy()
    compare(groups.path, "rank", groups.column("rank"), list(range(1, len(groups) + 1)))
    refuse_first(groups.path, np.concatenate([[False], np.diff(surprise) > 0]), "ranks behind a group of less surprise")
    wanted = [set(left.tolist()) for left in np.split(groups.side(0)[1], groups.side(0)[0][1:-1])]
    for row, left in enumerate(wanted):
        if any(2 * len(left & better) >= len(left | better) for better in wanted[:row]):
            raise groups.refuse(row, "overlaps a better group by half or more of their left members")


def _check_chosen(groups: Groups, found: Found, n_listed: int, limit: int, order: _Order) -> None:
    """Each group is a candidate, as surprising as it says, and in its place; and no candidate is missing.

    Parameters
    ----------
    n_listed : int
        How many groups may be there at most: as many as were asked for, and the muted ones between them.
    """
    n = len(groups)
    if n > n_listed:
        raise groups.refuse(n_listed, f"one group too many; groups.limit is {limit}")
    compare(groups.path, "rank", groups.column("rank"), list(range(1, n + 1)))
    compare(groups.path, "kind", groups.column("kind"), ["short_list"] * n)
    n_gains = n - groups.table["residual_gain"].null_count
    if n_gains:
        raise VerificationError(f"{groups.path}: residual_gain of {n_gains} groups of a short list; expected null")
    rows = _rows_of(groups, found)
    stated = groups.table["surprise"].to_numpy()
    refuse_first(
        groups.path,
        # What is no number is not near either.
        ~(np.abs(stated - found.surprise[rows] / UNIT) * UNIT <= _UNSURE),
        lambda row: f"surprise is {stated[row]}; recomputed {found.surprise[rows[row]] / UNIT}",
    )
    evidence = groups.table["evidence"].to_numpy()
    refuse_first(
        groups.path,
        ~(np.abs(evidence - found.evidence[rows] / UNIT) * UNIT <= _UNSURE),
        lambda row: f"evidence is {evidence[row]}; recomputed {found.evidence[rows[row]] / UNIT}",
    )
    for row in range(1, n):
        if not order.is_before(rows[row - 1], rows[row]):
            raise groups.refuse(row, f"ranks behind a group that is worse by {order.name}")
    overlapped = np.flatnonzero(found.first_overlap[rows] != np.arange(n))
    if overlapped.size:
        row = int(overlapped[0])
        better = int(found.first_overlap[rows[row]]) + 1
        raise groups.refuse(row, f"overlaps the group of rank {better} by groups.max_overlap or more")
    others = found.is_candidate.copy()
    others[rows] = False
    _check_none_missing(groups, found, rows, np.flatnonzero(others), order, is_full=n == n_listed)
    near = found.first_overlap[others]
    copies = 1 + np.bincount(near[near < n], minlength=n)
    if found.is_whole:
        compare(groups.path, "n_bicliques", groups.column("n_bicliques"), copies.tolist())


def _rows_of(groups: Groups, found: Found) -> np.ndarray:
    """Which of the positive bicliques each group is."""
    keys, order = np.array(groups.column("group_key"), np.int64), np.argsort(found.keys)
    places = np.searchsorted(found.keys, keys, sorter=order)
    # Behind the last one stands one that is no group's.
    rows = np.append(order, -1)[places]
    is_there = np.append(found.keys, 0)[rows] == keys
    refuse_first(groups.path, ~is_there | (rows < 0), "is no biclique of this run whose surprise is positive")
    refuse_first(
        groups.path, ~found.is_candidate[rows], "is neither the best biclique of a vertex nor among the best of all"
    )
    compare(groups.path, "seed_biclique_key", groups.column("seed_biclique_key"), keys)
    return rows


class _Order:
    """How bicliques rank, exactly."""

    def __init__(self, found: Found, name: str) -> None:
        self.name, self._keys = name, found.keys
        ones = np.ones_like(found.keys)
        self._values, self._divisors = {
            "surprise": (found.surprise, ones),
            "surprise_per_vertex": (found.surprise, found.n_left + found.n_right),
            "surprise_per_edge": (found.surprise, found.n_left * found.n_right),
            "evidence": (found.evidence, ones),
        }[name]
        self.strength = self._values / self._divisors

    def is_before(self, one: int, other: int) -> bool:
        """Whether the one ranks before the other."""
        return self._place(one) < self._place(other)

    def _place(self, row: int) -> tuple[Fraction, int]:
        return -Fraction(int(self._values[row]), int(self._divisors[row])), int(self._keys[row])


def _check_none_missing(
    groups: Groups, found: Found, rows: np.ndarray, others: np.ndarray, order: _Order, is_full: bool
) -> None:
    """A candidate that is no group overlaps one that is better, or comes behind the last of as many as were asked for.

    Parameters
    ----------
    rows : (n,) int64
        The groups among the bicliques.
    others : int64
        The candidates that are no groups.
    is_full : bool
        Whether there are as many groups as there may be.
    """
    last = rows[-1:] if is_full else rows[:0]
    # Behind the groups stands the one that nobody may be better than, where the list is full.
    bar = np.concatenate([rows, last]) if last.size else np.append(rows, -1)
    against = bar[found.first_overlap[others]]
    # Nearly all are worse by far; the others are compared exactly.
    is_worse = (against >= 0) & (order.strength[others] < (1 - 1e-9) * order.strength[against])
    for other, better in zip(others[~is_worse].tolist(), against[~is_worse].tolist(), strict=True):
        if better < 0 or not order.is_before(better, other):
            raise VerificationError(
                f"{groups.path}: the biclique {found.keys[other]} of surprise {found.surprise[other] / UNIT} is "
                "missing: it overlaps no better group"
            )


def _check_figures(groups: Groups, edges: Within, degrees: tuple[np.ndarray, np.ndarray], n_edges: int) -> None:
    """What is said of each group beside its rank."""
    expected: dict[str, list[Any]] = {name: [] for name in _FIGURES}
    (left_offsets, left), (right_offsets, right) = groups.side(0), groups.side(1)
    for row in range(len(groups)):
        of_left = degrees[0][left[left_offsets[row] : left_offsets[row + 1]]]
        of_right = degrees[1][right[right_offsets[row] : right_offsets[row + 1]]]
        n_within = int(edges.n_edges[row])
        by_chance = float(Fraction(int(of_left.sum()) * int(of_right.sum()), n_edges))
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


def _check_counts(job: Job, groups: Groups, found: Sequence[Found], n_not_scored: int, known: Known) -> None:
    """The counts of the manifest; of what nothing else tells only that they are there and not too small.

    Parameters
    ----------
    found : sequence of Found
        Of each graph.
    n_not_scored : int
        Candidates that there were no steps for.
    """
    stated: Mapping[str, int] = job.manifest.derived["groups"]
    best, told = max(each.best for each in found) / UNIT, (pq.read_schema(groups.path).metadata or {}).get(_BEST)
    # Earlier versions do not say it.
    if told is not None and all(each.is_whole for each in found) and abs(float(told) - best) * UNIT > _UNSURE:
        raise VerificationError(f"{groups.path}: best_surprise is {told.decode():.80}; recomputed {best}")
    n_seeds = sum(of_graph.seed_keys.size for of_graph in found)
    is_grown = job.manifest.config.section("groups").kind == "grown_cover"
    counts = {
        "groups": len(groups),
        "left_members": int(np.unique(groups.side(0)[1]).size),
        "right_members": int(np.unique(groups.side(1)[1]).size),
        "significant_candidates": sum(int(of_graph.is_candidate.sum()) for of_graph in found),
        "candidates_not_scored": n_not_scored,
        # Nothing is grown here: none of a short list, and else as many as there are seeds, at most.
        "seeds_not_grown": max(0, min(stated.get("seeds_not_grown", -1), n_seeds * is_grown)),
        **known.counts(groups),
    }
    if not all(of_graph.is_whole for of_graph in found):
        # Of the candidates only the groups are known.
        counts["significant_candidates"] = max(len(groups), stated.get("significant_candidates", 0))
        for name in ("candidates_not_scored", "seeds_not_grown"):
            counts[name] = max(0, stated.get(name, -1))
    if in_the_run(job):
        # The first was held against what was found, where that is to be had.
        counts |= {name: max(0, stated.get(name, -1)) for name in _OF_LATER}
    if dict(stated) != counts:
        raise VerificationError(f"{job.run / 'manifest.json'}: derived.groups is {dict(stated)}; recomputed {counts}")

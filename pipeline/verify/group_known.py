"""Checks of known keys, muted groups and known cases, and of the figures that depend on them.

Written from the definitions in docs/reference/groups.md, one group after the other.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from mbe_stage.pipeline.errors import VerificationError
from mbe_stage.pipeline.verify.group_tables import Groups, compare, compare_nullable, refuse_first
from mbe_stage.pipeline.verify.group_verdicts import check_verdicts
from mbe_stage.pipeline.verify.job import Job
from mbe_stage.pipeline.verify.recipe import vertex_hashes

_SIDES = ("left", "right")
_LISTS = ("labels", "allow")
_SINCE = ("new", "grown", "shrunk", "changed", "same")
# Tolerance of a p-value: it sums many rounded logarithms of factorials.
_NEAR = 1e-5


@dataclass(frozen=True, slots=True, eq=False)
class Known:
    """The lists of a run, by vertices.

    Attributes
    ----------
    classes : pair of dict, or None
        Class of each vertex with a label, by side; None without labels.
    positive : pair of set of int
        The known cases.
    positive_classes : set of str
        Classes of the known cases.
    counted : pair of set of int, or None
        Counted vertices; None for all of the side.
    sizes : (int, int)
        Numbers of left and right vertices.
    """

    classes: tuple[dict[int, str], dict[int, str]] | None
    positive: tuple[set[int], set[int]]
    counted: tuple[set[int] | None, set[int] | None]
    sizes: tuple[int, int]
    allowed: tuple[set[int], set[int]] | None
    positive_classes: frozenset[str] = frozenset()

    def is_muted(self, sides: Sequence[Iterable[int]]) -> bool:
        """Return whether a side of a group with these members is known good."""
        if self.allowed is None:
            return False
        return any(known.issuperset(members) for members, known in zip(sides, self.allowed, strict=True))

    def n_counted(self, side: int) -> int:
        """Number of counted vertices of a side."""
        of_side = self.counted[side]
        return self.sizes[side] if of_side is None else len(of_side)

    def counts(self, groups: Groups, *, has_verdicts: bool) -> dict[str, int]:
        """Return the manifest's counts of cases and muted groups."""
        may_mute = self.allowed is not None or has_verdicts
        muted = {} if not may_mute else {"muted": int(pc.sum(groups.table["is_muted"]).as_py() or 0)}
        return {"cases": len(set(groups.column("case"))), **muted}


def check_known_figures(job: Job, groups: Groups, known: Known) -> None:
    """Check verdicts, muted groups, labels of members, known cases, cases, and the comparison with the earlier run.

    Raises
    ------
    VerificationError
        The first wrong value.
    """
    of_groups = _members(groups)
    allowed = [known.is_muted(each) for each in of_groups]
    check_verdicts(job, groups, set(known.positive_classes), allowed)
    _check_cases(job, groups, [left for left, _ in of_groups], allowed)
    _check_since(job, groups, [left for left, _ in of_groups])
    _check_labels(groups, known)
    figures = [_figures(each, known) for each in of_groups]
    for place, name in enumerate(("n_known", "known_share", "known_p_value")):
        unsure = _NEAR if name == "known_p_value" else 1e-12
        compare_nullable(groups.path, name, groups.column(name), [each[place] for each in figures], unsure=unsure)
    job.passed("cases", f"{len(set(groups.column('case'))):,} of {len(groups):,} groups")


def check_association(job: Job, groups: Groups, known: Known, n_right: int) -> None:
    """Check the association columns of `vertex_scores`; the first `n_right` right rows belong to the run's graph.

    Raises
    ------
    VerificationError
        The first wrong value.
    """
    path = job.run / "vertex_scores.parquet"
    column = pq.read_table(path, columns=["association"])["association"]
    is_null = pc.is_null(column).to_numpy(zero_copy_only=False)
    stated = pc.fill_null(column, -1.0).to_numpy()
    n_counted = sum(known.n_counted(side) for side in (0, 1))
    if known.classes is None or n_counted == 0:
        refuse_first(path, ~is_null, "association is set without labels")
        return
    base = sum(map(len, known.positive)) / n_counted
    best = [np.full(size, -1.0) for size in known.sizes]
    for members in _members(groups):
        if known.is_muted(members):
            continue
        n_known, n_others = _totals(members, known)
        for side, of_side in enumerate(members):
            counted = known.counted[side]
            for vertex in of_side:
                own = counted is None or vertex in counted
                value = (n_known + base) / (n_others - own + 1)
                best[side][vertex] = max(best[side][vertex], value)
    has_label = [np.zeros(size, np.bool_) for size in known.sizes]
    for side in (0, 1):
        has_label[side][list(known.classes[side])] = True
    n_stated = known.sizes[0] + n_right
    expected, unsaid = np.concatenate(best)[:n_stated], np.concatenate(has_label)[:n_stated]
    expected = np.where(expected < 0, base, expected)
    refuse_first(path, is_null != unsaid, "association must be null exactly for vertices with a label")
    refuse_first(
        path,
        ~unsaid & ~np.isclose(stated, expected, rtol=1e-12, atol=0),
        lambda row: f"association is {stated[row]}; recomputed {expected[row]}",
    )


def _members(groups: Groups) -> list[tuple[list[int], list[int]]]:
    """Return the left and the right members of each group."""
    return list(zip(groups.members_of(0), groups.members_of(1), strict=True))


def read_known(job: Job) -> Known:
    """Read the lists of known keys, and check them.

    Raises
    ------
    VerificationError
        The first error found.
    """
    assert job.hashes is not None
    section = job.manifest.config.section("groups")
    given = [name for name in _LISTS if getattr(section, name) is not None]
    sizes = job.hashes[0].size, job.hashes[1].size
    if not given:
        return Known(None, (set(), set()), (set(), set()), sizes, None)
    path = job.run / "known_keys.parquet"
    table = pq.read_table(path)
    rows = list(zip(*(table[name].to_pylist() for name in ("list", "side", "key", "class")), strict=True))
    for row, (name, side, key, of_class) in enumerate(rows):
        if name not in given or side not in _SIDES or key is None or (of_class is None) != (name == "allow"):
            raise VerificationError(f"{path}, row {row}: {name}, {side}, {of_class}: not a row of a given list")
    places = [(_LISTS.index(name), side, key.encode()) for name, side, key, _ in rows]
    is_behind = [False, *(after <= before for before, after in pairwise(places))]
    refuse_first(path, np.array(is_behind[: len(rows)]), "out of order; expected rows by list, side and key, each once")
    vertices = _vertices(job, table)
    compare(path, "vertex", pc.fill_null(table["vertex"], -1).to_numpy(), vertices)
    _check_inputs(job, given, rows, vertices)
    taken = _check_classes(job, rows)
    by_vertex = (_by_vertex(rows, vertices, "labels", side) for side in _SIDES)
    labels = tuple({v: name for v, name in each.items() if taken[name] != "ignored"} for each in by_vertex)
    positive = tuple({v for v, name in each.items() if taken[name] == "positive"} for each in labels)
    counted = tuple(
        set(each) if not each or len(cases) < len(each) else None for each, cases in zip(labels, positive, strict=True)
    )
    allowed = tuple(set(_by_vertex(rows, vertices, "allow", side)) for side in _SIDES)
    return Known(
        classes=(labels[0], labels[1]) if "labels" in given else None,
        positive=(positive[0], positive[1]),
        counted=(counted[0], counted[1]),
        sizes=sizes,
        allowed=(allowed[0], allowed[1]) if "allow" in given else None,
        positive_classes=frozenset(name for name, how in taken.items() if how == "positive"),
    )


def _check_classes(job: Job, rows: list[tuple[Any, ...]]) -> dict[str, str]:
    """Check the meaning of each label class, from the configuration or from the class name."""
    section = job.manifest.config.section("groups")
    sure = {how: {section.word(name) for name in given} for how, given in section.names_classes.items()}
    if not any(sure.values()):
        sure = {"positive": section.POSITIVE_WORDS, "negative": section.NEGATIVE_WORDS}
    ignored = section.UNLABELLED_WORDS - sure["positive"] - sure["negative"]
    taken, counts = {}, Counter(of_class for name, _, _, of_class in rows if name == "labels")
    for name in counts:
        is_sure = [how for how, words in sure.items() if section.word(name) in words]
        others = [how for how, words in sure.items() if not words]
        taken[name] = "ignored" if section.word(name) in ignored else [*is_sure, *others, "ignored"][0]
    facts = job.manifest.derived_inputs.get("groups", {}).get("labels")
    stated = {} if facts is None else {each.name: (each.taken, each.keys) for each in facts.classes}
    if stated != (recomputed := {name: (how, counts[name]) for name, how in taken.items()}):
        raise VerificationError(
            f"{job.run / 'manifest.json'}: derived_inputs.groups.labels.classes is {stated}; recomputed {recomputed}"
        )
    return taken


def _vertices(job: Job, table: pa.Table) -> np.ndarray:
    """Return the vertex of each listed key by its hash, -1 if the graph has none."""
    assert job.hashes is not None
    found = np.full(table.num_rows, -1, np.int64)
    sides = np.array(table["side"].cast(pa.string()).to_pylist(), object)
    for side, name in enumerate(_SIDES):
        rows = np.flatnonzero(sides == name)
        hashes, order = job.hashes[side], np.argsort(job.hashes[side])
        wanted = vertex_hashes(table["key"].take(pa.array(rows)), name)
        places = order[np.minimum(np.searchsorted(hashes, wanted, sorter=order), hashes.size - 1)]
        found[rows] = np.where(hashes[places] == wanted, places, -1)
    return found


def _by_vertex(rows: list[tuple[Any, ...]], vertices: np.ndarray, name: str, side: str) -> dict[int, str]:
    listed = zip(rows, vertices.tolist(), strict=True)
    return {vertex: row[3] for row, vertex in listed if vertex >= 0 and row[0] == name and row[1] == side}


def _check_inputs(job: Job, given: list[str], rows: list[tuple[Any, ...]], vertices: np.ndarray) -> None:
    """Check the manifest's facts on the lists; of keys that are not in the graph, check only that they are listed."""
    section, stated = job.manifest.config.section("groups"), job.manifest.derived_inputs.get("groups", {})
    place = job.run / "manifest.json"
    for name in given:
        if name not in stated:
            raise VerificationError(f"{place}: derived_inputs.groups lacks {name}, which the config names")
        of_list = [(row, vertex) for row, vertex in zip(rows, vertices.tolist(), strict=True) if row[0] == name]
        lines = (json.dumps(list(row[1:])) + "\n" for row, _ in of_list)
        absent = [f"{row[1]} {row[2][:200]!r}" for row, vertex in of_list if vertex < 0]
        facts = stated[name]
        for what, found, expected in (
            ("source", facts.source, getattr(section, name)),
            ("rows", facts.rows, len(of_list)),
            ("fingerprint", facts.fingerprint, hashlib.sha256("".join(lines).encode()).hexdigest()),
            ("n_not_in_graph", facts.n_not_in_graph, len(absent)),
            ("not_in_graph", list(facts.not_in_graph), absent[:5]),
        ):
            if found != expected:
                raise VerificationError(
                    f"{place}: derived_inputs.groups.{name}.{what} is {found!r}; recomputed {expected!r}"
                )


def _check_cases(job: Job, groups: Groups, accounts: list[list[int]], allowed: list[bool]) -> None:
    """Check that a group is in the first case whose head it overlaps by half, or a head itself; allowed ones apart.

    A head is the first group of its case.
    """
    lefts, edges = list(map(set, accounts)), _edges_of_items(job, groups)
    heads_of: dict[tuple[tuple[int, str], bool], list[int]] = {}
    cases, heads = groups.column("case"), dict[str, int]()

    def is_near(row: int, head: int) -> bool:
        smaller = min(row, head, key=lambda group: (len(lefts[group]), len(edges[group])))
        return all(2 * len(of[row] & of[head]) >= len(of[smaller]) for of in (lefts, edges))

    for row, (case, is_muted) in enumerate(zip(cases, allowed, strict=True)):
        met = {head for edge in edges[row] for head in heads_of.get((edge, is_muted), ())}
        head = next((head for head in sorted(met) if is_near(row, head)), row)
        if cases[head] != case:
            raise groups.refuse(row, f"case is {case}, but it overlaps the first group of the case {cases[head]}")
        if heads.setdefault(case, head) != head:
            raise groups.refuse(row, f"case is {case}, as in row {heads[case]}, but they do not overlap by half")
        if head == row:
            for edge in edges[row]:
                heads_of.setdefault((edge, is_muted), []).append(row)


def _edges_of_items(job: Job, groups: Groups) -> list[set[tuple[int, str]]]:
    """Return the edges of each group, with the item in place of the right vertex: its key without the time bucket."""
    assert job.keys is not None
    vertices = np.unique(groups.side(1)[1])
    keys = [str(key) for key in job.keys[1].take(pa.array(vertices)).to_pylist()]
    if job.manifest.config.input.time_bucket is not None:
        keys = [json.dumps(json.loads(key)[:-1]) for key in keys]
    items = dict(zip(vertices.tolist(), keys, strict=True))
    path = job.run / "group_edges.parquet"
    edges: dict[int, set[tuple[int, str]]] = {key: set() for key in groups.column("group_key")}
    columns = (column.to_pylist() for column in pq.read_table(path, columns=["group_key", "left", "right"]).columns)
    for key, left, right in zip(*columns, strict=True):
        edges[key].add((left, items[right]))
    return list(edges.values())


def _check_since(job: Job, groups: Groups, accounts: list[list[int]]) -> None:
    """Check the comparison with an earlier run: without one there is none, and all case ids are new."""
    assert job.hashes is not None
    stated, cases = groups.column("since"), groups.column("case")
    comparison = job.manifest.derived_comparison.get("groups")
    is_word = [word is None or word in _SINCE for word in stated]
    refuse_first(groups.path, ~np.array(is_word, np.bool_), lambda row: f"since is {stated[row]!r:.80}")
    if comparison is not None and comparison.run_id is not None:
        job.not_checked(f"groups: since, and ids of cases: the earlier run {comparison.run_id} is not read")
        return
    refuse_first(
        groups.path,
        np.array([word is not None for word in stated], np.bool_),
        lambda row: f"since is {stated[row]}, but the manifest names no earlier run",
    )
    used: set[str] = set()
    for case in dict.fromkeys(cases):
        rows = [row for row, other in enumerate(cases) if other == case]
        members = np.unique(job.hashes[0][[account for row in rows for account in accounts[row]]])
        content = members.astype("<u8").tobytes()
        while (name := hashlib.sha256(content).hexdigest()[:16]) in used:
            content += b"+"
        used.add(name)
        if name != case:
            raise groups.refuse(rows[0], f"case is {case}; recomputed {name}")


def _check_labels(groups: Groups, known: Known) -> None:
    classes = known.classes or ({}, {})
    members = zip(groups.vertices.tolist(), groups.is_right.tolist(), strict=True)
    expected = [classes[is_right].get(vertex) for vertex, is_right in members]
    compare_nullable(groups.members_path, "label", groups.members["label"].to_pylist(), expected)


def _totals(sides: Sequence[Sequence[int]], known: Known) -> tuple[int, int]:
    """Count the known cases and the counted members of a group."""
    n_known = n_counted = 0
    for members, positive, counted in zip(sides, known.positive, known.counted, strict=True):
        n_known += sum(vertex in positive for vertex in members)
        n_counted += len(members) if counted is None else sum(vertex in counted for vertex in members)
    return n_known, n_counted


def _figures(members: Sequence[list[int]], known: Known) -> tuple[int | None, float | None, float | None]:
    """Return number and share of known cases in a group, and the p-value."""
    if known.classes is None:
        return None, None, None
    n_known, n_counted = _totals(members, known)
    if n_counted == 0:
        return n_known, None, None
    chances = [1.0]
    for side in (0, 1):
        counted = known.counted[side]
        drawn = len(members[side]) if counted is None else sum(vertex in counted for vertex in members[side])
        of_side = _chances(known.n_counted(side), len(known.positive[side]), drawn)
        chances = of_side if chances == [1.0] else chances if of_side == [1.0] else list(np.convolve(chances, of_side))
    return n_known, n_known / n_counted, min(1.0, math.fsum(chances[n_known:]))


def _chances(population: int, positive: int, drawn: int) -> list[float]:
    """Return the probabilities of 0, 1, 2 ... positive ones among those drawn without replacement."""

    def log_ways(n: int, k: int) -> float:
        return math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)

    of_all = log_ways(population, drawn)
    return [
        math.exp(log_ways(positive, k) + log_ways(population - positive, drawn - k) - of_all)
        if drawn - k <= population - positive
        else 0.0
        for k in range(min(positive, drawn) + 1)
    ]

"""Graphs with planted groups, and the groups of a published run computed with plain sets and floats."""

from __future__ import annotations

import math
import random
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from mbe_stage.groups.reference import effective_logs
from mbe_stage.pipeline import Config
from mbe_stage.pipeline.cases.published import Case

__all__ = [
    "EDGES",
    "TABLES",
    "blocks",
    "case_with",
    "evidence",
    "names",
    "planted",
    "rows",
    "settings",
    "sides_of",
    "swapped",
    "tables",
    "wanted",
]

TABLES = ("groups", "group_members", "group_edges", "group_halo", "vertex_scores", "verdicts")
Sides = tuple[frozenset[int], frozenset[int]]


def planted(seed: int = 1, rings: tuple[tuple[int, int], ...] = ((8, 5), (6, 6))) -> pa.Table:
    """A sparse random graph (text on the left, integers on the right) with rings of new accounts and new targets.

    All but one account of the first ring share a further target, so its bicliques are near copies of each other.
    """
    dice = random.Random(seed)
    pairs = {(f"u{u:02}", v) for u in range(40) for v in range(30) if dice.random() < 0.08}
    for number, (n_left, n_right) in enumerate(rings):
        accounts = [f"ring {number} <{u}>" for u in range(n_left)]
        pairs |= {(account, -100 * (number + 1) - v) for account in accounts for v in range(n_right)}
        pairs |= {(account, dice.randrange(30)) for account in accounts}
        if number == 0:
            pairs |= {(account, -1) for account in accounts[1:]}
    ordered = sorted(pairs)
    dice.shuffle(ordered)
    return pa.table({"l": [left for left, _ in ordered], "r": pa.array([right for _, right in ordered], pa.int64())})


EDGES = planted()


def blocks(seed: int = 1, share: float = 0.75) -> pa.Table:
    """A sparse random graph with two planted blocks, in which only a share of the edges is present."""
    dice = random.Random(seed)
    pairs = {(f"u{u:03}", v) for u in range(150) for v in range(120) if dice.random() < 0.015}
    for number, (n_left, n_right) in enumerate(((12, 10), (9, 8))):
        accounts = [f"block {number} <{u}>" for u in range(n_left)]
        pairs |= {(one, -1000 * (number + 1) - v) for one in accounts for v in range(n_right) if dice.random() < share}
    ordered = sorted(pairs)
    dice.shuffle(ordered)
    return pa.table({"l": [left for left, _ in ordered], "r": pa.array([right for _, right in ordered], pa.int64())})


def case_with(name: str, left: Iterable[object], right: Iterable[object] = (), **labels: str) -> Case:
    """A case without groups, with these members; some have a label."""
    sides = (("left", left), ("right", right))
    members = ({"side": side, "key": key, "label": labels.get(str(key))} for side, keys in sides for key in keys)
    return Case(name, (), tuple(members))


def swapped(edges: pa.Table, seed: int) -> pa.Table:
    """A random graph with the same degrees: the ends of pairs of edges swapped, thirty times per edge."""
    dice = random.Random(seed)
    pairs = list(zip(*(column.to_pylist() for column in edges.columns), strict=True))
    there = set(pairs)
    for _ in range(30 * len(pairs)):
        i, k = dice.randrange(len(pairs)), dice.randrange(len(pairs))
        (u, v), (s, t) = pairs[i], pairs[k]
        if (u, t) not in there and (s, v) not in there:
            there -= {pairs[i], pairs[k]}
            pairs[i], pairs[k] = (u, t), (s, v)
            there |= {(u, t), (s, v)}
    assert len(there) == edges.num_rows
    return pa.table({"l": [u for u, _ in pairs], "r": [v for _, v in pairs]})


def settings(out: Path, engine: str = "reference", **sections: Any) -> Config:
    """Configuration with groups and without random copies, unless a section says otherwise; None removes a section."""
    values: dict[str, Any] = {"execution": {"engine": engine}, "output": {"directory": str(out)}}
    values["groups"] = {"chance_copies": 0}
    for name, section in sections.items():
        if section is None:
            del values[name]
        else:
            values[name] = {**values.get(name, {}), **section}
    return Config.from_mapping(values)


def rows(run_dir: Path, name: str) -> list[dict[str, Any]]:
    return pq.read_table(run_dir / f"{name}.parquet").to_pylist()


def tables(run_dir: Path) -> dict[str, pa.Table]:
    return {name: pq.read_table(run_dir / f"{name}.parquet") for name in TABLES}


def sides_of(run_dir: Path) -> dict[int, Sides]:
    """Return the members of each group, in the order of the list."""
    found: dict[int, tuple[set[int], set[int]]] = {}
    for row in rows(run_dir, "group_members"):
        found.setdefault(row["group_key"], (set(), set()))[row["side"] == "right"].add(row["vertex"])
    return {key: (frozenset(left), frozenset(right)) for key, (left, right) in found.items()}


def wanted(
    run_dir: Path,
    grown: Path | None = None,
    kind: str = "both",
    limit: int = 100,
    rank_by: str = "surprise",
    max_overlap: float = 0.6,
) -> list[dict[str, Any]]:
    """Compute the list by definition: key, sides, surprise, kind, core and number of bicliques of each group.

    All bicliques of the run are candidates, provided there are few. Grown groups come from another run, which lists all
    of them except those with the same left members as a better one; those are never listed.
    """
    degrees = [[row["degree"] for row in rows(run_dir, f"{side}_vertices")] for side in ("left", "right")]
    logs, pool = logs_of(degrees), list[dict[str, Any]]()
    for row in pq.read_table(run_dir / "bicliques").to_pylist():
        sides = frozenset(row["left"]), frozenset(row["right"])
        value, cost = evidence(logs, sides), names(degrees, sides)
        pool.append({"key": row["biclique_key"], "sides": sides, "surprise": value - cost, "evidence": value})
    if grown is not None:
        members = sides_of(grown)
        for row in rows(grown, "groups"):
            found = {name: row[name] for name in ("surprise", "evidence")}
            pool.append({"key": row["group_key"], "sides": members[row["group_key"]], "is_grown": True, **found})

    def strength(group: dict[str, Any]) -> tuple[float, int]:
        n_left, n_right = map(len, group["sides"])
        parts = {"surprise_per_vertex": n_left + n_right, "surprise_per_edge": n_left * n_right}.get(rank_by, 1)
        return -round(group["evidence" if rank_by == "evidence" else "surprise"] / parts, 5), group["key"]

    pool = [{"is_grown": False, **group} for group in pool if group["surprise"] > math.log(20)]
    bicliques = sorted((group for group in pool if not group["is_grown"]), key=strength)
    order = sorted((group for group in pool if group["is_grown"]), key=strength) + bicliques
    order.sort(key=lambda group: len(group["sides"][0]) <= 2)
    kept: list[tuple[dict[str, Any], tuple[float, int]]] = []
    listed: list[dict[str, Any]] = []
    for group in order:
        if kind != "both" and group["is_grown"] != (kind == "grown_cover"):
            continue
        if any(_jaccard(group, other) >= max_overlap and best <= strength(group) for other, best in kept):
            continue
        same = [i for i, (other, _) in enumerate(kept) if group["sides"][0] == other["sides"][0]]
        if same:
            kept[same[0]] = kept[same[0]][0], strength(group)
            continue
        kept.append((group, strength(group)))
        inside = any(other["is_grown"] and _is_inside(group, other) for other in listed)
        if len(listed) < limit and (group["is_grown"] or not inside):
            listed.append(group)
    for group in listed:
        cores = [group] if not group["is_grown"] else [each for each in bicliques if _is_inside(each, group)]
        group |= {"core": cores[0] if cores else None, "n_bicliques": int(not group["is_grown"])}
    for biclique in bicliques:
        near = [group for group in listed if _jaccard(group, biclique) >= max_overlap]
        if near and not any(biclique is group for group in listed):
            near[0]["n_bicliques"] += 1
    return listed


def logs_of(degrees: list[list[int]]) -> tuple[np.ndarray, np.ndarray]:
    """Return logarithms of degrees, or of effective ones if some pair is expected more than 0.1 times.

    Those of the left vertices are less by that of the number of edges: the sum of two is that of the expected edges.
    """
    left, right = map(np.array, degrees)
    logs = np.log(left), np.log(right)
    if 10 * left.max() * right.max() > left.sum():
        logs = effective_logs(left, right)
    return logs[0] - math.log(left.sum()), logs[1]


def evidence(logs: tuple[np.ndarray, np.ndarray], sides: Sides) -> float:
    """Sum the edge weights."""
    expected = [logs[0][u] + logs[1][v] for u in sides[0] for v in sides[1]]
    return sum(-t if t < math.log(0.1) else math.log1p(math.exp(-t)) for t in expected)


def names(degrees: list[list[int]], sides: Sides) -> float:
    """Return the cost of naming the members and their numbers."""
    costs = 0.0
    for side in (0, 1):
        n = sum(degree >= len(sides[1 - side]) for degree in degrees[side])
        costs += math.log(math.comb(n, len(sides[side]))) + math.log(len(degrees[side]))
    return costs


def _jaccard(one: dict[str, Any], other: dict[str, Any]) -> float:
    left, others = one["sides"][0], other["sides"][0]
    return len(left & others) / len(left | others)


def _is_inside(one: dict[str, Any], other: dict[str, Any]) -> bool:
    return all(mine <= its for mine, its in zip(one["sides"], other["sides"], strict=True))

"""Graphs with planted groups, and what groups are of a published run, by plain sets and floats."""

from __future__ import annotations

import math
import random
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from mbe_stage.groups.reference import effective_logs
from mbe_stage.pipeline import Config

__all__ = ["EDGES", "TABLES", "evidence", "names", "planted", "rows", "settings", "swapped", "tables", "wanted"]

TABLES = ("groups", "group_members", "vertex_scores")


def planted(seed: int = 1, rings: tuple[tuple[int, int], ...] = ((8, 5), (6, 6))) -> pa.Table:
    """A sparse random graph, text on the left and integers on the right, and rings of new accounts and new targets.

    All but one account of the first ring have a further target in common: its bicliques nearly repeat each other.
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


def swapped(edges: pa.Table, seed: int) -> pa.Table:
    """A graph of the same degrees that is random otherwise: the ends of pairs of edges exchanged, thirty times each."""
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
    """Into a directory, with a section `groups` unless one of the sections says otherwise."""
    values: dict[str, Any] = {"execution": {"engine": engine}, "output": {"directory": str(out)}, "groups": {}}
    for name, section in sections.items():
        if section is None:
            del values[name]
        else:
            values[name] = {**values.get(name, {}), **section}
    return Config.from_mapping(values)


def rows(run_dir: Path, name: str) -> list[dict[str, Any]]:
    """Of a table of a run."""
    return pq.read_table(run_dir / f"{name}.parquet").to_pylist()


def tables(run_dir: Path) -> dict[str, pa.Table]:
    """The tables of groups."""
    return {name: pq.read_table(run_dir / f"{name}.parquet") for name in TABLES}


def wanted(
    run_dir: Path, limit: int = 100, rank_by: str = "surprise", max_overlap: float = 0.5
) -> list[dict[str, Any]]:
    """The short list of a run of few bicliques, which are all candidates: key, sides, surprise, near copies."""
    degrees = [[row["degree"] for row in rows(run_dir, f"{side}_vertices")] for side in ("left", "right")]
    found = []
    for row in pq.read_table(run_dir / "bicliques").to_pylist():
        sides = set(row["left"]), set(row["right"])
        value = evidence(degrees, sides) - names(degrees, sides)
        n_left, n_right = map(len, sides)
        strength = {
            "surprise": value,
            "surprise_per_vertex": value / (n_left + n_right),
            "surprise_per_edge": value / (n_left * n_right),
            "evidence": value + names(degrees, sides),
        }[rank_by]
        found.append((-round(strength, 5), row["biclique_key"], sides, value))
    kept: list[dict[str, Any]] = []
    for _, key, sides, value in sorted(found, key=lambda each: each[:2]):
        near = [group for group in kept if _jaccard(group["sides"][0], sides[0]) >= max_overlap]
        if value <= math.log(20):
            continue
        if near:
            near[0]["n_bicliques"] += 1
        elif len(kept) < limit:
            kept.append({"key": key, "sides": sides, "surprise": value, "n_bicliques": 1})
    return kept


def evidence(degrees: list[list[int]], sides: tuple[set[int], set[int]]) -> float:
    """The sum of the edges' weights: by degrees, or by effective degrees if a pair is expected more than 0.1 times."""
    n_edges = sum(degrees[0])
    logs: Any = [[math.log(d) for d in of] for of in degrees]
    if 10 * max(degrees[0]) * max(degrees[1]) > n_edges:
        logs = effective_logs(np.array(degrees[0]), np.array(degrees[1]))
    expected = [logs[0][u] + logs[1][v] - math.log(n_edges) for u in sides[0] for v in sides[1]]
    return sum(-t if t < math.log(0.1) else math.log1p(math.exp(-t)) for t in expected)


def names(degrees: list[list[int]], sides: tuple[set[int], set[int]]) -> float:
    """What naming the members and their numbers costs."""
    costs = 0.0
    for side in (0, 1):
        n = sum(degree >= len(sides[1 - side]) for degree in degrees[side])
        costs += math.log(math.comb(n, len(sides[side]))) + math.log(len(degrees[side]))
    return costs


def _jaccard(one: set[int], other: set[int]) -> float:
    return len(one & other) / len(one | other)

"""How stable lists and cases are where some rows are missing, and how many groups are new in successive runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.groups.labelled import Events, Key
from benchmarks.groups.ours import Search, grown_above_chance, search
from mbe_stage.groups import selection
from mbe_stage.groups.members import GroupMembers
from mbe_stage.groups.short_list import short_list
from mbe_stage.pipeline import Config, run
from mbe_stage.pipeline.problems.groups.cases import case_numbers

__all__ = ["Kept", "n_new", "ring", "stability"]

N_FIRST, N_LISTED = 50, 100


@dataclass(frozen=True, slots=True)
class Kept:
    """Shares of the first groups found again, and of the pairs of accounts in their cases that still share a case."""

    groups: float
    pairs: float


def stability(events: Events, key: Key, least: tuple[int, int], seeds: Sequence[int], dropped: float = 0.05) -> dict:
    """Means over seeds, for the short list and for grown groups, as ``{kind: Kept}``; of a key with one graph."""
    before = {kind: _listed(one, N_FIRST) for kind, one in _lists(events, key, least).items()}
    found: dict[str, list[Kept]] = {kind: [] for kind in before}
    for seed in seeds:
        kept = np.random.default_rng(seed).random(events.left.size) >= dropped
        for kind, after in _lists(_some(events, kept), key, least).items():
            found[kind].append(_kept(before[kind], _listed(after, N_LISTED)))
    return {
        kind: Kept(float(np.mean([one.groups for one in each])), float(np.mean([one.pairs for one in each])))
        for kind, each in found.items()
    }


def ring(events: Events, n_left: int, n_right: int, first: int, last: int, seed: int) -> Events:
    """The events with a ring of new accounts and new targets added, each pair once, at times between two."""
    dice = np.random.default_rng(seed)
    left, right = np.indices((n_left, n_right)).reshape(2, -1)
    assert events.times is not None
    return replace(
        events,
        left=np.concatenate([events.left, left + events.labels.size]),
        right=np.concatenate([events.right, right + events.right.max() + 1]),
        weights=None,
        times=np.concatenate([events.times, dice.integers(first, last, left.size)]),
        labels=np.concatenate([events.labels, np.full(n_left, -1)]),
    )


def n_new(events: Events, days: int, n_runs: int, kind: str, account: int) -> tuple[list[int], list[str]]:
    """Publish the events up to the first twelfth, the first two and so on, into one directory.

    Returns
    -------
    counts : list of int
        New groups of each run.
    words : list of str
        What each run says of groups with this account.
    """
    assert events.times is not None
    order = np.argsort(events.times, kind="stable")
    counts, words = [], []
    with TemporaryDirectory() as directory:
        for number in range(1, n_runs + 1):
            rows = order[: order.size * number // n_runs]
            times = pa.array(events.times[rows] * (86_400 // events.day), pa.timestamp("s"))
            edges = pa.table({"l": events.left[rows], "r": events.right[rows], "t": times})
            config = Config.from_mapping(
                {
                    "input": {"left": "l", "right": "r", "timestamp": "t", "time_bucket": f"{days}d"},
                    "query": {"min_left": 2, "min_right": 1},
                    "execution": {"engine": "cpu", "threads": 1},
                    "output": {"directory": directory, "bicliques": False, "report": False},
                    "groups": {"kind": kind},
                }
            )
            run_dir = Path(run(config, edges).run_dir)
            groups = pq.read_table(run_dir / "groups.parquet", columns=["group_key", "since"])
            since = dict(zip(*(column.to_pylist() for column in groups.columns), strict=True))
            counts.append(sum(word == "new" for word in since.values()))
            members = pq.read_table(run_dir / "group_members.parquet", columns=["group_key", "side", "key"])
            mine = {row["group_key"] for row in members.to_pylist() if row["side"] == "left" and row["key"] == account}
            words.append(", ".join(f"{word} {n}" for word, n in Counter(since[key] for key in mine).items()))
    return counts, words


def _some(events: Events, kept: np.ndarray) -> Events:
    values = {
        name: getattr(events, name)[kept]
        for name in ("left", "right", "weights", "times")
        if getattr(events, name) is not None
    }
    return replace(events, **values)


def _lists(events: Events, key: Key, least: tuple[int, int]) -> dict[str, tuple[GroupMembers, list[np.ndarray]]]:
    """Members and edges of the listed groups, by kind."""
    (graph,) = events.graphs(key)
    one = search(graph, *least)
    grown, _ = selection.covered(graph, grown_above_chance(one), one.model, N_LISTED)
    lists = {"short_list": _short(one), "grown_cover": grown.members}
    left, right = (ids.astype(np.int64) for ids in graph.edges())
    codes = left * graph.n_right + right
    found = {}
    for kind, members in lists.items():
        cells = [(ids[:, None].astype(np.int64) * graph.n_right + others).ravel() for ids, others in members]
        found[kind] = members, [np.intersect1d(one, codes, assume_unique=True) for one in cells]
    return found


def _short(one: Search) -> GroupMembers:
    return one.candidates.members.take(short_list(one.candidates, limit=N_LISTED))


def _listed(of: tuple[GroupMembers, list[np.ndarray]], n: int) -> tuple[list[set[int]], set[tuple[int, int]]]:
    """Left members of each of the first groups, and the pairs of accounts that share a case of theirs."""
    members, edges = of[0].take(np.arange(min(n, len(of[0])))), of[1][:n]
    numbers = case_numbers(members, edges, np.zeros(len(members), np.bool_))
    lefts = [set(left.tolist()) for left, _ in members]
    cases: dict[int, set[int]] = {}
    for case, left in zip(numbers.tolist(), lefts, strict=True):
        cases.setdefault(case, set()).update(left)
    return lefts, {pair for case in cases.values() for pair in combinations(sorted(case), 2)}


def _kept(before: tuple[list[set[int]], set], after: tuple[list[set[int]], set]) -> Kept:
    again = [any(2 * len(one & other) >= len(one | other) for other in after[0]) for one in before[0]]
    return Kept(float(np.mean(again)), len(before[1] & after[1]) / max(1, len(before[1])))

"""Stability of lists and cases if some rows are missing, and the number of new groups in successive runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from tempfile import TemporaryDirectory
from typing import get_args

import numpy as np
import pyarrow as pa

from benchmarks.groups.labelled import Events, Key
from benchmarks.groups.metrics import best_f1
from benchmarks.groups.ours import Kind, groups, search
from benchmarks.groups.published import config_of, groups_in
from mbe_stage.groups.members import GroupMembers
from mbe_stage.pipeline import run
from mbe_stage.pipeline.problems.groups.cases import case_numbers

__all__ = ["Kept", "runs_of_ring", "stability", "successive_runs"]

N_FIRST, N_LISTED = 50, 100


@dataclass(frozen=True, slots=True)
class Kept:
    """Shares of the first groups found again, and of the account pairs of their cases that still share a case."""

    groups: float
    pairs: float


def stability(
    events: Events, key: Key, least: tuple[int, int], seeds: Sequence[int], dropped: float = 0.05
) -> dict[str, Kept]:
    """Return means over seeds for the short list, grown groups and both by surprise; of a key with one graph."""
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


def successive_runs(events: Events, days: int, n_runs: int) -> list[list[tuple[str | None, np.ndarray]]]:
    """Publish the first part of the events, then the first two parts and so on; return `since` and members of each.

    Parameters
    ----------
    events : Events
        With times in seconds.
    days : int
        Days per time bucket.
    """
    assert events.times is not None
    order = np.argsort(events.times, kind="stable")
    with TemporaryDirectory() as directory:
        config = config_of(
            directory,
            input={"timestamp": "time", "time_bucket": f"{days}d"},
            query={"min_left": 2, "min_right": 1},
        )
        found = []
        for number in range(1, n_runs + 1):
            rows = order[: order.size * number // n_runs]
            times = pa.array(events.times[rows], pa.timestamp("s"))
            table = pa.table({"account": events.left[rows], "item": events.right[rows], "time": times})
            found.append(groups_in(run(config, table).run_dir))
    return found


def runs_of_ring(events: Events, days: int, n_runs: int, shape: tuple[int, int], seed: int = 0) -> list[str]:
    """Return `since` of a planted ring's best group in each run, "-" if none has an F1 of 0.5 over its accounts.

    New accounts rate all of the ring's items within ten days, five before and five after two thirds of the events.
    """
    assert events.times is not None
    dice = np.random.default_rng(seed)
    account, item = (side.ravel() for side in np.indices(shape))
    middle = int(np.sort(events.times)[events.times.size * 2 // 3])
    items = dice.choice(np.flatnonzero(np.bincount(events.right) <= 2), shape[1], replace=False)
    times = middle + dice.integers(-5 * events.day, 5 * events.day, account.size)
    with_ring = replace(
        events,
        left=np.concatenate([events.left, events.labels.size + account]),
        right=np.concatenate([events.right, items[item]]),
        times=np.concatenate([events.times, times]),
    )
    accounts, found = events.labels.size + np.arange(shape[0]), []
    for groups_of_run in successive_runs(with_ring, days, n_runs):
        f1 = [(best_f1([left], accounts), since) for since, left in groups_of_run]
        best, since = max(f1, key=lambda one: one[0], default=(0.0, None))
        found.append(str(since) if best >= 0.5 else "-")
    return found


def _some(events: Events, kept: np.ndarray) -> Events:
    values = {
        name: getattr(events, name)[kept]
        for name in ("left", "right", "weights", "times")
        if getattr(events, name) is not None
    }
    return replace(events, **values)


def _lists(events: Events, key: Key, least: tuple[int, int]) -> dict[str, tuple[GroupMembers, list[np.ndarray]]]:
    """Return members and edges of the listed groups, by kind."""
    (graph,) = events.graphs(key)
    one = search(graph, *least)
    lists = {kind: groups([one], N_LISTED, kind) for kind in get_args(Kind)}
    left, right = (ids.astype(np.int64) for ids in graph.edges())
    codes = left * graph.n_right + right
    found = {}
    for kind, members in lists.items():
        cells = [(ids[:, None].astype(np.int64) * graph.n_right + others).ravel() for ids, others in members]
        found[kind] = members, [np.intersect1d(one, codes, assume_unique=True) for one in cells]
    return found


def _listed(of: tuple[GroupMembers, list[np.ndarray]], n: int) -> tuple[list[set[int]], set[tuple[int, int]]]:
    """Return left members of each of the first groups, and the account pairs that share one of their cases."""
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

"""Several devices share searches for cliques and (p, q)-counts: on the emulator."""

from __future__ import annotations

import importlib.util
import json
from typing import Any

import numpy as np
import pytest

from mbe_stage.search.cuda.work_handover import left_over, shares
from tests.mbe_stage.processes import run_module

PROBLEMS = ["cliques", "pq_counts"]
on_the_emulator = pytest.mark.skipif(
    importlib.util.find_spec("greenlet") is None, reason="greenlet, of the group dev, is missing"
)


def emulated(problem: str, part: str) -> list[dict[str, Any]]:
    cases = [json.loads(line) for line in run_module("emulated_shared", problem, part).splitlines()]
    for case in cases:
        assert case["same"], case
    return cases


@on_the_emulator
@pytest.mark.parametrize("problem", PROBLEMS)
def test_nodes_are_handed_over_to_idle_devices(problem: str) -> None:
    cases = emulated(problem, "few")
    assert len(cases) == 2
    assert sum(case["nodes"] for case in cases) >= 2


@pytest.mark.slow
@on_the_emulator
@pytest.mark.parametrize("problem", PROBLEMS)
def test_two_and_three_devices_equal_the_reference(problem: str) -> None:
    cases = emulated(problem, "random")
    assert len(cases) == 48
    assert sum(case["n"] > 0 for case in cases) > 20
    assert sum(case["nodes"] for case in cases) > 3


@pytest.mark.slow
@on_the_emulator
@pytest.mark.parametrize("problem", PROBLEMS)
def test_devices_lost_at_random_moments(problem: str) -> None:
    cases = emulated(problem, "lost")
    assert sum(case.get("warned", 0) for case in cases) > 5
    assert cases[-1]["case"] == "handed on"


@pytest.mark.slow
@on_the_emulator
@pytest.mark.parametrize("problem", PROBLEMS)
def test_devices_reach_barriers(problem: str) -> None:
    cases = emulated(problem, "barriers")
    assert sum(case["markers"] for case in cases) > 6
    assert sum(case["between"] for case in cases) > 3


@on_the_emulator
def test_counts_that_need_a_single_device() -> None:
    assert len(emulated("pq_counts", "refused")) == 5


def test_shares_and_the_remainder_are_all_children_once() -> None:
    n_cut = n_whole = 0
    for seed in range(200):
        rng = np.random.default_rng(seed)
        n = int(rng.integers(0, 60))
        ends = rng.integers(1, 40, n)
        cursors = rng.integers(0, ends + 1)
        sizes = 32 * rng.integers(1, 20, n)
        room = [(int(rng.integers(0, 9000)), int(rng.integers(0, 40))) for _ in range(rng.integers(1, 4))]
        given = shares(cursors, ends, sizes, room)
        changed, new_ends, is_closed = left_over(given, cursors, ends)
        children = [(node, child) for share in given for node, first, end in share for child in range(first, end)]
        for share, (entries, nodes) in zip(given, room, strict=True):
            assert len(share) <= nodes
            assert sum(int(sizes[node]) for node, _, _ in share) <= entries
            n_cut += sum(first > cursors[node] for node, first, _ in share)
            n_whole += sum(first == cursors[node] for node, first, _ in share)
        kept_to = ends.copy()
        kept_to[changed] = np.where(is_closed, cursors[changed], new_ends)
        assert (new_ends > 0).all()
        children += [(node, child) for node in range(n) for child in range(cursors[node], kept_to[node])]
        assert sorted(children) == [(node, child) for node in range(n) for child in range(cursors[node], ends[node])]
    assert n_cut > 100
    assert n_whole > 100

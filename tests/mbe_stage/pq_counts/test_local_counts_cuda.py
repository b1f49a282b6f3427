"""Local counts on a GPU without one: logic (emulated), plans, and numbers from residues."""

from __future__ import annotations

import importlib.util
import json
import random
from math import comb, prod
from typing import Any

import numpy as np
import pytest

from mbe_stage.errors import MemoryBudgetExceeded
from mbe_stage.pq_counts.cuda.local.memory_plan import LocalSizes
from mbe_stage.pq_counts.digits import digits_of_residues, integers, moduli, ways_modulo
from tests.mbe_stage.processes import run_module

on_the_emulator = pytest.mark.skipif(
    importlib.util.find_spec("greenlet") is None, reason="greenlet, of the group dev, is missing"
)


def emulated(part: str) -> list[dict[str, Any]]:
    cases = [json.loads(line) for line in run_module("tests.mbe_stage.pq_counts.emulated_local", part).splitlines()]
    for case in cases:
        assert case["same"], case
    return cases


@on_the_emulator
def test_some_of_everything() -> None:
    cases = emulated("some")
    names = [case["case"] for case in cases]
    assert {"tasks", "limited", "next to nothing", "shared 1", "primes"} < set(names)
    assert sum(case["n"] > 0 for case in cases) > 7
    assert sum(case.get("nodes", 0) for case in cases) > 5


@on_the_emulator
@pytest.mark.slow
def test_random_graphs_as_specified() -> None:
    cases = emulated("random")
    assert len(cases) == 90
    assert sum(case["n"] > 0 for case in cases) > 50
    assert any(case["quanta"] > 3 for case in cases)
    assert sum(case["nodes"] for case in cases) > 40


@on_the_emulator
@pytest.mark.slow
@pytest.mark.parametrize("part", ["large", "wide", "shared"])
def test_large_wide_and_shared_cases(part: str) -> None:
    cases = emulated(part)
    assert all(case["n"] > 0 for case in cases)
    if part == "shared":
        assert cases[0]["nodes"] > 0
        assert cases[1]["quanta"] > 3


@pytest.mark.parametrize("bits", [1, 31, 62, 63, 64, 93, 94, 125, 300])
def test_numbers_follow_from_their_residues(bits: int) -> None:
    largest = (1 << bits) - 1
    found = moduli(largest)
    assert found == [0] if bits <= 63 else prod(found) > largest and len(set(found)) == len(found)
    assert all(0 <= modulus < 1 << 31 for modulus in found)
    dice = random.Random(bits)
    numbers = [0, 1, largest, *(dice.randrange(largest + 1) for _ in range(50))]
    residues = [np.array([number % prime if prime else number for number in numbers], np.int64) for prime in found]
    assert integers(digits_of_residues(residues, found, largest)) == numbers


@pytest.mark.parametrize("modulus", [0, *moduli(1 << 70)])
def test_binomials(modulus: int) -> None:
    most, size = 70, 30
    found = ways_modulo(most, size, modulus).reshape(most + 1, size + 1).astype(np.uint64).tolist()
    for n in range(most + 1):
        assert found[n] == [comb(n, k) % (modulus or 1 << 64) for k in range(size + 1)]


def test_a_budget_that_a_refusal_names_is_enough() -> None:
    rows, columns = np.arange(0, 4004, 4), np.arange(0, 4008, 8)
    paths = np.arange(1000, 0, -1)
    for edges in (False, True):
        sizes = LocalSizes.of(rows, columns, paths, (3, 3), edges=edges)
        with pytest.raises(MemoryBudgetExceeded, match="as it takes the graph as a whole") as refusal:
            sizes.plan(264, 1 << 10)
        enough = refusal.value.needed_bytes
        assert enough is not None
        plan = sizes.plan(264, enough)
        assert plan.n_blocks == 1
        assert plan.total_bytes + sizes.fixed_bytes <= enough
        with pytest.raises(MemoryBudgetExceeded):
            sizes.plan(264, enough - 1)
    assert sizes.plan(264, 1 << 34).n_blocks == 264

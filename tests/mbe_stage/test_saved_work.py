"""Searches of the emulated engine `cuda`, ended in the middle and continued from saved work."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Iterable
from typing import Any

import pytest

from mbe_stage import BicliqueQuery, BipartiteCSR, Detail, Execution
from mbe_stage.bicliques import engine_cpu
from mbe_stage.errors import InvalidArgument
from mbe_stage.tasks import OpenWork, Roots
from tests.mbe_stage.processes import run_module

on_the_emulator = pytest.mark.skipif(
    importlib.util.find_spec("greenlet") is None, reason="greenlet, of the group dev, is missing"
)


def assert_nothing_is_lost(seeds: Iterable[int]) -> None:
    cases = [json.loads(line) for line in run_module("emulated_saved", *map(str, seeds)).splitlines()]
    rounds = [case for case in cases if "saved" in case]
    assert all(case["same"] for case in rounds), rounds
    assert sum(case["saved"] for case in rounds) > 0
    (too_large,) = (case["too_large"] for case in cases if "too_large" in case)
    assert "the saved work of the run needs 1,234,567 bytes of device memory" in too_large
    wrong = [case for case in cases if "said" in case]
    assert len(wrong) > 20
    assert all("the saved work of a search is damaged (array '" in case["said"] for case in wrong), wrong


def assert_no_clique_is_lost(seeds: Iterable[int]) -> list[dict[str, Any]]:
    cases = [
        json.loads(line) for line in run_module("tests.mbe_stage.cliques.emulated_saved", *map(str, seeds)).splitlines()
    ]
    rounds = [case for case in cases if "saved" in case]
    assert all(case["same"] for case in rounds), rounds
    assert all(sum(case[kind] for case in rounds) > 0 for kind in ("saved", "nodes"))
    wrong = [case for case in cases if "said" in case]
    assert len(wrong) > 40
    for case in wrong:
        assert f"the saved work of a search is damaged (array '{case['name']}'" in case["said"], case
    assert [case["twice"] for case in cases if "twice" in case] == [
        "tasks have roots of the saved work: expected each root once"
    ]
    return rounds


@on_the_emulator
def test_saved_work_of_cliques_is_continued_and_checked() -> None:
    assert_no_clique_is_lost([0, 3])


@pytest.mark.slow
@on_the_emulator
def test_clique_searches_ended_at_random_moments_find_each_clique_once() -> None:
    assert sum(case["unwritten"] for case in assert_no_clique_is_lost(range(100))) > 0


def assert_no_leaf_is_lost(seeds: Iterable[int]) -> list[dict[str, Any]]:
    module = "tests.mbe_stage.pq_counts.emulated_saved"
    cases = [json.loads(line) for line in run_module(module, *map(str, seeds)).splitlines()]
    rounds = [case for case in cases if "saved" in case]
    assert all(case["same"] for case in rounds), rounds
    wrong = [case for case in cases if "name" in case]
    assert len(wrong) > 30
    for case in wrong:
        assert f"the saved work of a search is damaged (array '{case['name']}'" in case["said"], case
    (last,) = (case for case in cases if "twice" in case)
    assert last["twice"] == "tasks have roots of the saved work: expected each root once"
    assert "the saved work of the run continues on a whole graph, which does not fit" in last["in_parts"]
    assert last["kept"] == [7, 8, 9, 0]
    return rounds


@on_the_emulator
def test_saved_work_of_counts_is_continued_and_checked() -> None:
    """Frames and wide nodes, and nodes that waited on the host."""
    kinds = {kind for case in assert_no_leaf_is_lost([3]) for kind in case["kinds"]}
    assert kinds == {0, 1, 2}


@pytest.mark.slow
@on_the_emulator
def test_counts_ended_at_random_moments_are_right() -> None:
    rounds = assert_no_leaf_is_lost(range(100))
    assert sum(case["saved"] for case in rounds) > 100
    assert {kind for case in rounds for kind in case["kinds"]} == {0, 1, 2, 4, 5}


@on_the_emulator
def test_saved_work_is_continued_and_checked() -> None:
    """A giant root with nodes, and stacks within sizes."""
    assert_nothing_is_lost([4, 6])


@pytest.mark.slow
@on_the_emulator
def test_searches_ended_at_random_moments_find_each_biclique_once() -> None:
    assert_nothing_is_lost(range(100))


def test_saved_work_of_another_engine_is_refused() -> None:
    graph = BipartiteCSR.from_edges([0, 0, 1], [0, 1, 0], 2, 2)
    work = OpenWork(Roots("bicliques", 2, 7), "bicliques, cuda 1, mode 2", {})
    with pytest.raises(InvalidArgument, match="resume with the engine that saved it"):
        list(engine_cpu.run(graph, BicliqueQuery(), Execution(threads=1), Detail.MEMBERS, [work]))

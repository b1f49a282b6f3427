"""Several devices share a search: on the emulator, and the options of callers."""

from __future__ import annotations

import importlib.util
import json
from typing import Any

import pytest

from mbe_stage import CountSink, Execution, enumerate_into
from mbe_stage.errors import InvalidArgument
from mbe_stage.runners.devices import DeviceRunner
from tests.mbe_stage import graphs
from tests.mbe_stage.processes import run_module

on_the_emulator = pytest.mark.skipif(
    importlib.util.find_spec("greenlet") is None, reason="greenlet, of the group dev, is missing"
)


def emulated(part: str) -> dict[str, dict[str, Any]]:
    cases = {case["case"]: case for case in map(json.loads, run_module("emulated_devices", part).splitlines())}
    for case in cases.values():
        assert case.get("same", True), case
    return cases


@on_the_emulator
def test_work_is_handed_over_to_idle_devices() -> None:
    cases = emulated("few")
    # One device was dealt all roots.
    assert cases["stacks"]["given"] >= 4
    assert cases["nodes"]["given"] >= 4


@pytest.mark.slow
@on_the_emulator
def test_two_three_and_eight_devices_find_everything() -> None:
    cases = emulated("many")
    assert len(cases) == 8
    assert sum(case["given"] for case in cases.values()) > 20
    assert max(case["givers"] for case in cases.values()) > 1


@pytest.mark.slow
@on_the_emulator
def test_a_lost_device_neither_loses_nor_repeats_results() -> None:
    cases = emulated("lost")
    for name in ("lost after 1", "lost after 4"):
        assert cases[name]["warned"] == 1
    assert cases["all lost"]["told"] == "the memory of this device has an error"
    assert cases["handed on"]["error"] == cases["limited"]["error"] == "DeviceLost"
    assert "gpu:1" in cases["handed on"]["told"]
    assert cases["left out"]["warned"] == cases["left out"]["left"] == 1
    assert "gpu:1 (emulated): the CUDA engine needs 77 bytes" in cases["refused"]["told"]


@on_the_emulator
def test_work_saved_by_devices_is_continued_by_others() -> None:
    assert sum(case["saved"] for case in emulated("saved").values()) > 0


@pytest.mark.slow
@on_the_emulator
def test_devices_ended_and_lost_at_random_moments_find_each_biclique_once() -> None:
    cases = emulated("saved, many")
    assert len(cases) == 100
    assert sum(case["lost"] for case in cases.values()) > 10


@pytest.mark.slow
@on_the_emulator
def test_devices_reach_barriers() -> None:
    assert sum(case["markers"] for case in emulated("barriers").values()) >= 3


@pytest.mark.slow
@on_the_emulator
def test_limits_tasks_and_an_early_end() -> None:
    cases = emulated("limits")
    assert cases["limit"]["device"] == "cuda, 2 x emulated"
    assert len(cases) == 3


@pytest.mark.parametrize("devices", ["0", (), (-1,), ("a",), (0.5,)])
def test_devices_are_all_or_indices(devices: Any) -> None:
    with pytest.raises(InvalidArgument, match=r'devices is .*: expected "all", or numbers of GPUs such as \[0, 1\]'):
        Execution(devices=devices)


def test_devices_exclude_a_runner() -> None:
    with pytest.raises(InvalidArgument, match="a runner does the work: expected one of the two"):
        Execution(devices=[0], runner=object())  # type: ignore[arg-type]


def test_devices_are_of_the_engine_cuda() -> None:
    with pytest.raises(InvalidArgument, match=r"devices is \(0, 1\), and engine is 'cpu': expected 'cuda'"):
        enumerate_into(CountSink(), graphs.crown(4), None, Execution(devices=[0, 1]), "cpu")


@pytest.mark.parametrize("problem", ["cliques", "pq_counts"])
def test_an_engine_without_shared_devices_is_named(problem: str) -> None:
    runner = DeviceRunner([0, 1])
    with pytest.raises(InvalidArgument, match=f"engine cpu of {problem} does not share its work.*: leave devices out"):
        list(runner.run(problem, "cpu", None, None, Execution(), None))

"""Cliques from blocks in device memory to tables, as far as it runs without a GPU."""

from __future__ import annotations

import importlib.util
import itertools
import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from tests.mbe_stage.processes import run_module
from tests.rapids.on_numpy import imported


@pytest.mark.skipif(importlib.util.find_spec("greenlet") is None, reason="greenlet, of the group dev, is missing")
def test_tables_are_those_of_the_host_on_the_emulator(tmp_path: Path) -> None:
    lines = run_module("tests.rapids.emulated_cliques", str(tmp_path)).splitlines()
    cases = {line.pop("case"): line for line in map(json.loads, lines)}
    assert len(cases) == 14
    assert {name: case["ranks"] for name, case in cases.items() if case["ranks"]} == {
        "two devices": 2,
        "two devices, members": 2,
    }
    assert {name for name, case in cases.items() if case["sorted on the host"]} == {"sorted on the host"}
    assert {name for name, case in cases.items() if not case["cliques"]} == {"none", "none, sorted"}
    # An empty result is one part too.
    assert {case["parts"] for case in cases.values() if not case["cliques"]} == {1}
    assert min(cases[name]["parts"] for name in ("as found", "sorted", "sorted on the host")) > 2


@dataclass
class Results:
    """Results of the given sizes in bytes."""

    sizes: list[int]

    def __len__(self) -> int:
        return len(self.sizes)

    def part(self, start: int, stop: int) -> Results:
        return Results(self.sizes[start:stop])


@pytest.mark.parametrize("most_bytes", [1, 7, 10, 24, 1000])
@pytest.mark.parametrize("sizes", [[], [5], [5, 5, 5, 5], [3, 30, 4, 4, 4, 50], [24, 1, 23, 24]], ids=str)
def test_a_block_is_cut_before_the_limit_is_exceeded(
    sizes: list[int], most_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = imported("mbe_stage.pipeline.backends.cudf.block_cuts", monkeypatch)
    pieces = [each.sizes for each in rows.cut(Results(sizes), np.cumsum(sizes, dtype=np.int64), most_bytes)]
    assert [size for piece in pieces for size in piece] == sizes
    assert all(len(piece) == 1 or sum(piece) <= most_bytes for piece in pieces)
    assert all(pieces)
    assert all(sum(piece) + after[0] > most_bytes for piece, after in itertools.pairwise(pieces))

"""(p, q)-counts as frames of the device library, as far as it runs without a GPU."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest

from tests.mbe_stage.processes import run_module


@pytest.mark.skipif(importlib.util.find_spec("greenlet") is None, reason="greenlet, of the group dev, is missing")
def test_frames_are_the_published_tables_on_the_emulator(tmp_path: Path) -> None:
    lines = run_module("tests.rapids.emulated_pq_counts", str(tmp_path)).splitlines()
    cases = {line.pop("case"): line for line in map(json.loads, lines)}
    message = cases.pop("refused")["message"]
    assert len(cases) == 6
    assert cases["counts alone"]["rows"] == 9
    # C(140, 70), and C(139, 69) of each leaf and edge: 41 digits.
    assert {name for name, case in cases.items() if case["nulls"]} == {"beyond 38 digits"}
    assert cases["beyond 38 digits"] == {"rows": 1 + 141 + 140, "nulls": 1 + 141 + 140}
    assert message.startswith("local counts of edges need ")
    assert message.endswith(
        "and memory_budget is 1,000: raise it, ask for one count instead of 900, or set local to vertices"
    )

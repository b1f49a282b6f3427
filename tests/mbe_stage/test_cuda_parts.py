"""Parts of the kernels without a GPU: warp operations, closed-set bitmaps, rows as words."""

from __future__ import annotations

import importlib.util
import json

import pytest

from tests.mbe_stage.processes import run_module


@pytest.mark.skipif(importlib.util.find_spec("greenlet") is None, reason="greenlet, of the group dev, is missing")
def test_parts_equal_plain_models() -> None:
    held = json.loads(run_module("emulated_parts"))
    parts = {"warp", "positions", "arrays", "closed_sets", "packing", "rows", "accumulator", "places_of_keys", "enough"}
    assert set(held) == parts
    assert min(held.values()) >= 25, held

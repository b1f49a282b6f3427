"""Merged sums of disjoint parts in device memory equal the sums of the whole."""

from __future__ import annotations

import importlib.util

import pytest

from mbe_stage import BipartiteCSR
from tests.mbe_stage.processes import run_module
from tests.rapids.merged_summaries import cases, check


@pytest.mark.skipif(importlib.util.find_spec("greenlet") is None, reason="greenlet, of the group dev, is missing")
def test_merged_parts_equal_the_whole_on_the_emulator() -> None:
    assert run_module("tests.rapids.merged_summaries").splitlines() == list(cases())


@pytest.mark.gpu
@pytest.mark.parametrize("graph", cases().values(), ids=cases())
def test_merged_parts_equal_the_whole(graph: BipartiteCSR) -> None:
    check(graph)

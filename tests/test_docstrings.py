"""The examples in docstrings run, and print what they say; those that need a published run are marked to be skipped."""

from __future__ import annotations

import doctest
import importlib
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
EXAMPLES = sorted(
    ".".join(path.relative_to(ROOT).with_suffix("").parts)
    for package in ("mbe_stage", "pipeline", "flows")
    for path in (ROOT / package).rglob("*.py")
    if any(">>> " in line and "+SKIP" not in line for line in path.read_text(encoding="utf-8").splitlines())
)


def test_there_are_examples() -> None:
    assert len(EXAMPLES) > 5


@pytest.mark.parametrize("module", EXAMPLES)
def test_examples_of_docstrings(module: str) -> None:
    text = (ROOT / module.replace(".", "/")).with_suffix(".py").read_text(encoding="utf-8")
    for needed in ("cudf", "cupy"):
        if f"import {needed}" in text:
            pytest.importorskip(needed, reason=f"{needed} is not installed", exc_type=ImportError)
    failed, attempted = doctest.testmod(importlib.import_module(module))
    assert attempted > 0
    assert failed == 0

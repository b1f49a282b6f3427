"""Examples in docstrings run and print what they show; documented parameters exist.

Examples that need a published run are skipped.
"""

from __future__ import annotations

import ast
import doctest
import importlib
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
EXAMPLES = sorted(
    ".".join(path.relative_to(ROOT).with_suffix("").parts)
    for package in ("mbe_stage", "mbe_stage/pipeline", "mbe_stage/flows")
    for path in (ROOT / package).rglob("*.py")
    if any(">>> " in line and "+SKIP" not in line for line in path.read_text(encoding="utf-8").splitlines())
)


def test_there_are_examples() -> None:
    assert len(EXAMPLES) > 5


@pytest.mark.parametrize("module", EXAMPLES)
def test_examples_of_docstrings(module: str) -> None:
    text = (ROOT / module.replace(".", "/")).with_suffix(".py").read_text(encoding="utf-8")
    for needed in ("cudf", "cupy", "sklearn"):
        if re.search(rf"^ *(import|from) {needed}\b", text, re.MULTILINE):
            pytest.importorskip(needed, reason=f"{needed} is not installed", exc_type=ImportError)
    failed, attempted = doctest.testmod(importlib.import_module(module))
    assert attempted > 0
    assert failed == 0


def described(text: str) -> set[str]:
    """Return the names in a NumPy Parameters section: ``name, other : type``."""
    if "Parameters\n---" not in text:
        return set()
    section = re.split(r"\n[A-Z][a-z]+\n-{3,}", text.split("Parameters\n", 1)[1].split("\n", 1)[1])[0]
    lines = [line.split(" : ")[0] for line in section.splitlines() if line and not line.startswith(" ")]
    return {name for line in lines for name in re.findall(r"\w+", line)}


def functions() -> Iterator[tuple[str, ast.FunctionDef]]:
    for package in ("mbe_stage", "pipeline", "flows", "benchmarks"):
        for path in (ROOT / package).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.FunctionDef):
                    yield f"{path.relative_to(ROOT)}:{node.lineno} {node.name}", node


def test_documented_parameters_exist() -> None:
    unknown = {}
    for place, node in functions():
        given = {each.arg for each in ast.walk(node.args) if isinstance(each, ast.arg)}
        if missing := described(ast.get_docstring(node) or "") - given:
            unknown[place] = missing
    assert unknown == {}


def test_described_finds_the_parameters() -> None:
    text = "Do it.\n\nParameters\n----------\none, other : int\n    Both.\n*rest\n\nReturns\n-------\nsum : int\n"
    assert described(text) == {"one", "other", "rest"}

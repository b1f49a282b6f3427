"""Both frame backends implement one protocol in files of the same names; checked in the sources, without a GPU."""

from __future__ import annotations

import ast
import inspect
from pathlib import Path

import pytest

from mbe_stage.pipeline.backends import backend as protocol
from mbe_stage.pipeline.backends.arrow.backend import ArrowBackend

PIPELINE = Path(protocol.__file__).parents[1]
SHARED = {
    *("backend", "block_writer", "edges", "graph_facts", "hashes"),
    *("keys", "measures", "member_rows", "order", "parts", "rows"),
}
"""What both have; what only one needs, such as the plan of a device's memory, stands beside it."""


def modules(folder: str) -> set[str]:
    return {path.stem for path in (PIPELINE / folder).glob("*.py")} - {"__init__"}


def class_in(path: Path, name: str) -> dict[str, ast.FunctionDef | ast.Assign | None]:
    """Return a class's public members: methods, forwarded functions, and None for other attributes."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    (found,) = (node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == name)
    members: dict[str, ast.FunctionDef | ast.Assign | None] = {}
    for node in found.body:
        if isinstance(node, ast.FunctionDef):
            members[node.name] = node
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            members[node.target.id] = None
        elif isinstance(node, ast.Assign):
            members |= {target.id: node for target in node.targets if isinstance(target, ast.Name)}
    return {member: node for member, node in members.items() if not member.startswith("_")}


PROTOCOL = class_in(PIPELINE / "backends" / "backend.py", "Backend")


def test_the_same_things_have_the_same_file_names() -> None:
    assert modules("backends/arrow") >= SHARED <= modules("backends/cudf")
    assert modules("backends/arrow") & modules("backends/cudf") == SHARED
    for problem in ("bicliques", "cliques"):
        assert {"arrow", "cudf", "cudf_library"} <= modules(f"problems/{problem}")


@pytest.mark.parametrize(("folder", "name"), [("arrow", "ArrowBackend"), ("cudf", "CudfBackend")])
def test_a_backend_implements_exactly_the_protocol(folder: str, name: str) -> None:
    members = class_in(PIPELINE / "backends" / folder / "backend.py", name)
    assert set(members) - {"pool"} == set(PROTOCOL)
    for member, asked in PROTOCOL.items():
        answer = members[member]
        assert isinstance(asked, ast.FunctionDef)
        is_property = asked.decorator_list and len(asked.args.args) == 1
        assert (answer is None) == bool(is_property), member
        if isinstance(answer, ast.FunctionDef):
            assert len(answer.args.args) == len(asked.args.args), member


def test_the_protocol_is_the_one_that_is_parsed() -> None:
    assert set(PROTOCOL) == {name for name in vars(protocol.Backend) if not name.startswith("_")}
    assert len(PROTOCOL) > 20
    for name in PROTOCOL.keys() - {"name", "xp", "is_on_device", "edges"}:
        # Forwarded functions have no `self` and may name their arguments differently.
        takes, asked = (
            inspect.signature(each).parameters
            for each in (getattr(ArrowBackend(), name), getattr(protocol.Backend, name))
        )
        assert len(takes) == len(asked) - 1, name


def test_public_names_of_the_device_forward() -> None:
    assert modules("rapids") == {"graph_facts", "ingest", "library"}

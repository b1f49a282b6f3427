"""Functions are short, take few arguments and say what many are; exceptions are listed, and the lists only shrink."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
LONGEST = 60  # lines without the docstring
MOST_ARGUMENTS = 10
MOST_UNEXPLAINED = 5  # arguments that need no Parameters section
# Kernels, and commands whose arguments are their options.
MANY_ARGUMENTS = {
    "flows/command.py flow_command": 12,
    "mbe_stage/bicliques/cuda/twin_expansion_kernels.py expanded_lists_warp_per_tile": 11,
    "mbe_stage/device/two_hop.py walk_warp_per_neighbour": 11,
}

# Commands, whose arguments are explained by the help of their options.
WITHOUT_PARAMETERS = {
    "flows/command.py flow_command",
    "pipeline/cli/app.py diff",
    "pipeline/cli/app.py export",
    "pipeline/cli/app.py run",
    "pipeline/cli/app.py top",
    "pipeline/cli/app.py verify",
}


def trees() -> Iterator[tuple[Path, ast.Module]]:
    for package in ("mbe_stage", "pipeline", "flows"):
        for path in sorted((ROOT / package).rglob("*.py")):
            yield path.relative_to(ROOT), ast.parse(path.read_text(encoding="utf-8"))


def functions() -> Iterator[tuple[str, ast.FunctionDef]]:
    for path, tree in trees():
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef):
                yield f"{path} {node.name}", node


def unexplained() -> Iterator[str]:
    """Functions of many arguments that do not say what each is; the class may say it for its ``__init__``."""
    for path, tree in trees():
        nodes = list(ast.walk(tree))
        classes = [node for node in nodes if isinstance(node, ast.ClassDef) and has_parameters(node)]
        explained = {id(one) for node in classes for one in node.body if getattr(one, "name", "") == "__init__"}
        found = [node for node in nodes if isinstance(node, ast.FunctionDef) and id(node) not in explained]
        for node in found:
            if n_arguments(node) > MOST_UNEXPLAINED and not has_parameters(node):
                yield f"{path} {node.name}"


def has_parameters(node: ast.FunctionDef | ast.ClassDef) -> bool:
    return "Parameters\n----------" in (ast.get_docstring(node) or "")


def n_lines(function: ast.FunctionDef) -> int:
    has_docstring = ast.get_docstring(function, clean=False) is not None and len(function.body) > 1
    first, end = function.body[1 if has_docstring else 0].lineno, function.end_lineno
    assert end is not None
    return end - first + 1


def n_arguments(function: ast.FunctionDef) -> int:
    arguments = [*function.args.posonlyargs, *function.args.args]
    return len(arguments) - bool(arguments and arguments[0].arg in ("self", "cls"))


def test_functions_are_short() -> None:
    assert {name: n_lines(one) for name, one in functions() if n_lines(one) > LONGEST} == {}


def test_functions_take_few_arguments() -> None:
    """Those by keyword only do not count."""
    found = {name: n_arguments(one) for name, one in functions() if n_arguments(one) > MOST_ARGUMENTS}
    assert found == MANY_ARGUMENTS


def test_functions_of_many_arguments_say_what_each_is() -> None:
    """Those by keyword only do not count."""
    assert sorted(unexplained()) == sorted(WITHOUT_PARAMETERS)

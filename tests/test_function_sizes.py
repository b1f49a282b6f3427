"""Functions are short and take few arguments; those that are not yet are listed, and the list only shrinks."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
LONGEST = 60
MOST_ARGUMENTS = 10
# Lines without the docstring. Kernels, and commands whose arguments are their options.
LONG = {
    "mbe_stage/bicliques/cpu/sparse_build.py open_sparse_node": 108,
    "mbe_stage/bicliques/cuda/emit_list.py emit_list": 63,
    "mbe_stage/bicliques/cuda/share.py give_work": 63,
    "mbe_stage/bicliques/cuda/sparse_node.py visit_sparse_child": 66,
    "mbe_stage/bicliques/cuda/word_node.py walk_word_nodes": 99,
}
MANY_ARGUMENTS = {
    "flows/command.py enumerate_command": 11,
    "mbe_stage/bicliques/cpu/sparse_node.py _open_word_node": 11,
    "mbe_stage/bicliques/cuda/collapse.py collapse_twins_warp_per_tile": 12,
    "mbe_stage/bicliques/cuda/core.py peel_warp_per_vertex": 11,
    "mbe_stage/bicliques/cuda/emit.py _write_members": 12,
    "mbe_stage/bicliques/cuda/emit.py emit_below": 14,
    "mbe_stage/bicliques/cuda/expand_kernels.py expanded_lists_warp_per_tile": 11,
    "mbe_stage/bicliques/cuda/sparse_word.py _split_rows": 11,
    "mbe_stage/bicliques/cuda/sparse_word.py open_word_frame": 11,
    "mbe_stage/bicliques/cuda/whole_graph.py _fill_rows": 14,
    "mbe_stage/bicliques/cuda/whole_graph.py write_whole_graph_warp_per_tile": 20,
    "mbe_stage/bicliques/cuda/word_node.py _look_around": 11,
    "mbe_stage/device/two_hop.py walk_warp_per_neighbour": 11,
    "pipeline/cli.py enumerate_": 37,
    "pipeline/cli.py inspect": 30,
    "pipeline/diff/kernels.py compare_prefixes": 29,
    "pipeline/diff/kernels.py count_shared": 23,
    "pipeline/diff/kernels.py take_pairs": 11,
    "pipeline/diff/one_apart.py probe": 17,
    "pipeline/diff/rows.py _translated": 11,
    "pipeline/verify/closure.py _closures": 12,
}


def functions() -> Iterator[tuple[str, ast.FunctionDef]]:
    for package in ("mbe_stage", "pipeline", "flows"):
        for path in sorted((ROOT / package).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.FunctionDef):
                    yield f"{path.relative_to(ROOT)} {node.name}", node


def n_lines(function: ast.FunctionDef) -> int:
    has_docstring = ast.get_docstring(function, clean=False) is not None and len(function.body) > 1
    first, end = function.body[1 if has_docstring else 0].lineno, function.end_lineno
    assert end is not None
    return end - first + 1


def n_arguments(function: ast.FunctionDef) -> int:
    arguments = [*function.args.posonlyargs, *function.args.args]
    return len(arguments) - bool(arguments and arguments[0].arg in ("self", "cls"))


def test_functions_are_short() -> None:
    assert {name: n_lines(one) for name, one in functions() if n_lines(one) > LONGEST} == LONG


def test_functions_take_few_arguments() -> None:
    """Those by keyword only do not count."""
    found = {name: n_arguments(one) for name, one in functions() if n_arguments(one) > MOST_ARGUMENTS}
    assert found == MANY_ARGUMENTS

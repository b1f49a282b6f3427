"""Where things stand: the files that every problem has, what imports each other, who starts processes in tests."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
# A problem's folder holds these, and whatever else it takes.
FILES = {
    "__init__.py": "what the problem is",
    "problem.py": "what it says of itself",
    "reference.py": "the specification",
    "results.py": "its blocks and sinks",
    "engine_cpu.py": "on the host",
    "engine_cuda.py": "on a GPU",
}
PROBLEMS = (
    *(f"mbe_stage/{name}" for name in ("bicliques", "bicliques/best", "cliques", "pq_counts", "shared_neighbours")),
    "tests/toys/butterflies",
)
# What a problem has not yet. This list only shrinks.
NOT_YET: dict[str, set[str]] = {}
# Modules that lead to each other by imports of any kind, in functions and for annotations too. This list only shrinks.
CIRCLES: dict[str, list[list[str]]] = {
    # `BicliqueBlock` is made of blocks of a device, for which it asks `cuda.blocks`.
    "mbe_stage": [["mbe_stage.bicliques.cuda.blocks", "mbe_stage.bicliques.results"]],
    "pipeline": [
        ["mbe_stage.pipeline.stores.remote_staging", "mbe_stage.pipeline.stores.remote_store"],
    ],
    # The command of each flow imports it when it is asked for: Prefect takes seconds.
    "flows": [
        [
            "mbe_stage.flows.command",
            "mbe_stage.flows.enumerate",
            "mbe_stage.flows.groups",
        ]
    ],
}
# The only files that may use names that numba-cuda does not offer in public, and LLVM's language.
PRIVATE_NUMBA_CUDA = "mbe_stage/device/numba_private.py"
CUDA_INTRINSICS = "mbe_stage/device/intrinsics.py"
LLVMLITE = {
    CUDA_INTRINSICS: "instructions of a GPU",
    "mbe_stage/bits.py": "instructions of a processor",
    "mbe_stage/bicliques/cpu/prefetch.py": "loads ahead of their use",
    "mbe_stage/bicliques/cpu/word_vectors.py": "vectors of eight rows",
    "mbe_stage/runtime/jit.py": "its version is part of the names of machine code",
}
# Attributes of numba-cuda's dispatchers and kernels; those of Numba itself in `runtime/jit.py` have the same names.
PRIVATE_NAMES = {"_Kernel", "_codelibrary", "_reduce_states", "get_cufunc", "launch_config_sensitive"}
PRIVATE_NAMES_OF_BOTH = {"_cache", "_rebuild", "overloads", "targetctx"}
NUMBA_ON_THE_HOST = "mbe_stage/runtime/jit.py"
LAYERS_ABOVE = ("mbe_stage.pipeline", "mbe_stage.flows")
# Files of `tests` that start processes by themselves, or wait for one without a limit, and why.
START_PROCESSES = {
    "tests/patience.py": "what the others start them with",
    "tests/command_nursery.py": "forks commands, which end with it",
    "tests/pipeline/nursery.py": "forks what it was started for by these, and ends with it",
    "tests/pipeline/scheduler_nursery.py": "the same",
}
# Folders of tests that are not called as what they are about.
TESTS_OF = {"tests/rapids": "pipeline/backends/cudf"}
STARTS = {
    *(f"os.{name}" for name in ("system", "popen", "fork", "spawnv", "spawnve", "posix_spawn")),
    *(f"subprocess.{name}" for name in ("run", "call", "check_call", "check_output", "getoutput", "Popen")),
}


@pytest.mark.parametrize("problem", PROBLEMS)
def test_every_problem_has_the_same_files(problem: str) -> None:
    missing = {name for name in FILES if not (ROOT / problem / name).is_file()}
    assert missing == NOT_YET.get(problem, set()), f"{problem}: {missing} missing, which every problem has"


def test_no_problem_is_forgotten_here() -> None:
    """A folder with a `problem.py` is one."""
    found = {
        path.parent.relative_to(ROOT).as_posix()
        for package in ("mbe_stage", "tests/toys")
        for path in (ROOT / package).rglob("problem.py")
        if path.parent != ROOT / "mbe_stage"
    }
    assert found == set(PROBLEMS)


def modules(package: str) -> dict[str, Path]:
    """By the names that they are imported by; a package is its `__init__.py`."""
    found = {}
    for path in sorted((ROOT / package).rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        # `mbe_stage/pipeline` and `mbe_stage/flows` are links to the folders at the top.
        parts = parts if parts[0] == "mbe_stage" else ("mbe_stage", *parts)
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return {name: path for name, path in found.items() if package != "mbe_stage" or not name.startswith(LAYERS_ABOVE)}


def imported(path: Path, known: dict[str, Path]) -> set[str]:
    """The modules of `known` that a file imports anywhere; of ``from package import module``, the module."""
    names = set()
    for statement in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(statement, ast.Import):
            names |= {alias.name for alias in statement.names}
        elif isinstance(statement, ast.ImportFrom):
            assert statement.level == 0, f"{path}: imports are absolute here"
            of = statement.module or ""
            names |= {f"{of}.{alias.name}" if f"{of}.{alias.name}" in known else of for alias in statement.names}
    return names & known.keys()


def circles(package: str) -> list[list[str]]:
    """Sets of modules of which each leads to each other: strongly connected components (Tarjan 1972)."""
    known = modules(package)
    edges = {name: imported(path, known) for name, path in known.items()}
    assert any(edges.values()), f"no file of {package} imports another: their names are others"
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found = [[name] for name in known if name in edges[name]]

    def visit(name: str) -> None:
        index[name] = low[name] = len(index)
        stack.append(name)
        for other in sorted(edges[name]):
            if other not in index:
                visit(other)
            if other in stack:
                low[name] = min(low[name], low[other])
        if low[name] == index[name]:
            component = stack[stack.index(name) :]
            del stack[stack.index(name) :]
            if len(component) > 1:
                found.append(sorted(component))

    for name in known:
        if name not in index:
            visit(name)
    return sorted(found)


@pytest.mark.parametrize("package", CIRCLES)
def test_files_import_each_other_in_no_circle(package: str) -> None:
    assert len(modules(package)) > 10
    found = circles(package)
    assert found == CIRCLES[package], f"in a circle now: {json.dumps(found, indent=1)}"


def test_tests_stand_where_the_source_does() -> None:
    """Where a folder has tests, they are of the source's folder of the same path."""
    folders = {path.parent for path in (ROOT / "tests").rglob("test_*.py")} - {ROOT / "tests"}
    of = {folder.relative_to(ROOT).as_posix(): folder.relative_to(ROOT / "tests").as_posix() for folder in folders}
    lost = sorted(name for name, source in of.items() if not (ROOT / TESTS_OF.get(name, source)).is_dir())
    assert not lost, f"tests of what is elsewhere, or nowhere: {', '.join(lost)}"
    assert {"mbe_stage", "pipeline", "flows"} <= set(of.values())
    assert TESTS_OF.keys() <= of.keys()


def modules_imported(tree: ast.AST) -> set[str]:
    """The modules that a file imports anywhere; of ``from package import name``, both readings."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found |= {str(node.module), *(f"{node.module}.{alias.name}" for alias in node.names)}
    return found


def private_to_numba_cuda(tree: ast.AST, *, names: set[str]) -> list[str]:
    """What a file uses of numba-cuda, or of cuda.core below it, that is not `numba.cuda` itself."""
    prefixes = ("numba.cuda.", "numba_cuda", "cuda.core")
    modules = [name for name in modules_imported(tree) if name.startswith(prefixes)]
    attributes = [node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute) and node.attr in names]
    return sorted(modules + attributes)


def test_one_file_uses_the_private_api_of_numba_cuda() -> None:
    found = {}
    for package in ("mbe_stage", "pipeline", "flows"):
        for path in sorted((ROOT / package).rglob("*.py")):
            place = path.relative_to(ROOT).as_posix()
            names = PRIVATE_NAMES | (set() if place == NUMBA_ON_THE_HOST else PRIVATE_NAMES_OF_BOTH)
            text = path.read_text(encoding="utf-8")
            # Most files need not be parsed.
            if any(word in text for word in ("cuda", *names)) and (
                used := private_to_numba_cuda(ast.parse(text), names=names)
            ):
                found[place] = used
    assert found.pop(CUDA_INTRINSICS) == ["numba.cuda.extending", "numba.cuda.extending.intrinsic"]
    assert found.keys() == {PRIVATE_NUMBA_CUDA}, f"use {PRIVATE_NUMBA_CUDA}: {json.dumps(found, indent=1)}"


def test_few_files_speak_the_language_of_llvm() -> None:
    found = {
        path.relative_to(ROOT).as_posix()
        for package in ("mbe_stage", "pipeline", "flows")
        for path in (ROOT / package).rglob("*.py")
        if "llvmlite" in (text := path.read_text("utf-8"))
        and any(name.split(".")[0] == "llvmlite" for name in modules_imported(ast.parse(text)))
    }
    assert found == LLVMLITE.keys()


def processes_by_itself(tree: ast.AST) -> list[str]:
    """Calls that start a process, and calls that wait for one, or for anything, without a limit."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            # What is imported by name could be called by any.
            names = [f"{node.module}.{alias.name}" for alias in node.names]
            found += [f"line {node.lineno}: import of {name}" for name in names if name in STARTS]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            # communicate(input, timeout), wait(timeout)
            before_limit = {"communicate": 1, "wait": 0}.get(node.func.attr, -1)
            is_limited = len(node.args) > before_limit or any(keyword.arg == "timeout" for keyword in node.keywords)
            if not is_limited or ast.unparse(node.func) in STARTS:
                found.append(f"line {node.lineno}: {ast.unparse(node.func)}")
    return found


def test_processes_of_tests_have_a_limit_and_an_end() -> None:
    """What hangs is ended and shown, and what is endless ends with its test, where `tests/patience.py` starts it."""
    found = {
        path.relative_to(ROOT).as_posix(): calls
        for path in sorted((ROOT / "tests").rglob("*.py"))
        if (calls := processes_by_itself(ast.parse(path.read_text(encoding="utf-8"))))
    }
    assert found.keys() == START_PROCESSES.keys(), f"use tests/patience.py: {json.dumps(found, indent=1)}"


@pytest.mark.parametrize(
    ("code", "n"),
    [
        ("subprocess.run(command, timeout=3)", 1),
        ("subprocess.check_output(command)", 1),
        ("from subprocess import Popen as P", 1),
        ("os.system(command)", 1),
        ("process.communicate()", 1),
        ("process.communicate(b'y')", 1),
        ("process.communicate(timeout=3)", 0),
        ("self.process.wait()", 1),
        ("event.wait(3); process.wait(timeout=3)", 0),
        ("completed(command); output_of(process)", 0),
        ("def f() -> subprocess.Popen: ...", 0),
    ],
)
def test_what_starts_or_waits_is_seen(code: str, n: int) -> None:
    assert len(processes_by_itself(ast.parse(code))) == n

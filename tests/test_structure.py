"""Structure: the files of every problem, import cycles, and which tests start processes."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
# Every problem's folder has these files; others are optional.
FILES = {
    "__init__.py": "public names",
    "problem.py": "definition",
    "reference.py": "the specification",
    "results.py": "its blocks and sinks",
    "engine_cpu.py": "engine on the host",
    "engine_cuda.py": "engine on a GPU",
}
PROBLEMS = (
    *(f"mbe_stage/{name}" for name in ("bicliques", "bicliques/best", "cliques", "pq_counts", "shared_neighbours")),
    "tests/toys/butterflies",
)
# Missing files by problem. This list only shrinks.
NOT_YET: dict[str, set[str]] = {}
# Import cycles, including imports in functions and for annotations. This list only shrinks.
CIRCLES: dict[str, list[list[str]]] = {
    # `BicliqueBlock` uses `cuda.blocks` for blocks of a device.
    "mbe_stage": [["mbe_stage.bicliques.cuda.blocks", "mbe_stage.bicliques.results"]],
    "pipeline": [
        ["mbe_stage.pipeline.stores.remote_staging", "mbe_stage.pipeline.stores.remote_store"],
    ],
    # Commands import their flow lazily: Prefect takes seconds.
    "flows": [
        [
            "mbe_stage.flows.command",
            "mbe_stage.flows.enumerate",
            "mbe_stage.flows.groups",
        ]
    ],
}
# The only files that may use private names of numba-cuda, or LLVM IR.
PRIVATE_NUMBA_CUDA = "mbe_stage/device/numba_private.py"
CUDA_INTRINSICS = "mbe_stage/device/intrinsics.py"
LLVMLITE = {
    CUDA_INTRINSICS: "instructions of a GPU",
    "mbe_stage/bits.py": "instructions of a processor",
    "mbe_stage/bicliques/cpu/prefetch.py": "loads ahead of their use",
    "mbe_stage/bicliques/cpu/word_vectors.py": "vectors of eight rows",
    "mbe_stage/runtime/jit.py": "its version is part of the names of machine code",
}
# Attributes of numba-cuda's dispatchers and kernels; Numba's own in `runtime/jit.py` have the same names.
PRIVATE_NAMES = {"_Kernel", "_codelibrary", "_reduce_states", "get_cufunc", "launch_config_sensitive"}
PRIVATE_NAMES_OF_BOTH = {"_cache", "_rebuild", "overloads", "targetctx"}
NUMBA_ON_THE_HOST = "mbe_stage/runtime/jit.py"
LAYERS_ABOVE = ("mbe_stage.pipeline", "mbe_stage.flows")
# Test files that start processes themselves, or wait without a limit, and why.
START_PROCESSES = {
    "tests/patience.py": "starts those of all other tests",
    "tests/command_nursery.py": "forks commands that end with it",
    "tests/pipeline/nursery.py": "forks what it was started for by these, and ends with it",
    "tests/pipeline/scheduler_nursery.py": "the same",
}
# Test folders whose names differ from the source's.
TESTS_OF = {"tests/rapids": "pipeline/backends/cudf"}
STARTS = {
    *(f"os.{name}" for name in ("system", "popen", "fork", "spawnv", "spawnve", "posix_spawn")),
    *(f"subprocess.{name}" for name in ("run", "call", "check_call", "check_output", "getoutput", "Popen")),
}


@pytest.mark.parametrize("problem", PROBLEMS)
def test_every_problem_has_the_same_files(problem: str) -> None:
    missing = {name for name in FILES if not (ROOT / problem / name).is_file()}
    assert missing == NOT_YET.get(problem, set()), f"{problem}: {missing} missing, required of every problem"


def test_every_problem_is_listed() -> None:
    """A folder is a problem if it has a `problem.py`."""
    found = {
        path.parent.relative_to(ROOT).as_posix()
        for package in ("mbe_stage", "tests/toys")
        for path in (ROOT / package).rglob("problem.py")
        if path.parent != ROOT / "mbe_stage"
    }
    assert found == set(PROBLEMS)


def modules(package: str) -> dict[str, Path]:
    """Return paths by import name; a package's is its `__init__.py`."""
    found = {}
    for path in sorted((ROOT / package).rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        # `mbe_stage/pipeline` and `mbe_stage/flows` are links to the folders at the top.
        parts = parts if parts[0] == "mbe_stage" else ("mbe_stage", *parts)
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return {name: path for name, path in found.items() if package != "mbe_stage" or not name.startswith(LAYERS_ABOVE)}


def imported(path: Path, known: dict[str, Path]) -> set[str]:
    """Return the modules of `known` that a file imports anywhere; for ``from package import module``, the module."""
    names = set()
    for statement in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(statement, ast.Import):
            names |= {alias.name for alias in statement.names}
        elif isinstance(statement, ast.ImportFrom):
            assert statement.level == 0, f"{path}: expected absolute imports"
            of = statement.module or ""
            names |= {f"{of}.{alias.name}" if f"{of}.{alias.name}" in known else of for alias in statement.names}
    return names & known.keys()


def circles(package: str) -> list[list[str]]:
    """Return sets of mutually reachable modules: strongly connected components (Tarjan 1972)."""
    known = modules(package)
    edges = {name: imported(path, known) for name, path in known.items()}
    assert any(edges.values()), f"no file of {package} imports another: expected other module names"
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
def test_there_are_no_new_import_cycles(package: str) -> None:
    assert len(modules(package)) > 10
    found = circles(package)
    assert found == CIRCLES[package], f"import cycles: {json.dumps(found, indent=1)}"


def test_test_folders_mirror_the_source() -> None:
    """A test folder has the path of the source folder that it tests."""
    folders = {path.parent for path in (ROOT / "tests").rglob("test_*.py")} - {ROOT / "tests"}
    of = {folder.relative_to(ROOT).as_posix(): folder.relative_to(ROOT / "tests").as_posix() for folder in folders}
    lost = sorted(name for name, source in of.items() if not (ROOT / TESTS_OF.get(name, source)).is_dir())
    assert not lost, f"no source folder of the same path: {', '.join(lost)}"
    assert {"mbe_stage", "pipeline", "flows"} <= set(of.values())
    assert TESTS_OF.keys() <= of.keys()


def modules_imported(tree: ast.AST) -> set[str]:
    """Return the modules that a file imports anywhere; for ``from package import name``, both readings."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found |= {str(node.module), *(f"{node.module}.{alias.name}" for alias in node.names)}
    return found


def private_to_numba_cuda(tree: ast.AST, *, names: set[str]) -> list[str]:
    """Return uses of numba-cuda, or of cuda.core below it, outside `numba.cuda` itself."""
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
            # Skip parsing most files.
            if any(word in text for word in ("cuda", *names)) and (
                used := private_to_numba_cuda(ast.parse(text), names=names)
            ):
                found[place] = used
    assert found.pop(CUDA_INTRINSICS) == ["numba.cuda.extending", "numba.cuda.extending.intrinsic"]
    assert found.keys() == {PRIVATE_NUMBA_CUDA}, f"use {PRIVATE_NUMBA_CUDA}: {json.dumps(found, indent=1)}"


def test_few_files_use_llvmlite() -> None:
    found = {
        path.relative_to(ROOT).as_posix()
        for package in ("mbe_stage", "pipeline", "flows")
        for path in (ROOT / package).rglob("*.py")
        if "llvmlite" in (text := path.read_text("utf-8"))
        and any(name.split(".")[0] == "llvmlite" for name in modules_imported(ast.parse(text)))
    }
    assert found == LLVMLITE.keys()


def processes_by_itself(tree: ast.AST) -> list[str]:
    """Return calls that start a process or wait without a limit."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            # Imported names could be called under any alias.
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
    """`tests/patience.py` limits and ends the processes that it starts."""
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
def test_starts_and_waits_are_detected(code: str, n: int) -> None:
    assert len(processes_by_itself(ast.parse(code))) == n

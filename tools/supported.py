"""Run chosen tests under each supported Python: ``python tools/supported.py [SET]...``, such as ``3.12-newest``.

Sets: the newest versions of all dependencies for each Python, and the oldest declared ones with the oldest Python.
Flows need newer versions of some, so their extra is added last. Each set has an environment below build/supported.
Missing interpreters are reported.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BUILD = ROOT / "build" / "supported"
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
SETS = ("3.11-oldest", *(f"{python}-newest" for python in PYTHONS))
# Test libraries. They do not replace a version of the set.
FOR_TESTS = ("duckdb", "greenlet", "hypothesis", "networkx", "pandas", "polars", "pytest", "pytest-timeout")
TESTS = {
    "engines": (
        "tests/mbe_stage/test_engines.py",
        "tests/mbe_stage/test_enumerate.py",
        "tests/mbe_stage/cliques/test_cliques.py",
        "tests/mbe_stage/pq_counts/test_counts.py",
    ),
    "readers": ("tests/pipeline/test_io_formats.py", "tests/pipeline/test_ingest.py", "tests/pipeline/test_sources.py"),
    "publication": ("tests/pipeline/test_run.py", "tests/pipeline/test_publish.py", "tests/pipeline/test_tables.py"),
    "a flow": ("tests/flows/test_flow_example.py",),
}
SHOWN = ("numpy", "numba", "pyarrow", "pydantic", "prefect")


def main(*names: str) -> int:
    """Run the tests of the named sets, or of all, and print a table."""
    unknown = [name for name in names if name not in SETS]
    if unknown:
        sys.exit(f"unknown sets: {', '.join(unknown)}; expected some of {', '.join(SETS)}")
    rows = [(name, *_tested(name)) for name in names or SETS]
    print("\n| set | " + " | ".join((*SHOWN, *TESTS)) + " |\n" + "|---" * (1 + len(SHOWN) + len(TESTS)) + "|")
    for row in rows:
        print("| " + " | ".join(row) + " |")
    return int(any("failed" in cell for row in rows for cell in row))


def _tested(name: str) -> list[str]:
    """Return the versions and one result per group of tests."""
    number, kind = name.split("-")
    empty = [""] * (len(SHOWN) + len(TESTS) - 1)
    interpreter = shutil.which(f"python{number}")
    if interpreter is None or _fails([interpreter, "--version"], name):
        return ["not installed here", *empty]
    python = BUILD / name / "bin" / "python"
    dev = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["dependency-groups"]["dev"]
    tools = [each for each in dev if re.split(r"[^\w-]", each)[0] in FOR_TESTS]
    resolution = "lowest-direct" if kind == "oldest" else "highest"
    frozen = BUILD / f"{name}.txt"
    project = [*_install(python), "--resolution", resolution, "--editable"]
    if _fails(["uv", "venv", "--clear", "--python", interpreter, str(BUILD / name)], name):
        return ["no environment", *empty]
    if _fails([*project, "."], name):
        return ["failed to install", *empty]
    frozen.write_text(_freeze(python), encoding="utf-8")
    if _fails([*_install(python), "--constraint", str(frozen), *tools], name):
        return ["failed to install the tests' libraries", *empty]
    results = []
    for group, files in TESTS.items():
        is_ready = group != "a flow" or not _fails([*project, ".[flows]"], name)
        passed = is_ready and not _fails([str(python), "-m", "pytest", "-q", *files], name)
        results.append("passed" if passed else "failed")
    # Versions of the flow's libraries come from the last state, all others from the first.
    listed = _freeze(python) + frozen.read_text(encoding="utf-8")
    versions = dict(line.split("==") for line in listed.splitlines() if "==" in line)
    return [versions.get(each, "?") for each in SHOWN] + results


def _freeze(python: Path) -> str:
    command = ["uv", "pip", "freeze", "--python", str(python), "--exclude-editable"]
    return subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True).stdout


def _install(python: Path) -> list[str]:
    return ["uv", "pip", "install", "--python", str(python)]


def _fails(command: list[str], name: str) -> bool:
    """Run a command. Its output goes to a file, whose end is shown if the command fails."""
    BUILD.mkdir(parents=True, exist_ok=True)
    log = BUILD / f"{name}.log"
    print(f"{name}: {' '.join(command)}"[:160], flush=True)
    with log.open("a", encoding="utf-8") as file:
        file.write(f"$ {' '.join(command)}\n")
        file.flush()
        # Another environment's settings must not reach this one.
        kept = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "VIRTUAL_ENV"))}
        code = subprocess.run(command, cwd=ROOT, stdout=file, stderr=subprocess.STDOUT, env=kept).returncode
    if code:
        print("\n".join(log.read_text(encoding="utf-8", errors="replace").splitlines()[-15:]), flush=True)
    return code != 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))

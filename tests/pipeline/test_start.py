"""Modules that `mbe` imports, and when."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from mbe_stage.pipeline import Config, run
from tests.patience import completed

ROOT = Path(__file__).parents[2]
HEAVY = {"numba", "numpy", "prefect", "pyarrow", "rich", "scipy", "yaml"}
# Modules not imported by commands that only read runs, and further ones that a list of runs does not need.
NOT_TO_READ = {"asyncio", "llvmlite", "numba", "pandas", "prefect", "scipy", "yaml"}
NOT_TO_LIST = NOT_TO_READ | {"numpy", "pyarrow"}
# Modules that find the problems of other packages.
LIGHT = {
    "mbe_stage.bicliques",
    "mbe_stage.bicliques.best",
    "mbe_stage.bicliques.best.problem",
    "mbe_stage.bicliques.problem",
    "mbe_stage.cliques",
    "mbe_stage.cliques.problem",
    "mbe_stage.errors",
    "mbe_stage.integers",
    "mbe_stage.itemsets",
    "mbe_stage.itemsets.runs",
    "mbe_stage.lazy_names",
    "mbe_stage.pq_counts",
    "mbe_stage.pq_counts.problem",
    "mbe_stage.problem",
    "mbe_stage.shared_neighbours",
    "mbe_stage.shared_neighbours.problem",
}

# Prints the packages that a step has imported from.
_NEW_IN_READING = """
import sys
from mbe_stage.pipeline import Config, count
from mbe_stage.pipeline.execution import steps

def ingest(*given):
    before = set(sys.modules)
    edges = real(*given)
    print(*sorted({name.partition(".")[0] for name in set(sys.modules) - before} - sys.stdlib_module_names))
    return edges

real, steps.ingest = steps.ingest, ingest
count(Config.from_mapping({"input": {"path": sys.argv[1]}, "execution": {"engine": "cpu"}}))
"""


def in_a_new_process(code: str, *arguments: object) -> str:
    return completed([sys.executable, "-c", code, *arguments], cwd=ROOT, check=True).stdout.strip()


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("edges.csv", "left,right\na,b\na,c\n"),
        pytest.param("out.edges", "% bip unweighted\n1 1\n1 2\n", marks=pytest.mark.slow),
    ],
)
def test_imports_are_no_part_of_reading(tmp_path: Path, name: str, content: str) -> None:
    path = tmp_path / name
    path.write_text(content)
    assert in_a_new_process(_NEW_IN_READING, path) == ""


def test_listing_what_other_packages_bring_imports_nothing_heavy(installed_environment: dict[str, str]) -> None:
    code = (
        "import sys; from mbe_stage.pipeline.cli.entry import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        f"print('imported:', {HEAVY!r} & set(sys.modules), 'tests.toys.butterflies.problem' in sys.modules)"
    )
    imported = {}
    for option in ("--help", "--version"):
        done = completed([sys.executable, "-c", code, option], env=installed_environment, check=True)
        imported[option] = done.stdout.splitlines()[-1]
        assert ("butterflies  " in done.stdout) == (option == "--help")
    assert imported == {"--help": "imported: set() True", "--version": "imported: set() False"}


@pytest.mark.parametrize("arguments", [["enumerate", "--help"], ["--version"]])
def test_help_and_version_import_nothing_heavy(arguments: list[str]) -> None:
    code = (
        "import sys; from mbe_stage.pipeline.cli.entry import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "ours = {name for name in sys.modules if name.startswith('mbe_stage.')}\n"
        "heavy = {name for name in ours if not name.startswith('mbe_stage.pipeline')}\n"
        f"print('imported:', ({HEAVY!r} & set(sys.modules)) | (heavy - {LIGHT!r}))"
    )
    shown = in_a_new_process(code, *arguments)
    assert shown.startswith("mbe ") or "Usage: " in shown
    assert shown.splitlines()[-1] == "imported: set()"


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("start")
    edges = directory / "edges.csv"
    edges.write_text("left,right\na,b\na,c\nd,b\nd,c\n")
    config = {"input": {"path": str(edges)}, "output": {"directory": str(directory / "out")}}
    run(Config.from_mapping(config | {"execution": {"engine": "reference"}}))
    return directory / "out"


@pytest.mark.parametrize(
    ("arguments", "avoided"),
    [
        (["runs", "--json"], NOT_TO_LIST | {"rich"}),
        (["top", "--json"], NOT_TO_READ | {"rich"}),
        (["top", "--vertex", "a"], NOT_TO_READ - {"pandas"}),
        (["export", "--csv", "--quiet"], NOT_TO_READ - {"pandas"}),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_reading_imports_only_what_it_needs(out: Path, arguments: list[str], avoided: set[str]) -> None:
    code = (
        "import sys; from mbe_stage.pipeline.cli.entry import main\n"
        "try: main()\n"
        "except SystemExit as end: assert not end.code\n"
        f"print('imported:', {avoided!r} & set(sys.modules))"
    )
    shown = in_a_new_process(code, arguments[0], out, *arguments[1:])
    assert shown.splitlines()[-1] == "imported: set()"
    assert len(shown.splitlines()) > 1


@pytest.mark.parametrize(
    ("arguments", "fast"),
    [(["runs", "DIR"], True), (["enumerate", "runs", "--min-left", "0"], False)],
    ids=str,
)
def test_only_commands_that_compute_nothing_start_with_less_work(arguments: list[str], fast: bool) -> None:
    code = (
        "import gc, os; from mbe_stage.pipeline.cli.entry import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "print('fast:', gc.get_threshold()[0] >= 500_000, 'OPENBLAS_NUM_THREADS' in os.environ)"
    )
    unset = {name: value for name, value in os.environ.items() if name != "OPENBLAS_NUM_THREADS"}
    shown = completed([sys.executable, "-c", code, *arguments], cwd=ROOT, env=unset, check=True).stdout
    assert shown.splitlines()[-1] == f"fast: {fast} {fast}"

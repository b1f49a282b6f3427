"""Every import is declared: in the dependencies, in the extra of its module, or in the test group."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
OURS = {"mbe_stage", "pipeline", "flows", "tests", "benchmarks", "examples", "tools"}
# Extras of modules by package; everything may import the dependencies.
EXTRAS = {
    "mbe_stage": ("cuda",),
    "pipeline": ("cuda", "rapids-cu13", "object-stores", "filesystems", "explore", "sklearn"),
    "flows": ("flows", "flows-dask"),
    "tests": ("cuda", "rapids-cu13", "flows", "sklearn"),
    "benchmarks": ("cuda", "rapids-cu13", "flows"),
    "examples": ("cuda", "rapids-cu13", "flows"),
}
# Distributions whose modules have other names.
BROUGHT_BY = {
    "yaml": "pyyaml",
    "prefect_dask": "prefect-dask",
    "numba_cuda": "numba-cuda",
    "cuda": "numba-cuda",
    "cupy": "cupy-cuda13x",
    "cudf": "cudf-cu13",
    "pylibcudf": "cudf-cu13",
    "rmm": "cudf-cu13",
    "cugraph": "cugraph-cu13",
    "pylibcugraph": "cugraph-cu13",
    "annotated_types": "annotated-types",
    "pydantic_core": "pydantic-core",
    "pytest_timeout": "pytest-timeout",
    "axe_playwright_python": "axe-playwright-python",
    "markdown_it": "markdown-it-py",
    "sklearn": "scikit-learn",
    "fim": "pyfim",
}
# Libraries of the objects that callers pass in, and of the methods that benchmarks compare with.
HANDED_OVER = {"pipeline": {"networkx", "polars"}, "benchmarks": {"igraph"}}
# Packages that tests write themselves.
WRITTEN = {"module_that_is_interrupted"}


def names(requirements: list[str]) -> set[str]:
    """Return the distributions' names without versions and extras."""
    return {re.match(r"[\w.-]+", one).group() for one in requirements}  # type: ignore[union-attr]


def declared(package: str) -> set[str]:
    optional = PROJECT["project"]["optional-dependencies"]
    found = names(PROJECT["project"]["dependencies"]).union(*(names(optional[extra]) for extra in EXTRAS[package]))
    groups = PROJECT["dependency-groups"]
    if package in ("mbe_stage", "pipeline", "flows"):
        return found
    return found | names(groups["dev"]) | (names(groups["bench"]) if package == "benchmarks" else set())


def imported(package: str) -> dict[str, str]:
    """Return each library that files below a package import, with one of the files."""
    beside = {path.stem for path in (ROOT / package).rglob("*.py")} if package == "tests" else set()
    found: dict[str, str] = {}
    for path in sorted((ROOT / package).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            modules = []
            if isinstance(node, ast.Import):
                modules = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                modules = [node.module or ""]
            for module in modules:
                top = module.partition(".")[0]
                if top not in OURS | WRITTEN | beside | sys.stdlib_module_names:
                    found.setdefault(top, path.relative_to(ROOT).as_posix())
    return found


@pytest.mark.parametrize("package", EXTRAS)
def test_imports_are_declared(package: str) -> None:
    there = declared(package)
    missing = {
        f"{module}, in {path}"
        for module, path in imported(package).items()
        if BROUGHT_BY.get(module, module) not in there and module not in HANDED_OVER.get(package, ())
    }
    assert not missing, f"declare in pyproject.toml: {'; '.join(sorted(missing))}"

"""The names of the packages: imported when they are asked for, and all there."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest

from tests.patience import completed

ROOT = Path(__file__).parent.parent
PACKAGES = ["mbe_stage", "mbe_stage.groups", "mbe_stage.pipeline"]


def in_a_new_process(code: str) -> str:
    """What the code prints; the packages are not imported yet."""
    return completed([sys.executable, "-c", code], cwd=ROOT, check=True).stdout.strip()


@pytest.mark.parametrize("name", PACKAGES)
def test_every_name_is_there(name: str) -> None:
    package = importlib.import_module(name)
    assert sorted(package.__all__) == sorted(name for names in package._NAMES.values() for name in names)
    assert set(package.__all__) <= set(dir(package))
    for public in package.__all__:
        # A constant has no name.
        assert getattr(getattr(package, public), "__name__", public) == public
    with pytest.raises(AttributeError, match=f"module '{name}' has no attribute 'nothing'"):
        package.nothing  # noqa: B018 - looked up


@pytest.mark.parametrize("name", PACKAGES)
def test_star_import(name: str) -> None:
    package = importlib.import_module(name)
    assert in_a_new_process(f"from {name} import *; print(sorted(vars()))").count("'") // 2 >= len(package.__all__)


@pytest.mark.parametrize("problem", ["bicliques.enumerate", "cliques.enumerate", "pq_counts.count"])
def test_what_a_problem_gives_is_a_name_of_the_package(problem: str) -> None:
    package, module = (importlib.import_module(name) for name in ("mbe_stage", f"mbe_stage.{problem}"))
    given = {
        name: value
        for name, value in vars(module).items()
        if not name.startswith("_") and getattr(value, "__module__", None) == module.__name__
    }
    assert given
    assert given.keys() <= set(package.__all__)
    assert all(getattr(package, name) is value for name, value in given.items())


def test_a_function_is_no_module_whoever_imports_it_first() -> None:
    """The import of a submodule sets an attribute of the package: no name may be that of a module."""
    for name in PACKAGES:
        package = importlib.import_module(name)
        modules = {path.stem for path in ROOT.joinpath(*name.split(".")).iterdir()}
        assert not modules & set(package.__all__)


@pytest.mark.parametrize("name", PACKAGES)
def test_the_package_alone_imports_nothing_heavy(name: str) -> None:
    heavy = "{'numpy', 'numba', 'pyarrow', 'pydantic', 'scipy'}"
    assert in_a_new_process(f"import sys, {name}; print({heavy} & set(sys.modules))") == "set()"
